"""A real stockaded whose operator is the test."""
import contextlib
import errno
import fcntl
import os
import pathlib
import secrets
import select
import shutil
import socket
import subprocess
import tempfile
import time

import plans
import wire

HERE = pathlib.Path(__file__).resolve().parent
ENOUGH = 150  # seconds: the warden itself gives a start no longer, in whichever box
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def new_id():
    return secrets.token_hex(8)


def memory_file(data, seals=SEALS):
    fd = os.memfd_create("plan", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(f"{answer.error}: {answer.text} ({answer.hint})")
        self.error, self.text, self.hint = answer.error, answer.text, answer.hint


class Daemon:
    """One state folder; its daemon may be started, killed and started again."""

    def __init__(self, who=None, conf="", build=None, folder=None):
        self.who = who  # (uid, gid) to run as, or None for ourselves
        self.state = pathlib.Path(folder or tempfile.mkdtemp(prefix="stockade-warden-"))
        os.chmod(self.state, 0o755)
        self.folder = self.state / "state"
        self.log = self.state / "log"
        self.conf = self.state / "stockade.conf"
        self.conf.write_text(conf)
        self.script = self.state / "operator"
        shutil.copy(HERE / "operator", self.script)
        os.chmod(self.script, 0o755)
        self.program = str(pathlib.Path(build or plans.BUILD) / "src/warden/stockaded")
        self.process = self.link = self.relay = None
        self.serial = 0
        self.items, self.told = [], []
        self.pids = []  # of every PID 1 that was started
        if who:
            os.chown(self.state, *who)
            os.chown(self.conf, *who)

    def start(self, env=None, wait=True, args=()):
        (self.folder / "operator").mkdir(parents=True, exist_ok=True)
        if self.who:
            for p in (self.folder, self.folder / "operator"):
                os.chown(p, *self.who)
        os.chmod(self.folder, 0o711)
        at = self.folder / "operator/test.sock"
        at.unlink(missing_ok=True)
        self.waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(at.parent, os.O_PATH)
        self.waiting.bind(f"/proc/self/fd/{here}/test.sock")
        os.close(here)
        os.chmod(at, 0o777)
        self.waiting.listen(8)
        command = [self.program, "--state", str(self.folder), "--config", str(self.conf), "--operator", str(self.script),
                   *args]
        user = dict(user=self.who[0], group=self.who[1], extra_groups=[]) if self.who else {}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=dict(os.environ, **(env or {})), **user)
        if wait:
            self.connect()
            return self.hello()
        return None

    def said(self):
        return self.log.read_text(errors="replace")

    def connect(self, timeout=60):
        """Takes the link of the operator that the daemon started."""
        self.waiting.settimeout(timeout)
        try:
            self.relay, _ = self.waiting.accept()
        except TimeoutError:
            raise AssertionError(f"no operator was started:\n{self.said()}") from None
        self.relay.settimeout(timeout)
        raw, fds = wire.receive(self.relay)
        assert raw.startswith(b"operator") and len(fds) == 3, raw
        self.operator = int(raw.split()[1])
        if self.link:
            self.link.close()
        self.link = socket.socket(fileno=fds[0])
        wire.close(fds[1:])
        self.link.setblocking(True)

    def hello(self):
        return self.ask("hello", version=1)[0]

    def send(self, kind, flags=0, fds=(), **values):
        self.serial += 1
        wire.send(self.link, wire.pack(kind, self.serial, flags, **values), fds)
        return self.serial

    def read(self, timeout=ENOUGH):
        """The next message: (message, descriptors)."""
        ready, _, _ = select.select([self.link], [], [], timeout)
        assert ready, f"no answer in {timeout} s:\n{self.said()}"
        raw, fds = wire.receive(self.link)
        if not raw:
            raise EOFError("the warden closed the link")
        return wire.unpack(raw), fds

    def answer(self, serial, timeout=ENOUGH):
        """The answer to one request; what else comes meanwhile is kept."""
        for kept in self.told:
            if kept[0].kind == "answer" and kept[0].serial == serial:
                self.told.remove(kept)
                break
        else:
            while True:
                kept = self.read(timeout)
                if kept[0].kind == "answer" and kept[0].serial == serial:
                    break
                (self.items if kept[0].kind == "item" else self.told).append(kept)
        if kept[0].error < 0:
            wire.close(kept[1])
            raise Refused(kept[0])
        return kept

    def drop(self, id):
        """A disk goes. As the operator asks for it, again while it is busy: the kernel may take its device apart later."""
        def gone():
            try:
                self.ask("disk-drop", id=id)
            except Refused as e:
                assert e.error == -errno.EBUSY, e
                return False
            return True
        until(gone)

    def ask(self, kind, flags=0, fds=(), **values):
        return self.answer(self.send(kind, flags, fds, **values))

    def wait_told(self, kind, timeout=60):
        end = time.monotonic() + timeout
        while True:
            for kept in self.told:
                if kept[0].kind == kind:
                    self.told.remove(kept)
                    return kept[0]
            assert time.monotonic() < end, f"{kind} did not come:\n{self.said()}"
            kept = self.read(end - time.monotonic())
            (self.items if kept[0].kind == "item" else self.told).append(kept)

    # --- sandboxes ---

    def send_start(self, plan, id=None, fds=(), flags=0, **values):
        raw = plan if isinstance(plan, bytes) else plan.bytes()
        fd = memory_file(raw)
        try:
            return self.send("start", flags, [fd, *fds], id=id or new_id(), **values)
        finally:
            os.close(fd)

    def begin(self, plan, id=None, **values):
        """Starts one; returns (id, answer, socket to its guest, other descriptors)."""
        id = id or new_id()
        answer, fds = self.answer(self.send_start(plan, id, **values))
        guest = socket.socket(fileno=fds[0])
        self.pids.append(answer.pid)
        return id, answer, guest, fds[1:]

    def stop(self, id, flags=0):
        return self.ask("stop", flags, id=id)[0]

    def list(self):
        self.items = []
        self.ask("list")
        found, self.items = [m for m, _ in self.items], []
        return found

    def running(self):
        return {m.id for m in self.list() if m.item == wire.SANDBOX}

    # --- ends ---

    def kill(self):
        """kill -9 of the daemon alone."""
        self.process.kill()
        self.process.wait()
        self.let_go()

    def let_go(self):
        for s in (self.link, self.relay):
            if s:
                s.close()
        self.link = self.relay = None
        self.items, self.told = [], []

    def down(self, kill=True):
        """The orderly end, with all sandboxes."""
        if self.process and self.process.poll() is None:
            self.ask("down", wire.KILL if kill else 0)
            self.wait_told("end")
            self.let_go()
            assert self.process.wait(60) == 0, self.said()

    def clear(self):
        """Whatever state it is in: afterwards nothing is left."""
        if self.process is None:
            pass
        elif self.process.poll() is None:
            with contextlib.suppress(Exception):
                self.down()
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
                self.let_go()
                self.start()
                self.down()
        elif (self.folder / "run/sandboxes").exists() and any((self.folder / "run/sandboxes").iterdir()):
            self.let_go()
            self.start()
            self.down()
        self.let_go()
        shutil.rmtree(self.state, ignore_errors=True)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def until(what, timeout=60):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def cgroups(word):
    """Every cgroup of the host with this word in its name."""
    return [os.path.join(at, name) for at, names, _ in os.walk("/sys/fs/cgroup") for name in names if word in name]
