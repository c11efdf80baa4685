#!/usr/bin/env python3
"""Layers × checks: switches the layers of a sandbox off and sees whether the checks of `stockade verify` notice.

Needs root and a test build (meson setup -Dknockout=true). For every set of layers that a row names, and for every
single one of them, the judge runs once with these layers off, on a host to throw away (throwaway.py); rule.py says what
has to come of it. Exit status 1 if a check stays green with all of its layers off.

    matrix.py [--thin] [--build FOLDER] [--page FILE] [--only NAMES] [--callers …] [--profiles …] [--json FILE]
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import page
import rule
import throwaway

SOURCE = Path(__file__).resolve().parents[2]
JOB_SECONDS = 240


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, default=SOURCE / "build-knockout")
    parser.add_argument("--thin", action="store_true", help="root and rootless, low, quick rows and a few scenes")
    parser.add_argument("--page", type=Path, help="write the matrix into this page")
    parser.add_argument("--json", type=Path, help="write every verdict to this file")
    parser.add_argument("--only", help="only these checks, separated by commas")
    parser.add_argument("--callers", default="root,rootless")
    parser.add_argument("--profiles", default=None)
    chosen = parser.parse_args()
    chosen.profiles = (chosen.profiles or ("low" if chosen.thin else "low,medium")).split(",")
    chosen.callers = chosen.callers.split(",")
    chosen.build = chosen.build.resolve()
    return chosen


def check_build(build):
    done = subprocess.run([build / "src/cli/stockade", "--version"], capture_output=True, text=True, check=True)
    if "TEST BUILD" not in done.stdout:
        sys.exit(f"{build} is not a test build: meson setup -Dknockout=true")
    for layer in rule.LAYERS:  # a name that the build does not know would be a layer that stays on
        subprocess.run([build / "src/cli/stockade", "--version"], check=True, capture_output=True,
                       env={"STOCKADE_KNOCKOUT": layer})


def list_rows(build):
    done = subprocess.run([build / "src/cli/stockade", "verify", "--list", "--json"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=True)
    return [rule.Row.of(listed) for listed in json.loads(done.stdout)]


def run_judge(build, caller, profile, off, rows, watched):
    """One judge. Returns {name: (verdict, why)}."""
    words = ["verify", "--profile", profile, "--json", "--only", ",".join({row.name for row in [*rows, *watched]})]
    names = ",".join(layer for layer in rule.LAYERS if layer in off)
    try:
        done = throwaway.run(caller, build, words, names, JOB_SECONDS)
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {row.name: ("lost", f"no report within {JOB_SECONDS} s") for row in rows}
    except ValueError:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("TEST BUILD")]
        return {row.name: ("lost", f"no report: status {done.returncode}: {' '.join(lines[-3:])[:300]}") for row in rows}
    found = {}
    for group in report["groups"]:
        for check in group["checks"]:
            words = dict.fromkeys(" ".join(check[key].split()) for key in ("why", "seen", "said") if check.get(key))
            found[check["name"]] = (check["verdict"], "; ".join(words)[:200])
    return rule.believe(found, watched)


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_one(chosen, caller, profile, off, concerned, watched, here, number):
    """One judge; its verdicts go to here: {name: {off: (verdict, why)}}."""
    start = time.monotonic()
    found = run_judge(chosen.build, caller, profile, off, concerned, watched)
    for row in concerned:
        here[row.name][off] = found.get(row.name, ("lost", "is not in the report"))
    opened = sum(here[row.name][off][0] == "open" for row in concerned)
    layers = "all but pidns" if off == rule.EVERY else ",".join(sorted(off)) or "none"
    lost = [here[row.name][off][1] for row in concerned if here[row.name][off][0] == "lost"]
    if lost:
        say(f"  {len(lost)} lost: {lost[0]}")
    for row in concerned:
        if not off and here[row.name][off][0] == "open":
            say(f"  {row.name} is open: {here[row.name][off][1]}")
    say(f"{caller} {profile} {number}: {layers} off: {opened} of {len(concerned)} open "
        f"({time.monotonic() - start:.1f} s)")


def run_all(chosen, rows, everything):
    """Every judge that is wanted. Returns {(caller, profile): {name: {off: (verdict, why)}}}."""
    jobs = sorted(rule.wanted(rows, singly=not chosen.thin).items(), key=lambda job: sorted(job[0]))
    watched = rule.sentinels(everything)
    if not watched:
        sys.exit("there is no check that only the kernel stops: nothing would show that the judge fails")
    results = {(caller, profile): {row.name: {} for row in rows}
               for caller in chosen.callers for profile in chosen.profiles}

    def run_caller(caller):
        for profile in chosen.profiles:
            here = results[caller, profile]
            for number, (off, concerned) in enumerate(jobs, 1):
                run_one(chosen, caller, profile, off, concerned, watched, here, f"{number}/{len(jobs)}")
            rest = rule.unproven(rows, here)
            if rest:
                run_one(chosen, caller, profile, rule.EVERY, rest, watched, here, "once more")

    with concurrent.futures.ThreadPoolExecutor(len(chosen.callers)) as pool:  # a judge mostly waits
        list(pool.map(run_caller, chosen.callers))
    return results


def sweep(build):
    """Cgroups of runs whose launcher was told not to tidy up: any ordinary run removes them."""
    subprocess.run([build / "src/cli/stockade", "run", "--quiet", "--", "/bin/true"], capture_output=True, check=False,
                   env={"PATH": "/usr/bin:/bin", "HOME": "/root"}, timeout=60)
    throwaway.tidy()


def write_json(path, results):
    path.write_text(json.dumps({f"{caller}/{profile}": {name: {",".join(sorted(off)): verdict for off, verdict in found.items()}
                                                       for name, found in here.items()}
                                for (caller, profile), here in results.items()}, indent=1))


def main():
    chosen = options()
    if os.geteuid() != 0:
        sys.exit("the matrix needs root: it makes hosts to throw away")
    check_build(chosen.build)
    throwaway.prepare(chosen.build)
    rows = everything = list_rows(chosen.build)
    if chosen.only:
        names = chosen.only.split(",")
        rows = [row for row in rows if row.name in names]
    elif chosen.thin:
        rows = rule.thin(rows)
    start = time.monotonic()
    results = run_all(chosen, rows, everything)
    sweep(chosen.build)
    if chosen.json:
        write_json(chosen.json, results)
    text, failures = page.make(rows, results)
    if chosen.page:
        page.keep(chosen.page, text)
    elif not chosen.thin:
        print(text)
    say(f"{page.summary(rows, results)} ({time.monotonic() - start:.0f} s)")
    for line in page.grouped(failures):  # last, where whoever reads the log looks first
        say(f"FAILED {line}")
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
