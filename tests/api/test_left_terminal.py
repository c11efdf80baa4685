"""Sizes that no terminal has are refused, wherever they come from."""
import json

import pytest

import harness
from conftest import Web
from test_doors import check_error
from websocket import Socket

WRONG = [0, 1001, 65535, 65536, 10**9, -1, 1.5, "24"]


@pytest.mark.parametrize("size", WRONG)
@pytest.mark.parametrize("field", ["rows", "cols"])
def test_a_terminal_has_a_size(alice, box, field, size):
    terminals = f"/api/sandboxes/{box}/live/terminal/sessions"
    for path, body in ((terminals, {"command": "true"}), (f"/api/sandboxes/{box}/exec", {"command": "true", "tty": True})):
        refused = alice.post(path, {**body, field: size})
        check_error(refused, 400, "BAD_REQUEST")
        assert field in refused.json["error"] and "1 to 1000" in refused.json["hint"], refused
    made = alice.post(terminals, {"command": "sleep 60"}).json["session_id"]
    refused = alice.patch(f"{terminals}/{made}", {"rows": 24, "cols": 80, field: size})
    check_error(refused, 400, "BAD_REQUEST")
    assert "1 to 1000" in refused.json["hint"]
    assert alice.delete(f"{terminals}/{made}").status == 200


def test_the_least_and_the_most(alice, box):
    for rows, cols in ((1, 1), (1000, 1000)):
        made = alice.post(f"/api/sandboxes/{box}/exec", {"command": "stty size", "tty": True, "rows": rows, "cols": cols})
        assert made.status == 200 and made.json["stdout"].split() == [str(rows), str(cols)], made


def test_resized_over_a_websocket(alice, box):
    terminals = f"/api/sandboxes/{box}/live/terminal/sessions"
    made = alice.post(terminals, {"command": "stty -echo; PS1= exec sh -i", "rows": 24, "cols": 80}).json["session_id"]
    with Socket(alice, f"{terminals}/{made}/ws") as ws:
        for size in ([0, 80], [24, 1001], [65535, 65535], [24], [-1, 80]):
            ws.send(json.dumps({"resize": size}))
            assert "1 to 1000" in ws.said("refused")["hint"]
        ws.send(b"stty size\n")
        ws.until(b"24 80")
        ws.send(json.dumps({"resize": [1000, 1]}))
        ws.send(b"stty size\n")
        ws.until(b"1000 1")
    assert alice.delete(f"{terminals}/{made}").status == 200


def test_on_the_local_socket(house, box):
    for size in (0, 1001):
        with pytest.raises(harness.Refused) as refused:
            house.client.ask("exec", sandbox=box, argv=["true"], tty=True, rows=size, cols=80)
        assert refused.value.code == "bad_request"


def test_looking_on_is_not_typing(alice, box):
    """What a token is not for over HTTP it is not for over a WebSocket either."""
    terminals = f"/api/sandboxes/{box}/live/terminal/sessions"
    made = alice.post(terminals, {"command": "stty -echo; PS1= exec sh -i", "rows": 24, "cols": 80}).json["session_id"]

    def machine(*verbs):
        given = alice.post("/api/capabilities/tokens", {"verbs": list(verbs), "resources": [f"sandbox/{box}"], "expires_in": 600})
        return Web(alice.address, given.json["token"])
    with Socket(machine("attach"), f"{terminals}/{made}/ws") as ws:
        for word in (b"echo typed > /tmp/typed\n", json.dumps({"signal": 9}), json.dumps({"resize": [30, 90]})):
            ws.send(word)
            assert ws.said("refused")["code"] == "NOT_PERMITTED"
    with Socket(machine("attach", "input"), f"{terminals}/{made}/ws") as ws:
        ws.send(b"test -e /tmp/typed || stty size\n")
        ws.until(b"24 80")
        ws.send(json.dumps({"resize": [30, 90]}))
        assert ws.said("refused")["code"] == "NOT_PERMITTED"
    with Socket(machine("attach", "input", "resize"), f"{terminals}/{made}/ws") as ws:
        ws.send(json.dumps({"resize": [30, 90]}))
        ws.send(b"stty size\n")
        ws.until(b"30 90")
    assert alice.delete(f"{terminals}/{made}").status == 200
