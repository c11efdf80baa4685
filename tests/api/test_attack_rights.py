"""What a right does not imply: one sandbox and its neighbour by name, one verb and the next, one request and another."""
import json

import pytest

import harness
from conftest import Web
from websocket import TEXT, Socket, frame


def capability(web, verbs, resources):
    made = web.post("/api/capabilities/tokens", {"verbs": verbs, "resources": resources, "expires_in": 600})
    assert made.status == 201, made
    return Web(web.address, made.json["token"])


@pytest.fixture(scope="module")
def shell(alice, box):
    made = alice.post(f"/api/sandboxes/{box}/live/terminal/sessions", {"command": "/bin/sh"})
    assert made.status == 200, made
    number = made.json.get("run") or made.json["session_id"]
    yield number
    alice.delete(f"/api/sandboxes/{box}/live/terminal/sessions/{number}")


def test_names_that_begin_alike(alice, bob):
    """By name, by id, and of another owner's sandbox of the same name."""
    one, two = (alice.post("/api/sandboxes", {"profile": "low", "name": name}).json["id"] for name in ("alike", "alike-2"))
    his = bob.post("/api/sandboxes", {"profile": "low", "name": "alike"}).json["id"]
    token = capability(alice, ["show", "connect", "get"], [f"sandbox/{one}"])
    for name, status in ((one, 200), ("alike", 200), ("%61like", 200), (two, 403), ("alike-2", 403), (his, 403), (one.upper(), 403),
                         (one[:8], 403), (f"{one}%20", 403), (f"{one}%00", 400), (f"{one}%2f{two}", 400), (f"{two}%2f..%2f{one}", 400)):
        assert token.get(f"/api/sandboxes/{name}").status == status, name
    port = capability(alice, ["connect"], [f"sandbox/{one}/port/3000"])
    answers = [port.get(f"/api/sandboxes/{one}/{tail}").status for tail in ("port/3000/", "port/3001/", "port/30000/", "port/03000/", "ports")]
    assert answers[0] != 403 and answers[1:] == [403] * 4, answers
    for web, name in ((alice, one), (alice, two), (bob, his)):
        assert web.delete(f"/api/sandboxes/{name}?force=true").status == 200


def test_a_name_that_became_anothers(alice):
    """While the body of a request came: what a token is for is asked again when the request is done."""
    old = alice.post("/api/sandboxes", {"profile": "low", "name": "passed-on"}).json["id"]
    token = capability(alice, ["exec"], [f"sandbox/{old}"])
    body = json.dumps({"command": "touch /tmp/been-here"}).encode()
    with alice.socket(60) as s:
        s.sendall(f"POST /api/sandboxes/passed-on/exec HTTP/1.1\r\nHost: {alice.address}\r\nAuthorization: Bearer {token.token}\r\n"
                  f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body[:5])
        assert harness.until(lambda: token.get(f"/api/sandboxes/{old}").status == 403)  # others are served: the head was read
        assert alice.delete(f"/api/sandboxes/{old}?force=true").status == 200
        new = alice.post("/api/sandboxes", {"profile": "low", "name": "passed-on"}).json["id"]
        s.sendall(body[5:])
        told = b""
        while part := s.recv(65536):
            told += part
    assert told[9:12] == b"403" and b"NOT_PERMITTED" in told, told
    assert b"been-here" not in alice.get(f"/api/sandboxes/{new}/files?path=/tmp").body
    assert alice.delete(f"/api/sandboxes/{new}?force=true").status == 200


@pytest.mark.parametrize("verb, tail", [
    ("get", "files/archive?path=/etc"), ("get", "files/stat?path=/etc"), ("stat", "files?path=/etc/hostname"), ("runs", "runs/1/logs"),
    ("runs", "runs/1/stream"), ("attach", "runs/1/logs"), ("logs", "runs/1/stream"), ("show", "runs"), ("show", "events?follow=false"),
    ("show", "secrets"), ("ls", "files?path=/etc"), ("evidence", "events?follow=false"), ("connect", "port/3000/"), ("ssh-keys", "secrets"),
])
def test_a_verb_is_one_verb(alice, box, verb, tail):
    found = capability(alice, [verb], [f"sandbox/{box}"]).get(f"/api/sandboxes/{box}/{tail}")
    assert found.status == 403 and found.json["code"] == "NOT_PERMITTED", found


def test_an_answer_is_kept_for_its_request_alone(alice, box):
    """A key under which its owner asked for something else, used by a token that may not ask for that."""
    made = alice.post("/api/sandboxes", {"profile": "low", "key": "attack-key"}).json["id"]
    token = capability(alice, ["quarantine", "pause"], [f"sandbox/{box}"])
    refused = token.post(f"/api/sandboxes/{box}/pause", {"key": "attack-key"})
    assert refused.status == 409 and made not in refused.body.decode(), refused
    assert alice.get(f"/api/sandboxes/{box}").json["state"] == "running"
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200


def test_resize_storm(alice, box, shell, house):
    """Thousands of them, and as many texts that are none, from one who does not read: others are served, little is kept."""
    with Socket(alice, f"/api/sandboxes/{box}/runs/{shell}/ws") as ws:
        ws.said("started")
        ws.s.settimeout(2)
        storm = b"".join(frame(TEXT, json.dumps({"resize": [i % 200 + 1, i % 300 + 1]}).encode()) for i in range(1500))
        try:
            ws.raw(storm * 4)
            ws.raw(b"".join(frame(TEXT, b'{"x":1}') for _ in range(4000)))
        except TimeoutError:
            pass  # it is not read any more, which is right
        pid = house.operator
        assert alice.get("/api/sandboxes").status == 200
    with Socket(alice, f"/api/sandboxes/{box}/runs/{shell}/ws") as ws:
        ws.said("started")
        ws.send(b"echo still-$((40 + 2))\n")
        ws.until(b"still-42")
    assert house.operator == pid and harness.alive(pid)
