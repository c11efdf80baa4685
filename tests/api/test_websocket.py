"""The WebSocket itself: its opening, and what RFC 6455 forbids."""
import asyncio
import base64
import json
import os
import struct
import time

import pytest
import websockets

import harness
import secure
from websocket import BINARY, CLOSE, PING, PONG, TEXT, Refused, Socket, frame


@pytest.fixture(scope="module")
def path(alice, box):
    """A terminal that echoes, whatever is done to its sockets."""
    made = alice.post(f"/api/sandboxes/{box}/live/terminal/sessions", {"command": "stty raw -echo; exec cat"})
    assert made.status == 200, made
    base = f"/api/sandboxes/{box}/live/terminal/sessions/{made.json['session_id']}"
    yield f"{base}/ws"
    assert alice.delete(base).status == 200


@pytest.fixture
def ws(alice, path):
    with Socket(alice, path) as opened:
        assert opened.accepted
        yield opened


def echo(ws, data=b"still here"):
    ws.send(data)
    ws.until(data)


def refused(web, path, **kw):
    with pytest.raises(Refused) as found:
        Socket(web, path, **kw)
    return found.value


def test_a_library_that_we_did_not_write(alice, path):
    async def talk():
        async with websockets.connect(f"{'wss' if secure.ON else 'ws'}://{alice.address}{path}",
                                      ssl=secure.context() if secure.ON else None,
                                      extra_headers={"Authorization": f"Bearer {alice.token}"}) as s:
            assert "started" in json.loads(await s.recv())
            await s.send(b"a library")
            seen = b""
            while b"a library" not in seen:
                got = await asyncio.wait_for(s.recv(), 10)
                seen += got if isinstance(got, bytes) else b""
            await asyncio.wait_for(await s.ping(), 10)
            await s.send(json.dumps({"resize": [30, 100]}))
        return s.close_code
    assert asyncio.run(talk()) == 1000


@pytest.mark.parametrize("kw, status", [
    ({"headers": {"Sec-WebSocket-Version": "8"}}, 426),
    ({"drop": ("Sec-WebSocket-Version",)}, 426),
    ({"drop": ("Sec-WebSocket-Key",)}, 426),
    ({"key": "dG9vIHNob3J0"}, 426),
    ({"key": "!!!!!!!!!!!!!!!!!!!!!!=="}, 426),
    ({"headers": {"Connection": "keep-alive"}}, 426),
    ({"headers": {"Upgrade": "h2c"}}, 426),
    ({"drop": ("Upgrade",)}, 426),
    ({"headers": {"Origin": "https://evil.example"}}, 403),
    ({"headers": {"Host": "evil.example"}}, 403),
    ({"headers": {"Authorization": "Bearer nonsense"}}, 401),
    ({"drop": ("Authorization",)}, 401),
])
def test_openings_that_are_refused(alice, path, kw, status):
    found = refused(alice, path, **kw)
    assert found.status == status, found
    assert b'"code"' in found.body


def test_an_unknown_run_is_404_before_any_upgrade(alice, box):
    assert refused(alice, f"/api/sandboxes/{box}/live/terminal/sessions/4000000/ws").status == 404
    assert refused(alice, f"/api/sandboxes/{'0' * 16}/live/terminal/sessions/1/ws").status == 404


def test_no_extension_is_agreed_to(alice, path):
    with Socket(alice, path, headers={"Sec-WebSocket-Extensions": "permessage-deflate"}) as ws:
        assert "extensions" not in ws.head.lower()
        echo(ws)


def test_bytes_that_come_with_the_head(alice, path):
    """What is sent before the answer is there belongs to the WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    s = alice.socket(20)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {alice.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {alice.token}\r\n\r\n"
              .encode() + frame(BINARY, b"early bird"))
    seen = b""
    while b"early bird" not in seen:
        got = s.recv(4096)
        assert got, seen
        seen += got
    s.close()


def test_fragments_and_a_ping_between_them(ws):
    ws.raw(frame(BINARY, b"one ", fin=False) + frame(PING, b"hi") + frame(0, b"two ", fin=False) + frame(0, b"three"))
    seen, pong = b"", False
    while b"one two three" not in seen or not pong:
        opcode, data = ws.frame()
        pong |= opcode == PONG and data == b"hi"
        seen += data if opcode == BINARY else b""


def test_byte_by_byte(ws):
    for byte in frame(BINARY, b"slowly") + frame(BINARY, b" but surely"):
        ws.raw(bytes([byte]))
    ws.until(b"slowly but surely")


def test_the_closing_handshake(ws):
    ws.raw(frame(CLOSE, struct.pack(">H", 1000) + b"bye"))
    assert ws.close_code() == 1000
    assert ws.ended()


@pytest.mark.parametrize("bad, codes", [
    (frame(BINARY, b"unmasked", mask=False), (1002,)),
    (frame(BINARY, b"reserved", reserved=4), (1002,)),
    (frame(BINARY, b"reserved", reserved=1), (1002,)),
    (frame(3, b"no such opcode"), (1002,)),
    (frame(11, b"no such control"), (1002,)),
    (frame(PING, b"x" * 126), (1002,)),
    (frame(PING, b"half a ping", fin=False), (1002,)),
    (frame(0, b"goes on with nothing"), (1002,)),
    (frame(BINARY, b"a", fin=False) + frame(BINARY, b"b"), (1002,)),
    (frame(TEXT, b"\xff\xfe not UTF-8"), (1007,)),
    (frame(TEXT, b"\xc3", fin=False) + frame(0, b"\x28"), (1007,)),
    (frame(BINARY, b"x" * 70000), (1009,)),
    (frame(BINARY, b"x" * 40000, fin=False) + frame(0, b"x" * 40000), (1009,)),
    (frame(BINARY, b"x" * 10, length=2**40), (1009,)),
    (frame(BINARY, b"", length=2**63), (1002,)),
    (frame(BINARY, b"", length=2**64 - 1), (1002,)),
    (frame(CLOSE, b"x"), (0, 1002)),
    (frame(CLOSE, struct.pack(">H", 999)), (1002,)),
    (frame(CLOSE, struct.pack(">H", 1005)), (1002,)),
    (frame(CLOSE, struct.pack(">H", 1000) + b"\xff\xff"), (1002, 1007)),
], ids=lambda v: v[:12].hex() if isinstance(v, bytes) else None)
def test_what_is_forbidden_closes_with_a_code(alice, path, ws, bad, codes):
    ws.raw(bad)
    assert ws.close_code() in codes
    assert ws.ended()
    with Socket(alice, path) as other:  # and nobody else noticed
        echo(other)


def test_a_flood_of_pings_from_one_who_does_not_read(alice, path, house):
    """Pongs that nobody reads do not pile up: the flood is held up instead."""
    with Socket(alice, path) as ws:
        ws.s.settimeout(2)
        piece, sent = frame(PING, b"x" * 125) * 500, 0
        try:
            while sent < 64 << 20:
                sent += ws.s.send(piece)
        except TimeoutError:
            pass
        assert sent < 32 << 20
        with Socket(alice, path) as other:
            echo(other)


def test_empty_messages(ws):
    ws.raw(frame(BINARY) + frame(PING) + frame(BINARY, b"after nothing"))
    ws.until(b"after nothing")


def test_a_text_that_is_no_control(ws):
    for text in ("[]", "{}", "not json", '{"resize": "big"}', "x" * 5000):
        ws.send(text)
        assert ws.said("refused")["code"] == "BAD_REQUEST"
    echo(ws)


def test_nothing_is_left_of_many(alice, path, house):
    """Descriptors of sockets that were closed well, badly, and in the middle of a frame."""
    def count():
        return len(os.listdir(f"/proc/{house.operator}/fd"))
    time.sleep(1.5)
    before = count()
    for i in range(150):
        ws = Socket(alice, path)
        if i % 3 == 0:
            ws.raw(frame(CLOSE, struct.pack(">H", 1000)))
        elif i % 3 == 1:
            ws.raw(frame(BINARY, b"half of it", length=100))
        ws.close()
    assert harness.until(lambda: count() <= before, step=0.1), (count(), before)
