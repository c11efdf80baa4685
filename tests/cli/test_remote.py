"""`stockade --server` against a real daemon: what works at its local socket works from afar, for the owner of the session and
nobody else, and what is about the host does not."""
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import SOURCE, Client
from fake import frame
from far import certificates
from test_exec import Terminal
# the same tests, with the fixtures of this file
from test_live import (test_a_reader_that_leaves, test_a_shell_without_a_terminal, test_detach_logs_cancel, test_files,  # noqa: F401
                       test_forward, test_image, test_lifecycle, test_signals, test_snapshot_fork_rollback, test_streams,
                       test_top_and_events_while_they_happen)

sys.path[:0] = [str(SOURCE / "tests/api"), str(SOURCE / "tests/operator")]
import harness  # noqa: E402
import websocket  # noqa: E402
from wallet import Wallet  # noqa: E402

ALICE, BOB, EVE = Wallet("alice"), Wallet("bob"), Wallet("eve")
RATES = "".join(f"rate_{name} = unlimited\n" for name in ("auth", "write", "sandbox", "read", "owner"))
PROTOCOL = {"Sec-WebSocket-Protocol": "stockade.local.1"}


class Away:
    """Somebody with a wallet and nothing else. The daemon is root's."""

    def __init__(self, daemon, folder, wallet):
        self.daemon, self.folder, self.cwd, self.wallet = daemon, folder, folder, wallet
        self.program, self.uid = str(daemon.programs.stockade), 0
        folder.mkdir()
        self.key = folder.with_name(folder.name + ".key")
        self.key.write_text(f"{wallet.key:064x}")
        self.key.chmod(0o600)
        self.url = daemon.client.health()["api"]["url"]

    def become(self):
        """In the child: whoever this is."""

    def environment(self, extra=None):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), "TERM": "xterm", "LANG": "C.UTF-8",
                "XDG_STATE_HOME": str(self.folder.with_name(self.folder.name + ".state")), "STOCKADE_SERVER": self.url, **(extra or {})}

    popen = Client.popen

    def run(self, *args, timeout=60, **kw):
        return Client.run(self, *args, timeout=timeout * harness.SLOW, **kw)

    def login(self, *more):
        self.run("login", "--key", self.key, *more).ok()
        return self


@pytest.fixture(scope="module")
def suite():
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    made = harness.Suite()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def daemon(suite):
    made = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = {ALICE.address.lower()} {BOB.address.lower()}\n{RATES}").start()
    yield made
    made.end()
    said = made.log.read_text(errors="replace")
    assert not any(word in said for word in ("runtime error", "AddressSanitizer", "was ended by signal 6", "was ended by signal 11")), said[-5000:]


@pytest.fixture
def away(suite, daemon):
    def make(wallet):
        suite.count += 1
        return Away(daemon, suite.folder / f"away-{suite.count}", wallet)
    return make


@pytest.fixture(scope="module")
def box(suite, daemon):
    alice = Away(daemon, suite.folder / "alice", ALICE).login()
    alice.run("create", "--name", "box", "--profile", "medium").ok()
    return alice


# --- who, and what ---

def test_owners_do_not_meet(box, away):
    bob = away(BOB).login()
    assert "box" not in bob.run("list").ok() and "box" in box.run("list").ok()
    found = json.loads(box.run("show", "box", "--json").ok())
    assert found["owner"] == ALICE.owner
    for words in (("show",), ("exec",), ("delete", "--force"), ("snapshot",)):
        done = bob.run(*words, found["id"], *(["true"] if words == ("exec",) else []))
        assert done.status == 125 and "there is no sandbox" in done.errors, done
    done = bob.run("create", "--owner", ALICE.owner)
    assert done.status == 125 and "for others" in done.errors, done
    done = away(EVE).run("login", "--key", away(EVE).key)
    assert done.status == 125 and "wallets" in done.errors, done


@pytest.mark.parametrize("words", [("down",), ("sign-in",), ("sign-in", "--operator")])
def test_what_is_about_the_host(box, daemon, words):
    done = box.run(*words)
    assert done.status == 125 and "from afar" in done.errors, done
    assert daemon.answers()


def test_a_link(daemon, away):
    """Printed on the host, spent elsewhere, once."""
    link = subprocess.run([daemon.programs.stockade, "sign-in", "--socket", daemon.socket], stdout=subprocess.PIPE, check=True).stdout
    somebody = away(EVE)
    assert "uid:0" in somebody.run("login", "--link", input=link).ok()
    somebody.run("list").ok()
    done = somebody.run("login", "--link", input=link)
    assert done.status == 125 and "not any more" in done.errors, done


def own_address(count):
    """One of this host that nobody else has: its port 80 is free."""
    return f"127.{64 + os.getpid() % 64}.{os.getpid() // 64 % 250}.{1 + count % 250}"


@pytest.mark.parametrize("secure", [False, True])
def test_the_usual_port(suite, secure):
    """It is not said, neither here nor there: both mean the same text."""
    suite.count += 1
    folder, at = suite.folder / f"papers-{suite.count}", own_address(suite.count)
    folder.mkdir()
    conf = f"listen = {at}:{443 if secure else 80}\nwallets = *\n{RATES}"
    if secure:
        ca, certificate, key = certificates(folder, at, f"IP:{at}")
        conf += f"certificate = {certificate}\ncertificate_key = {key}\n"
    daemon = suite.daemon(conf=conf).start()
    try:
        alice = Away(daemon, folder / "alice", ALICE)
        assert alice.url == f"http{'s' * secure}://{at}"
        alice.login(*(["--ca", ca] if secure else []))
        alice.run("list").ok()
        alice.run("list", env={"STOCKADE_SERVER": f"{alice.url}:{443 if secure else 80}/"}).ok()
        for name in (at, f"{at}:{443 if secure else 80}"):  # by both names that clients give it
            done = subprocess.run(["curl", "-sSk", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {name}", f"{alice.url}/health"],
                                  capture_output=True, text=True)
            assert done.stdout == "200", (name, done)
    finally:
        daemon.end()


@pytest.mark.parametrize("url,right", [("HTTPS://Api.Example.ORG:443/", "https://api.example.org"),
                                       ("http://Api.Example.org:80", "http://api.example.org"),
                                       ("https://api.example.org:80", "https://api.example.org:80"), ("", None)])
def test_names_in_texts(suite, url, right):
    """However it is written in stockade.conf, the text to be signed has what clients compare with."""
    daemon = suite.daemon(conf=f"listen = {'127.0.0.1' if url else '0.0.0.0'}:0\nwallets = *\n{RATES}" + (f"url = {url}\n" if url else ""),
                          env={"SESSION_AUTH_SECRET": "0123456789abcdefghijklmnopqrstuvwxyz"}).start()
    try:
        at = daemon.client.health()["api"]["listen"][0].rsplit(":", 1)[1]
        c = http.client.HTTPConnection("127.0.0.1", int(at), timeout=30 * harness.SLOW)
        c.request("POST", "/api/auth/challenge", json.dumps({"address": ALICE.address}),
                  {"Host": right.split("://")[1] if right else f"0.0.0.0:{at}", "Content-Type": "application/json"})
        text = json.loads(c.getresponse().read())["message"]
        c.close()
        right = right or f"http://0.0.0.0:{at}"
        assert text.startswith(f"{right.split('://')[1]} wants you to sign in") and f"\nURI: {right}\n" in text, text
        assert ("set url = http://HOST" in daemon.log.read_text(errors="replace")) == (not url)
    finally:
        daemon.end()


def test_logout_cuts_what_is_open(box, away):
    bob = away(BOB).login()
    bob.run("create", "--name", "mine", "--profile", "medium").ok()
    try:
        process = bob.popen("exec", "mine", "sh", "-c", "echo ready; sleep 100")
        assert process.stdout.readline() == b"ready\n"
        bob.run("logout").ok()
        _, err = process.communicate(timeout=30 * harness.SLOW)
        assert process.returncode == 125 and b"stockade login" in err, (process.returncode, err)
        assert bob.run("list").status == 125
    finally:
        bob.login().run("delete", "--force", "mine").ok()


def test_a_shell_outlives_the_operator(box, daemon):
    t = Terminal(box, "shell", "box")
    t.type(b"PS1='$ '; cd /tmp; x=kept\r")
    t.expect(rb"\$ $", 20 * harness.SLOW)
    t.type(b"echo $x-$((1+1))\r")
    t.expect(rb"kept-2\r\n", 20 * harness.SLOW)
    daemon.kill_operator()
    # what is typed while there is no connection may be lost with it
    for _ in range(60):
        t.seen = b""
        t.type(b"echo $x-$((10+1))\r")
        try:
            t.expect(rb"kept-11\r\n", 1)
            break
        except AssertionError:
            pass
    else:
        assert False, "it does not come back"
    t.type(b"exit 3\r")
    assert t.end() == 3


def test_an_operator_that_is_killed_under_a_flood(box, daemon):
    """Not a byte too many and none too few."""
    process = box.popen("exec", "box", "sh", "-c", "for i in $(seq 1 30); do echo line $i; sleep 0.1; done; exit 4")
    assert process.stdout.readline() == b"line 1\n"
    daemon.kill_operator()
    out, err = process.communicate(timeout=60 * harness.SLOW)
    assert process.returncode == 4 and out == b"".join(b"line %d\n" % n for n in range(2, 31)), (process.returncode, out[-200:], err)


def test_large_answers(box):
    """More than waits in any queue."""
    box.run("exec", "box", "sh", "-c", "mkdir -p /tmp/many; cd /tmp/many; for i in $(seq 1 9000); do : > "
            "a-name-that-is-long-enough-to-fill-what-there-is-of-room-in-an-answer-to-those-who-ask-for-it-$i; done", timeout=120).ok()
    assert len(box.run("ls", "box:/tmp/many", timeout=120).ok().splitlines()) >= 9000
    box.run("exec", "box", "rm", "-rf", "/tmp/many").ok()


def test_ssh_keys(box):
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl somebody"
    box.run("ssh-key", "add", "box", "-", input=key.encode()).ok()
    assert "somebody" in box.run("ssh-key", "list", "box").ok()
    box.run("ssh-key", "remove", "box", "-", input=key.encode()).ok()


# --- the route itself ---

class Web:
    """What tests/api/websocket.py wants to know of whoever asks."""

    def __init__(self, away):
        kept = next(Path(away.environment()["XDG_STATE_HOME"]).glob("stockade/remote/http*.json"))
        self.address, self.token = away.url.split("://")[1], json.loads(kept.read_text())["token"]
        self.host, port = self.address.rsplit(":", 1)
        self.port = int(port)

    def socket(self, timeout):
        return socket.create_connection((self.host, self.port), timeout=timeout)


def tunnel(away, **kw):
    return websocket.Socket(Web(away), "/api/local", headers={**PROTOCOL, **kw.pop("headers", {})}, **kw)


def answer(s):
    """The answer, and the code that it closes with."""
    data = b""
    while True:
        opcode, part = s.frame()
        if opcode == 8:
            break
        if opcode == 2:
            data += part
    code = int.from_bytes(part[:2], "big")
    if not data:
        return None, code
    size = int.from_bytes(data[:4], "little")
    assert data[4:8] == b"A\0\0\0" and len(data) == 8 + size
    return json.loads(data[8:]), code


def test_one_byte_at_a_time(box):
    s = tunnel(box)
    for byte in frame("request", {"verb": "ping"}):
        s.send(bytes([byte]))
    found, code = answer(s)
    assert found["ok"] and found["result"]["owner"] == ALICE.owner and not found["result"]["admin"] and code == 1000


@pytest.mark.parametrize("data,code", [
    (frame("input", b"x"), "bad_request"), (b"\xff" * 20, "bad_request"), (frame("request", b"{"), "bad_request"),
    (frame("request", b"[]"), "bad_request"), (frame("request", b""), "bad_request"), (frame("request", {}), "bad_request"),
    (frame("request", {"verb": "down"}), "refused"), (frame("request", {"verb": "ssh-check"}), "refused"),
    (frame("request", {"verb": "sign-in"}), "refused"), (frame("request", {"verb": "nothing"}), "refused"),
    (frame("request", {"verb": "ping", "x": 1}), "bad_request"), (frame("request", {"verb": "create", "owner": "uid:0"}), "refused"),
    ((1 << 20).to_bytes(4, "little") + b"Q\0\0\0" + b" " * 1000, "bad_request"),
], ids=lambda value: value if isinstance(value, str) else value[8:40].decode(errors="replace").strip() or "none")
def test_wrong_requests(box, data, code):
    s = tunnel(box)
    s.send(data)
    found, _ = answer(s)
    assert found["error"]["code"] == code, found


def test_wrong_frames(box):
    s = tunnel(box)
    s.send("text")
    assert answer(s) == (None, 1003)
    request = frame("request", {"verb": "exec", "sandbox": "box", "argv": ["cat"], "stdin": True})
    for wrong in (frame("answer", b"{}"), frame("control", b"{"), b"\xff" * 8):
        s = tunnel(box)
        s.send(request)
        assert s.frame()[0] == 2
        s.send(wrong)
        while (got := s.frame())[0] != 8:
            pass
        assert int.from_bytes(got[1][:2], "big") == 1008
    for headers in ({"Sec-WebSocket-Protocol": "chat"}, {"Origin": "http://evil.example"}):
        with pytest.raises(websocket.Refused) as refused:
            tunnel(box, headers=headers)
        assert refused.value.status in (400, 403)
    with pytest.raises(websocket.Refused):
        tunnel(box, drop=("Sec-WebSocket-Protocol",))


def test_a_ticket(box):
    """Good once, and for this path alone."""
    web = Web(box)

    def ticket(path):
        c = http.client.HTTPConnection(web.host, web.port, timeout=30 * harness.SLOW)
        c.request("POST", "/api/auth/ticket", json.dumps({"path": path}), {"Authorization": f"Bearer {web.token}",
                                                                         "Content-Type": "application/json"})
        found = json.loads(c.getresponse().read())["ticket"]
        c.close()
        return found

    def come(ticket):
        nobody = Web(box)
        nobody.token = None
        return websocket.Socket(nobody, f"/api/local?ticket={ticket}", headers=PROTOCOL)
    one = ticket("/api/local")
    s = come(one)
    s.send(frame("request", {"verb": "ping"}))
    assert answer(s)[0]["result"]["owner"] == ALICE.owner
    for wrong in (one, ticket("/api/events"), "x" * 20):
        with pytest.raises(websocket.Refused) as refused:
            come(wrong)
        assert refused.value.status == 401


def test_it_stays_open_while_nothing_happens(box):
    """Input that nobody takes, and pings in between: neither ends it."""
    s = tunnel(box)
    s.send(frame("request", {"verb": "exec", "sandbox": "box", "argv": ["sleep", "60"], "stdin": True}))
    assert s.frame()[0] == 2
    done = threading.Event()

    def pour():
        try:
            for _ in range(400):
                s.send(frame("input", b"x" * 60000))
        except OSError:
            pass
        done.set()
    threading.Thread(target=pour, daemon=True).start()
    assert not done.wait(3), "24 MB were taken by a command that reads nothing"
    assert box.run("list").status == 0
    s.close()


def test_too_many(suite, away):
    """Those of one owner are counted, and end when they are closed."""
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nowner_clients = 3\n{RATES}").start()
    try:
        suite.count += 1
        alice = Away(daemon, suite.folder / f"away-{suite.count}", ALICE).login()
        held = [tunnel(alice) for _ in range(3)]
        done = alice.run("list")
        assert done.status == 125 and "limit" in done.errors, done
        for s in held:
            s.close()
        assert harness.until(lambda: alice.run("list").status == 0)
    finally:
        daemon.end()


def test_rates(suite):
    daemon = suite.daemon(conf="listen = 127.0.0.1:0\nwallets = *\nrate_read = 5\n").start()
    try:
        suite.count += 1
        alice = Away(daemon, suite.folder / f"away-{suite.count}", ALICE).login()
        done = [alice.run("list") for _ in range(8)]
        assert done[0].status == 0 and done[-1].status == 125 and "too many requests" in done[-1].errors, done
    finally:
        daemon.end()


def test_over_tls(suite):
    suite.count += 1
    folder = suite.folder / f"papers-{suite.count}"
    folder.mkdir()
    ca, certificate, key = certificates(folder)
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\ncertificate = {certificate}\ncertificate_key = {key}\n{RATES}").start()
    try:
        suite.count += 1
        alice = Away(daemon, suite.folder / f"away-{suite.count}", ALICE)
        assert alice.url.startswith("https://")
        done = alice.run("login", "--key", alice.key)
        assert done.status == 125 and "does not hold" in done.errors, done
        alice.login("--ca", ca)
        alice.run("create", "--name", "box", "--profile", "medium").ok()
        test_streams(alice)
        assert alice.run("exec", "-i", "box", "--", "sh", "-c", "wc -c; head -c 20000000 /dev/zero", input=b"x" * 10000000).out == \
            b"10000000\n" + bytes(20000000)
        process = alice.popen("exec", "box", "sh", "-c", "for i in $(seq 1 20); do echo line $i; sleep 0.1; done; exit 4")
        assert process.stdout.readline() == b"line 1\n"
        daemon.kill_operator()
        out, err = process.communicate(timeout=60 * harness.SLOW)
        assert process.returncode == 4 and out == b"".join(b"line %d\n" % n for n in range(2, 21)), (process.returncode, out[-200:], err)
        alice.run("logout").ok()
    finally:
        daemon.end()
