"""Networks of sandboxes that live: through their owner's gate, before and after a restart, changed and cut while they run."""
import os
import socket
import subprocess
import threading

import pytest

import harness
from harness import Refused, until

ASK = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); s.sendall(bytes(3) + b'hello'); print(s.recv(100).decode())"


class Echo:
    """A server on an address of this host that is not loopback; what goes there does not leave the host."""

    def __init__(self):
        found = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
        found = [a for a in found if "." in a]
        if not found:
            harness.missing("this host has no address beside loopback")
        self.listener = socket.create_server((found[0], 0))
        self.address, self.port = self.listener.getsockname()
        self.heard = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                data = peer.recv(100)
                self.heard.append(data)
                peer.sendall(b"heard " + data[3:])

    @property
    def rule(self):
        return f"{{cidr: {self.address}/32, ports: [{self.port}], private: true}}"

    def profile(self, rules=None):
        return f"profile: 1\nname: net\nextends: medium\nnetwork: {{allow: [{self.rule if rules is None else rules}]}}\n"


@pytest.fixture
def echo():
    made = Echo()
    yield made
    made.listener.close()


def ask(client, box, echo):
    return client.run(box, "/usr/bin/python3", "-c", ASK, echo.address, str(echo.port))


@pytest.mark.parametrize("pool", [0, 2])
def test_the_network_and_its_rules(make_daemon, echo, pool):
    daemon = make_daemon(conf=f"pool = {pool}\n")
    client = daemon.client
    none = client.create(profile="medium")["id"]
    assert ask(client, none, echo)["exit_code"] != 0 and echo.heard == []
    for turn in range(2):
        box = client.create(profile_text=echo.profile())
        assert box["network"] and (turn == 0 or box["from_pool"] == (pool > 0))
        run = ask(client, box["id"], echo)
        assert run["out"] == b"heard hello\n", run
        assert pool == 0 or until(lambda: client.health()["pool"] == 4)
    box = box["id"]
    for kill in ("kill_operator", "kill_warden", "kill_all"):
        getattr(daemon, kill)()
        assert until(lambda: ask(client, box, echo)["out"] == b"heard hello\n"), (kill, ask(client, box, echo), daemon.said())
    heard = len(echo.heard)
    client.policy(sandbox=box, allow=[])
    assert ask(client, box, echo)["exit_code"] != 0 and len(echo.heard) == heard
    assert until(lambda: "net.deny" in kinds(client, box))


def kinds(client, box):
    with client.call("events", sandbox=box) as c:
        c.answer()
        return [e["kind"] for e in c.events]


def test_a_gate_that_dies_is_replaced(make_daemon, echo):
    daemon = make_daemon(conf="pool = 0\n")
    client = daemon.client
    box = client.create(profile_text=echo.profile())["id"]
    assert ask(client, box, echo)["exit_code"] == 0
    assert len(daemon.gates) == 1
    os.kill(daemon.gates[0], 9)
    assert until(lambda: ask(client, box, echo)["out"] == b"heard hello\n")
    client.stop(sandbox=box)
    client.resume(sandbox=box)
    assert ask(client, box, echo)["out"] == b"heard hello\n"


def test_quarantine_cuts_the_network(make_daemon, echo):
    client = make_daemon(conf="pool = 0\n").client
    box = client.create(profile_text=echo.profile())["id"]
    loop = ASK.replace("print", "0 and print")
    client.ask("exec", sandbox=box, argv=["/bin/sh", "-c", f"while :; do python3 -c \"{loop}\" {echo.address} {echo.port}; done"], detach=True)
    assert until(lambda: len(echo.heard) > 3)
    client.quarantine(sandbox=box)
    seen = [-1]

    def silent():  # but for what was on its way
        seen.append(len(echo.heard))
        return seen[-1] == seen[-2]
    assert until(silent, step=1), seen


def test_rules_that_the_start_did_not_expect(make_daemon, echo):
    client = make_daemon(conf="pool = 0\n").client
    box = client.create(profile="medium")["id"]
    with pytest.raises(Refused) as e:
        client.policy(sandbox=box, allow=["example.com"])
    assert e.value.code == "conflict" and "stop" in e.value.hint
    client.stop(sandbox=box)
    assert client.policy(sandbox=box, allow=["example.com"])["network"]
    assert "example.com" in client.show(sandbox=box)["policy"]
    assert client.resume(sandbox=box)["state"] == "running"


def test_secrets_are_asked_for_and_never_shown(make_daemon):
    daemon = make_daemon(conf="pool = 0\n")
    client = daemon.client
    profile = ("profile: 1\nname: keyed\nextends: medium\nsecrets: [TOKEN]\n"
               "network: {allow: [{host: api.example.com, secret: TOKEN}]}\n")
    with pytest.raises(Refused) as e:
        client.create(profile_text=profile)
    assert e.value.code == "bad_request" and "TOKEN" in e.value.message
    value = "s3cret-value-that-nobody-sees"
    box = client.create(profile_text=profile, secrets={"TOKEN": value}, key="with-a-secret")["id"]
    inside = client.sh(box, "echo $TOKEN; cat /proc/1/environ | tr '\\0' '\\n'")["out"]
    assert value.encode() not in inside and inside.startswith(b"stockade-secret-")
    assert client.show(sandbox=box)["secrets_missing"] == []
    daemon.kill_operator()
    assert client.show(sandbox=box)["secrets_missing"] == []
    client.secret_wipe(sandbox=box)
    assert client.show(sandbox=box)["secrets_missing"] == ["TOKEN"]
    assert client.sh(box, "echo $TOKEN")["out"] == inside.splitlines()[0] + b"\n"
    client.secret(sandbox=box, secrets={"TOKEN": value})
    assert client.show(sandbox=box)["secrets_missing"] == []
    with pytest.raises(Refused):
        client.secret(sandbox=box, secrets={"OTHER": value})
    for folder, _, files in os.walk(daemon.state / "operator"):
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                assert value.encode() not in f.read(), name
    assert value not in daemon.said()
