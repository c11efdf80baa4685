"""A gate between three network namespaces of our own, without a launcher.

    inside   what a sandbox sees: one address on lo, every address local, TCP and DNS led to the gate's sockets
    middle   where the gate runs: one link to outside, its own resolv.conf and hosts
    outside  test servers on 203.0.113.x and 2001:db8::x, and a name server that counts

The gate is the real program; messages are written and read here, byte by byte, as wire/gate.h says.
"""
import array
import contextlib
import ctypes
import ipaddress
import os
import pathlib
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests/common"))
from stopwatch import Stopwatch, quickest  # noqa: E402,F401

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000

OWN_V4, OWN_V6 = "198.18.0.1", "fd53:746f:636b::1"
TCP_PORT, DNS_PORT, PROXY_PORT = 15001, 15053, 3128
TAP_GROUP = 1
SYNTH_MEMORY = 1536 * 1024 + 4096
NO_LIMIT = 2**64 - 1

(ADD, RULES, SECRET, REMOVE, FLUSH, READY, AUTHORITY, APPLIED, EVENT, FLUSHED, FAILED) = range(1, 12)
FD_NAMES = ["tcp", "dns", "dns_tcp", "proxy", "tap", "denials", "memory", "key"]
REASONS = ["used", "no-rule", "no-port", "bad-name", "query-type", "private", "unresolved", "unreachable", "wrong-server",
           "wrong-host", "bad-protocol", "no-method", "no-path", "certificate", "no-udp", "connections", "lookups",
           "egress", "timeout", "revoked"]
PRIVATE, INSPECT, ANY_PORT = 1, 2, 4


# what a sanitizer build needs to know; a gate's own environment is empty
SANITIZER = {"PATH": os.environ["PATH"], **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
ENOUGH = 30  # seconds: what comes at all has come by then, however busy this machine is


def until(condition, seconds=ENOUGH):
    """Waits for condition() to become true; returns whether it did."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def gate_program():
    """The program under test: STOCKADE_GATE, or the one that was built with the launcher STOCKADE."""
    if path := os.environ.get("STOCKADE_GATE"):
        return path
    launcher = pathlib.Path(os.environ.get("STOCKADE", ROOT / "build/src/cli/stockade"))
    found = launcher.parent.parent / "gate/stockade-gate"
    return str(found) if found.is_file() else None


def run(*args, **kwargs):
    return subprocess.run(args, check=True, capture_output=True, text=True, timeout=60, **kwargs)


def in_namespace(name, function, *args):
    """Runs a function in a thread that is in another network namespace: its sockets stay there."""
    box = {}

    def body():
        fd = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if LIBC.setns(fd, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            box["result"] = function(*args)
        except BaseException as e:  # handed to the caller
            box["error"] = e
        finally:
            os.close(fd)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box["result"]


# --- messages ---

def put_str(s):
    data = s.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


def put_list(items):
    return struct.pack("<H", len(items)) + b"".join(put_str(i) for i in items)


def rule(host="", cidr=None, ports=(80, 443), methods=(), paths=(), secret="", private=False, inspect=False, index=0):
    flags = (PRIVATE if private else 0) | (INSPECT if inspect or methods or paths or secret else 0)
    flags |= ANY_PORT if not ports else 0
    data = struct.pack("<HH", index, flags) + put_str(host)
    if not host:
        net = ipaddress.ip_network(cidr)
        packed, prefix = net.network_address.packed, net.prefixlen
        if net.version == 4:
            packed, prefix = b"\0" * 10 + b"\xff\xff" + packed, prefix + 96
        data += packed + struct.pack("<H", prefix)
    data += struct.pack("<H", len(ports)) + b"".join(struct.pack("<H", p) for p in ports)
    return data + put_list(methods) + put_list(paths) + put_str(secret)


def put_blob(before, data):
    """A blob starts on a multiple of 8 of the whole message."""
    before += struct.pack("<I", len(data))
    return before + b"\0" * (-len(before) % 8) + data


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        n = self.number("I")
        value = self.data[self.at:self.at + n].decode()
        self.at += n + 1
        return value


def parse(data):
    r = Reader(data)
    m = {"kind": r.number("I"), "ward": r.number("I")}
    if m["kind"] == EVENT:
        m["reason"] = REASONS[r.number("I")]
        for key, code in (("count", "Q"), ("sent", "Q"), ("received", "Q"), ("port", "H"), ("rule", "i")):
            m[key] = r.number(code)
        for key in ("host", "method", "path", "detail"):
            m[key] = r.text()
    elif m["kind"] == FLUSHED:
        m["token"] = r.number("I")
        for key in ("connections", "refused", "lookups", "lookups_refused", "sent", "received", "active"):
            m[key] = r.number("Q")
    elif m["kind"] == APPLIED:
        m["token"], m["closed"] = r.number("I"), r.number("I")
    elif m["kind"] == FAILED:
        m["text"] = r.text()
    return m


# --- DNS ---

def dns_name(name):
    if isinstance(name, bytes):
        return name
    return b"".join(bytes([len(p)]) + p.encode("latin-1") for p in name.rstrip(".").split(".")) + b"\0"


def dns_query(name, kind=1, id=0x1234, flags=0x0100, extra=b"", counts=(1, 0, 0, 0)):
    return struct.pack(">HHHHHH", id, flags, *counts) + dns_name(name) + struct.pack(">HH", kind, 1) + extra


def dns_parse(data):
    """(code, [addresses]) of an answer."""
    code = data[3] & 15
    answers = struct.unpack(">H", data[6:8])[0]
    at, addresses = 12, []
    if struct.unpack(">H", data[4:6])[0]:
        while data[at]:
            at += data[at] + 1
        at += 5
    for _ in range(answers):
        at += 2 if data[at] & 0xC0 else 1 + data[at]
        kind, _cls, _ttl, size = struct.unpack(">HHIH", data[at:at + 10])
        at += 10
        if kind in (1, 28):
            addresses.append(str(ipaddress.ip_address(data[at:at + size])))
        at += size
    return code, addresses


class NameServer(threading.Thread):
    """Answers from a table {name: [addresses]} and remembers every question."""

    def __init__(self, sock, table):
        super().__init__(daemon=True)
        self.sock, self.table, self.seen, self.silent = sock, table, [], set()

    def run(self):
        while True:
            try:
                query, peer = self.sock.recvfrom(4096)
            except OSError:
                return
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
                at += query[at] + 1
            name = ".".join(labels).lower()
            kind = struct.unpack(">H", query[at + 1:at + 3])[0]
            self.seen.append((name, kind))
            if name in self.silent:
                continue
            found = self.table.get(name)
            records = b""
            count = 0
            for a in found or []:
                packed = ipaddress.ip_address(a).packed
                if (len(packed) == 4) == (kind == 1) and kind in (1, 28):
                    records += struct.pack(">HHHIH", 0xC00C, kind, 1, 1, len(packed)) + packed
                    count += 1
            flags = 0x8180 if found is not None else 0x8183
            self.sock.sendto(query[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + query[12:at + 5] + records, peer)


# --- the world ---

class World:
    """Namespaces and servers, made once; gates come and go in it."""

    SERVER_V4, SERVER_V6 = "203.0.113.10", "2001:db8::10"
    NAMES_V4 = "203.0.113.53"
    PRIVATE_V4 = "10.9.9.9"

    def __init__(self, tag="core"):
        self.inside, self.middle, self.outside = (f"{tag}-{os.getpid()}-{n}" for n in ("in", "mid", "out"))
        self.etc = pathlib.Path("/etc/netns") / self.middle
        self.stack = contextlib.ExitStack()
        self.servers = []

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def _make(self):
        for ns in (self.inside, self.middle, self.outside):
            run("ip", "netns", "add", ns)
            self.stack.callback(subprocess.run, ["ip", "netns", "del", ns], capture_output=True)
            run("ip", "-n", ns, "link", "set", "lo", "up")
        run("ip", "-n", self.inside, "addr", "add", OWN_V4 + "/32", "dev", "lo")
        run("ip", "-n", self.inside, "addr", "add", OWN_V6 + "/128", "dev", "lo", "nodad")
        run("ip", "-n", self.inside, "route", "add", "local", "default", "dev", "lo", "src", OWN_V4)
        run("ip", "-n", self.inside, "-6", "route", "add", "local", "default", "dev", "lo", "src", OWN_V6)
        rules = f"""table inet stockade {{
            chain output {{
                type nat hook output priority -100;
                ip daddr {{ 127.0.0.0/8, {OWN_V4} }} meta l4proto {{ tcp, udp }} th dport != 53 return
                ip6 daddr {{ ::1, {OWN_V6} }} meta l4proto {{ tcp, udp }} th dport != 53 return
                ip daddr 127.0.0.0/8 return
                ip6 daddr ::1 return
                udp dport 53 redirect to :{DNS_PORT}
                tcp dport 53 redirect to :{DNS_PORT}
                meta l4proto tcp redirect to :{TCP_PORT}
                log group {TAP_GROUP} snaplen 64
            }}
        }}"""
        run("ip", "netns", "exec", self.inside, "nft", "-f", "-", input=rules)
        run("ip", "-n", self.middle, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", self.outside)
        for ns, addresses in ((self.middle, ["203.0.113.1/24", "2001:db8::1/64", "10.9.9.1/24"]),
                              (self.outside, [self.SERVER_V4 + "/24", self.NAMES_V4 + "/24", "203.0.113.11/24",
                                              self.SERVER_V6 + "/64", self.PRIVATE_V4 + "/24"])):
            for a in addresses:
                run("ip", "-n", ns, "addr", "add", a, "dev", "wire", *(["nodad"] if ":" in a else []))
            run("ip", "-n", ns, "link", "set", "wire", "up")
        self.etc.mkdir(parents=True, exist_ok=True)
        self.stack.callback(shutil.rmtree, self.etc, True)
        (self.etc / "resolv.conf").write_text(f"nameserver {self.NAMES_V4}\n")
        (self.etc / "hosts").write_text(f"127.0.0.1 localhost\n{self.SERVER_V4} listed.test\n127.0.0.1 sneaky.test\n")
        self.names = NameServer(in_namespace(self.outside, self._bound, socket.AF_INET, socket.SOCK_DGRAM,
                                             (self.NAMES_V4, 53)), {})
        self.names.start()

    @staticmethod
    def _bound(family, kind, address):
        s = socket.socket(family, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(address)
        return s

    def serve(self, handler, port=0, address=None):
        """A TCP server outside: handler(connection) in a thread for each. Returns its port."""
        address = address or self.SERVER_V4
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = in_namespace(self.outside, self._bound, family, socket.SOCK_STREAM, (address, port))
        listener.listen(4096)
        self.servers.append(listener)

        def guarded(connection):
            with connection, contextlib.suppress(OSError):
                handler(connection)

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=guarded, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1]

    def close(self):
        for s in self.servers:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        if hasattr(self, "names"):
            self.names.sock.close()
        self.stack.close()


class Client(socket.socket):
    """A refusal may be faster than connect itself: then it shows where all refusals do, in what is done next."""

    refused = None

    def connect(self, address):
        try:
            super().connect(address)
        except ConnectionResetError as e:
            self.refused = e

    def recv(self, *args):
        if self.refused:
            raise self.refused
        return super().recv(*args)

    def sendall(self, *args):
        if self.refused:
            raise self.refused
        return super().sendall(*args)


class Gate:
    """One running gate with one ward (number 0) that has all its sockets."""

    def __init__(self, world, rules=(), flags=0, limits=(NO_LIMIT,) * 4, tls=False, sockets=True, environment=None,
                 descriptors=None, rootless=False, room=None, memory=None):
        self.world, self.waiting = world, []
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if room:  # for messages that were not read yet
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
        command = ["ip", "netns", "exec", world.middle]
        if rootless:
            command += ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", gate_program()]
        else:
            command += [gate_program(), "--uid", "1610612736", "--gid", "1610612736"]

        def prepare():
            os.dup2(theirs.fileno(), 3)
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        held = os.open("/dev/null", os.O_RDONLY)  # so that no descriptor of the start is number 3
        self.process = subprocess.Popen(command + (["--tls"] if tls else []), env={**SANITIZER, **(environment or {})},
                                        stdin=subprocess.DEVNULL, close_fds=False,
                                        preexec_fn=prepare)
        os.close(held)
        theirs.close()
        self.expect(READY)
        self.memory = memory if memory is not None else os.memfd_create("synth")  # of a gate that died
        os.ftruncate(self.memory, SYNTH_MEMORY)
        self.denials = os.memfd_create("denials")
        self.flags, self.limits, self.fds = flags, limits, {}
        self.add({"memory": self.memory})
        self.rules(*rules)
        if sockets:
            self.fds = in_namespace(world.inside, self._sockets)
            self.add({"denials": self.denials, **{k: s.fileno() for k, s in self.fds.items()}})
            for s in self.fds.values():
                s.close()

    @staticmethod
    def _sockets():
        def listening(port, address="::", family=socket.AF_INET6, kind=socket.SOCK_STREAM):
            s = socket.socket(family, kind)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            if kind == socket.SOCK_STREAM:
                s.listen(4096)
            return s
        # NFULNL_MSG_CONFIG for TAP_GROUP: bind, and tell at once
        tap = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        attributes = struct.pack("<HHB3x", 5, 1, 1) + struct.pack("<HH", 8, 5) + struct.pack(">I", 1)
        body = struct.pack("<BB", 0, 0) + struct.pack(">H", TAP_GROUP) + attributes
        tap.send(struct.pack("<IHHII", 16 + len(body), 4 << 8 | 1, 5, 1, 0) + body)
        if struct.unpack_from("<i", tap.recv(1000), 16)[0] != 0:
            raise OSError("the tap could not be set up")
        return {"tcp": listening(TCP_PORT), "dns": listening(DNS_PORT, kind=socket.SOCK_DGRAM),
                "dns_tcp": listening(DNS_PORT), "proxy": listening(PROXY_PORT, OWN_V4, socket.AF_INET), "tap": tap}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.control.close()
        try:
            self.process.wait(ENOUGH)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the gate outlived its control socket")
        finally:
            os.close(self.memory)
            os.close(self.denials)

    # requests
    def send(self, kind, body=b"", fds=(), ward=0):
        data = struct.pack("<II", kind, ward) + body
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([data], ancillary)

    def add(self, fds, ward=0):
        mask = sum(1 << FD_NAMES.index(name) for name in fds)
        ordered = [fds[name] for name in FD_NAMES if name in fds]
        self.send(ADD, struct.pack("<IIQQQQ", self.flags, mask, *self.limits), ordered, ward)

    def rules(self, *rules, token=1, wait=True):
        body = put_blob(struct.pack("<III", RULES, 0, token), b"STOCKR01" + b"".join(rules))[8:]
        self.send(RULES, body)
        return self.expect(APPLIED) if wait else None

    def secret(self, name, holder, value):
        self.send(SECRET, put_blob(struct.pack("<II", SECRET, 0) + put_str(name) + put_str(holder), value)[8:])

    def flush(self, token=7):
        self.send(FLUSH, struct.pack("<I", token))
        return self.expect(FLUSHED)

    def stopwatch(self):
        """How long the gate takes for something, from now on, and the peers that are threads of this process."""
        return Stopwatch(self.process.pid, os.getpid())

    def idle(self, seconds=ENOUGH):
        """Are all connections gone, within the time that an end may take?"""
        end = time.monotonic() + seconds
        while self.flush()["active"] != 0:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def active(self, count):
        """Does it come to have so many connections?"""
        return until(lambda: self.flush()["active"] == count)

    def dials(self, address, port):
        """Is it on its way there, without an answer yet (SYN_SENT)?"""
        there = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
        lines = pathlib.Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[2:4] == [there, "02"] for line in lines)

    def told(self, wanted):
        """Refusals until wanted(all of them) is true, or nothing more comes."""
        found = []
        until(lambda: wanted(found.extend(self.refusals()) or found))
        return found

    # answers
    def receive(self, timeout=ENOUGH):
        ready = select.poll()  # whose descriptors may be many
        ready.register(self.control, select.POLLIN)
        if not ready.poll(timeout * 1000):
            return None
        data, fds, _flags, _ = socket.recv_fds(self.control, 1 << 17, 8)
        if not data:
            return None
        message = parse(data)
        message["fds"] = fds
        return message

    def expect(self, kind, timeout=ENOUGH):
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if message is None:
                break
            if message["kind"] == FAILED and kind != FAILED:
                raise AssertionError("the gate says: " + message["text"])
            if message["kind"] == kind:
                return message
            self.waiting.append(message)
        raise AssertionError(f"no message of kind {kind}; seen: {self.waiting}")

    def events(self):
        """Everything that happened until now, used sums left out."""
        self.flush()
        found = [m for m in self.waiting if m["kind"] == EVENT]
        self.waiting = []
        return found

    def refusals(self):
        return [e for e in self.events() if e["reason"] != "used"]

    def denial_lines(self):
        return os.pread(self.denials, 1 << 20, 0).decode().splitlines()

    # clients inside
    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        s = in_namespace(self.world.inside, Client, family, kind)
        s.settimeout(ENOUGH)
        return s

    def connect(self, address, port):
        s = self.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        s.connect((address, port))
        return s

    def ask(self, query, server="8.8.8.8", timeout=15):
        with self.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(timeout)
            s.connect((server, 53))
            s.send(query)
            return s.recv(4096)

    def lookup(self, name, kind=1, **kwargs):
        return dns_parse(self.ask(dns_query(name, kind), **kwargs))

    def address(self, name, kind=1):
        code, addresses = self.lookup(name, kind)
        assert code == 0 and len(addresses) == 1, (name, code, addresses)
        return addresses[0]

    def dial(self, name, port, kind=1):
        return self.connect(self.address(name, kind), port)

    def memory_kib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return 0

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def read_all(s, most=1 << 20):
    data = b""
    while len(data) < most:
        part = s.recv(65536)
        if not part:
            break
        data += part
    return data
