"""Terminals: the form with server-sent events and POST that clients know, and the WebSocket."""
import base64
import json
import time

import pytest
import harness
from conftest import Web, address_of, events
from wallet import Wallet
from websocket import Refused, Socket


def sessions(box):
    return f"/api/sandboxes/{box}/live/terminal/sessions"


@pytest.fixture
def terminal(alice, box):
    """A shell that says little."""
    made = alice.post(sessions(box), {"command": "stty -echo; PS1= exec sh -i", "rows": 24, "cols": 80})
    assert made.status == 200, made
    base = f"{sessions(box)}/{made.json['session_id']}"
    yield base
    assert alice.delete(base).status == 200


def refused(web, path, **kw):
    with pytest.raises(Refused) as found:
        Socket(web, path, **kw)
    return found.value


def text_of(found):
    return "".join(data.get("data") or base64.b64decode(data.get("data_base64", "")).decode(errors="replace")
                   for name, data in found if name in ("output", "stdout"))


def test_the_known_form(alice, box, terminal):
    sid = terminal.rsplit("/", 1)[1]
    listed = alice.get(sessions(box))
    assert {"session_id": sid, "title": f"Terminal {sid}"} in listed.json["sessions"], listed
    c, stream = alice.open(f"{terminal}/stream")
    assert stream.status == 200 and stream.getheader("Content-Type").startswith("text/event-stream")
    assert alice.patch(terminal, {"rows": 40, "cols": 132}).json["success"] is True
    assert alice.post(f"{terminal}/input", {"data": "stty size; echo be''gun\n"}).json["success"] is True
    found = []
    while "begun" not in text_of(found):
        found += events(stream, count=1)
    assert "40 132" in text_of(found)
    c.close()


@pytest.mark.parametrize("method, tail, body", [
    ("PATCH", "", {"rows": 0, "cols": 80}), ("PATCH", "", {"rows": 24, "cols": 1001}), ("PATCH", "", {"rows": 24}),
    ("POST", "/input", {"data": 5}), ("POST", "/input", {}), ("POST", "/input", {"data": "x" * (101 * 1024)}),
    ("POST", "/input", {"data": "x", "more": 1}),
])
def test_wrong_bodies(alice, terminal, method, tail, body):
    assert alice.ask(method, terminal + tail, body).status in (400, 413)


def test_echo_and_resize(alice, terminal):
    with Socket(alice, f"{terminal}/ws") as ws:
        assert ws.said("started")["run"] == int(terminal.rsplit("/", 1)[1])
        ws.send(json.dumps({"resize": [33, 77]}))
        ws.send(b"stty size; tty | cut -c1-5\n")
        seen = ws.until(b"/dev/")
        assert b"33 77" in seen
        ws.send(b"echo he''llo\n")
        ws.until(b"hello")


def test_it_is_a_terminal_with_signals(alice, terminal):
    with Socket(alice, f"{terminal}/ws") as ws:
        ws.send(b"trap 'echo inter''rupted' INT; echo re''ady; sleep 60\n")
        ws.until(b"ready")
        ws.s.settimeout(2)
        for turn in range(20):  # the shell says what it is going to do before it does it
            ws.send(b"\x03")
            try:
                ws.until(b"interrupted")
                break
            except TimeoutError:
                assert turn < 19


def test_who_comes_back_gets_the_scrollback(alice, terminal):
    with Socket(alice, f"{terminal}/ws") as ws:
        ws.send(b"echo first''-words\n")
        ws.until(b"first-words")
    with Socket(alice, f"{terminal}/ws") as ws:  # another time
        ws.until(b"first-words")
        ws.send(b"echo second''-words\n")
        ws.until(b"second-words")
    with Socket(alice, f"{terminal}/ws?out=2") as ws:  # from where one was
        assert ws.said("started")["out"] == 2


def test_two_at_the_same_terminal(alice, terminal):
    with Socket(alice, f"{terminal}/ws") as one, Socket(alice, f"{terminal}/ws") as two:
        one.send(b"echo sha''red\n")
        one.until(b"shared")
        two.until(b"shared")


def test_its_end_is_told(alice, box):
    made = alice.post(sessions(box), {"command": "read line; exit 5"})
    with Socket(alice, f"{sessions(box)}/{made.json['session_id']}/ws") as ws:
        ws.send(b"\n")
        end = ws.said("exit")
        assert end["exit_code"] == 5 and end["tty"] is True, end
        assert ws.close_code() == 1000
        assert ws.ended()
    assert made.json["session_id"] not in [s["session_id"] for s in alice.get(sessions(box)).json["sessions"]]


def test_much_output_and_a_slow_reader(alice, terminal):
    with Socket(alice, f"{terminal}/ws") as ws:
        ws.send(b"stty -opost; head -c 8000000 /dev/zero | tr '\\0' x; echo; echo do''ne\n")
        time.sleep(1)
        seen = ws.until(b"done\n", within=60)
        assert seen.count(b"x") > 1000000  # what a slow reader has missed is skipped in the log, not kept for ever


def test_large_input_arrives_whole(alice, terminal):
    with Socket(alice, f"{terminal}/ws") as ws:
        ws.send(b"stty raw; echo g''o; head -c 300000 | cksum; stty sane -echo; echo do''ne\n")
        ws.until(b"go")
        data = bytes(range(32, 127)) * 3158
        for at in range(0, 300000, 50000):
            ws.send(data[at:at + 50000])
        seen = ws.until(b"done")
    import subprocess
    want = subprocess.run(["cksum"], input=data[:300000], capture_output=True, check=True).stdout.split()[0]
    assert want in seen


def test_somebody_else(alice, bob, nobody, box, terminal):
    for web, status in ((bob, 404), (nobody, 401)):
        assert refused(web, f"{terminal}/ws").status == status
        assert web.get(sessions(box)).status == status
        assert web.get(f"{terminal}/stream").status == status
        assert web.post(f"{terminal}/input", {"data": "echo pwned\n"}).status == status
        assert web.patch(terminal, {"rows": 1, "cols": 1}).status == status
        assert web.delete(terminal).status == status
        assert web.post(sessions(box), {}).status == status


def test_a_ticket_opens_one_stream_once(alice, nobody, terminal):
    def ticket(path):
        made = alice.post("/api/auth/ticket", {"path": path})
        assert made.status == 200, made
        return made.json["ticket"]
    one = ticket(f"{terminal}/ws")
    with Socket(nobody, f"{terminal}/ws?ticket={one}") as ws:
        ws.send(b"echo tick''et\n")
        ws.until(b"ticket")
    assert refused(nobody, f"{terminal}/ws?ticket={one}").status == 401
    other = ticket(f"{terminal}/stream")
    assert refused(nobody, f"{terminal}/ws?ticket={other}").status == 401
    assert nobody.get(f"{terminal}/stream?ticket={ticket(terminal + '/ws')}").status == 401


@pytest.mark.parametrize("how", ["bearer", "ticket"])
def test_revoking_the_session_closes_it_within_a_second(house, nobody, alice, terminal, how):
    mine = nobody.sign_in(Wallet("alice"))
    path = f"{terminal}/ws"
    if how == "ticket":
        path += "?ticket=" + mine.post("/api/auth/ticket", {"path": path}).json["ticket"]
    with Socket(mine if how == "bearer" else nobody, path) as ws, Socket(alice, f"{terminal}/ws") as other:
        ws.send(b"echo op''en\n")
        ws.until(b"open")
        assert mine.delete("/api/auth/session").status == 200
        watch = house.stopwatch()
        assert ws.close_code() == 1008
        assert ws.ended()
        assert watch.seconds < 1, watch.wall
        other.send(b"echo untou''ched\n")  # another session of the same owner
        other.until(b"untouched")


def test_revoked_with_a_stream_of_output(house, nobody, terminal):
    mine = nobody.sign_in(Wallet("alice"))
    with Socket(mine, f"{terminal}/ws") as ws:
        ws.send(b"while :; do echo flood; done\n")
        ws.until(b"flood")
        assert mine.delete("/api/auth/session").status == 200
        watch = house.stopwatch()
        assert ws.ended()
        assert watch.seconds < 1.2, watch.wall
    back = nobody.sign_in(Wallet("alice"))
    with Socket(back, f"{terminal}/ws") as ws:
        ws.send(b"\x03")


def test_terminals_are_there_after_a_restart_of_the_operator(make_house):
    house = make_house("rate_auth = unlimited\n")
    web = Web(address_of(house)).sign_in(Wallet("carol"))
    box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    made = web.post(sessions(box), {"command": "stty -echo; PS1= exec sh -i"}).json["session_id"]
    with Socket(web, f"{sessions(box)}/{made}/ws") as ws:
        ws.send(b"remember=me; echo be''fore\n")
        ws.until(b"before")
        house.kill_operator()
        assert ws.ended(harness.ENOUGH)
    end = time.monotonic() + 60
    while True:
        try:
            back = Web(address_of(house))
            if made in [s["session_id"] for s in back.sign_in(Wallet("carol")).get(sessions(box)).json["sessions"]]:
                break
        except (OSError, AssertionError, KeyError):
            pass
        assert time.monotonic() < end
        time.sleep(0.2)
    with Socket(back.sign_in(Wallet("carol")), f"{sessions(box)}/{made}/ws") as ws:
        ws.until(b"before")
        ws.send(b"echo still-$remember\n")
        ws.until(b"still-me")


def test_a_key_comes_back_soon(house, alice, box, terminal):
    times, served_by = [], (house.operator, house.guest(box))
    with Socket(alice, f"{terminal}/ws") as ws:
        ws.send(b"stty raw -echo; echo go''; exec cat\n")
        ws.until(b"go")
        for i in range(200):
            key = b"%c" % (65 + i % 26)
            watch = harness.Stopwatch(*served_by)
            ws.send(key)
            ws.until(key)
            times.append(watch.seconds)
    assert sorted(times)[100] < 0.02, sorted(times)[100]


def test_a_run_without_a_terminal(alice, box):
    run = alice.post(f"/api/sandboxes/{box}/exec", {"command": "echo out; echo wrong >&2; sleep 0.3; exit 3",
                                                     "background": True}).json["run_id"]
    with Socket(alice, f"/api/sandboxes/{box}/runs/{run}/ws?out=0&err=0") as ws:
        seen, wrong, end = b"", "", None
        while end is None:
            opcode, data = ws.frame()
            if opcode == 2:
                seen += data
            else:
                said = json.loads(data)
                wrong += said.get("error_output", {}).get("data", "")
                end = said.get("exit")
        assert (seen, wrong, end["exit_code"]) == (b"out\n", "wrong\n", 3)
        assert ws.close_code() == 1000
