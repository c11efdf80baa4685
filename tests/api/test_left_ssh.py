"""Keys for SSH that a machine let in are good for as long as its token; and where SSH listens, when the host chose the port."""
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import harness
from conftest import RATES, TLS, Web, address_of, check_log
from test_doors import check_error
from test_routes_ssh import make_key
from wallet import Wallet

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "clients/python")]
from stockade.capability import narrow  # noqa: E402

VERBS = ["ssh-key-add", "ssh-keys", "ssh-key-remove"]


class Place:
    """A daemon with an API and an SSH door on a port of the host's choice, and a sandbox of Carol's."""

    def __init__(self, daemon, folder):
        self.daemon, self.folder = daemon, folder
        self.open()
        self.box = self.web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
        self.path = f"/api/sandboxes/{self.box}/ssh"

    def open(self):
        """Again after a restart: both ports are new."""
        self.web = Web(address_of(self.daemon)).sign_in(Wallet("carol"))
        self.port = int(self.web.get("/health").json["ssh"][0].rsplit(":", 1)[1])

    def token(self, seconds=600):
        made = self.web.post("/api/capabilities/tokens", {"verbs": VERBS, "resources": [f"sandbox/{self.box}"], "expires_in": seconds})
        assert made.status == 201, made
        return made.json["token"], made.json["capability"]["jti"]

    def machine(self, token):
        return Web(self.web.address, token)

    def revoke(self, jti):
        assert self.web.delete(f"/api/capabilities/tokens/{jti}").status == 200

    def prints(self):
        return sorted(key["fingerprint"] for key in self.web.get(self.path).json["keys"])

    def ssh(self, key, *command):
        return ["ssh", "-F", "none", "-i", str(key), "-p", str(self.port), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o",
                "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", f"{self.box}@127.0.0.1", *command]

    def comes_in(self, key):
        done = subprocess.run(self.ssh(key, "echo", "inside"), capture_output=True, timeout=60 * harness.SLOW, check=False,
                              stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout) in ((0, b"inside\n"), (255, b"")), done
        return done.returncode == 0

    def stay(self, key):
        """A session that goes on."""
        running = subprocess.Popen(self.ssh(key, "echo on; sleep 1000.5"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert running.stdout.readline() == b"on\n"
        return running


@pytest.fixture(scope="module")
def place(suite, tmp_path_factory):
    if not harness.IS_ROOT or not shutil.which("ssh"):
        harness.missing("root and OpenSSH's client are needed")
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nssh_listen = 127.0.0.1:0\n{TLS}{RATES}").start()
    try:
        made = Place(daemon, tmp_path_factory.mktemp("keys"))
        yield made
        made.web.delete(f"/api/sandboxes/{made.box}?force=true")
    finally:
        daemon.end()
    check_log(daemon)


@pytest.fixture
def key(place, tmp_path):
    return make_key(tmp_path)


def test_the_port_is_the_real_one(place, key):
    found = place.daemon.client.health()["ssh"]
    assert found == {"open": True, "listen": [f"127.0.0.1:{place.port}"]} and place.port > 0
    assert place.web.get(f"{place.path}/user").json["listen"] == found["listen"]
    assert place.web.post(place.path, {"public_key": key[1]}).status == 200
    assert place.comes_in(key[0])
    assert place.web.delete(place.path, {"public_key": key[1]}).status == 200


@pytest.mark.parametrize("narrowed", [False, True])
def test_a_key_goes_with_the_token_that_let_it_in(place, key, tmp_path, narrowed):
    token, jti = place.token()
    if narrowed:
        token = narrow(token, verbs=["ssh-key-add"])
    made = place.machine(token).post(place.path, {"public_key": key[1]})
    assert made.status == 200 and made.json["result"]["capability"] == jti, made
    own = make_key(tmp_path, "own")
    assert "capability" not in place.web.post(place.path, {"public_key": own[1]}).json["result"]
    assert place.comes_in(key[0]) and place.comes_in(own[0])
    running, other = place.stay(key[0]), place.stay(own[0])
    place.revoke(jti)
    assert running.wait(harness.ENOUGH) == 255
    assert not place.comes_in(key[0]) and place.comes_in(own[0]) and other.poll() is None
    assert made.json["result"]["fingerprint"] not in place.prints()
    place.daemon.kill_operator()  # it is out for good
    assert other.wait(harness.ENOUGH) == 255
    place.open()
    assert not place.comes_in(key[0]) and place.comes_in(own[0])
    assert place.web.delete(place.path, {"public_key": own[1]}).status == 200 and place.prints() == []


def test_a_key_that_was_kept_goes_with_its_token_later(place, key):
    """The operator that ends it is not the one that let it in."""
    token, jti = place.token()
    assert place.machine(token).post(place.path, {"public_key": key[1]}).status == 200
    place.daemon.kill_operator()
    place.open()
    assert place.comes_in(key[0])
    place.revoke(jti)
    assert not place.comes_in(key[0]) and place.prints() == []


def test_a_key_goes_when_its_token_expires(place, key):
    token, _ = place.token()
    soon = 15 * harness.SLOW  # enough to come in before, also on a busy machine
    ends = datetime.now(timezone.utc) + timedelta(seconds=soon)
    made = place.machine(narrow(token, expires=ends)).post(place.path, {"public_key": key[1]})
    assert made.status == 200 and abs(made.json["result"]["expires_ms"] / 1000 - ends.timestamp()) <= 1, made
    running = place.stay(key[0])
    assert running.wait(harness.ENOUGH + soon) == 255
    assert time.time() >= ends.timestamp() - 1, "it was cut too early"
    assert not place.comes_in(key[0]) and place.prints() == []
    place.daemon.kill_operator()
    place.open()
    assert not place.comes_in(key[0]) and place.prints() == []


def test_whose_key_it_is(place, key):
    """What its owner let in is not taken away by a machine that lets it in again; what its owner lets in again is his."""
    token, jti = place.token()
    machine = place.machine(token)
    assert place.web.post(place.path, {"public_key": key[1]}).status == 200
    assert "capability" not in machine.post(place.path, {"public_key": key[1]}).json["result"]
    place.revoke(jti)
    assert place.comes_in(key[0]) and len(place.prints()) == 1
    check_error(machine.delete(place.path, {"public_key": key[1]}), 401)
    assert place.web.delete(place.path, {"public_key": key[1]}).status == 200
    token, jti = place.token()
    assert place.machine(token).post(place.path, {"public_key": key[1]}).json["result"]["capability"] == jti
    assert "capability" not in place.web.post(place.path, {"public_key": key[1]}).json["result"]
    place.revoke(jti)
    place.daemon.kill_operator()
    place.open()
    assert place.comes_in(key[0])
    assert place.web.delete(place.path, {"public_key": key[1]}).status == 200


def test_revoked_while_the_key_was_on_its_way(place, key):
    """The head of the request came while the token was good, its body when it was not any more."""
    token, jti = place.token()
    body = b'{"public_key": "%s"}' % key[1].encode()
    with place.web.socket(timeout=30 * harness.SLOW) as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (place.path.encode(), place.web.address.encode(), token.encode(), len(body), body[:10]))
        time.sleep(0.2)  # it need not have been read; when it was, the test says more
        place.revoke(jti)
        try:
            s.sendall(body[10:])
            assert b"200 OK" not in s.recv(4096)
        except OSError:
            pass  # cut off already
    assert place.prints() == [] and not place.comes_in(key[0])
