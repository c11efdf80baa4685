"""How much memory a guest takes: at rest, at work, and afterwards."""
import os

import pytest

from client import PROGRAM, until
from frames import ERR, OUT

with open(PROGRAM, "rb") as program:
    pytestmark = pytest.mark.skipif(b"__asan_init" in program.read(), reason="a sanitizer's memory is its own")

REST = 300    # KiB that are promised
PRIVATE = 64  # of which are not the program's own pages, which all guests share


def private(guest):
    with open(f"/proc/{guest.own_pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Anonymous:"))


def rests(guest):
    until(lambda: guest.rss() < REST and private(guest) < PRIVATE)


def test_at_rest(guest):
    rests(guest)
    with guest.connect():
        rests(guest)


def test_after_many_runs(guest, conn):
    for _ in range(20):
        runs = [conn.sh("head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2") for _ in range(20)]
        for run in runs:
            conn.end(run)
            conn.forget(run)
    conn.list_runs()
    rests(guest)


def test_results_that_are_kept_are_small(guest, conn):
    runs = [conn.sh("echo x; exit 3") for _ in range(300)]
    for run in runs:
        conn.end(run)
        for stream in (OUT, ERR):
            conn.give(run, stream, 1)
    until(lambda: guest.rss() < REST + 300)  # about a KiB each


def test_after_much_output(guest, conn):
    run = conn.sh("head -c 20000000 /dev/zero; read x", stdin=True)
    conn.wait(lambda: run.next(OUT) == 20_000_000)
    conn.give(run, OUT, 1)
    rests(guest)  # although the run is still there
    conn.input_end(run)
    conn.end(run)


def test_after_files(guest, conn, folder):
    (folder / "f").write_bytes(os.urandom(5_000_000))
    archive = bytes(conn.pack(str(folder)).data)
    (folder / "d").mkdir()
    for _ in range(10):
        assert conn.unpack(str(folder / "d"), archive).error == 0
        conn.get(str(folder / "f"))
        conn.put(str(folder / "g"), archive)
    rests(guest)


def test_while_floods_wait(guest, conn):
    """Full rings of many runs: what is promised of each, and no more."""
    runs = [conn.sh("cat /dev/zero") for _ in range(50)]
    for run in runs:
        run.hold = True
    conn.wait(lambda: all(len(run.out) == 65536 for run in runs))
    guest.stays_below(50 * 64 + 1500)
    for run in runs:
        conn.signal(run, 9, group=True)


def test_no_processor_time_at_rest(guest, conn):
    conn.end(conn.sh("echo x"))
    conn.idle(0.5)

    def ticks():
        with open(f"/proc/{guest.own_pid}/stat") as f:
            fields = f.read().rsplit(")")[1].split()
        return int(fields[11]) + int(fields[12])

    def switches():
        return int(guest.status("voluntary_ctxt_switches"))

    for _ in range(10):  # where all is slow, it comes to rest a little later
        before = ticks(), switches()
        conn.idle(2)
        if ticks() == before[0] and switches() - before[1] <= 1:
            return
    assert False, "it is never at rest"
