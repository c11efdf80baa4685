"""The gate by itself: names and connections. Real sockets in real namespaces, the real program, no launcher. Needs root."""
import contextlib
import os
import socket
import struct
import threading
import time

import pytest

import ward
from peers import closed, hello, reasons
from ward import Gate, dns_query, dns_parse, read_all, rule

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ward.gate_program(), reason="needs root and a built gate")


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
            s.settimeout(ward.ENOUGH)
            s.send(dns_query("a.test", counts=(2, 0, 0, 0)))
            assert s.recv(600)[3] & 15 == 1
        assert g.lookup("a.test")[0] == 0
        assert "bad-protocol" in [r[0] for r in reasons(g)]


def test_names_rate(world):
    with Gate(world, [rule("a.test")], limits=(ward.NO_LIMIT, 20, ward.NO_LIMIT, ward.NO_LIMIT)) as g:
        codes = []
        while len(codes) < 60 or (codes.count(5) < 5 and len(codes) < 3000):  # more than it answers, also where all is slow
            codes.append(g.lookup("a.test")[0])
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
        assert g.idle()
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
        assert came.wait(ward.ENOUGH)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        assert gone.wait(ward.ENOUGH)


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
