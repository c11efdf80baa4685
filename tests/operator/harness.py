"""What every test of the daemon needs: one that runs on a folder of its own, a client of its local protocol, ways to kill
its parts, and the question "is anything left?".

STOCKADE             the launcher to test (default: build/src/cli/stockade); its daemons are looked for beside it
STOCKADE_MUST_WORK   1: a mechanism that is missing on this host is a failure, not a skip
STOCKADE_E2E_SCALE   how many rounds the long tests take, 1 by default, 0.1 for a glance
STOCKADE_E2E_SLOW    how much slower than a desktop this machine is (emulated ones: 10)
"""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/common"))
from stopwatch import Stopwatch, quickest  # noqa: E402,F401

SCALE = float(os.environ.get("STOCKADE_E2E_SCALE", "1"))
SLOW = float(os.environ.get("STOCKADE_E2E_SLOW", "1"))
MUST_WORK = os.environ.get("STOCKADE_MUST_WORK") == "1"
ENOUGH = 40  # seconds: what comes at all has come by then, however busy this machine is
IS_ROOT = os.geteuid() == 0
CGROUP = Path("/sys/fs/cgroup")
FRAME_MAX = 256 * 1024
PROGRAMS = {"stockade": "cli", "stockade-policy": "cli", "stockaded": "warden", "stockade-operator": "operator",
            "stockade-gate": "gate", "stockade-gate-tls.so": "gate", "stockade-guest": "guest", "stockade-pack": "pack",
            "stockade-ledger": "ledger", "stockade-ssh": "ssh", "stockade-remote": "remote", "stockade-probe": "probe", "stockade-verify": "verify",
            **{f"stockade-box-{name}": "driver" for name in ("docker", "gvisor", "microvm", "firecracker")}, "stockade-vm-files": "driver"}

# The driver that every sandbox of these tests has, unless a test says otherwise: the suites of sandboxes that live are also
# the conformance suite of drivers (tests/driver).
DRIVER = os.environ.get("STOCKADE_DRIVER", "native")
# seconds for an answer: a machine that is emulated may take two minutes to start, and the first one is preceded by a probe
ANSWER = 240 if DRIVER in ("microvm", "firecracker") else 60

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


def is_test_build():
    """Whether the programs can be told to end themselves at a step, or to do without a layer (meson -Dknockout=true)."""
    launcher = os.environ.get("STOCKADE", str(SOURCE / "build/src/cli/stockade"))
    return "TEST BUILD" in subprocess.run([launcher, "--version"], capture_output=True, text=True).stdout


def until(condition, seconds=ENOUGH, step=0.005):
    """Waits for condition() to become true; returns whether it did."""
    end = time.monotonic() + seconds * SLOW
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(step)
    return True


# --- the local protocol (docs/protocol/local.md)

class Refused(Exception):
    """The operator said no: code, message, hint."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']} ({error['hint']})")
        self.code, self.message, self.hint = error["code"], error["message"], error["hint"]


class Gone(Exception):
    """The connection ended without an answer: the operator died, or never lived."""


class Call:
    """One request on a connection of its own. Frames come with next(); answer() waits for the last one."""

    def __init__(self, path, body, timeout=ANSWER):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout * SLOW)
        self.out, self.err, self.events = bytearray(), bytearray(), []
        try:
            self.socket.connect(str(path))
            self.send("Q", body if isinstance(body, bytes) else json.dumps(body).encode())
        except OSError as e:
            self.socket.close()
            raise Gone(str(e)) from e

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, data=b""):
        self.socket.sendall(struct.pack("<IBxxx", len(data), ord(kind)) + data)

    def input(self, data, end=True):
        """Until it is all sent, or the answer has come early and nobody reads any more."""
        try:
            for i in range(0, len(data), FRAME_MAX):
                self.send("I", data[i:i + FRAME_MAX])
            if end:
                self.send("F")
        except BrokenPipeError:
            pass

    def control(self, **what):
        self.send("C", json.dumps(what).encode())

    def receive(self, size):
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError as e:
                raise Gone("reset") from e
            if not part:
                raise Gone(f"the connection ended after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    def next(self):
        """The next frame: (kind, bytes)."""
        size, kind = struct.unpack("<IBxxx", self.receive(8))
        return chr(kind), self.receive(size)

    def event(self):
        """Reads up to the next event. What else comes is kept."""
        while True:
            kind, data = self.next()
            if kind == "E":
                return json.loads(data)
            self.take(kind, data)

    def take(self, kind, data):
        if kind == "O":
            self.out += data
        elif kind == "R":
            self.err += data
        elif kind == "E":
            self.events.append(json.loads(data))
        elif kind == "A":
            answer = json.loads(data)
            if answer["ok"]:
                return answer["result"]
            raise Refused(answer["error"])
        return None

    def until_out(self, text, seconds=ENOUGH):
        """Reads until this text is in what came out."""
        end = time.monotonic() + seconds * SLOW
        while text not in self.out:
            assert time.monotonic() < end, f"{text} is not in {bytes(self.out)[-500:]}"
            kind, data = self.next()
            assert kind != "A", f"it ended: {data}"
            self.take(kind, data)

    def answer(self):
        while True:
            kind, data = self.next()
            result = self.take(kind, data)
            if kind == "A":
                return result


class Client:
    """client.create(profile="low"), client.exec(id, [...]): every verb of the protocol is a method."""

    def __init__(self, path):
        self.path = path

    def call(self, verb, timeout=ANSWER, **fields):
        return Call(self.path, {"verb": verb.replace("_", "-"), **fields}, timeout)

    def ask(self, verb, **fields):
        with self.call(verb, **fields) as c:
            return c.answer()

    def __getattr__(self, verb):
        return lambda **fields: self.ask(verb, **fields)

    def run(self, sandbox, *argv, data=None, **fields):
        """exec, to its end: the run object with `out` and `err`."""
        with self.call("exec", sandbox=sandbox, argv=list(argv), stdin=data is not None, **fields) as c:
            if data is not None:
                c.input(data)
            result = c.answer()
            return {**result, "out": bytes(c.out), "err": bytes(c.err)}

    def sh(self, sandbox, script, **fields):
        return self.run(sandbox, "/bin/sh", "-c", script, **fields)


# --- the daemon

def stat_of(pid):
    """(parent, start time, state), or None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), int(fields[19]), fields[0]


def alive(pid):
    now = stat_of(pid)
    return now is not None and now[2] not in "ZX"


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Programs:
    """Our programs in one folder that every user can reach."""

    def __init__(self, folder):
        launcher = Path(os.environ.get("STOCKADE", SOURCE / "build/src/cli/stockade")).resolve()
        if not launcher.exists():
            pytest.exit(f"there is no '{launcher}': build first, or set STOCKADE", 4)
        self.folder = folder / "bin"
        self.folder.mkdir()
        for name, place in PROGRAMS.items():
            for file in (launcher.with_name(name), launcher.parents[1] / place / name):
                if file.exists():
                    shutil.copy(file, self.folder / name)
                    break

    def __getattr__(self, name):
        path = self.folder / name.replace("_", "-")
        if not path.exists():
            pytest.exit(f"there is no '{path.name}': build first", 4)
        return path


class Daemon:
    """A warden with its operator on a state folder of its own. `who` is a uid for a rootless one, None for root."""

    def __init__(self, programs, folder, conf="", who=None, env=None):
        self.programs, self.state, self.who, self.extra = programs, folder / "state", who, dict(env or {})
        self.state.mkdir(mode=0o700)
        self.config = folder / "stockade.conf"
        for key, value in (("listen", "none"), ("local_group", "*"), ("drivers", DRIVER)):
            if not re.search(rf"^{key}\b", conf, re.M):
                conf = f"{key} = {value}\n{conf}"
        if re.search(r"^pool = [1-9]", conf, re.M) and "pool_drivers" not in conf:  # boxes wait only where a test is about it
            conf = f"pool_drivers = {DRIVER}\n{conf}"
        self.config.write_text(conf)
        self.config.chmod(0o644)
        if who:
            for path in (folder, self.state, self.config):
                os.chown(path, who, who)
        self.log = folder / "log"
        self.process = None
        self.seen = {}  # pid → start time of everything of ours that was ever looked at
        self.client = Client(self.socket)

    @property
    def socket(self):
        return self.state / "run/operator.sock"

    def environment(self):
        home = str(self.state.parent)
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LANG": "C.UTF-8", **self.extra}

    def start(self, wait=True, seconds=ENOUGH):
        def become():
            if self.who:
                os.setgroups([])
                os.setresgid(self.who, self.who, self.who)
                os.setresuid(self.who, self.who, self.who)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(self.programs.stockaded), "--state", str(self.state), "--config", str(self.config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd="/", preexec_fn=become)
        if wait:
            assert self.wait(seconds), f"the daemon does not answer: {self.said()}"
        return self

    def answers(self, timeout=20):
        try:
            self.client.ask("ping", timeout=timeout)
            return True
        except (Gone, OSError):
            return False

    def wait(self, seconds=ENOUGH):
        """Until it answers."""
        return until(lambda: self.process.poll() is not None or self.answers(), seconds) and self.process.poll() is None

    def said(self):
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    # parts

    @property
    def warden(self):
        return self.process.pid

    def children(self, name):
        return [pid for pid in pids() if (stat_of(pid) or (0,))[0] == self.warden
                and os.path.basename((command_of(pid).split() or [""])[0]) == name]

    @property
    def operator(self):
        found = self.children("stockade-operator")
        return found[0] if found else None

    @property
    def gates(self):
        return self.children("stockade-gate")

    def guest(self, sandbox):
        """The pid of PID 1 of a running sandbox."""
        return int(next(line.split()[1] for line in self.info(sandbox).splitlines() if line.startswith("pid ")))

    def stopwatch(self, *others):
        """How long those who serve take for something, from now on: operator, warden, and who else has a part in it."""
        return Stopwatch(self.operator, self.warden, *others)

    def info(self, sandbox):
        """What the warden has written down about a running sandbox."""
        return (self.state / "run/sandboxes" / sandbox / "info").read_text(errors="replace")

    def kill_operator(self, wait=True):
        old = self.operator
        os.kill(old, signal.SIGKILL)
        if wait:
            assert until(lambda: self.operator not in (None, old)) and self.wait(), f"no new operator: {self.said()}"

    def kill_warden(self, restart=True):
        """The warden alone; its operator ends because nothing works without it."""
        old = self.operator
        self.process.kill()
        self.process.wait()
        assert until(lambda: old is None or not alive(old)), "the operator lives on without its warden"
        if restart:
            self.start()

    def kill_all(self, restart=True):
        """Everything of ours but what is inside sandboxes."""
        victims = [self.operator, *self.gates]
        self.process.kill()
        for pid in filter(None, victims):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        if restart:
            self.start()

    def memory(self):
        """Resident bytes of warden, operator and gates, shared pages counted by share."""
        total = 0
        for pid in [self.warden, self.operator, *self.gates]:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        return total

    def down(self, stop=True, seconds=60):
        """`stockade down`; with stop the sandboxes end too."""
        if self.process is None or self.process.poll() is not None:
            return
        try:
            if self.answers(timeout=10):
                self.client.ask("down", stop=stop)
            else:
                self.process.terminate()
        except (Gone, Refused, OSError):
            self.process.terminate()
        try:
            self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            self.kill_all(restart=False)
            raise

    def end(self):
        """After a test, whatever happened in it: nothing of this daemon goes on."""
        try:
            self.down()
        except subprocess.TimeoutExpired:
            pass
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        until(lambda: not self.processes())
        self.remove_nests()

    def remove_nests(self):
        """The cgroups that one that was killed had for its sandboxes; one that went down has removed them itself."""
        for file in (self.state / "run/nests").glob("*"):
            for nest in re.findall(rf"{CGROUP}/\S*/stockaded-[0-9a-f]+", file.read_text(errors="replace")):
                for path, _, _ in os.walk(nest, topdown=False):
                    try:
                        os.rmdir(path)
                    except OSError:
                        pass

    # is anything left?

    def ids(self):
        """Every id of a sandbox, disk or image that has a name in our folders, or had one in the ledger."""
        found = set()
        for place in ("run/sandboxes", "disks", "images"):
            folder = self.state / place
            found.update(name for name in os.listdir(folder) if re.fullmatch("[0-9a-f]{16}", name)) if folder.is_dir() else None
        for segment in (self.state / "operator/ledger").glob("*"):
            if segment.is_file() and segment.stat().st_size < 1 << 26:
                found.update(re.findall(r'"sandbox":"([0-9a-f]{16})"', segment.read_text(errors="replace")))
        return found

    def processes(self):
        """Everything that belongs to this daemon: by its arguments, or in a cgroup of one of its sandboxes."""
        ids, found = self.ids(), []
        parent = self.process.pid if self.process and self.process.poll() is None else None  # else it may be somebody's number by now
        for pid in pids():
            try:
                groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
            except OSError:
                continue
            ours = any(f"stockade-{name}" in groups for name in ids) or str(self.state) in command_of(pid)
            if (ours or (parent and (stat_of(pid) or (0,))[0] == parent)) and alive(pid):
                found.append(pid)
        return [pid for pid in found if pid != os.getpid()]

    def cgroups(self):
        wanted = {f"stockade-{name}" for name in self.ids()}
        return sorted(f"{path}/{name}" for path, names, _ in os.walk(CGROUP) for name in wanted.intersection(names))

    def mounts(self):
        return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.state) in line]

    def loops(self):
        found = []
        for path in Path("/sys/block").glob("loop*/loop/backing_file"):
            try:
                if str(self.state) in path.read_text():
                    found.append(path.parts[3])
            except OSError:
                pass
        return found

    def left(self, disks=False):
        """What is there though nothing should be, after a time in which all should have gone; {} if nothing."""
        found = {}

        def nothing():
            found.clear()
            looks = {"processes": {pid: command_of(pid) for pid in self.processes()}, "cgroups": self.cgroups(),
                     "mounts": self.mounts(), "loops": self.loops(),
                     "sandboxes": os.listdir(self.state / "run/sandboxes") if (self.state / "run/sandboxes").is_dir() else []}
            if not disks:
                looks["disks"] = os.listdir(self.state / "disks") if (self.state / "disks").is_dir() else []
            found.update({key: value for key, value in looks.items() if value})
            return not found
        until(nothing)
        return found


class Suite:
    """One temporary folder for the session."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="stockade-operator-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.programs = Programs(self.folder)
        self.count = 0
        self.engine = None
        if DRIVER == "docker":
            import engine
            place = self.folder / f"engine-{os.getpid()}"  # cgroups are named so: another suite may run
            place.mkdir()
            self.engine = engine.Engine(place)
            self.engine.start()
        if DRIVER == "firecracker":
            import fc_install
            fc_install.install()
        if DRIVER in ("microvm", "firecracker"):
            import vm
            (self.programs.folder / "microvm").mkdir()
            made = vm.make_image(self.programs.folder / "microvm")
            assert made.returncode == 0, made.stderr

    def daemon(self, **kw):
        self.count += 1
        folder = self.folder / f"daemon-{self.count}"
        folder.mkdir(mode=0o755)
        if self.engine:
            kw["conf"] = f"docker_socket = {self.engine.socket}\n{kw.get('conf', '')}"
        return Daemon(self.programs, folder, **kw)

    def remove(self):
        if self.engine:
            self.engine.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
