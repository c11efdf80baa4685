"""Profiles: what a sandbox may do is said before there is one, from the policy that it would have; wrong wishes are named by
their fields; nothing is made."""
import json
import time

import pytest

import harness
from conftest import Web, address_of
from test_doors import check_error
from wallet import Wallet


def check(web, **wishes):
    answer = web.post("/api/profiles/check", wishes)
    assert answer.status == 200, answer
    return answer.json


def fields(web, **wishes):
    found = check(web, **wishes)
    assert found["ok"] is False and set(found) == {"ok", "problems"}, found
    assert all(set(p) == {"field", "code", "error", "hint"} and p["error"] for p in found["problems"])
    return [p["field"] for p in found["problems"]]


def test_profiles(alice):
    answer = alice.get("/api/profiles")
    assert answer.status == 200 and answer.json["more"] is False
    profiles = {p["name"]: p for p in answer.json["profiles"]}
    assert list(profiles)[:3] == ["low", "medium", "high"] and all(profiles[n]["builtin"] for n in ("low", "medium", "high"))
    assert [p["name"] for p in profiles.values() if p["standard"]] == ["low"]
    medium = profiles["medium"]
    assert medium["ok"] is True and "everyday work" in medium["about"] and medium["sealed"] is False and medium["extends"] is None
    assert medium["limits"]["memory"] == 2 << 30 and medium["limits"]["cpus_thousandths"] == 2000 and medium["limits"]["idle_ms"] is None
    assert medium["limits"]["disk"] == 1 << 30 and medium["network"] == [] and medium["programs"] is None and medium["secrets"] == []
    assert profiles["low"]["programs"] == ["/usr"]
    assert [s["title"] for s in medium["sections"]][:4] == ["Files", "Programs", "Network", "Limits"]
    assert [line for s in medium["sections"] for line in s["sentences"]] == medium["summary"]
    assert "It reaches nothing: no host, no address, not even names." in medium["summary"]
    assert medium["effective"]["limits"]["memory"] == "2GiB"
    assert not any(line.startswith(" ") or "\n" in line or not line for line in medium["summary"])


def test_one_that_the_host_does_not_let_in(alice):
    """high wants the host's whole tree, which is not for sandboxes unless stockade.conf says so."""
    high = next(p for p in alice.get("/api/profiles").json["profiles"] if p["name"] == "high")
    assert high["ok"] is False and "whole tree" in high["error"] and "ceiling_whole_tree" in high["hint"] and high["summary"]
    assert fields(alice, profile="high") == ["overrides.files.write"]
    assert alice.post("/api/sandboxes", {"profile": "high"}).status == 403


def test_what_is_said_is_what_is_made(alice):
    wishes = {"profile": "medium", "overrides": {"limits.memory": "300MiB", "time.idle": "2h", "env.A": "b"}, "allow": ["example.org", "*.example.com:8443"]}
    said = check(alice, **wishes)
    assert said["ok"] is True and said["profile"] == "medium" and said["persistent"] is True and said["cwd"] == "/home/agent"
    assert said["network"] == ["example.org", "*.example.com:8443"] and said["limits"]["memory"] == 300 << 20 and said["limits"]["idle_ms"] == 7200000
    assert "It may reach example.org on ports 80 and 443." in said["summary"]
    assert "It may reach every host below example.com on port 8443." in said["summary"]
    assert said["effective"]["env"] == {"A": "b"}
    made = alice.post("/api/sandboxes", wishes)
    assert made.status == 201, made
    try:
        assert alice.get(f"/api/sandboxes/{made.json['id']}/policy").json["described"]["effective"] == said["effective"]
    finally:
        assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200


def test_nothing_is_made(alice):
    def count():
        return len(alice.get("/api/sandboxes?limit=1000").json["sandboxes"])
    before = count()
    assert check(alice)["ok"] is True and check(alice, profile="medium", memory_only=True)["persistent"] is False
    assert count() == before


def test_a_text(alice):
    assert check(alice, profile_text="profile: 1\nname: mine\nextends: medium\nsealed: true\n")["profile"] == "mine"
    assert fields(alice, profile_text="profile: 1\nfoo: bar\n") == ["profile_text"]
    assert fields(alice, profile_text="profile: 1\nname: mine\nextends: /etc/passwd\n") == ["profile_text"]
    assert fields(alice, profile_text="profile: 1\nname: s\nextends: medium\nsealed: true\n", overrides={"limits.memory": "4GiB"}) == ["overrides.limits.memory"]


@pytest.mark.parametrize("wishes, expected", [
    ({"profile": "nope"}, ["profile"]),
    ({"profile": "../../etc/passwd"}, ["profile"]),
    ({"profile": "/etc/stockade/profiles/x.yaml"}, ["profile"]),
    ({"overrides": {"limits.memory": "lots"}}, ["overrides.limits.memory"]),
    ({"overrides": {"limits.memory": "lots", "limits.cpus": "-1", "limitz": "1", "files.write[].size": "1"}, "allow": ["fine.example", "not a host"]},
     ["overrides.limits.memory", "overrides.limits.cpus", "overrides.limitz", "overrides.files.write[].size", "allow.1"]),
    ({"overrides": {"limits.memory": "100GiB", "limits.cpus": "1000"}}, ["overrides.limits.memory", "overrides.limits.cpus"]),
    ({"profile": "medium", "image": "none-such"}, ["image"]),
    ({"profile": "medium", "image": "/etc"}, ["image"]),
    ({"overrides": {"user.root": "namespaced"}}, [""]),
    ({"overrides": {"name": "x"}}, ["overrides.name"]),
])
def test_wrong_wishes(alice, wishes, expected):
    assert fields(alice, **wishes) == expected


def test_many_wrong_wishes_are_cut(alice):
    assert len(fields(alice, overrides={f"key{i}": "x" for i in range(64)})) == 32


@pytest.mark.parametrize("body", [{"foo": 1}, {"profile": 1}, {"overrides": []}, {"overrides": {"a": 1}}, {"allow": "x"}, {"allow": [1]},
                                  {"name": "x"}, {"owner": "uid:0"}, {"profile": "x" * 65}, {"allow": ["x"] * 65}, {"memory_only": "yes"}])
def test_bad_requests(alice, body):
    check_error(alice.post("/api/profiles/check", body), 400, "BAD_REQUEST")


def test_no_room(make_house):
    house = make_house("owner_sandboxes = 1\nrate_write = unlimited\n")
    web = Web(address_of(house)).sign_in(Wallet("alice"))
    assert check(web)["ok"] is True
    made = web.post("/api/sandboxes", {})
    assert made.status == 201, made
    found = check(web)
    assert found["ok"] is False and found["problems"][0]["code"] == "limit" and "owner_sandboxes" in found["problems"][0]["hint"]
    assert web.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200
    assert check(web)["ok"] is True


def test_schema(alice):
    keys = {k["key"]: k for k in alice.get("/api/profiles/schema").json["keys"]}
    memory = keys["limits.memory"]
    assert memory["type"] == "number" and memory["unit"] == "bytes" and memory["max"] == "16GiB" and memory["max_value"] == 16 << 30
    assert memory["min_value"] == 1 << 20 and memory["about"] and "size" in memory["form"]
    assert keys["user.root"]["choices"] == ["none", "namespaced"] and keys["user.root"]["enforced"] is False
    assert not {"profile", "name", "extends", "sealed", "files.write[].size", "network.allow[].host"} & set(keys)
    # what it says of a number is so
    for key in ("limits.cpus", "limits.files", "time.idle"):
        assert check(alice, profile="medium", overrides={key: keys[key]["min"]})["ok"] is True, key
        assert check(alice, profile="medium", overrides={key: keys[key]["max"]})["ok"] is True, key
    assert fields(alice, overrides={"limits.memory": str(memory["max_value"] + 1)}) == ["overrides.limits.memory"]


def test_by_capability(alice):
    token = alice.post("/api/capabilities/tokens", {"verbs": ["profile-check"], "resources": ["host"], "expires_in": 60}).json["token"]
    machine = Web(alice.address, token)
    assert check(machine)["ok"] is True
    check_error(machine.get("/api/profiles"), 403, "NOT_PERMITTED")


def test_asked_and_effective(alice, bob):
    made = alice.post("/api/sandboxes", {"profile": "medium", "overrides": {"limits.memory": "300MiB"}, "allow": ["example.org"]})
    assert made.status == 201, made
    path = f"/api/sandboxes/{made.json['id']}/policy"
    try:
        found = alice.get(path).json
        assert found["asked"]["profile"] == "medium" and found["asked"]["policy"]["limits"]["memory"] == "2GiB"
        assert found["differs"] == [{"key": "network.allow", "asked": [], "effective": [{"host": "example.org"}]},
                                    {"key": "limits.memory", "asked": "2GiB", "effective": "300MiB"}], found["differs"]
        assert "memory: 300MiB" in found["effective"] and found["described"]["limits"]["memory"] == 300 << 20
        assert "It may reach example.org on ports 80 and 443." in found["described"]["summary"]
        assert alice.patch(path, {"allow": []}).status == 200
        found = alice.get(path).json
        assert [d["key"] for d in found["differs"]] == ["limits.memory"] and found["described"]["network"] == []
        check_error(bob.get(path), 404, "NOT_FOUND")
        check_error(Web(alice.address).get(path), 401, "NO_TOKEN")
    finally:
        assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200


def test_more_of_the_network(alice, bob):
    """`add` leaves the rules that there are, also those that have no short form; `check` changes nothing."""
    text = "profile: 1\nname: net\nextends: medium\nnetwork:\n  allow:\n    - {host: first.example, methods: [GET], paths: [/a/*]}\n"
    made = alice.post("/api/sandboxes", {"profile_text": text})
    assert made.status == 201, made
    path = f"/api/sandboxes/{made.json['id']}/policy"
    first = {"host": "first.example", "methods": ["GET"], "paths": ["/a/*"]}

    def rules():
        return alice.get(path).json["described"]["effective"]["network"]["allow"]
    try:
        before = alice.get(path).json
        tried = alice.patch(path, {"add": ["second.example"], "check": True})
        assert tried.status == 200 and set(tried.json) == set(before), tried
        assert tried.json["described"]["effective"]["network"]["allow"] == [first, {"host": "second.example"}]
        assert "It may reach second.example on ports 80 and 443." in tried.json["described"]["summary"] and "second.example" in tried.json["effective"]
        assert alice.patch(path, {"allow": [], "check": True}).json["described"]["network"] == []
        assert alice.get(path).json == before
        assert not alice.get(f"/api/events/search?sandbox={made.json['id']}&kinds=sandbox.policy").json["events"]
        assert alice.patch(path, {"add": ["second.example"]}).status == 200
        assert rules() == [first, {"host": "second.example"}]
        assert alice.get(f"/api/events/search?sandbox={made.json['id']}&kinds=sandbox.policy").json["events"][0]["data"] == {"add": ["second.example"]}
        assert alice.patch(path, {"allow": ["third.example"], "check": False}).status == 200
        assert rules() == [{"host": "third.example"}]
        for body in ({}, {"check": True}, {"allow": [], "add": []}, {"add": "x"}, {"add": ["not a host"]}, {"add": ["x.example"], "check": 1}):
            check_error(alice.patch(path, body), 400, "BAD_REQUEST")
        check_error(bob.patch(path, {"add": ["x.example"], "check": True}), 404, "NOT_FOUND")
        assert rules() == [{"host": "third.example"}]
    finally:
        assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200


def test_a_network_that_it_was_not_started_with(alice):
    made = alice.post("/api/sandboxes", {"profile": "medium"})
    path = f"/api/sandboxes/{made.json['id']}/policy"
    try:
        for check in (True, False):
            answer = alice.patch(path, {"add": ["example.org"], "check": check})
            check_error(answer, 409, "CONFLICT")
            assert "without a network" in answer.json["error"] and "stop it first" in answer.json["hint"]
    finally:
        assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200


def test_asked_by_a_text(alice):
    made = alice.post("/api/sandboxes", {"profile_text": "profile: 1\nname: of-mine\nextends: low\n"})
    assert made.status == 201, made
    try:
        found = alice.get(f"/api/sandboxes/{made.json['id']}/policy").json
        assert found["asked"]["profile"] == "of-mine" and found["asked"]["policy"] is None and "of-mine" in found["asked"]["error"]
        assert found["differs"] == [] and found["described"]["summary"]
    finally:
        assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200


def test_as_many_wishes_as_there_can_be(alice, bob):
    """Of every kind at once: more words than of any kind alone."""
    wishes = {"profile": "medium", "overrides": {f"env.A{i}": str(i) for i in range(64)}, "allow": [f"h{i}.example" for i in range(64)]}
    found = check(alice, **wishes)
    assert found["ok"] is True and len(found["network"]) == 64 and found["effective"]["env"]["A63"] == "63"
    made = alice.post("/api/sandboxes", wishes)
    assert made.status == 201, made
    assert len(alice.get(f"/api/sandboxes/{made.json['id']}/policy").json["described"]["network"]) == 64
    assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200
    assert bob.get("/api/profiles").status == 200


def test_more_is_more_than_what_holds_in_its_turn(alice):
    """Changes that wait behind something that takes long: each begins with what the one before it left."""
    made = alice.post("/api/sandboxes", {"profile": "medium", "allow": ["first.example", "second.example"]})
    assert made.status == 201, made
    path = f"/api/sandboxes/{made.json['id']}"
    try:
        for _ in range(5):
            assert alice.patch(f"{path}/policy", {"allow": ["first.example", "second.example"]}).status == 200
            asked = [alice.connect(60) for _ in range(4)]
            for c, (method, tail, body) in zip(asked, (("POST", "snapshot", {}), ("PATCH", "policy", {"allow": []}),
                                                       ("PATCH", "policy", {"add": ["x.example"]}), ("PATCH", "policy", {"add": ["y.example"]}))):
                c.request(method, f"{path}/{tail}", json.dumps(body), {"Authorization": f"Bearer {alice.token}", "Content-Type": "application/json"})
                time.sleep(0.02)  # they come in this order
            assert all(c.getresponse().status in (200, 201) for c in asked)
            assert alice.get(f"{path}/policy").json["described"]["network"] == ["x.example", "y.example"]
    finally:
        assert alice.delete(f"{path}?force=true").status == 200


def test_wishes_that_take_long(alice, bob):
    """Whoever asks for much of it waits; others do not."""
    text = "profile: 1\nname: long\nextends: medium\nenv:\n" + "".join(f"  A{i}: '{'x' * 200}'\n" for i in range(240))
    wishes = {"profile_text": text, "overrides": {f"env.B{i}": "x" for i in range(64)}, "allow": [f"h{i}.example" for i in range(64)]}
    for _ in range(400):
        answer = alice.post("/api/profiles/check", wishes)
        assert answer.status in (200, 503), answer
        if answer.status == 503:
            break
    assert answer.json["code"] == "BUSY", "nobody was told to wait"
    assert check(bob, profile="medium")["ok"] is True
    assert harness.until(lambda: alice.post("/api/profiles/check", {"profile": "medium"}).status == 200)
