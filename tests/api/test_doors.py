"""Who is let in, and who is not: every route for no token, a bad one, one that has ended, one that was revoked, and somebody
else's; and every way of asking that is not right."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
import secure
from conftest import TLS, Web, address_of, events
from wallet import Wallet


def table():
    """The rows that a path leads to; those without a method are reached by a host name (test_port.py)."""
    launcher = Path(os.environ.get("STOCKADE", harness.SOURCE / "build/src/cli/stockade")).resolve()
    program = next(p for p in (launcher.with_name("stockade-operator"), launcher.parents[1] / "operator/stockade-operator") if p.exists())
    done = subprocess.run([str(program), "--routes"], capture_output=True, text=True, check=True)
    return [route for route in map(json.loads, done.stdout.splitlines()) if route["method"]]


ROUTES = table()
GUARDED = [r for r in ROUTES if r["auth"] in ("owner", "session")]
NAMES = {"sandbox": "0123456789abcdef", "snapshot": "0123456789abcdef", "run": "1", "jti": "0" * 32, "port": "8080", "rest": "", "call": "1"}


def path_of(route, **names):
    path = route["path"]
    for name, value in {**NAMES, **names}.items():
        path = path.replace("{" + name + "}", value)
    return path


def ask(web, route, **kw):
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode()} if route["status"] == 101 else {}
    headers.update(kw.pop("headers", {}))
    method = "GET" if route["method"] == "ANY" else route["method"]
    body = {} if route["limit"] and method != "GET" else b"" if route["streamed"] else None
    return web.ask(method, kw.pop("path", path_of(route)), kw.pop("body", body), headers=headers)


def label(route):
    return f"{route['method']} {route['path']}"


SAFE = {"x-content-type-options": "nosniff", "cache-control": "no-store", "x-frame-options": "DENY", "referrer-policy": "no-referrer",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'"}


def check_error(answer, status, code=None):
    statuses = status if isinstance(status, tuple) else (status,)
    assert answer.status in statuses, answer
    assert answer.json["error"] and answer.json["code"] == answer.json["code"].upper(), answer
    assert code is None or answer.json["code"] == code, answer
    assert set(answer.json) <= {"error", "code", "hint", "retry_after_ms"}, answer
    check_head(answer)


def check_head(answer):
    assert SAFE.items() <= answer.headers.items() and answer.headers["x-request-id"], answer.headers


@pytest.mark.parametrize("route", GUARDED, ids=label)
def test_nobody(nobody, route):
    check_error(ask(nobody, route), 401, "NO_TOKEN")


@pytest.mark.parametrize("route", GUARDED, ids=label)
@pytest.mark.parametrize("token", ["x", "v4.local.AAAA", "stockade-cap1.e30.AAAA", "Bearer", "v4.local." + "A" * 5000])
def test_bad_token(nobody, route, token):
    check_error(ask(Web(nobody.address, token), route), (401, 431) if len(token) > 4000 else 401)


def flipped(token, place):
    letter = "A" if token[place] != "A" else "B"
    return token[:place] + letter + token[place + 1:]


def test_every_letter_of_a_token_counts(alice):
    for place in range(0, len(alice.token) - 1, 7):
        assert Web(alice.address, flipped(alice.token, place)).get("/api/sandboxes").status == 401, place
    for cut in (1, 10, 100):
        assert Web(alice.address, alice.token[:-cut]).get("/api/sandboxes").status == 401
    assert Web(alice.address, alice.token + "A").get("/api/sandboxes").status == 401
    for scheme in ("bearer", "BEARER"):
        assert alice.get("/api/sandboxes", headers={"Authorization": f"{scheme} {alice.token}"}).status == 200
    for value in (alice.token, f"Basic {alice.token}", f"Bearer{alice.token}", f"Token {alice.token}"):
        assert alice.get("/api/sandboxes", headers={"Authorization": value}).status == 401


@pytest.fixture(scope="module")
def elsewhere(suite):
    """A token of the same wallet, from another house."""
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nrate_auth = unlimited\n{TLS}").start()
    token = Web(address_of(daemon)).sign_in(Wallet("alice")).token
    yield token
    daemon.end()


@pytest.mark.parametrize("route", GUARDED, ids=label)
def test_token_of_another_house(nobody, route, elsewhere):
    check_error(ask(Web(nobody.address, elsewhere), route), 401, "BAD_TOKEN")


@pytest.fixture(scope="module")
def revoked(nobody):
    web = nobody.sign_in(Wallet("revoked"))
    assert web.delete("/api/auth/session").json == {"revoked": True}
    return web


@pytest.mark.parametrize("route", GUARDED, ids=label)
def test_revoked(revoked, route):
    check_error(ask(revoked, route), 401, "BAD_TOKEN")


@pytest.mark.parametrize("route", [r for r in GUARDED if "{sandbox}" in r["path"]], ids=label)
def test_somebody_elses_sandbox(alice, bob, box, route):
    """The same as one that is not there."""
    body = {"command": "id"} if route["verb"] == "exec" and route["path"].endswith("exec") else {"signal": 9} if route["verb"] == "signal" else \
        {"data": "x"} if route["verb"] == "input" else {"rows": 1, "cols": 1} if route["verb"] == "resize" else \
        {"env_json": {"A": "b"}} if route["verb"] == "secret" else {"path": "/x", "to": "/y"} if route["verb"] == "mv" else \
        {"path": "/x"} if route["verb"] == "mkdir" else {"allow": []} if route["verb"] == "policy" else \
        {"public_key": "x"} if route["verb"] == "ssh-key-add" else {"snapshot": "x"} if route["verb"] == "rollback" else {}
    kw = {"body": body} if route["limit"] and route["method"] not in ("GET", "DELETE") else {}
    query = "?path=/tmp" if "path" in (route["query"] or "") else ""
    theirs = ask(bob, route, path=path_of(route, sandbox=box) + query, **kw)
    none = ask(bob, route, path=path_of(route) + query, **kw)
    if route["verb"] == "delete":  # who deletes what is not there learns nothing
        assert theirs.status == none.status == 404
        return
    check_error(theirs, 404, "NOT_FOUND")
    assert theirs.status == none.status and theirs.json["error"].replace(box, "") == none.json["error"].replace(NAMES["sandbox"], "")


@pytest.mark.parametrize("route", [r for r in ROUTES if r["limit"]], ids=label)
def test_bodies(alice, box, route):
    path = path_of(route, sandbox=box)

    def send(data, kind="application/json"):
        return alice.ask(route["method"], path, data, headers={"Content-Type": kind} if kind else {})
    check_error(send(b"{}", "text/plain"), 415, "BAD_TYPE")
    check_error(send(b"a=b", "application/x-www-form-urlencoded"), 415, "BAD_TYPE")
    check_error(send(b"{}", None), 415, "BAD_TYPE")
    check_error(send(b"{}", "application/jsonx"), 415, "BAD_TYPE")
    for bad in (b"{", b"[]", b"1", b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":"\xff"}', b'{"a":"\\ud800"}', b"{}x",
                b"[" * 100000, b'{"a":' * 50 + b"1" + b"}" * 50, b'{"unknown_member": 1}'):
        if len(bad) <= route["limit"]:
            check_error(send(bad), (400, 413))
    check_error(send(b'{"a":"' + b"x" * route["limit"] + b'"}'), 413, "TOO_LARGE")


def test_bodies_where_none_belongs(alice):
    check_error(alice.ask("GET", "/api/sandboxes", b"{}", headers={"Content-Type": "application/json"}), 400)


def test_chunked_bodies_are_counted(alice, box):
    c = alice.connect()
    c.request("POST", f"/api/sandboxes/{box}/exec", iter([b"x" * 100000] * 20),
              {"Authorization": f"Bearer {alice.token}", "Content-Type": "application/json", "Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert c.getresponse().status == 413


# --- sign-in

def test_sign_in_once(nobody):
    wallet = Wallet("once")
    challenge = nobody.post("/api/auth/challenge", {"address": wallet.address}).json
    assert challenge["message"].startswith(f"{nobody.address} wants you to sign in with your Ethereum account:\n{wallet.address}\n")
    assert f"URI: {secure.SCHEME}://{nobody.address}\n" in challenge["message"] and f"Nonce: {challenge['nonce']}" in challenge["message"]
    proof = {"nonce": challenge["nonce"], "signature": wallet.sign(challenge["message"])}
    first = nobody.post("/api/auth/session", proof)
    assert first.status == 200 and first.json["address"] == wallet.address.lower(), first
    check_error(nobody.post("/api/auth/session", proof), 401)  # replayed


def test_sign_in_by_message(nobody):
    wallet = Wallet("message")
    challenge = nobody.post("/api/auth/challenge", {"address": wallet.address}).json
    answer = nobody.post("/api/auth/session", {"message": challenge["message"], "signature": wallet.sign(challenge["message"])})
    assert answer.status == 200, answer


@pytest.mark.parametrize("change", ["other key", "other text", "other domain", "high s", "short", "not hex", "zero", "v", "no nonce", "other nonce"])
def test_sign_in_refuses(nobody, change):
    wallet, other = Wallet("good"), Wallet("other")
    challenge = nobody.post("/api/auth/challenge", {"address": wallet.address}).json
    text, nonce = challenge["message"], challenge["nonce"]
    signature = wallet.sign(text)
    body = {"nonce": nonce, "signature": signature}
    raw = bytes.fromhex(signature[2:])
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    if change == "other key":
        body["signature"] = other.sign(text)
    elif change == "other text":
        body["signature"] = wallet.sign(text + "x")
    elif change == "other domain":
        moved = text.replace(nobody.address, "evil.example")
        body = {"message": moved, "signature": wallet.sign(moved)}
    elif change == "high s":
        body["signature"] = "0x" + (raw[:32] + (order - int.from_bytes(raw[32:64], "big")).to_bytes(32, "big") + bytes([55 - raw[64]])).hex()
    elif change == "short":
        body["signature"] = signature[:-2]
    elif change == "not hex":
        body["signature"] = signature[:-1] + "g"
    elif change == "zero":
        body["signature"] = "0x" + "00" * 64 + "1b"
    elif change == "v":
        body["signature"] = signature[:-2] + "1d"
    elif change == "no nonce":
        del body["nonce"]
    elif change == "other nonce":
        body["nonce"] = "0" * 64
    check_error(nobody.post("/api/auth/session", body), (400, 401))


def test_addresses_that_are_none(nobody):
    for address in ("", "0x", "0x" + "1" * 39, "0x" + "g" * 40, Wallet("x").address.swapcase().replace("0X", "0x"), 7, None):
        check_error(nobody.post("/api/auth/challenge", {"address": address}), 400)
    check_error(nobody.post("/api/auth/challenge"), 400)


def test_plain_text_of_tangle_clients(make_house):
    web, wallet = Web(address_of(make_house("plain_sign_in = yes\n"))), Wallet("tangle")
    challenge = web.post("/api/auth/challenge").json
    assert challenge["message"] == (f"Sign this message to authenticate with Tangle Sandbox.\n\nNonce: {challenge['nonce']}\n"
                                    f"Expires: {challenge['expires_at']}")
    answer = web.post("/api/auth/session", {"nonce": challenge["nonce"], "signature": wallet.sign(challenge["message"])})
    assert answer.status == 200 and answer.json["address"] == wallet.address.lower(), answer


def test_link_of_the_local_socket(house, nobody):
    url = house.client.sign_in()["url"]
    link = url.split("#link=")[1]
    answer = nobody.post("/api/auth/session", {"link": link})
    assert answer.status == 200 and answer.json["owner"] == "uid:0", answer
    check_error(nobody.post("/api/auth/session", {"link": link}), 401)
    web = Web(nobody.address, answer.json["token"])  # the link stands on terminals: it acts for all only where that was asked for
    assert web.get("/api/auth/whoami").json["operator"] is False and web.get("/api/sandboxes?all=true").status == 403
    link = house.client.sign_in(operator=True)["url"].split("#link=")[1]
    answer = nobody.post("/api/auth/session", {"link": link})
    assert answer.status == 200 and answer.json["owner"] == "uid:0", answer
    web = Web(nobody.address, answer.json["token"])
    assert web.get("/api/auth/whoami").json["operator"] is True and web.get("/api/sandboxes?all=true").status == 200


def test_revocation_lasts_and_cuts(make_house):
    daemon = make_house()
    nobody = Web(address_of(daemon))
    web, other = nobody.sign_in(Wallet("cut")), nobody.sign_in(Wallet("cut"))
    c, response = web.open("/api/events")
    assert response.status == 200
    assert web.delete("/api/auth/session").status == 200
    watch = daemon.stopwatch()
    response.fp.raw._sock.settimeout(harness.ENOUGH)
    try:
        assert response.read() == b""
    except Exception:  # cut in the middle, which is as good
        pass
    assert watch.seconds < 1.5, watch.wall
    c.close()
    assert web.get("/api/sandboxes").status == 401 and other.get("/api/sandboxes").status == 200
    daemon.kill_operator()
    port = Web(address_of(daemon))
    assert port.address == nobody.address  # the listener outlived it
    assert Web(port.address, web.token).get("/api/sandboxes").status == 401
    assert Web(port.address, other.token).get("/api/sandboxes").status == 200


def test_tickets(alice, box):
    path = f"/api/sandboxes/{box}/files"
    give = lambda p=path: alice.post("/api/auth/ticket", {"path": p}).json["ticket"]
    nobody = Web(alice.address)
    ticket = give()
    assert nobody.get(f"{path}?path=/tmp&ticket={ticket}").status == 200
    assert nobody.get(f"{path}?path=/tmp&ticket={ticket}").status == 401  # once
    assert nobody.get(f"{path}/archive?path=/tmp&ticket={give()}").status == 401  # another path
    assert nobody.get(f"/api/sandboxes/{box}?ticket={give(f'/api/sandboxes/{box}')}").status == 401  # no stream
    assert nobody.delete(f"{path}?path=/tmp/x&ticket={give()}").status == 401


# --- capabilities

def test_capabilities(alice, bob, box):
    made = alice.post("/api/capabilities/tokens", {"verbs": ["exec", "show"], "resources": [f"sandbox/{box}"], "about": "ci", "expires_in": 60})
    assert made.status == 201, made
    machine = Web(alice.address, made.json["token"])
    assert machine.post(f"/api/sandboxes/{box}/exec", {"command": "echo ok"}).json["stdout"] == "ok\n"
    assert machine.get(f"/api/sandboxes/{box}").status == 200
    check_error(machine.get("/api/sandboxes"), 403, "NOT_PERMITTED")
    check_error(machine.get(f"/api/sandboxes/{box}/files?path=/tmp"), 403, "NOT_PERMITTED")
    check_error(machine.get("/api/sandboxes/0123456789abcdef"), 403, "NOT_PERMITTED")
    for path in ("/api/auth/whoami", "/api/capabilities/tokens"):  # not for machines
        check_error(machine.get(path), 403, "NOT_PERMITTED")
    check_error(machine.post("/api/capabilities/tokens", {"verbs": ["*"], "resources": ["*"]}), 403)
    jti = made.json["capability"]["jti"]
    listed = {t["jti"]: t for t in alice.get("/api/capabilities/tokens").json["tokens"]}
    assert listed[jti]["about"] == "ci" and listed[jti]["last_use_ms"] > 0 and "token" not in listed[jti]
    assert bob.get("/api/capabilities/tokens").json["tokens"] == []
    check_error(bob.delete(f"/api/capabilities/tokens/{jti}"), 404)
    assert alice.delete(f"/api/capabilities/tokens/{jti}").json == {"revoked": True}
    check_error(machine.get(f"/api/sandboxes/{box}"), 401, "BAD_TOKEN")
    # somebody else's things do not become one's own by being named
    stolen = bob.post("/api/capabilities/tokens", {"verbs": ["*"], "resources": ["*"], "expires_in": 60}).json["token"]
    check_error(Web(alice.address, stolen).get(f"/api/sandboxes/{box}"), 404)


@pytest.mark.parametrize("body", [{}, {"verbs": [], "resources": ["*"]}, {"verbs": ["*"]}, {"verbs": ["A"], "resources": ["*"]},
                                  {"verbs": ["*"], "resources": ["/x"]}, {"verbs": "x", "resources": ["*"]}, {"verbs": ["*"] * 40, "resources": ["*"]},
                                  {"verbs": ["*"], "resources": ["*"], "expires_in": 0}, {"verbs": ["*"], "resources": ["*"], "expires_in": 10**9}])
def test_capabilities_refuse(alice, body):
    check_error(alice.post("/api/capabilities/tokens", body), 400)


def test_the_page_of_the_link(house, nobody):
    """In a real browser: its policy lets its own script run, and the code of the link stays in it."""
    browser = shutil.which("chromium")
    if not browser:
        harness.missing("there is no chromium")
    page, app = nobody.get("/"), nobody.get("/api/capabilities").json["features"].get("web")
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "script-src 'nonce-" in policy and "'self'" not in policy.split("script-src")[1].split(";")[0], policy
    assert nobody.get("/").headers["content-security-policy"] != page.headers["content-security-policy"]
    url = house.client.sign_in()["url"]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}", "--virtual-time-budget=5000",
                               "--dump-dom", url], capture_output=True, text=True, timeout=200 * harness.SLOW, check=False,
                              env={"PATH": "/usr/bin:/bin", "HOME": home})
    code = url.split("#link=")[1]
    if app:  # it has its own tests; here, that its script ran and took the code
        assert code not in done.stdout, done.stdout
    else:
        assert "You are signed in as uid:0" in done.stdout and "export TOKEN=v4.local." in done.stdout, (done.stdout, done.stderr[-1000:])
    assert nobody.post("/api/auth/session", {"link": code}).status == 401, done.stdout  # it was good once
    assert code not in house.log.read_text()
