"""Parts of the daemon that die, and parts that cannot do their work: the rest goes on, and what is promised holds."""
import json
import os
import signal
import time
from pathlib import Path

import pytest

import harness
from harness import Gone, Refused, until

COUNT = "i=0; while [ $i -lt 400 ]; do i=$((i + 1)); echo $i; sleep 0.005; done; exit 7"
COUNTED = b"".join(b"%d\n" % i for i in range(1, 401))


def follow(daemon, box, run, out):
    """Reads a run's output from what is there on, to its end, over as many operators as it takes."""
    end = time.monotonic() + 40 * harness.SLOW
    while time.monotonic() < end:
        try:
            with daemon.client.call("attach", sandbox=box, run=run, out=len(out), err=0) as c:
                try:
                    return c.answer()
                finally:
                    out += c.out
        except (Gone, OSError):
            time.sleep(0.02)
        except Refused as e:
            assert e.code == "busy", e
            time.sleep(0.02)
    raise AssertionError(f"no end after {len(out)} bytes: {daemon.said()}")


def test_output_over_killed_operators(daemon):
    """Not a byte is lost, none comes twice, and the end is known."""
    box, out = daemon.client.create(profile="low")["id"], bytearray()
    call = daemon.client.call("exec", sandbox=box, argv=["/bin/sh", "-c", COUNT])
    run = call.event()["run"]
    for turn in range(3):
        try:
            call.until_out(b"\n")
        except AssertionError:  # where all is slow, it ended between two kills
            assert turn > 0
            break
        time.sleep(0.15)
        daemon.kill_operator()
        try:
            while True:
                call.take(*call.next())
        except Gone:
            out += call.out
        call.socket.close()
        call = daemon.client.call("attach", sandbox=box, run=run, out=len(out), err=0)
    else:
        try:
            call.answer()
        except Gone:
            pass
    out += call.out
    call.socket.close()
    result = follow(daemon, box, run, out)
    assert bytes(out) == COUNTED and result["exit_code"] == 7 and result["out_bytes"] == len(COUNTED)


def test_operator_dies_again_and_again(daemon):
    """Each is replaced, later and later; what runs inside is not touched."""
    box = daemon.client.create(profile="low")["id"]
    inside = daemon.client.run(box, "/bin/sh", "-c", "sleep 1000 & echo $!")["out"]
    waits = []
    while len(waits) < 4 or (not waits[0] < waits[-1] < 10 * harness.SLOW and len(waits) < 8):
        begin = time.monotonic()
        daemon.kill_operator()
        waits.append(time.monotonic() - begin)
    assert waits[0] < waits[-1] < 10 * harness.SLOW, waits
    assert daemon.client.run(box, "kill", "-0", inside.decode().strip())["exit_code"] == 0


def denials(daemon, box):
    with daemon.client.call("events", sandbox=box) as c:
        c.answer()
    return {e["data"]["host"]: e for e in c.events if e["kind"] in ("dns.deny", "net.deny")}


def deny(daemon, box, host):
    """Something that the gate refuses, until it is in the ledger."""
    daemon.client.sh(box, f"getent hosts {host}; true")
    assert until(lambda: host in denials(daemon, box)), daemon.said()
    return denials(daemon, box)[host]


@pytest.mark.parametrize("victim", ["gate", "operator", "warden", "all"])
def test_gate_after(daemon, victim):
    """The only way out is served again, by another gate, and goes on being recorded."""
    box = daemon.client.create(profile="medium", allow=["example.test"])["id"]
    event = deny(daemon, box, "first.test")
    assert event["actor"] == "gate" and event["sandbox"] == box and event["data"]["reason"] == "no-rule"
    old = daemon.gates
    assert len(old) == 1
    if victim == "gate":
        os.kill(old[0], signal.SIGKILL)
    else:
        getattr(daemon, f"kill_{victim}")()
    assert until(lambda: daemon.gates and daemon.gates != old), daemon.said()
    deny(daemon, box, "second.test")
    assert until(lambda: len(daemon.gates) == 1), daemon.gates


def test_a_gate_for_each_owner_who_needs_one(daemon):
    daemon.client.create(profile="low")
    assert daemon.gates == []
    first = daemon.client.create(profile="medium", allow=["example.test"])["id"]
    second = daemon.client.create(profile="medium", allow=["other.test"])["id"]
    assert len(daemon.gates) == 1
    other = daemon.client.create(profile="medium", allow=["example.test"], owner="uid:4299")["id"]
    assert until(lambda: len(daemon.gates) == 2)
    for box in (first, second, other):
        deny(daemon, box, "denied.test")


def test_lines_of_the_log(daemon):
    """One JSON object each, with what an operator of machines looks for."""
    daemon.kill_operator()
    for line in daemon.log.read_text().splitlines():
        entry = json.loads(line)
        assert entry["part"] in ("warden", "operator") and entry["level"] in ("error", "warning", "info", "debug")
        assert entry["time"].endswith("Z") and entry["message"]
    assert any(json.loads(line)["level"] == "error" for line in daemon.log.read_text().splitlines())


@pytest.mark.parametrize("how", ["term", "int", "down"])
def test_ends_in_good_order(daemon, how):
    """The daemons end, with status 0; sandboxes go on, and the next daemon has them."""
    box = daemon.client.create(profile="low")["id"]
    inside = daemon.client.run(box, "/bin/sh", "-c", "sleep 1000 & echo $!")["out"].decode().strip()
    operator = daemon.operator
    if how == "down":
        daemon.client.down()
    else:
        daemon.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGINT)
    assert daemon.process.wait(harness.ENOUGH * harness.SLOW) == 0
    assert not harness.alive(operator) and not daemon.socket.exists()
    daemon.start()
    assert daemon.client.run(box, "kill", "-0", inside)["exit_code"] == 0

    def kinds():
        with daemon.client.call("events") as c:
            c.answer()
        return [e["kind"] for e in c.events]
    assert until(lambda: kinds().count("daemon.start") == 2) and "daemon.end" in kinds()


def test_second_daemon_refuses(daemon):
    import subprocess  # pylint: disable=import-outside-toplevel
    done = subprocess.run([daemon.programs.stockaded, "--state", daemon.state, "--config", daemon.config], text=True,
                          env=daemon.environment(), capture_output=True, timeout=60 * harness.SLOW, check=False)
    assert done.returncode != 0 and str(daemon.warden) in done.stderr, done.stderr
    assert daemon.answers()


@pytest.mark.parametrize("file", ["store.db", "ledger"])
def test_damaged_files(make_daemon, file):
    """A database page or a ledger segment that was overwritten: refused with a sentence that says what to do."""
    daemon = make_daemon()
    daemon.client.create(profile="low")
    daemon.down()
    place = daemon.state / "operator" / file
    if file == "ledger":
        place = max(place.glob("*"), key=lambda p: p.stat().st_size)
    with open(place, "r+b") as f:
        for page in range(4096 if file == "store.db" else 200, place.stat().st_size, 4096):
            f.seek(page)
            f.write(b"\xa5" * 64)
    begin = daemon.log.stat().st_size
    daemon.start(wait=False)

    def complained():
        lines = [json.loads(line) for line in daemon.log.read_text()[begin:].splitlines()]
        return [e for e in lines if e["part"] == "operator" and e["level"] == "error" and e.get("hint")]
    assert until(complained), daemon.said()
    assert daemon.process.poll() is None


@pytest.mark.long
def test_slow_disk(make_daemon):
    """Every fdatasync of the ledger takes 20 ms more: keys on a terminal and questions do not wait for it."""
    def measure(daemon):
        box = daemon.client.create(profile="low")["id"]
        keys, pings, served_by = [], [], (daemon.operator, daemon.guest(box))
        with daemon.client.call("exec", sandbox=box, argv=["cat"], tty=True, rows=24, cols=80, stdin=True) as c:
            c.event()
            for i in range(300):
                daemon.client.call("exec", sandbox=box, argv=["true"], detach=True).socket.close() if i % 10 == 0 else None
                want, watch = len(c.out) + 1, harness.Stopwatch(*served_by)
                c.send("I", b"k")
                while len(c.out) < want:
                    c.take(*c.next())
                keys.append(watch.seconds)
                watch = harness.Stopwatch(*served_by)
                daemon.client.ping()
                pings.append(watch.seconds)
        return sorted(keys)[-4], sorted(pings)[-4]
    quick, dull = make_daemon(conf="pool = 0\n"), make_daemon(conf="pool = 0\n", env={"STOCKADE_SLOW_FSYNC": "20"})
    seen = []
    for _ in range(5):  # what waits for the disk does so every time
        seen.append((measure(quick), measure(dull)))
        if all(b < max(2 * a, 0.010 * harness.SLOW) for a, b in zip(*seen[-1])):
            return
    assert False, seen


def test_slow_disk_is_slow(make_daemon):
    """The control of the test above: what has to be durable does wait."""
    daemon = make_daemon(conf="pool = 0\n", env={"STOCKADE_SLOW_FSYNC": "150"})
    begin = time.monotonic()
    daemon.client.create(profile="low")
    assert time.monotonic() - begin > 0.15


def test_events_have_what_came_before(make_daemon):
    """Who asks for the events of a run that is over finds them all, also where the disk is slow."""
    client = make_daemon(conf="pool = 0\n", env={"STOCKADE_SLOW_FSYNC": "150"}).client
    box = client.create(profile="low")["id"]
    for status in range(1, 4):
        run = client.sh(box, f"exit {status}")["run"]
        with client.call("events", sandbox=box) as c:
            c.answer()
            assert ("run.end", run) in [(e["kind"], e["data"].get("run")) for e in c.events]


def test_idle(daemon):
    """Nobody asks anything: hardly any processor time."""
    daemon.client.create(profile="low")
    time.sleep(0.5)

    def used():
        return sum(int(w) for pid in (daemon.warden, daemon.operator)
                   for w in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])
    spent = []
    while len(spent) < 5 and not (spent and spent[-1] < 0.03 * harness.SLOW):  # it may come to rest a little later
        before = used()
        time.sleep(3)
        spent.append((used() - before) / os.sysconf("SC_CLK_TCK"))
    assert spent[-1] < 0.03 * harness.SLOW, spent
