"""Provisions, the operator's own routes, forks as one step, and names of events that existing clients know."""
import time

import pytest

import harness
from conftest import Web, address_of, events
from test_doors import check_error
from wallet import Wallet


def test_provisions(alice, bob):
    made = [alice.post("/api/sandboxes", {"profile": "low"}).json["id"] for _ in range(3)]
    try:
        found = {p["sandbox_id"]: p for p in alice.get("/api/provisions?limit=1000").json["provisions"]}
        assert set(made) <= set(found)
        for id in made:
            p = found[id]
            assert p["phase"] == "ready" and p["progress_pct"] == 100 and p["metadata"] == {"service_id": 0} and p["sidecar_url"] is None, p
            assert p["call_id"] == int(id[:13], 16) and abs(p["started_at"] - time.time()) < 3600 and p["started_at_ms"] // 1000 == p["started_at"]
            assert alice.get(f"/api/provisions/{p['call_id']}").json["sandbox_id"] == id
            check_error(bob.get(f"/api/provisions/{p['call_id']}"), 404, "NOT_FOUND")  # an owner's own, and nobody else's
        assert not set(made) & {p["sandbox_id"] for p in bob.get("/api/provisions").json["provisions"]}
        seen, cursor = [], None
        while True:
            page = alice.get("/api/provisions?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
            assert len(page["provisions"]) <= 2
            seen += [p["sandbox_id"] for p in page["provisions"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        assert set(made) <= set(seen) and len(seen) == len(set(seen))
    finally:
        for id in made:
            alice.delete(f"/api/sandboxes/{id}?force=true")
    check_error(alice.get("/api/provisions/1"), 404, "NOT_FOUND")
    for bad in ("x", "-1", "1.5", "99999999999999999"):
        check_error(alice.get(f"/api/provisions/{bad}"), 400, "BAD_REQUEST")
    for bad in ("limit=0", "limit=x", "cursor=x", "state=running"):
        check_error(alice.get(f"/api/provisions?{bad}"), 400)


def operator(house, nobody):
    link = house.client.sign_in(operator=True)["url"].split("#link=")[1]
    return Web(nobody.address, nobody.post("/api/auth/session", {"link": link}).json["token"])


@pytest.mark.parametrize("path", ["/api/operator/health", "/api/operator/owners", "/api/operator/sandboxes"])
def test_for_operators_alone(house, nobody, alice, path):
    check_error(nobody.get(path), 401, "NO_TOKEN")
    check_error(alice.get(path), 403, "REFUSED")
    token = alice.post("/api/capabilities/tokens", {"verbs": ["*"], "resources": ["*"], "expires_in": 60}).json["token"]
    check_error(Web(alice.address, token).get(path), 403)
    assert operator(house, nobody).get(path).status == 200


def test_operator_sees_all(house, nobody, alice, bob, box):
    boss = operator(house, nobody)
    theirs = bob.post("/api/sandboxes", {"profile": "low"}).json["id"]
    try:
        assert {box, theirs} <= {s["id"] for s in boss.get("/api/operator/sandboxes?limit=1000").json["sandboxes"]}
        owners = {o["owner"]: o for o in boss.get("/api/operator/owners").json["owners"]}
        assert owners["eth:" + Wallet("bob").address.lower()]["running"] >= 1, owners
        health = boss.get("/api/operator/health").json
        assert health["ledger"] == "ok" and health["used"]["sandboxes"] >= 2, health
    finally:
        bob.delete(f"/api/sandboxes/{theirs}?force=true")


def test_ids_are_configuration(make_house):
    web = Web(address_of(make_house("network_name = testnet\nservice_id = 42\nblueprint_id = 7\nmanaging_operator = 0xabc\nchain = 31337\n")))
    found = web.get("/api/capabilities").json
    assert found["mode"] == "cloud" and found["network"] == {"name": "testnet", "chain_id": 31337, "service_id": 42, "blueprint_id": 7,
                                                             "managing_operator": "0xabc"}
    owner = web.sign_in(Wallet("ids"))
    made = owner.post("/api/sandboxes", {"profile": "low"}).json["id"]
    assert [p["metadata"] for p in owner.get("/api/provisions").json["provisions"]] == [{"service_id": 42}]
    owner.delete(f"/api/sandboxes/{made}?force=true")


def test_head(nobody, alice, box):
    """What asks whether somebody is there asks with HEAD."""
    for web, path in ((nobody, "/health"), (nobody, "/readyz"), (nobody, "/api/openapi.json"), (alice, "/api/sandboxes"), (alice, f"/api/sandboxes/{box}")):
        head, get = web.ask("HEAD", path, timeout=60), web.get(path, timeout=60)
        assert head.status == get.status == 200 and head.body == b"" and int(head.headers["content-length"]) > 0, (path, head)
    assert nobody.ask("HEAD", "/api/sandboxes").status == 401
    for path in ("/api/events", f"/api/sandboxes/{box}/files?path=/tmp"):  # what is streamed
        assert alice.ask("HEAD", path).status == 405
    assert alice.ask("HEAD", "/api/auth/session").status == 405


def test_terminal_events_have_known_names(alice, box):
    path = f"/api/sandboxes/{box}/live/terminal/sessions"
    session = alice.post(path, {"command": "echo shown; read x"}).json["session_id"]
    c, response = alice.open(f"{path}/{session}/stream?out=0")
    found = []
    while "shown" not in "".join(d.get("data", "") for e, d in found if e == "output"):
        found += events(response, 1)
    assert alice.post(f"{path}/{session}/input", {"data": "\n"}).status == 200
    found += events(response, until="exit")
    c.close()
    assert {e for e, _ in found} == {"started", "output", "exit"}, found


def test_fork_with_a_key(alice):
    made = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    try:
        assert alice.put(f"/api/sandboxes/{made}/files?path=/home/agent/x", b"kept").status == 200
        first = alice.post(f"/api/sandboxes/{made}/fork", {"key": "fork-once"})
        assert first.status == 201, first
        again = alice.post(f"/api/sandboxes/{made}/fork", {"key": "fork-once"})
        assert again.status == 201 and again.json["id"] == first.json["id"], again
        assert alice.get(f"/api/sandboxes/{first.json['id']}/files?path=/home/agent/x").body == b"kept"
        assert alice.get(f"/api/snapshots?sandbox={made}").json["snapshots"] == []
        check_error(alice.post(f"/api/sandboxes/{made}/fork", {"key": "fork-once", "name": "other"}), 409, "CONFLICT")
        assert alice.delete(f"/api/sandboxes/{first.json['id']}?force=true").status == 200
    finally:
        alice.delete(f"/api/sandboxes/{made}?force=true")


def test_fork_of_what_has_no_disk(alice):
    made = alice.post("/api/sandboxes", {"profile": "low", "memory_only": True}).json["id"]
    check_error(alice.post(f"/api/sandboxes/{made}/fork"), 403, "REFUSED")
    alice.delete(f"/api/sandboxes/{made}?force=true")


def test_forks_that_the_operator_does_not_survive(make_house):
    """Killed at any moment of a fork, it leaves no snapshot, and the sandbox that was forked goes on."""
    daemon = make_house("pool = 0\n")
    web = Web(address_of(daemon)).sign_in(Wallet("killed"))
    box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    for pause in (0.0, 0.01, 0.02, 0.04, 0.08):
        c = web.connect()
        c.request("POST", f"/api/sandboxes/{box}/fork", b"{}", {"Authorization": f"Bearer {web.token}", "Content-Type": "application/json"})
        time.sleep(pause)
        daemon.kill_operator()
        c.close()
        assert daemon.client.snapshots(all=True)["snapshots"] == []
        for other in daemon.client.list(all=True)["sandboxes"]:
            if other["id"] != box and other["state"] not in ("deleting", "deleted"):
                daemon.client.delete(sandbox=other["id"], force=True)
    assert web.post(f"/api/sandboxes/{box}/exec", {"command": "echo on"}).json["stdout"] == "on\n"
    assert web.delete(f"/api/sandboxes/{box}?force=true").status == 200
    assert harness.until(lambda: not list((daemon.state / "disks").iterdir())), list((daemon.state / "disks").iterdir())
