"""A session secret is replaced by another: whoever was signed in stays so until it expires, and what was sealed opens."""
import pytest

import harness
from conftest import Web, address_of
from sealed import BOTH, PROFILE, nowhere, written
from wallet import Wallet

A = "first-session-secret-0123456789abcdef"
B = "second-session-secret-fedcba9876543210"
C = "third-session-secret-abcdef0123456789"
URL = "url = https://api.example.test\n"  # what tokens are for: the port may be another after a restart


class House:
    """A daemon whose session secrets are exchanged while it lives."""

    def __init__(self, make_house, current, previous=(), **kw):
        self.folder, self.base = None, "pool = 0\n" + URL
        self.daemon = make_house(self.base, start=False, **kw)
        self.folder = self.daemon.state.parent
        self.first = self.daemon.config.read_text()
        self.write(current, previous)
        self.daemon.start()

    def write(self, current, previous=()):
        text = self.first
        for secret in filter(None, (current, *previous)):
            file = self.folder / secret.split("-")[0]
            file.write_text(secret + "\n")
            file.chmod(0o600)
        if current:
            text += f"session_secret_file = {self.folder / current.split('-')[0]}\n"
        if previous:
            text += "session_secret_previous = " + " ".join(str(self.folder / p.split("-")[0]) for p in previous) + "\n"
        self.daemon.config.write_text(text)

    def rotate(self, current, previous=(), how="kill_operator"):
        self.write(current, previous)
        getattr(self.daemon, how)()

    def web(self, token=None):
        return Web(address_of(self.daemon), token)

    def works(self, token):
        status = self.web(token).get("/api/auth/whoami").status
        assert status in (200, 401), status
        return status == 200

    def wrapped(self):
        assert harness.until(lambda: self.daemon.client.health()["keys"]["wrapped"]), self.daemon.said()

    def missing(self, box):
        return self.daemon.client.show(sandbox=box)["secrets_missing"]


@pytest.fixture
def house_of(suite):
    made = []

    def make(conf, start=True, **kw):
        made.append(suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{conf}", **kw))
        return made[-1].start() if start else made[-1]
    yield lambda *words, **kw: House(make, *words, **kw)
    for daemon in made:
        daemon.end()
        assert not daemon.left(disks=True), daemon.said()


def sign_in(house):
    return house.web().sign_in(Wallet("alice")).token


def machine(house, token, box):
    made = house.web(token).post("/api/capabilities/tokens", {"verbs": ["show"], "resources": [f"sandbox/{box}"], "expires_in": 3600})
    assert made.status in (200, 201), made
    return made.json["token"]


def create(house, token):
    made = house.web(token).post("/api/sandboxes", {"profile_text": PROFILE, "secrets": BOTH})
    assert made.status == 201, made
    return made.json["id"]


def shows(house, capability, box):
    return house.web(capability).get(f"/api/sandboxes/{box}").status


@pytest.mark.parametrize("how", ["kill_operator", "kill_warden"])
def test_nothing_is_lost(house_of, how):
    house = house_of(A)
    old, ended = sign_in(house), sign_in(house)
    box = create(house, old)
    capability = machine(house, old, box)
    assert house.web(ended).delete("/api/auth/session").status == 200
    first = house.daemon.client.health()["keys"]
    assert first["previous"] == 0 and first["wrapped"]

    house.rotate(B, [A], how)
    keys = house.daemon.client.health()["keys"]
    assert keys["current"] != first["current"] and keys["previous"] == 1
    assert house.works(old) and not house.works(ended), "a session was lost, or one that was ended came back"
    assert shows(house, capability, box) == 200
    assert house.missing(box) == []
    new = sign_in(house)
    assert house.works(new)
    house.wrapped()

    house.rotate(B, (), how)  # the former one is dropped
    assert house.works(new) and not house.works(old)
    assert shows(house, capability, box) == 401
    assert house.missing(box) == [], house.daemon.said()

    house.rotate(C, [B, A], how)  # and again; what the first one made is good once more, since it is here
    assert house.works(new) and house.works(old) and shows(house, capability, box) == 200
    house.wrapped()
    house.rotate(C, (), how)
    assert house.missing(box) == [] and not house.works(new)
    nowhere(house.daemon)
    assert not written(house.daemon, A.encode(), B.encode(), C.encode()), "a session secret is in the state folder or the log"


def test_new_ones_are_made_with_the_new_one(house_of):
    house = house_of(A)
    old = sign_in(house)
    house.rotate(B, [A])
    new = sign_in(house)
    house.rotate(A)  # back, and without the other
    assert house.works(old) and not house.works(new)


def test_dropped_too_early(house_of):
    house = house_of(A)
    old = sign_in(house)
    box = create(house, old)
    house.rotate(B)
    assert not house.works(old)
    shown = house.daemon.client.show(sandbox=box)
    assert shown["secrets_missing"] == ["TOKEN", "OTHER"] and "session_secret_previous" in shown["secrets_hint"]
    assert house.daemon.client.health()["ok"]
    house.rotate(B, [A])
    assert house.works(old) and house.missing(box) == []
    house.wrapped()
    house.rotate(B)
    assert house.missing(box) == []


def test_from_our_own_to_a_configured_one(house_of):
    house = house_of(None)
    old = sign_in(house)
    box = create(house, old)
    house.rotate(A)
    assert house.works(old) and house.missing(box) == []
    house.wrapped()
    (house.daemon.state / "session.secret").unlink()
    house.rotate(A)
    assert not house.works(old) and house.missing(box) == [], house.daemon.said()


def test_of_the_environment(house_of):
    house = house_of(None, env={"SESSION_AUTH_SECRET": A})
    old = sign_in(house)
    box = create(house, old)
    house.daemon.kill_operator()  # the environment is looked at once, and kept
    assert house.works(old) and house.missing(box) == []
    house.daemon.extra["SESSION_AUTH_SECRET"] = B
    house.rotate(None, [A], "kill_warden")
    assert house.works(old) and house.works(sign_in(house)) and house.missing(box) == []
    assert not (house.daemon.state / "session.secret").exists()


def test_a_file_that_cannot_be_read(house_of):
    house = house_of(A)
    old = sign_in(house)
    box = create(house, old)
    house.write(B, [A])
    (house.folder / "second").chmod(0o644)
    house.daemon.kill_operator()
    assert house.works(old) and house.missing(box) == [], "the former one stays in use"
    assert "others could read" in house.daemon.said()
    (house.folder / "second").chmod(0o600)
    (house.folder / "first").chmod(0o644)  # a previous one: the rest goes on
    house.daemon.kill_operator()
    assert not house.works(old) and house.works(sign_in(house)) and house.missing(box) == ["TOKEN", "OTHER"]
    (house.folder / "first").chmod(0o600)
    house.daemon.kill_operator()
    assert house.works(old) and house.missing(box) == []


@pytest.mark.parametrize("same", [[A], [A, A]])
def test_the_same_one_twice(house_of, same):
    house = house_of(A, same)
    token = sign_in(house)
    assert house.daemon.client.health()["keys"]["previous"] == 0 and house.works(token)
