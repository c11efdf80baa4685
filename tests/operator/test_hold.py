"""When something cannot be written: the ledger, the store, output of runs, disks. Full, failing (EIO) or out of descriptors:
what needs recording is refused with a next step, what runs is held and goes on afterwards, and nothing that was answered
is missing from the records."""
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

import ground
import harness
from harness import Refused, until

KEPT = {"profile": "medium"}
CONF = "disk_reserve = 0\npool = 0\n"
TICKING = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"
MOVES = 3  # seconds in which one that runs says something, however busy this machine is

pytestmark = pytest.mark.skipif(not harness.IS_ROOT, reason="mounts file systems")


# --- what is put under a daemon ---

@contextlib.contextmanager
def under(daemon, name, size):
    """Puts a small file system under a folder of a daemon that has run once and does not run now."""
    place = daemon.state / name
    place.mkdir(exist_ok=True)
    owner, kept = place.stat(), daemon.state.parent / "kept"
    shutil.copytree(place, kept)
    with ground.Memory(place, size) as small:
        shutil.copytree(kept, place, dirs_exist_ok=True)
        for path in [place, *place.rglob("*")]:
            os.chown(path, owner.st_uid, owner.st_gid)
            path.chmod(0o700 if path.is_dir() else 0o600)
        shutil.rmtree(kept)
        yield small


@pytest.fixture
def small(make_daemon):
    """small("operator/ledger", size): a daemon with a small file system there, and (ground) what was mounted."""
    with contextlib.ExitStack() as ends:
        def make(*places, conf=CONF, **kw):
            daemon = make_daemon(conf=conf, **kw)
            uid = (daemon.state / "operator").stat()
            daemon.down()
            for name, _ in places:
                (daemon.state / name).mkdir(exist_ok=True)
                os.chown(daemon.state / name, uid.st_uid, uid.st_gid)
            grounds = [ends.enter_context(under(daemon, name, size)) for name, size in places]
            ends.callback(lambda: ([g.make_room() for g in grounds], daemon.end()))
            return (daemon.start(), *grounds)
        yield make


class Ticker:
    """A run that says something all the time."""

    def __init__(self, client, box):
        self.call = client.call("exec", sandbox=box, argv=["/bin/sh", "-c", TICKING])
        self.run = self.call.event()["run"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call.socket.close()

    def moves(self):
        """Whether it says anything from now on, what is under way aside."""
        end = time.monotonic() + 0.2
        while time.monotonic() < end and select.select([self.call.socket], [], [], 0.02)[0]:
            self.call.take(*self.call.next())
        ready = select.select([self.call.socket], [], [], MOVES * harness.SLOW)[0]
        if ready:
            self.call.take(*self.call.next())
        return bool(ready)


def events(daemon, *more):
    out = subprocess.run([str(daemon.programs.stockade_ledger), "tail", str(daemon.state / "operator/ledger"), "--from", "1",
                          "--json", *more], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def verified(daemon):
    done = subprocess.run([str(daemon.programs.stockade_ledger), "verify", str(daemon.state / "operator/ledger")],
                          capture_output=True, text=True)
    return done.returncode == 0 or pytest.fail(done.stdout + done.stderr)


def refused(call, *args, **fields):
    with pytest.raises(Refused) as e:
        call(*args, **fields)
    assert e.value.code == "full" and e.value.hint, e.value
    return e.value


def is_held(client, box):
    return client.show(sandbox=box)["held"]


# --- the ledger ---

def until_noticed(client, box):
    """Makes events until one is refused. A run that had begun is held with its sandbox, and has no answer until there is room."""
    def noticed():
        with client.call("exec", sandbox=box, argv=["/bin/true"]) as c:
            try:
                while True:
                    if not select.select([c.socket], [], [], 0.2)[0]:
                        if is_held(client, box):
                            return True
                        continue
                    kind, data = c.next()
                    c.take(kind, data)
                    if kind == "A":
                        return False
            except Refused as e:
                assert e.code == "full" and e.hint, e
                return True
    assert until(noticed), "the ledger cannot be written and nobody noticed"


def exhaust(client, box, ledger, *leave):
    ledger.fill(*leave)
    until_noticed(client, box)


@pytest.mark.parametrize("leave", [0, 4096])
def test_the_ledgers_disk_is_full(small, leave):
    """Also in the middle of an event: a page is left."""
    daemon, ledger = small(("operator/ledger", 1 << 20))
    client = daemon.client
    box, plain = client.create(name="kept", **KEPT)["id"], client.create(name="plain", profile="low")["id"]
    with Ticker(client, box) as one, Ticker(client, plain) as other:
        assert one.moves() and other.moves()
        exhaust(client, box, ledger, leave)
        for ticker, sandbox in ((one, box), (other, plain)):
            assert until(lambda: not ticker.moves()), "it goes on unrecorded"
            assert is_held(client, sandbox) and client.show(sandbox=sandbox)["state"] == "running"
        assert not client.health()["ok"]
        for verb, fields in (("create", {"profile": "low"}), ("create", KEPT), ("snapshot", {"sandbox": box}),
                             ("exec", {"sandbox": box, "argv": ["/bin/true"]}), ("pause", {"sandbox": box})):
            refused(client.ask, verb, **fields)
        assert [s["name"] for s in client.list()["sandboxes"]] == ["kept", "plain"]
        ledger.make_room()
        assert until(lambda: client.health()["ok"])
        assert until(one.moves) and until(other.moves), "it is held though there is room"
        assert not is_held(client, box)
        made = client.create(profile="low")["id"]
        assert client.sh(box, "echo well")["out"] == b"well\n"
    kinds = [e["kind"] for e in events(daemon)]
    assert verified(daemon) and "ledger.repair" not in kinds
    held = [(e["kind"], e["sandbox"]) for e in events(daemon) if (e["data"] or {}).get("why") == "ledger"]
    assert sorted(held) == sorted((f"sandbox.{what}", s) for what in ("pause", "unpause") for s in (box, plain)), held
    assert kinds.count("sandbox.create") == 3 and made


def test_the_operator_dies_while_the_ledgers_disk_is_full(small):
    """What was held stays held with the next one, and no event that was answered is missing."""
    daemon, ledger = small(("operator/ledger", 1 << 20))
    client = daemon.client
    box = client.create(name="kept", **KEPT)["id"]
    exhaust(client, box, ledger)
    assert until(lambda: is_held(client, box))
    daemon.kill_operator(wait=False)
    time.sleep(1)
    ledger.make_room()
    assert daemon.wait(), daemon.said()
    assert until(lambda: client.health()["ok"] and not is_held(client, box)), client.show(sandbox=box)
    assert client.sh(box, "echo well")["out"] == b"well\n" and verified(daemon)


# --- the store ---

def test_the_stores_disk_is_full(small):
    daemon, store, ledger = small(("operator", 4 << 20), ("operator/ledger", 8 << 20))
    client = daemon.client
    box = client.create(name="kept", **KEPT)["id"]
    with Ticker(client, box) as ticker:
        store.fill()

        def noticed():
            store.fill()
            try:
                client.delete(sandbox=client.create(profile="low")["id"], force=True)
            except Refused as e:
                assert e.code == "full", e
                return True
            return False
        assert until(noticed), "the store's disk is full and nobody noticed"
        assert "state folder" in refused(client.create, profile="low").hint
        refused(client.snapshot, sandbox=box)
        refused(client.exec, sandbox=box, argv=["/bin/true"])
        assert not client.health()["ok"] and client.list()["sandboxes"]
        store.make_room()
        assert until(lambda: client.health()["ok"])
        assert ticker.moves()
        made = client.create(name="after", profile="low")["id"]
    daemon.kill_operator()
    assert {s["id"] for s in client.list()["sandboxes"] if s["name"]} == {box, made} and verified(daemon)
    assert ledger.mounted


# --- output of runs ---

def test_the_disk_of_logs_is_full(small):
    """What is not kept is said to be missing, and the run itself is recorded."""
    daemon, logs = small(("operator/logs", 256 << 10))
    client = daemon.client
    box = client.create(**KEPT)["id"]
    size = len("".join(f"{i}\n" for i in range(1, 200001)))
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "seq 200000; exit 3"]) as c:
        run = c.answer()
    assert run["exit_code"] == 3
    assert len(c.out) + sum(e["bytes"] for e in c.events if e.get("lost") == "out") == size, (len(c.out), c.events)
    with client.call("logs", sandbox=box, run=run["run"]) as c:
        first = c.event()
        answer = c.answer()
    assert first["out"] == answer["out_bytes"] == size and not c.out, (first, answer, len(c.out))
    ends = []
    assert until(lambda: ends.extend(e for e in events(daemon) if e["kind"] == "run.end") or ends)
    assert ends[-1]["data"]["status"] == 3 << 8 and ends[-1]["data"]["out_bytes"] == size, ends
    logs.make_room()
    run = client.sh(box, "seq 1000")
    with client.call("logs", sandbox=box, run=run["run"]) as c:
        c.answer()
    assert bytes(c.out) == run["out"] and len(c.out) > 3000


# --- disks ---

@pytest.fixture
def tight(make_daemon):
    """A daemon whose disks lie on 160 MiB; its records do not."""
    with contextlib.ExitStack() as ends:
        def make(reserve):
            daemon = make_daemon(start=False, conf=f"disk_reserve = {reserve}\npool = 0\n")
            daemon.ground = ends.enter_context(ground.Disk(daemon.state, 160 << 20))
            for name in ("operator", "run"):
                (daemon.state / name).mkdir(mode=0o700)
                ends.enter_context(ground.Memory(daemon.state / name, 32 << 20))
            ends.callback(lambda: (daemon.ground.make_room(), daemon.end()))
            return daemon.start()
        yield make


def disks(daemon):
    return [name for name in os.listdir(daemon.state / "disks") if len(name) == 16]


def test_a_snapshot_that_does_not_fit(tight):
    """The disk is full in the middle of the copy: refused, nothing has changed, nothing is left, it goes on."""
    daemon = tight(0)
    client = daemon.client
    box = client.create(name="kept", **KEPT)["id"]
    assert client.sh(box, "head -c 30000000 /dev/urandom > data; sync; sha256sum < data > sum")["exit_code"] == 0
    with Ticker(client, box) as ticker:
        daemon.ground.fill(12 << 20)
        said = refused(client.snapshot, sandbox=box, name="point")
        assert "room" in said.hint or "delete" in said.hint, said
        assert client.snapshots()["snapshots"] == [] and client.show(sandbox=box)["state"] == "running"
        assert ticker.moves() and until(lambda: len(disks(daemon)) == 1), disks(daemon)
        daemon.ground.make_room()
        assert client.snapshot(sandbox=box, name="point")["name"] == "point"
        assert ticker.moves()
    fork = client.create(snapshot="point")["id"]
    assert client.sh(fork, "sha256sum < data | cmp - sum")["exit_code"] == 0
    kinds = [e["kind"] for e in events(daemon)]
    assert kinds.count("snapshot.make") == 2 and kinds.count("snapshot.fail") == 1


def test_pressure(tight):
    """Less is free than is kept in reserve: whoever writes to a disk is held, the others are not."""
    daemon = tight("32MiB")
    client = daemon.client
    box, plain = client.create(name="kept", **KEPT)["id"], client.create(name="plain", profile="low")["id"]
    with Ticker(client, box) as one, Ticker(client, plain) as other:
        daemon.ground.fill(8 << 20)
        assert until(lambda: is_held(client, box)) and until(lambda: not one.moves())
        assert other.moves() and not is_held(client, plain)
        for verb, fields in (("create", KEPT), ("snapshot", {"sandbox": box})):
            assert "disk_reserve" in refused(client.ask, verb, **fields).hint
        client.delete(sandbox=client.create(profile="low")["id"], force=True)
        daemon.ground.make_room()
        assert until(lambda: not is_held(client, box)) and until(one.moves) and other.moves()
    why = [e["data"].get("why") for e in events(daemon) if e["kind"] in ("sandbox.pause", "sandbox.unpause")]
    assert why == ["disk", "disk"], why


# --- errors ---

@pytest.fixture
def faulty(make_daemon, suite):
    """faulty("jsonl"): a daemon whose operator has a disk that fails, for files with that in their names."""
    return lambda name, **kw: ground.faulty(make_daemon(start=False, conf=CONF), suite, name, **kw)


@pytest.mark.parametrize("letter", ["s", "w", "n"])
def test_the_ledger_cannot_be_written(faulty, letter):
    """EIO when it is synced, EIO when it is written, ENOSPC after half of it."""
    daemon = faulty("jsonl")
    client = daemon.client
    box = client.create(name="kept", **KEPT)["id"]
    with Ticker(client, box) as ticker:
        assert ticker.moves()
        daemon.fault(letter)
        until_noticed(client, box)
        assert until(lambda: not ticker.moves()), "it goes on unrecorded"
        refused(client.create, profile="low")
        assert is_held(client, box) and not client.health()["ok"]
        daemon.fault("0")
        assert until(lambda: client.health()["ok"] and ticker.moves())
        assert client.sh(box, "echo well")["out"] == b"well\n"
    assert verified(daemon) and "ledger.repair" not in [e["kind"] for e in events(daemon)]


@pytest.mark.parametrize("letter", ["s", "w", "n"])
def test_the_store_cannot_be_written(faulty, letter):
    daemon = faulty("store.db")
    client = daemon.client
    box = client.create(name="kept", **KEPT)["id"]
    with Ticker(client, box) as ticker:
        daemon.fault(letter)
        refused(client.create, name="lost", profile="low")
        refused(client.snapshot, sandbox=box)
        assert not client.health()["ok"] and ticker.moves()
        daemon.fault("0")
        assert until(lambda: client.health()["ok"])
        made = client.create(name="after", profile="low")["id"]
    daemon.kill_operator()
    left = {s["id"]: s["name"] for s in client.list()["sandboxes"]}
    assert box in left and made in left and verified(daemon), left


def test_output_cannot_be_written(faulty):
    daemon = faulty("logs/")
    client = daemon.client
    box = client.create(profile="low")["id"]
    daemon.fault("w")
    run = client.sh(box, "seq 1000")
    assert run["exit_code"] == 0 and run["out"].endswith(b"\n1000\n") and run["out"].startswith(b"1\n")
    daemon.fault("0")
    assert client.sh(box, "echo well")["out"] == b"well\n" and client.health()["ok"]


# --- descriptors ---

def processor_time(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(daemon, ends):
    """Clients that say nothing, until there is no place for another."""
    idle = []
    ends.callback(lambda: [one.close() for one in idle])
    for _ in range(80):
        idle.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        idle[-1].connect(str(daemon.socket))
    assert until(lambda: refused_now(daemon)), "nobody is refused"


def refused_now(daemon):
    try:
        daemon.client.ask("ping", timeout=2)
    except Refused as e:
        assert e.code == "busy" and e.hint, e
        return True
    except (harness.Gone, TimeoutError):
        return True
    return False


def test_no_descriptors_left(faulty):
    """Clients have taken all that they may: what there is goes on and works, nobody spins, and afterwards all are served."""
    daemon = faulty("nothing", limit=64)
    client, operator = daemon.client, daemon.operator
    box = client.create(name="kept", profile="low")["id"]
    with Ticker(client, box) as ticker:
        with client.call("events", follow=True) as follower, contextlib.ExitStack() as ends:
            follower.event()
            crowd(daemon, ends)
            spent = processor_time(operator)
            assert ticker.moves()
            time.sleep(1)
            assert processor_time(operator) - spent < 0.4, "it spins"
            assert daemon.operator == operator, daemon.said()
        assert until(lambda: not refused_now(daemon))
        made = client.create(profile="low")["id"]
        assert client.sh(made, "echo well")["out"] == b"well\n"
        assert ticker.moves() and client.health()["ok"] and daemon.operator == operator, daemon.said()
    assert verified(daemon)


def test_descriptors_are_kept_for_what_clients_ask_for(faulty):
    """One that got in when there was hardly any place left can start a sandbox, and the operator lives."""
    daemon = faulty("nothing", limit=64)
    client, operator, said, made = daemon.client, daemon.operator, [], []
    with contextlib.ExitStack() as ends:
        idle = []
        ends.callback(lambda: [one.close() for one in idle])
        while not refused_now(daemon):
            idle.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            idle[-1].connect(str(daemon.socket))
        idle.pop().close()

        def one_more():
            try:
                made.append(client.create(profile="low")["id"])
            except Refused as e:
                said.append(e)
            except (harness.Gone, TimeoutError):
                pass
            return made

        assert until(one_more), said  # the operator learns of the place that was left in its own time
        for _ in range(3):
            one_more()
    assert daemon.operator == operator, daemon.said()
    assert made and all(e.hint for e in said), (made, said)
    assert until(lambda: not refused_now(daemon))
    assert client.sh(made[0], "echo well")["out"] == b"well\n" and verified(daemon)
