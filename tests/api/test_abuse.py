"""What one client could do to the others: their memory, places and disk, with rights that it has."""
import json
import select
import socket
import threading
import time

import pytest

import harness
import secure
from conftest import RATES, TLS, Web, address_of
from test_doors import check_error
from wallet import Wallet

MIB = 1 << 20


def operator_of(daemon):
    return daemon.operator


def memory_of(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)


def raw(web, method, path, body=b"", headers=()):
    """A socket on which a request was sent, but nothing was read."""
    s = web.socket(30 * harness.SLOW)
    head = [f"{method} {path} HTTP/1.1", f"Host: {web.address}", f"Authorization: Bearer {web.token}", *headers]
    s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return s


def raw_json(web, path, value):
    body = json.dumps(value).encode()
    return raw(web, "POST", path, body, ("Content-Type: application/json", f"Content-Length: {len(body)}"))


def connections(web):
    text = web.get("/metrics").body.decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("stockade_http_connections ")))


def wait_until(what, seconds=40):
    end = time.monotonic() + seconds * harness.SLOW
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


# --- memory

def test_output_of_all_runs_is_capped(make_house):
    daemon = make_house(RATES)
    web = Web(address_of(daemon)).sign_in(Wallet("hoarder"))
    box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    assert web.post(f"/api/sandboxes/{box}/exec", {"command": "true"}).status == 200
    pid, answers = operator_of(daemon), []
    before = memory_of(pid)

    def run():  # none is answered, and gives back what it holds, before the last has said everything
        answers.append(web.post(f"/api/sandboxes/{box}/exec", {"command": "head -c 3900000 /dev/zero | tr '\\0' a; "
                                                               "until [ -e /tmp/go ]; do sleep 0.1; done"}, timeout=90))

    def all_said():
        return sum(r["out_bytes"] == 3900000 for r in web.get(f"/api/sandboxes/{box}/runs").json["runs"]) == 16
    threads = [threading.Thread(target=run) for _ in range(16)]
    for t in threads:
        t.start()
    most, gone = 0, False
    while any(t.is_alive() for t in threads):
        most = max(most, memory_of(pid))
        if not gone and all_said():
            gone = web.post(f"/api/sandboxes/{box}/exec", {"command": "touch /tmp/go"}).json["exit_code"] == 0
        time.sleep(0.05)
    assert len(answers) == 16 and {a.status for a in answers} == {200}, answers
    kept = sum(len(a.json["stdout"]) for a in answers)
    assert kept <= 16 * MIB and any(a.json["truncated"] for a in answers), kept
    assert all(set(a.json["stdout"]) <= {"a"} for a in answers)
    assert most - before < 48 * MIB, (before, most)
    again = web.post(f"/api/sandboxes/{box}/exec", {"command": "head -c 3900000 /dev/zero | tr '\\0' a"}).json
    assert not again["truncated"] and len(again["stdout"]) == 3900000  # what was read is given back


# --- who may sign in

def try_sign_in(web, wallet):
    challenge = web.post("/api/auth/challenge", {"address": wallet.address}).json
    return web.post("/api/auth/session", {"nonce": challenge["nonce"], "signature": wallet.sign(challenge["message"])})


def test_only_named_wallets_sign_in(suite):
    named, operator = Wallet("named"), Wallet("operator")
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\n{TLS}wallets = {named.address}\noperators = {operator.address}\n").start()
    try:
        web = Web(address_of(daemon))
        check_error(try_sign_in(web, Wallet("made up")), 403, "NOT_PERMITTED")
        assert "wallets" in try_sign_in(web, Wallet("made up")).json["hint"]
        assert try_sign_in(web, named).status == 200 and try_sign_in(web, operator).status == 200
        link = daemon.client.sign_in()["url"].split("#link=")[1]
        assert web.post("/api/auth/session", {"link": link}).status == 200
    finally:
        daemon.end()


def test_nobody_signs_in_by_default(suite):
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\n{TLS}").start()
    try:
        check_error(try_sign_in(Web(address_of(daemon)), Wallet("made up")), 403, "NOT_PERMITTED")
    finally:
        daemon.end()


# --- what was revoked, and who has gone

def test_little_is_queued_for_a_reader_that_was_cut(nobody, box, alice):
    web = nobody.sign_in(Wallet("alice"))
    done = alice.post(f"/api/sandboxes/{box}/exec", {"command": "head -c 24000000 /dev/zero > /tmp/much"})
    assert done.json["exit_code"] == 0, done
    wait_until(lambda: connections(alice) == 1)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(30 * harness.SLOW)
    s.connect((web.host, web.port))
    if secure.ON:
        s = secure.context().wrap_socket(s, server_hostname=web.host)
    s.sendall(f"GET /api/sandboxes/{box}/files?path=/tmp/much HTTP/1.1\r\nHost: {web.address}\r\n"
              f"Authorization: Bearer {web.token}\r\n\r\n".encode())
    assert select.select([s], [], [], harness.ENOUGH)[0]  # the answer has begun
    time.sleep(1)
    assert connections(alice) == 2 and web.delete("/api/auth/session").status == 200
    wait_until(lambda: connections(alice) == 1)
    size = 0
    try:
        while piece := s.recv(65536):
            size += len(piece)
    except ConnectionResetError:
        pass
    s.close()
    assert 0 < size < 512 * 1024, size


def test_client_that_left_a_byte_is_gone(alice, box):
    wait_until(lambda: connections(alice) == 1)  # those of others have gone, too
    before = 1
    left = [raw_json(alice, f"/api/sandboxes/{box}/exec", {"command": "sleep 60"}) for _ in range(5)]
    wait_until(lambda: connections(alice) >= before + 5)
    for s in left:
        s.sendall(b"G")
    assert connections(alice) >= before + 5
    for s in left:
        s.close()
    wait_until(lambda: connections(alice) <= before)


# --- capabilities

def test_revoked_tokens_count(make_house):
    web = Web(address_of(make_house(RATES))).sign_in(Wallet("minter"))
    statuses = []
    for _ in range(257):
        made = web.post("/api/capabilities/tokens", {"verbs": ["exec"], "resources": ["sandbox/*"], "expires_in": 86400})
        statuses.append(made.status)
        if made.status == 201:
            assert web.delete(f"/api/capabilities/tokens/{made.json['capability']['jti']}").status == 200
    assert statuses == [201] * 256 + [429]


def capability(web, verbs, resources):
    made = web.post("/api/capabilities/tokens", {"verbs": verbs, "resources": resources, "expires_in": 60})
    assert made.status == 201, made
    return Web(web.address, made.json["token"])


def test_capability_covers_what_body_and_query_name(alice):
    made = [alice.post("/api/sandboxes", {"profile": "medium"}).json["id"] for _ in range(2)]
    try:
        own, foreign = (alice.post(f"/api/sandboxes/{id}/snapshot").json["id"] for id in made)
        token = capability(alice, ["rollback", "diff", "create"], [f"sandbox/{made[0]}", f"snapshot/{own}", "sandbox"])
        check_error(token.post(f"/api/sandboxes/{made[0]}/rollback", {"snapshot": foreign}), 403, "NOT_PERMITTED")
        check_error(token.get(f"/api/snapshots/{own}/diff?to={foreign}"), 403, "NOT_PERMITTED")
        check_error(token.get(f"/api/snapshots/{own}/diff?to={made[1]}"), 403, "NOT_PERMITTED")
        check_error(token.post("/api/sandboxes", {"from_snapshot": foreign}), 403, "NOT_PERMITTED")
        assert token.get(f"/api/snapshots/{own}/diff?to={own}").status == 200
        alone = capability(alice, ["rollback"], [f"sandbox/{made[0]}"])  # its own snapshots go with a sandbox
        back = alone.post(f"/api/sandboxes/{made[0]}/rollback", {"snapshot": own})
        assert back.status == 200, back
        for id in (own, foreign):
            assert alice.delete(f"/api/snapshots/{id}").status == 200
    finally:
        for id in made:
            alice.delete(f"/api/sandboxes/{id}?force=true")


# --- forks

def test_fork_leaves_no_snapshot(alice, box):
    def count():
        return len(alice.get("/api/snapshots").json["snapshots"])

    def sandboxes():
        return {sandbox["id"] for sandbox in alice.get("/api/sandboxes").json["sandboxes"]}

    before, known = count(), sandboxes()
    try:
        first = alice.post(f"/api/sandboxes/{box}/fork", {"name": "forked"})
        assert first.status == 201, first
        assert count() == before
        check_error(alice.post(f"/api/sandboxes/{box}/fork", {"name": "forked"}), 409, "CONFLICT")
        assert count() == before
        for pause in (0, 0.005, 0.02, 0.05):
            s = raw_json(alice, f"/api/sandboxes/{box}/fork", {})
            time.sleep(pause)
            s.close()
        time.sleep(1)
        wait_until(lambda: count() == before)
    finally:
        for id in sandboxes() - known:
            alice.delete(f"/api/sandboxes/{id}?force=true")


# --- those who take their time

def test_trickle_is_cut(alice, box):
    """A body and an answer of which a byte moves now and then; one that moves is left alone."""
    assert alice.post(f"/api/sandboxes/{box}/exec", {"command": "head -c 9000000 /dev/zero > /tmp/slow"}).json["exit_code"] == 0
    up = raw(alice, "PUT", f"/api/sandboxes/{box}/files?path=/tmp/trickle", headers=("Content-Length: 1000000",))
    good = raw(alice, "PUT", f"/api/sandboxes/{box}/files?path=/tmp/good", headers=("Content-Length: 1000000",))
    down = raw(alice, "GET", f"/api/sandboxes/{box}/files?path=/tmp/slow")
    cut, sent, end = set(), 0, time.monotonic() + 40
    while time.monotonic() < end:
        for name, s, piece in (("up", up, b"x"), ("good", good, bytes(4000))):
            try:
                if name not in cut:
                    s.sendall(piece)
            except OSError:
                cut.add(name)
        sent += 4000
        time.sleep(1)
    assert cut == {"up"}
    size = 0
    try:
        while piece := down.recv(1 << 20):
            size += len(piece)
    except OSError:
        pass
    assert size < 9000000
    good.sendall(bytes(1000000 - sent))
    assert good.recv(100).startswith(b"HTTP/1.1 20")
    for s in (up, good, down):
        s.close()


# --- small ones

def test_origin_has_our_scheme(nobody):
    assert nobody.get("/health", headers={"Origin": f"{secure.SCHEME}://{nobody.address}"}).status == 200
    for scheme in ("x", "http" if secure.ON else "https", "httpx", "h"):
        check_error(nobody.get("/health", headers={"Origin": f"{scheme}://{nobody.address}"}), 403, "BAD_ORIGIN")


def test_query_says_it_once(alice):
    check_error(alice.get("/api/sandboxes?limit=1&limit=2"), 400, "BAD_REQUEST")


def test_metrics_not_through_a_proxy(nobody):
    assert nobody.get("/metrics").status == 200
    check_error(nobody.get("/metrics", headers={"X-Forwarded-For": "203.0.113.9"}), 401)


# --- heads that two programs would read in two ways

@pytest.mark.parametrize("head", [
    "GET /health HTTP/1.1\nHost: {host}\r\n\r\n", "GET /health HTTP/1.1\r\nX: a\nHost: {host}\r\n\r\n",
    "GET /health HTTP/1.1\r\nX: a\rHost: {host}\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: {host}\nY: b\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /health?a=b c HTTP/1.1\r\nHost: {host}\r\n\r\n", "GET /health HTTP/1.1 HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /api/sandboxes?limit=1 2 HTTP/1.1\r\nHost: {host}\r\n\r\n"])
def test_ambiguous_heads_get_one_answer_of_ours(nobody, head):
    with nobody.socket(30 * harness.SLOW) as s:
        s.sendall(head.format(host=nobody.address).encode())
        said = b""
        while piece := s.recv(65536):
            said += piece
    assert said.startswith(b"HTTP/1.1 400") and b"application/json" in said and said.count(b"HTTP/1.1 ") == 1, said
    assert b"BAD_REQUEST" in said and b"nosniff" in said


def test_bodies_are_counted_while_they_come(make_house):
    """Sixteen MiB of one owner: whoever sends more at the same time is told so."""
    web = Web(address_of(make_house(RATES))).sign_in(Wallet("sender"))
    box = web.post("/api/sandboxes", {"profile": "low"}).json["id"]
    size, count = 900 << 10, 30
    body = b'{"command":"true","stdin":"' + b"a" * size
    senders = []
    for _ in range(count):
        s = web.socket(60 * harness.SLOW)
        s.sendall(f"POST /api/sandboxes/{box}/exec HTTP/1.1\r\nHost: {web.address}\r\nAuthorization: Bearer {web.token}\r\n"
                  f"Content-Type: application/json\r\nContent-Length: {len(body) + 2}\r\n\r\n".encode())
        senders.append(s)
    refused = 0
    for s in senders:  # all but the end of it
        try:
            s.sendall(body)
        except OSError:
            refused += 1
    for s in senders:
        try:
            s.sendall(b'"}')
            refused += s.recv(20).startswith(b"HTTP/1.1 503")
        except OSError:
            refused += 1
        s.close()
    assert refused >= count - (16 << 20) // size - 1, refused
    assert web.post(f"/api/sandboxes/{box}/exec", {"command": "true"}).json["exit_code"] == 0


def test_one_wallet_signs_in_now_and_then(make_house):
    """Each session that is ended is remembered until it would have expired."""
    web = Web(address_of(make_house("rate_auth = 5\nproxies = 127.0.0.1\nrate_write = unlimited\n")))
    wallet, seen = Wallet("often"), []
    for i in range(8):
        head = {"X-Forwarded-For": f"198.51.100.{i + 1}"}
        challenge = web.post("/api/auth/challenge", {"address": wallet.address}, headers=head).json
        seen.append(web.post("/api/auth/session", {"nonce": challenge["nonce"], "signature": wallet.sign(challenge["message"])},
                             headers=head).status)
    assert seen[:5] == [200] * 5 and 429 in seen[5:], seen


def test_others_ids_are_unknown_to_a_capability(nobody, alice, box):
    """By its refusal nobody learns whether an id of somebody else is a snapshot, a sandbox or nothing."""
    mallory = nobody.sign_in(Wallet("mallory"))
    mine = mallory.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    shot = mallory.post(f"/api/sandboxes/{mine}/snapshot").json
    machine = capability(mallory, ["diff"], [f"snapshot/{shot['id']}"])
    said = [machine.get(f"/api/snapshots/{shot['id']}/diff?to={other}") for other in (box, "0" * 16)]
    assert [a.status for a in said] == [403, 403], said
    assert said[0].json["error"].replace(box, "ID") == said[1].json["error"].replace("0" * 16, "ID")
    mallory.delete(f"/api/snapshots/{shot['id']}")
    mallory.delete(f"/api/sandboxes/{mine}?force=true")


def test_events_of_a_sandbox_end_with_it(alice):
    made = alice.post("/api/sandboxes", {"profile": "low"}).json["id"]
    connection, response = alice.open(f"/api/sandboxes/{made}/events", timeout=60)
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200
    said = response.read()  # until the end of the stream; a timeout otherwise
    connection.close()
    assert b"sandbox.delete" in said, said


def test_what_was_sent_counts_until_it_is_answered(make_house):
    """Commands that print something and do not read what was sent along: that stays in memory, and one owner has a share."""
    daemon = make_house(RATES)
    web = Web(address_of(daemon)).sign_in(Wallet("much"))
    made = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    body = json.dumps({"command": "echo printed; sleep 1000", "stdin": "x" * 900_000}).encode()
    held, refused = [], 0

    def printed():
        return sum(run["out_bytes"] > 0 for run in web.get(f"/api/sandboxes/{made}/runs").json["runs"])
    while refused == 0:
        assert len(held) < 24, "as much as anybody likes"
        c = web.connect()
        c.request("POST", f"/api/sandboxes/{made}/exec", body, {"Authorization": f"Bearer {web.token}", "Content-Type": "application/json"})
        held.append(c)
        assert harness.until(lambda: printed() == len(held) or select.select([c.sock], [], [], 0)[0], step=0.02)
        if select.select([c.sock], [], [], 0)[0]:
            answer = c.getresponse()
            assert answer.status in (429, 503) and b"at the same time" in answer.read(), answer.status
            refused += 1
    assert len(held) > 5
    for c in held:
        c.close()
    assert web.delete(f"/api/sandboxes/{made}?force=true").status == 200
