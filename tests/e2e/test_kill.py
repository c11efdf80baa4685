"""kill -9 at any moment, of the launcher, of the keeper, of both: nothing outlives it."""
import os
import random
import signal
import time

import pytest

import harness

pytestmark = pytest.mark.long

# commands that try to stay: they fork, leave the session, ignore signals, hold files open, write
STAYERS = [
    "sleep 300",
    "(setsid sleep 300 &) ; (trap '' HUP TERM INT; sleep 300) & exec sleep 300",
    "for i in 1 2 3 4 5; do (setsid sh -c 'while :; do sleep 0.01; done' &) ; done; wait; sleep 300",
    "while :; do (sleep 300 &) ; sleep 0.001; done",
    "while :; do echo x > /tmp/$$.$RANDOM; cat /tmp/* > /dev/null; done",
]


def moments(count):
    """Delays in seconds: most while the sandbox is being made, some when it runs."""
    fixed = random.Random(4711)
    return [0.2 if i % 20 == 19 else fixed.uniform(0, 0.020) for i in range(count)]


def started(person, script, *options):
    return harness.start(person, *options, "--", "sh", "-c", script, stdin=-3, stdout=-3, stderr=-3)


def keeper_of(suite):
    return [pid for pid in suite.processes() if name_of(pid) == "stockade-keeper"]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.leaves
def test_launcher_killed_at_any_moment(who):
    suite = who.suite
    before = suite.digest()
    for i, delay in enumerate(moments(harness.rounds(100))):
        process = started(who, STAYERS[i % len(STAYERS)], "--processes", "40")
        time.sleep(delay)
        process.kill()
        process.wait()
        left = suite.left_since(before)
        assert not left, f"round {i}, killed after {delay * 1000:.1f} ms: {left}"


@pytest.mark.leaves
def test_launchers_killed_together(who):
    """Several runs at once, killed while others start and clean up: nobody takes what is another's."""
    suite = who.suite
    before = suite.digest()
    fixed = random.Random(1147)
    for _ in range(harness.rounds(10)):
        victims = [started(who, STAYERS[i % len(STAYERS)], "--processes", "20") for i in range(6)]
        survivors = []
        for victim in victims:
            time.sleep(fixed.uniform(0, 0.01))
            victim.kill()
            victim.wait()
            survivors.append(harness.start(who, "--", "sh", "-c", "read line; echo $line"))
        for survivor in survivors:
            out, err = survivor.communicate(b"alive\n", harness.ENOUGH * harness.SLOW)
            assert (survivor.returncode, out) == (0, b"alive\n"), f"a run that nobody touched ended: {err.decode()}"
    assert not suite.left_since(before)


@pytest.mark.leaves
def test_keeper_killed(who):
    """Without its keeper a run goes on and cleans up after itself."""
    suite = who.suite
    before = suite.digest()
    for i in range(harness.rounds(10)):
        process = harness.start(who, "--", "sh", "-c", "echo up; read line; echo $line")
        assert process.stdout.readline() == b"up\n"
        assert harness.until(lambda: keeper_of(suite))
        for keeper in keeper_of(suite):
            kill(keeper)
        # while it dies the launcher may still believe in it; then the next run would remove what is left
        assert harness.until(lambda: not keeper_of(suite))
        out, err = process.communicate(b"done\n", harness.ENOUGH * harness.SLOW)
        assert (out, process.returncode) == (b"done\n", 0), f"round {i}: {err!r}"
        left = suite.left_since(before)
        assert not left, left


@pytest.mark.leaves
def test_keeper_killed_at_any_moment(who):
    suite = who.suite
    before = suite.digest()
    for i, delay in enumerate(moments(harness.rounds(30))):
        process = started(who, "sleep 0.05")
        harness.until(lambda: keeper_of(suite) or process.poll() is not None, 1, 0)
        time.sleep(delay / 4)
        for keeper in keeper_of(suite):
            kill(keeper)
        assert process.wait(harness.ENOUGH * harness.SLOW) in (0, 125)
        left = suite.left_since(before, 0.3)
        if left:  # it was killed after the launcher had left the rest to it: then the next run does it
            harness.run(who, "--", "true").ok()
            left = suite.left_since(before)
        assert not left, f"round {i}: {left}"


@pytest.mark.leaves
def test_both_killed(who):
    """Launcher and keeper: the sandbox dies with them, and the next run removes what is left."""
    suite = who.suite
    before = suite.digest()
    for i, delay in enumerate(moments(harness.rounds(60))):
        process = started(who, STAYERS[i % len(STAYERS)], "--processes", "40")
        if i % 2:
            time.sleep(delay)
        else:  # aim at the time between the birth of the sandbox and its first instructions of its own
            harness.until(lambda: suite.cgroup_dirs() - set(before["cgroups"]), 1, 0)
            time.sleep(delay / 5)
        kill(process.pid)
        for keeper in keeper_of(suite):
            kill(keeper)
        process.wait()
        for keeper in keeper_of(suite):
            kill(keeper)
        assert harness.until(lambda: not suite.processes()), f"round {i}: {suite.processes()}"
        now = suite.digest()
        assert now["mounts"] == before["mounts"]
    harness.run(who, "--", "true").ok()
    left = suite.left_since(before)
    assert not left, f"the next run did not remove {left}"


@pytest.mark.leaves
def test_sweep_does_not_touch_the_living(who):
    """Runs that start while others run clean up only what has no owner."""
    suite = who.suite
    before = suite.digest()
    living = [harness.start(who, "--", "sh", "-c", "echo up; read line; echo $line") for _ in range(3)]
    try:
        for process in living:
            assert process.stdout.readline() == b"up\n"
        dead = started(who, "sleep 300")
        time.sleep(0.05)
        for keeper in keeper_of(suite):
            kill(keeper)
        dead.kill()
        dead.wait()
        for _ in range(3):
            harness.run(who, "--", "true").ok()
        for process in living:
            out, _ = process.communicate(b"still here\n", harness.ENOUGH * harness.SLOW)
            assert out == b"still here\n" and process.returncode == 0
    finally:
        for process in living:
            harness.stop(process)
    harness.run(who, "--", "true").ok()
    assert not suite.left_since(before)


@pytest.mark.leaves
def test_killed_with_a_workspace(who, place):
    """Half-made copies and half-applied changes: the folder is as before, or wholly changed; nothing else is left."""
    suite = who.suite
    (place / "file").write_text("old")
    os.chown(place / "file", who.uid, who.gid)
    before = suite.digest()
    for i, delay in enumerate(moments(harness.rounds(25))):
        process = harness.start(who, "--workspace", place, "--apply", "--", "sh", "-c", "echo new > file; echo x > added",
                                stdin=-3, stdout=-3, stderr=-3)
        time.sleep(delay * 3)
        process.kill()
        process.wait()
        harness.until(lambda: not suite.processes())
        # a journal of an apply that was cut short is finished or undone by the next one
        harness.run(who, "--workspace", place, "--apply", "--", "true").ok()
        left = suite.left_since(before)
        assert not left, f"round {i}: {left}"
        names = sorted(os.listdir(place))
        assert (names, (place / "file").read_text()) in ((["file"], "old"), (["added", "file"], "new\n")), names
        if names != ["file"]:
            (place / "added").unlink()
            (place / "file").write_text("old")


@pytest.mark.leaves
def test_killed_group(who):
    """kill -9 of the whole process group, as a job runner does."""
    suite = who.suite
    before = suite.digest()
    for delay in moments(harness.rounds(15)):
        process = harness.start(who, "--", "sh", "-c", STAYERS[1], stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        left = suite.left_since(before)
        assert not left, left


def test_rival_for_the_terminal_is_gone(who):
    """PID 1 killed from the host: the run ends with a word about it."""
    process = harness.start(who, "--", "sleep", "300.5")
    try:
        assert harness.until(lambda: [p for p, c in who.suite.processes().items() if c.startswith("stockade-guest")])
        guest = [p for p, c in who.suite.processes().items() if c.startswith("stockade-guest")]
        for pid in guest:
            kill(pid)
        assert process.wait(harness.ENOUGH * harness.SLOW) == 137
    finally:
        harness.stop(process)
