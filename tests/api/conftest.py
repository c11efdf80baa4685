"""Fixtures: a daemon with an open API, wallets that sign in, and the fixtures of tests/operator."""
import http.client
import json
import socket
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "operator")]
import harness  # noqa: E402
import secure  # noqa: E402
from wallet import Wallet  # noqa: E402

pytest_plugins = []
TLS = secure.settings() if secure.ON else ""
collect_ignore = ["test_plain_hall.py"] if secure.ON else []
RATES = "".join(f"rate_{name} = unlimited\n" for name in ("auth", "write", "sandbox", "read", "owner"))


class Answer:
    def __init__(self, response):
        self.status, self.body = response.status, response.read()
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:400]!r}"


class Web:
    """One who asks: web.get("/api/sandboxes"), web.post("/x", {…}); with a token or without."""

    def __init__(self, address, token=None):
        self.address, self.token = address, token
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)

    def connect(self, timeout=30):
        if secure.ON:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout * harness.SLOW, context=secure.context())
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout * harness.SLOW)

    def socket(self, timeout=None):
        """A bare one: what is sent is what arrives."""
        made = socket.create_connection((self.host, self.port), timeout=timeout)
        return secure.context().wrap_socket(made, server_hostname=self.host) if secure.ON else made

    def ask(self, method, path, body=None, headers=None, timeout=30):
        head = dict(headers or {})
        if self.token and "Authorization" not in head:
            head["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            head.setdefault("Content-Type", "application/json")
        c = self.connect(timeout)
        try:
            c.request(method, path, body, head)
            return Answer(c.getresponse())
        finally:
            c.close()

    def open(self, path, headers=None, timeout=30):
        """A response that is still being sent; with its connection."""
        c = self.connect(timeout)
        c.request("GET", path, headers={"Authorization": f"Bearer {self.token}", **(headers or {})})
        return c, c.getresponse()

    def __getattr__(self, method):
        return lambda path, body=None, **kw: self.ask(method.upper(), path, body, **kw)

    def sign_in(self, wallet):
        challenge = self.post("/api/auth/challenge", {"address": wallet.address})
        assert challenge.status == 200, challenge
        answer = self.post("/api/auth/session", {"nonce": challenge.json["nonce"],
                                                 "signature": wallet.sign(challenge.json["message"])})
        assert answer.status == 200, answer
        return Web(self.address, answer.json["token"])


def address_of(daemon):
    found = daemon.client.health()["api"]
    assert found["open"], daemon.said()
    return found["listen"][0]


def events(response, count=None, until=None):
    """(event, data) of a stream, as many as wanted."""
    found, name = [], None
    while True:
        line = response.readline()
        if not line:
            return found
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            found.append((name, json.loads(line[6:])))
            if len(found) == count or (until and name == until):
                return found


def check_log(daemon):
    """A build with sanitizers says there what it found; any build says there that its operator died."""
    said = daemon.log.read_text(errors="replace")
    for word in ("runtime error", "AddressSanitizer", "was ended by signal 6", "was ended by signal 11"):
        assert word not in said, said[-5000:]


@pytest.fixture(scope="session")
def suite():
    made = harness.Suite()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def house(suite):
    """One daemon for all tests that do it no harm."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{TLS}{RATES}").start()
    yield daemon
    daemon.end()
    assert not daemon.left(disks=True), f"left behind\n{daemon.said()}"
    check_log(daemon)


@pytest.fixture
def make_house(suite):
    """make_house("rate_read = 5\\n"): one with settings of its own."""
    made = []

    def make(conf="", **kw):
        made.append(suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{TLS}{conf}", **kw).start())
        return made[-1]
    yield make
    for daemon in made:
        daemon.end()
        check_log(daemon)


@pytest.fixture(scope="session")
def nobody(house):
    return Web(address_of(house))


@pytest.fixture(scope="session")
def alice(nobody):
    return nobody.sign_in(Wallet("alice"))


@pytest.fixture(scope="session")
def bob(nobody):
    return nobody.sign_in(Wallet("bob"))


@pytest.fixture(scope="session")
def box(alice):
    """A sandbox of Alice's that runs."""
    made = alice.post("/api/sandboxes", {"profile": "medium"})
    assert made.status == 201, made
    yield made.json["id"]
    gone = alice.delete(f"/api/sandboxes/{made.json['id']}?force=true")
    assert gone.status == 200, gone
