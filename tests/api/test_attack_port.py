"""A hostile server behind a port: where it may send whoever asked it, and what becomes of answers that are none."""
import base64

import pytest

import harness

SERVER = r"""
import base64, socket, threading, urllib.parse
def handle(c):
    try:
        head = b""
        while b"\r\n\r\n" not in head:
            part = c.recv(65536)
            if not part:
                return
            head += part
        query = urllib.parse.urlsplit(head.split(b" ")[1].decode()).query
        c.sendall(base64.urlsafe_b64decode(urllib.parse.parse_qs(query).get("say", [""])[0]) or b"HTTP/1.1 204 No\r\n\r\n")
    finally:
        c.close()
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 3999))
s.listen(64)
while True:
    threading.Thread(target=handle, args=(s.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="module")
def base(alice, box):
    assert alice.ask("PUT", f"/api/sandboxes/{box}/files?path=/tmp/hostile.py", SERVER.encode()).status == 200
    made = alice.post(f"/api/sandboxes/{box}/exec", {"argv": ["python3", "/tmp/hostile.py"], "background": True})
    assert made.status == 202, made
    path = f"/api/sandboxes/{box}/port/3999"
    assert harness.until(lambda: alice.get(f"{path}/").status == 204, step=0.1)
    yield path
    alice.post(f"/api/sandboxes/{box}/runs/{made.json['run']}/cancel", {})


def say(web, base, answer, path="/a/b", method="GET"):
    """The answer of the server to this question is these bytes."""
    return web.ask(method, f"{base}{path}?say={base64.urlsafe_b64encode(answer).decode()}")


def place(web, base, to, path="/a/b"):
    answer = say(web, base, b"HTTP/1.1 307 Go\r\nContent-Length: 0\r\nLocation: " + to.encode("latin-1") + b"\r\n\r\n", path)
    assert answer.status == 307, answer
    return answer.headers.get("location")


@pytest.mark.parametrize("to, want", [
    ("/other?x=1", "/other?x=1"), ("/", "/"), ("c", "/a/c"), ("?x", "/a/b?x"), ("#f", "/a/b#f"), ("./c/", "/a/c/"), ("..", "/"),
    ("../c#f", "/c#f"), ("/a//b", "/a//b"), ("/a/./b/../c", "/a/c"), ("/x?to=../../..", "/x?to=../../.."), ("/...", "/..."),
    ("/../../../stop", "/stop"), ("../../../../stop", "/stop"), ("/%2e%2e/%2E./.%2e/stop", "/stop"),
    ("\\..\\..\\..\\stop", "/stop"), ("/a\\..\\..\\..\\stop", "/stop"), ("/..", "/"), ("/../..", "/"), ("x/../../../../stop", "/stop"),
])
def test_a_redirect_stays_below_its_port(alice, base, to, want):
    """Whoever follows takes the token along: a path of ours would be asked in the name of its owner."""
    assert place(alice, base, to) == base + want


def test_a_redirect_of_the_first_page(alice, base):
    assert place(alice, base, "c", "") == base + "/c"
    assert place(alice, base, "..", "") == base + "/"


def test_a_redirect_to_us_by_name_is_none(alice, base):
    """Also by names that only browsers take for ours."""
    host, port = alice.address.rsplit(":", 1)
    for name in (alice.address, f"localhost:{port}", f"x@{alice.address}", f"{host}.:{port}", f"127.1:{port}", f"0x7f.0.0.1:{port}",
                 f"2130706433:{port}", f"0:{port}", f"%31{alice.address[1:]}", f"a.localhost:{port}", f"[::1]:{port}", f":{port}"):
        for form in (f"http://{name}/api/sandboxes", f"HTTP://{name}", f"//{name}/api/sandboxes", f"\\\\{name}/api",
                     f"http:\\\\{name}/api", f"http:/{name}/api"):
            assert place(alice, base, form) is None, form
    for form in ("http:stop", "http:///api", "///api", "https:/api", "javascript:alert(1)", "data:text/html,x", "file:///etc", "/.\t./.\t./stop", "\t//x"):
        found = place(alice, base, form)
        assert found is None or (form == "\t//x" and found == "//x"), form


@pytest.mark.parametrize("to", ["https://example.com/login?back=1", "http://169.254.169.254/latest", "//example.com/x"])
def test_a_redirect_to_others_is_the_clients_to_judge(alice, base, to):
    assert place(alice, base, to) == to


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("answer", [
    OK + b"Content-Length: 9223372036854775808\r\n\r\nx", OK + b"Content-Length: 18446744073709551615\r\n\r\nx",
    OK + b"Content-Length: +1\r\n\r\nx", OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OK + b"Transfer-Encoding: identity\r\n\r\nx",
    b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nx", b"HTTP/2 200\r\n\r\n", b"<html>",
    b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" * 200 + OK + b"Content-Length: 0\r\n\r\n",
    OK + b"Content-Type: text/html\x0b\r\nContent-Length: 0\r\n\r\n", OK + b"X : y\r\nContent-Length: 0\r\n\r\n",
])
def test_answers_that_are_none(alice, base, answer):
    found = say(alice, base, answer)
    assert found.status == 502 and found.json["code"] == "BAD_GATEWAY", found


def test_words_for_browsers_and_proxies_stay_inside(alice, base):
    """On our own origin; a second answer behind the first is nobody's."""
    names = ("Set-Cookie", "Refresh", "Link", "Clear-Site-Data", "Access-Control-Allow-Origin", "Alt-Svc", "Service-Worker-Allowed",
             "WWW-Authenticate", "X-Accel-Redirect", "X-Sendfile", "Strict-Transport-Security", "Report-To", "Accept-CH")
    head = b"".join(name.encode() + b": evil\r\n" for name in names)
    found = say(alice, base, OK + head + b"Content-Security-Policy: default-src *\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 EVIL\r\n\r\n")
    assert found.status == 200 and found.body == b"ok" and found.headers["content-security-policy"] == "sandbox", found.headers
    assert not {name.lower() for name in names} & set(found.headers), found.headers
    assert "evil" not in str(found.headers), found.headers
