"""Looking back in the ledger: newest first, in pages, by kind, time, sandbox and words; and never at what others did."""
import itertools
import os
import time

import pytest

import harness
from conftest import Web, address_of
from test_doors import check_error
from wallet import Wallet


def search(web, query=""):
    answer = web.get(f"/api/events/search?{query}")
    assert answer.status == 200, answer
    assert set(answer.json) == {"events", "next", "looked"}
    return answer.json


@pytest.fixture(scope="module")
def busy(alice):
    """A sandbox in which a few things happened, and when they began."""
    began = int(time.time() * 1000)
    made = alice.post("/api/sandboxes", {"name": "audited"}).json["id"]
    for i in range(5):
        assert alice.post(f"/api/sandboxes/{made}/exec", {"command": f"echo Needle-{i}"}).status == 200
    yield made, began
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200


def settled(alice, box, count):
    """Ends of runs are written soon, not at once."""
    end = time.monotonic() + 60
    while True:
        found = search(alice, f"sandbox={box}&kinds=run.end")["events"]
        if len(found) >= count:
            return
        assert time.monotonic() < end, found
        time.sleep(0.1)


def test_newest_first(alice, busy):
    box, _ = busy
    settled(alice, box, 5)
    found = search(alice, f"sandbox={box}&limit=500")
    numbers = [e["seq"] for e in found["events"]]
    assert numbers == sorted(numbers, reverse=True) and found["next"] is None and found["looked"] >= len(numbers)
    assert {e["sandbox"] for e in found["events"]} == {box}
    assert {"sandbox.create", "run.start", "run.end"} <= {e["kind"] for e in found["events"]}
    assert set(found["events"][0]) == {"seq", "time", "sandbox", "actor", "kind", "data", "prev", "hash"}
    assert search(alice, "sandbox=audited&limit=500")["events"] == found["events"]  # by its name


def test_pages(alice, busy):
    box, _ = busy
    settled(alice, box, 5)
    whole = [e["seq"] for e in search(alice, f"sandbox={box}&limit=500")["events"]]
    pages, before = [], ""
    while True:
        page = search(alice, f"sandbox={box}&limit=3{before}")
        assert len(page["events"]) <= 3
        pages += [e["seq"] for e in page["events"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert pages == whole


def test_filters(alice, busy):
    box, began = busy
    settled(alice, box, 5)
    starts = search(alice, f"sandbox={box}&kinds=run.start")["events"]
    assert len(starts) == 5 and {e["kind"] for e in starts} == {"run.start"}
    assert {e["kind"] for e in search(alice, f"sandbox={box}&kinds=run,sandbox.create&limit=500")["events"]} >= {"run.start", "run.end", "sandbox.create"}
    assert search(alice, f"sandbox={box}&kinds=ru")["events"] == []  # a family, not a beginning
    assert [e["seq"] for e in search(alice, f"sandbox={box}&text=nEEdle-3&kinds=run.start")["events"]] == [starts[1]["seq"]]
    assert search(alice, f"sandbox={box}&text=no-such-word")["events"] == []
    hash_of = starts[0]["hash"]
    assert search(alice, f"sandbox={box}&text={hash_of[:20]}")["events"] == []  # words of the event, not its chain
    assert search(alice, f"sandbox={box}&since_ms={began - 1}&limit=500")["events"] == search(alice, f"sandbox={box}&limit=500")["events"]
    assert search(alice, f"since_ms={began + 3600_000}")["events"] == []
    assert search(alice, f"until_ms={began - 3600_000}&sandbox={box}")["events"] == []
    middle = starts[2]
    stamp = int(time.mktime(time.strptime(middle["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone) * 1000 + int(middle["time"][20:23])
    assert middle["seq"] in [e["seq"] for e in search(alice, f"sandbox={box}&since_ms={stamp}&until_ms={stamp}&limit=500")["events"]]
    assert min(e["seq"] for e in search(alice, f"sandbox={box}&since_ms={stamp}&limit=500")["events"]) <= middle["seq"]


def test_others_see_nothing_of_it(alice, bob, nobody, busy):
    box, _ = busy
    settled(alice, box, 5)
    seen = search(bob, "limit=500")["events"]
    assert not any(e["sandbox"] == box or "Needle" in str(e) for e in seen)
    assert search(bob, f"sandbox={box}")["events"] == [] and search(bob, "text=needle")["events"] == []
    check_error(bob.get("/api/events/search?sandbox=audited"), 404, "NOT_FOUND")
    check_error(bob.get("/api/events/search?all=true"), 403, "REFUSED")
    check_error(nobody.get("/api/events/search"), 401, "NO_TOKEN")
    token = alice.post("/api/capabilities/tokens", {"verbs": ["events"], "resources": [f"sandbox/{box}"], "expires_in": 60}).json["token"]
    check_error(Web(alice.address, token).get(f"/api/events/search?sandbox={box}"), 403, "NOT_PERMITTED")


def test_operators_see_all(house, alice, nobody, busy):
    box, _ = busy
    url = house.client.ask("sign-in", operator=True)["url"]
    operator = Web(nobody.address, nobody.post("/api/auth/session", {"link": url.partition("#link=")[2]}).json["token"])
    assert box in {e["sandbox"] for e in search(operator, "all=true&kinds=sandbox&limit=500")["events"]}
    assert box not in {e["sandbox"] for e in search(operator, "kinds=sandbox&limit=500")["events"]}


def test_one_that_is_deleted(alice):
    made = alice.post("/api/sandboxes", {}).json["id"]
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200
    assert "sandbox.create" in {e["kind"] for e in search(alice, f"sandbox={made}")["events"]}


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "before=0", "before=-1", "since_ms=x", "text=" + "x" * 65, "kinds=" + "x" * 256, "all=2",
                                   "from=1", "sandbox=" + "x" * 65, "limit=1&limit=2", "since_ms=99999999999999999"])
def test_bad_queries(alice, query):
    check_error(alice.get(f"/api/events/search?{query}"), 400, "BAD_REQUEST")


def test_many_at_once(make_house):
    """Two of one owner at a time; the others are told so, and nobody is kept waiting for an ordinary answer."""
    web = Web(address_of(make_house("rate_read = unlimited\nrate_owner = unlimited\nrate_auth = unlimited\nrate_write = unlimited\n")))
    alice, bob = web.sign_in(Wallet("alice")), web.sign_in(Wallet("bob"))

    def ask():
        """Six at once: they wait together until what is being written down is durable."""
        asked = [alice.connect(60) for _ in range(6)]
        for c in asked:
            c.connect()
        assert alice.post("/api/capabilities/tokens", {"verbs": ["show"], "resources": ["sandbox/*"], "expires_in": 60}).status in (200, 201)
        for c in asked:
            c.request("GET", "/api/events/search?text=nothing-at-all", headers={"Authorization": f"Bearer {alice.token}"})
        assert search(bob, "limit=1")["looked"] >= 1
        statuses = [c.getresponse().status for c in asked]
        assert set(statuses) <= {200, 503} and 200 in statuses, statuses
        return 503 in statuses
    assert harness.until(ask)


def test_gate_and_load_and_pool(house, alice, nobody):
    for path in ("gate", "load", "pool"):
        check_error(alice.get(f"/api/operator/{path}"), 403, "REFUSED")
        check_error(nobody.get(f"/api/operator/{path}"), 401, "NO_TOKEN")
    url = house.client.ask("sign-in", operator=True)["url"]
    operator = Web(nobody.address, nobody.post("/api/auth/session", {"link": url.partition("#link=")[2]}).json["token"])
    load = operator.get("/api/operator/load").json
    assert load["cpus"] == os.cpu_count() and load["memory"] > load["memory_free"] > 0 and load["uptime_ms"] > 0 and load["processes"] > 1
    assert all(value is None or isinstance(value, int) for value in load.values())
    pool = operator.get("/api/operator/pool").json
    assert pool["size"] >= pool["ready"] >= 0 or pool["kinds"]
    made = alice.post("/api/sandboxes", {"profile": "medium", "allow": ["allowed.test"]}).json["id"]
    try:
        assert alice.post(f"/api/sandboxes/{made}/exec", {"command": "getent hosts never.allowed.example; true"}).status == 200
        end = time.monotonic() + 60
        while True:
            names = {n["host"]: n for n in operator.get("/api/operator/gate?limit=500").json["names"]}
            if "never.allowed.example" in names:
                break
            assert time.monotonic() < end, names
            time.sleep(0.2)
        assert names["never.allowed.example"]["denied"] >= 1 and names["never.allowed.example"]["allowed"] == 0
        assert names["never.allowed.example"]["reason"] == "no-rule"
        assert len(operator.get("/api/operator/gate?limit=1").json["names"]) == 1
        # names that a sandbox makes up hide nobody else's; a few at a time, because the gate sums up a flood without names
        asked = itertools.count()

        def gathered():
            tried = " ".join(f"n{next(asked)}.example" for _ in range(15))
            assert alice.post(f"/api/sandboxes/{made}/exec", {"command": f"for n in {tried}; do getent hosts $n; done; true"}).status == 200
            found = [n["host"] for n in operator.get("/api/operator/gate?limit=500").json["names"]]
            own = [n for n in found if n.startswith("n") and n.endswith(".example")]
            assert len(own) <= 64, found
            return f"(others of {made})" in found
        assert harness.until(gathered, step=0.5), operator.get("/api/operator/gate?limit=500").json
        for query in ("limit=0", "limit=501", "since_ms=x", "x=1"):
            check_error(operator.get(f"/api/operator/gate?{query}"), 400, "BAD_REQUEST")
    finally:
        assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200
