"""The network that a sandbox with an allowlist is in, tried from inside: what its code can do to the namespace, to the
gate's ports and to the file of denials, and what happens to packets that no rule leads anywhere. Nothing here needs a
server: what is allowed is never asked for."""
import json
import socket

import pytest

ALLOW = ("--allow", "allowed.test")

TRY = """
import errno, json, os, socket, struct, sys
def name(call, *args):
    try:
        got = call(*args)
        return got if isinstance(got, (str, int, list)) else "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
def tcp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as s:
        s.settimeout(3)
        s.connect((host, port))
        s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        return len(s.recv(100))
def udp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        s.connect((host, port))
        s.send(b"x")
        return len(s.recv(100))
def take(host, port, kind):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind((host, port))
        if kind == socket.SOCK_STREAM:
            s.listen()
def ask(message):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(message[1]), message[0], 5, 1, 0) + message[1])
    code = struct.unpack_from("=i", s.recv(1000), 16)[0]
    if code:
        raise OSError(-code, "refused")
"""


@pytest.fixture
def tried(py):
    """Runs Python expressions inside; returns what each of them came to."""
    def call(*expressions, **kw):
        script = TRY + "print(json.dumps([" + ", ".join(expressions) + "]))"
        result = py(script, *ALLOW, **kw)
        return json.loads(result.ok()), result
    return call


def test_nothing_but_loopback(tried):
    (devices, families), _ = tried("socket.if_nameindex()",
                                   "sorted({a[0].name for a in socket.getaddrinfo('198.18.0.9', 80, flags=socket.AI_ADDRCONFIG)"
                                   " + socket.getaddrinfo('fd53:746f:636b::9', 80, flags=socket.AI_ADDRCONFIG)})")
    assert devices == [[1, "lo"]]
    assert families == ["AF_INET", "AF_INET6"]


def test_cannot_be_changed(tried):
    """No route, address, device or rule can be changed from inside."""
    got, _ = tried("name(ask, (25, struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 255, 4, 254, 2, 0)))",  # RTM_DELROUTE local default
                   "name(ask, (20, struct.pack('=BBBBI', 2, 32, 0, 0, 1) + struct.pack('=HH4s', 8, 2, bytes([10, 0, 0, 1]))))",  # RTM_NEWADDR
                   "name(ask, (16, struct.pack('=BBHiII', 0, 0, 0, 1, 0, 1)))",  # lo down
                   "name(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 12)",  # nftables
                   "name(socket.socket, socket.AF_PACKET, socket.SOCK_DGRAM, 0)",
                   "name(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)")
    assert got[:3] == ["EPERM"] * 3
    assert all(word in ("EPERM", "EAFNOSUPPORT") for word in got[3:]), got


def test_ports_of_the_gate_are_taken(tried):
    places = ["0.0.0.0", "::", "127.0.0.1", "::1", "198.18.0.1", "8.8.8.8"]
    wanted = [(15001, "STREAM"), (15053, "STREAM"), (15053, "DGRAM")]
    got, _ = tried(*[f"name(take, '{p}', {port}, socket.SOCK_{kind})" for p in places for port, kind in wanted],
                   "name(take, '198.18.0.1', 3128, socket.SOCK_STREAM)")
    assert set(got) == {"EADDRINUSE"}, got


def test_gate_asked_directly_says_nothing(tried):
    """Its port is not a proxy: a connection that was led there by nobody is closed."""
    got, _ = tried("name(tcp, '127.0.0.1', 15001)", "name(tcp, '::1', 15001)", "name(tcp, '198.18.0.1', 15001)")
    assert all(answer in (0, "ECONNRESET", "EPIPE") for answer in got), got


def test_loopback_is_the_sandbox_own(tried):
    """A server of the host's is not reached by the addresses that are both sides' own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0.2)
        got, _ = tried(f"name(tcp, '127.0.0.1', {port})", f"name(tcp, '198.18.0.1', {port})", f"name(udp, '127.0.0.1', {port})",
                       "name(tcp, '::1', 53)", "name(udp, '127.0.0.1', 53)")
        assert set(got) == {"ECONNREFUSED"}, got
        with pytest.raises(TimeoutError):
            server.accept()


def test_datagrams_go_nowhere(tried):
    got, result = tried("name(udp, '9.9.9.9', 443)", "name(udp, '2001:db8::5', 123)", "name(udp, '169.254.169.254', 80)")
    assert set(got) == {"ECONNREFUSED"}, got
    said = " ".join(d["what"] + d["text"] for d in result.record["denials"])
    for address in ("9.9.9.9", "2001:db8::5", "169.254.169.254"):
        assert address in said, result.record["denials"]


def test_foreign_address_leads_nobody(tried):
    """Every address can be bound to inside; connections to it are led to the gate all the same."""
    got, result = tried("[s := socket.create_server(('8.8.8.8', 8443)), s.settimeout(0.3), name(tcp, '8.8.8.8', 8443), name(s.accept)][2:]")
    reached, accepted = got[0]
    assert reached in (0, "ECONNRESET") and accepted not in ("done", 0), got
    assert any("8.8.8.8" in d["what"] for d in result.record["denials"])


def test_denials_can_only_be_read(tried):
    got, _ = tried("open('/run/stockade/denials').read()", "os.readlink('/run/stockade/denials')",
                   "name(os.open, '/run/stockade/denials', os.O_RDWR)", "name(os.open, '/run/stockade/net/new', os.O_WRONLY | os.O_CREAT)",
                   "name(os.unlink, '/run/stockade/net/denials')", "name(os.chmod, '/run/stockade/net/denials', 0o666)",
                   "name(os.truncate, '/run/stockade/net/denials', 0)",
                   "name(os.open, '/proc/self/fd/%d' % os.open('/run/stockade/net/denials', os.O_RDONLY), os.O_RDWR)")
    assert got[0] and got[1] == "net/denials"
    assert all(word in ("EROFS", "EACCES", "EPERM") for word in got[2:]), got


def test_denials_say_what_was_refused(tried):
    got, _ = tried("name(tcp, '203.0.113.5', 443)", "name(tcp, '203.0.113.6', 443)",
                   "(__import__('time').sleep(0.5), open('/run/stockade/denials').read())[1]")
    assert "203.0.113.5" in got[2] and "203.0.113.6" in got[2] and "nothing was refused" not in got[2]


def test_no_descriptor_stays_inside(tried):
    """What the command finds open is its three streams; nothing of the gate's sockets or of the writable file."""
    got, _ = tried("[os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + n)]",
                   "name(os.listdir, '/proc/1/fd')")
    assert not [link for link in got[0] if "denials" in link or "socket" in link], got
    assert got[1] in ("EACCES", "EPERM", "ENOENT")
