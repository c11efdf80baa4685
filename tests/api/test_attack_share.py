"""What one owner holds is not taken from the others: open requests, answers that nobody reads, and a session that has ended."""
import contextlib
import socket
from pathlib import Path

import pytest

import harness
import secure
from conftest import RATES, Web, address_of
from test_tunnel import Tunnel, frame
from wallet import Wallet
from websocket import Socket


@pytest.fixture(scope="module")
def own_house(suite):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    tls = secure.settings() if secure.ON else ""
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nconnections_address = 24\n{tls}{RATES}").start()
    yield daemon
    daemon.end()


def ask_only(web, path, room=None):
    """Asks, and reads nothing."""
    s = web.socket(60)
    if room:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {web.address}\r\nAuthorization: Bearer {web.token}\r\n\r\n".encode())
    return s


def test_open_requests_of_one_owner(own_house):
    """All come from one address, as behind a proxy: half of its places are the most that one of them has."""
    nobody = Web(address_of(own_house))
    alice, bob = (nobody.sign_in(Wallet(name)) for name in ("alice", "bob"))
    box = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    run = alice.post(f"/api/sandboxes/{box}/exec", {"command": "sleep 1000", "background": True}).json["run"]
    path = f"/api/sandboxes/{box}/runs/{run}/stream"
    with contextlib.ExitStack() as held:
        for _ in range(12):
            s = held.enter_context(ask_only(alice, path))
            assert b" 200 " in s.recv(300)
        refused = alice.get("/api/sandboxes")
        assert refused.status == 429 and refused.json["code"] == "LIMIT", refused
        assert alice.put(f"/api/sandboxes/{box}/files?path=/tmp/x", b"x").status == 429
        assert bob.get("/api/sandboxes").status == 200 and nobody.get("/health").status == 200
        with Socket(bob, "/api/local", headers={"Sec-WebSocket-Protocol": "stockade.local.1"}):
            pass
    assert harness.until(lambda: alice.get("/api/sandboxes").status == 200)
    assert alice.delete(f"/api/sandboxes/{box}?force=true").status == 200


def test_a_machine_does_not_keep_its_owner_out(own_house):
    """What is open with capabilities is counted apart, and whoever wants to end one is always heard."""
    alice = Web(address_of(own_house)).sign_in(Wallet("carol"))
    box = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    run = alice.post(f"/api/sandboxes/{box}/exec", {"command": "sleep 1000", "background": True}).json["run"]
    made = alice.post("/api/capabilities/tokens", {"verbs": ["attach"], "resources": [f"sandbox/{box}"]}).json
    machine = Web(alice.address, made["token"])
    path = f"/api/sandboxes/{box}/runs/{run}/stream"
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(ask_only(machine, path)) for _ in range(6)]
        assert all(b" 200 " in s.recv(300) for s in taken)
        assert machine.get(path).status == 429
        assert alice.get("/api/sandboxes").status == 200
        for _ in range(12):  # and all that the owner may have
            assert b" 200 " in held.enter_context(ask_only(alice, path)).recv(300)
        assert alice.get("/api/sandboxes").status == 429
        assert alice.delete(f"/api/capabilities/tokens/{made['capability']['jti']}").status == 200
        for s in taken:
            while s.recv(65536):
                pass
    assert harness.until(lambda: alice.get("/api/sandboxes").status == 200)
    assert alice.delete(f"/api/sandboxes/{box}?force=true").status == 200


def test_a_proxy_is_many_people(make_house):
    daemon = make_house("connections_address = 4\nproxies = 127.0.0.1\n" + RATES)
    web = Web(address_of(daemon))
    with contextlib.ExitStack() as held:
        for _ in range(8):
            held.enter_context(contextlib.closing(web.socket(60)))
        assert web.get("/health").status == 200


def resident(daemon):
    text = Path(f"/proc/{daemon.operator}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def test_lists_that_nobody_reads(house, alice, bob):
    """Each is some megabytes of the operator's memory: so many of one owner, and then no more."""
    box, other = (web.post("/api/sandboxes", {"profile": "medium"}).json["id"] for web in (alice, bob))
    script = f"mkdir /tmp/many && cd /tmp/many && for i in $(seq 12000); do : > $i-{'x' * 200}; done"
    made = alice.post(f"/api/sandboxes/{box}/exec", {"command": script}, timeout=120)
    assert made.json["exit_code"] == 0, made
    path, before = f"/api/sandboxes/{box}/files?path=/tmp/many", resident(house)
    with contextlib.ExitStack() as held:
        waiting = [held.enter_context(ask_only(alice, path, 4096)) for _ in range(24)]
        heads = [s.recv(12) for s in waiting]
        assert heads.count(b"HTTP/1.1 200") >= 2 and heads.count(b"HTTP/1.1 503") >= 12, heads
        assert resident(house) - before < 48 << 20
        assert bob.get(f"/api/sandboxes/{other}/files?path=/etc").status == 200
    assert harness.until(lambda: alice.get(path).status == 200), "what was not read is given back"
    for web, made in ((alice, box), (bob, other)):
        assert web.delete(f"/api/sandboxes/{made}?force=true").status == 200


def test_a_revoked_session_asks_nothing_in_an_open_tunnel(nobody, alice, box):
    """The moment after; whoever looks after connections has not come by yet."""
    for n in range(4):
        web = nobody.sign_in(Wallet("alice"))
        t = Tunnel(web)
        assert web.delete("/api/auth/session").status == 200
        try:
            t.s.send(frame(b"Q", {"verb": "exec", "sandbox": box, "argv": ["touch", f"/tmp/after-{n}"]}))
            assert t.frame() == (None, 1008)
        except (ConnectionError, EOFError):
            pass
        t.s.close()
    assert b"after" not in alice.get(f"/api/sandboxes/{box}/files?path=/tmp").body


def test_a_revoked_session_types_nothing(nobody, alice, box):
    made = alice.post(f"/api/sandboxes/{box}/live/terminal/sessions", {"command": "/bin/sh"}).json
    path = f"/api/sandboxes/{box}/live/terminal/sessions/{made.get('run') or made['session_id']}"
    web = nobody.sign_in(Wallet("alice"))
    with Socket(web, f"{path}/ws") as ws:
        ws.said("started")
        assert web.delete("/api/auth/session").status == 200
        try:
            ws.send(b"touch /tmp/typed\n")
            assert ws.close_code() == 1008
        except (ConnectionError, EOFError):
            pass
    assert alice.post(f"{path}/input", {"data": "touch /tmp/heard\n"}).status == 200
    assert harness.until(lambda: b"heard" in alice.get(f"/api/sandboxes/{box}/files?path=/tmp").body, step=0.05)
    assert b"typed" not in alice.get(f"/api/sandboxes/{box}/files?path=/tmp").body
    assert alice.delete(path).status == 200
