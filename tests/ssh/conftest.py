"""Fixtures: a daemon whose SSH door is open, keys of ssh-keygen, and OpenSSH's clients."""
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "operator")]
import harness  # noqa: E402

OPTIONS = ["BatchMode=yes", "IdentitiesOnly=yes", "LogLevel=ERROR", "ConnectTimeout=10", "PreferredAuthentications=publickey",
           "GlobalKnownHostsFile=/dev/null", "ControlPath=none"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Door:
    """A daemon with an SSH door, and the clients that go through it."""

    def __init__(self, daemon, folder, port):
        self.daemon, self.folder, self.port, self.client = daemon, folder, port, daemon.client
        self.known = folder / "known_hosts"

    def key(self, name, kind="ed25519"):
        path = self.folder / name
        if not path.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"{name}@test", "-f", str(path)], check=True)
        return path

    def public(self, name):
        return self.key(name).with_suffix(".pub").read_text().strip()

    def add(self, sandbox, name="one", **fields):
        return self.client.ask("ssh-key-add", sandbox=sandbox, public_key=self.public(name), **fields)

    def options(self, name, known="accept-new"):
        every = [*OPTIONS, f"UserKnownHostsFile={self.known}", f"StrictHostKeyChecking={known}", f"IdentityFile={self.key(name)}"]
        return [word for option in every for word in ("-o", option)] + ["-F", "none"]

    def words(self, program, *args, key="one", known="accept-new"):
        letter = "-p" if program == "ssh" else "-P"
        return [program, *self.options(key, known), letter, str(self.port), *args]

    def run(self, program, *args, key="one", data=b"", timeout=60, known="accept-new"):
        return subprocess.run(self.words(program, *args, key=key, known=known), input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout * harness.SLOW, check=False)

    def ssh(self, sandbox, *command, **kw):
        return self.run("ssh", f"{sandbox}@127.0.0.1", *command, **kw)

    def start(self, program, *args, key="one", **kw):
        return subprocess.Popen(self.words(program, *args, key=key), **kw)

    def events(self, kind):
        with self.client.call("events") as c:
            c.answer()
            return [event for event in c.events if event["kind"] == kind]

    def sessions(self):
        """The processes that the door has for those who came."""
        door = self.process
        return [pid for pid in harness.pids() if (harness.stat_of(pid) or (0,))[0] == door]

    @property
    def process(self):
        found = self.daemon.children("stockade-ssh")
        return found[0] if found else None


@pytest.fixture(scope="session")
def suite():
    for program in ("ssh", "scp", "sftp", "ssh-keygen"):
        if not shutil.which(program):
            harness.missing(f"there is no {program}")
    made = harness.Suite()
    yield made
    made.remove()


@pytest.fixture(autouse=True)
def patience():
    """A test that waits for something that does not come fails; it does not hold up the rest."""
    def ring(*_):
        raise AssertionError("this test waits for something that does not come")
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 240 * harness.SLOW)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture(scope="module")
def door(suite, tmp_path_factory):
    """One daemon for a file of tests: each makes sandboxes of its own."""
    if os.geteuid() != 0:
        harness.missing("not started by root")
    port = free_port()
    daemon = suite.daemon(conf=f"ssh_listen = 127.0.0.1:{port}\n")
    try:
        daemon.start()
        yield Door(daemon, tmp_path_factory.mktemp("keys"), port)
    finally:
        daemon.end()
    left = daemon.left(disks=True)
    assert not left, f"left behind: {left}\n{daemon.said()}"


@pytest.fixture
def box(door):
    """A sandbox that lets the key `one` in."""
    made = door.client.create(profile="medium")["id"]
    door.add(made)
    yield made
    try:
        door.client.delete(sandbox=made, force=True)
    except harness.Refused:
        pass
