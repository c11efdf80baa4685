"""Somebody whose daemon is elsewhere, and the server there (far.py): fixtures of the tests of `stockade --server`."""
import os
import sys
import time

import pytest

import far
from conftest import SOURCE, Client

sys.path.insert(0, str(SOURCE / "tests/api"))
from wallet import Wallet  # noqa: E402

ALICE = Wallet("alice")
PIDFD_GETFD = 438


class Away(Client):
    """Somebody whose daemon is elsewhere."""

    def __init__(self, server, cwd):
        super().__init__("/none", cwd)
        self.server, self.state, self.private = server, cwd.parent / "state", cwd.parent
        self.kept = self.state / "stockade/remote"

    def environment(self, extra=None):
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.cwd), "TERM": "xterm", "LANG": "C.UTF-8", "XDG_STATE_HOME": str(self.state),
                "STOCKADE_SERVER": self.server.url, **(extra or {})}

    def key(self, text=None, name="key", mode=0o600):
        path = self.private / name
        path.write_text(text if text is not None else f"{ALICE.key:064x}\n")
        path.chmod(mode)
        return path

    def login(self, *more):
        return self.run("login", "--key", self.key(), *more)

    @property
    def session(self):
        return self.kept / f"{self.server.url.replace('://', '-').replace(':', '-')}.json"


@pytest.fixture(scope="session")
def papers(tmp_path_factory):
    return far.certificates(tmp_path_factory.mktemp("papers"))


@pytest.fixture(params=["http", "tls"])
def server(request, operator, papers):
    made = far.Server(operator, papers if request.param == "tls" else None)
    yield made
    made.close()
    assert not made.failures, made.failures


@pytest.fixture
def stranger(server, tmp_path):
    """Not signed in."""
    home = tmp_path / "home"
    home.mkdir()
    return Away(server, home)


@pytest.fixture
def client(stranger, papers):
    stranger.login("--ca", papers[0]).ok()
    stranger.server.seen.clear()
    return stranger


@pytest.fixture
def run(client):
    return client.run


def helpers(word):
    """Processes that speak with this server."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as command:
                words = command.read().split(b"\0")
        except OSError:
            continue
        if word.encode() in words and b"connect" in words:
            found.append(int(pid))
    return found


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def memory(word):
    """Of all that have this word among their arguments, in bytes."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/statm") as pages:
                total += int(pages.read().split()[1]) * 4096 if word.encode() in command.read() else 0
        except OSError:
            pass
    return total


def until_quiet(count):
    """Once it has begun, until it has not changed for a second; what it is then."""
    wait_for(lambda: count() > 0)
    last, since = count(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        if count() != last:
            last, since = count(), time.monotonic()
    return last
