"""The rule of the matrix, apart from everything that runs: what a row's verdicts mean.

A row of `stockade verify` names the layers that stop it, each on its own. With all of them off it must be open. With
one of several off it may stay green: then it is covered twice. What cannot be shown is said, with the reason, and
never passes for shown.
"""
from dataclasses import dataclass

# the names of `enum layer` in src/verify/check.h, in its order; "kernel" cannot be switched off
LAYERS = ("seccomp", "ids", "mounts", "flags", "proc", "netns", "gate", "pidns", "ipcns", "cgroup", "rlimits", "fds",
          "streams", "landlock", "nnp", "caps", "init", "keyring", "env", "launcher")
NONE, ALL = frozenset(), frozenset(LAYERS)
# as many as most attempts run with: in the judge's own pid namespace many refuse
EVERY = ALL - {"pidns"}

JUDGE_DEAF = "what arrived is not known"  # its listener did not answer: it says open, to be safe

# what the attacker says where it could do harm
GUARDS = ("not inside a sandbox", "not outside a sandbox", "nothing is tried here")

SHOWN, FAILED, NOT_SHOWN = "shown", "failed", "not shown"

ANYBODY = ("root", "rootless")
# What no switch can show, and why: (callers, reason). Everything else has to turn red.
NO_SWITCH = {
    "seen-ids": (("rootless",), "without root the id is the caller's in any case, and the kernel permits no other"),
    "host-name": (ANYBODY, "the uts namespace stops it in the end, which has no switch"),
    "limit-missing": (ANYBODY, "what this build cannot enforce is refused by the compiler of policies, which keeps its "
                               "plans for later runs and so has no switch"),
    "secret-kept": (ANYBODY, "no code of ours writes such a value anywhere, so there is nothing to leave out"),
    "share-clean": (ANYBODY, "nothing of ours is ever made in a share, so there is nothing to leave out"),
}


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    layers: frozenset  # without "kernel"
    control: str       # none, user, root, init, scene, other
    quick: bool
    kernel: bool       # the kernel itself stops it too, wherever it is as it is here

    @staticmethod
    def of(listed):
        """From one object of `stockade verify --list --json`."""
        layers = frozenset(listed["layers"])
        unknown = layers - ALL - {"kernel"}
        if unknown or not layers:
            raise ValueError(f"{listed['name']}: layers {sorted(layers)}: {sorted(unknown)} cannot be switched off")
        return Row(listed["name"], listed["group"], layers & ALL, listed["control"], listed["quick"],
                   "kernel" in layers)


def wanted(rows, singly=True):
    """Which rows have to be judged with which layers off: {layers: [row]}. Singly: also with each layer alone off."""
    jobs = {NONE: list(rows)}
    for row in rows:
        if not row.layers:
            continue
        jobs.setdefault(row.layers, []).append(row)
        if singly and len(row.layers) > 1:
            for layer in row.layers:
                jobs.setdefault(frozenset([layer]), []).append(row)
    return jobs


def unproven(rows, found):
    """Rows that stay green, and of which nothing shows that they work on this host at all: these are tried once more,
    with every layer off."""
    return [row for row in rows if row.layers and row.control in ("none", "other") and row.layers != EVERY
            and found[row.name].get(row.layers, ("",))[0] != "open"]


def sentinels(rows):
    """Rows that no switch can open. They run in every job: where one of them is open, the judge is not to be believed,
    and what else it called open says nothing about a layer."""
    return [row for row in rows if not row.layers and row.quick]


def believe(found, watched):
    """The verdicts of one job, or "lost" for all of them if the judge failed. `found`: {name: (verdict, why)}."""
    for row in watched:
        verdict, why = found.get(row.name, ("lost", "is not in the report"))
        if verdict not in ("promised", "otherwise"):
            return {name: ("lost", f"the judge failed: {row.name}, which nothing switches off, is {verdict}: {why}")
                    for name in found}
    return {name: ("lost", why) if verdict == "open" and JUDGE_DEAF in why else (verdict, why)
            for name, (verdict, why) in found.items()}


def judge(row, caller, found):
    """What was shown of a row. `found` has (verdict, why) by layers that were off. Returns one of the three words and a
    sentence."""
    before, why = found.get(NONE, ("lost", "was not judged"))
    if before in ("open", "lost"):
        return FAILED, f"{before} with every layer on: {why}"
    if not row.layers:
        return NOT_SHOWN, "the kernel alone stops it"
    if before == "permitted":
        return NOT_SHOWN, "the profile allows it"
    if before == "untried":
        return NOT_SHOWN, f"could not be tried with every layer on either: {why}"
    after, why = found.get(row.layers, ("lost", "was not judged"))
    if after == "open":
        return SHOWN, ""
    if after == "lost":
        return FAILED, f"lost with {', '.join(sorted(row.layers))} off: {why}"
    if row.name in NO_SWITCH and caller in NO_SWITCH[row.name][0]:
        return NOT_SHOWN, NO_SWITCH[row.name][1]
    if after == "untried" and any(words in why for words in GUARDS):
        return NOT_SHOWN, f"the attacker refuses to try it where these layers are off: {why}"
    if caller == "rootless" and row.control == "root":
        return NOT_SHOWN, "an ordinary user cannot do it without a sandbox either"
    if row.control in ("none", "other") and found.get(EVERY, ("", ""))[0] not in ("open", "lost", ""):
        return NOT_SHOWN, f"not even open with every layer but pidns off, and no control claims that it works here: {why}"
    if row.kernel:
        return NOT_SHOWN, f"the kernel stops it too: {why}"
    return FAILED, f"{after} with {', '.join(sorted(row.layers))} off: {why}"


def mark(row, layer, found):
    """One cell: turns red alone, covered by others, not its layer; "?" if nobody looked."""
    if layer not in row.layers:
        return "·"
    alone = found.get(frozenset([layer]))
    return "?" if alone is None else "●" if alone[0] == "open" else "○"


def twice(row, caller, found):
    """Covered twice, and proven: several layers, at least one of which is not missed alone, and red without them all."""
    return len(row.layers) > 1 and judge(row, caller, found)[0] == SHOWN and any(
        mark(row, layer, found) == "○" for layer in row.layers)


def thin(rows):
    """What is worth ten minutes: every row that is quick, and for a layer that none of these is about, the first that
    is."""
    chosen = [row for row in rows if row.quick]
    for layer in LAYERS:
        if not any(layer in row.layers for row in chosen):
            chosen += [row for row in rows if layer in row.layers][:1]
    return chosen
