"""/api/local, frame by frame: what a client sends behind its request before the verb has it, and answers that are longer than
what may wait. What it means to a person is tested in tests/cli/test_remote.py."""
import json
import struct

import pytest

import harness
from conftest import RATES, Web, address_of
from wallet import Wallet
from websocket import BINARY, CLOSE, Socket

PROTOCOL = {"Sec-WebSocket-Protocol": "stockade.local.1"}
FRAME = 60000


def frame(kind, payload=b""):
    if isinstance(payload, dict):
        payload = json.dumps(payload).encode()
    return struct.pack("<I", len(payload)) + kind + b"\0\0\0" + payload


class Tunnel:
    def __init__(self, web, *frames):
        """All of them in one message."""
        self.s = Socket(web, "/api/local", headers=PROTOCOL)
        self.rest = b""
        if frames:
            self.s.send(b"".join(frames))

    def frame(self):
        """(kind, payload) of the next frame; (None, code) of the end."""
        while len(self.rest) < 8 or len(self.rest) < 8 + struct.unpack("<I", self.rest[:4])[0]:
            opcode, data = self.s.frame()
            if opcode == CLOSE:
                assert not self.rest, self.rest[:100]
                return None, struct.unpack(">H", data[:2])[0]
            if opcode == BINARY:
                self.rest += data
        size = 8 + struct.unpack("<I", self.rest[:4])[0]
        kind, payload, self.rest = self.rest[4:5], self.rest[8:size], self.rest[size:]
        return kind, payload

    def whole(self):
        """(answer, everything that was printed before it), and it closes as it should."""
        output = b""
        while True:
            kind, payload = self.frame()
            assert kind, payload
            if kind == b"O":
                output += payload
            elif kind == b"A":
                assert self.frame() == (None, 1000)
                self.s.close()
                return json.loads(payload), output


def ask(web, **fields):
    return Tunnel(web, frame(b"Q", fields)).whole()


def test_leaving_at_once(alice, box):
    """Runs that are left before they begin, more of them than there are places prepared."""
    request = frame(b"Q", {"verb": "exec", "sandbox": box, "argv": ["true"]}) + frame(b"C", {"detach": True})
    for _ in range(harness.rounds(4)):
        open_now = [Tunnel(alice, request) for _ in range(4)]
        for t in open_now:
            answer, _ = t.whole()
            assert answer["ok"] and answer["result"]["run"] > 0, answer
    assert ask(alice, verb="ping")[0]["ok"]


def test_input_before_the_verb_takes_it(alice, box):
    """All of it in one message: nothing is lost, and it ends where it should."""
    request = frame(b"Q", {"verb": "exec", "sandbox": box, "argv": ["cat"], "stdin": True})
    data = bytes(range(256)) * 150
    found = [Tunnel(alice, request + frame(b"I", data[:20000]) + frame(b"I", data[20000:]) + frame(b"F")) for _ in range(3)]
    for t in found:
        answer, output = t.whole()
        assert answer["ok"] and output == data, (answer, len(output))


def test_a_bad_archive_and_its_end(alice, box):
    """It is refused while more of it, and its end, wait to be taken."""
    for request in ({"verb": "import", "profile": "low"}, {"verb": "tar-in", "sandbox": box, "path": "/tmp"}):
        for tail in (frame(b"F"), frame(b"I", b"x" * 1000) + frame(b"F")):
            t = Tunnel(alice, frame(b"Q", request) + frame(b"I", b"\xff" * 50000) + tail)
            answer, _ = t.whole()
            assert not answer["ok"] and answer["error"]["message"], answer
            t = Tunnel(alice, frame(b"Q", request))
            try:
                for _ in range(8):
                    t.s.send(frame(b"I", b"\xff" * FRAME))
                t.s.send(tail)
            except ConnectionError:  # it has heard enough
                pass
            answer, _ = t.whole()
            assert not answer["ok"], answer
    assert ask(alice, verb="ping")[0]["ok"]


def test_long_answers(alice, box):
    """Longer than what may wait, and read as fast as it comes."""
    script = f"mkdir /tmp/many && cd /tmp/many && for i in $(seq 1500); do : > $i-{'x' * 200}; done"
    assert ask(alice, verb="exec", sandbox=box, argv=["sh", "-c", script])[0]["result"]["status"] == 0
    for _ in range(3):
        answer, _ = ask(alice, verb="ls", sandbox=box, path="/tmp/many")
        assert answer["ok"] and len(json.dumps(answer)) > 300000, (len(json.dumps(answer)), answer["result"].keys())
    ask(alice, verb="rm", sandbox=box, path="/tmp/many", recursive=True)


@pytest.mark.parametrize("size", [200_000, 3_000_000])
def test_long_logs(alice, box, size):
    made, output = ask(alice, verb="exec", sandbox=box, argv=["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"])
    assert made["ok"] and len(output) == size, (made, len(output))
    for _ in range(3):
        answer, again = ask(alice, verb="logs", sandbox=box, run=made["result"]["run"])
        assert answer["ok"] and again == output, (answer, len(again))


def test_what_is_about_everybody(house, alice, nobody):
    """Only whoever is an operator hears how many sandboxes others have."""
    assert "sandboxes" not in ask(alice, verb="ping")[0]["result"] and ask(alice, verb="ping")[0]["result"]["version"]
    found = ask(alice, verb="health")[0]["result"]
    assert set(found) == {"ok", "ledger_seq"} and found["ok"] and found["ledger_seq"] > 0, found
    link = house.client.sign_in(operator=True)["url"].split("#link=")[1]
    operator = Web(nobody.address, nobody.post("/api/auth/session", {"link": link}).json["token"])
    assert ask(operator, verb="ping")[0]["result"]["sandboxes"] >= 0 and "used" in ask(operator, verb="health")[0]["result"]


@pytest.mark.parametrize("frames", [12, 1000])
def test_leaving_while_nothing_is_taken(make_house, frames):
    """A command that reads nothing, and a client that goes while its input waits. That is seen without reading it; where not even
    its last word fits in, by what is sent to it now and then."""
    daemon = make_house(RATES)
    web = Web(address_of(daemon)).sign_in(Wallet("left"))
    made = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    t = Tunnel(web, frame(b"Q", {"verb": "exec", "sandbox": made, "argv": ["sleep", "1000"], "stdin": True}))
    assert t.frame()[0] == b"E"
    t.s.s.settimeout(1)
    try:
        for _ in range(frames):
            t.s.send(frame(b"I", b"x" * FRAME))
        assert frames < 100, "everything was taken"
    except TimeoutError:
        pass
    t.s.close()

    def gone():
        text = Web(web.address).get("/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("stockade_http_connections ")) == 1
    assert harness.until(gone, 90, step=0.2), Web(web.address).get("/metrics").body.decode()
    assert web.delete(f"/api/sandboxes/{made}?force=true").status == 200
