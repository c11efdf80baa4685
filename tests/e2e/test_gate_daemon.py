"""TLS that the gate opens, in sandboxes of the daemon: the authority that a sandbox trusts is its own, its value is put in
outside, and both outlive whatever of ours dies."""
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from world import by_root

VALUE = "s3cr3t-VALUE-of-a-sandbox-that-lives"
RULES = """profile: 1
name: keyed
extends: medium
secrets: [API_TOKEN]
network:
  allow:
    - {host: api.example.test, methods: [GET], paths: ["/v1/*"], secret: API_TOKEN}
    - {host: www.example.test, inspect: true}
    - {host: files.example.test}
"""
CURL = "curl -sS -m 30 -o /dev/null -w '%{http_code}\\n' "


class Daemon:
    """`stockade up` in the world's host, and its verbs."""

    def __init__(self, net, conf):
        self.net, self.who = net, net.who
        self.folder = net.who.folder("daemon")
        self.state = self.folder / "state"
        self.socket = self.state / "run/operator.sock"
        for name, text in (("conf", f"listen = none\n{conf}"), ("keyed.yaml", RULES)):
            (self.folder / name).write_text(text)
            os.chown(self.folder / name, self.who.uid, self.who.gid)
        self.log = open(self.folder / "log", "wb")  # pylint: disable=consider-using-with
        self.up()

    def up(self):
        self.process = self.popen("up", "--state", self.state, "--config", self.folder / "conf", stdout=self.log, stderr=self.log)
        assert harness.until(lambda: self("health").status == 0), self.said()

    def popen(self, *words, **kw):
        return self.who.popen([self.who.suite.launcher, *words], first=self.net.world.enter_host,
                              stdin=subprocess.DEVNULL, **kw)

    def __call__(self, verb, *words, env=None):
        process = self.popen(verb, "--socket", self.socket, *words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        result = harness.finish(process)
        assert VALUE not in result.text + result.errors, "the value came out"
        return result

    def create(self, name, *words):
        return json.loads(self("create", "--json", "--profile", self.folder / "keyed.yaml", "--secret", "API_TOKEN", "--name", name,
                               *words, env={"API_TOKEN": VALUE}).ok())

    def sh(self, name, script):
        return self("exec", name, "--", "/bin/sh", "-c", script)

    def said(self):
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def parts(self, name):
        """Children of the warden with this name."""
        found = []
        for child in Path(f"/proc/{self.warden}/task/{self.warden}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().startswith(name[:15]):
                found.append(int(child))
        return found

    @property
    def warden(self):
        """`stockade up` becomes it, or starts it."""
        if Path(f"/proc/{self.process.pid}/comm").read_text().startswith("stockaded"):
            return self.process.pid
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(c) for c in children if Path(f"/proc/{c}/comm").read_text().startswith("stockaded"))

    def kill(self, part):
        old = self.parts(part)
        assert old, f"there is no {part}"
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        assert harness.until(lambda: set(self.parts(part)) - set(old)), f"no new {part}: {self.said()}"

    def end(self):
        self("down", "--stop-sandboxes")
        try:
            self.process.wait(20 * harness.SLOW)
        finally:
            harness.stop(self.process)
            self.log.close()


@pytest.fixture
def daemon(net):
    """daemon(conf): one of them; it ends with the test."""
    made = []

    def make(conf="pool = 0\n"):
        made.append(Daemon(net, conf))
        return made[-1]
    yield make
    for one in made:
        one.end()


def tokens(net):
    return [e["headers"].get("authorization") for e in net.seen.requests(path="/v1/a")]


def asks(d, name, count=1):
    """With its placeholder, to the host that gets the value."""
    script = CURL + '-H "Authorization: Bearer $API_TOKEN" https://api.example.test/v1/a'
    return d.sh(name, "; ".join([script] * count))


def test_inspected_and_with_a_secret(net, daemon):
    d = daemon("pool = 2\n")
    for name in ("one", "two", "three"):  # none of them from the pool: what it trusts is made with it
        made = d.create(name)
        assert made["network"] and made["secrets_missing"] == [] and not made["from_pool"]
    assert asks(d, "two").ok() == "200\n"
    assert tokens(net) == [f"Bearer {VALUE}"]
    inside = d.sh("two", "echo $API_TOKEN; env").ok()
    assert inside.startswith("stockade-secret-")
    # only what a rule has opened is seen to be so, and each sandbox has an authority of its own
    issuer = "curl -sv -m 30 -o /dev/null https://{}/ 2>&1 | sed -n 's/^.*issuer: //p'"
    relayed = d.sh("two", issuer.format("files.example.test")).ok()
    opened = [d.sh(name, issuer.format("www.example.test")).ok() for name in ("one", "two")]
    assert "test-world-authority" in relayed and all(o.strip() and "test-world-authority" not in o for o in opened)
    other = d.sh("one", "cat $SSL_CERT_FILE | sha256sum").ok(), d.sh("two", "cat $SSL_CERT_FILE | sha256sum").ok()
    assert other[0] != other[1], "the same authority in two sandboxes"


def test_what_the_rules_do_not_allow(net, daemon):
    d = daemon()
    d.create("box")
    for words in ("https://api.example.test/v2/a", "-X POST https://api.example.test/v1/a", "https://evil.test/"):
        result = d.sh("box", CURL + words)
        assert result.text.strip() in ("403", "000"), (words, result)
    assert net.seen.requests() == []
    events = [json.loads(line) for line in d("events", "--json", "box").ok().splitlines()]
    assert len([e for e in events if e["kind"] == "net.deny"]) >= 3
    assert VALUE not in json.dumps(events)


def test_it_outlives_the_gate_and_the_operator(net, daemon):
    d = daemon()
    d.create("box")
    assert asks(d, "box").ok() == "200\n"
    d.kill("stockade-gate")
    assert harness.until(lambda: asks(d, "box").text == "200\n"), (asks(d, "box"), d.said())
    d.kill("stockade-operator")
    assert harness.until(lambda: d("health").status == 0), d.said()
    assert harness.until(lambda: d.sh("box", CURL + "https://www.example.test/").text == "200\n"), d.said()
    assert json.loads(d("show", "--json", "box").ok())["secrets_missing"] == []
    before = len(tokens(net))
    assert harness.until(lambda: asks(d, "box").text == "200\n"), (asks(d, "box"), d.said())
    assert set(tokens(net)[before:]) <= {f"Bearer {VALUE}", None} and tokens(net)[-1] == f"Bearer {VALUE}"


def test_it_outlives_the_daemon(net, daemon):
    """The value is given once: it is put in again after `down` and `up`, and after everything was killed."""
    d = daemon()
    d.create("box")
    assert asks(d, "box").ok() == "200\n"
    for killed in (False, True):
        if killed:
            for pid in (d.warden, *d.parts("stockade-operator"), *d.parts("stockade-gate")):
                os.kill(pid, signal.SIGKILL)
        else:
            d("down").ok()
        d.process.wait(30 * harness.SLOW)
        d.up()
        before = len(tokens(net))
        assert harness.until(lambda: asks(d, "box").text == "200\n"), (asks(d, "box"), d.said())
        assert set(tokens(net)[before:]) <= {f"Bearer {VALUE}", None} and tokens(net)[-1] == f"Bearer {VALUE}"


@by_root
def test_stopped_resumed_forked(net, daemon):
    d = daemon()
    d.create("box")
    d("stop", "box").ok()
    d("resume", "box").ok()
    assert asks(d, "box").ok() == "200\n"
    d("snapshot", "box", "--name", "s").ok()
    refused = d("fork", "s", "--name", "none")
    assert refused.status == 125 and "API_TOKEN" in refused.errors, "a fork has no secrets of its origin"
    other = VALUE[::-1]
    d("fork", "s", "--name", "copy", "--secret", "API_TOKEN", env={"API_TOKEN": other}).ok()
    assert asks(d, "copy").ok() == "200\n"
    assert tokens(net) == [f"Bearer {VALUE}", f"Bearer {other}"]
    placeholders = [d.sh(name, "echo $API_TOKEN").ok() for name in ("box", "copy")]
    assert placeholders[0] != placeholders[1]
