"""`stockade --server` over connections that break, and servers that are not there."""
import ctypes
import json
import os
import socket
import stat
import threading
import time

import pytest

from away import PIDFD_GETFD, client, helpers, papers, run, server, stranger, wait_for  # noqa: F401  pylint: disable=unused-import
from test_exec import Terminal, ended


def breaks(server, operator, held):
    """A run whose connection ends after its first output; whoever comes back hears nothing."""
    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"one\n")
        server.on_local = lambda peer, headers: held.wait(120)
        if q.get("stdin"):  # a key says when
            while c.read()[0] != "input":
                pass
    operator.on("exec", begin)


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else may look into the helper")
@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_a_network_that_is_dead(client, server):
    """The kernel gives up what nobody takes: its socket has been told when."""
    seen, held = threading.Event(), threading.Event()
    server.on_local = lambda peer, headers: (peer.upgrade(headers), seen.set(), held.wait(60))
    process = client.popen("list")
    try:
        assert seen.wait(60)
        pidfd, found = os.pidfd_open(helpers(server.url)[0]), []
        for number in range(32):
            fd = ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, number, 0)
            if fd >= 0:
                with open(fd, "rb", buffering=0):
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        with socket.socket(fileno=os.dup(fd)) as one:
                            if one.family == socket.AF_INET:
                                found.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        os.close(pidfd)
        assert found == [45000]
    finally:
        held.set()
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_coming_back_has_an_end(client, server, operator):
    """Also when a server takes the connection and says nothing: 15 s in all, with a word on standard error."""
    held = threading.Event()
    breaks(server, operator, held)
    began = time.monotonic()
    process = client.popen("exec", "s", "long")
    try:
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
        held.set()
    assert process.returncode == 125 and b"the connection broke; trying again" in err and b"stockade attach s 7" in err, err
    assert time.monotonic() - began >= 15 and wait_for(lambda: not helpers(server.url), 20)


@pytest.mark.parametrize("keys", [b"\x03", b"~."])
def test_keys_while_there_is_no_connection(client, server, operator, keys):
    held = threading.Event()
    breaks(server, operator, held)
    t = Terminal(client, "shell", "s")
    t.expect(rb"one", 20)
    t.type(b"x")
    t.expect(rb"trying again, Ctrl-C leaves", 20)
    t.type(keys)
    try:
        t.expect(rb"stockade attach s 7")
        assert t.end() == 0
    finally:
        held.set()


def test_what_is_typed_meanwhile_is_not_lost(client, server, operator):
    away, frames = threading.Event(), []

    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"one\n")
        while c.read()[0] != "input":
            pass
        server.on_local = lambda peer, headers: peer.answer(503, {"error": "not now"}) if not away.is_set() else server.bridge(peer, headers)

    def attach(c, q):
        c.send("event", {"run": 7, "out": q["out"]})
        typed = b""
        while not typed.endswith(b"b~c"):
            kind, data = c.read()
            typed += data if kind == "input" else b""
        frames.append(typed)
        c.ok(ended(3))
    operator.on("exec", begin)
    operator.on("attach", attach)
    t = Terminal(client, "shell", "s")
    t.expect(rb"one", 20)
    t.type(b"x")
    t.expect(rb"trying again", 20)
    t.type(b"a")
    t.type(b"b~c")
    time.sleep(0.3)
    away.set()
    assert t.end() == 3 and frames == [b"ab~c"]


def test_a_session_that_ends_meanwhile(client, server, operator):
    """What to do about it, and what about the run; the code stays the same with --json."""
    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        server.on_local = lambda peer, headers: peer.answer(401, {"error": "no", "code": "BAD_TOKEN"})
    operator.on("exec", begin)
    bridge = server.on_local
    done = client.run("exec", "s", "long")
    assert done.status == 125 and f"stockade login --server {server.url}" in done.errors and "stockade attach s 7" in done.errors, done
    server.on_local = bridge
    done = client.run("exec", "--json", "s", "long")
    assert json.loads(done.err)["error"]["code"] == "no_session", done
    for words in (("exec", "--json", "s", "x"), ("events", "-f", "--json"), ("events", "--json")):
        assert json.loads(client.run(*words).err)["error"]["code"] == "no_session"
    server.close()
    for words in (("exec", "--json", "s", "x"), ("events", "-f", "--json")):
        assert json.loads(client.run(*words).err)["error"]["code"] == "no_server"


def test_followers_wait_for_a_server(client, server, operator):
    """It is gone for a while, and then there again."""
    asked, refused = [], []

    def events(c, q):
        asked.append(q["from"])
        c.send("event", {"seq": q["from"], "time": "2026-01-02T03:04:05.678901Z", "sandbox": "s", "kind": "run.start", "data": {}})
        if len(asked) == 2:
            c.ok()
        else:
            server.on_local = later

    def later(peer, headers):
        refused.append(1)
        peer.answer(503, {"error": "not now"})
        if len(refused) == 3:
            server.on_local = server.bridge
    operator.on("events", events)
    operator.answers("health", {"ok": True, "ledger_seq": 4})
    lines = client.run("events", "-f", "--json").ok().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [5, 6] and asked == [5, 6] and len(refused) == 3


@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_followers_do_not_wait_for_ever(client, server, operator):
    """One that is always there and always breaks is not better than none."""
    asked = []
    operator.on("events", lambda c, q: asked.append(1))
    operator.answers("health", {"ok": True, "ledger_seq": 4})
    done = client.run("events", "-f", timeout=120)
    assert done.status == 125 and len(asked) > 2, done


def test_a_server_that_never_answers(client, server):
    """Ctrl-C works, and nothing stays."""
    held = threading.Event()
    server.on_local = lambda peer, headers: held.wait(60)
    process = client.popen("list")
    deadline = time.monotonic() + 20
    while not server.seen and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.seen and process.poll() is None
    process.send_signal(2)
    assert process.wait(20) == -2
    held.set()


def test_nobody_there(client, run, server):
    server.close()
    done = run("list")
    assert done.status == 125 and "could not connect" in done.errors and "firewall" in done.errors, done
    assert json.loads(run("list", "--json").err)["error"]["code"] == "no_server"
    done = run("logout")
    assert done.status == 125 and client.session.exists()
    assert run("logout", "--force").status == 0 and not client.session.exists()
