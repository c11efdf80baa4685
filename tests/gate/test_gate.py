"""The gate by itself: real sockets in real namespaces, the real program, no launcher. Needs root."""
import contextlib
import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

import ward
from ward import Gate, World, dns_query, dns_parse, read_all, rule

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ward.gate_program(), reason="needs root and a built gate")


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def greet(connection):
    """A server that speaks first."""
    connection.sendall(b"220 hello\r\n")
    echo(connection)


class Http:
    """Answers every request with its own head, and remembers the heads."""

    def __init__(self):
        self.heads = []

    def __call__(self, connection):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head, data = data.split(b"\r\n\r\n", 1)
            self.heads.append(head.decode())
            body = b"served " + head.split(b" ")[1]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def mirror(connection):
    """Answers a request with its own body, slowly."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, body = data.split(b"\r\n\r\n", 1)
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        if len(body) < 400000:
            time.sleep(0.01)
        body += connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size + body)


def web_socket(connection):
    """Grants an upgrade, then mirrors bytes."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       b"Sec-WebSocket-Accept: x\r\n\r\nfirst")
    echo(connection)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World() as w:
        table = w.names.table
        for name in ("a.test", "b.test", "sub.a.test"):
            table[name] = [w.SERVER_V4]
        table["six.test"] = [w.SERVER_V6]
        table["both.test"] = ["203.0.113.77", w.SERVER_V6, w.SERVER_V4]  # nobody is at the first
        table["inner.test"] = [w.PRIVATE_V4]
        table["loop.test"] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
        table["meta.test"] = ["169.254.169.254"]
        table["synth.test"] = ["198.18.1.0"]
        table["mixed.test"] = [w.PRIVATE_V4, w.SERVER_V4]
        table["lost.test"] = ["203.0.113.99"]
        w.http = Http()
        w.serve(echo, 7000)
        w.serve(echo, 7000, w.SERVER_V6)
        w.serve(echo, 7000, w.PRIVATE_V4)
        w.serve(greet, 2500)
        w.serve(w.http, 80)
        w.serve(w.http, 8080)
        w.serve(lambda c: time.sleep(3600), 7777)
        folder = tmp_path_factory.mktemp("tls")
        w.certificate = folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test,DNS:b.test",
                        "-keyout", folder / "key.pem", "-out", w.certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(w.certificate, folder / "key.pem")

        def https(connection):
            with context.wrap_socket(connection, server_side=True) as s:
                Http()(s)

        def https_cut(connection):
            """Answers, then goes without a word of farewell."""
            with context.wrap_socket(connection, server_side=True) as s:
                while b"\r\n\r\n" not in s.recv(65536):
                    pass
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n" + b"y" * 5000)
                os.close(s.detach())

        def https_mirror(connection):
            with context.wrap_socket(connection, server_side=True) as s:
                mirror(s)

        w.serve(mirror, 8081)
        w.serve(web_socket, 8082)
        w.serve(https_mirror, 4431)
        w.serve(https_cut, 4430)
        w.serve(https, 443)
        w.serve(https, 8443)
        yield w


def get(s, path="/", host="a.test", method="GET"):
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return s.recv(65536).decode()


def hello(name):
    """The bytes of a TLS hello that names this server, or none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def closed(s):
    """How the other side ended it: 'reset' or 'end', and what it said before."""
    data = b""
    try:
        while part := s.recv(65536):
            data += part
        return "end", data
    except TimeoutError:
        return "open", data
    except OSError:
        return "reset", data


def reasons(gate):
    return [(e["reason"], e["host"], e["port"]) for e in gate.refusals()]


# --- names ---

def test_names_allowed_and_refused(world):
    with Gate(world, [rule("a.test"), rule("*.a.test")]) as g:
        before = len(world.names.seen)
        assert g.address("a.test") == g.address("A.TEST.") == g.address("a.test")
        assert g.address("a.test") != g.address("sub.a.test")
        assert g.address("a.test").startswith("198.18.") or g.address("a.test").startswith("198.19.")
        assert g.address("a.test", 28).startswith("fd53:746f:636b:")
        assert g.lookup("a.test", server="2001:4860:4860::8888")[0] == 0
        for name in ("evil.test", "a.test.evil.test", "xa.test", "data.evil.test"):
            assert g.lookup(name) == (5, []), name
        for kind in (16, 255, 15, 12, 33):
            assert g.lookup("a.test", kind) == (5, []), kind
        assert g.lookup("a.test", 65) == (0, [])
        assert g.lookup("localhost") == (0, ["127.0.0.1"])
        assert g.lookup("x.localhost", 28) == (0, ["::1"])
        assert len(world.names.seen) == before, "a question left the host"
        found = reasons(g)
        assert ("no-rule", "evil.test", 0) in found and ("query-type", "a.test", 0) in found
        totals = g.flush()
        assert totals["lookups_refused"] == 9 and totals["lookups"] > 15
        assert any("evil.test" in line for line in g.denial_lines())


def test_names_over_tcp(world):
    with Gate(world, [rule("a.test")]) as g:
        with g.connect("8.8.8.8", 53) as s:
            for name, code in (("a.test", 0), ("evil.test", 5)):
                q = dns_query(name)
                data = struct.pack(">H", len(q)) + q
                s.sendall(data[:5])  # in two pieces
                time.sleep(0.02)
                s.sendall(data[5:])
                answer = s.recv(2000)
                assert struct.unpack(">H", answer[:2])[0] == len(answer) - 2
                assert dns_parse(answer[2:])[0] == code
        idle = [g.connect("9.9.9.9", 53) for _ in range(20)]  # more than it keeps
        with g.connect("8.8.8.8", 53) as s:
            assert closed(s)[0] in ("end", "reset")
        for s in idle:
            s.close()
        assert g.lookup("a.test")[0] == 0


def test_names_malformed(world):
    with Gate(world, [rule("a.test")]) as g:
        with g.socket(kind=socket.SOCK_DGRAM) as s:
            s.connect(("8.8.8.8", 53))
            s.settimeout(0.3)
            for bad in (b"", b"x", b"\0" * 11, os.urandom(400)):
                s.send(bad)
            with pytest.raises(TimeoutError):
                s.recv(10)
                s.recv(10)
            s.settimeout(2)
            s.send(dns_query("a.test", counts=(2, 0, 0, 0)))
            assert s.recv(600)[3] & 15 == 1
        assert g.lookup("a.test")[0] == 0
        assert "bad-protocol" in [r[0] for r in reasons(g)]


def test_names_rate(world):
    with Gate(world, [rule("a.test")], limits=(ward.NO_LIMIT, 20, ward.NO_LIMIT, ward.NO_LIMIT)) as g:
        codes = [g.lookup("a.test")[0] for _ in range(60)]
        assert codes.count(0) >= 30 and codes.count(5) >= 5
        events = [e for e in g.refusals() if e["reason"] == "lookups"]
        assert sum(e["count"] for e in events) == codes.count(5)


def test_learning(world):
    with Gate(world, [], flags=1) as g:
        before = len(world.names.seen)
        with g.dial("wanted.test", 443) as s:
            s.sendall(hello("wanted.test"))
            assert closed(s)[1][:1] == b"\x15"
        assert ("no-rule", "wanted.test", 443) in reasons(g)
        assert len(world.names.seen) == before


# --- connections ---

def test_raw(world):
    with Gate(world, [rule("a.test", ports=(7000, 2500)), rule("six.test", ports=())]) as g:
        for name, kind in (("a.test", 1), ("a.test", 28), ("six.test", 1)):
            with g.dial(name, 7000, kind) as s:
                s.sendall(b"ping\n")
                assert s.recv(10) == b"ping\n"
        with g.dial("a.test", 2500) as s:  # the server speaks first
            assert s.recv(100) == b"220 hello\r\n"
            s.sendall(b"EHLO x\r\n")
            assert s.recv(100) == b"EHLO x\r\n"
        used = {(e["host"], e["port"]): e for e in g.events() if e["reason"] == "used"}
        assert used["a.test", 7000]["count"] == 2 and used["a.test", 7000]["sent"] == 10
        assert used["a.test", 2500]["received"] == 19


def test_half_close_both_ways(world):
    data = os.urandom(3 << 20)
    with Gate(world, [rule("a.test", ports=(7000,))]) as g:
        with g.dial("a.test", 7000) as s:
            s.settimeout(20)

            def write():
                s.sendall(b"\0" + data)
                s.shutdown(socket.SHUT_WR)

            writer = threading.Thread(target=write)
            writer.start()
            time.sleep(0.2)  # so that both directions fill up
            assert read_all(s, 1 << 30) == b"\0" + data
            writer.join()
        assert g.flush()["active"] == 0
        assert g.flush()["sent"] >= len(data)


def test_a_reset_is_passed_on(world):
    came, gone = threading.Event(), threading.Event()

    def watch(connection):
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(1000):
                came.set()
            return
        gone.set()

    port = world.serve(watch)
    with Gate(world, [rule("a.test", ports=(port,))]) as g:
        s = g.dial("a.test", port)
        s.sendall(b"\0x")
        assert came.wait(5)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        assert gone.wait(3)


def test_other_addresses_are_tried(world):
    with Gate(world, [rule("both.test", ports=(7000,))]) as g:
        with g.dial("both.test", 7000) as s:
            s.sendall(b"x\n")
            assert s.recv(10) == b"x\n"


def test_ports_names_and_literals(world):
    with Gate(world, [rule("a.test", ports=(7000,)), rule(cidr="203.0.113.11/32", ports=(7000,))]) as g:
        before = len(world.names.seen)
        for address, port in ((g.address("a.test"), 2500), (world.SERVER_V4, 7000), (world.SERVER_V6, 7000),
                              ("198.18.44.44", 7000), ("203.0.113.11", 7001)):
            with g.connect(address, port) as s:
                assert closed(s) == ("reset", b""), (address, port)
        for own in (ward.OWN_V4, "127.0.0.1"):
            with g.connect(own, ward.TCP_PORT) as s:
                assert closed(s) == ("reset", b"")
        g.rules(rule(cidr="127.0.0.0/8", ports=(), private=True))
        with g.connect("127.0.0.1", ward.TCP_PORT) as s:
            assert closed(s) == ("reset", b"")
        found = reasons(g)
        assert ("no-rule", "127.0.0.1", ward.TCP_PORT) in found and "unreachable" not in [r[0] for r in found]
        assert ("no-port", "a.test", 2500) in found
        assert ("no-rule", world.SERVER_V4, 7000) in found and ("no-rule", world.SERVER_V6, 7000) in found
        assert len(world.names.seen) == before


def test_literal_with_a_rule(world):
    with Gate(world, [rule(cidr="203.0.113.0/24", ports=(7000, 443)), rule(cidr="2001:db8::/32", ports=(7000,)),
                      rule(cidr="0.0.0.0/0", ports=(7000,))]) as g:
        for address in (world.SERVER_V4, world.SERVER_V6):
            with g.connect(address, 7000) as s:
                s.sendall(b"x\n")
                assert s.recv(10) == b"x\n"
        with g.connect(world.PRIVATE_V4, 7000) as s:
            assert closed(s)[0] == "reset"
        assert ("private", world.PRIVATE_V4, 7000) in reasons(g)


def test_private_answers(world):
    names = ("inner.test", "loop.test", "meta.test", "synth.test", "sneaky.test")
    with Gate(world, [rule(n, ports=(7000,)) for n in names]) as g:
        for name in names:
            with g.dial(name, 7000) as s:
                assert closed(s)[0] == "reset", name
        found = [r[0] for r in reasons(g)]
        assert found.count("private") == len(names)
    with Gate(world, [rule("inner.test", ports=(7000,), private=True), rule("synth.test", ports=(7000,), private=True),
                      rule("mixed.test", ports=(7000,)), rule("listed.test", ports=(7000,))]) as g:
        for name in ("inner.test", "mixed.test", "listed.test"):
            with g.dial(name, 7000) as s:
                s.sendall(b"x\n")
                assert s.recv(10) == b"x\n", name
        with g.dial("synth.test", 7000) as s:
            assert closed(s)[0] == "reset"
        assert ("private", "synth.test", 7000) in reasons(g)  # not dialled at all, whatever the rule says


def test_unresolved_and_unreachable(world):
    with Gate(world, [rule("none.test"), rule("a.test", ports=(1,))]) as g:
        with g.dial("none.test", 80) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: none.test\r\n\r\n")
            how, words = closed(s)
            assert how == "end" and words.startswith(b"HTTP/1.1 ") and b"none.test" in words
        with g.dial("a.test", 1) as s:
            assert closed(s)[0] == "reset"
        found = reasons(g)
        assert ("unresolved", "none.test", 80) in found and ("unreachable", "a.test", 1) in found


# --- HTTP and TLS ---

def test_http_by_name(world):
    with Gate(world, [rule("a.test", ports=(80, 8080))]) as g:
        with g.dial("a.test", 80) as s:
            assert "served /one" in get(s, "/one")
            assert "served /two" in get(s, "/two", "A.test")
            answer = get(s, "/three", "b.test")
            assert answer.startswith("HTTP/1.1 403") and "application/json" in answer
        with g.dial("a.test", 8080) as s:
            assert "served /x" in get(s, "/x", "a.test:8080")
            assert get(s, "/x", "evil.test").startswith("HTTP/1.1 403")
        assert ("wrong-host", "a.test", 80) in reasons(g)
        assert not [h for h in world.http.heads if "evil.test" in h or "b.test" in h]


def test_http_refused_in_words(world):
    with Gate(world, [rule("a.test", ports=(7000,))]) as g:
        with g.dial("a.test", 80) as s:
            how, words = "", get(s, "/secret/path?query=1")
            assert words.startswith("HTTP/1.1 403") and '"host":"a.test"' in words and '"path":"/secret/path"' in words
            assert closed(s)[0] == "end"
        event = [e for e in g.refusals() if e["reason"] == "no-port"][0]
        assert (event["method"], event["path"]) == ("GET", "/secret/path")
        with g.connect("203.0.113.10", 80) as s:
            s.sendall(b"not http at all\n\n")
            assert closed(s) == ("reset", b"")
        assert any("no-rule" == r[0] for r in reasons(g))


def test_tls_names(world):
    with Gate(world, [rule("a.test", ports=(443, 8443, 80))]) as g:
        for port in (443, 8443):
            context = ssl.create_default_context(cafile=world.certificate)
            with g.dial("a.test", port) as raw, context.wrap_socket(raw, server_hostname="a.test") as s:
                assert "served /tls" in get(s, "/tls")
            for name in ("b.test", None, "a.test.evil.test"):
                with g.dial("a.test", port) as s:
                    s.sendall(hello(name))
                    how, words = closed(s)
                    assert words[:2] == b"\x15\x03" and words[-1] == 112, (port, name, words)
        with g.dial("a.test", 80) as s:
            s.sendall(hello("a.test"))
            assert closed(s)[1][:1] == b"\x15"
        with g.dial("a.test", 443) as s:
            s.sendall(b"SSH-2.0-x\r\n")
            assert closed(s) == ("reset", b"")
        early = g.refusals()
        assert "not TLS on the port of TLS" in [e["detail"] for e in early]
        with g.dial("a.test", 443) as s:
            assert get(s).startswith("HTTP/1.1 400")
        events = early + g.refusals()
        assert sum(e["count"] for e in events if e["reason"] == "wrong-server") == 6
        details = [e["detail"] for e in events if e["reason"] == "bad-protocol"]
        assert {"TLS on the port of HTTP", "not TLS on the port of TLS", "plain HTTP on the port of TLS"} >= set(details)
        assert "plain HTTP on the port of TLS" in details and "TLS on the port of HTTP" in details


def test_tls_hello_in_pieces(world):
    data = hello("a.test")
    with Gate(world, [rule("a.test")]) as g:
        with g.dial("a.test", 443) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(0, len(data), 40):
                s.sendall(data[i:i + 40])
                time.sleep(0.002)
            assert s.recv(5)[:1] == b"\x16"
        record = data[5:]  # the same message in records of 100 bytes
        pieces = b"".join(b"\x16\x03\x01" + struct.pack(">H", len(record[i:i + 100])) + record[i:i + 100]
                          for i in range(0, len(record), 100))
        with g.dial("a.test", 443) as s:
            s.sendall(pieces)
            assert s.recv(5)[:1] == b"\x16"
        with g.dial("a.test", 443) as s:
            s.sendall(b"\x16\x03\x01\x40\x00\x01\x00\xff\xfc" + os.urandom(16384 - 4))
            s.sendall((b"\x16\x03\x01\x40\x00" + os.urandom(16384)) * 5)
            assert closed(s)[0] in ("end", "reset")


def post_and_compare(s, size):
    """Posts bytes, reads them back slowly, while the other side is slow too."""
    data = os.urandom(size)
    s.settimeout(30)
    writer = threading.Thread(target=lambda: s.sendall(b"POST /ok HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n"
                                                       % size + data), daemon=True)
    writer.start()
    answer = s.recv(1)
    time.sleep(0.2)
    answer += read_all(s, 1 << 30)
    writer.join()
    assert answer.startswith(b"HTTP/1.1 200") and answer.split(b"\r\n\r\n", 1)[1] == data


def test_http_much_and_slowly(world):
    with Gate(world, [rule("a.test", ports=(8081,))]) as g:
        with g.dial("a.test", 8081) as s:
            post_and_compare(s, 5 << 20)
        assert g.flush()["active"] == 0


def test_web_socket(world):
    with Gate(world, [rule("a.test", ports=(8082,))]) as g:
        with g.dial("a.test", 8082) as s:
            s.sendall(b"GET /chat HTTP/1.1\r\nHost: a.test:8082\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      b"Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
            data = b""
            while not data.endswith(b"first"):
                data += s.recv(1000)
            assert data.startswith(b"HTTP/1.1 101")
            s.sendall(b"\x81\x02hi")
            assert s.recv(100) == b"\x81\x02hi"
            s.shutdown(socket.SHUT_WR)
            assert s.recv(100) == b""
        time.sleep(0.1)
        assert g.flush()["active"] == 0


def test_inspection_without_tls_fails_closed(world):
    with Gate(world, [rule("a.test", inspect=True, ports=(443, 80, 7000))]) as g:
        with g.dial("a.test", 443) as s:
            s.sendall(hello("a.test"))
            assert closed(s)[1][:1] == b"\x15"
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0raw\n")
            assert closed(s) == ("reset", b"")
        with g.dial("a.test", 80) as s:
            assert "served /p" in get(s, "/p")


def test_inspection(world):
    environment = {"PATH": os.environ["PATH"], "SSL_CERT_FILE": str(world.certificate)}
    with Gate(world, tls=True, environment=environment,
              rules=[rule("a.test", ports=(443, 4430), methods=("GET",), paths=("/ok*",)), rule("b.test")]) as g:
        authority = [m for m in g.waiting if m["kind"] == ward.AUTHORITY][0]
        pem = os.pread(authority["fds"][0], 1 << 16, 0).decode()
        context = ssl.create_default_context(cadata=pem)
        with g.dial("a.test", 443) as raw, context.wrap_socket(raw, server_hostname="a.test") as s:
            assert s.getpeercert()["subjectAltName"] == (("DNS", "a.test"),)
            assert "served /ok1" in get(s, "/ok1")
            assert "served /ok2" in get(s, "/ok2")
            assert get(s, "/no").startswith("HTTP/1.1 403")
        with g.dial("a.test", 443) as raw, context.wrap_socket(raw, server_hostname="a.test") as s:
            assert get(s, "/ok", method="DELETE").startswith("HTTP/1.1 403")
        with g.dial("a.test", 4430) as raw, context.wrap_socket(raw, server_hostname="a.test") as s:
            s.sendall(b"GET /ok HTTP/1.1\r\nHost: a.test:4430\r\n\r\n")
            answer = read_all(s)
            assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"y" * 5000), answer[:300]
        g.rules(rule("a.test", ports=(443, 4431), paths=("/ok*",)), rule("b.test"))
        with g.dial("a.test", 4431) as raw, context.wrap_socket(raw, server_hostname="a.test") as s:
            post_and_compare(s, 2 << 20)
        with g.dial("b.test", 443) as raw:  # no rule looks inside: the server's own certificate
            own = ssl.create_default_context(cafile=world.certificate)
            with own.wrap_socket(raw, server_hostname="b.test") as s:
                assert "served /any" in get(s, "/any", "b.test")
        found = reasons(g)
        assert ("no-path", "a.test", 443) in found and ("no-method", "a.test", 443) in found


def test_inspection_checks_the_server(world):
    with Gate(world, [rule("a.test", inspect=True)], tls=True) as g:  # the host's store does not know this server
        with g.dial("a.test", 443) as s:
            s.sendall(hello("a.test"))
            assert closed(s)[1][:1] == b"\x15"
        assert ("certificate", "a.test", 443) in reasons(g)


# --- explicit proxies ---

def proxy(g):
    return g.connect(ward.OWN_V4, ward.PROXY_PORT)


def test_connect(world):
    with Gate(world, [rule("a.test", ports=(80, 443, 7000))]) as g:
        with proxy(g) as s:
            s.sendall(b"CONNECT a.test:7000 HTTP/1.1\r\nHost: a.test:7000\r\n\r\n\0early")
            data = s.recv(100)
            assert data.startswith(b"HTTP/1.1 200 ")
            data = data.split(b"\r\n\r\n", 1)[1]
            while len(data) < 6:
                data += s.recv(100)
            assert data == b"\0early"
        context = ssl.create_default_context(cafile=world.certificate)
        with proxy(g) as s:
            s.sendall(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
            with context.wrap_socket(s, server_hostname="a.test") as t:
                assert "served /c" in get(t, "/c")
        with proxy(g) as s:
            s.sendall(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
            s.sendall(hello("evil.test"))
            assert closed(s)[1][:1] == b"\x15"
        for host, code in ((b"evil.test:7000", b"403"), (b"a.test:443", b"403"), (b"a.test", b"200"), (b"A.TEST.:7000", b"200")):
            with proxy(g) as s:
                s.sendall(b"CONNECT a.test:7000 HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
                assert s.recv(1000).startswith(b"HTTP/1.1 " + code), host
        assert ("wrong-host", "a.test", 7000) in reasons(g)
        before = len(world.names.seen)
        for target in (b"evil.test:443", b"127.0.0.1:7000", b"203.0.113.10:7000", b"a.test:22", b"[::1]:80"):
            with proxy(g) as s:
                s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target))
                assert closed(s)[1].startswith(b"HTTP/1.1 403"), target
        assert len(world.names.seen) == before


def test_absolute_form(world):
    with Gate(world, [rule("a.test", ports=(80, 8080)), rule("b.test")]) as g:
        with proxy(g) as s:
            for url, host in (("http://a.test/1", "a.test"), ("http://a.test:8080/2", "a.test:8080"),
                              ("http://b.test/3", "b.test"), ("http://a.test/4", "a.test")):
                answer = get(s, url, host)
                assert "served /" + url[-1] in answer, (url, answer)
            answer = get(s, "http://evil.test/5?x=1", "evil.test")
            assert answer.startswith("HTTP/1.1 403") and '"method":"GET"' in answer and '"path":"/5"' in answer
        with proxy(g) as s:
            assert get(s, "http://a.test/6", "b.test").startswith("HTTP/1.1 403")
        with proxy(g) as s:
            assert get(s, "/7").startswith("HTTP/1.1 4")
        assert ("no-rule", "evil.test", 80) in reasons(g)


def socks(s, host, port, command=1):
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    try:
        address = b"\x01" + socket.inet_aton(host)
    except OSError:
        address = b"\x03" + bytes([len(host)]) + host.encode()
    s.sendall(b"\x05" + bytes([command]) + b"\x00" + address + struct.pack(">H", port))
    return s.recv(10)[1]


def test_socks(world):
    with Gate(world, [rule("a.test", ports=(7000, 443))]) as g:
        for host in ("a.test", g.address("a.test")):
            with proxy(g) as s:
                assert socks(s, host, 7000) == 0
                s.sendall(b"\0ping")
                assert s.recv(10) == b"\0ping"
        for host, port, command, code in (("evil.test", 443, 1, 2), ("127.0.0.1", 7000, 1, 2), ("a.test", 443, 3, 7),
                                          ("a.test", 22, 1, 2), ("a b.test", 443, 1, 2)):
            with proxy(g) as s:
                assert socks(s, host, port, command) == code, host
        with proxy(g) as s:
            s.sendall(b"\x05\x01\x02")
            assert s.recv(2) == b"\x05\xff"


# --- limits, changes, ends ---

def test_rules_change(world):
    with Gate(world, [rule("a.test", ports=(7000, 80)), rule("b.test", ports=(7000,))]) as g:
        a, b = g.dial("a.test", 7000), g.dial("b.test", 7000)
        h = g.dial("a.test", 80)
        for s in (a, b):
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        assert "served /1" in get(h, "/1")
        applied = g.rules(rule("a.test", ports=(7000,)), rule("a.test", ports=(80,), paths=("/2",)), token=9)
        assert applied["token"] == 9 and applied["closed"] == 1
        assert closed(b)[0] == "reset"
        a.sendall(b"\0y")
        assert a.recv(10) == b"\0y"
        assert "served /2" in get(h, "/2")
        assert get(h, "/3").startswith("HTTP/1.1 403")
        assert ("revoked", "b.test", 7000) in reasons(g)
        g.rules()
        assert closed(a)[0] == "reset"
        assert g.lookup("a.test") == (5, [])


def test_connection_limit(world):
    with Gate(world, [rule("a.test", ports=(7000,))], limits=(3, *(ward.NO_LIMIT,) * 3)) as g:
        held = [g.dial("a.test", 7000) for _ in range(3)]
        for s in held:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        for _ in range(5):
            with g.dial("a.test", 7000) as s:
                assert closed(s)[0] == "reset"
        events = [e for e in g.refusals() if e["reason"] == "connections"]
        assert sum(e["count"] for e in events) == 5
        held.pop().close()
        time.sleep(0.1)
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        for s in held:
            s.close()


def test_egress_budget(world):
    with Gate(world, [rule("a.test", ports=(7000,)), rule("listed.test", ports=(7000,))],
              limits=(*(ward.NO_LIMIT,) * 3, 100000)) as g:
        other = g.dial("listed.test", 7000)
        other.sendall(b"\0x")
        assert other.recv(10) == b"\0x"
        with g.dial("listed.test", 7000) as s:
            with contextlib.suppress(ConnectionError):
                for _ in range(20):
                    s.sendall(b"\0" * 10000)
                    time.sleep(0.005)
                closed(s)
        assert closed(other)[0] == "reset"
        with g.dial("listed.test", 7000) as s:
            assert closed(s)[0] == "reset"
        assert g.flush()["sent"] <= 100000
        assert "egress" in [r[0] for r in reasons(g)]


def test_egress_budget_of_requests(world):
    with Gate(world, [rule("listed.test")], limits=(*(ward.NO_LIMIT,) * 3, 300)) as g:
        with g.dial("listed.test", 80) as s:
            assert "served /1" in get(s, "/1", "listed.test")
            s.sendall(b"POST / HTTP/1.1\r\nHost: listed.test\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000)
            assert closed(s)[0] == "reset"
        assert g.flush()["sent"] < 300
        with g.dial("listed.test", 80) as s:  # would fit, but the budget was called used up
            assert "egress" in get(s, "/2", "listed.test")
        assert "egress" in [r[0] for r in reasons(g)]


def test_bandwidth(world):
    with Gate(world, [rule("a.test", ports=(7000,))], limits=(ward.NO_LIMIT, ward.NO_LIMIT, 400000, ward.NO_LIMIT)) as g:
        with g.dial("a.test", 7000) as s:
            s.settimeout(20)
            begin = time.monotonic()
            threading.Thread(target=lambda: (s.sendall(b"\0" * 500000), s.shutdown(socket.SHUT_WR)), daemon=True).start()
            assert len(read_all(s)) == 500000
            took = time.monotonic() - begin
        assert 0.8 < took < 4, took


def test_floods_collapse(world):
    with Gate(world, [rule("a.test")], limits=(ward.NO_LIMIT,) * 4) as g:
        begin = time.monotonic()
        for _ in range(300):
            g.lookup("evil.test")
        for i in range(200):
            g.lookup(f"n{i}.evil.test")
        time.sleep(0.2)
        events = g.refusals()
        took = time.monotonic() - begin
        assert len(events) < 130 + 50 * took  # what is saved up, what a second allows, what the table still held
        assert len([e for e in events if e["host"] == "evil.test"]) <= 3 + took
        assert sum(e["count"] for e in events if e["host"] == "evil.test") == 300
        assert g.flush()["lookups_refused"] == 500
        assert 1 <= len(g.denial_lines()) <= 64


def test_tap(world):
    with Gate(world, [rule("a.test")]) as g:
        with g.socket(kind=socket.SOCK_DGRAM) as s:
            for _ in range(10):
                s.sendto(b"x" * 50, ("203.0.113.10", 9999))
        time.sleep(0.1)
        events = [e for e in g.refusals() if e["reason"] == "no-udp"]
        assert events and events[0]["host"] == "203.0.113.10" and events[0]["port"] == 9999


def test_slow_and_silent_clients_do_not_matter(world):
    with Gate(world, [rule("a.test", ports=(80, 443, 7777, 7000))]) as g:
        quiet = [g.dial("a.test", p) for p in (80, 443, 7777) for _ in range(30)]
        begun = g.dial("a.test", 443)
        for byte in hello("a.test")[:30]:
            begun.sendall(bytes([byte]))
        begin = time.monotonic()
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        assert time.monotonic() - begin < 0.5
        assert g.flush()["active"] >= 91
        assert g.memory_kib() < 8192
        for s in quiet + [begun]:
            s.close()


def test_a_refused_client_gets_an_answer_soon(world):
    with Gate(world, []) as g:
        begin = time.monotonic()
        with g.connect("203.0.113.10", 443) as s:  # says nothing
            assert closed(s)[0] == "reset"
        assert 1.5 < time.monotonic() - begin < 4
        with g.connect("203.0.113.10", 443) as s:
            s.sendall(hello("evil.test"))
            assert closed(s)[1][:1] == b"\x15"
        assert any("names evil.test" in e["detail"] for e in g.refusals())


def test_remove_and_restart_keep_addresses(world):
    with Gate(world, [rule("a.test", ports=(7000,))]) as g:
        first = g.address("a.test")
        s = g.connect(first, 7000)
        s.sendall(b"\0x")
        assert s.recv(10) == b"\0x"
        g.send(ward.REMOVE)
        assert closed(s)[0] == "reset"
        g.add({"memory": g.memory})
        g.rules(rule("b.test"), rule("a.test", ports=(7000,)))
        fds = ward.in_namespace(world.inside, g._sockets)
        g.add({k: f.fileno() for k, f in fds.items()})
        for f in fds.values():
            f.close()
        assert g.address("a.test") == first


def test_kill_closes_everything(world):
    g = Gate(world, [rule("a.test", ports=(7000,))])
    address = g.address("a.test")
    s = g.connect(address, 7000)
    s.sendall(b"\0x")
    assert s.recv(10) == b"\0x"
    g.kill()
    assert closed(s)[0] in ("reset", "end")
    with pytest.raises(OSError):
        g.connect(address, 7000)
    with pytest.raises(OSError):
        g.ask(dns_query("a.test"), timeout=0.5)
    g.close()


def test_flush_sees_what_was_said_before(world):
    """What a command did before it ended is in the report, however short its life."""
    with Gate(world, [rule("a.test", ports=(7000,))]) as g:
        address = g.address("a.test")
        os.kill(g.process.pid, signal.SIGSTOP)
        for port, words in ((443, hello("a.test")), (80, b"GET /late HTTP/1.1\r\nHost: a.test\r\n\r\n"), (22, b"x")):
            with g.connect(address, port) as s:
                s.sendall(words)
        g.send(ward.FLUSH, struct.pack("<I", 3))
        os.kill(g.process.pid, signal.SIGCONT)
        assert g.expect(ward.FLUSHED)["refused"] == 3
        seen = {(e["port"], e["path"]) for e in g.waiting if e["kind"] == ward.EVENT}
        assert seen == {(443, ""), (80, "/late"), (22, "")}


def test_rootless(world):
    with Gate(world, [rule("a.test", ports=(7000,))], rootless=True) as g:
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        status = open(f"/proc/{g.process.pid}/status").read()
        assert "CapEff:\t0000000000000000" in status and "Seccomp:\t2" in status and "Uid:\t4321" in status
        assert os.listdir(f"/proc/{g.process.pid}/root/") == []


def test_bad_requests_change_nothing(world):
    with Gate(world, [rule("a.test", ports=(7000,))]) as g:
        g.send(ward.RULES, b"\1\0\0\0nonsense")
        assert g.expect(ward.FAILED)
        g.send(ward.FLUSH, struct.pack("<I", 1), ward=5)
        assert "no ward 5" in g.expect(ward.FAILED)["text"]
        g.control.send(b"\xff" * 100)
        assert g.expect(ward.FAILED)
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"


def test_confinement(world):
    with Gate(world, []) as g:
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{g.process.pid}/status").read().splitlines()
                      if ":\t" in line)
        assert status["Uid"].split() == ["1610612736"] * 4 and status["Groups"].strip() == ""
        for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[key], 16) == 0, key
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert os.listdir(f"/proc/{g.process.pid}/root/") == []
        for kind in ("mnt", "ipc", "uts"):
            assert os.readlink(f"/proc/{g.process.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
        mounts = open(f"/proc/{g.process.pid}/mounts").read().splitlines()
        assert len(mounts) == 1 and " ro," in mounts[0]
        assert len(os.listdir(f"/proc/{g.process.pid}/fd")) < 16
        assert g.memory_kib() < 8192


def test_root_is_refused():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        r = subprocess.run([ward.gate_program()], close_fds=False, capture_output=True, text=True, timeout=5,
                           preexec_fn=lambda: os.dup2(b.fileno(), 3))
        failed = ward.parse(a.recv(1 << 16))
        assert r.returncode == 1 and failed["kind"] == ward.FAILED and "--uid" in failed["text"]


def test_storm(world):
    """Clients of every bad kind at once; afterwards the gate is as before, and others never noticed."""
    rules = [rule("a.test", ports=(80, 443, 7000, 2500)), rule("b.test", ports=(80,), paths=("/ok*",)), rule("none.test"),
             rule("inner.test")]
    with Gate(world, rules) as g:
        addresses = {n: g.address(n) for n in ("a.test", "b.test", "none.test", "inner.test")}
        good = hello("a.test")
        heads = [b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 90000\r\n\r\n",
                 b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", b"CONNECT a.test:7000 HTTP/1.1\r\nHost: a.test:7000\r\n\r\n\0x",
                 b"\x05\x01\x00", b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x1b\x58\0data", good, good[:100], b"\0raw bytes",
                 b"G", b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", os.urandom(3000), b"\x16\x03\x01\x00\x05hello", b"A" * 70000]
        ports = (80, 443, 7000, 2500, 22, ward.PROXY_PORT)
        chance = random.Random(7)
        plan = [(chance.choice(list(addresses.values()) + ["203.0.113.10", "::1", world.SERVER_V6]), chance.choice(ports),
                 chance.choice(heads), chance.randrange(5)) for _ in range(700)]

        def one(address, port, data, how):
            if port == ward.PROXY_PORT:
                address = ward.OWN_V4
            s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            s.settimeout(0.2)
            with s, contextlib.suppress(OSError):
                s.connect((address, port))
                s.sendall(data[:len(data) // 2] if how == 0 else data)
                if how == 1:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif how == 2:
                    s.shutdown(socket.SHUT_WR)
                    s.recv(65536)
                elif how == 3:
                    s.recv(10)

        def worker(part):
            ward.in_namespace(world.inside, lambda: [one(*p) for p in part])

        threads = [threading.Thread(target=worker, args=(plan[i::16],)) for i in range(16)]
        for t in threads:
            t.start()
        for i in range(10):
            with g.dial("a.test", 7000) as s:
                s.sendall(b"\0x")
                assert s.recv(10) == b"\0x"
            g.rules(*(rules if i % 2 else rules[:3]))
        for t in threads:
            t.join()
        deadline = time.monotonic() + 15
        while g.flush()["active"] > 0 and time.monotonic() < deadline:
            time.sleep(0.2)
            g.waiting.clear()
        assert g.flush()["active"] == 0
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"


def test_a_launcher_that_does_not_listen(world):
    """Reports that cannot be delivered are kept back or dropped; the network goes on."""
    with Gate(world, [rule("a.test", ports=(7000,))]) as g:
        for i in range(900):
            g.ask(dns_query(f"n{i}.evil.test"))
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        assert g.flush()["lookups_refused"] == 900


def test_flush_reports_more_than_fits(world):
    names = [f"h{i}.test" for i in range(240)]
    for name in names:
        world.names.table[name] = [world.SERVER_V4]
    with Gate(world, [rule("*", ports=(7000,))], room=8192) as g:
        for name in names:
            with proxy(g) as s:
                assert socks(s, name, 7000) == 0
        g.send(ward.FLUSH, struct.pack("<I", 1))
        time.sleep(0.2)  # does not read at once
        g.expect(ward.FLUSHED)
        used = [e for e in g.waiting if e["kind"] == ward.EVENT and e["reason"] == "used"]
        assert {e["host"] for e in used} == set(names)


def test_few_descriptors(world):
    """With a low limit of open files the gate refuses what is too much, and comes back."""
    with Gate(world, [rule("a.test", ports=(7000,))], descriptors=300) as g:
        held = [g.dial("a.test", 7000) for _ in range(120)]
        time.sleep(0.2)
        assert g.flush()["active"] == 86
        assert "connections" in [r[0] for r in reasons(g)]
        for s in held:
            s.close()
        time.sleep(0.3)
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"


def test_a_new_gate_goes_on_counting(world):
    """What was sent under a gate that died counts toward the budget, and is in the sums."""
    rules, limits = [rule("listed.test", ports=(7000,))], (*(ward.NO_LIMIT,) * 3, 100000)
    with Gate(world, rules, limits=limits) as g:
        with g.dial("listed.test", 7000) as s:
            s.sendall(b"\0" * 60000)
            s.shutdown(socket.SHUT_WR)
            assert len(read_all(s)) == 60000
        sent, memory = g.flush()["sent"], os.dup(g.memory)
        g.process.kill()
    assert 60000 <= sent < 70000
    with Gate(world, rules, limits=limits, memory=memory) as g:
        assert g.flush()["sent"] == sent
        with g.dial("listed.test", 7000) as s, contextlib.suppress(ConnectionError):
            for _ in range(6):
                s.sendall(b"\0" * 10000)
                time.sleep(0.01)
            closed(s)
        assert sent < g.flush()["sent"] <= 100000
        assert "egress" in [r[0] for r in reasons(g)]
