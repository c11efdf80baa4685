"""The gate by itself: limits, changes, floods and ends."""
import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

import ward
from peers import closed, get, hello, proxy, reasons, socks
from ward import Gate, dns_query, read_all, rule

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ward.gate_program(), reason="needs root and a built gate")


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
        assert g.active(2)
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
        def once():
            with g.dial("a.test", 7000) as s:
                begin = time.monotonic()
                threading.Thread(target=lambda c=s: (c.sendall(b"\0" * 500000), c.shutdown(socket.SHUT_WR)), daemon=True).start()
                assert len(read_all(s)) == 500000
                took = time.monotonic() - begin
            assert 0.8 < took
            return took
        assert ward.quickest(once, 4) < 4


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
        events = [e for e in g.told(lambda all: any(e["reason"] == "no-udp" for e in all)) if e["reason"] == "no-udp"]
        assert events and events[0]["host"] == "203.0.113.10" and events[0]["port"] == 9999


def test_slow_and_silent_clients_do_not_matter(world):
    with Gate(world, [rule("a.test", ports=(80, 443, 7777, 7000))]) as g:
        quiet = [g.dial("a.test", p) for p in (80, 443, 7777) for _ in range(30)]
        begun = g.dial("a.test", 443)
        for byte in hello("a.test")[:30]:
            begun.sendall(bytes([byte]))
        watch = g.stopwatch()
        with g.dial("a.test", 7000) as s:
            s.sendall(b"\0x")
            assert s.recv(10) == b"\0x"
        assert watch.seconds < 0.5, watch.wall
        assert g.flush()["active"] >= 91
        assert g.memory_kib() < 8192
        for s in quiet + [begun]:
            s.close()


def test_a_refused_client_gets_an_answer_soon(world):
    with Gate(world, []) as g:
        watch = g.stopwatch()
        with g.connect("203.0.113.10", 443) as s:  # says nothing
            assert closed(s)[0] == "reset"
        assert watch.wall > 1.5
        assert watch.seconds < 4
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
        r = subprocess.run([ward.gate_program()], close_fds=False, capture_output=True, text=True, timeout=60,
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
        deadline = time.monotonic() + 60
        while g.flush()["active"] > 0 and time.monotonic() < deadline:
            time.sleep(0.2)
            g.waiting.clear()
        assert g.idle()
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
        assert g.active(86)
        assert "connections" in [r[0] for r in reasons(g)]
        for s in held:
            s.close()
        assert g.idle()
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
