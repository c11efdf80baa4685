"""Snapshots, forks, rollback, diff, export, import; that layers are counted and go when nothing needs them."""
import os
import time

import pytest

from harness import Refused, quickest, until


@pytest.fixture
def plain(make_daemon):
    return make_daemon(conf="pool = 0\n")


def make(client, name=None, **more):
    return client.create(profile="medium", **({"name": name} if name else {}), **more)["id"]


def code(call, *args, **fields):
    with pytest.raises(Refused) as e:
        call(*args, **fields)
    assert e.value.message
    return e.value.code


def write(client, box, text, name="f"):
    assert client.sh(box, f"echo {text} >~/{name} && sync -f ~")["exit_code"] == 0


def read(client, box, name="f"):
    return client.sh(box, f"cat ~/{name} 2>/dev/null")["out"].decode().strip()


@pytest.mark.parametrize("running", [True, False])
def test_snapshot_and_fork(plain, running):
    client = plain.client
    box = make(client)
    write(client, box, "before")
    if not running:
        client.stop(sandbox=box)
    snap = client.snapshot(sandbox=box, name="snap")
    assert snap["state"] == "ready" and snap["sandbox"] == box and snap["layers"] == 1 and snap["ledger_seq"] > 0 and snap["bytes"] > 0
    assert (snap["pause_us"] > 0) == running
    if not running:
        client.resume(sandbox=box)
    assert read(client, box) == "before"
    write(client, box, "after")
    fork = client.create(snapshot="snap", name="fork")
    assert fork["origin"] == snap["id"] and fork["id"] != box and fork["profile"] == "medium"
    assert read(client, "fork") == "before" and read(client, box) == "after"
    write(client, "fork", "other")
    assert read(client, box) == "after"
    # and all of it again after a stop
    for name in (box, "fork"):
        client.stop(sandbox=name)
        client.resume(sandbox=name)
    assert read(client, box) == "after" and read(client, "fork") == "other"
    assert code(client.create, snapshot="snap", profile="low") == "bad_request"
    assert code(client.snapshot, sandbox=box, name="snap") == "conflict"


def test_a_snapshot_of_a_paused_one_and_of_a_busy_one(plain):
    client = plain.client
    box = make(client)
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i >~/n.new; mv ~/n.new ~/n; echo $i; done"]) as c:
        c.event()
        c.until_out(b"\n20\n")
        snap = client.snapshot(sandbox=box)
        assert 0 < snap["pause_us"] < 5_000_000
        client.pause(sandbox=box)
        second = client.snapshot(sandbox=box)
        assert client.show(sandbox=box)["state"] == "paused"
        client.unpause(sandbox=box)
    for one in (snap, second):
        fork = client.create(snapshot=one["id"])["id"]
        assert int(read(client, fork, "n")) >= 20


def test_rollback(plain):
    client = plain.client
    box = make(client)
    write(client, box, "one")
    first = client.snapshot(sandbox=box)["id"]
    write(client, box, "two")
    client.sh(box, "echo more >~/g")
    back = client.rollback(sandbox=box, snapshot=first)
    assert back["state"] == "running" and back["id"] == box
    assert read(client, box) == "one" and read(client, box, "g") == ""
    write(client, box, "three")
    client.stop(sandbox=box)
    assert client.rollback(sandbox=box, snapshot=first)["state"] == "running"
    assert read(client, box) == "one"
    # to a snapshot of another sandbox
    other = make(client)
    assert client.rollback(sandbox=other, snapshot=first)["state"] == "running"
    assert read(client, other) == "one"
    memory = make(client, memory_only=True)
    assert code(client.rollback, sandbox=memory, snapshot=first) == "refused"


def test_diff(plain):
    client = plain.client
    box = make(client)
    client.sh(box, "echo 1 >~/same; echo 1 >~/changes; echo 1 >~/goes; mkdir ~/d")
    first = client.snapshot(sandbox=box)["id"]
    client.sh(box, "echo 22 >~/changes; rm ~/goes; echo 3 >~/d/new")
    second = client.snapshot(sandbox=box)["id"]
    with client.call("diff", **{"from": first, "to": second}) as c:
        counts = c.answer()
        seen = {(e["change"], e["path"].strip("/").split("/")[-1]) for e in c.events}
    assert {("changed", "changes"), ("removed", "goes"), ("added", "new")} <= seen, seen
    assert not any(name == "same" for _, name in seen)
    assert counts["added"] >= 1 and counts["removed"] == 1
    assert code(client.diff, **{"from": first, "to": box}) == "conflict"  # it runs
    client.sh(box, "rm -r ~/d")
    client.stop(sandbox=box)
    with client.call("diff", **{"from": second, "to": box}) as c:
        assert c.answer()["removed"] >= 1
    assert code(client.diff, **{"from": "0" * 16, "to": second}) == "not_found"


def test_export_and_import(plain):
    client = plain.client
    box = make(client)
    client.sh(box, "mkdir -p ~/deep/er; head -c 3000000 /dev/urandom >~/deep/er/f; sha256sum ~/deep/er/f | cut -c1-64 >~/sum; ln -s deep/er/f ~/l")
    snap = client.snapshot(sandbox=box)["id"]
    with client.call("export", snapshot=snap) as c:
        result = c.answer()
        archive = bytes(c.out)
    assert result["bytes"] == len(archive) > 3000000 and archive[:4] == b"\x28\xb5\x2f\xfd"
    with client.call("import", name="back", profile="medium") as c:
        c.input(archive)
        back = c.answer()
    assert back["state"] == "ready" and back["name"] == "back"
    fork = client.create(snapshot="back")["id"]
    assert client.sh(fork, "[ $(sha256sum ~/l | cut -c1-64) = $(cat ~/sum) ]")["exit_code"] == 0
    for bad in (archive[:len(archive) // 2], b"not an archive at all", b""):
        with client.call("import", profile="medium") as c:
            c.input(bad)
            with pytest.raises(Refused):
                c.answer()
    with client.call("import", profile="medium") as c:  # the client goes in the middle
        c.input(archive[:1000000], end=False)
    assert until(lambda: len(client.snapshots()["snapshots"]) == 2)
    assert code(client.ask, "import", profile="low") == "bad_request"


def test_who_reads_slowly_holds_up_only_himself(plain):
    client = plain.client
    box, other = make(client), client.create(profile="medium", owner="uid:4242")["id"]
    client.sh(box, "head -c 30000000 /dev/urandom >~/f")
    snap = client.snapshot(sandbox=box)["id"]
    slow = [client.call("export", snapshot=snap) for _ in range(6)]
    time.sleep(0.5)
    theirs = []  # of a sandbox that runs: frozen, copied, thawed
    assert quickest(lambda: theirs.append(client.snapshot(sandbox=other)["id"]), 5) < 5
    assert client.sh(other, "echo on")["out"] == b"on\n"
    client.ask("snapshot", sandbox=other)
    for c in slow:
        assert c.answer()["bytes"] > 30000000
        c.socket.close()
    assert all(theirs)


def disks(daemon):
    return len(os.listdir(daemon.state / "disks"))


def test_what_nothing_needs_is_removed(plain):
    client = plain.client
    box = make(client)
    for i in range(3):
        write(client, box, i)
        client.stop(sandbox=box)
        client.snapshot(sandbox=box, name=f"s{i}")
        client.resume(sandbox=box)
    fork = client.create(snapshot="s0")["id"]
    assert disks(plain) == 5
    used = client.health()["used"]["disk"]
    client.delete(sandbox=box, force=True)
    assert until(lambda: disks(plain) == 4)
    client.snapshot_delete(snapshot="s2")
    client.snapshot_delete(snapshot="s1")
    assert until(lambda: disks(plain) == 2), os.listdir(plain.state / "disks")
    client.snapshot_delete(snapshot="s0")
    time.sleep(0.3)
    assert disks(plain) == 2 and read(client, fork) == "0"  # the fork stands on it
    client.delete(sandbox=fork, force=True)
    assert until(lambda: disks(plain) == 0)
    assert until(lambda: client.health()["used"]["disk"] == 0) and used > 0, client.health()


def test_space_is_counted_per_owner(make_daemon):
    client = make_daemon(conf="pool = 0\nowner_disk = 3GiB\n").client
    box = make(client)
    make(client)
    client.stop(sandbox=box)
    client.snapshot(sandbox=box)  # the sealed one counts what it takes, the fresh one what it may take
    assert until(lambda: client.health()["used"]["disk"] < (2 << 30) + (100 << 20)), client.health()
    assert code(client.create, profile="medium") == "limit"
    assert code(client.snapshot, sandbox=box) == "limit"


def test_long_chains_become_short(plain):
    client = plain.client
    box = make(client)
    client.stop(sandbox=box)
    for i in range(18):
        client.resume(sandbox=box)
        client.sh(box, f"echo {i} >~/f{i}; echo {i} >~/f")
        client.stop(sandbox=box)
        client.snapshot(sandbox=box, name=f"s{i}")
    assert until(lambda: client.show(sandbox=box)["layers"] >= 10)

    def short():
        client.resume(sandbox=box)
        client.stop(sandbox=box)
        return client.show(sandbox=box)["layers"] < 8
    assert until(short, step=0.3)
    client.resume(sandbox=box)
    assert client.sh(box, "cat ~/f ~/f3 ~/f17; ls ~ | grep -c ^f")["out"].split() == [b"17", b"3", b"17", b"19"]
    fork = client.create(snapshot="s4")["id"]
    assert client.sh(fork, "cat ~/f; ls ~ | grep -c ^f")["out"].split() == [b"4", b"6"]


def test_stop_makes_a_snapshot_when_the_profile_says_so(plain):
    client = plain.client
    box = client.create(profile="medium", set={"record.snapshot": "stop"})["id"]
    write(client, box, "kept")
    client.stop(sandbox=box)
    assert until(lambda: [s["state"] for s in client.snapshots(sandbox=box)["snapshots"]] == ["ready"])
    fork = client.create(snapshot=client.snapshots()["snapshots"][0]["id"])["id"]
    assert read(client, fork) == "kept"
