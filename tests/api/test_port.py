"""The reverse proxy to ports of a sandbox. What answers inside is ours here, and says what it likes (port_server.py)."""
import hashlib
import http.client
import json
import time
from pathlib import Path

import pytest

import harness
import secure
from conftest import Answer
from port_server import BAD, CUT
from wallet import Wallet
from websocket import BINARY, CLOSE, Refused, Socket, frame

PORT = 3000


@pytest.fixture(scope="module")
def base(alice, box):
    """…/port/3000 of a sandbox in which the server listens."""
    where = alice.post(f"/api/sandboxes/{box}/exec", {"command": "pwd"}).json["stdout"].strip()
    text = (Path(__file__).parent / "port_server.py").read_bytes()
    assert alice.put(f"/api/sandboxes/{box}/files?path={where}/server.py", text).status == 200
    run = alice.post(f"/api/sandboxes/{box}/exec", {"command": f"exec python3 {where}/server.py {PORT}",
                                                     "background": True}).json["run_id"]
    end = time.monotonic() + 20
    while "listening" not in alice.get(f"/api/sandboxes/{box}/runs/{run}/logs").json["stdout"]:
        assert time.monotonic() < end, alice.get(f"/api/sandboxes/{box}/runs/{run}/logs")
        time.sleep(0.05)
    yield f"/api/sandboxes/{box}/port/{PORT}"
    alice.post(f"/api/sandboxes/{box}/runs/{run}/cancel")


def head_of(answer):
    return answer.json["head"].split("\r\n")


def test_it_answers(alice, base):
    assert alice.get(f"{base}/").body == b"GET /"
    assert alice.get(base).body == b"GET /"
    assert alice.get(f"{base}/some/where").body == b"GET /some/where"
    for method in ("DELETE", "PUT", "PATCH", "OPTIONS", "PROPFIND"):
        answer = alice.ask(method, f"{base}/x")
        assert answer.status == 200 and answer.body == f"{method} /x".encode(), answer


@pytest.mark.parametrize("query", ["a=1&b=2", "a", "a=", "q=a+b%20c%2Bd", "x[]=1&x[]=2", "a=b=c", "%C3%A4=%00"])
def test_paths_and_queries_arrive_as_they_were(alice, base, query):
    assert alice.get(f"{base}/p%20q/%C3%A4?{query}").body == f"GET /p%20q/%C3%A4?{query}".encode()


@pytest.mark.parametrize("tail", ["//evil.example/", "/../../secrets", "/a/%2e%2e/b", "/a/./b", "/a%00b", "/a\\b",
                                  "/%0d%0aX:y"])
def test_paths_that_are_refused(alice, base, tail):
    assert alice.get(base + tail).status == 400


def test_what_the_server_sees(alice, base):
    answer = alice.get(f"{base}/echo", headers={
        "Cookie": "session=mine", "X-Forwarded-For": "1.2.3.4", "Referer": "http://x/?ticket=y", "X-Own": "kept",
        "Proxy-Authorization": "Basic eA==", "Connection": "X-Hop, keep-alive", "X-Hop": "gone", "TE": "trailers",
        "Forwarded": "for=1.2.3.4", "X-Real-IP": "1.2.3.4", "Accept": "text/x"})
    seen = {line.split(":")[0].lower(): line.split(":", 1)[1].strip() for line in head_of(answer)[1:]}
    assert seen["x-own"] == "kept" and seen["accept"] == "text/x" and seen["host"] == f"localhost:{PORT}"
    assert seen["connection"] == "close"
    for name in ("authorization", "cookie", "x-forwarded-for", "referer", "proxy-authorization", "x-hop", "te",
                 "forwarded", "x-real-ip", "keep-alive"):
        assert name not in seen, (name, seen)
    assert alice.token not in answer.json["head"]


def test_a_ticket_is_not_seen_inside(alice, nobody, base):
    path = f"{base}/echo"
    ticket = alice.post("/api/auth/ticket", {"path": path}).json["ticket"]
    answer = nobody.get(f"{path}?a=1&ticket={ticket}&b=2")
    assert answer.status == 200 and ticket not in answer.json["head"]
    assert head_of(answer)[0] == "GET /echo?a=1&b=2 HTTP/1.1"


def test_what_the_client_does_not_see(alice, base):
    answer = alice.get(f"{base}/cookies")
    assert answer.status == 200 and answer.body == b"<script>alert(1)</script>"
    for name in ("set-cookie", "clear-site-data", "strict-transport-security", "x-secret", "access-control-allow-origin",
                 "service-worker-allowed", "keep-alive"):
        assert name not in answer.headers, name
    assert answer.headers["x-kept"] == "1" and answer.headers["content-type"] == "text/html"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-request-id"] != "forged"


def test_redirects_are_not_followed(alice, base):
    answer = alice.get(f"{base}/redirect")
    assert answer.status == 302 and answer.headers["location"] == "http://169.254.169.254/latest/meta-data"
    answer = alice.get(f"{base}/redirect-path")
    assert answer.status == 301 and answer.headers["location"] == f"{base}/other?x=1"


def test_large_download(alice, base):
    answer = alice.get(f"{base}/large", timeout=120)
    assert len(answer.body) == 64 << 20
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(bytes(range(256)) * (64 << 12)).digest()


@pytest.mark.parametrize("chunked", [False, True])
def test_large_upload(alice, base, chunked):
    piece = bytes(range(256)) * 256
    count = 512
    c = alice.connect(120)
    c.request("POST", f"{base}/count", (piece for _ in range(count)), headers={
        "Authorization": f"Bearer {alice.token}", **({} if chunked else {"Content-Length": str(count * len(piece))})},
        encode_chunked=chunked)
    answer = Answer(c.getresponse())
    assert answer.json == {"count": count * len(piece), "sha256": hashlib.sha256(piece * count).hexdigest()}


def test_small_bodies(alice, base):
    answer = alice.post(f"{base}/echo", b"a=1&b=2", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.json["body"] == "a=1&b=2"
    assert "Content-Length: 7" in head_of(answer)
    assert alice.post(f"{base}/echo", b"").json["body"] == ""


def test_expect_100(alice, base):
    answer = alice.post(f"{base}/echo", b"x" * 5000, headers={"Expect": "100-continue"})
    assert len(answer.json["body"]) == 5000 and "expect" not in answer.json["head"].lower()


def test_answers_of_every_framing(alice, base):
    assert alice.get(f"{base}/chunked").body == b"".join(b"%d " % i * (i + 1) for i in range(50))
    assert alice.get(f"{base}/until-close").body == b"until the end"
    assert alice.get(f"{base}/interim").body == b"at last"
    answer = alice.get(f"{base}/no-content")
    assert (answer.status, answer.body) == (204, b"")
    answer = alice.get(f"{base}/not-modified")
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", '"x"')
    answer = alice.head(f"{base}/head")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == "12345" and answer.headers["x-inside"] == "1"
    assert len(alice.get(f"{base}/head").body) == 12345


def test_one_connection_for_many_requests(alice, base):
    c = alice.connect()
    for i in range(20):
        c.request("GET", f"{base}/chunked" if i % 2 else f"{base}/n{i}", headers={"Authorization": f"Bearer {alice.token}"})
        answer = Answer(c.getresponse())
        assert answer.status == 200 and (i % 2 or answer.body == f"GET /n{i}".encode())


def test_it_streams(alice, base):
    """What the server says arrives when it is said."""
    def first():
        c, response = alice.open(f"{base}/slow")
        begun = time.monotonic()
        assert response.fp.readline()
        took = time.monotonic() - begun
        c.close()
        return took
    assert harness.quickest(first, 0.4, 10) < 0.4


def test_an_early_answer(alice, base):
    """The server answers without reading; the client still gets the answer, and no more is sent inside than it takes."""
    answer = alice.post(f"{base}/early", b"x" * 3000)
    assert (answer.status, answer.body) == (413, b"no thanks")


@pytest.mark.parametrize("path", sorted(BAD))
def test_answers_that_can_be_read_in_two_ways(alice, base, path):
    answer = alice.get(f"{base}/{path}")
    assert answer.status == 502 and answer.json["code"] == "BAD_GATEWAY", answer
    assert "evil" not in repr(answer.headers)


@pytest.mark.parametrize("path", sorted(CUT))
def test_answers_that_are_cut_short(alice, base, path):
    """Nobody takes them for the whole."""
    with pytest.raises((http.client.IncompleteRead, ConnectionError, http.client.HTTPException)):
        alice.get(f"{base}/{path}")


@pytest.mark.parametrize("path", ["endless", "endless-line"])
def test_heads_without_end(alice, base, path, house):
    answers = []
    before = memory_of(house)
    assert harness.quickest(lambda: answers.append(alice.get(f"{base}/{path}").status), 5) < 5
    assert set(answers) == {502}
    assert memory_of(house) - before < 16 << 20


def memory_of(house):
    for line in Path(f"/proc/{house.operator}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def test_a_client_that_does_not_read_holds_the_server_up(alice, base, house):
    before = memory_of(house)
    clients = []
    for _ in range(4):
        s = alice.socket()
        s.sendall(f"GET {base}/large HTTP/1.1\r\nHost: {alice.address}\r\nAuthorization: Bearer {alice.token}\r\n\r\n"
                  .encode())
        clients.append(s)
    time.sleep(1)
    assert memory_of(house) - before < 32 << 20
    assert alice.get(f"{base}/").body == b"GET /"
    for s in clients:
        s.close()


def test_websocket_goes_through(alice, base):
    with Socket(alice, f"{base}/ws") as ws:
        assert ws.accepted and "set-cookie" not in ws.head.lower() and "x-inside" not in ws.head.lower()
        assert ws.frame() == (BINARY, b"hello")
        for i in range(100):
            ws.send(b"message %d" % i)
            assert ws.frame() == (BINARY, b"message %d" % i)
        ws.raw(frame(CLOSE, b"\x03\xe8"))
        assert ws.close_code() == 1000
        assert ws.ended()


def test_websocket_that_the_server_does_not_want(alice, base):
    with pytest.raises(Refused) as found:
        Socket(alice, f"{base}/plain")
    assert found.value.status == 200 and b"GET /plain" in found.value.body
    with pytest.raises(Refused) as found:
        Socket(alice, f"{base}/ws", headers={"Origin": "https://evil.example"})
    assert found.value.status == 403


def test_revoked_while_a_websocket_is_open(house, nobody, base):
    mine = nobody.sign_in(Wallet("alice"))
    with Socket(mine, f"{base}/ws") as ws:
        assert ws.frame() == (BINARY, b"hello")
        assert mine.delete("/api/auth/session").status == 200
        watch = house.stopwatch()
        assert ws.ended()
        assert watch.seconds < 1, watch.wall


def test_revoked_while_it_streams(nobody, base):
    mine = nobody.sign_in(Wallet("alice"))
    c, response = mine.open(f"{base}/large")
    assert response.read(1000)
    assert mine.delete("/api/auth/session").status == 200
    size = 1000
    try:
        while piece := response.read(65536):  # ten seconds and more for all of it
            size += len(piece)
            time.sleep(0.01)
    except (http.client.IncompleteRead, ConnectionError):
        pass
    assert size < 64 << 20
    c.close()


def test_nothing_listens_there(alice, base):
    answer = alice.get(base.replace(f"/{PORT}", "/3999") + "/")
    assert answer.status == 404 and "3999" in answer.json["error"], answer


@pytest.mark.parametrize("port", ["0", "65536", "99999999999", "-1", "abc", "03000", "3000x"])
def test_ports_that_are_none(alice, base, port):
    assert alice.get(base.replace(f"/{PORT}", f"/{port}") + "/").status == 400


def test_somebody_else(bob, nobody, base, box):
    assert bob.get(f"{base}/").status == 404 and nobody.get(f"{base}/").status == 401
    assert bob.get(f"/api/sandboxes/{box}/ports").status == 404


def test_the_list_of_ports(alice, base, box):
    answer = alice.get(f"/api/sandboxes/{box}/ports")
    assert answer.status == 200 and answer.json["ports"].get(str(PORT)) == PORT, answer


def test_a_client_that_goes_away(alice, base):
    for _ in range(20):
        s = alice.socket()
        s.sendall(f"GET {base}/silent HTTP/1.1\r\nHost: {alice.address}\r\nAuthorization: Bearer {alice.token}\r\n\r\n"
                  .encode())
        s.close()
    assert alice.get(f"{base}/").body == b"GET /"


def test_a_paused_and_a_stopped_sandbox(alice):
    made = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    assert alice.post(f"/api/sandboxes/{made}/stop").status == 200
    assert alice.get(f"/api/sandboxes/{made}/port/80/").status == 409
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200


# --- host names of their own ---

DOMAIN = "ports.test"


@pytest.fixture(scope="module")
def tabs(suite):
    """A daemon with a domain for ports; Alice's sandbox with the server in it: (web, id)."""
    from conftest import RATES, TLS, Web, address_of
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nports_domain = {DOMAIN}\n{TLS}{RATES}").start()
    web = Web(address_of(daemon)).sign_in(Wallet("alice"))
    box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    where = web.post(f"/api/sandboxes/{box}/exec", {"command": "pwd"}).json["stdout"].strip()
    text = (Path(__file__).parent / "port_server.py").read_bytes()
    assert web.put(f"/api/sandboxes/{box}/files?path={where}/server.py", text).status == 200
    web.post(f"/api/sandboxes/{box}/exec", {"command": f"exec python3 {where}/server.py {PORT}", "background": True})
    end = time.monotonic() + 20
    while web.get(f"/api/sandboxes/{box}/port/{PORT}/").status != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
    yield web, box
    web.delete(f"/api/sandboxes/{box}?force=true")
    daemon.end()


class Tab:
    """A browser's tab: a host name and cookies, no token."""

    def __init__(self, web, box, port=PORT):
        from conftest import Web
        self.web, self.host, self.cookies = Web(web.address), f"{port}-{box}.{DOMAIN}:{web.port}", {}
        self.name = f"//{port}-{box}"

    def get(self, path, method="GET", body=None, headers=None, cookies=True):
        head = {"Host": self.host, **(headers or {})}
        if cookies and self.cookies:
            head["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        answer = self.web.ask(method, path, body, head)
        if "set-cookie" in answer.headers:
            name, value = answer.headers["set-cookie"].split(";")[0].split("=", 1)
            self.cookies[name] = value
            self.said = answer.headers["set-cookie"]
        return answer

    def enter(self, web):
        made = web.post("/api/auth/ticket", {"path": self.name})
        assert made.status == 200, made
        answer = self.get(f"/.stockade/open?ticket={made.json['ticket']}")
        assert answer.status == 303 and answer.headers["location"] == "/", answer
        return made.json["ticket"]


def test_a_tab(tabs):
    web, box = tabs
    tab = Tab(web, box)
    assert tab.get("/").status == 401
    ticket = tab.enter(web)
    assert "HttpOnly" in tab.said and "SameSite=Lax" in tab.said and "domain" not in tab.said.lower()
    answer = tab.get("/some/where?ticket=mine&x=1")
    assert answer.status == 200 and answer.body == b"GET /some/where?ticket=mine&x=1", answer
    assert "content-security-policy" not in answer.headers
    assert tab.get(f"/.stockade/open?ticket={ticket}", cookies=False).status == 401  # once


def test_a_tab_keeps_its_cookies_and_not_ours(tabs):
    web, box = tabs
    tab = Tab(web, box)
    tab.enter(web)
    answer = tab.get("/echo", headers={"Cookie": "; ".join(["theirs=1"] + [f"{k}={v}" for k, v in tab.cookies.items()]
                                                           + ["more=2"])}, cookies=False)
    head = answer.json["head"]
    assert "Cookie: theirs=1; more=2" in head
    assert not any(value in head for value in tab.cookies.values())
    answer = tab.get("/echo", headers={"Authorization": f"Bearer {web.token}"})
    assert "authorization" not in answer.json["head"].lower()
    answer = tab.get("/echo", headers={"Authorization": "Basic dGhlaXJz"})
    assert "Authorization: Basic dGhlaXJz" in answer.json["head"]
    answer = tab.get("/cookies")
    assert answer.headers["set-cookie"] == "a=1"  # and not the one for a whole domain


def test_a_cookie_is_for_one_name(tabs):
    web, box = tabs
    tab = Tab(web, box)
    tab.enter(web)
    for other in (Tab(web, box, 3001), Tab(web, "0" * 16)):
        other.cookies = tab.cookies
        assert other.get("/").status == 401
    ticket = web.post("/api/auth/ticket", {"path": f"//3001-{box}"}).json["ticket"]
    assert Tab(web, box).get(f"/.stockade/open?ticket={ticket}").status == 401
    cookie = next(iter(tab.cookies.values()))
    assert web.get("/api/sandboxes", headers={"Authorization": f"Bearer {cookie}"}).status == 401  # nor for the API
    assert web.get("/api/sandboxes", headers={"Host": tab.host}).status == 401  # nor is the API at that name


def test_somebody_elses_cookie(tabs):
    from conftest import Web
    web, box = tabs
    tab = Tab(web, box)
    tab.enter(Web(web.address).sign_in(Wallet("mallory")))
    assert tab.get("/").status == 404


def test_a_tab_ends_with_its_session(tabs):
    from conftest import Web
    web, box = tabs
    mine = Web(web.address).sign_in(Wallet("alice"))
    tab = Tab(web, box)
    tab.enter(mine)
    assert tab.get("/").status == 200
    assert mine.delete("/api/auth/session").status == 200
    assert tab.get("/").status == 401


def test_a_page_says_only_what_is_harmless(alice, base):
    """On our own origin; browsers learn new headers every year."""
    answer = alice.get(f"{base}/says")
    assert answer.status == 200 and answer.headers["x-kept"] == "1" and answer.headers["etag"] == '"e"'
    for name in ("accept-ch", "content-security-policy-report-only", "link", "refresh", "set-login", "x-accel-redirect",
                 "x-sendfile", "speculation-rules", "sourcemap"):
        assert name not in answer.headers, name
    assert alice.get(f"{base}/status-600").status == 502


def test_other_pages_may_not_use_the_cookie(tabs):
    web, box = tabs
    tab = Tab(web, box)
    tab.enter(web)
    assert tab.get("/", headers={"Origin": f"http://3000-{'0' * 16}.{DOMAIN}"}).status == 403
    assert tab.get("/", "POST", b"x", {"Origin": "https://evil.example"}).status == 403
    for site in ("same-site", "cross-site"):
        assert tab.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}).status == 403
        lead = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert tab.get("/", headers={**lead, "Sec-Fetch-Dest": "document"}).status == 200
        for frame_of_another in ("iframe", "frame", "embed", "object"):
            assert tab.get("/", headers={**lead, "Sec-Fetch-Dest": frame_of_another}).status == 403
    assert tab.get("/", headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors",
                                 "Origin": f"{secure.SCHEME}://{tab.host}"}).status == 200


def test_a_websocket_in_a_tab(tabs):
    web, box = tabs
    tab = Tab(web, box)
    tab.enter(web)
    cookie = "; ".join(f"{k}={v}" for k, v in tab.cookies.items())
    with Socket(tab.web, "/ws", headers={"Host": tab.host, "Cookie": cookie, "Origin": f"{secure.SCHEME}://{tab.host}"}) as ws:
        assert ws.frame() == (BINARY, b"hello")
    with pytest.raises(Refused) as found:
        Socket(tab.web, "/ws", headers={"Host": tab.host, "Cookie": cookie, "Origin": "http://evil.example"})
    assert found.value.status == 403


@pytest.mark.parametrize("host", ["3000-{id}.evil.test", "3000-{id}.ports.test.evil", "3000-{id}ports.test",
                                  "3000-{short}.ports.test", "x-{id}.ports.test", "-{id}.ports.test",
                                  "03000-{id}.ports.test", "3000-{id}.ports.test:", "3000-{id}.ports.test:x",
                                  "a.3000-{id}.ports.test", "ports.test", "3000-..............ports.test"])
def test_hosts_that_are_none(tabs, host):
    web, box = tabs
    assert web.get("/", headers={"Host": host.format(id=box, short=box[:15])}).status == 403


def test_without_a_domain_there_are_no_such_hosts(alice, box):
    assert alice.get("/", headers={"Host": f"3000-{box}.{DOMAIN}"}).status == 403
