"""kill -9 of `stockade run` at any moment leaves nothing: no process, mount, cgroup, namespace, lock or file, and a
workspace that is wholly old or wholly new.

More than two hundred rounds for root and for an ordinary user: most of the kills fall into the start of a sandbox, the
rest anywhere up to its end. Several run at once, because what a killed launcher leaves to its keeper takes the keeper a
few tenths of a second.

Everything that is looked at is private to the test: our folders are empty ones in the judge's mount namespace, orphans
come back to this process, cgroups are the judge's own or have no owner.
"""
import ctypes
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import judge
from judge import CGROUP, PROBE, SLOW, TEST_UID

SCALE = float(os.environ.get("STOCKADE_E2E_SCALE", "1"))
ROUNDS, AT_ONCE, LOOK = max(3, int(24 * SCALE)), 6, 3  # ROUNDS of AT_ONCE for each person; a look at everything after LOOK of them
PR_SET_CHILD_SUBREAPER, MNT_DETACH = 36, 2
FOLDERS = [Path("/run/stockade"), Path("/var/cache/stockade"), Path("/var/lib/stockade")]
STAY = ["/bin/sh", "-c", "(setsid sleep 300 &); (trap '' HUP TERM INT; sleep 300) & exec sleep 300"]
WRITE = ["/bin/sh", "-c", "echo new >file; echo x >added; rm gone; mkdir -p a/b; echo y >a/b/c; ln -s c a/b/link"]
OLD = {"file": "old\n", "gone": "g\n"}
NEW = {"file": "new\n", "added": "x\n", "a": None, "a/b": None, "a/b/c": "y\n", "a/b/link": "->c"}
NETWORK = "profile: 1\nextends: low\nnetwork:\n  allow:\n    - {host: nobody.example.test, ports: [80]}\n"
# what a cache keeps: entries that were finished. Anything else in it is litter.
KEPT = re.compile(r"(plans/[0-9a-f]{64}|trees/[0-9a-f]{32}|plans|trees)$")


def private_folders():
    """Empty folders over ours, in the judge's mount namespace."""
    for path in FOLDERS:
        path.mkdir(parents=True, exist_ok=True)
        mode = b"mode=711" if path.parent.name == "run" else b"mode=700"
        judge.call("mount", b"kill", str(path).encode(), b"tmpfs", ctypes.c_ulong(0), mode)
    judge.call("mount", b"kill", b"/dev/shm", b"tmpfs", ctypes.c_ulong(0), b"mode=1777")


@pytest.fixture(scope="module", autouse=True)
def place(host):
    """Our own folders, a gate beside the launcher, and orphans that come to us."""
    build = Path(os.environ.get("STOCKADE", judge.SOURCE / "build/src/cli/stockade")).resolve().parents[1]
    if not (host.launcher.parent / "stockade-gate").exists():
        shutil.copy(build / "gate/stockade-gate", host.launcher.parent)
    judge.call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    private_folders()
    host.person("root").run("low", ["/bin/true"])  # makes the file of id locks
    profile = host.folder / "network.yaml"
    profile.write_text(NETWORK)
    yield profile
    for path in [*FOLDERS, "/dev/shm"]:
        judge.call("umount2", str(path).encode(), MNT_DETACH)
    judge.call("prctl", PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


pytestmark = pytest.mark.usefixtures("unchanged")


# --- what could be left

def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            pass
    return found


def processes(known=()):
    """Everything below this process but for what is known; orphans that are dead are buried."""
    found, waiting = {}, [pid for pid in children(os.getpid()) if pid not in known]
    while waiting:
        pid = waiting.pop()
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            if state == "Z":
                if os.getpid() == int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]):
                    os.waitpid(pid, os.WNOHANG)
                continue
            found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        except (OSError, IndexError):
            continue
        waiting += children(pid)
    return found


def ownerless(path):
    """A leaf without processes that no launcher holds a lock on."""
    try:
        if (path / "cgroup.procs").read_text().strip():
            return False
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def cgroups(host, person):
    """Groups of our sandboxes: below the judge's own all of them, among the user's those that nobody owns."""
    found = set(host.cgroup_dirs())
    for top in [CGROUP, *CGROUP.glob("*/")] if person.rootless else []:
        found.update(str(path) for path in (top / f"stockade/{TEST_UID}").glob("stockade-*") if ownerless(path))
    return found


def locks():
    """Locks on files in our folders, which are file systems of their own."""
    devices = [os.lstat(folder).st_dev for folder in FOLDERS]
    marks = [f" {os.major(device):02x}:{os.minor(device):02x}:" for device in devices]
    return [line for line in Path("/proc/locks").read_text().splitlines() if any(mark in line for mark in marks)]


def litter(person):
    """Files in our folders, and in the user's, that no finished run keeps."""
    found = []
    for top in [Path("/var/cache/stockade"), person.home / ".cache/stockade"]:
        found += [str(path) for path in [*top.glob("*"), *top.glob("*/*")] if not KEPT.match(str(path.relative_to(top)))]
    for top in [Path("/var/lib/stockade/apply"), person.home / ".local/state/stockade/apply"]:
        found += map(str, top.glob("*"))
    return found + [str(path) for path in Path("/run/stockade").iterdir() if path.name != "ids"]


def mounts():
    return sorted(line.split(" ", 4)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())


class Before:
    """The state before some rounds, and what is different from it."""

    def __init__(self, host, person):
        self.host, self.person = host, person
        self.known = set(children(os.getpid()))
        judge.until(lambda: not locks())
        self.cgroups, self.mounts = cgroups(host, person), mounts()

    def left(self):
        now = {"processes": processes(self.known), "cgroups": sorted(cgroups(self.host, self.person) - self.cgroups),
               "mounts": [line for line in mounts() if line not in self.mounts], "locks": locks(),
               "litter": litter(self.person)}
        return {key: value for key, value in now.items() if value}

    def left_at_last(self):
        judge.until(lambda: not self.left(), step=0.05)
        return self.left()


# --- rounds

def moment(draw):
    """Seconds until the kill: most while the sandbox is being made."""
    return draw.uniform(0, draw.choice([0.006, 0.015, 0.03, 0.1])) * SLOW


def contents(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = f"->{os.readlink(path)}" if path.is_symlink() else None if path.is_dir() else path.read_text()
    return found


def renew(person, folder):
    """A workspace in its old state."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
        os.chown(folder / name, person.uid, person.gid)
    os.chown(folder, person.uid, person.gid)


def kill_all(runs):
    """Each is killed when its time has come; returns when all are dead."""
    while runs:
        now = time.monotonic()
        for run in [run for run in runs if run[1] <= now]:
            run[0].kill()
            run[0].wait()
            runs.remove(run)
        time.sleep(0.0003)


def start(person, profile, command, *options):
    return person.start(profile, command, options, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)


def kinds(person, profile):
    """What is killed, in turn. The last two work on workspaces of their own."""
    spaces = [person.home / f"space-{i}" for i in range(2)]
    return spaces, [("low", STAY, ()), (profile, STAY, ()), ("medium", STAY, ()), (profile, ["/bin/true"], ()),
                    *(("low", WRITE, ("--workspace", space, "--apply")) for space in spaces)]


def test_at_any_moment(host, person, place):
    draw = random.Random(f"kill {person.name}")
    spaces, all_kinds = kinds(person, place)
    for space in spaces:
        renew(person, space)
    for profile, command, options in all_kinds:  # what is kept for later runs is made by runs that nobody kills
        if command is not STAY:
            assert person.run(profile, command, options).status == 0
    for profile in ("low", "medium"):
        person.run(profile, ["/bin/true"])
    for space in spaces:
        renew(person, space)
    before, seen = Before(host, person), {"old": 0, "new": 0}
    assert not before.left()
    whole = max(person.run(profile, command, options).wall for profile, command, options in all_kinds if "--apply" in options)
    for space in spaces:
        renew(person, space)
    for number in range(ROUNDS):
        runs = []
        for profile, command, options in all_kinds:
            process = start(person, profile, command, *options)
            late = draw.uniform(0, 1.5 * whole) if "--apply" in options else 0  # an apply comes at the end
            runs.append((process, time.monotonic() + moment(draw) + late))
            kill_all([run for run in runs if run[1] <= time.monotonic()])
            runs = [run for run in runs if run[0].returncode is None]
        kill_all(runs)
        judge.until(lambda: not processes(before.known))
        for space in spaces:
            check_workspace(person, space, seen)
        if number % LOOK == LOOK - 1:
            left = before.left_at_last()
            assert not left, f"OPEN: round {number}: {left}"
    assert SCALE < 1 or (seen["old"] and seen["new"]), f"the kills were all early or all late: {seen}"


def check_workspace(person, space, seen):
    """What was cut short is finished or undone by the next run with it; then it is one or the other."""
    done = person.run("low", ["/bin/true"], ["--workspace", space, "--apply"])
    assert done.status == 0, done
    found = contents(space)
    assert found in (OLD, NEW), f"OPEN: half of the changes: {found}"
    seen["old" if found == OLD else "new"] += 1
    if found != OLD:
        renew(person, space)


def test_with_empty_caches(host, person, place):
    """The first run of a plan also compiles it and prepares its tree: nothing half made stays in the caches."""
    draw = random.Random(f"cold {person.name}")
    person.run("low", ["/bin/true"])
    before = Before(host, person)
    for number in range(max(2, int(6 * SCALE))):
        runs = []
        for i in range(AT_ONCE):
            process = start(person, place if i % 2 else "low", STAY, "--ro", f"/usr/share:/mnt/{number}-{i}")
            runs.append((process, time.monotonic() + draw.uniform(0, 0.06) * SLOW))
        kill_all(runs)
        left = before.left_at_last()
        assert not left, f"OPEN: round {number}: {left}"


def test_group(host, person, place):
    """The whole process group at once, as a job runner does it."""
    draw = random.Random(f"group {person.name}")
    before = Before(host, person)
    for number in range(4):
        runs = [person.start(profile, STAY, (), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True) for profile in ("low", place, "medium")]
        for process in runs:
            time.sleep(draw.uniform(0, 0.02))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        left = before.left_at_last()
        assert not left, f"OPEN: round {number}: {left}"


def test_control(host, person, place):
    """While it runs, and after a kill that also takes the keeper, there is something to see; the next run removes it."""
    before = Before(host, person)
    process = person.start(place, [PROBE, "stay", *host.facts(person, "low")], (), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline() == b"here\n"
        judge.until(lambda: "stockade-gate" in before.left()["processes"].values())
        found = before.left()
        names = set(found["processes"].values())
        assert {"stockade", "stockade-keeper", "guest", "stockade-gate"} <= names, names
        assert person.rootless or (found["locks"] and found["cgroups"]), found
        for pid in [pid for pid, name in found["processes"].items() if name == "stockade-keeper"]:
            os.kill(pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    judge.until(lambda: not processes(before.known))
    assert judge.until(lambda: before.left().keys() == {"cgroups"}), before.left()
    time.sleep(0.35)  # a younger one may be about to get its lock
    person.run("low", ["/bin/true"])
    left = before.left_at_last()
    assert not left, left
