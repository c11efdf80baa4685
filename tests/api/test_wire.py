"""What comes over the wire that no well-meaning client sends: heads that can be read in two ways, other hosts and origins, slow and
many connections, too many requests."""
import http.client
import json
import socket
import time

import pytest

import harness
import secure
from conftest import RATES, Answer, Web, address_of, events
from test_doors import check_error, check_head
from wallet import Wallet


def raw(web, data, timeout=5, half=False):
    """What comes back until the other end closes, or nothing comes for a while."""
    got = b""
    with web.socket(timeout) as s:
        s.sendall(data)
        if half:
            s.shutdown(socket.SHUT_WR)
        s.settimeout(15)  # until it begins
        try:
            while part := s.recv(65536):
                got += part
                s.settimeout(1)
        except (TimeoutError, ConnectionResetError):
            pass
    return got


def request(web, extra="", line="GET /health HTTP/1.1", host=None, body=""):
    return f"{line}\r\nHost: {host or web.address}\r\n{extra}\r\n{body}".encode()


def test_it_is_right_without_harm(nobody):
    assert raw(nobody, request(nobody)).startswith(b"HTTP/1.1 200 OK\r\n")


PROOF = "GET /health HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: smuggled\r\n\r\n"


@pytest.mark.parametrize("head", [
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: +5\r\n",
    "Content-Length: -5\r\n", "Content-Length: 5x\r\n", "Content-Length: 0x5\r\n", "Content-Length: 99999999999999999999999\r\n", "Content-Length: \r\n",
    "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "Transfer-Encoding:\tchunked x\r\n",
    "Transfer-Encoding : chunked\r\n", "Content-Length : 5\r\n", "Content-Length: 5\r\n x\r\n", "X: a\rb\r\n", "X Y: z\r\n", "X\x01: y\r\n", "X: \x01\r\n",
    ": x\r\n", "no colon\r\n", "Host: other\r\n", "Authorization: a\r\nAuthorization: b\r\n", "Origin: http://a\r\nOrigin: http://b\r\n"])
def test_two_ways_to_read(nobody, head):
    """Refused, and what follows is not taken for another request."""
    body = "0\r\n\r\n" + PROOF.format(host=nobody.address)
    got = raw(nobody, request(nobody, head, "POST /api/auth/challenge HTTP/1.1", body=body))
    assert got == b"" or got.startswith(b"HTTP/1.1 4"), got
    assert b"smuggled" not in got, got


@pytest.mark.parametrize("line", ["GET /health", "GET /health HTTP/1.1 x", "GET /health HTTP/2.0", "GET /health HTTP/0.9",
                                  "GET /health http/1.1", "get /health HTTP/1.1", "\x00GET /health HTTP/1.1", "GET /hea\x00lth HTTP/1.1",
                                  "GET http://other/health HTTP/1.1", "GET //health HTTP/1.1", "GET health HTTP/1.1", "GET * HTTP/1.1",
                                  "CONNECT localhost:1 HTTP/1.1", "GET /./health HTTP/1.1", "GET /x/../health HTTP/1.1", "GET /%2e/health HTTP/1.1",
                                  "GET /x/%2e%2e/health HTTP/1.1", "GET /health%00 HTTP/1.1", "GET /health%2 HTTP/1.1", "GET \\health HTTP/1.1",
                                  "GET /health/ HTTP/1.1", "GET /HEALTH HTTP/1.1", "TRACE /health HTTP/1.1", "GET /health;x HTTP/1.1",
                                  "GET /" + "a" * 5000 + " HTTP/1.1", "GET /" + "a" * 50000 + " HTTP/1.1", "GET /health?" + "a" * 5000 + " HTTP/1.1"])
def test_lines(nobody, line):
    got = raw(nobody, request(nobody, line=line))
    assert not got.startswith(b"HTTP/1.1 2") and not got.startswith(b"HTTP/1.0 2"), got[:300]
    assert got == b"" or got.split(b" ")[1][:1] == b"4" or got.split(b" ")[1] in (b"505", b"501"), got[:300]


@pytest.mark.parametrize("path", ["/api/sandboxes/%2e%2e/usage", "/api/sandboxes/..%2f/usage", "/api/sandboxes/a%2fb", "/api/sandboxes/a%00", "/api/sandboxes/a%0a",
                                  "/api/sandboxes/%ff", "/api/sandboxes/a%5cb", "/api/sandboxes/%", "/api/sandboxes/" + "a" * 200, "/api/sandboxes/a%252e",
                                  "/api/sandboxes//usage", "/api/sandboxes/./usage", "/api/sandboxes/a%20b%09"])
def test_paths(alice, path):
    check_error(alice.get(path), (400, 404))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.evil.example:{port}", "evil@127.0.0.1:{port}", "[::1]:{port}",
                                  "127.1:{port}", "0x7f.1:{port}", "127.0.0.1:{port}x", " ", "a b", "127.0.0.1:{port},evil"])
def test_other_hosts(nobody, host):
    got = raw(nobody, request(nobody, host=host.format(port=nobody.port)))
    assert got.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), got


def test_own_hosts(make_house):
    web = Web(address_of(make_house("hosts = api.example.org\n")))
    for host in (web.address, f"localhost:{web.port}", f"LOCALHOST:{web.port}", "api.example.org", "API.example.org"):
        assert raw(web, request(web, host=host)).startswith(b"HTTP/1.1 200"), host
    got = raw(web, b"GET /health HTTP/1.1\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400")
    assert raw(web, b"GET /health HTTP/1.0\r\n\r\n").startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))


def test_origins(make_house):
    web = Web(address_of(make_house("origins = https://app.example.org\nframes = https://frame.example.org\n")))
    assert web.get("/health", headers={"Origin": f"{secure.SCHEME}://{web.address}"}).status == 200  # our own pages
    allowed = web.get("/health", headers={"Origin": "https://app.example.org"})
    assert allowed.status == 200 and allowed.headers["access-control-allow-origin"] == "https://app.example.org" and allowed.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in allowed.headers
    assert "x-frame-options" not in allowed.headers and allowed.headers["content-security-policy"].endswith("frame-ancestors https://frame.example.org")
    flight = web.options("/api/sandboxes", headers={"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST"})
    assert flight.status == 204 and "POST" in flight.headers["access-control-allow-methods"] and "authorization" in flight.headers["access-control-allow-headers"]
    for origin in ("https://evil.example", "null", "https://app.example.org.evil.example", "http://app.example.org", "", "file://"):
        refused = web.get("/health", headers={"Origin": origin})
        assert refused.status == 403 and refused.json["code"] == "BAD_ORIGIN" and "access-control-allow-origin" not in refused.headers, (origin, refused)


def test_heads_of_every_kind(nobody, alice, box):
    for answer in (nobody.get("/health"), nobody.get("/nothing"), nobody.get("/api/sandboxes"), alice.get("/api/sandboxes"), nobody.delete("/health"),
                   alice.get(f"/api/sandboxes/{box}/files?path=/etc/passwd"), nobody.get("/metrics"), nobody.options("/api/sandboxes")):
        check_head(answer)
    assert nobody.get("/nothing").json["code"] == "NO_ROUTE"
    wrong = nobody.delete("/api/sandboxes")
    assert wrong.status == 405 and set(wrong.headers["allow"].split(", ")) == {"GET", "POST"}, wrong


def test_request_ids(nobody):
    assert nobody.get("/health", headers={"X-Request-Id": "mine-1.2_3"}).headers["x-request-id"] == "mine-1.2_3"
    for odd in ("a b", "x" * 65, "é", "<script>", ""):
        assert nobody.get("/health", headers={"X-Request-Id": odd.encode().decode("latin-1")}).headers["x-request-id"].startswith("req-")
    ids = {nobody.get("/health").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_large_heads(nobody):
    assert raw(nobody, request(nobody, "X: " + "a" * 70000 + "\r\n")).startswith((b"HTTP/1.1 431", b"HTTP/1.1 413", b"")), "large"
    got = raw(nobody, request(nobody, "".join(f"X-{i}: y\r\n" for i in range(100))))
    assert got.startswith(b"HTTP/1.1 400"), got
    got = raw(nobody, request(nobody, "".join(f"X-{i}: y\r\n" for i in range(10000))))
    assert got == b"" or got.startswith(b"HTTP/1.1 4"), got[:200]
    assert nobody.get("/health").status == 200


def test_keep_alive_and_pipelining(nobody, alice):
    got = raw(nobody, request(nobody) * 20)
    assert got.count(b"HTTP/1.1 200 OK") == 20
    c = alice.connect()
    for _ in range(3):
        c.request("GET", "/api/sandboxes", headers={"Authorization": f"Bearer {alice.token}"})
        assert Answer(c.getresponse()).status == 200
    c.close()


def test_rates_of_an_address(make_house):
    web = Web(address_of(make_house("rate_read = 5\nrate_auth = 3\n")))
    answers = [web.get("/health") for _ in range(8)]
    assert [a.status for a in answers] == [200] * 5 + [429] * 3
    late = answers[-1]
    assert late.json["code"] == "RATE_LIMITED" and 0 < late.json["retry_after_ms"] <= 12001 and 1 <= int(late.headers["retry-after"]) <= 13
    check_head(late)
    assert [web.post("/api/auth/challenge", {"address": Wallet("x").address}).status for _ in range(4)] == [200, 200, 200, 429]
    # nobody is believed about who he is, unless he is a proxy that was named
    assert web.get("/health", headers={"X-Forwarded-For": "10.9.8.7"}).status == 429


def test_forwarded_addresses(make_house):
    web = Web(address_of(make_house("rate_read = 2\nproxies = 127.0.0.1 10.0.0.1\n")))

    def ask(forwarded):
        return web.get("/health", headers={"X-Forwarded-For": forwarded}).status
    assert [ask("192.0.2.1") for _ in range(3)] == [200, 200, 429]
    assert [ask("192.0.2.2, 10.0.0.1") for _ in range(3)] == [200, 200, 429]
    assert ask("192.0.2.99, 192.0.2.1") == 429  # what a client says of itself is behind what the proxy says
    assert [ask("2001:db8::1"), ask("2001:db8::2"), ask("2001:db8::3")] == [200, 200, 429]  # one neighbour: a /64
    assert [ask("rubbish") for _ in range(3)] == [200, 200, 429]  # the proxy's own


def test_rates_of_an_owner(make_house):
    web = Web(address_of(make_house("rate_owner = 4\nrate_auth = unlimited\nrate_read = unlimited\n")))
    one, same, other = web.sign_in(Wallet("one")), web.sign_in(Wallet("one")), web.sign_in(Wallet("other"))
    assert [w.get("/api/sandboxes").status for w in (one, same, one, same, one)] == [200] * 4 + [429]
    assert other.get("/api/sandboxes").status == 200


def test_connections_are_capped(make_house):
    web = Web(address_of(make_house("connections_address = 10\n" + RATES)))
    held = [web.socket() for _ in range(10)]
    if secure.ON:  # nobody is told anything before a handshake
        with pytest.raises(OSError):
            web.socket(60).recv(1)
        return
    assert harness.until(lambda: web.get("/health").status == 503)
    answer = web.get("/health")
    assert answer.status == 503 and answer.json["code"] == "TOO_MANY_CONNECTIONS", answer
    for s in held:
        s.close()
    assert harness.until(lambda: web.get("/health").status == 200)


def test_slow_heads_are_cut(make_house):
    """One byte now and then keeps nobody's connection."""
    daemon = make_house(RATES)
    web = Web(address_of(daemon))
    held, began = [], time.monotonic()
    for _ in range(200):
        s = web.socket()
        s.sendall(b"GET /health HTTP/1.1\r\nHo")
        held.append(s)
    gone, times, all_there, operator = False, [], daemon.stopwatch(), daemon.operator
    while not gone and all_there.seconds < 45:
        time.sleep(2)
        watch = harness.Stopwatch(operator)
        assert web.get("/health").status == 200
        times.append(watch.seconds)
        try:
            for s in held:
                s.sendall(b"s")
        except OSError:
            gone = True
    assert gone and time.monotonic() - began > 20
    assert max(times) < 1, times  # the others do not feel it
    for s in held:
        s.close()


def test_slow_bodies_are_cut(make_house):
    daemon = make_house(RATES)
    web = Web(address_of(daemon))
    s = web.socket()
    s.sendall(request(web, "Content-Type: application/json\r\nContent-Length: 4000\r\n", "POST /api/auth/challenge HTTP/1.1"))
    watch = daemon.stopwatch()
    try:
        while watch.seconds < 50:
            s.sendall(b" ")
            time.sleep(1)
    except OSError:
        pass
    s.close()
    assert watch.wall > 20
    assert watch.seconds < 45


def test_revoked_in_the_middle_of_a_flood(make_house):
    """A connection that always has something to send is looked at as well."""
    daemon = make_house(RATES)
    web = Web(address_of(daemon)).sign_in(Wallet("flood"))
    sandbox = web.post("/api/sandboxes", {"profile": "low"}).json["id"]
    run = web.post(f"/api/sandboxes/{sandbox}/exec", {"command": "yes", "background": True}).json["run_id"]
    c, response = web.open(f"/api/sandboxes/{sandbox}/runs/{run}/stream?out=0")
    assert response.read(1000)
    assert web.delete("/api/auth/session").status == 200
    watch = daemon.stopwatch()
    try:
        while response.read(65536):
            assert watch.wall < harness.ENOUGH
    except (OSError, http.client.HTTPException):
        pass
    assert watch.seconds < 2, watch.wall
    c.close()


def test_who_does_not_read_holds_little(make_house):
    daemon = make_house(RATES)
    web = Web(address_of(daemon)).sign_in(Wallet("slow"))
    sandbox = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    assert web.post(f"/api/sandboxes/{sandbox}/exec", {"command": "head -c 100000000 /dev/zero > /home/agent/big"}).json["exit_code"] == 0
    before, held = daemon.memory(), []
    for _ in range(10):
        s = web.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(f"GET /api/sandboxes/{sandbox}/files?path=/home/agent/big HTTP/1.1\r\nHost: {web.address}\r\nAuthorization: Bearer {web.token}\r\n\r\n".encode())
        held.append(s)
    time.sleep(2)
    assert daemon.memory() - before < 30 << 20
    assert web.get("/health").status == 200
    for s in held:
        s.close()
    assert len(web.get(f"/api/sandboxes/{sandbox}/files?path=/home/agent/big").body) == 100000000


def test_sessions_end(make_house):
    lasts = 5  # seconds: enough for two requests, however busy this machine is
    daemon = make_house(f"session = {lasts}s\n" + RATES)
    watch = daemon.stopwatch()
    web = Web(address_of(daemon)).sign_in(Wallet("short"))
    signed_in = watch.seconds
    c, response = web.open("/api/events")
    assert response.status == 200 and web.get("/api/sandboxes").status == 200
    try:
        response.read()
    except Exception:  # cut, not ended
        pass
    assert watch.wall > lasts - 0.1
    assert watch.seconds - signed_in < lasts + 2, watch.wall
    c.close()
    check_error(web.get("/api/sandboxes"), 401, "BAD_TOKEN")


def test_nothing_secret_is_logged(house, alice):
    said = house.log.read_text(errors="replace")
    assert alice.token not in said and "v4.local." not in said and "Bearer" not in said
    secret = (house.state / "session.secret").read_text()
    assert len(secret) == 64 and (house.state / "session.secret").stat().st_mode & 0o777 == 0o600
    assert secret not in said


def test_a_port_that_is_taken(make_house, suite):
    first = make_house()
    port = address_of(first).rsplit(":", 1)[1]
    second = suite.daemon(conf=f"listen = 127.0.0.1:{port}\n").start()
    try:
        found = second.client.health()["api"]
        assert (found["open"], found["url"], found["listen"]) == (False, None, [])
        assert "cannot listen" in second.said()
    finally:
        second.end()


@pytest.mark.parametrize("secret, good", [("x" * 31, False), ("", False), ("0123456789abcdefghijklmnopqrstuvwxyz", True), ("a" * 40, False)])
def test_the_secret_must_be_one(suite, tmp_path, secret, good):
    file = tmp_path / "secret"
    file.write_text(secret)
    file.chmod(0o600)
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nsession_secret_file = {file}\n").start()
    try:
        assert daemon.client.health()["api"]["open"] == good, daemon.said()
    finally:
        daemon.end()


def test_outside_needs_a_secret(suite):
    for env, good in (({}, False), ({"SESSION_AUTH_SECRET": "0123456789abcdefghijklmnopqrstuvwxyz"}, True)):
        daemon = suite.daemon(conf="listen = 0.0.0.0:0\n", env=env).start()
        try:
            assert daemon.client.health()["api"]["open"] == good, daemon.said()
        finally:
            daemon.end()
