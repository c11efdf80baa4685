"""Snapshots on a disk that stops answering, is full, or loses its power: a sandbox never stands still for longer than it
may, what is refused changes nothing, and what was answered is there."""
import contextlib
import errno
import hashlib
import os
import shutil
import signal
import tarfile
import time

import pytest

import ground
import harness
from harness import Refused, until

KEPT = {"profile": "medium"}
CONF = "disk_reserve = 0\npool = 0\n"

pytestmark = pytest.mark.skipif(not harness.IS_ROOT, reason="mounts file systems")


def disks(daemon):
    return [name for name in os.listdir(daemon.state / "disks") if len(name) == 16]


# --- a copy that hangs ---

@pytest.fixture
def hanging(make_daemon):
    """A daemon whose disks lie on a file system of their own, hanging.ground; its records do not."""
    daemon = make_daemon(start=False, conf=CONF + "snapshot_pause = 1s\n")
    daemon.ground = ground.Disk(daemon.state, 256 << 20)
    with contextlib.ExitStack() as mounted:
        mounted.enter_context(daemon.ground)
        for name in ("operator", "run"):
            (daemon.state / name).mkdir(mode=0o700)
            mounted.enter_context(ground.Memory(daemon.state / name, 32 << 20))
        yield daemon.start()
        daemon.end()


def ticks(client, box, seconds=1.0):
    """Whether something in it moves."""
    def count():
        return int(client.sh(box, "cat /tmp/ticks")["out"] or 0)
    before = count()
    return until(lambda: count() > before, seconds)


def test_a_copy_that_hangs(hanging):
    """The host's disk does not answer: the sandbox goes on, the snapshot is refused, and all is well when it answers again."""
    client, frozen = hanging.client, hanging.ground
    box = client.create(name="box", **KEPT)["id"]
    assert client.sh(box, "echo kept > file; sync")["exit_code"] == 0
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /tmp/ticks.new; "
                     "mv /tmp/ticks.new /tmp/ticks; sleep 0.02; done"]) as run:
        run.event()
        assert ticks(client, box)
        client.sh(box, "head -c 1000000 /dev/urandom > dirty")  # there is something to write back
        frozen.freeze()
        try:
            began = time.monotonic()
            with pytest.raises(Refused) as e:
                client.snapshot(sandbox=box, name="never")
            took = time.monotonic() - began
            assert e.value.code == "busy" and "stand still" in e.value.message and "snapshot_pause" in e.value.hint, e.value
            assert 0.9 < took < 5 * harness.SLOW, took
            assert ticks(client, box), "it stands still though its snapshot was refused"
            assert client.show(sandbox=box)["state"] == "running"
            assert client.snapshots()["snapshots"] == []
            assert client.health()["ok"]
        finally:
            frozen.thaw()
        assert until(lambda: len(disks(hanging)) == 1, 10), disks(hanging)
        assert ticks(client, box)
        made = client.snapshot(sandbox=box, name="never")  # the name is free
        assert made["name"] == "never" and ticks(client, box)
    fork = client.create(snapshot=made["id"])["id"]
    assert client.sh(fork, "cat file")["out"] == b"kept\n"
    for name in (box, fork):
        client.delete(sandbox=name, force=True)
    client.snapshot_delete(snapshot=made["id"])
    assert until(lambda: not disks(hanging), 10), disks(hanging)


def test_the_operator_dies_while_a_copy_hangs(hanging):
    """The next one lets the sandbox go on, though the copy cannot even be killed."""
    client, frozen = hanging.client, hanging.ground
    box = client.create(name="box", **KEPT)["id"]
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /tmp/ticks.new; "
                     "mv /tmp/ticks.new /tmp/ticks; sleep 0.02; done"]) as run:
        run.event()
        client.sh(box, "head -c 1000000 /dev/urandom > dirty")
        frozen.freeze()
        try:
            with client.call("snapshot", sandbox=box):
                time.sleep(0.3)
                hanging.kill_operator()
            assert until(lambda: client.show(sandbox=box)["state"] == "running", 10)
            assert ticks(client, box, 5)
            assert until(lambda: client.snapshots()["snapshots"] == [], 5)
        finally:
            frozen.thaw()
    assert until(lambda: len(disks(hanging)) == 1, 10), disks(hanging)
    client.delete(sandbox=box, force=True)


# --- a loss of power ---

def no_cgroups(token):
    """Removes those of a daemon, as a host that starts again has none. False: somebody is still on his way out."""
    try:
        for path, _, _ in os.walk(harness.CGROUP, topdown=False):
            if f"stockaded-{token}" in path:
                os.rmdir(path)
    except FileNotFoundError:
        return False
    except OSError as e:
        assert e.errno == errno.EBUSY, e
        return False
    return True


@pytest.fixture
def powered(make_daemon):
    """A daemon whose state lies on a disk that can lose its power: powered.lose_power() starts it again afterwards. ids: of
    all sandboxes, so that nothing has to be looked for first and the power goes at once. meanwhile() is called before it
    is started."""
    daemon = make_daemon(start=False, conf=CONF)
    daemon.ground = ground.Disk(daemon.state, 512 << 20)

    def lose_power(ids=None, meanwhile=None):
        known, token = set(ids or daemon.ids()), (daemon.state / "token").read_text()
        daemon.ground.cut()
        daemon.ids = lambda: known
        victims = daemon.processes()
        del daemon.ids
        for pid in [daemon.warden, *victims]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        daemon.process.wait()
        assert until(lambda: not any(harness.alive(pid) for pid in victims) and not daemon.loops(), 10), daemon.loops()
        assert until(lambda: no_cgroups(token), 20)
        daemon.ground.umount()
        daemon.ground.mount()
        if meanwhile:
            meanwhile()
        daemon.start()
    daemon.lose_power = lose_power
    with daemon.ground:
        yield daemon.start()
        daemon.end()


def lost(client):
    """Sandboxes whose disks were made again."""
    with client.call("events") as c:
        c.answer()
        return [e["sandbox"] for e in c.events if e.get("kind") == "disk.lost"]


@pytest.mark.long
@pytest.mark.parametrize("stopped", [False, True])
def test_power_after_a_create(powered, stopped):
    """Whoever was told that it is there can go on with it, whatever of its disk got to the host: it is blank again, and
    the ledger says so, or it is as it was."""
    client = powered.client
    first = client.create(name="first", **KEPT)["id"]  # from now on there is a stock
    assert until(lambda: len(os.listdir(powered.state / "blank/disks")) >= 2, 10)
    boxes = [first] + [client.create(name=f"box{i}", **KEPT)["id"] for i in range(7)]  # more than there are in stock
    if stopped:
        for box in boxes:
            client.stop(sandbox=box)
    powered.lose_power(boxes)
    for box in boxes:
        assert until(lambda: client.show(sandbox=box)["state"] == "stopped", 10), client.show(sandbox=box)
        client.resume(sandbox=box)
        run = client.sh(box, "echo kept > file && ls")
        assert run["exit_code"] == 0 and run["out"] == b"file\n", run
    gone = lost(client)
    assert set(gone) <= set(boxes) and len(gone) == len(set(gone)), gone
    powered.kill_warden()  # nothing of this happens again
    for box in boxes:
        assert client.sh(box, "cat file")["out"] == b"kept\n"
    assert lost(client) == gone
    for box in boxes:
        client.delete(sandbox=box, force=True)


@pytest.mark.long
def test_power_takes_a_young_disk(powered):
    """What a host may do with files that nobody waited for: one comes back hollow, one torn, one not at all, one whole. An
    old one that is broken is not touched."""
    client = powered.client
    old = client.create(name="old", **KEPT)["id"]
    assert until(lambda: not list(powered.state.glob("disks/*/young")), 15)
    old_disk = os.listdir(powered.state / "disks")[0]
    disk_of, boxes = {}, {}
    for name in ("hollow", "torn", "gone", "whole"):
        before = set(os.listdir(powered.state / "disks"))
        boxes[name] = client.create(name=name, **KEPT)["id"]
        disk_of[name], = set(os.listdir(powered.state / "disks")) - before

    def harm():
        place = powered.state / "disks"
        for name in disk_of.values():
            if (place / name).is_dir():
                (place / name / "young").touch()
        image = place / disk_of["hollow"] / "disk.img"
        size = image.stat().st_size
        os.truncate(image, 0)
        os.truncate(image, size)
        with open(place / disk_of["torn"] / "disk.img", "r+b") as f:  # its superblock is there, what it speaks of is not
            f.seek(4096)
            f.write(bytes(1 << 20))
        shutil.rmtree(place / disk_of["gone"], ignore_errors=True)
        with open(place / old_disk / "disk.img", "r+b") as f:
            f.write(bytes(1 << 16))
    powered.lose_power([old, *boxes.values()], harm)
    for box in boxes.values():
        assert until(lambda: client.show(sandbox=box)["state"] == "stopped", 10), client.show(sandbox=box)
        client.resume(sandbox=box)
        run = client.sh(box, "echo kept > file && ls")
        assert run["exit_code"] == 0 and run["out"] == b"file\n", run
    again = [boxes["hollow"], boxes["torn"], boxes["gone"]]
    assert until(lambda: lost(client) == again, 5), (lost(client), again)
    with pytest.raises(Refused) as e:
        client.resume(sandbox=old)
    assert old_disk in e.value.message, e.value
    assert (powered.state / "disks" / old_disk / "disk.img").exists() and lost(client) == again
    for box in (old, *boxes.values()):
        client.delete(sandbox=box, force=True)


@pytest.mark.long
def test_power_a_while_after_a_create(powered):
    """A moment later nothing of a disk is lost any more."""
    client = powered.client
    boxes = [client.create(name=f"box{i}", **KEPT)["id"] for i in range(6)]
    for box in boxes:
        assert client.sh(box, "echo kept > file; sync")["exit_code"] == 0
    assert until(lambda: not list(powered.state.glob("disks/*/young")), 15)
    for box in boxes:
        assert client.sh(box, "echo more > file2; sync")["exit_code"] == 0
    powered.lose_power()
    for box in boxes:
        client.resume(sandbox=box)
        assert client.sh(box, "cat file")["out"] == b"kept\n"
    assert lost(client) == []
    for box in boxes:
        client.delete(sandbox=box, force=True)


def write_some(client, box, size=8 << 20):
    """A file with these many random bytes: their digest."""
    out = client.sh(box, f"head -c {size} /dev/urandom > data; sha256sum < data")["out"]
    return out.split()[0].decode()


def digest(client, box):
    run = client.sh(box, "sha256sum < data")
    assert run["exit_code"] == 0, run
    return run["out"].split()[0].decode()


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_power_after_a_snapshot(powered, state):
    """Answered means that it is there, whole."""
    client = powered.client
    box = client.create(name="box", **KEPT)["id"]
    want = write_some(client, box)
    if state == "stopped":
        client.stop(sandbox=box)
    snapshot = client.snapshot(sandbox=box, name="point")["id"]
    powered.lose_power()
    assert [s["id"] for s in client.snapshots()["snapshots"]] == [snapshot]
    fork = client.create(snapshot=snapshot, name="fork")["id"]
    assert digest(client, fork) == want
    if state == "stopped":  # its own disk is a fresh one above the snapshot's
        client.resume(sandbox=box)
        assert digest(client, box) == want
    for name in (box, fork):
        client.delete(sandbox=name, force=True)
    client.snapshot_delete(snapshot=snapshot)


def test_power_after_an_import(powered):
    client = powered.client
    box = client.create(name="box", **KEPT)["id"]
    want = write_some(client, box)
    snapshot = client.snapshot(sandbox=box)["id"]
    with client.call("export", snapshot=snapshot) as c:
        c.answer()
        archive = bytes(c.out)
    client.snapshot_delete(snapshot=snapshot)
    with client.call("import", name="again", **KEPT) as c:
        c.input(archive)
        made = c.answer()["id"]
    client.delete(sandbox=box, force=True)
    powered.lose_power()
    assert [s["name"] for s in client.snapshots()["snapshots"]] == ["again"]
    fork = client.create(snapshot=made)["id"]
    assert digest(client, fork) == want
    client.delete(sandbox=fork, force=True)
    client.snapshot_delete(snapshot=made)


def test_power_after_an_image(powered, tmp_path):
    client, tree = powered.client, tmp_path / "root"
    (tree / "etc").mkdir(parents=True)
    data = os.urandom(4 << 20)
    (tree / "etc/data").write_bytes(data)
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tree, ".")
    with client.call("image-import", name="small") as c:
        c.input(archive.read_bytes())
        image = c.answer()["id"]
    powered.lose_power()
    assert [i["id"] for i in client.images()["images"]] == [image]
    assert hashlib.sha256((powered.state / "images" / image / "root/etc/data").read_bytes()).digest() == hashlib.sha256(data).digest()
    client.image_remove(name="small")
