"""Whatever is refused is refused in one shape: JSON with a code and a hint, also where the HTTP library does it before we hear of it."""
import json
import re

import pytest

from test_doors import check_error
from test_wire import raw, request

CHUNKED = "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
LONG = "a" * 50000
LINES = {400: ["GET /health", "GET /health HTTP/1.1 x", "GET /health http/1.1", "\x00GET /health HTTP/1.1", "", "GET /health HTTP/1.1 ", "GET /health HTTP/1",
               "GET /health HTTP/1.10", "GET /health HTTP/3", "GET health HTTP/1.1", "CONNECT localhost:1 HTTP/1.1"],
         404: ["GET /hea\x00lth HTTP/1.1"],
         405: ["GE(T /health HTTP/1.1", "get /health HTTP/1.1"],
         414: [f"GET /{LONG} HTTP/1.1", f"GET /health?{LONG} HTTP/1.1", LONG],
         505: ["GET /health HTTP/2.0", "GET /health HTTP/0.9", "PRI * HTTP/2.0"]}
HEADS = {400: ["Content-Length: -5\r\n", "Content-Length: 5x\r\n", "Content-Length: \r\n", "no colon\r\n", ": x\r\n", "X\x00: y\r\n", "X: a\nb\r\n", "X: a\rb\r\n",
               "X: " + "a" * 20000 + "\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "Host: other\r\n"],
         413: ["Content-Length: 99999999999999999999999\r\n"],
         431: [f"X: {LONG}\r\n", "".join(f"X-{i}: y\r\n" for i in range(2000)), "Cookie: " + "a=b; " * 4000 + "\r\n"]}
BODIES = {400: ["zz\r\nabc\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "-1\r\n", "\r\n\r\n"],
          413: ["FFFFFFFFFFFFFFFFFF\r\nabc", "1" * 30000],
          431: ['5\r\n{"a"}\r\n0\r\nTrailer: ' + LONG + "\r\n\r\n"]}
# libmicrohttpd closes on these without a word, and asks nobody
SILENT = ["GET", " ", "GET\t/health\tHTTP/1.1"]
KINDS = [(status, "line", text) for status, lines in LINES.items() for text in lines] + \
        [(status, "head", text) for status, heads in HEADS.items() for text in heads] + \
        [(status, "body", text) for status, bodies in BODIES.items() for text in bodies]


def made(web, kind, text):
    if kind == "line":
        return request(web, line=text)
    if kind == "head":
        return request(web, text, "POST /api/auth/challenge HTTP/1.1")
    return request(web, CHUNKED, "POST /api/auth/challenge HTTP/1.1", body=text)


class Said:
    """One answer of several; as conftest.Answer."""

    def __init__(self, head, body):
        lines = head.decode().split("\r\n")
        self.status, self.body = int(lines[0].split()[1]), body
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        self.json = json.loads(body)

    def __repr__(self):
        return f"{self.status} {self.body[:400]!r}"


def answers(data):
    found = []
    while data:
        head, rest = data.split(b"\r\n\r\n", 1)
        size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        found.append(Said(head, rest[:size]))
        data = rest[size:]
    return found


@pytest.mark.parametrize("before", [0, 2], ids=["first", "later"])
@pytest.mark.parametrize("status,kind,text", KINDS, ids=[f"{status}-{kind}-{text[:20]!r}" for status, kind, text in KINDS])
def test_in_one_shape(nobody, status, kind, text, before):
    """Also behind requests that were right, on the same connection."""
    got = answers(raw(nobody, request(nobody) * before + made(nobody, kind, text)))
    assert [answer.status for answer in got] == [200] * before + [status], got
    check_error(got[-1], status)
    assert got[-1].headers["content-type"] == "application/json", got[-1].headers
    assert got[-1].json.get("hint") or status == 405, got[-1]
    assert b"<" not in got[-1].body


@pytest.mark.parametrize("line", SILENT)
def test_closed_without_a_word(nobody, line):
    assert raw(nobody, request(nobody, line=line)) == b""
    assert nobody.get("/health").status == 200
