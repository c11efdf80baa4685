"""Kill -9 of operator, warden, or both: sandboxes, their processes and terminals go on, and nothing acknowledged is lost."""
import json
import os
import random
import signal
import sqlite3
import time

import pytest

import harness
from harness import Gone, Refused, until

KILLS = ["kill_operator", "kill_warden", "kill_all"]


@pytest.fixture
def plain(make_daemon):
    return make_daemon(conf="pool = 1\n")


@pytest.mark.parametrize("kill", KILLS)
def test_a_run_goes_on(plain, kill):
    client = plain.client
    box = client.create(profile="medium", name="kept")["id"]
    script = "i=0; while [ $i -lt 60 ]; do i=$((i + 1)); echo line $i; sleep 0.05; done; exit 6"
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", script]) as c:
        number = c.event()["run"]
        c.until_out(b"line 5\n")
        getattr(plain, kill)()
        seen = len(c.out)
    with client.call("attach", sandbox="kept", run=number, out=0) as c:
        run = c.answer()
        assert bytes(c.out) == b"".join(b"line %d\n" % i for i in range(1, 61))
        assert run["exit_code"] == 6 and run["reason"] == "exited" and run["command"][0] == "/bin/sh"
    assert seen > 0
    shown = client.show(sandbox="kept")
    assert shown["state"] == "running" and shown["starts"] == 1 and shown["id"] == box
    after = client.sh(box, "echo new")
    assert after["out"] == b"new\n", (after, plain.said())


@pytest.mark.parametrize("kill", KILLS)
def test_a_terminal_goes_on(plain, kill):
    client = plain.client
    box = client.create(profile="low")["id"]
    with client.call("exec", sandbox=box, argv=["/bin/sh"], tty=True) as c:
        number = c.event()["run"]
        c.input(b"x=remembered; echo first $((1 + 1))\n", end=False)
        c.until_out(b"first 2")
    getattr(plain, kill)()
    with client.call("attach", sandbox=box, run=number) as c:
        c.until_out(b"first 2")
        c.input(b"echo $x; exit 4\n", end=False)
        run = c.answer()
        assert b"remembered\r\n" in c.out and run["exit_code"] == 4


@pytest.mark.parametrize("kill", KILLS)
def test_every_state_is_as_it_was(plain, kill):
    client = plain.client
    made = {state: client.create(profile="medium", name=state)["id"] for state in ("running", "paused", "stopped", "quarantined")}
    for name in made:
        client.sh(name, f"echo {name} >~/f")
    client.pause(sandbox="paused")
    client.stop(sandbox="stopped")
    client.quarantine(sandbox="quarantined")
    snap = client.snapshot(sandbox="stopped", name="snap")
    gone = client.create(profile="low")["id"]
    client.delete(sandbox=gone, force=True)
    getattr(plain, kill)()
    assert {s["name"]: (s["id"], s["state"]) for s in client.list()["sandboxes"]} == {n: (i, n) for n, i in made.items()}
    assert client.snapshots()["snapshots"] and client.create(snapshot="snap")["origin"] == snap["id"]
    assert client.delete(sandbox=gone) == {}
    assert client.unpause(sandbox="paused")["state"] == "running"
    assert client.resume(sandbox="stopped")["state"] == "running"
    for name in ("running", "paused", "stopped"):
        assert client.sh(name, "cat ~/f")["out"].decode().strip() == name
    with pytest.raises(Refused) as e:
        client.sh("quarantined", "true")
    assert e.value.code == "conflict"


def test_time_goes_on_while_nobody_looks(plain):
    client = plain.client
    box = client.create(profile="low")["id"]
    run = client.ask("exec", sandbox=box, argv=["/bin/sleep", "1000"], timeout_ms=2500, detach=True)
    plain.kill_operator()
    with client.call("attach", sandbox=box, run=run["run"]) as c:
        assert c.answer()["reason"] == "timeout"


def test_what_ended_meanwhile_is_known(plain):
    client = plain.client
    box = client.create(profile="low")["id"]
    run = client.ask("exec", sandbox=box, argv=["/bin/sh", "-c", "sleep 0.4; echo done; exit 3"], detach=True)["run"]
    plain.kill_all(restart=False)
    time.sleep(1)
    plain.start()
    with client.call("attach", sandbox=box, run=run, out=0) as c:
        ended = c.answer()
        assert ended["exit_code"] == 3 and bytes(c.out) == b"done\n"


def test_what_died_meanwhile_is_lost(plain):
    client = plain.client
    box, other = client.create(profile="medium", name="dead")["id"], client.create(profile="low")["id"]
    client.sh(box, "echo still >~/f; sync")
    run = client.ask("exec", sandbox=box, argv=["/bin/sleep", "1000"], detach=True)["run"]
    plain.kill_all(restart=False)
    pid = int(next(line.split()[-1] for line in plain.info(box).splitlines() if line.startswith("pid")).split("=")[-1])
    os.kill(pid, signal.SIGKILL)
    plain.start()
    assert until(lambda: client.show(sandbox=box)["state"] == "stopped"), client.show(sandbox=box)
    assert client.show(sandbox=box)["reason"] in ("lost", "signal"), client.show(sandbox=box)
    assert client.runs(sandbox=box)["runs"][0]["run"] == run and client.runs(sandbox=box)["runs"][0]["state"] in ("lost", "ended")
    assert client.show(sandbox=other)["state"] == "running"
    client.resume(sandbox=box)
    assert client.sh(box, "cat ~/f")["out"] == b"still\n"


def test_a_guest_that_dies_is_noticed(plain):
    client = plain.client
    box = client.create(profile="medium")["id"]
    pid = int(next(line.split()[-1] for line in plain.info(box).splitlines() if line.startswith("pid")).split("=")[-1])
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "1000"]) as c:
        c.event()
        os.kill(pid, signal.SIGKILL)
        assert c.answer()["state"] in ("ended", "lost")
    assert until(lambda: client.show(sandbox=box)["state"] == "stopped")
    assert client.resume(sandbox=box)["state"] == "running"


def test_keys_outlive_us(plain):
    client = plain.client
    first = client.create(profile="low", key="k")
    plain.kill_operator()
    assert client.create(profile="low", key="k")["id"] == first["id"]
    for wait, key in ((0, "a"), (0.002, "b"), (0.2, "c")):
        body = {"sandbox": first["id"], "argv": ["/bin/sh", "-c", f"echo {key} >>/tmp/{key}; sleep 1; cat /tmp/{key}"], "key": key}
        with client.call("exec", **body) as c:
            c.event()
            time.sleep(wait)
            plain.kill_operator()
        with client.call("exec", **body) as c:
            assert c.answer()["exit_code"] == 0
            assert bytes(c.out) == f"{key}\n".encode(), "it was done once, whenever we died"


def test_orphans_are_removed(plain):
    client = plain.client
    client.create(profile="medium")
    assert until(lambda: client.health()["pool"] == 1)
    ours = {s["id"] for s in client.list()["sandboxes"]}
    plain.kill_all(restart=False)
    stray = plain.state / "operator/logs/00000000000000ff"
    stray.mkdir(parents=True)
    for folder in (stray, stray.parent):
        os.chown(folder, (plain.state / "operator").stat().st_uid, -1)
    plain.start()
    assert until(lambda: set(os.listdir(plain.state / "run/sandboxes")) >= ours and len(os.listdir(plain.state / "disks")) <= 2)
    assert until(lambda: {s["id"] for s in client.list()["sandboxes"]} == ours)
    assert until(lambda: not stray.exists())


@pytest.mark.long
def test_kills_at_random(make_daemon):
    """One worker, a dozen operations, a kill after a random moment: what was acknowledged is there."""
    daemon = make_daemon(conf="pool = 1\n")
    client, dice = daemon.client, random.Random(5)
    box, state, values = client.create(profile="medium", key="only")["id"], "running", {""}
    for turn in range(harness.rounds(40)):
        verb = dice.choice({"running": ["pause", "stop", "write", "write", "snapshot"], "paused": ["unpause"], "stopped": ["resume"]}[state])
        kill = dice.choice([None, "kill_operator", "kill_warden", "kill_all"])
        after = {"pause": "paused", "unpause": "running", "stop": "stopped", "resume": "running"}.get(verb, state)
        try:
            if verb == "write":
                call = client.call("exec", sandbox=box, argv=["/bin/sh", "-c", f"echo {turn} >~/f.$$; sync; mv ~/f.$$ ~/f"])
            else:
                call = client.call(verb, sandbox=box)
            with call:
                if kill:
                    time.sleep(dice.random() * 0.02)
                    getattr(daemon, kill)()
                result = call.answer()
            if verb == "write":
                assert result["exit_code"] == 0
                values = {str(turn)}
            allowed = {after}
        except Gone:
            allowed = {state, after}
            if verb == "write":
                values.add(str(turn))  # it may have begun, and then it goes on
        assert until(lambda: client.show(sandbox=box)["state"] in allowed), (turn, verb, kill, client.show(sandbox=box), allowed)
        state = client.show(sandbox=box)["state"]
        if state == "running":
            assert until(lambda: client.show(sandbox=box)["runs_active"] == 0)
            got = client.sh(box, "cat ~/f 2>/dev/null")["out"].decode().strip()
            assert got in values, (turn, verb, kill, got, values)
    client.delete(sandbox=box, force=True)
    for snap in client.snapshots()["snapshots"]:
        assert snap["state"] == "ready"
        client.snapshot_delete(snapshot=snap["id"])
    assert until(lambda: client.health()["used"]["disk"] == 0)


@pytest.mark.parametrize("family", ["sandbox", "snapshot"])
def test_what_cannot_be_understood_keeps_what_it_has(make_daemon, family):
    """A row of another version, or a damaged one: its disks stay, its process goes on, and health says so."""
    daemon = make_daemon(conf="pool = 0\n")
    client = daemon.client
    box, other = client.create(profile="medium")["id"], client.create(profile="medium", name="other")["id"]
    snap = client.snapshot(sandbox=box)["id"]
    client.sh(box, "echo kept >~/f; sync")
    before = set(os.listdir(daemon.state / "disks"))
    daemon.kill_all(restart=False)
    with sqlite3.connect(daemon.state / "operator/store.db") as db:
        table = next(name for name, in db.execute("select name from sqlite_master where type = 'table'")
                     if name.startswith(family) and any(c[1] == "plan" for c in db.execute(f"pragma table_info({name})")))
        column = db.execute(f"pragma table_info({table})").fetchone()[1]
        key = box if family == "sandbox" else snap
        plan = db.execute(f"select plan from {table} where {column} = ?", (key,)).fetchone()[0]
        assert db.execute(f"update {table} set plan = ? where {column} = ?", (b"\xff" + plan[1:], key)).rowcount == 1
    db.close()
    for name in os.listdir(daemon.state / "operator"):
        if name.startswith("store.db"):
            os.chown(daemon.state / "operator" / name, (daemon.state / "operator").stat().st_uid, -1)
    daemon.start()
    health = client.health()
    assert health["incomplete"] and not health["ok"]
    time.sleep(0.5)
    assert set(os.listdir(daemon.state / "disks")) >= before
    assert set(os.listdir(daemon.state / "run/sandboxes")) >= {box, other}
    assert client.sh("other", "echo on")["out"] == b"on\n"
    daemon.kill_all(restart=False)
    with sqlite3.connect(daemon.state / "operator/store.db") as db:
        db.execute(f"update {table} set plan = ? where {column} = ?", (plan, key))
    db.close()
    for name in os.listdir(daemon.state / "operator"):
        if name.startswith("store.db"):
            os.chown(daemon.state / "operator" / name, (daemon.state / "operator").stat().st_uid, -1)
    daemon.start()
    assert not client.health()["incomplete"]
    assert client.sh(box, "cat ~/f")["out"] == b"kept\n"
    assert client.create(snapshot=snap)["state"] == "running"
