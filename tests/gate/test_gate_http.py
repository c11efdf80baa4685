"""The gate by itself: HTTP, TLS and explicit proxies."""
import os
import socket
import ssl
import struct
import threading
import time

import pytest

import ward
from peers import closed, get, hello, proxy, reasons, socks
from ward import Gate, read_all, rule

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ward.gate_program(), reason="needs root and a built gate")


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
        assert g.idle()


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
        assert g.idle()


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
