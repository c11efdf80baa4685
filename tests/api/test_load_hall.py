"""Those who hold a connection and have not said a whole head: what they get, what they cost, and that they are cut."""
import socket
import time

import pytest

import harness
import secure
from conftest import RATES, Web, address_of

WAIT = 60  # seconds for what takes milliseconds


def connections(web):
    text = web.get("/metrics").body.decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("stockade_http_connections ")))


def request(web, *headers, last=True):
    lines = ["GET /health HTTP/1.1", f"Host: {web.address}", *headers, *(["Connection: close"] if last else [])]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(s):
    said = b""
    while piece := s.recv(65536):
        said += piece
    return said


@pytest.fixture(scope="module")
def web(house):
    return Web(address_of(house))


def test_a_head_in_pieces(web):
    """Byte by byte, and in pieces that part its last line: it is answered once, when it is whole."""
    head = request(web)
    for cuts in (range(1, len(head)), (len(head) - 1,), (len(head) - 2,), (len(head) - 3,), (10, len(head) - 4)):
        with web.socket(WAIT * harness.SLOW) as s:
            if not secure.ON:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            at = 0
            for cut in (*cuts, len(head)):
                s.sendall(head[at:cut])
                at = cut
            said = answer(s)
        assert said.startswith(b"HTTP/1.1 200") and said.count(b"HTTP/1.1 ") == 1, said


@pytest.mark.parametrize("size", [1500, 2040, 2048, 2100, 4000, 7900])
def test_a_long_head_in_pieces(web, size):
    """Longer than what is looked at: it goes on before it is whole, and is finished there."""
    head = request(web, "X-Long: " + "a" * size)
    with web.socket(WAIT * harness.SLOW) as s:
        for at in range(0, len(head), 700):
            s.sendall(head[at:at + 700])
            time.sleep(0.01)
        assert answer(s).startswith(b"HTTP/1.1 200")


def test_two_requests_behind_a_slow_head(web):
    head = request(web, last=False)
    with web.socket(WAIT * harness.SLOW) as s:
        s.sendall(head[:20])
        time.sleep(0.05)
        s.sendall(head[20:] + request(web))
        said = answer(s)
    assert said.count(b"HTTP/1.1 200") == 2, said


def test_those_who_leave_are_forgotten(web):
    """Also when they leave all at once: their places are free again, and the others are served meanwhile."""
    before = connections(web)
    held = [web.socket(WAIT * harness.SLOW) for _ in range(25)]
    for s in held[::2]:
        s.sendall(b"GET /health HT")
    assert harness.until(lambda: connections(web) >= before + 25)
    for s in held:
        s.close()
    assert harness.until(lambda: connections(web) <= before)


def test_they_are_cut(make_house):
    """Nothing, half a head, and the first part of a long one: each ends by itself, with an end and not with a reset."""
    daemon = make_house(RATES)
    web = Web(address_of(daemon))
    before, held = connections(web), []
    for said in (b"", b"GET /health HTTP/1.1\r\nHost: x\r\n", b"GET /health HTTP/1.1\r\nX: " + b"a" * 3000) * 5:
        s = web.socket(WAIT * harness.SLOW)
        s.sendall(said)
        held.append(s)
    began = time.monotonic()
    assert harness.until(lambda: connections(web) >= before + len(held))
    ends = []
    for s in held:
        try:
            ends.append(s.recv(100))
        except (ConnectionResetError, OSError) as e:
            ends.append(e)
    if not secure.ON:
        assert ends == [b""] * len(held), ends
    assert not any(isinstance(end, TimeoutError) for end in ends), ends
    assert time.monotonic() - began > 20
    for s in held:
        s.close()
    assert harness.until(lambda: connections(web) <= before)
