"""Evidence and checkpoints by HTTP, checked by `stockade ledger`, which has nothing but the file."""
import json
import os
import subprocess
import threading

import pytest

import harness
from conftest import Web, address_of
from test_doors import check_error
from wallet import Wallet


def verify(suite, tmp_path, data, *words):
    path = tmp_path / "evidence.json"
    path.write_bytes(data)
    done = subprocess.run([str(suite.programs.stockade), "ledger", "verify", "--json", *words, str(path)], capture_output=True, text=True,
                          timeout=60 * harness.SLOW, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_evidence_of_a_sandbox(suite, alice, bob, tmp_path):
    made = alice.post("/api/sandboxes", {"profile": "low"}).json["id"]
    path = f"/api/sandboxes/{made}"
    first = alice.post(f"{path}/exec", {"command": "echo one"}).json["run"]
    second = alice.post(f"{path}/exec", {"command": "echo two"}).json["run"]
    whole = alice.get(f"{path}/evidence")
    assert whole.status == 200 and whole.headers["content-type"] == "application/json", whole
    code, verdict = verify(suite, tmp_path, whole.body)
    assert code == 0 and verdict["holds"] and verdict["sandbox"] == made and verdict["run"] == 0 and verdict["unsigned_events"] == 0, verdict
    events = [json.loads(e) for interval in whole.json["intervals"] for e in interval["events"]]
    assert {e["sandbox"] for e in events} == {made} and {"sandbox.create", "run.start", "run.end"} <= {e["kind"] for e in events}
    one = alice.get(f"{path}/evidence/{first}")
    code, verdict = verify(suite, tmp_path, one.body)
    assert code == 0 and verdict["run"] == first and verdict["events"] < len(events), verdict
    named = [json.loads(e)["data"].get("run") for interval in one.json["intervals"] for e in interval["events"]]
    assert first in named and second not in named
    # a bit changed anywhere in what is said is found
    changed = whole.body.replace(b"run.start", b"run.stash", 1)
    assert changed != whole.body
    code, verdict = verify(suite, tmp_path, changed)
    assert code != 0, verdict
    # somebody else's, and what is not there, is the same
    for asked in (path, "/api/sandboxes/0123456789abcdef"):
        check_error(bob.get(f"{asked}/evidence"), 404, "NOT_FOUND")
        check_error(bob.get(f"{asked}/evidence/1"), 404, "NOT_FOUND")
    check_error(alice.get(f"{path}/evidence/999"), 404, "NOT_FOUND")
    for bad in ("0", "x", "-1", "4294967296", "99999999999"):
        check_error(alice.get(f"{path}/evidence/{bad}"), 400, "BAD_REQUEST")
    check_error(alice.get(f"{path}/evidence?run=1"), 400)
    # for a day after it was deleted, too
    assert alice.delete(f"{path}?force=true").status == 200
    after = alice.get(f"{path}/evidence")
    code, verdict = verify(suite, tmp_path, after.body)
    assert code == 0 and verdict["events"] > len(events), verdict
    check_error(bob.get(f"{path}/evidence"), 404, "NOT_FOUND")


def test_ticket_and_capability(alice, box):
    path = f"/api/sandboxes/{box}/evidence"
    ticket = alice.post("/api/auth/ticket", {"path": path}).json["ticket"]
    assert Web(alice.address).get(f"{path}?ticket={ticket}").status == 200
    token = alice.post("/api/capabilities/tokens", {"verbs": ["evidence"], "resources": [f"sandbox/{box}"], "expires_in": 60}).json["token"]
    machine = Web(alice.address, token)
    assert machine.get(path).status == 200
    check_error(machine.get("/api/ledger/checkpoint"), 403, "NOT_PERMITTED")


def test_many_at_once(make_house):
    """One is packed at a time, one of each owner; whoever leaves meanwhile leaves nothing behind."""
    rates = "".join(f"rate_{name} = unlimited\n" for name in ("auth", "write", "sandbox", "read", "owner"))
    daemon = make_house(rates)
    nobody = Web(address_of(daemon))
    webs = [nobody.sign_in(Wallet(f"many {i}")) for i in range(6)]
    boxes = [web.post("/api/sandboxes", {"profile": "low"}).json["id"] for web in webs]
    found = []

    def ask(web, box):
        for _ in range(20):
            found.append((box, web.get(f"/api/sandboxes/{box}/evidence")))
    threads = [threading.Thread(target=ask, args=pair) for pair in zip(webs, boxes)]
    for web, box in zip(webs, boxes):  # who is gone before it is there
        c = web.connect()
        c.request("GET", f"/api/sandboxes/{box}/evidence", headers={"Authorization": f"Bearer {web.token}"})
        c.close()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120
    for box, answer in found:
        assert answer.status == 200 and answer.json["sandbox"] == box or answer.status == 503 and answer.json["code"] == "BUSY", answer
    for web, box in zip(webs, boxes):  # whatever was left half read is noticed, and makes room
        assert harness.until(lambda: web.get(f"/api/sandboxes/{box}/evidence").status == 200), box
    assert not (daemon.state / "operator/evidence").exists()
    assert harness.until(lambda: len(os.listdir(f"/proc/{daemon.operator}/task")) <= 4)  # its threads have ended


def test_checkpoint(suite, house, alice, tmp_path):
    first = alice.get("/api/ledger/checkpoint")
    assert first.status == 200 and set(first.json) == {"seq", "hash", "checkpoint"}, first
    line = json.loads(first.json["checkpoint"])
    assert line["kind"] == "ledger.checkpoint" and line["seq"] == first.json["seq"] and line["hash"] == first.json["hash"]
    made = alice.post("/api/sandboxes", {"profile": "low"}).json["id"]
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200
    second = alice.get("/api/ledger/checkpoint").json
    assert second["seq"] > first.json["seq"]
    # what it vouches for is what the ledger has, and nothing else will do
    ledger = str(house.state / "operator/ledger")
    for hash_, code in ((second["hash"], 0), ("0" * 64, None)):
        done = subprocess.run([str(suite.programs.stockade), "ledger", "verify", "--expect", f"{second['seq']}:{hash_}", ledger],
                              capture_output=True, text=True, timeout=60 * harness.SLOW, check=False)
        assert (done.returncode == 0) == (code == 0), done


def test_checkpoints_need_somebody(nobody):
    for path in ("/api/ledger/checkpoint", "/api/sandboxes/0123456789abcdef/evidence"):
        check_error(nobody.get(path), 401, "NO_TOKEN")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_of_it_can_be_changed(alice, box, method):
    for path in ("/api/ledger/checkpoint", f"/api/sandboxes/{box}/evidence", f"/api/sandboxes/{box}/evidence/1"):
        check_error(alice.ask(method, path), 405, "BAD_METHOD")
