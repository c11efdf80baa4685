"""`evidence`, `owners`, and `fork` of a sandbox: on the host and from afar, with a real daemon; and what they say when it cannot be."""
import json
import os
import re
import subprocess

import pytest

from conftest import Client
from test_remote import ALICE, BOB, RATES, Away, harness, suite  # noqa: F401  pylint: disable=unused-import


class Here(Client):
    """Root on the host itself."""

    def __init__(self, daemon, folder):
        super().__init__(str(daemon.socket), folder)
        self.program = str(daemon.programs.stockade)
        folder.mkdir()


@pytest.fixture(scope="module")
def daemon(suite):  # noqa: F811
    made = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = {BOB.address.lower()}\noperators = {ALICE.address.lower()}\n{RATES}").start()
    yield made
    made.end()
    said = made.log.read_text(errors="replace")
    assert not any(word in said for word in ("runtime error", "AddressSanitizer", "was ended by signal 6", "was ended by signal 11")), said[-5000:]


@pytest.fixture(scope="module", params=["here", "afar"])
def who(request, suite, daemon):  # noqa: F811
    """Root at the socket, or an operator with a wallet elsewhere; with a sandbox of one's own."""
    folder = suite.folder / f"verbs-{request.param}"
    made = Here(daemon, folder) if request.param == "here" else Away(daemon, folder, ALICE).login()
    made.run("create", "--name", "box", "--profile", "medium").ok()
    yield made
    made.run("delete", "--force", "box").ok()


def verified(who, daemon, file):  # noqa: F811
    done = subprocess.run([daemon.programs.stockade, "ledger", "verify", "--json", file], cwd=who.cwd, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def whole(who, *words):
    """Evidence whose last events are signed: the next checkpoint is some seconds away."""
    done = None

    def ask():
        nonlocal done
        done = who.run("evidence", *words)
        assert done.status == 0 or (done.status == 1 and "under no signature" in done.errors), done
        return done.status == 0
    assert harness.until(ask, step=0.2), done
    return done


def test_evidence(who, daemon):
    who.run("exec", "box", "true").ok()
    who.run("exec", "box", "sh", "-c", "exit 3")
    box = json.loads(who.run("show", "box", "--json").ok())["id"]
    file = who.cwd / "all.json"
    whole(who, "box", "-o", "all.json", "--force")
    assert os.stat(file).st_mode & 0o777 == 0o600 and verified(who, daemon, "all.json")["holds"] is True
    kinds = [json.loads(event)["kind"] for part in json.loads(file.read_text())["intervals"] for event in part["events"]]
    assert "sandbox.create" in kinds and kinds.count("run.start") >= 2, kinds
    again = who.run("evidence", "box", "-o", "all.json")
    assert again.status == 125 and "all.json" in again.errors, again
    said = json.loads(whole(who, box, "--run", 2, "-o", "run.json", "--force", "--json").out)
    assert said["unsigned_events"] == 0 and said["bytes"] == (who.cwd / "run.json").stat().st_size, said
    assert verified(who, daemon, "run.json")["holds"] is True
    assert (who.cwd / "run.json").stat().st_size < file.stat().st_size
    assert json.loads(whole(who, "box").out)["intervals"]  # to standard output
    for words in (("none",), ("box", "--run", "0"), ("box", "--run", "x"), (), ("box", "--run", "4000000")):
        done = who.run("evidence", *words, "-o", "not.json")
        assert done.status == 125 and done.errors and not (who.cwd / "not.json").exists(), done


def test_owners(who, daemon, suite):  # noqa: F811
    name = "uid:0" if isinstance(who, Here) else ALICE.owner
    found = {row["owner"]: row for row in json.loads(who.run("owners", "--json").ok())["owners"]}
    assert found[name]["sandboxes"] >= 1 and found[name]["running"] >= 1
    lines = who.run("owners").ok().splitlines()
    assert re.match(r"OWNER +SANDBOXES +RUNNING +MEMORY +CPUS +DISK +LOGS +SNAPSHOTS +IMAGES$", lines[0]) and len(lines) == 1 + len(found)
    assert any(line.split()[:2] == [name, str(found[name]["sandboxes"])] for line in lines)
    assert sorted(who.run("owners", "-q").ok().split()) == sorted(found)
    suite.count += 1
    bob = Away(daemon, suite.folder / f"bob-{suite.count}", BOB).login()  # no operator
    done = bob.run("owners")
    assert done.status == 125 and not done.out and done.errors, done


def test_fork_of_a_sandbox(who):
    who.run("exec", "box", "sh", "-c", "echo first > /home/agent/a; sync").ok()
    made = who.run("fork", "box", "--name", "twin", "--key", "once").ok().strip()
    assert who.run("fork", "box", "--name", "twin", "--key", "once").ok().strip() == made
    assert who.run("exec", "twin", "cat", "/home/agent/a").ok() == "first\n"
    who.run("exec", "twin", "sh", "-c", "echo second > /home/agent/a").ok()
    assert who.run("exec", "box", "cat", "/home/agent/a").ok() == "first\n"
    assert "twin" not in who.run("snapshots").ok() and len(who.run("snapshots").ok().splitlines()) <= 1, "a fork leaves no snapshot"
    # a name that both have means the snapshot, as before
    snapshot = who.run("snapshot", "box", "--name", "twin").ok().strip()
    who.run("exec", "box", "sh", "-c", "rm /home/agent/a; sync").ok()
    who.run("fork", "twin", "--name", "third").ok()
    assert who.run("exec", "third", "cat", "/home/agent/a").ok() == "first\n"
    words = who.run("completion", "--words", "--", "fork", "").ok()
    assert {"box", "twin", "third"} <= {line.split("\t")[0] for line in words.splitlines()}
    who.run("delete", "--force", "twin", "third").ok()
    who.run("snapshot", "--delete", snapshot).ok()


def test_fork_of_nothing(who):
    done = who.run("fork", "nobody")
    assert done.status == 125 and "no snapshot and no sandbox 'nobody'" in done.errors and "stockade list" in done.errors, done
    done = who.run("fork", "nobody", "--json")
    assert done.status == 125 and json.loads(done.err)["error"]["code"] == "not_found", done
    done = who.run("fork", "box", "--secret", "TOKEN", env={"TOKEN": "x" * 20})
    assert done.status == 125 and "stockade snapshot box" in done.errors, done
    assert len(json.loads(who.run("list", "--json").ok())["sandboxes"]) == 1
