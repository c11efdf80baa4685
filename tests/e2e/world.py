"""The test world: a host namespace in which `stockade run` is executed, and an internet of our own behind it.

    "host"      127.0.0.1, ::1, 172.31.0.2, fd00:77::2; its own listeners, which no sandbox may ever reach
       | veth
    "internet"  every address that the tests use: public ones, private ones, the metadata service, name servers

Namespaces are held by descriptors of this process alone and have no names: when the process ends, however it ends, the
kernel takes them apart. Servers are threads of this process whose sockets were made in a namespace (setns is a matter of
one thread), so tests read what a server saw without asking anybody. Real servers (PostgreSQL, sshd, …) are child
processes in a cgroup of their own, ended by pid, and die with this process.

Documentation blocks (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32) count as public for the gate.
"""
import atexit
import ctypes
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

import harness
from world_dns import Names
from world_servers import Seen, Web, echo, serve, sink, udp

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_FS, CLONE_NEWNS, CLONE_NEWNET = 0x200, 0x20000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 1 << 19
PR_SET_PDEATHSIG = 1

RESOLVER, RESOLVER6, STRANGER = "203.0.113.53", "2001:db8::53", "8.8.8.8"
PUBLIC = ["203.0.113.10", "203.0.113.11", "203.0.113.12", "203.0.113.13", "203.0.113.20", "203.0.113.30", RESOLVER, STRANGER,
          "198.51.100.7", "1.1.1.1", "2001:db8::10", "2001:db8::11", "2001:db8::20", RESOLVER6, "2606:4700::1111"]
SPECIAL = ["10.0.0.5", "10.1.2.3", "172.16.0.9", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.170.2",
           "100.100.100.200", "192.0.0.192", "198.18.0.99", "240.0.0.1", "fd00:99::5", "fd00:ec2::254",
           "64:ff9b::a00:5", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:5", "2002:a00:5::1", "2001::a00:5", "fec0::5"]
HOST_V4, HOST_V6 = "172.31.0.2", "fd00:77::2"  # the host's own

# name: addresses. Whatever is not here does not exist.
ZONE = {
    "example.test": ["203.0.113.10", "2001:db8::10"],
    "www.example.test": ["203.0.113.10", "2001:db8::10"],
    "api.example.test": ["203.0.113.11", "2001:db8::11"],
    "files.example.test": ["203.0.113.12"],
    "db.example.test": ["203.0.113.13"],
    "raw.example.test": ["203.0.113.20"],
    "deep.www.example.test": ["203.0.113.12"],
    "xn--bcher-kva.example.test": ["203.0.113.12"],
    "six.example.test": ["2001:db8::20"],
    "silent.example.test": ["203.0.113.99"],  # nobody is there
    "closed.example.test": ["203.0.113.30"],
    "badcert.example.test": ["203.0.113.30"],
    "evil.test": ["203.0.113.30"],
    "www.evil.test": ["203.0.113.30"],
    "registry.test": ["203.0.113.12"],
    "inner.example.test": ["10.0.0.5"],
    "metadata.example.test": ["169.254.169.254"],
}


def libc(name, *args):
    if getattr(LIBC, name)(*args):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def threaded(function):
    """Calls it in a thread of its own, which may then change its namespaces."""
    result = []

    def body():
        try:
            result.append((function(), None))
        except BaseException as error:  # pylint: disable=broad-except
            result.append((None, error))
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if result[0][1]:
        raise result[0][1]
    return result[0][0]


def new_network():
    libc("unshare", CLONE_NEWNET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class World:
    def __init__(self, suite):
        self.suite, self.children, self.lock = suite, [], threading.Lock()
        self.folder = suite.folder / "world"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.helpers = self.folder / "inside.py"
        shutil.copy(Path(__file__).with_name("world_inside.py"), self.helpers)
        self.helpers.chmod(0o644)
        self.host, self.internet = threaded(new_network), threaded(new_network)
        self.connect()
        self.cgroups = [path.with_name(path.name.replace("e2e", "world")) for path in suite.cgroups]
        for path in self.cgroups:
            path.mkdir(exist_ok=True)
        self.certificates()
        self.mounts = threaded(self.own_etc)
        self.seen, self.names = Seen(), Names(ZONE)
        self.web = Web(self.seen)
        self.listeners()
        atexit.register(self.remove)

    # --- what it is made of

    def ip(self, namespace, lines):
        done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines).encode() + b"\n", capture_output=True,
                              check=False,
                              preexec_fn=lambda: libc("setns", namespace, CLONE_NEWNET))
        if done.returncode:
            harness.missing(f"a network of our own: ip: {done.stderr.decode()}")

    def connect(self):
        other = f"/proc/{os.getpid()}/fd/{self.internet}"
        self.ip(self.host, ["link set lo up", f"link add name h0 type veth peer name i0 netns {other}",
                            f"addr add {HOST_V4}/24 dev h0", f"addr add {HOST_V6}/64 dev h0 nodad", "link set h0 up"])
        lines = ["link set lo up", "addr add 172.31.0.1/24 dev i0", "addr add fd00:77::1/64 dev i0 nodad", "link set i0 up"]
        for address in PUBLIC + SPECIAL:
            lines.append(f"addr add {address}/128 dev lo nodad" if ":" in address else f"addr add {address}/32 dev lo")
        self.ip(self.internet, lines)
        self.ip(self.host, ["route add default via 172.31.0.1", "route add ::/0 via fd00:77::1"])

    def certificates(self):
        """An authority, a certificate for the names that are there, one for nobody, one from yesterday."""
        folder = self.folder / "tls"
        folder.mkdir()
        names = ",".join(f"DNS:{name}" for name in ["*.example.test", "*.www.example.test", "*.test", *ZONE]
                         if "badcert" not in name)
        names += "".join(f",IP:{address}" for address in PUBLIC + SPECIAL)
        new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"

        def make(name, options):
            words = f"{new} -keyout {name}.key -out {name}.pem {options}".split()
            subprocess.run(words, cwd=folder, check=True, capture_output=True)
        make("ca", "-subj /CN=test-world-authority")
        make("good", f"-subj /CN=example.test -CA ca.pem -CAkey ca.key -addext subjectAltName={names}")
        make("other", "-subj /CN=other -CA ca.pem -CAkey ca.key -addext subjectAltName=DNS:other.invalid")
        self.authority = folder / "ca.pem"
        self.tls = {}
        for name in ("good", "other"):
            self.tls[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls[name].load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
            self.tls[name].set_alpn_protocols(["http/1.1"])

    def own_etc(self):
        """The host's mount namespace: our resolver, our hosts, and a certificate store that knows our authority."""
        etc = self.folder / "etc"
        etc.mkdir()
        (etc / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n127.0.0.1 trap.example.test\n")
        shutil.copytree("/etc/ssl", etc / "ssl", symlinks=True, ignore=shutil.ignore_patterns("private", "java"))
        bundle = etc / "ssl/certs/ca-certificates.crt"
        with open(bundle, "a", encoding="ascii") as file:
            file.write(self.authority.read_text())
        libc("unshare", CLONE_FS | CLONE_NEWNS)
        libc("mount", b"none", b"/", None, MS_REC | MS_SLAVE, None)
        for name in ("resolv.conf", "hosts", "ssl"):
            target = os.path.realpath(f"/etc/{name}")
            if not os.path.exists(target):
                continue
            libc("mount", str(etc / name).encode(), target.encode(), None, MS_BIND, None)
        return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def enter_host(self):
        """In a child: where `stockade run` is executed."""
        libc("setns", self.host, CLONE_NEWNET)
        libc("setns", self.mounts, CLONE_NEWNS)

    def listen(self, namespace, port, kind=socket.SOCK_STREAM, address="::"):
        def make():
            libc("setns", namespace, CLONE_NEWNET)
            made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address == "::":
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            made.bind((address, port))
            if kind == socket.SOCK_STREAM:
                made.listen(512)
            return made
        return threaded(make)

    def listeners(self):
        """One listener per port stands on every address there is, and notes which of them was used."""
        for where, namespace in (("internet", self.internet), ("host", self.host)):
            for port in (80, 8080):
                serve(self.listen(namespace, port), self.web.handler(where))
            for port in (443, 8443):
                serve(self.listen(namespace, port), self.web.handler(where, self.tls["good"]))
            for port in (443, 123, 9999, 5353):
                udp(self.listen(namespace, port, socket.SOCK_DGRAM), self.seen, where)
            for port in (853, 25, 6666, 15353, 15001):
                serve(self.listen(namespace, port), sink(self.seen, where))
        serve(self.listen(self.internet, 7), echo(self.seen, "internet"))
        serve(self.listen(self.internet, 4443), self.web.handler("internet", self.tls["other"]))
        self.scripted = {}
        for port in range(9000, 9006):
            serve(self.listen(self.internet, port), lambda conn, port=port: self.scripted[port](conn))
        for address in (RESOLVER, RESOLVER6, STRANGER):
            self.names.listen(self.listen(self.internet, 53, socket.SOCK_DGRAM, address),
                              self.listen(self.internet, 53, address=address))

    # --- for tests

    def reset(self):
        self.seen.clear()
        self.names.reset()
        self.web.reset()
        self.scripted = {port: sink(self.seen, "internet") for port in range(9000, 9006)}

    def start(self, argv, user=None, ready=None, **kw):
        """A real server in the internet. ready: a port to wait for."""
        def prepare():
            for path in self.cgroups:
                (path / "cgroup.procs").write_text("0")
            libc("setns", self.internet, CLONE_NEWNET)
            libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
            os.setsid()
        log = open(self.folder / f"server-{len(self.children)}.log", "wb")  # pylint: disable=consider-using-with
        child = subprocess.Popen([str(word) for word in argv], preexec_fn=prepare, stdin=subprocess.DEVNULL,
                                  # pylint: disable=W1509
                                 stdout=log, stderr=log, **kw)
        log.close()
        self.children.append(child)
        if ready and not harness.until(lambda: self.reachable(ready), step=0.03):
            pytest.fail(f"{argv[0]} does not listen on {ready}: {Path(log.name).read_text()[-800:]}")
        return child

    def reachable(self, port, address="203.0.113.13"):
        def attempt():
            libc("setns", self.internet, CLONE_NEWNET)
            with socket.socket() as probe:
                return probe.connect_ex((address, port)) == 0
        return threaded(attempt)

    def on_host(self, argv, **kw):
        """Something outside any sandbox, where `stockade run` would be: to try the world itself."""
        return subprocess.run(argv, preexec_fn=self.enter_host, capture_output=True, check=False,
                              **kw)  # pylint: disable=W1509

    def mountinfo(self):
        """Mounts where launchers run: they must be after a test what they were before it."""
        def read():
            libc("unshare", CLONE_FS)
            libc("setns", self.mounts, CLONE_NEWNS)
            return Path("/proc/thread-self/mountinfo").read_text().splitlines()
        return threaded(read)

    def stop(self, child):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()

    def remove(self):
        for child in self.children:
            self.stop(child)
        for path in self.cgroups:
            for pid in (path / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            harness.until(lambda: not (path / "cgroup.procs").read_text())  # pylint: disable=cell-var-from-loop
            path.rmdir()
        self.cgroups = []


class Net:
    """One person in the world: run(…) is `stockade run` there."""

    def __init__(self, world, who):
        self.world, self.who = world, who
        self.seen, self.names = world.seen, world.names

    def run(self, *args, **kw):
        kw.setdefault("first", self.world.enter_host)
        result = harness.run(self.who, *args, **kw)
        result.wall = time.monotonic()
        return result

    def start(self, *args, **kw):
        return harness.start(self.who, *args, first=self.world.enter_host, **kw)

    def sh(self, script, *options, **kw):
        return self.run(*options, "--", "/bin/sh", "-c", script, **kw)

    def py(self, script, *options, **kw):
        """A Python script inside, with the helpers of world_inside.py before it."""
        return self.run(*options, *self.inside(script), **kw)

    def inside(self, script):
        """The options and the command for that."""
        return ["--ro", self.world.helpers, "--", harness.PYTHON, "-ISc",
                f"exec(open('{self.world.helpers}').read())\n{script}"]

    def profile(self, text, extends="medium"):
        """A profile file that this person owns; returns the options that name it."""
        path = self.who.folder("profile") / "p.yaml"
        path.write_text(f"profile: 1\nextends: {extends}\n{text}\n")
        path.chmod(0o644)
        return ["--profile", path]


# what does not depend on who starts it is tried by one of them; both take part in every theme
by_root = pytest.mark.parametrize("who", ["root"], indirect=True)
by_user = pytest.mark.parametrize("who", ["rootless"], indirect=True)


def allow(*hosts):
    return [word for host in hosts for word in ("--allow", host)]


def denials(result, needle):
    """The gate's denials in the record that speak about this."""
    assert result.record is not None, f"there is no record: {result}"
    return [d for d in result.record["denials"] if d["source"] == "gate" and needle in d["what"] + d["text"]]


def explained(result, needle, remedy=None):
    """Refused, recorded with the host's name, and somebody is told what to do."""
    found = denials(result, needle)
    assert found, f"no denial about {needle!r} in {result.record['denials']}\n{result.errors[-800:]}"
    for key in ("what", "rule", "text", "how_to_allow", "count"):
        assert found[0][key], (key, found[0])
    if remedy:
        assert any(remedy in d["how_to_allow"] for d in found), (remedy, found)
    return found[0]


def gate_of(process, seconds=harness.ENOUGH):
    """The pid of the gate of a launcher that was started with start()."""
    found = []

    def look():
        found.clear()
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            for pid in (task / "children").read_text().split():
                try:
                    if "gate" in Path(f"/proc/{pid}/comm").read_text():
                        found.append(int(pid))
                except OSError:
                    pass
        return found
    assert harness.until(look, seconds), "this launcher has no gate"
    return found[0]
