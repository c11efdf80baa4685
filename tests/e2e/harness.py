"""What every end-to-end test needs: the binary, and the two people who start it.

The suite needs root; started by somebody else it tests the rootless half alone.

STOCKADE             the launcher to test (default: build/src/cli/stockade)
STOCKADE_MUST_WORK   1: a mechanism that is missing on this host is a failure, not a skip
STOCKADE_E2E_SCALE   how many rounds the long tests take, 1 by default, 0.1 for a glance
STOCKADE_E2E_SLOW    how much slower than a desktop this machine is (emulated ones: 10)
"""
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/common"))
from stopwatch import quickest  # noqa: E402,F401

SCALE = float(os.environ.get("STOCKADE_E2E_SCALE", "1"))
SLOW = float(os.environ.get("STOCKADE_E2E_SLOW", "1"))
MUST_WORK = os.environ.get("STOCKADE_MUST_WORK") == "1"
ENOUGH = 30  # seconds: what comes at all has come by then, however busy this machine is
IS_ROOT = os.geteuid() == 0
TEST_USER, TEST_UID = "stockade-e2e-0", 4260  # the first free one of several: see suite.py
CGROUP = Path("/sys/fs/cgroup")
PURE_V2 = (CGROUP / "cgroup.controllers").exists()
PYTHON = "/usr/bin/python3"
# what a user without delegated cgroups has to do without
WITHOUT_CGROUPS = [word for key in ("limits.memory", "limits.processes", "limits.cpus", "budget.cpu")
                   for word in ("--accept-missing", key)]

# whoever ends a suite early ends what it started, too: as ^C does
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.default_int_handler)


def rounds(count):
    return max(3, int(count * SCALE))


def missing(why):
    """A mechanism that this host does not have."""
    if MUST_WORK:
        pytest.fail(f"must work here, but: {why}")
    pytest.skip(why)


def until(condition, seconds=ENOUGH, step=0.005):
    """Waits for condition() to become true; returns whether it did."""
    end = time.monotonic() + seconds * SLOW
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(step)
    return True


def processor_time():
    """Seconds of processor time that our children have taken: what else this machine does is not in it."""
    times = os.times()
    return times.children_user + times.children_system


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


def finish(process, record=None, input=None, timeout=60):
    """Waits for a started launcher and collects what it left."""
    start = time.monotonic()
    try:
        out, err = process.communicate(input, timeout * SLOW)
    except subprocess.TimeoutExpired:
        process.kill()
        try:
            out, err = process.communicate(timeout=ENOUGH)
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


def run(person, *args, input=b"", timeout=60, env=None, record=True, **kw):
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


def verb(person, *args, env=None, timeout=60, cwd=None):
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
