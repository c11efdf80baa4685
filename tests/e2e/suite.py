"""The suite's own place: a cgroup, a mount namespace and a user that nobody else has, and the question "is anything left?".

What else happens on the machine is not mistaken for something that a sandbox left behind. The mounts here are shared
among themselves, as on a host with systemd: a mount that escapes from a sandbox shows up.
"""
import atexit
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

import harness
from harness import CGROUP, IS_ROOT, MUST_WORK, PURE_V2, SOURCE, until


class Suite:
    """What is made once: folders, binaries that everybody can execute, cgroup, namespace, users."""

    def __init__(self):
        binary = Path(os.environ.get("STOCKADE", SOURCE / "build/src/cli/stockade")).resolve()
        if not binary.exists():
            pytest.exit(f"there is no '{binary}': build first, or set STOCKADE", 4)
        self.claim()
        self.folder = Path(tempfile.mkdtemp(prefix="stockade-e2e-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.launcher = self.reachable(binary)
        self.cgroups, self.watched = [], []
        if IS_ROOT:
            self.own_mounts()
            self.own_cgroups()
        self.people = {}
        atexit.register(self.remove)

    def claim(self):
        """A user of our own, so that two suites at once do not find each other's sandboxes."""
        for slot in range(8):
            self.lock = open(f"/var/tmp/stockade-e2e-{slot}.lock", "a", encoding="ascii")  # pylint: disable=R1732
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                harness.TEST_USER, harness.TEST_UID = f"stockade-e2e-{slot}", 4260 + 4 * slot
                return
            except BlockingIOError:
                self.lock.close()
        pytest.exit("eight suites are running already", 4)

    def reachable(self, binary):
        """The launcher with its siblings in one folder that every user can reach."""
        siblings = [binary, binary.with_name("stockade-policy")]
        guest = binary.with_name("stockade-guest")
        siblings.append(guest if guest.exists() else binary.parents[1] / "guest/stockade-guest")
        for name, place in (("stockade-gate", "gate"), ("stockade-gate-tls.so", "gate"), ("stockade-verify", "verify"),
                            ("stockade-probe", "probe"), ("stockade-ledger", "ledger"), ("stockaded", "warden"),
                            ("stockade-operator", "operator"), ("stockade-pack", "pack")):
            siblings += [file for file in (binary.with_name(name), binary.parents[1] / place / name) if file.exists()][:1]
        folder = self.folder / "bin"
        folder.mkdir()
        for file in siblings:
            shutil.copy(file, folder / file.name)
        return folder / binary.name

    def own_mounts(self):
        libc = ctypes.CDLL(None, use_errno=True)
        CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_SHARED = 0x20000, 0x4000, 1 << 18, 1 << 20
        if libc.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        # nobody else's temporary files are in the way, unless we live among them ourselves
        in_tmp = any(str(path).startswith("/tmp/") for path in (SOURCE, Path.cwd(), sys.executable))
        self.watched = ["/dev/shm"] if in_tmp else ["/tmp", "/dev/shm"]
        mounts = [(b"none", b"/", None, MS_REC | MS_PRIVATE, None)]
        mounts += [(b"tmpfs", path.encode(), b"tmpfs", 0, b"mode=1777") for path in self.watched]
        for mount in [*mounts, (b"none", b"/", None, MS_REC | MS_SHARED, None)]:
            if libc.mount(*mount):
                raise OSError(ctypes.get_errno(), f"mount {mount}")
        # the network namespaces of others: their mounts would go from here, too, when they are removed there
        places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for place in reversed([p for p in places if p.startswith("/run/netns")]):
            libc.umount2(place.encode(), 2)  # MNT_DETACH; it may have gone meanwhile

    def own_cgroups(self):
        """A child of our own cgroup in every hierarchy; everything that is started here stays below it."""
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            mount = CGROUP / controllers.removeprefix("name=") if controllers else CGROUP / "unified"
            if not controllers and not mount.exists():
                mount = CGROUP
            if not (mount / "cgroup.procs").exists() or controllers == "cpuset":
                continue
            path = mount / own.lstrip("/") / f"e2e-{os.getpid()}"
            path.mkdir(exist_ok=True)
            (path / "cgroup.procs").write_text(str(os.getpid()))
            self.cgroups.append(path)

    def clear(self):
        """After a failure: ends what a sandbox left running, so that the next test starts from nothing. Only where
        nobody else's sandboxes can be."""
        own = [root for root in self.cgroup_roots() if root in self.cgroups or root.name == str(harness.TEST_UID) or MUST_WORK]

        def ended():
            left = self.processes(own)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not left
        until(ended)

    def remove(self):
        if self.cgroups:
            self.clear()
        for person in self.people.values():
            person.leave()
        for path in self.cgroups:
            (path.parent / "cgroup.procs").write_text(str(os.getpid()))
            until(lambda: remove_tree(path))  # pylint: disable=cell-var-from-loop
        shutil.rmtree(self.folder, ignore_errors=True)

    def person(self, name):
        if name not in self.people:
            self.people[name] = harness.Person(self, name)
        return self.people[name]

    # --- is anything left?

    def cgroup_roots(self):
        """Where cgroups of our sandboxes can be."""
        below = "stockade" if PURE_V2 else f"stockade/{harness.TEST_UID}"
        delegated = [top / below for top in [CGROUP, *CGROUP.glob("*/")] if (top / below / "cgroup.procs").exists()]
        return self.cgroups + delegated

    def cgroup_dirs(self):
        found = set()
        for root in self.cgroup_roots():
            for path, names, _ in os.walk(root):
                found.update(f"{path}/{name}" for name in names if name not in ("launcher", "shell"))
        return found

    def processes(self, roots=None):
        """Processes in our cgroups, other than this one."""
        found = set()
        for root in roots or self.cgroup_roots():
            for path, _, files in os.walk(root):
                if "cgroup.procs" in files:
                    try:
                        found.update(int(pid) for pid in Path(path, "cgroup.procs").read_text().split())
                    except OSError:
                        pass
        found -= {os.getpid(), 0}
        return {pid: command_of(pid) for pid in found}

    def files(self):
        places = ["/run/stockade", "/var/lib/stockade/apply", *self.watched]
        places += [str(p.home / ".local/state/stockade/apply") for p in self.people.values()]
        return {os.path.join(place, name) for place in places if os.path.isdir(place) for name in os.listdir(place)}

    def digest(self):
        """Network namespaces are in it too: only a process, a descriptor of one or a mount keeps one alive."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return {"mounts": sorted(line.split(" - ")[0].split(" ", 4)[4] for line in mounts),
                "cgroups": sorted(self.cgroup_dirs()),
                "processes": sorted(self.processes().items()),
                "files": sorted(self.files())}

    def left_since(self, before, seconds=harness.ENOUGH):
        """What is there now and was not there before, after a time in which all should have gone; {} if nothing."""
        left = {}

        def nothing():
            left.clear()
            for key, now in self.digest().items():
                new = [item for item in now if item not in before[key]]
                if new:
                    left[key] = new
            return not left
        until(nothing, seconds)
        return left


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "(gone)"


def remove_tree(cgroup):
    """Removes a cgroup and those below it; returns whether it is gone. A process may still be on its way out."""
    for path, _, _ in os.walk(cgroup, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            pass
    return not cgroup.exists()
