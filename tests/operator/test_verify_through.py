"""Every check of `stockade verify`, made in sandboxes that live: through exec into one that runs, into one from the pool,
and into a fork.

The judge, its attempts and its view of the host are those of `stockade verify`; only what starts a sandbox is through.py,
which asks a daemon that lives in the judge's world. Nothing may be open. What cannot be tried in this way is listed here,
each with its reason; anything else that was not tried is a failure, too.
"""
import json
import subprocess

import pytest

import harness

pytestmark = [pytest.mark.long, pytest.mark.leaves]

WORKSPACE = "copies a folder of the host and brings changes back: `stockade run` does that, and the daemon does not"
UNTRIED = {
    "workspace-poison": WORKSPACE,
    "workspace-discard": WORKSPACE,
    "workspace-symlink": WORKSPACE,
    "workspace-special": WORKSPACE,
    "message-escapes": "begins with a list of changes in a workspace; tests/cli has a hostile operator instead",
    "share-clean": "no folder of the host can be shared as writable with a sandbox of the daemon",
    "own-folders": "for the same reason there is no folder that could be refused and another that is not",
    "limit-missing": "the refusal is there; its control is --accept-missing, which the daemon does not know",
    "gate-live": "the daemon follows no file: `stockade policy` changes the rules (test_life_network.py)",
}
# Of the pool alone: prepared sandboxes of other kinds come and go all the time. That nothing is left is asked at the end.
RESTLESS = {"host-unchanged", "killed-starting", "killed-running"}

FULL = [("exec", "low"), ("pool", "low"), ("fork", "medium")]  # low has its files in memory: there is nothing to fork
QUICK = [("exec", "medium"), ("pool", "medium")]
SECONDS = 240


class Judged:
    """One judge with its daemon, on a folder of its own."""

    def __init__(self, suite, way, profile, quick):
        self.way, self.profile, self.quick = way, profile, quick
        self.daemon = suite.daemon()
        self.folder = self.daemon.state.parent
        self.programs = suite.programs
        (self.folder / "stockade").symlink_to(self.programs.stockade)
        self.through = ["/usr/bin/python3", str(harness.SOURCE / "tests/operator/through.py"), way, str(self.folder)]
        launcher = self.folder / "launcher"
        words = " ".join(f"'{word}'" for word in self.through)
        launcher.write_text(f"#!/bin/sh\nexec 9<&0\nexec {words} \"$@\" </dev/null\n")
        launcher.chmod(0o755)
        self.launcher, self.process, self.report = launcher, None, None

    def names(self):
        """What is asked for: all, or what is quick; of the pool without what cannot hold still there."""
        listed = subprocess.run([self.programs.stockade, "verify", "--list", "--json"], capture_output=True, text=True)
        return ",".join(check["name"] for check in json.loads(listed.stdout)
                        if (check["quick"] or not self.quick) and not (self.way == "pool" and check["name"] in RESTLESS))

    def start(self):
        with open(self.folder / "report", "wb") as out, open(self.folder / "said", "wb") as err:
            self.process = subprocess.Popen(
                [self.programs.stockade_verify, self.launcher, "--json", "--profile", self.profile, "--only", self.names()],
                stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"})

    def finish(self):
        """The report, and nothing of the daemon goes on, however the judge ended."""
        try:
            self.status = self.process.wait(SECONDS * harness.SLOW)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # its supervisor clears away
            self.status = self.process.wait()
        down = subprocess.run([*self.through, "down"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.left = self.daemon.left(disks=True)
        self.daemon.end()
        self.said = (self.folder / "said").read_text() + down.stderr + (self.folder / "log").read_text()[-2000:]
        try:
            self.report = json.loads((self.folder / "report").read_text())
        except ValueError:
            return
        self.checks = {check["name"]: check for group in self.report["groups"] for check in group["checks"]}

    def made(self):
        return [json.loads(line) for line in (self.folder / "made").read_text().splitlines()]

    def of(self, *verdicts):
        """Names of the checks with one of these verdicts, each with the judge's words."""
        return {name: f"{c['verdict']}: {c.get('why') or ''} {c.get('seen') or ''} {c.get('said') or ''}"[:400]
                for name, c in self.checks.items() if c["verdict"] in verdicts}


@pytest.fixture(scope="module")
def judges(suite):
    """All of them, a few at the same time; most of what they do is to wait."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    judges = {}
    for quick, group in ((False, FULL), (True, QUICK)):
        started = [Judged(suite, way, profile, quick) for way, profile in group]
        try:
            for judge in started:
                judge.start()
        finally:
            for judge in started:
                if judge.process:
                    judge.finish()
        judges.update({(judge.way, judge.profile): judge for judge in started})
    return judges


@pytest.fixture(params=FULL + QUICK, ids="-".join)
def judge(request, judges):
    judge = judges[request.param]
    assert judge.report, f"no report, status {judge.status}: {judge.said}"
    return judge


def test_nothing_is_open(judge):
    assert judge.of("open") == {}


def test_everything_was_tried(judge):
    untried = judge.of("untried", "pending")
    assert {name: words for name, words in untried.items() if name not in UNTRIED} == {}
    if not judge.quick:
        assert set(UNTRIED) == set(untried), "what can be tried now is listed as if it could not be"
    tried = len(judge.checks) - len(untried)
    assert tried >= (250 if judge.quick else 315), f"only {tried} checks were tried"


def test_the_judge_is_content(judge):
    """Its own summary says the same: the probe came to its end and the host is as it was."""
    if judge.way != "pool":
        assert judge.status == 0 and judge.report["good"], judge.said


def test_sandboxes_came_to_be_as_they_should(judge):
    made = judge.made()
    assert len(made) > 20
    if judge.way == "exec":
        assert not [box for box in made if box["from_pool"] or box["origin"]]
    elif judge.way == "pool":
        pooled = [box for box in made if box["from_pool"]]
        assert len(pooled) >= 0.9 * len(made), f"{len(pooled)} of {len(made)} came from the pool"
    else:
        assert all(box["origin"] and box["persistent"] for box in made)


def test_nothing_is_left(judge):
    assert judge.left == {}
