"""What sandboxes used, over time: measured while somebody looks, and only for whoever may see them."""
import time

import pytest

import harness
from conftest import Web
from test_doors import check_error


def wait_for(ready, what, seconds=60):
    end = time.monotonic() + seconds * harness.SLOW
    while True:
        found = ready()
        if found:
            return found
        assert time.monotonic() < end, what
        time.sleep(0.2)


def samples(web, box, query=""):
    answer = web.get(f"/api/sandboxes/{box}/usage/history{query}")
    assert answer.status == 200, answer
    return answer.json["samples"]


def test_history(alice, box):
    first = alice.get(f"/api/sandboxes/{box}/usage/history").json
    assert first["sandbox"] == box and first["running"] is True and first["every_ms"] == 2000
    assert first["limits"] == {"cpus_thousandths": 2000, "memory": 2 << 30, "disk": 1 << 30, "cpu_ms": 7200000, "egress": None}
    before = wait_for(lambda: samples(alice, box), "a first sample")[-1]
    assert alice.post(f"/api/sandboxes/{box}/exec", {"command": "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 3000000 /dev/zero > used; sync"}).json["exit_code"] == 0
    found = wait_for(lambda: [s for s in samples(alice, box) if s["cpu_us"] > before["cpu_us"] + 20000 and (s["disk"] or 0) >= 3000000], "what it used")
    last = found[-1]
    assert set(last) == {"at_ms", "cpu_us", "memory", "io_read", "io_write", "net_in", "net_out", "processes", "disk"}
    assert last["memory"] > 0 and last["processes"] >= 1 and last["net_in"] is None and last["net_out"] is None
    times = [s["at_ms"] for s in samples(alice, box)]
    assert times == sorted(set(times)) and abs(times[-1] / 1000 - time.time()) < 60 * harness.SLOW
    assert [s["at_ms"] for s in samples(alice, box, f"?since_ms={times[0]}")][:len(times) - 1] == times[1:]
    assert samples(alice, box, f"?since_ms={2 ** 62}") == []


def test_of_several(alice, bob, box):
    mine = bob.post("/api/sandboxes", {})
    assert mine.status == 201, mine
    other = mine.json["id"]
    try:
        def of(web, *ids):
            answer = web.post("/api/usage", {"sandboxes": list(ids)})
            assert answer.status == 200 and answer.json["every_ms"] == 2000, answer
            return answer.json["usage"]
        assert wait_for(lambda: of(alice, box, other, "0" * 16, "nonsense", "../x").get(box), "a sample of hers")
        assert set(of(alice, box, other)) == {box} and set(of(bob, box, other)) == {other}
        assert set(of(alice, box, box)) == {box} and len(of(alice, box)[box]) <= 30
    finally:
        assert bob.delete(f"/api/sandboxes/{other}?force=true").status == 200
    assert bob.post("/api/usage", {"sandboxes": [other]}).json["usage"] == {}


def test_one_that_is_stopped(alice):
    made = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    try:
        wait_for(lambda: samples(alice, made), "a first sample")
        assert alice.post(f"/api/sandboxes/{made}/stop", {}).status == 200
        found = alice.get(f"/api/sandboxes/{made}/usage/history").json
        assert found["running"] is False and found["samples"]
        last = found["samples"][-1]
        assert alice.post(f"/api/sandboxes/{made}/resume", {}).status == 200
        later = wait_for(lambda: samples(alice, made, f"?since_ms={last['at_ms']}"), "a sample after it was resumed")
        assert later[-1]["cpu_us"] >= last["cpu_us"]  # of all its starts
    finally:
        assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200


def test_who_may(alice, bob, box, nobody):
    path = f"/api/sandboxes/{box}/usage/history"
    check_error(bob.get(path), 404, "NOT_FOUND")
    check_error(nobody.get(path), 401, "NO_TOKEN")
    check_error(nobody.post("/api/usage", {"sandboxes": [box]}), 401, "NO_TOKEN")
    token = alice.post("/api/capabilities/tokens", {"verbs": ["usage"], "resources": [f"sandbox/{box}"], "expires_in": 60}).json["token"]
    machine = Web(alice.address, token)
    assert machine.get(path).status == 200
    check_error(machine.get(f"/api/sandboxes/{'0' * 16}/usage/history"), 403, "NOT_PERMITTED")
    check_error(machine.post("/api/usage", {"sandboxes": [box]}), 403, "NOT_PERMITTED")


@pytest.mark.parametrize("body", [{}, {"sandboxes": []}, {"sandboxes": "x"}, {"sandboxes": [1]}, {"sandboxes": {"a": "b"}}, {"sandboxes": ["0" * 16] * 65},
                                  {"sandboxes": ["0" * 16], "all": True}])
def test_bad_requests(alice, body):
    check_error(alice.post("/api/usage", body), 400, "BAD_REQUEST")


@pytest.mark.parametrize("query", ["?since_ms=x", "?since_ms=-1", "?since_ms=", "?since_ms=99999999999999999999", "?foo=1", "?since_ms=1&since_ms=2"])
def test_bad_queries(alice, box, query):
    check_error(alice.get(f"/api/sandboxes/{box}/usage/history{query}"), 400, "BAD_REQUEST")


def test_more_than_are_kept(make_house):
    """Whoever looks at more than 64 loses those that he has not looked at for longest, and nobody else does."""
    from conftest import address_of
    from wallet import Wallet
    house = make_house("rate_write = unlimited\nrate_read = unlimited\nrate_sandbox = unlimited\nrate_auth = unlimited\nmax_sandboxes = 100\n")
    web = Web(address_of(house))
    alice, bob = web.sign_in(Wallet("alice")), web.sign_in(Wallet("bob"))
    boxes = [alice.post("/api/sandboxes", {}).json["id"] for _ in range(66)]
    other = bob.post("/api/sandboxes", {}).json["id"]
    wait_for(lambda: samples(bob, other), "a sample of his")
    wait_for(lambda: samples(alice, boxes[0]), "a first sample")
    first = samples(alice, boxes[0])[0]["at_ms"]
    for box in boxes[1:]:
        samples(alice, box)
    assert samples(bob, other)
    assert all(s["at_ms"] > first for s in samples(alice, boxes[0]))  # begun anew
    for box in boxes:
        assert alice.delete(f"/api/sandboxes/{box}?force=true").status == 200
    assert bob.delete(f"/api/sandboxes/{other}?force=true").status == 200
