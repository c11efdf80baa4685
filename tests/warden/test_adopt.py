"""kill -9 of the warden, at any moment: what ran goes on, what was half made is gone."""
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import plans
import pytest
import wire
from daemon import Refused, alive, cgroups, new_id, until
from test_box import DOCKER, NATIVE, offer

TEST_BUILD = pathlib.Path(os.environ.get("STOCKADE_TEST_BUILD", plans.ROOT / "build-knockout"))


def test_sandboxes_go_on(make, low, inside):
    d = make()
    d.start()
    made = {}
    for _ in range(5):
        id, answer, guest, _ = d.begin(low)
        made[id] = answer.pid
    c = inside(guest)
    files = d.ask("leaf", id=id, run=1)[1]
    run = c.sh("i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done", number=1, fds=files)
    wire.close(files)
    c.wait(lambda: b"3\n" in run.out)
    d.kill()
    n = len(run.out)
    c.wait(lambda: len(run.out) > n + 5)  # it does not even notice
    d.start()
    assert d.running() == set(made) and {m.pid for m in d.list() if m.item == wire.SANDBOX} == set(made.values())
    _, fds = d.ask("connect", id=id)
    newer = inside(socket.socket(fileno=fds[0]))
    assert 1 in newer.list_runs()
    assert d.ask("usage", id=id, run=1)[0].usage["processes_now"] >= 1
    d.ask("freeze", id=id)
    d.ask("thaw", id=id)
    d.ask("leaf-end", wire.KILL, id=id, run=1)
    os.kill(made[id], signal.SIGKILL)  # not our child any more: its end is heard of all the same
    assert d.wait_told("gone").id == id
    for other in set(made) - {id}:
        d.stop(other)
    assert d.running() == set()


def test_what_died_meanwhile(make, low):
    d = make()
    d.start()
    id, answer, _, _ = d.begin(low)
    d.kill()
    os.kill(answer.pid, signal.SIGKILL)
    until(lambda: not alive(answer.pid))
    d.start()
    gone = d.wait_told("gone")
    assert gone.id == id and gone.error == -1 and gone.usage["cpu_us"] > 0
    assert d.running() == set() and not cgroups(id)


def test_a_number_that_is_somebody_elses(make, low):
    d = make()
    d.start()
    id, answer, _, _ = d.begin(low)
    d.kill()
    info = d.folder / "run/sandboxes" / id / "info"
    with subprocess.Popen(["sleep", "100"]) as other:
        info.write_text(info.read_text().replace(f"pid {answer.pid}\n", f"pid {other.pid}\n"))
        d.start()
        assert d.running() == set() and other.poll() is None  # it was not taken for ours, and not killed
        other.kill()
    until(lambda: not alive(answer.pid))  # the real one was in the sandbox's cgroup


@pytest.mark.parametrize("what", ["empty", "no pid", "half", "binary", "bad nest"])
def test_broken_info(make, low, what):
    d = make()
    d.start()
    id, answer, _, _ = d.begin(low)
    good, other, _, _ = d.begin(low)
    d.kill()
    info = d.folder / "run/sandboxes" / id / "info"
    text = info.read_text()
    info.write_bytes({"empty": b"", "no pid": text.replace("pid", "dip").encode(), "half": text[:len(text) // 2].encode(),
                      "binary": b"\xff\0" * 100, "bad nest": text.replace("nest ", "nest ../").encode()}[what])
    d.start()
    assert d.running() == {good} and alive(other.pid)
    until(lambda: not alive(answer.pid))
    until(lambda: not cgroups(id) and not info.parent.exists())


def test_orphans_of_every_kind(make, low):
    d = make()
    d.start()
    d.down(kill=False)
    (d.folder / "run/sandboxes" / new_id()).mkdir()
    (d.folder / "trees/new-0123456789abcdef").mkdir()
    (d.folder / "run/sandboxes/garbage").write_text("")
    d.start()
    assert d.running() == set()
    until(lambda: not [p for p in (d.folder / "run/sandboxes").iterdir() if p.is_dir()])
    until(lambda: not list((d.folder / "trees").glob("new-*")))


def test_a_successor_that_stands_elsewhere(make, low):
    """Its own cgroups are others; those of the sandboxes are found all the same."""
    places = [pathlib.Path(f"/sys/fs/cgroup/{tree}/stockade-test-{os.getpid()}") for tree in ("memory", "pids", "cpuacct", "unified")]
    places = [p for p in places if p.parent.is_dir()]
    if not places:
        return  # with v2 alone they are not below the daemon's own cgroup
    d = make()
    d.start()
    id, answer, _, _ = d.begin(low)
    d.kill()
    for p in places:
        p.mkdir()
    try:
        old = {p: _own(p) for p in places}
        for p in places:
            (p / "cgroup.procs").write_text("0")
        try:
            d.start()
        finally:
            for p in places:
                (old[p] / "cgroup.procs").write_text("0")
        assert d.running() == {id}
        new, other, _, _ = d.begin(low)
        assert [c for c in cgroups(new) if "stockade-test" in c] and not [c for c in cgroups(id) if "stockade-test" in c]
        d.ask("usage", id=id)
        d.stop(id)
        assert not alive(answer.pid) and not cgroups(id)
        d.down()
        assert not alive(other.pid)
        d.start()
        d.down()
    finally:
        d.clear()
        for p in places:
            for below in sorted(p.rglob("stockaded-*"), reverse=True):
                below.rmdir()
            until(lambda p=p: not (p / "cgroup.procs").read_text())
            p.rmdir()


def _own(place):
    """Where we are in the tree of this place."""
    tree = place.parent.name
    for line in open("/proc/self/cgroup", encoding="ascii"):
        _, names, path = line.strip().split(":", 2)
        if tree in names.split(",") or (names == "" and tree == "unified"):
            return pathlib.Path(f"{place.parent}{path}")
    return place.parent


START = ["folder", "cgroups", "cloned", "info", "gone", "serving", "answered"]
END = ["ending", "killed", "released", "removed"]


@pytest.mark.skipif(not (TEST_BUILD / "src/warden/stockaded").exists(), reason="needs a test build (-Dknockout=true)")
@pytest.mark.parametrize("driver", [NATIVE, DOCKER])
@pytest.mark.parametrize("step", START + END)
def test_killed_at_every_step(make, step, driver, monkeypatch):
    """Whatever it was doing: afterwards a sandbox is there, whole, or not at all."""
    monkeypatch.setattr(plans, "BUILD", TEST_BUILD)
    plan = plans.compile_plan()
    d = make(build=TEST_BUILD, conf="drivers = native docker\n")
    boxes = offer(d, "docker")
    d.start(env={"STOCKADE_DIE_AT": step}, args=boxes)
    id = new_id()
    answered = False
    serial = d.send_start(plan, id, driver=driver)
    try:
        answer, fds = d.answer(serial)
        answered = True
        d.pids.append(answer.pid)
        wire.close(fds)
        if step in END:
            d.stop(id)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass
    assert d.process.wait(60) == -signal.SIGKILL, "the label was not reached"
    d.let_go()
    d.start(args=boxes)
    running = d.running()
    if step in ("info", "gone", "serving", "answered"):  # it was written down: it may go on
        assert running <= {id}
    elif step in START or step in ("killed", "released", "removed"):
        until(lambda: d.running() == set())  # otherwise half of it is there; one that is ending is listed until it has ended
        running = set()
    if answered and step in START:
        assert running == {id}, "what was answered is lost"
    for one in running:
        _, fds = d.ask("connect", id=one)
        wire.close(fds)
        d.stop(one)
    until(lambda: not cgroups(id))
    again, answer, _, _ = d.begin(plan, id, driver=driver)  # nothing is in the way of the same id
    d.stop(again)
    assert not alive(answer.pid)


def test_killed_at_random(make, low):
    """Many rounds; whatever was answered is there, and so is what is found there and serves. Those that are ending are
    listed until they have ended."""
    d = make()
    known, stopping = {}, set()

    def serves(id):
        try:
            _, fds = d.ask("connect", id=id)
        except Refused:
            return False
        wire.close(fds)
        return True
    for round_ in range(int(os.environ.get("STOCKADE_ROUNDS", "12"))):
        d.start()
        running = d.running()
        missing = set(known) - running
        assert not missing, f"round {round_}: lost {missing}"
        known = {id: known.get(id) for id in running if id in known or id not in stopping and serves(id)}
        serials = {}
        for _ in range(4):
            id = new_id()
            serials[d.send_start(low, id)] = ("start", id)
        for id in random.sample(sorted(known), min(2, len(known))):
            serials[d.send("stop", id=id)] = ("stop", id)
            known.pop(id)
            stopping.add(id)
        end = time.monotonic() + random.random() * 0.06
        try:
            while time.monotonic() < end:
                m, fds = d.read(max(0.0, end - time.monotonic()))
                wire.close(fds)
                what, id = serials.pop(m.serial, (None, None))
                if what == "start" and m.error == 0:
                    known[id] = m.pid
        except AssertionError:
            pass
        d.kill()
    d.start()
    assert set(known) <= d.running()
    d.down()
    for pid in filter(None, known.values()):
        assert not alive(pid)
