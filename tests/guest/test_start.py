"""Between EXEC and the program's first step: code inside can stop or kill the process that is to become it, and nobody
but that run may notice. A leaf that cannot be written to holds a process at that point for as long as a test likes."""
import errno
import os
import signal
import time

import pytest

import frames
from client import until
from frames import ENDED, OUT
from stopwatch import Stopwatch

STORM = """
import os, signal, sys, time
print("up", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:
        pass
"""


class Gate:
    """A full pipe in the place of a leaf's file: who writes to it waits."""

    def __init__(self):
        self.read_end, self.fd = os.pipe()
        os.set_blocking(self.fd, False)
        try:
            while True:
                os.write(self.fd, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(self.fd, True)

    def open(self):
        os.read(self.read_end, 1 << 20)

    def close(self):
        os.close(self.read_end)
        os.close(self.fd)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.close()


def waiting(guest):
    """The process that waits there."""
    def find():
        with open(f"/proc/{guest.own_pid}/task/{guest.own_pid}/children") as f:
            found.extend(f.read().split())
        return found
    found = []
    until(find)
    assert len(found) == 1
    return int(found[0])


def is_held(run):
    return run.pid is None and not run.exited


def test_a_start_that_waits_holds_up_nobody(guest, conn, gate):
    run = conn.sh("echo $$", fds=[gate.fd])
    assert conn.end(conn.sh("echo other")).out == b"other\n"
    assert not conn.list_runs()[run.number].flags & ENDED and is_held(run)
    gate.open()
    assert conn.end(run).out == b"%d\n" % run.pid


def test_a_stopped_start_goes_on(guest, conn, gate):
    run = conn.sh("echo on", fds=[gate.fd])
    pid = waiting(guest)
    os.kill(pid, signal.SIGSTOP)
    gate.open()
    assert conn.end(conn.sh("echo other")).out == b"other\n"
    assert conn.end(run).out == b"on\n" and run.code == 0


def test_a_start_is_given_up(guest, conn, gate):
    run = conn.exec("true", fds=[gate.fd])
    pid = waiting(guest)
    before = time.monotonic()
    conn.end(run)
    assert time.monotonic() - before > 5
    assert run.exited.error == -errno.ETIMEDOUT and run.pid is None
    assert run.exited.text.startswith(b"could not start: ")
    until(lambda: not os.path.exists(f"/proc/{pid}"))  # ended and reaped
    assert conn.list_runs()[run.number].error == -errno.ETIMEDOUT
    conn.forget(run)
    assert conn.list_runs() == {}


def test_a_storm_of_stops(guest, conn):
    """Nothing that a run does to the others keeps the guest from its work."""
    storm = conn.exec("python3", "-c", STORM, "60")
    conn.wait(lambda: storm.out)
    runs, times, begin, own = [], [], time.monotonic(), guest.own_pid
    while len(runs) <= 30 or time.monotonic() - begin < 4:
        runs.append(conn.exec("true"))
        watch = Stopwatch(own)
        conn.list_runs()
        times.append(watch.seconds)
        conn.idle(0.02)
    assert not storm.exited and max(times) < 2, times
    conn.signal(storm, signal.SIGKILL)
    conn.end(storm)
    conn.wait(lambda: not any(is_held(run) for run in runs))
    for run in runs:
        if not run.exited:  # stopped behind its start, which is its own trouble
            conn.signal(run, signal.SIGKILL)
        conn.end(run)
        conn.forget(run)


def test_a_start_that_is_killed(guest, conn, gate):
    run = conn.exec("true", fds=[gate.fd])
    os.kill(waiting(guest), signal.SIGKILL)
    assert conn.end(run).code == -signal.SIGKILL


def test_early_signals(guest, conn, gate):
    run = conn.exec("sleep", "1000", fds=[gate.fd])
    conn.signal(run, signal.SIGTERM, group=True)
    conn.idle(0.2)
    assert is_held(run)
    gate.open()
    assert conn.end(run).code == -signal.SIGTERM and run.pid


@pytest.mark.parametrize("group", [False, True])
def test_an_early_kill_does_not_wait(guest, conn, gate, group):
    run = conn.exec("sleep", "1000", fds=[gate.fd])
    conn.signal(run, signal.SIGKILL, group=group)
    assert conn.end(run).code == -signal.SIGKILL


def test_early_input_and_size(guest, conn, gate):
    run = conn.sh("stty size; cat", tty=(10, 20), fds=[gate.fd])
    conn.resize(run, 33, 77)
    conn.input(run, b"hello\n\4")
    gate.open()
    assert b"33 77" in conn.end(run).out and b"hello" in run.out


@pytest.mark.parametrize("program, error", [("cat", 0), ("no-such-program", -errno.ENOENT)])
def test_a_new_connection_while_it_starts(guest, gate, program, error):
    """It did not ask for the run: it is told its end, not its start."""
    with guest.connect() as first:
        first.exec(program, stdin=True, fds=[gate.fd])
        waiting(guest)
    with guest.connect() as second:
        listed = second.list_runs()[1]
        assert not listed.flags & ENDED
        run = second.attach(listed, {OUT: 0})
        gate.open()
        second.input_end(run)
        assert second.end(run).exited.error == error


def test_input_of_a_run_that_never_began(conn):
    """What was sent before anybody could know is dropped, however much it is."""
    run = conn.exec("no-such-program", stdin=True)
    for _ in range(3):
        run.sent += 20_000
        conn.send(frames.frame("input", run.number, data=b"x" * 20_000))
    assert conn.end(run).exited.error == -errno.ENOENT
    for _ in range(2):
        run.sent += 1
        conn.send(frames.frame("input", run.number, data=b"x"))
    assert conn.list_runs()[run.number].error == -errno.ENOENT
