"""What every end-to-end test needs: the binary, the two people who start it, and the question "is anything left?".

The suite lives in a cgroup and a mount namespace of its own, so that what else happens on the machine is not mistaken
for something that a sandbox left behind. Its mounts are shared among themselves, as on a host with systemd: a mount
that escapes from a sandbox shows up here. It needs root; started by somebody else it tests the rootless half alone.

STOCKADE             the launcher to test (default: build/src/cli/stockade)
STOCKADE_MUST_WORK   1: a mechanism that is missing on this host is a failure, not a skip
STOCKADE_E2E_SCALE   how many rounds the long tests take, 1 by default, 0.1 for a glance
STOCKADE_E2E_SLOW    how much slower than a desktop this machine is (emulated ones: 10)
"""
import atexit
import ctypes
import fcntl
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
SCALE = float(os.environ.get("STOCKADE_E2E_SCALE", "1"))
SLOW = float(os.environ.get("STOCKADE_E2E_SLOW", "1"))
MUST_WORK = os.environ.get("STOCKADE_MUST_WORK") == "1"
IS_ROOT = os.geteuid() == 0
TEST_USER, TEST_UID = "stockade-e2e-0", 4260  # the first free one of several: see Suite.claim
CGROUP = Path("/sys/fs/cgroup")
PURE_V2 = (CGROUP / "cgroup.controllers").exists()
PYTHON = "/usr/bin/python3"
# what a user without delegated cgroups has to do without
WITHOUT_CGROUPS = [word for key in ("limits.memory", "limits.processes", "limits.cpus", "budget.cpu")
                   for word in ("--accept-missing", key)]


def rounds(count):
    return max(3, int(count * SCALE))


def missing(why):
    """A mechanism that this host does not have."""
    if MUST_WORK:
        pytest.fail(f"must work here, but: {why}")
    pytest.skip(why)


def until(condition, seconds=2.0, step=0.005):
    """Waits for condition() to become true; returns whether it did."""
    end = time.monotonic() + seconds * SLOW
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(step)
    return True


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
        global TEST_USER, TEST_UID  # pylint: disable=global-statement
        for slot in range(8):
            self.lock = open(f"/var/tmp/stockade-e2e-{slot}.lock", "a", encoding="ascii")  # pylint: disable=R1732
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                TEST_USER, TEST_UID = f"stockade-e2e-{slot}", 4260 + 4 * slot
                return
            except BlockingIOError:
                self.lock.close()
        pytest.exit("eight suites are running already", 4)

    def reachable(self, binary):
        """The launcher with its siblings in one folder that every user can reach."""
        siblings = [binary, binary.with_name("stockade-policy")]
        guest = binary.with_name("stockade-guest")
        siblings.append(guest if guest.exists() else binary.parents[1] / "guest/stockade-guest")
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
        own = [root for root in self.cgroup_roots() if root in self.cgroups or root.name == str(TEST_UID) or MUST_WORK]

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
            try:
                (path.parent / "cgroup.procs").write_text(str(os.getpid()))
                for below in sorted(path.glob("**/"), reverse=True):
                    below.rmdir()
            except OSError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def person(self, name):
        if name not in self.people:
            self.people[name] = Person(self, name)
        return self.people[name]

    # --- is anything left?

    def cgroup_roots(self):
        """Where cgroups of our sandboxes can be."""
        below = "stockade" if PURE_V2 else f"stockade/{TEST_UID}"
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
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return {"mounts": sorted(line.split(" - ")[0].split(" ", 4)[4] for line in mounts),
                "cgroups": sorted(self.cgroup_dirs()),
                "processes": sorted(self.processes().items()),
                "networks": len(networks()) if not self.shared_machine() else 0,
                "files": sorted(self.files())}

    def shared_machine(self):
        """Somebody else starts sandboxes here at the same time: namespaces of others come and go."""
        return not MUST_WORK

    def left_since(self, before, seconds=2.0):
        """What is there now and was not there before, after at most two seconds; {} if nothing."""
        left = {}

        def nothing():
            left.clear()
            for key, now in self.digest().items():
                if isinstance(now, int):
                    new = now - before[key] if now > before[key] else 0
                else:
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


def networks():
    found = set()
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/net"))
            except OSError:
                pass
    return found


class Person:
    """Somebody who starts sandboxes: root, or a user without any privilege whom root has set up once."""

    def __init__(self, suite, name):
        self.suite, self.name, self.rootless = suite, name, name == "rootless"
        self.options = []
        if not self.rootless:
            if not IS_ROOT:
                missing("not started by root")
            self.uid = self.gid = 0
        elif IS_ROOT:
            self.uid = self.gid = TEST_UID
            self.enrol()
        else:
            self.uid, self.gid = os.geteuid(), os.getegid()
        self.home = suite.folder / name
        self.home.mkdir()
        os.chown(self.home, self.uid, self.gid)
        self.count = 0

    def enrol(self):
        """Once, as root: the user, and what `stockade setup` gives it. Taken back when the suite ends."""
        try:
            pwd.getpwnam(TEST_USER)
        except KeyError:
            subprocess.run(["/usr/sbin/useradd", "--uid", str(TEST_UID), "--user-group", "--no-create-home",
                            "--home-dir", "/nonexistent", "--shell", "/bin/sh", TEST_USER], check=True)
        done = subprocess.run([self.suite.launcher, "setup", "--user", TEST_USER], capture_output=True, check=False)
        if done.returncode:
            pytest.fail(f"stockade setup --user {TEST_USER}: {done.stdout.decode()}{done.stderr.decode()}")

    def leave(self):
        if IS_ROOT and self.rootless:
            subprocess.run([self.suite.launcher, "setup", "--user", TEST_USER, "--remove"], capture_output=True, check=False)
            subprocess.run(["/usr/sbin/userdel", TEST_USER], capture_output=True, check=False)

    def become(self):
        """In the child, before the launcher: the cgroup where a login shell of this user would be, and its ids."""
        shell = CGROUP / f"stockade/{TEST_UID}/shell/cgroup.procs"
        if PURE_V2 and shell.exists():
            shell.write_text("0")
        os.setgroups([])
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)

    def environment(self, extra=None):
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "xterm", **(extra or {})}

    def popen(self, argv, env=None, **kw):
        first = kw.pop("first", None)

        def prepare():
            if first:
                first()
            if IS_ROOT and self.rootless:
                self.become()
        if first or (IS_ROOT and self.rootless):
            kw["preexec_fn"] = prepare
        kw.setdefault("cwd", self.home)
        return subprocess.Popen([str(word) for word in argv], env=self.environment(env), **kw)

    def folder(self, name="place"):
        """A new folder that belongs to this person."""
        self.count += 1
        path = self.home / f"{name}-{self.count}"
        path.mkdir()
        os.chown(path, self.uid, self.gid)
        return path

    def command(self, *args, record=None):
        return [self.suite.launcher, "run", *(["--record", record] if record else []), *self.options, *args]


class Result:
    def __init__(self, status, out, err, record, wall):
        self.status, self.out, self.err, self.record, self.wall = status, out, err, record, wall

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    @property
    def reason(self):
        return self.record["reason"]

    def ok(self):
        """The run went well; returns standard output as text."""
        assert self.status == 0, f"status {self.status}\n{self.text[-500:]}\n{self.errors[-2000:]}"
        return self.text

    def __repr__(self):
        return f"<{self.status} out={self.out[-300:]!r} err={self.err[-500:]!r} record={self.record}>"


def finish(process, record=None, input=None, timeout=20):
    """Waits for a started launcher and collects what it left."""
    start = time.monotonic()
    try:
        out, err = process.communicate(input, timeout * SLOW)
    except subprocess.TimeoutExpired:
        process.kill()
        try:
            out, err = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # somebody else holds the pipes
            out = err = b"(pipes are still open)"
        pytest.fail(f"still running after {timeout} s: {process.args}\n{(out or b'')[-500:]!r}\n{(err or b'')[-500:]!r}")
    return Result(process.returncode, out or b"", err or b"", read_record(record), time.monotonic() - start)


def read_record(path):
    if not path or not os.path.exists(path):
        return None
    text = Path(path).read_text()
    os.unlink(path)
    return json.loads(text)


def run(person, *args, input=b"", timeout=20, env=None, record=True, **kw):
    """`stockade run ARGS`, to its end. Streams are pipes unless said otherwise."""
    path = person.home / "record.json" if record else None
    for stream in ("stdout", "stderr"):
        kw.setdefault(stream, subprocess.PIPE)
    if "stdin" in kw:
        input = None
    else:
        kw["stdin"] = subprocess.PIPE
    process = person.popen(person.command(*args, record=path), env=env, **kw)
    return finish(process, path, input, timeout)


def start(person, *args, record=None, **kw):
    """`stockade run ARGS`, in the background."""
    for stream in ("stdin", "stdout", "stderr"):
        kw.setdefault(stream, subprocess.PIPE)
    return person.popen(person.command(*args, record=record), **kw)


def verb(person, *args, env=None, timeout=20, cwd=None):
    """Any other verb."""
    process = person.popen([person.suite.launcher, *args], env=env, cwd=cwd or person.home, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return finish(process, None, None, timeout)


def stop(process):
    """Ends a background launcher, whatever state it is in."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def compile_c(suite, source, *options):
    """A small helper program, built once for the suite."""
    target = suite.folder / Path(source).stem
    if not target.exists():
        subprocess.run(["cc", "-O1", "-Wall", "-o", target, Path(__file__).with_name(source), *options], check=True)
    return target
