"""When the disk is full, and when somebody does not read: what is deleted goes, nothing is promised that is not written
down, nobody brings the operator down."""
import contextlib
import os
import subprocess
import time

import pytest

import ground
from harness import Refused, until

KEPT = {"profile": "medium"}


def disks(daemon):
    return [name for name in os.listdir(daemon.state / "disks") if len(name) == 16]


# --- who reads what is deleted ---

def holds(pid, id):
    """Whether this process has files of that sandbox open."""
    return any(id in path for path in fds_of(pid))


def fds_of(pid):
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/{pid}/fd/{name}")


@pytest.mark.parametrize("verb", ["logs", "attach"])
def test_a_reader_of_a_deleted_sandbox(make_daemon, verb):
    """The log is larger than what buffers take, and the reader does not read."""
    daemon = make_daemon(conf="pool = 0\n")
    client, operator = daemon.client, daemon.operator
    box = client.create(**KEPT)
    run = client.sh(box["id"], "head -c 6000000 /dev/zero")
    with client.call(verb, sandbox=box["id"], run=run["run"], **({"out": 0} if verb == "attach" else {})) as slow:
        slow.event()
        client.delete(sandbox=box["id"], force=True)
        assert until(lambda: not disks(daemon)), "its disk waits for a reader"
        for i in range(5):
            client.create(name=f"x{i}", profile="low")
        if verb == "logs":
            assert slow.answer()["run"] == run["run"] and len(slow.out) == 6000000
        else:  # one that never reads is cut off
            assert until(lambda: not holds(daemon.operator, box["id"])), "its log waits for a reader"
            with pytest.raises(Refused) as e:
                slow.answer()
            assert e.value.code == "refused" and len(slow.out) < 6000000
    assert daemon.operator == operator and client.ping()["health"] == "ok"


def test_a_reader_that_leaves_after_the_deletion(daemon):
    client, operator = daemon.client, daemon.operator
    box = client.create(**KEPT)["id"]
    run = client.sh(box, "head -c 6000000 /dev/zero")
    slow = client.call("logs", sandbox=box, run=run["run"])
    slow.event()
    client.delete(sandbox=box, force=True)
    client.create(profile="low")
    slow.socket.close()
    time.sleep(0.2)
    assert client.ping()["health"] == "ok" and daemon.operator == operator


# --- a full disk ---

@pytest.fixture
def small(make_daemon):
    """A daemon whose state lies on a file system of 96 MiB; small.fill() takes all that is left of it."""
    daemon = make_daemon(start=False, conf="disk_reserve = 0\npool = 0\n")
    ground.own_mounts()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=700", "none", daemon.state], check=True)
    ballast = daemon.state / "ballast"

    def fill():
        with open(ballast, "ab", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 16))
            except OSError:
                pass
            try:
                while True:
                    f.write(bytes(1 << 10))
            except OSError:
                pass
    daemon.fill, daemon.ballast = fill, ballast
    try:
        yield daemon.start()
        ballast.unlink(missing_ok=True)
        daemon.end()
    finally:
        subprocess.run(["umount", "-l", daemon.state], check=True)


def until_full(daemon, box):
    """Events until nothing can be written any more."""
    def refused():
        try:
            daemon.client.stop(sandbox=daemon.client.create(profile="low")["id"])
        except Refused as e:
            return e.code == "full"
        return False
    assert until(refused), "the disk is full and nobody noticed"
    with pytest.raises(Refused) as e:
        daemon.client.exec(sandbox=box, argv=["/bin/true"])
    assert e.value.code == "full"
    if daemon.client.health()["ledger"] != "ok":
        with pytest.raises(Refused) as e:
            daemon.client.mkdir(sandbox=box, path="/tmp/x")
        assert e.value.code == "full"


def test_deleting_makes_room(small):
    client = small.client
    box = client.create(name="big", **KEPT)["id"]
    other = client.create(name="other", **KEPT)["id"]
    assert client.sh(box, "head -c 20000000 /dev/urandom > file; sync")["exit_code"] == 0
    client.stop(sandbox=box)
    snapshot = client.snapshot(sandbox=box)["id"]
    client.resume(sandbox=box)
    assert client.sh(box, "head -c 10000000 /dev/urandom > more; sync")["exit_code"] == 0
    small.fill()
    until_full(small, other)
    client.delete(sandbox=box, force=True)
    small.fill()
    until_full(small, other)
    client.snapshot_delete(snapshot=snapshot)
    assert until(lambda: client.health()["ok"])
    small.kill_operator()
    assert [s["id"] for s in client.list()["sandboxes"] if s["name"]] == [other] and not client.snapshots()["snapshots"]
    assert until(lambda: client.show(sandbox=other)["state"] == "running")
    assert client.sh(other, "echo well")["out"] == b"well\n"
    client.delete(sandbox=other, force=True)


# --- keys ---

def test_a_key_is_for_one_sandbox(daemon):
    """The operator dies while a run with a key goes on, and the name is given to another sandbox."""
    client, fields = daemon.client, {"sandbox": "same", "argv": ["/bin/sh", "-c", "cat /tmp/who; sleep 100"], "key": "k"}
    client.create(name="same", profile="low")
    client.sh("same", "echo first > /tmp/who")
    with client.call("exec", **fields) as c:
        first = c.event()["run"]
        c.until_out(b"first")
        daemon.kill_operator()
    with client.call("exec", **fields) as again:  # the same run, from its beginning
        assert again.event()["run"] == first
        again.until_out(b"first")
    daemon.kill_operator()
    client.delete(sandbox="same", force=True)
    client.create(name="same", profile="low")
    client.sh("same", "echo second > /tmp/who; true")
    for _ in range(first):  # a run of that number is there, and is another one
        client.sh("same", "echo wrong")
    with client.call("exec", **fields) as other:
        assert other.event()["run"] > first
        other.until_out(b"second")


def test_the_same_key_at_the_same_time(make_daemon):
    """Whoever asks while the first answer is not durable waits for it."""
    client = make_daemon(env={"STOCKADE_SLOW_FSYNC": "300"}).client
    began = time.monotonic()
    calls = [client.call("create", name="once", profile="low", key="k") for _ in range(8)]
    answers = [c.answer() for c in calls]
    assert len({a["id"] for a in answers}) == 1 and time.monotonic() - began >= 0.3
    for c in calls:
        c.socket.close()
    client.delete(sandbox="once", force=True)


def test_changes_that_were_lost(client):
    box = client.create(profile="low")["id"]
    client.mkdir(sandbox=box, path="/tmp/w")
    with client.call("watch", sandbox=box, path="/tmp/w", recursive=True) as slow:
        slow.event()
        client.sh(box, "cd /tmp/w; seq -f name-that-is-long-enough-to-fill-a-buffer-before-it-is-read-%g 30000 | xargs touch")
        assert until(lambda: slow.event()["change"] == "lost", step=0)


def test_an_unknown_wish_of_an_import(client):
    with pytest.raises(Refused) as e:
        client.ask("import", name="x", set={"limits.memory": "64MiB"})
    assert e.value.code == "bad_request" and "set" in e.value.message


def test_hints_name_verbs_that_exist(client):
    """'stockade VERB' in a hint is a verb."""
    box = client.create(profile="low")["id"]
    for verb, fields in (("logs", {"sandbox": box, "run": 77}), ("snapshot-delete", {"snapshot": "none"}),
                         ("diff", {"from": "none", "to": "none"}), ("signal", {"sandbox": box, "run": 77, "signal": 9})):
        with pytest.raises(Refused) as e:
            client.ask(verb, **fields)
        assert "snapshot list" not in e.value.hint and "stockade show" not in e.value.hint, e.value.hint
