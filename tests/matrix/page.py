"""The matrix as text: one table per caller, what is covered twice, what could not be shown, what failed."""
import datetime
import platform

import rule

BEGIN = "<!-- everything below is written by `make check-matrix` -->"


def table(rows, here):
    lines = ["| check | " + " | ".join(rule.LAYERS) + " |", "|---|" + ":-:|" * len(rule.LAYERS)]
    for row in rows:
        lines.append(f"| {row.name} | " + " | ".join(rule.mark(row, layer, here[row.name]) for layer in rule.LAYERS) + " |")
    return lines


def sort_out(rows, results):
    """Every row for every caller and profile: {word: [(row, caller, profile, sentence)]}."""
    sorted_out = {rule.SHOWN: [], rule.FAILED: [], rule.NOT_SHOWN: []}
    for (caller, profile), here in results.items():
        for row in rows:
            word, sentence = rule.judge(row, caller, here[row.name])
            sorted_out[word].append((row, caller, profile, sentence))
    return sorted_out


def grouped(entries):
    """The same check with the same sentence is one line."""
    lines = {}
    for row, caller, profile, sentence in entries:
        lines.setdefault((row.name, sentence), []).append(f"{caller}/{profile}")
    return [f"- `{name}` ({', '.join(where)}): {sentence}" for (name, sentence), where in lines.items()]


def covered_twice(rows, results):
    found = {}
    for (caller, profile), here in results.items():
        for row in rows:
            if rule.twice(row, caller, here[row.name]):
                kept = [layer for layer in rule.LAYERS if rule.mark(row, layer, here[row.name]) == "○"]
                found.setdefault((row.name, ", ".join(layer for layer in rule.LAYERS if layer in row.layers),
                                  ", ".join(kept)), []).append(f"{caller}/{profile}")
    return [f"- `{name}`: open without {layers}; still refused without any one of: {kept} ({', '.join(where)})"
            for (name, layers, kept), where in found.items()]


def never_shown(rows, results):
    """Checks that turned red for no caller and profile, each once, with every reason."""
    lines = []
    for row in rows:
        found = [rule.judge(row, caller, here[row.name]) for (caller, _), here in results.items()]
        if all(word == rule.NOT_SHOWN for word, _ in found):
            reasons = dict.fromkeys(sentence for _, sentence in found)
            lines.append(f"- `{row.name}`: {'; '.join(reasons)}")
    return lines


def summary(rows, results):
    """One line of numbers."""
    sorted_out = sort_out(rows, results)
    places = ", ".join(f"{caller}/{profile}" for caller, profile in results)
    twice = sum(rule.twice(row, caller, here[row.name]) for (caller, _), here in results.items() for row in rows)
    return (f"{len(rows)} checks as {places}: {len(sorted_out[rule.SHOWN])} times a check turned red with all of its "
            f"layers off{f', {twice} of these covered twice' if twice else ''}; {len(sorted_out[rule.NOT_SHOWN])} times not shown, "
            f"{len(never_shown(rows, results))} checks never; {len(sorted_out[rule.FAILED])} failures")


def make(rows, results):
    """The page's text and the failures."""
    sorted_out = sort_out(rows, results)
    failures = sorted_out[rule.FAILED]
    lines = [f"Measured on {datetime.date.today()} with Linux {platform.release()} ({platform.machine()}), in one run: "
             f"{summary(rows, results)}.", "", "## Never shown", "", "Checks that turned red in none of these:", "",
             *(never_shown(rows, results) or ["- none"]), ""]
    for (caller, profile), here in results.items():
        lines += [f"## {caller}, profile {profile}", "", "● turns red when this layer alone is off · ○ named, but others cover it · "
                  "· not its layer", "", *table(rows, here), ""]
    lines += ["## Covered twice", "", "Red with all of these layers off, still green with one of them off:", "",
              *(covered_twice(rows, results) or ["- none"]), ""]
    lines += ["## Not shown", "", *(grouped(sorted_out[rule.NOT_SHOWN]) or ["- none"]), ""]
    lines += ["## Failures", "", *(grouped(failures) or ["- none"])]
    return "\n".join(lines), failures


def keep(path, text):
    """Everything up to the mark is for people to write."""
    head = path.read_text().split(BEGIN)[0].rstrip() if path.exists() else "# Layer knock-out"
    path.write_text(f"{head}\n\n{BEGIN}\n\n{text}\n")
