"""The life of sandboxes: create, use, pause, stop, resume, delete; who may what; what is refused, and in which words."""
import json
import os
import shutil
import threading
import time

import pytest

import harness
from harness import Refused, until

DISK = {"profile": "medium"}
MEMORY = {"profile": "low"}


def refused(code, call, *args, **fields):
    with pytest.raises(Refused) as caught:
        call(*args, **fields)
    assert caught.value.code == code, caught.value
    assert caught.value.message
    return caught.value


def test_a_sandbox_lives(client):
    made = client.create(**MEMORY, name="first")
    assert made["state"] == "running" and made["owner"] == "uid:0" and made["profile"] == "low" and not made["persistent"]
    assert client.sh("first", "echo $((6 * 7))")["out"] == b"42\n"
    assert client.show(sandbox="first")["id"] == made["id"]
    assert [s["id"] for s in client.list()["sandboxes"]] == [made["id"]]
    assert client.pause(sandbox="first")["state"] == "paused"
    assert client.unpause(sandbox="first")["state"] == "running"
    stopped = client.stop(sandbox="first")
    assert stopped["state"] == "stopped" and stopped["reason"] == "stopped" and stopped["ended_ms"] > 0
    resumed = client.resume(sandbox="first")
    assert resumed["state"] == "running" and resumed["starts"] == 2
    assert client.sh("first", "echo again")["out"] == b"again\n"
    assert client.delete(sandbox="first", force=True) == {}
    assert client.list()["sandboxes"] == []


def test_asking_again_is_fine(client):
    box = client.create(**MEMORY)["id"]
    for verb, state in (("pause", "paused"), ("unpause", "running"), ("stop", "stopped"), ("resume", "running")):
        for _ in range(3):
            assert getattr(client, verb)(sandbox=box)["state"] == state
    for _ in range(3):
        assert client.delete(sandbox=box, force=True) == {}


def test_what_a_state_does_not_allow_is_a_conflict(client):
    box = client.create(**MEMORY, name="strict")["id"]
    error = refused("conflict", client.delete, sandbox=box)
    assert "running" in error.message and "force" in error.hint
    client.pause(sandbox=box)
    error = refused("conflict", client.sh, box, "true")
    assert "paused" in error.message and "unpause" in error.hint
    refused("conflict", client.resume, sandbox=box)
    refused("conflict", client.ls, sandbox=box, path="/")
    client.unpause(sandbox=box)
    client.stop(sandbox=box)
    for verb in ("pause", "unpause"):
        error = refused("conflict", getattr(client, verb), sandbox=box)
        assert "stopped" in error.message and "resume" in error.hint
    refused("conflict", client.sh, box, "true")
    client.delete(sandbox=box)
    refused("not_found", client.resume, sandbox=box)
    refused("not_found", client.show, sandbox="strict")


def test_files_on_a_disk_outlive_a_stop_and_memory_does_not(client):
    kept, lost = client.create(**DISK), client.create(**DISK, memory_only=True)
    assert kept["persistent"] and kept["disk"]["size"] == 1 << 30 and not lost["persistent"] and lost["disk"] is None
    for box in (kept["id"], lost["id"]):
        assert client.sh(box, "echo word >/home/agent/f && cat /home/agent/f")["out"] == b"word\n"
        client.stop(sandbox=box)
        client.resume(sandbox=box)
    assert client.sh(kept["id"], "cat /home/agent/f")["out"] == b"word\n"
    assert client.sh(lost["id"], "cat /home/agent/f")["exit_code"] == 1


def test_a_paused_sandbox_does_nothing(client):
    box = client.create(**MEMORY)["id"]
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "while :; do echo x; sleep 0.01; done"]) as c:
        c.until_out(b"x\nx\nx\n")
        client.pause(sandbox=box)
        seen = [-1]

        def still():  # but for what was on its way
            run = client.runs(sandbox=box)["runs"][0]
            assert run["state"] == "running"
            seen.append(run["out_bytes"])
            return seen[-1] == seen[-2]
        assert until(still, step=0.5), seen
        first = seen[-1]
        client.unpause(sandbox=box)
        assert until(lambda: client.runs(sandbox=box)["runs"][0]["out_bytes"] > first + 6)


def test_bad_input_is_named(client):
    error = refused("bad_request", client.create, profile="low", nmae="x")
    assert "nmae" in error.message and "name" in error.hint
    refused("bad_request", client.create, name="x" * 10000)
    refused("bad_request", client.create, name="0123456789abcdef")
    refused("bad_request", client.create, name="../x")
    refused("bad_request", client.create, profile="/etc/shadow")
    refused("bad_request", client.create, profile="low", set={"limits.memory": "much"})
    refused("bad_request", client.create, profile="low", set={"nothing.at.all": "1"})
    refused("bad_request", client.create, profile=5)
    refused("bad_request", client.create, profile=None)
    refused("bad_request", client.exec, sandbox="x" * 100, argv=["/bin/true"])
    refused("bad_request", client.pause)
    refused("bad_request", client.ask, "no-such-verb")
    refused("not_found", client.show, sandbox="0123456789abcdef")
    refused("not_found", client.show, sandbox="nobody")
    refused("not_found", client.create, snapshot="0123456789abcdef")
    refused("not_found", client.delete, sandbox="0123456789abcdef")
    box = client.create(**MEMORY)["id"]
    refused("bad_request", client.exec, sandbox=box, argv=[])
    refused("bad_request", client.exec, sandbox=box, argv=["/bin/true", 5])
    refused("bad_request", client.exec, sandbox=box, argv=[""])
    refused("bad_request", client.get, sandbox=box, path="relative")
    refused("bad_request", client.signal, sandbox=box, run=1, signal=99)
    refused("not_found", client.attach, sandbox=box, run=77)
    refused("not_found", client.cancel, sandbox=box, run=77)
    refused("refused", client.snapshot, sandbox=box)
    assert client.ping()["sandboxes"] == 1


def test_what_cannot_be_enforced_is_refused(client):
    error = refused("unenforced", client.create, profile="low", set={"record.exec": "true"})
    assert "record.exec" in error.message
    error = refused("refused", client.create, profile="low", set={"limits.memory": "100GiB"})
    assert "ceiling" in error.message + error.hint
    assert client.list()["sandboxes"] == []
    assert until(lambda: client.health()["used"]["sandboxes"] == 0)


def test_a_profile_of_the_clients_own(client):
    text = "profile: 1\nname: mine\nextends: low\nlimits: {processes: 20}\nenv: {COLOUR: green}\n"
    box = client.create(profile_text=text)
    assert box["profile"] == "mine"
    assert client.sh(box["id"], "echo $COLOUR")["out"] == b"green\n"
    assert "processes: 20" in client.show(sandbox=box["id"])["policy"]
    refused("bad_request", client.create, profile_text="profile: 1\nname: [")


def test_names_are_unique_and_free_again(client):
    client.create(**MEMORY, name="one")
    error = refused("conflict", client.create, **MEMORY, name="one")
    assert "one" in error.message
    client.delete(sandbox="one", force=True)
    client.create(**MEMORY, name="one")


def test_a_key_makes_a_request_idempotent(client):
    first = client.create(**MEMORY, key="create-1")
    again = client.create(**MEMORY, key="create-1")
    assert again == first and len(client.list()["sandboxes"]) == 1
    error = refused("conflict", client.create, **DISK, key="create-1")
    assert "create-1" in error.message
    box = first["id"]
    run = client.ask("exec", sandbox=box, argv=["/bin/sh", "-c", "echo once >>/tmp/count"], key="exec-1")
    assert client.ask("exec", sandbox=box, argv=["/bin/sh", "-c", "echo once >>/tmp/count"], key="exec-1") == run
    assert client.sh(box, "wc -l </tmp/count")["out"].strip() == b"1"
    # a refusal leaves the key free
    refused("conflict", client.create, **MEMORY, name="x y".replace(" ", "-"), key="create-1")
    refused("not_found", client.create, snapshot="0" * 16, key="fork")
    client.create(**MEMORY, key="fork")


def test_the_same_key_at_the_same_time(client):
    answers, errors = [], []

    def ask():
        try:
            answers.append(client.create(**DISK, key="together"))
        except Refused as e:
            errors.append(e)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and len({a["id"] for a in answers}) == 1 and len(client.list()["sandboxes"]) == 1


def test_admission(make_daemon):
    daemon = make_daemon(conf="max_sandboxes = 4\nowner_memory = 2GiB\npool = 0\n")
    client = daemon.client
    boxes, errors = [], []

    def create():
        try:
            boxes.append(client.create(**MEMORY)["id"])
        except Refused as e:
            errors.append(e)
    threads = [threading.Thread(target=create) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(boxes) == 4 and len(errors) == 8, errors
    assert {e.code for e in errors} == {"limit"} and any("max_sandboxes" in e.hint for e in errors)
    client.stop(sandbox=boxes[0])
    error = refused("limit", client.create, profile="medium", memory_only=True)
    assert "owner_memory" in error.hint
    client.create(**MEMORY)
    refused("limit", client.resume, sandbox=boxes[0])
    client.delete(sandbox=boxes[1], force=True)
    client.resume(sandbox=boxes[0])


def test_the_idle_are_stopped(make_daemon):
    client = make_daemon(conf="pool = 0\n").client
    busy = client.create(profile="low", set={"time.idle": "4s"})["id"]
    client.ask("exec", sandbox=busy, argv=["/bin/sleep", "1000"], detach=True)
    begin = time.monotonic()
    idle = client.create(profile="low", set={"time.idle": "1s"})["id"]
    old = client.create(profile="low", set={"time.run": "2s", "time.lifetime": "2s"})["id"]
    assert until(lambda: client.show(sandbox=idle)["state"] == "stopped" and time.monotonic() - begin > 6)
    assert client.show(sandbox=idle)["reason"] == "idle" and client.show(sandbox=busy)["state"] == "running"
    assert until(lambda: client.show(sandbox=old)["state"] == "stopped")
    assert client.show(sandbox=old)["reason"] == "lifetime"
    for box in (idle, old):  # by the operator's own clock
        shown = client.show(sandbox=box)
        assert shown["ended_ms"] - shown["started_ms"] < 8000 * harness.SLOW, shown
    refused("refused", client.resume, sandbox=old)
    assert client.resume(sandbox=idle)["state"] == "running"


def test_processor_time_is_a_budget(make_daemon):
    client = make_daemon(conf="pool = 0\n").client
    box = client.create(profile="low", set={"budget.cpu": "1s"})["id"]
    run = client.sh(box, "while :; do :; done")
    assert run["reason"] == "budget", run
    shown = client.show(sandbox=box)
    assert shown["state"] == "stopped" and shown["reason"] == "budget"
    assert "budget.cpu" in refused("refused", client.resume, sandbox=box).message


def test_the_pool(make_daemon):
    daemon = make_daemon(conf="pool = 2\n")
    client = daemon.client
    first = client.create(**DISK)
    assert not first["from_pool"]
    assert until(lambda: client.health()["pool"] == 2)
    second = client.create(**DISK, name="quick")
    assert second["from_pool"] and second["state"] == "running" and second["name"] == "quick" and second["persistent"]
    assert client.sh("quick", "echo ok >~/f && cat ~/f")["out"] == b"ok\n"
    other = client.create(**DISK, set={"limits.processes": "33"})
    assert not other["from_pool"]  # another plan
    client.stop(sandbox="quick")
    client.resume(sandbox="quick")
    assert client.sh("quick", "cat ~/f")["out"] == b"ok\n"
    # nobody sees what is ready, and a new operator keeps none of it
    assert len(client.list(all=True)["sandboxes"]) == 3
    daemon.kill_operator()
    assert until(lambda: len(os.listdir(daemon.state / "run/sandboxes")) == 3)
    assert sorted(s["state"] for s in client.list()["sandboxes"]) == ["running"] * 3


def test_two_owners_do_not_see_each_other(daemon, client):
    """Root makes one; a user who asks over the same socket gets nothing of it."""
    mine = client.create(**MEMORY, name="secret")
    client.create(profile="medium", name="withdisk")
    snapshot = client.snapshot(sandbox="withdisk", name="snap")
    script = r'''
import sys, json, os
sys.path.insert(0, sys.argv[2])
from harness import Client, Refused
client, ids = Client(sys.argv[1]), sys.argv[3:]
def code(f):
    try:
        return f() and "ok"
    except Refused as e:
        return e.code
out = {"ping": client.ping()["owner"], "list": client.list()["sandboxes"], "snapshots": client.snapshots()["snapshots"]}
out["codes"] = [code(lambda: client.ask(verb, sandbox=i, **more)) for i in (ids[0], "secret")
                for verb, more in (("show", {}), ("stop", {}), ("delete", {}), ("exec", {"argv": ["/bin/true"]}), ("snapshot", {}),
                                   ("get", {"path": "/etc/passwd"}), ("events", {}), ("usage", {}), ("quarantine", {}))]
out["fork"] = [code(lambda: client.create(snapshot=i)) for i in (ids[1], "snap")]
out["export"] = code(lambda: client.export(snapshot=ids[1]))
out["all"] = [code(lambda: client.list(all=True)), code(lambda: client.usage(all=True)), code(lambda: client.down()),
              code(lambda: client.create(profile="low", owner="uid:0"))]
made = client.create(profile="low", name="secret")
out["made"] = made["owner"]
with client.call("events") as c:
    c.answer()
    out["events"] = sorted({e["sandbox"] for e in c.events})
out["id"] = made["id"]
print(json.dumps(out))
'''
    user = 54321
    daemon.state.chmod(0o711)  # as the daemon makes it
    copy = str(daemon.programs.folder)
    for file in (harness.__file__, harness.SOURCE / "tests/common/stopwatch.py"):
        shutil.copy(file, copy)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 1)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        os.environ["HOME"] = "/"
        os.execv("/usr/bin/python3", ["python3", "-c", script, str(daemon.socket), copy, mine["id"], snapshot["id"]])
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    assert os.waitpid(pid, 0)[1] == 0, said
    out = json.loads(said)
    assert out["ping"] == f"uid:{user}" and out["list"] == [] and out["snapshots"] == []
    assert set(out["codes"]) == {"not_found"}, out["codes"]
    assert out["fork"] == ["not_found", "not_found"] and out["export"] == "not_found"
    assert out["all"] == ["refused"] * 4
    assert out["made"] == f"uid:{user}" and out["events"] == [out["id"]]
    # root sees both, and its own name still means its own
    assert {s["owner"] for s in client.list(all=True)["sandboxes"]} == {"uid:0", f"uid:{user}"}
    assert client.show(sandbox="secret")["id"] == mine["id"]
    assert client.show(sandbox=out["id"])["owner"] == f"uid:{user}"


def test_quarantine(client):
    box = client.create(**DISK, name="suspect")["id"]
    client.sh(box, "echo evil >~/payload")
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "1000"]) as c:
        c.event()
        held = client.quarantine(sandbox=box, reason="it looked at me")
        with pytest.raises(Refused) as caught:
            c.answer()
        assert caught.value.code == "refused"
    assert held["state"] == "quarantined" and held["snapshot"] and held["evidence"]["ledger_seq"] > 0
    error = refused("conflict", client.sh, box, "true")
    assert "quarantined" in error.message and "delete" in error.hint
    for verb in ("resume", "unpause", "stop"):
        refused("conflict", getattr(client, verb), sandbox=box)
    assert client.quarantine(sandbox=box)["state"] == "quarantined"
    fork = client.create(snapshot=held["snapshot"])["id"]
    assert client.sh(fork, "cat ~/payload")["out"] == b"evil\n"
    with client.call("events", sandbox=box) as c:
        c.answer()
        kinds = [e["kind"] for e in c.events]
        assert "sandbox.quarantine" in kinds
        assert next(e for e in c.events if e["kind"] == "sandbox.quarantine")["seq"] == held["evidence"]["ledger_seq"]
    client.delete(sandbox=box, force=True)


def test_many_at_once(client):
    """Operations on one sandbox keep their order, those on others go on."""
    boxes = [client.create(**MEMORY)["id"] for _ in range(4)]
    errors = []

    def live(box):
        try:
            for _ in range(3):
                assert client.sh(box, "echo a")["out"] == b"a\n"
                client.pause(sandbox=box)
                client.unpause(sandbox=box)
                client.stop(sandbox=box)
                client.resume(sandbox=box)
        except Exception as e:  # told to the test below
            errors.append(e)
    threads = [threading.Thread(target=live, args=(box,)) for box in boxes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors
    assert {s["starts"] for s in client.list()["sandboxes"]} == {4}


def test_events_can_be_followed_by_several(client):
    start = client.health()["ledger_seq"]
    with client.call("events", follow=True, **{"from": start + 1}) as one, client.call("events", follow=True) as two:
        box = client.create(**MEMORY)["id"]
        for c in (one, two):
            kinds = set()
            while not {"sandbox.create", "sandbox.start"} <= kinds:
                event = c.event()
                kinds.add(event["kind"])
            assert event["sandbox"] in (box, "")
    with client.call("events", sandbox=box) as c:
        result = c.answer()
        numbers = [e["seq"] for e in c.events]
        assert numbers == sorted(numbers) and all(e["sandbox"] == box for e in c.events)
    with client.call("events", sandbox=box, **{"from": result["next"]}) as c:
        c.answer()
        assert c.events == []
