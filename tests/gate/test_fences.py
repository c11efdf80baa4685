"""What was tried against the gate and must not work again: loops, the host's own services, rules taken away, and one
client that takes what all share."""
import contextlib
import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

import ward
from peers import Http, closed, echo, get, hello, proxy, reasons, socks, web_socket
from ward import Gate, World, in_namespace, rule, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ward.gate_program(), reason="needs root and a built gate")

SANITIZED = any(k.endswith("SAN_OPTIONS") for k in os.environ)
HOLDER, VALUE = "stockade-secret-aaaabbbbccccddddeeeeffff00001111", b"sk-live-0123456789AbCdEf"


class Counted:
    """A server that counts who comes."""

    def __init__(self, handler):
        self.handler, self.count = handler, 0

    def __call__(self, connection):
        self.count += 1
        self.handler(connection)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World("fences") as w:
        table = w.names.table
        table["a.test"] = [w.SERVER_V4]
        table["inner.test"] = table["x.wild.test"] = [w.PRIVATE_V4]
        table["lost.test"] = ["10.9.9.77"]  # nobody is there
        w.http = Http()
        w.web = Counted(w.http)
        w.serve(w.web, 80)
        w.serve(w.web, 443, "203.0.113.11")
        w.serve(w.http, 80, w.PRIVATE_V4)
        w.serve(echo, 7000)
        w.serve(echo, 7000, w.PRIVATE_V4)
        w.serve(web_socket, 8082)
        w.serve(lambda c: (c.recv(1000), c.sendall(b"HTTP/1.1 200 O"), time.sleep(60)), 8083)
        folder = tmp_path_factory.mktemp("tls")
        os.chmod(folder, 0o755)
        w.certificate = folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "2", "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test", "-keyout", folder / "key.pem",
                        "-out", w.certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(w.certificate, folder / "key.pem")

        def https(connection):
            with context.wrap_socket(connection, server_side=True) as s:
                Http()(s)

        w.serve(https, 443)
        w.serve(lambda c: time.sleep(60), 4433)  # accepts, and says nothing
        yield w


@contextlib.contextmanager
def host_service(world, address, port):
    """A service of the host that the gate runs on."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = in_namespace(world.middle, World._bound, family, socket.SOCK_STREAM, (address, port))
    listener.listen(8)
    seen = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                seen.append(connection)
                connection.settimeout(ward.ENOUGH)
                with connection, contextlib.suppress(OSError):
                    connection.recv(100)
                    connection.sendall(b"service of the host")

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def says(s):
    """What is answered to a few bytes; "" when it is refused."""
    with s, contextlib.suppress(OSError):
        s.sendall(b"\0hi")
        return s.recv(100).decode()
    return ""


def readable(s):
    ready = select.poll()
    ready.register(s, select.POLLIN)
    return ready.poll(0)


def with_tls(world, *rules):
    return Gate(world, rules, tls=True, environment={"SSL_CERT_FILE": str(world.certificate)})


def any_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def second_ward(g, world, *rules):
    """Another sandbox of the same gate, with a proxy alone. Returns how to connect to it."""
    def listening():
        s = World._bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 3129))
        s.listen(64)
        return s

    s = in_namespace(world.inside, listening)
    g.add({"proxy": s.fileno()}, ward=1)
    s.close()
    g.send(ward.RULES, ward.put_blob(struct.pack("<III", ward.RULES, 1, 1), b"STOCKR01" + b"".join(rules))[8:], ward=1)
    g.expect(ward.APPLIED)
    return lambda: g.connect("127.0.0.1", 3129)


# --- loops ---

def test_a_synthetic_address_in_absolute_form(world):
    """It means a name; the exchange compares addresses. Neither may send the other round in circles."""
    with Gate(world, [rule("a.test", ports=(80, 443)), rule(cidr="203.0.113.11/32", ports=(443,))]) as g:
        address, before = g.address("a.test"), world.web.count
        with proxy(g) as s:
            answer = get(s, f"http://{address}/", address)
            assert answer.startswith("HTTP/1.1 403") and "wrong-host" in answer
            assert closed(s)[0] == "end"
        with proxy(g) as s:
            assert get(s, "http://198.18.77.77/", "198.18.77.77").startswith("HTTP/1.1 403")
        assert world.web.count == before
        with proxy(g) as s:
            assert "served /one" in get(s, "http://a.test/one")
            assert get(s, f"http://{address}/two", address).startswith("HTTP/1.1 403")
        assert world.web.count == before + 1
        assert ("wrong-host", "a.test", 80) in reasons(g)


def test_absolute_form_is_not_for_the_port_of_tls(world):
    with Gate(world, [rule("a.test"), rule(cidr="203.0.113.11/32", ports=(443,))]) as g:
        before = world.web.count
        for url in ("a.test:443", "203.0.113.11:443"):
            with proxy(g) as s:
                assert get(s, f"http://{url}/", url).startswith("HTTP/1.1 400")
        assert world.web.count == before
        assert [e["detail"] for e in g.refusals()] == ["plain HTTP on the port of TLS"] * 2


# --- what is near ---

def test_own_addresses(world):
    """Public addresses of the host are the host all the same: the first of an interface, another of the same block,
    one on lo, one of IPv6, and a block that is routed to the host."""
    run("ip", "-n", world.middle, "addr", "add", "203.0.113.2/24", "dev", "wire")
    run("ip", "-n", world.middle, "addr", "add", "192.0.2.7/32", "dev", "lo")
    run("ip", "-n", world.middle, "route", "add", "local", "192.0.2.128/25", "dev", "lo", "src", "203.0.113.1")
    own = ("203.0.113.1", "203.0.113.2", "192.0.2.7", "192.0.2.200", "2001:db8::1")
    for i, address in enumerate(own):
        world.names.table[f"own{i}.test"] = [address]
    names = [f"own{i}.test" for i in range(len(own))]
    with host_service(world, "::", 2375) as seen:
        any_public = [rule(cidr="0.0.0.0/0", ports=()), rule(cidr="::/0", ports=()), rule("*", ports=(2375,))]
        with Gate(world, any_public) as g:
            for address in own:
                assert says(g.connect(address, 2375)) == "", address
            for name in names:
                assert says(g.dial(name, 2375)) == "", name
            with proxy(g) as s:
                assert socks(s, own[0], 2375) == 2
            found = g.refusals()
            assert {e["reason"] for e in found} == {"private"} and not seen
            assert all("this host's own" in e["detail"] for e in found)
            assert says(g.connect(world.SERVER_V4, 7000)) == "\0hi"
        with Gate(world, [rule("*.test", ports=(2375,), private=True), rule(cidr="203.0.113.0/24", ports=(2375,))]) as g:
            assert says(g.dial(names[0], 2375)) == "" and says(g.connect(own[0], 2375)) == "" and not seen
        with Gate(world, [rule(n, ports=(2375,), private=True) for n in names] +
                  [rule(cidr="203.0.113.1/32", ports=(2375,), private=True)]) as g:
            for name in names:
                assert says(g.dial(name, 2375)) == "service of the host", name
            assert says(g.connect(own[0], 2375)) == "service of the host"


def test_private_on_a_name(world):
    """A wildcard reaches private networks, and only an exact name reaches the host itself; no name the rest."""
    answers = {"lo": "127.0.0.1", "six": "::1", "zero": "0.0.0.0", "meta": "169.254.169.254", "many": "224.0.0.5",
               "last": "255.255.255.255", "trans": "64:ff9b::a09:909", "bridge": "10.9.9.1", "old": "fec0::1",
               "oracle": "fd00:c1::a9fe:a9fe"}
    for name, address in answers.items():
        world.names.table[f"{name}.wild.test"] = [address]
    own = {"lo", "six", "bridge"}
    with host_service(world, "::", 7000) as seen:
        with Gate(world, [rule("*.wild.test", ports=(7000,), private=True)]) as g:
            assert says(g.dial("x.wild.test", 7000)) == "\0hi"
            for name in answers.keys() - {"old"}:
                assert says(g.dial(f"{name}.wild.test", 7000)) == "", name
            details = {e["host"]: (e["reason"], e["detail"]) for e in g.refusals()}
            assert {r for r, _ in details.values()} == {"private"} and len(details) == len(answers) - 1 and not seen
            assert details["lo.wild.test"][1] == "it resolves to 127.0.0.1 (loopback), not by a wildcard"
            assert details["meta.wild.test"][1].endswith("(metadata service), never by name")
        with Gate(world, [rule(f"{n}.wild.test", ports=(7000,), private=True) for n in answers]) as g:
            for name in answers.keys() - {"old"}:
                assert says(g.dial(f"{name}.wild.test", 7000)) == ("service of the host" if name in own else ""), name


def test_private_literals(world):
    with host_service(world, "0.0.0.0", 7001) as seen:
        with Gate(world, [rule(cidr="0.0.0.0/0", ports=()), rule(cidr="10.9.9.0/24", ports=(7000,), private=True)]) as g:
            assert says(g.connect(world.PRIVATE_V4, 7000)) == "\0hi"
            assert says(g.connect("10.9.9.1", 7001)) == "" and not seen
            with proxy(g) as s:
                assert socks(s, "127.0.0.1", 7001) == 2
        with Gate(world, []) as g:  # what no rule covers: the hint says what it would take
            for address in ("169.254.169.254", "10.1.2.3"):
                assert says(g.connect(address, 22)) == ""
            assert [(e["reason"], e["detail"]) for e in g.refusals()] == [("private", "metadata service"), ("private", "private")]
            assert any("169.254.169.254:22: this leads to an address that is not public (metadata service); hint: if that is "
                       "meant, add {cidr: 169.254.169.254/32, ports: [22], private: true} to network.allow" in line
                       for line in g.denial_lines()), g.denial_lines()


def test_private_taken_away(world):
    """New rules end what only private had allowed: connections that run, and such that are on their way."""
    allowed = [rule(n, ports=(7000,), private=True) for n in ("inner.test", "lost.test")] + [rule("a.test", ports=(7000,))]
    with Gate(world, allowed) as g:
        inner, public = g.dial("inner.test", 7000), g.dial("a.test", 7000)
        for s in (inner, public):
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        lost = g.dial("lost.test", 7000)
        assert g.active(3) and ward.until(lambda: g.dials("10.9.9.77", 7000))  # its name is known, nobody answers
        assert g.rules(*allowed)["closed"] == 0
        assert g.rules(rule("*", ports=(7000,)))["closed"] == 2
        for s in (inner, lost):
            assert closed(s)[0] == "reset"
        public.sendall(b"\0y")
        assert public.recv(10) == b"\0y"
        assert {r for r in reasons(g)} == {("revoked", "inner.test", 7000), ("revoked", "lost.test", 7000)}
    with host_service(world, "0.0.0.0", 7001) as seen:  # an exact name becomes a wildcard
        world.names.table["db.test"] = ["127.0.0.1"]
        with Gate(world, [rule("db.test", ports=(7001,), private=True)]) as g:
            s = g.dial("db.test", 7001)
            assert ward.until(lambda: seen) and g.active(1)
            assert g.rules(rule("*.test", ports=(7001,), private=True))["closed"] == 1
            assert closed(s)[0] == "reset"


def test_path_taken_away(world):
    ask = (b"GET /chat HTTP/1.1\r\nHost: a.test:8082\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           b"Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
    with Gate(world, [rule("a.test", ports=(8082,), paths=("/chat",))]) as g:
        with g.dial("a.test", 8082) as s:
            s.sendall(ask)
            data = b""
            while not data.endswith(b"first"):
                data += s.recv(1000)
            assert g.rules(rule("a.test", ports=(8082,), paths=("/chat", "/more")))["closed"] == 0
            assert g.rules(rule("a.test", ports=(8082,), paths=("/other",)))["closed"] == 1
            assert closed(s)[0] == "reset"
        assert reasons(g) == [("revoked", "a.test", 8082)]


def test_secrets_in_the_clear(world):
    """Without TLS a value goes to private addresses alone, whatever the rule says; and it may come late."""
    def authorization(host):
        with g.dial(host, 80) as s:
            get(s, "/before", host)
            g.secret("KEY", HOLDER, VALUE)
            g.flush()
            s.sendall(f"GET /k HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {HOLDER}\r\n\r\n".encode())
            s.recv(65536)
        heads = [h for h in world.http.heads if h.startswith("GET /k ") and f"Host: {host}" in h]
        return VALUE.decode() in heads[-1] if heads else None

    for host, goes in (("inner.test", True), ("a.test", False)):
        with Gate(world, [rule(host, secret="KEY", private=True, ports=(80,))]) as g:
            assert bool(authorization(host)) is goes, host


# --- names ---

def test_not_dns_on_the_port_of_dns(world):
    with Gate(world, [rule("a.test")]) as g:
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0", b"\xff\xff" + bytes(100)):
            with g.connect("203.0.113.66", 53) as s:
                s.sendall(words)
                assert closed(s)[0] in ("reset", "end")
        found = [(e["reason"], e["host"], e["port"], e["detail"], e["count"]) for e in g.refusals()]
        assert sum(e[4] for e in found) == 3
        assert {e[:4] for e in found} == {("bad-protocol", "203.0.113.66", 53, "not DNS on the port of DNS")}
        with g.connect("203.0.113.67", 53) as s:
            s.sendall(struct.pack(">H", 40) + b"half")
            s.shutdown(socket.SHUT_WR)
            assert closed(s)[0] in ("reset", "end")
        with g.connect("203.0.113.68", 53) as s:
            s.shutdown(socket.SHUT_WR)
            assert closed(s)[0] == "end"  # said nothing: nothing to tell
        assert reasons(g) == [("bad-protocol", "203.0.113.67", 53)]
        for words in (struct.pack(">H", 2) + b"hi", struct.pack(">H", 30) + b"\0\1\x80" + bytes(27)):  # no questions
            with g.connect("203.0.113.68", 53) as s:
                s.sendall(words)
                assert closed(s) in (("reset", b""), ("end", b""))
        assert sum(e["count"] for e in g.refusals() if e["reason"] == "bad-protocol") == 2
        os.kill(g.process.pid, signal.SIGSTOP)  # the last words of a command are seen too
        with g.connect("203.0.113.69", 53) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            g.send(ward.FLUSH, struct.pack("<I", 3))
            os.kill(g.process.pid, signal.SIGCONT)
            g.expect(ward.FLUSHED)
        assert ("bad-protocol", "203.0.113.69") in [(e["reason"], e["host"]) for e in g.waiting if e["kind"] == ward.EVENT]


def test_lookups_of_proxies_count(world):
    for i in range(60):
        world.names.table[f"n{i}.wild.test"] = [world.SERVER_V4]
    with Gate(world, [rule("*.test", ports=(7000,))], limits=(ward.NO_LIMIT, 5, *(ward.NO_LIMIT,) * 2)) as g:
        world.names.seen.clear()
        begin, codes = time.monotonic(), []
        for i in range(60):
            with proxy(g) as s:
                s.sendall(f"CONNECT n{i}.wild.test:7000 HTTP/1.1\r\nHost: n{i}.wild.test:7000\r\n\r\n".encode())
                codes.append(s.recv(1000)[9:12])
        most = 10 + 5 * (time.monotonic() - begin) + 1
        asked = {n for n, _ in world.names.seen}
        assert 10 <= len(asked) <= most and codes.count(b"200") == len(asked) and codes.count(b"429") == 60 - len(asked)
        totals = g.flush()
        assert totals["lookups"] == 60 and totals["lookups_refused"] == 60 - len(asked)
        with proxy(g) as s:  # known already: asks nobody, costs nothing
            assert socks(s, "listed.test", 7000) == 0


def wants(g, name):
    s = proxy(g)
    s.sendall(f"CONNECT {name}:7000 HTTP/1.1\r\nHost: {name}:7000\r\n\r\n".encode())
    return s


def test_pending_names_are_held(world):
    """A client that goes away does not take back the question that was asked for it."""
    with Gate(world, [rule("*.wild.test", ports=(7000,)), rule("a.test", ports=(7000,))]) as g:
        for turn in range(5):  # a question is given up after some seconds: where all is slow, others may be asked then
            if turn:
                time.sleep(5)
            names = [f"s{turn}-{i}.wild.test" for i in range(200)]
            world.names.silent.update(names)
            world.names.seen.clear()
            asked = lambda: {n for n, _ in world.names.seen}  # pylint: disable=C3001
            begin = time.monotonic()
            clients = [wants(g, name) for name in names[:128]]
            assert ward.until(lambda: set(names[:128]) <= asked())  # pylint: disable=W0640
            for s in clients:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
            codes = []
            for name in names[128:]:
                with wants(g, name) as s:
                    s.settimeout(2)
                    with contextlib.suppress(TimeoutError):
                        codes.append(s.recv(1000)[9:12])
            if time.monotonic() - begin < 4:
                break
        assert len(asked()) == 128 and codes == [b"429"] * 72, (len(asked()), codes)
        assert "lookups" in [r[0] for r in reasons(g)]
        g.send(ward.REMOVE)  # the answers that do not come have nobody left to be counted for
        time.sleep(5)
        g.add({"memory": g.memory})
        fds = in_namespace(world.inside, g._sockets)
        g.rules(rule("a.test", ports=(7000,)))
        g.add({k: f.fileno() for k, f in fds.items()})
        for f in fds.values():
            f.close()
        assert says(g.dial("a.test", 7000)) == "\0hi"


# --- what all share ---

def test_handshakes_take_turns(world):
    """A bounded number at a time; the rest waits, costs nothing, and gets its turn."""
    with with_tls(world, rule("a.test", ports=(443, 4433), inspect=True)) as g:
        other = second_ward(g, world, rule("a.test", inspect=True))
        address, words, base = g.address("a.test"), hello("a.test"), g.memory_kib()
        held = []
        for _ in range(400):
            s = g.connect(address, 4433)
            s.sendall(words)
            held.append(s)
        time.sleep(0.5)
        assert g.memory_kib() - base < 300 * 48 or SANITIZED
        late = any_context().wrap_socket(g.connect(address, 443), server_hostname="a.test", do_handshake_on_connect=False)
        late.settimeout(0.5)
        with pytest.raises(TimeoutError):
            late.do_handshake()
        with other() as s:  # another sandbox is not kept waiting
            s.sendall(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 200")
            with any_context().wrap_socket(s, server_hostname="a.test") as t:
                assert "served /other" in get(t, "/other")
        for s in held:
            s.close()
        late.settimeout(ward.ENOUGH)
        late.do_handshake()
        assert "served /late" in get(late, "/late")
        late.close()
        assert g.idle()


def test_waiting_handshakes_end(world):
    with with_tls(world, rule("a.test", ports=(443, 4433), inspect=True)) as g:
        address, words = g.address("a.test"), hello("a.test")
        begin, ready = time.monotonic(), select.poll()
        held = [g.connect(address, 4433) for _ in range(300)]
        for s in held:
            s.sendall(words)
            ready.register(s, select.POLLIN)
        watch = g.stopwatch()
        assert ready.poll(ward.ENOUGH * 1000) and 8 < time.monotonic() - begin and watch.seconds < 13, watch.wall
        assert ward.until(lambda: len(ready.poll(0)) >= 44)
        told = [s for s in held if readable(s)]
        assert len(told) == 44 and all(closed(s)[1][:1] == b"\x15" for s in told)
        assert "too many TLS handshakes at a time" in [e["detail"] for e in g.refusals()]
        assert g.rules()["closed"] > 200  # those that wait are closed by new rules like all others
        assert g.flush()["active"] < 100
        for s in held:
            s.close()


def ends(g, s, ended):
    """Notes when something is said to this one: by the clock, and as the gate and this thread could do it."""
    watch, ready = ward.Stopwatch(g.process.pid), select.poll()
    ready.register(s, select.POLLIN)
    ready.poll(ward.ENOUGH * 2000)
    ended[s] = watch.wall, watch.seconds


def test_half_heads(world):
    """One byte of a head each, on more connections than there are buffers: told, bounded in time, and no harm to others."""
    with with_tls(world, rule("a.test", ports=(80, 443, 8083), inspect=True)) as g:
        other = second_ward(g, world, rule("a.test", inspect=True))
        address, held, context = g.address("a.test"), [], any_context()

        def many():
            for _ in range(560):
                s = socket.socket()
                s.settimeout(60)
                s.connect((address, 443))
                t = context.wrap_socket(s, server_hostname="a.test")
                t.sendall(b"G")
                held.append(t)

        plain = g.connect(address, 80)
        plain.sendall(b"GET / HT")
        slow = g.connect(address, 8083)
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: a.test:8083\r\n\r\n")
        begin, ended = time.monotonic(), {}
        watches = [threading.Thread(target=ends, args=(g, s, ended)) for s in (plain, slow)]
        for t in watches:
            t.start()
        in_namespace(world.inside, many)
        told = g.told(lambda all: any(e["detail"] == "no buffers are free" for e in all))
        assert any(e["detail"] == "no buffers are free" for e in told)
        with other() as s:
            s.sendall(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 200")
            with context.wrap_socket(s, server_hostname="a.test") as t:
                t.sendall(b"GET /other HTTP/1.1\r\nHost:")
                time.sleep(0.1)
                t.sendall(b" a.test\r\n\r\n")
                assert b"served /other" in t.recv(65536)
        for s in (plain, slow):
            s.settimeout(60)
        while time.monotonic() - begin < 18:  # a byte now and then changes nothing
            plain.sendall(b"T")
            time.sleep(1)
        assert closed(plain)[1].startswith(b"HTTP/1.1 504")
        assert closed(slow)[1].startswith(b"HTTP/1.1 504")
        for t in watches:
            t.join()
        assert all(17 < wall and seconds < 24 for wall, seconds in (ended[plain], ended[slow])), ended.values()
        held[0].settimeout(60)
        assert held[0].recv(1000).startswith(b"HTTP/1.1 504")
        assert g.idle()  # they linger a moment
        late = {"the request's head did not arrive in time", "the answer's head did not arrive in time"}
        told += g.told(lambda all: late <= {e["detail"] for e in told + all})
        assert {e["detail"] for e in told if e["reason"] == "timeout"} == late
        for s in held:
            s.close()


def test_opened_tls_is_bounded(world):
    with with_tls(world, rule("a.test", inspect=True)) as g:
        address, context, held = g.address("a.test"), any_context(), []

        def many():
            for _ in range(1024):
                s = socket.socket()
                s.settimeout(60)
                s.connect((address, 443))
                held.append(context.wrap_socket(s, server_hostname="a.test"))

        in_namespace(world.inside, many)
        assert g.memory_kib() < 110 * 1024 or SANITIZED
        with g.connect(address, 443) as s:
            s.sendall(hello("a.test"))
            assert closed(s)[1][:1] == b"\x15"
        assert "too many TLS connections are open at a time" in [e["detail"] for e in g.refusals()]
        assert "served /x" in get(held[500], "/x")
        held.pop().close()

        def served():
            try:
                with context.wrap_socket(g.connect(address, 443), server_hostname="a.test") as s:
                    return "served /y" in get(s, "/y")
            except OSError:
                return False
        assert ward.until(served)
        for s in held:
            s.close()


# --- telling ---

def test_flush_deals_with_all_that_waits(world):
    with Gate(world, []) as g:
        os.kill(g.process.pid, signal.SIGSTOP)
        held = [g.connect("203.0.113.10", 22) for _ in range(900)]
        g.send(ward.FLUSH, struct.pack("<I", 3))
        os.kill(g.process.pid, signal.SIGCONT)
        assert g.expect(ward.FLUSHED)["refused"] == 900
        for s in held:
            s.close()


def test_nothing_is_said_twice(world):
    with Gate(world, [rule("a.test", ports=(80,), paths=("/ok",))]) as g:
        with g.dial("a.test", 80) as s:
            assert get(s, "/no").startswith("HTTP/1.1 403")
        assert [(e["reason"], e["detail"]) for e in g.refusals()] == [("no-path", "")]
        assert all(line.count("allows this path") == 1 for line in g.denial_lines())
