"""The judge: stands outside, plants what must not be reached, and says from the host's view what happened.

It lives in a mount, network, IPC and UTS namespace and in cgroups of its own, below those of the machine, so that
what else happens there is not mistaken for a sandbox's doing, and so that its listeners and shared memory are nobody
else's business. For a sandbox that it starts, these are the host.

A verdict is never taken from the probe's word alone: a secret that shows up in its output, a listener that was reached,
a signal that arrived, a file that changed is OPEN, whatever the probe says.

STOCKADE         the launcher to judge (default: build/src/cli/stockade)
STOCKADE_PROBE   the probe (default: src/probe/stockade-probe in the same build folder)
STOCKADE_ADVERSARY_TABLE   a file to write every check and verdict to, as a table
"""
import atexit
import ctypes
import fcntl
import json
import os
import pty
import pwd
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/common"))
from stopwatch import quickest  # noqa: E402,F401

TEST_USER, TEST_UID = "stockade-test", 4242
CGROUP = Path("/sys/fs/cgroup")
PROBE = "/usr/bin/false"  # where the probe is inside: over a program that every profile may execute
SETID = "/usr/bin/nice"   # where its set-user-ID copy is
SLOW = float(os.environ.get("STOCKADE_E2E_SLOW", "1"))
ATTEMPT_SECONDS = 20  # then an attempt is ended by its own alarm: src/probe/main.c
ENOUGH = 30  # seconds: what comes at all has come by then, however busy this machine is
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x20000, 0x4000000, 0x8000000, 0x40000000

PROMISED, OTHERWISE, OPEN, UNTRIED = "promised", "otherwise", "OPEN", "not tried"


def call(name, *args):
    result = getattr(LIBC, name)(*args)
    if result == -1:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


def until(condition, seconds=ENOUGH, step=0.02):
    end = time.monotonic() + seconds * SLOW
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(step)
    return True


def verdict(check, line, seen=(), profile="low"):
    """What an attempt came to. `line` is what the probe said, `seen` what the judge saw of this attempt."""
    if line is None or line["result"] in ("not tried", "guarded"):
        return UNTRIED
    if seen or line["result"] == "done" or any(secret in json.dumps(line) for secret in check.secrets):
        return OPEN
    if line["result"] == "killed":
        return OTHERWISE
    return PROMISED if line["errno"] in check.errnos(profile) else OTHERWISE


VERDICTS = {}


def note(check, line, person, profile, found):
    """For the table at the end. The worse of two verdicts, without and with a terminal, stays."""
    row = VERDICTS.setdefault(check.name, {"group": check.group, "mechanism": check.mechanism, "control": check.control})
    key = f"{person}/{profile}"
    if row.get(key) in (None, PROMISED, "allowed"):
        row[key] = found
    if line and line["errno"]:
        row.setdefault("errno", set()).add(line["errno"])


def write_table(path):
    """Every check with its verdicts, as a table in Markdown."""
    columns = [f"{person}/{profile}" for person in ("root", "rootless") for profile in ("low", "medium")]
    lines = ["| group | check | stopped by | errno | " + " | ".join(columns) + " | works where |",
             "|" + "---|" * (5 + len(columns))]
    for name, row in VERDICTS.items():
        cells = [row["group"], name, row["mechanism"], " ".join(sorted(row.get("errno", ()))),
                 *(row.get(column, "") for column in columns), row["control"]]
        lines.append("| " + " | ".join(cells) + " |")
    Path(path).write_text("\n".join(lines) + "\n")


class Listener:
    """Answers and remembers who came: each client says a token and the name of its attempt."""

    def __init__(self, family, kind, address, run_in=None):
        self.heard, self.socket = [], None
        ready = threading.Event()
        self.thread = threading.Thread(target=self.serve, args=(family, kind, address, run_in, ready), daemon=True)
        self.thread.start()
        ready.wait(ENOUGH)

    def serve(self, family, kind, address, run_in, ready):
        if run_in is not None:  # a network namespace belongs to a thread
            with open(f"/proc/{run_in}/ns/net") as namespace:
                call("setns", namespace.fileno(), CLONE_NEWNET)
        self.socket = socket.socket(family, kind)
        if family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.bind(address)
        if kind == socket.SOCK_STREAM:
            self.socket.listen(16)
        ready.set()
        while True:
            if kind == socket.SOCK_STREAM:
                client, _ = self.socket.accept()
                client.settimeout(10)
                try:
                    self.heard.append(client.recv(200).decode(errors="replace"))
                except OSError:
                    self.heard.append("(connected)")
                client.close()
            else:
                data, who = self.socket.recvfrom(200)
                self.heard.append(data.decode(errors="replace"))
                self.socket.sendto(b"here", who)

    @property
    def port(self):
        return self.socket.getsockname()[1]


class Victim:
    """A process of the host that must not notice anything. It writes down every signal it gets."""

    SCRIPT = ("import os,signal,sys,time\n"
              "log=open(sys.argv[1],'a',buffering=1)\n"
              "for n in range(1,32):\n"
              "    if n not in (9,19): signal.signal(n,lambda s,f:log.write(f'{s}\\n'))\n"
              "print('up',flush=True)\n"
              "while True: time.sleep(100)\n")

    def __init__(self, person, path):
        self.path = path
        path.touch()
        os.chown(path, person.uid, person.gid)
        self.process = person.popen(["/usr/bin/python3", "-ISc", self.SCRIPT, path], stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid
        self.before = self.state()

    def state(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return {"state": fields[0] in "SR", "nice": fields[16], "group": fields[2], "tracer": tracer(self.pid),
                "signals": self.path.read_text(), "limits": Path(f"/proc/{self.pid}/limits").read_text(),
                "processors": os.sched_getaffinity(self.pid)}

    def changed(self):
        if self.process.poll() is not None:
            return ["it is dead"]
        now = self.state()
        return [f"{key}: {self.before[key]} -> {now[key]}" for key in now if now[key] != self.before[key]]


def tracer(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return status.split("TracerPid:")[1].split()[0]


class Person:
    """Who starts the sandbox: root, or an ordinary user."""

    def __init__(self, host, name):
        self.host, self.name, self.rootless = host, name, name == "rootless"
        self.uid = self.gid = TEST_UID if self.rootless else 0
        self.home = host.folder / name
        self.home.mkdir()
        os.chown(self.home, self.uid, self.gid)
        self.count = 0
        if self.rootless:
            self.enrol()

    def enrol(self):
        try:
            pwd.getpwnam(TEST_USER)
        except KeyError:
            subprocess.run(["/usr/sbin/useradd", "--uid", str(TEST_UID), "--user-group", "--no-create-home",
                            "--home-dir", "/nonexistent", "--shell", "/bin/sh", TEST_USER], check=True)
        done = subprocess.run([self.host.launcher, "setup", "--user", TEST_USER], capture_output=True, check=False)
        if done.returncode:
            pytest.exit(f"stockade setup --user {TEST_USER}: {done.stderr.decode()}", 4)

    def folder(self, mode=0o755):
        """A new folder of the host that belongs to this person."""
        self.count += 1
        path = self.home / f"place-{self.count}"
        path.mkdir()
        path.chmod(mode)
        os.chown(path, self.uid, self.gid)
        return path

    def become(self):
        """In the child, before the launcher: with cgroup v2 alone, where a login shell of this user would be; its ids."""
        if self.rootless:
            shell = CGROUP / f"stockade/{TEST_UID}/shell/cgroup.procs"
            if (CGROUP / "cgroup.controllers").exists() and shell.exists():
                shell.write_text("0")
            os.setgroups([])
            os.setresgid(self.gid, self.gid, self.gid)
            os.setresuid(self.uid, self.uid, self.uid)
        self.host.plant_key()

    def popen(self, argv, env=None, **kw):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "xterm",
                       self.host.secret_name: self.host.token("environment"), "ADVERSARY": self.host.nonce}
        return subprocess.Popen([str(word) for word in argv], env={**environment, **(env or {})},
                                cwd=kw.pop("cwd", self.home), preexec_fn=self.become, **kw)

    def start(self, profile, argv, options=(), record=None, **kw):
        command = [self.host.launcher, "run", "--profile", profile, "--quiet",
                   "--ro", f"{self.host.probe}:{PROBE}", "--ro", f"{self.host.setid}:{SETID}",
                   "--env", f"ADVERSARY={self.host.nonce}", *(["--record", record] if record else []), *options, "--"]
        return self.popen([*command, *argv], **kw)

    def run(self, profile, argv, options=(), timeout=90, input=b"", **kw):
        """`stockade run` to its end."""
        record = self.home / f"record-{secrets.token_hex(4)}.json"
        kw.setdefault("stdin", subprocess.PIPE)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        start = time.monotonic()
        process = self.start(profile, argv, options, record, **kw)
        try:
            out, err = process.communicate(input if kw["stdin"] == subprocess.PIPE else None, timeout * SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail(f"still running after {timeout} s: {argv}")
        return self.finish(process, out, err, record, time.monotonic() - start)

    def finish(self, process, out, err, record, wall):
        made = json.loads(record.read_text()) if record.exists() and record.stat().st_size else None
        if record.exists():
            record.unlink()
        if made:
            self.host.ids.append(made["id"])
        return Run(process.returncode, out or b"", err or b"", made, wall)

    def run_on_terminal(self, profile, argv, options=(), timeout=90, input=b""):
        """The same with a terminal on all three streams; what it shows is the output."""
        record = self.home / f"record-{secrets.token_hex(4)}.json"
        ours, theirs = pty.openpty()
        start = time.monotonic()
        process = self.start(profile, argv, options, record, stdin=theirs, stdout=theirs, stderr=theirs,
                             start_new_session=True)
        os.close(theirs)
        out, end = b"", time.monotonic() + timeout * SLOW
        if input:
            os.write(ours, input)
        while time.monotonic() < end:
            ready, _, _ = select.select([ours], [], [], 0.1)
            if ready:
                try:
                    more = os.read(ours, 65536)
                except OSError:
                    break
                if not more:
                    break
                out += more
            elif process.poll() is not None:
                break
        if process.poll() is None:
            try:
                process.wait(ENOUGH)
            except subprocess.TimeoutExpired:
                process.kill()
                pytest.fail(f"still running after {timeout} s: {argv}: {out[-300:]!r}")
        os.close(ours)
        return self.finish(process, out, b"", record, time.monotonic() - start)

    def probe(self, profile, name, options=(), on_terminal=False, facts=(), **kw):
        """Runs one attempt, or all-quick, inside; returns the run."""
        run = self.run_on_terminal if on_terminal else self.run
        return run(profile, [PROBE, name, *self.host.facts(self, profile), *facts], options, **kw)


class Terminal:
    """A conversation with a command on a terminal."""

    def __init__(self, person, profile, argv, options=()):
        self.ours, theirs = pty.openpty()
        self.process = person.start(profile, argv, options, stdin=theirs, stdout=theirs, stderr=theirs,
                                    start_new_session=True)
        self.theirs, self.shown = theirs, ""

    def type(self, keys, answer, again=ENOUGH):
        """Types, and waits until the answer is shown. A key that has its effect only on what runs already is typed again."""
        end, typed = time.monotonic() + ENOUGH, 0
        while answer not in self.shown.replace("\r", ""):
            assert time.monotonic() < end, f"no {answer!r} in {self.shown!r}"
            if time.monotonic() - typed > again or not typed:
                os.write(self.ours, keys.encode())
                typed = time.monotonic()
            if select.select([self.ours], [], [], 0.1)[0]:
                self.shown += os.read(self.ours, 65536).decode(errors="replace")
        self.shown = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)
        time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


class Run:
    def __init__(self, status, out, err, record, wall):
        self.status, self.out, self.err, self.record, self.wall = status, out, err, record, wall

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def lines(self):
        """What the probe said, by attempt."""
        found = {}
        for line in self.text.replace("\r", "").splitlines():
            if line.startswith("{"):
                said = json.loads(line)
                found[said["name"]] = said
        return found

    @property
    def only(self):
        assert len(self.lines) == 1, self
        return next(iter(self.lines.values()))

    def __repr__(self):
        return f"<status {self.status} out={self.out[-800:]!r} err={self.err[-800:]!r} record={self.record}>"


class Host:
    """Everything that is planted, and the digest."""

    def __init__(self):
        if os.geteuid() != 0:
            pytest.skip("the judge needs root: it plants secrets as others", allow_module_level=True)
        launcher = Path(os.environ.get("STOCKADE", SOURCE / "build/src/cli/stockade")).resolve()
        probe = Path(os.environ.get("STOCKADE_PROBE", launcher.parents[2] / "src/probe/stockade-probe"))
        for file in (launcher, probe):
            if not file.exists():
                pytest.exit(f"there is no '{file}': build first, or set STOCKADE and STOCKADE_PROBE", 4)
        self.nonce, self.ids, self.people, self.cleanup = f"adv{secrets.token_hex(6)}", [], {}, []
        self.pid, self.tokens = os.getpid(), {}
        self.host_pidns = os.stat("/proc/self/ns/pid").st_ino
        atexit.register(self.remove)
        self.folder = Path(tempfile.mkdtemp(prefix=f"stockade-{self.nonce}-"))
        self.folder.chmod(0o755)
        self.cleanup.append(lambda: shutil.rmtree(self.folder, ignore_errors=True))
        self.launcher = self.copy_programs(launcher, probe)
        self.own_namespaces()
        self.own_cgroups()
        self.other_network()
        self.plant_files()
        self.plant_sockets()
        self.plant_memory()

    def token(self, name):
        """A secret that nobody can guess, for one thing."""
        return self.tokens.setdefault(name, f"SECRET-{name}-{secrets.token_hex(8)}")

    @property
    def secret_name(self):
        return "ADVERSARY_SECRET"

    def copy_programs(self, launcher, probe):
        folder = self.folder / "bin"
        folder.mkdir()
        for name in ("stockade", "stockade-policy", "stockade-guest"):
            shutil.copy(launcher.with_name(name), folder / name)
        self.probe, self.setid = folder / "stockade-probe", folder / "setid"
        shutil.copy(probe, self.probe)
        shutil.copy(probe, self.setid)
        self.setid.chmod(0o4755)
        return folder / "stockade"

    def own_namespaces(self):
        call("unshare", CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)
        MS_REC, MS_PRIVATE, MS_SHARED = 0x4000, 1 << 18, 1 << 20
        for how in (MS_PRIVATE, MS_SHARED):  # shared among themselves: a mount that gets out of a sandbox shows here
            call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | how), None)

    def own_cgroups(self):
        self.cgroups = []
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            mount = CGROUP / controllers.removeprefix("name=") if controllers else CGROUP / "unified"
            if not controllers and not mount.exists():
                mount = CGROUP
            if not (mount / "cgroup.procs").exists() or controllers == "cpuset":
                continue
            path = mount / own.lstrip("/") / self.nonce
            path.mkdir()
            (path / "cgroup.procs").write_text(str(os.getpid()))
            self.cgroups.append(path)

        def leave():
            for path in self.cgroups:
                try:
                    (path.parent / "cgroup.procs").write_text(str(os.getpid()))
                    for below in sorted(path.glob("**/"), reverse=True):
                        below.rmdir()
                except OSError:
                    pass
        self.cleanup.append(leave)

    def other_network(self):
        """A second machine, as far as networks go, at the other end of a cable."""
        run = lambda *words: subprocess.run(words, check=True)
        run("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647")
        self.other = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
        self.cleanup.append(self.other.kill)
        mine = os.stat("/proc/self/ns/net").st_ino
        until(lambda: os.stat(f"/proc/{self.other.pid}/ns/net").st_ino != mine)
        run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(self.other.pid))
        run("ip", "address", "add", "198.51.100.1/24", "dev", "near")
        run("ip", "link", "set", "near", "up")
        run("ip", "route", "add", "224.0.0.0/4", "dev", "near")
        enter = ["nsenter", "--net", "--target", str(self.other.pid), "ip"]
        run(*enter, "link", "set", "lo", "up")
        run(*enter, "address", "add", "198.51.100.2/24", "dev", "far")
        run(*enter, "link", "set", "far", "up")

    def plant_files(self):
        self.canaries = {}
        for name, place in (("root", "/root"), ("home", "/home"), ("tmp", "/tmp")):
            path = Path(place) / f"canary-{self.nonce}"
            path.write_text(self.token(f"host-{name}-file"))
            path.chmod(0o644)
            self.canaries[name] = path
            self.cleanup.append(lambda path=path: path.unlink(missing_ok=True))
        self.watched = self.folder / "watched"
        self.watched.mkdir(mode=0o777)
        self.watched.chmod(0o777)

    def plant_sockets(self):
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        v4, v6 = Listener(socket.AF_INET, stream, ("", 0)), None
        for _ in range(50):
            try:
                v6 = Listener(socket.AF_INET6, stream, ("::", v4.port))
                break
            except OSError:
                v4 = Listener(socket.AF_INET, stream, ("", 0))
        udp = Listener(socket.AF_INET, datagram, ("", 0))
        udp6 = Listener(socket.AF_INET6, datagram, ("::", udp.port))
        path = str(self.folder / "listener.sock")
        self.unix = Listener(socket.AF_UNIX, stream, path)
        os.chmod(path, 0o777)
        abstract = Listener(socket.AF_UNIX, stream, f"\0{self.nonce}")
        far = Listener(socket.AF_INET, stream, ("198.51.100.2", 0), self.other.pid)
        far_udp = Listener(socket.AF_INET, datagram, ("198.51.100.2", 0), self.other.pid)
        self.listeners = [v4, v6, udp, udp6, self.unix, abstract, far, far_udp]
        self.net_facts = [f"tcp-port={v4.port}", f"udp-port={udp.port}", "host-address=198.51.100.1",
                          "other-address=198.51.100.2", f"other-port={far.port}", f"other-udp-port={far_udp.port}",
                          f"unix-path={path}", f"unix-abstract={self.nonce}", f"token={self.nonce}"]

    def heard(self, name):
        """What listeners heard from one attempt."""
        return [text for listener in self.listeners for text in listener.heard if text.split()[-1:] == [name]]

    def forget(self):
        for listener in self.listeners:
            listener.heard.clear()

    def plant_memory(self):
        self.shm_key = 0x5354_0000 + secrets.randbelow(0xffff)
        LIBC.shmat.restype = ctypes.c_void_p
        identifier = call("shmget", self.shm_key, 4096, 0o1000 | 0o666)
        at = LIBC.shmat(identifier, None, 0)
        ctypes.memmove(at, self.token("sysv-shared").encode(), len(self.token("sysv-shared")))
        queue = call("mq_open", f"/{self.nonce}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        LIBC.fchmod(queue, 0o666)

    def plant_key(self):
        """In the child that becomes the launcher: a session keyring with a key that its session could read."""
        SYS_add_key, SYS_keyctl, JOIN, SESSION = 248, 250, 1, -3
        if os.uname().machine != "x86_64":
            return
        LIBC.syscall(SYS_keyctl, JOIN, None)
        value = self.token("key-read").encode()
        LIBC.syscall(SYS_add_key, b"user", self.nonce.encode(), value, len(value), SESSION)

    def person(self, name):
        if name not in self.people:
            self.people[name] = Person(self, name)
        return self.people[name]

    def facts(self, person, profile):
        """What the probe is told. It knows where everything is; it may not get there. control=yes lets it try what is
        harmless without a sandbox too."""
        return [f"host-pidns={self.host_pidns}", "control=yes", *(f"canary-{k}={v}" for k, v in self.canaries.items()),
                f"seconds={round(ATTEMPT_SECONDS * SLOW)}", *self.net_facts, f"shm-key={self.shm_key}", f"mq={self.nonce}", f"key={self.nonce}",
                f"secret-name={self.secret_name}", f"setid={SETID}", f"mark={self.nonce}",
                "writable=/tmp,/dev/shm,/home/agent,/dev/pts,/dev/null,/dev/zero,/dev/full,/dev/random,/dev/urandom,"
                "/dev/tty,/mnt/share"]

    # --- before and after

    def marked_processes(self):
        """Processes, anywhere on the machine, that carry our mark and are no child that we know."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if self.nonce.encode() in Path(f"/proc/{pid}/environ").read_bytes() and int(pid) != self.pid:
                    found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:100]
            except OSError:
                pass
        return found

    def wait_for_process(self, words, seconds=ENOUGH):
        end = time.monotonic() + seconds
        while True:
            for pid, command in self.marked_processes().items():
                if command.startswith(words):
                    return pid
            assert time.monotonic() < end, f"no process '{words}…'"
            time.sleep(0.01)

    def cgroup_dirs(self):
        found = set()
        for top in self.cgroups:
            found.update(path for path, _, _ in os.walk(top) if path != str(top) and not path.endswith("/launcher"))
        for top in [CGROUP, *CGROUP.glob("*/")]:
            for path, names, _ in os.walk(top / "stockade"):
                found.update(f"{path}/{name}" for name in names if any(i in name for i in self.ids))
        return sorted(found)

    def digest(self):
        quiet = {"ns_last_pid", "random", "pty", "sched_domain", "keys", "usermodehelper", "perf_event_max_sample_rate"}
        sysctls = {}
        for folder in ("kernel", "vm", "fs"):
            for path in Path("/proc/sys", folder).iterdir():
                if path.name in quiet or not path.is_file() or path.name.endswith(("-nr", "-state", "_nr")):
                    continue
                try:
                    sysctls[str(path)] = path.read_text()
                except OSError:
                    pass
        nodes = {}
        for path in Path("/dev").iterdir():
            info = path.lstat()
            nodes[str(path)] = (oct(info.st_mode), info.st_uid, info.st_gid, info.st_rdev)
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return {"mounts": sorted(line.split(" - ")[0].split(" ", 4)[4] for line in mounts),
                "cgroups": self.cgroup_dirs(), "processes": self.marked_processes(), "settings": sysctls,
                "devices": nodes, "name": os.uname().nodename,
                "ipc": [Path("/proc/sysvipc", kind).read_text().count("\n") for kind in ("shm", "msg", "sem")],
                "interfaces": socket.if_nameindex(),
                "canaries": {str(p): (p.read_text(), oct(p.stat().st_mode)) for p in self.canaries.values()},
                "shared memory": sorted(os.listdir("/dev/shm")), "watched": sorted(os.listdir(self.watched)),
                "state": sorted(os.listdir("/run/stockade")) if os.path.isdir("/run/stockade") else []}

    def changes_since(self, before):
        """What is different on the host, after at most three seconds."""
        left = {}

        def same():
            nonlocal left
            now = self.digest()
            left = {key: (before[key], now[key]) for key in before if now[key] != before[key]}
            for key in ("processes", "cgroups"):  # what an earlier run was still taking apart may be gone by now
                if key in left:
                    left[key] = [item for item in now[key] if item not in before[key]]
            left = {key: value for key, value in left.items() if value}
            return not left
        until(same)
        return left

    def remove(self):
        if os.getpid() != self.pid:
            return
        for undo in reversed(self.cleanup):
            try:
                undo()
            except OSError:
                pass
