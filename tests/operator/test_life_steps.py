"""Kill -9 at every labelled step of every operation (a test build, -Dknockout=true): whatever was being done is done or undone,
what is asked again is answered, and at the end nothing is left."""
import os
import re
import shutil

import pytest

import harness
from harness import Gone, Refused, until

LABELS = sorted({label for file in (harness.SOURCE / "src/operator").glob("*.c")
                 for label in re.findall(r'\bstep\([^,()]+, "([a-z.-]+)"\)', file.read_text())
                 if not label.startswith("secret.")})  # test_secrets_at_rest.py, test_rotation.py of the API


class Persistent:
    """Asks until there is an answer. Every request is one that may be asked again."""

    def __init__(self, daemon):
        self.daemon, self.lost = daemon, 0

    def __call__(self, verb, **fields):
        for _ in range(5):
            try:
                with self.daemon.client.call(verb, **fields) as c:
                    return c.answer(), bytes(c.out)
            except Gone:
                self.lost += 1
                assert self.daemon.wait(15), self.daemon.said()
        raise AssertionError(f"{verb} is never answered: {self.daemon.said()}")

    def state(self, box, state):
        assert until(lambda: self("show", sandbox=box)[0]["state"] == state), self("show", sandbox=box)[0]


def test_there_are_labels():
    assert len(LABELS) > 30, LABELS
    for operation in ("create", "stop", "resume", "pause", "unpause", "delete", "snapshot", "rollback", "quarantine", "exec"):
        assert any(label.startswith(operation + ".") for label in LABELS), operation


@pytest.mark.long
@pytest.mark.parametrize("label", LABELS)
def test_killed_at(make_daemon, label):
    if not harness.is_test_build():
        pytest.skip("not a test build (meson -Dknockout=true)")
    daemon = make_daemon(conf="pool = 0\n", env={"STOCKADE_STEP": label})
    ask = Persistent(daemon)
    box = ask("create", profile="medium", name="box", key="create")[0]["id"]

    def sh(where, script, key):
        return ask("exec", sandbox=where, argv=["/bin/sh", "-c", script], key=key)

    run, _ = sh("box", "echo one >>~/f; sync", "write-1")
    assert run["exit_code"] == 0, run
    for verb, state in (("pause", "paused"), ("unpause", "running")):
        ask(verb, sandbox=box)
        ask.state(box, state)
    live = ask("snapshot", sandbox=box, key="snapshot-live")[0]
    sh("box", "echo two >>~/f; sync", "write-2")
    ask("stop", sandbox=box)
    ask.state(box, "stopped")
    still = ask("snapshot", sandbox=box, key="snapshot-stopped")[0]
    ask("resume", sandbox=box)
    ask.state(box, "running")
    assert sh("box", "cat ~/f", "read-1")[1] == b"one\ntwo\n"
    assert ask("rollback", sandbox=box, snapshot=live["id"], key="rollback")[0]["state"] == "running"
    assert sh("box", "cat ~/f", "read-2")[1] == b"one\n"
    fork = ask("create", snapshot=still["id"], name="fork", key="fork")[0]["id"]
    assert sh("fork", "cat ~/f", "read-3")[1] == b"one\ntwo\n"
    copy = ask("fork", sandbox=box, name="copy", key="copy")[0]["id"]
    assert sh("copy", "cat ~/f", "read-4")[1] == b"one\n"
    ask("delete", sandbox=copy, force=True)
    before = set(os.listdir(daemon.state / "disks"))
    young = ask("create", profile="medium", name="young", key="young")[0]["id"]
    ask("stop", sandbox=young)
    ask.state(young, "stopped")
    place, = set(os.listdir(daemon.state / "disks")) - before
    shutil.rmtree(daemon.state / "disks" / place)  # as a loss of power may
    ask("resume", sandbox=young)
    ask.state(young, "running")
    ask("delete", sandbox=young, force=True)
    held = ask("quarantine", sandbox=fork)[0]
    assert held["state"] == "quarantined"
    assert until(lambda: all(s["state"] == "ready" for s in ask("snapshots")[0]["snapshots"]))
    assert len(ask("snapshots")[0]["snapshots"]) == 3, ask("snapshots")[0]
    assert sorted(s["name"] for s in ask("list")[0]["sandboxes"]) == ["box", "fork"]
    for name in (box, fork):
        ask("delete", sandbox=name, force=True)
    for snap in ask("snapshots")[0]["snapshots"]:
        try:
            ask("snapshot-delete", snapshot=snap["id"])
        except Refused as e:
            assert e.code == "not_found" and ask.lost, e
    assert ask("list")[0]["sandboxes"] == []
    assert until(lambda: ask("health")[0]["used"] == {"sandboxes": 0, "memory": 0, "cpus": 0, "disk": 0}), ask("health")
    assert until(lambda: os.listdir(daemon.state / "disks") == []), os.listdir(daemon.state / "disks")
    assert ask.lost >= 1, f"nothing passes {label}: what is it for?"
