"""The connection itself: who breaks the rules loses it and nothing else; a newer one takes the place of the older."""
import os
import random
import socket
import struct

import pytest

import frames
from client import ENOUGH, PROGRAM, Broken, Connection, Guest, Request, until
from frames import ERR, OUT, TTY, frame, raw
from stopwatch import Stopwatch


def test_nobody_wrote_us_down():
    """End of file instead of the byte on descriptor 3: the guest goes at once."""
    guest = Guest(wrapper=[], say_go=False)
    guest.report.close()
    until(lambda: not guest.is_alive())
    os.unlink(guest.path)
    os.rmdir(guest.folder)


def test_report_and_descriptors(guest):
    until(lambda: "3" not in os.listdir(f"/proc/{guest.own_pid}/fd"))
    assert guest.status("SigBlk").startswith("ffff") or int(guest.status("SigBlk"), 16) & 0x7fffffff


def test_not_dumpable(conn):
    run = conn.end(conn.sh("stat -c %U /proc/1/fd; cat /proc/1/environ | wc -c", stdin=False))
    assert run.code == 0


def test_old_mode_wants_its_arguments():
    pid = os.posix_spawn(PROGRAM, [PROGRAM, "/"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, "/dev/null", 0, 0)])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 125


def test_hello_comes_first(guest):
    with guest.connect(hello=False) as conn:
        conn.wait(lambda: conn.hello)  # theirs, unasked
        with pytest.raises(Broken):
            conn.send(frame("list-runs", 1))
            conn.idle(ENOUGH)


def test_hello_twice(guest):
    with guest.connect() as conn:
        with pytest.raises(Broken):
            conn.send(frame("hello", version=1))
            conn.idle(ENOUGH)


def test_newer_version_is_welcome(guest):
    with guest.connect(hello=False) as conn:
        conn.send(frame("hello", version=7, features=0xffffffff))
        assert conn.end(conn.sh("exit 3")).code == 3


GARBAGE = {
    "zeros": bytes(64),
    "text": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "huge": raw(2, 5, size=0xffffffff),
    "over": raw(2, 5, size=frames.PAYLOAD_MAX + 1),
    "kind 0": raw(0, 5),
    "kind 15": raw(15, 5),
    "kind 65535": raw(65535, 5),
    "reserved": b"\0\0\0\0\x17\0\1\0\5\0\0\0\0\0\0\0",
    "channel 0": raw(frames.KINDS["list-runs"][0], 0),
    "unknown flag": raw(frames.KINDS["list-runs"][0], 5, flags=1 << 30),
    "trailing": raw(frames.KINDS["list-runs"][0], 5, b"\0"),
    "relative path": frame("stat", 5, path="etc/passwd"),
    "no NUL": raw(32, 5, b"\1\0\0\0/x"),
    "NUL inside": raw(32, 5, b"\3\0\0\0/\0x\0"),
    "long path": frame("stat", 5, path="/" + "a" * 4095),
    "exec of nothing": frame("exec", 5, path="/", words=([], [])),
    "exec of too many": frame("exec", 5, path="/", words=(["x"] * 1025, [])),
    "signal 0": frame("signal", 5, number=0),
    "signal 65": frame("signal", 5, number=65),
    "port 0": frame("connect", 5, port=0),
    "empty data": frame("data", 5, data=b""),
    "credit of input": frame("credit", 5, stream=3, offset=1),
    "credit of no stream": frame("credit", 5, stream=9, offset=1),
    "their own: output": frame("output", 5, stream=0, offset=0, data=b"x"),
    "their own: end": frame("end", 5),
    "their own: started": frame("started", 5, number=1),
    "their own: run": frame("run", 5, run=1),
    "mode": frame("write", 5, mode=0o100644, path="/tmp/x"),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage(guest, garbage):
    with guest.connect() as conn:
        run = conn.exec("sleep", "1000")
        conn.wait(lambda: run.pid)
        with pytest.raises(Broken):
            conn.send(garbage)
            conn.idle(ENOUGH)
    with guest.connect() as conn:
        assert list(conn.list_runs()) == [run.number]


def test_random_bytes(guest):
    rng = random.Random(5)
    for _ in range(100):
        with guest.connect() as conn:
            try:
                conn.send(rng.randbytes(rng.randrange(1, 5000)))
                conn.idle(0.005)
            except Broken:
                pass


def test_changed_frames(guest, folder):
    """Right frames with bits turned: whatever comes of it, the guest lives and answers the next."""
    rng = random.Random(7)
    good = [frame("stat", 900, path=str(folder)), frame("list", 900, path=str(folder)), frame("processes", 900),
            frame("read", 900, path="/etc/passwd", offset=0, length=100), frame("cancel", 900), frame("finish", 900),
            frame("credit", 900, stream=4, offset=0), frame("attach", 3, stream=0, offset=0),
            frame("resize", 3, rows=1, cols=1), frame("input-end", 3), frame("list-runs", 900)]
    conn = guest.connect()
    conn.deal = lambda m: None
    for _ in range(3000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(8, len(data))] ^= 1 << rng.randrange(8)  # the size stays
        try:
            conn.send(data)
        except Broken:
            conn.close()
            conn = guest.connect()
            conn.deal = lambda m: None
    conn.close()


def test_frames_in_pieces(guest):
    with guest.connect() as conn:
        request = conn.requests[5] = Request(5)
        for byte in frame("stat", 5, path="/etc"):
            conn.send(bytes([byte]))
        conn.finish_of(request)
        assert request.items[0].path == b"/etc"


def test_unknown_channels_are_ignored(conn):
    for kind, fields in (("input", {"data": b"x"}), ("input-end", {}), ("signal", {"number": 9}), ("forget", {}),
                         ("resize", {"rows": 1, "cols": 1}), ("attach", {"stream": 0, "offset": 0}),
                         ("credit", {"stream": 0, "offset": 5}), ("credit", {"stream": 4, "offset": 5}),
                         ("data", {"data": b"x"}), ("finish", {}), ("cancel", {})):
        conn.send(frame(kind, 4711, **fields))
    assert conn.end(conn.sh("exit 6")).code == 6


def test_too_many_requests(conn, folder):
    watches = [conn.ask("watch", path=str(folder)) for _ in range(frames.REQUESTS_MAX)]
    conn.wait(lambda: all(w.opened for w in watches))
    over = conn.call("stat", path="/")
    assert over.end.error == -11 and b"too many" in over.end.text
    conn.cancel(watches[0])
    assert conn.finish_of(watches[0]).error == -125
    assert conn.call("stat", path="/").end.error == 0


def test_same_channel_twice(guest, folder):
    with guest.connect() as conn:
        watch = conn.ask("watch", path=str(folder))
        conn.wait(lambda: watch.opened)
        with pytest.raises(Broken):
            conn.send(frame("stat", watch.channel, path="/"))
            conn.idle(ENOUGH)


def test_newer_connection_takes_over(guest, folder):
    with guest.connect() as old:
        run = old.sh("echo before; read x; echo after", stdin=True)
        old.wait(lambda: run.out)
        watch = old.ask("watch", path=str(folder))
        reading = old.ask("read", path="/dev/zero", offset=0, length=1)
        writing = old.ask("write", path=str(folder / "half"), mode=0o600)
        old.data(writing, b"x" * 1000)
        old.wait(lambda: watch.opened and reading.end)
        assert len(list(folder.iterdir())) == 1  # the temporary file
        with guest.connect() as new:
            with pytest.raises(Broken):
                old.idle(ENOUGH)
            assert list(folder.iterdir()) == []  # what was begun left nothing
            again = new.attach(new.list_runs()[run.number], {OUT: run.next(OUT), ERR: 0})
            new.input(again, b"\n")
            new.end(again)
            assert again.out == b"after\n"


def test_replaced_in_the_middle_of_everything(guest, folder):
    """Twenty connections, each taking over while runs, terminals, archives, watches and ports are busy."""
    for i in range(50):
        (folder / f"file{i}").write_bytes(os.urandom(100_000))
    server = socket.create_server(("127.0.0.1", 0))
    rng, numbers, old = random.Random(11), [], None
    for turn in range(20):
        conn = guest.connect()
        listed = conn.list_runs()
        assert set(numbers) == set(listed)
        for number in numbers:
            conn.attach(listed[number], {})
        conn.next_run = 100 * turn + 1
        runs = [conn.sh("cat /dev/zero | head -c 3000000; sleep 1000"),
                conn.sh("while :; do echo tick; sleep 0.01; done", tty=(24, 80)), conn.sh("cat", stdin=True)]
        conn.input(runs[2], b"y" * 30_000)
        for kind, fields in (("tar-out", {"path": str(folder)}), ("watch", {"path": str(folder)}), ("processes", {}),
                             ("connect", {"port": server.getsockname()[1]}), ("list", {"path": "/usr/bin"}),
                             ("write", {"path": str(folder / "new"), "mode": 0o600}), ("tar-in", {"path": str(folder)})):
            conn.ask(kind, **fields)
        conn.idle(rng.random() * 0.1)
        numbers += [r.number for r in runs]
        if old:
            old.close()
        old = conn
    old.close()
    with guest.connect() as conn:
        listed = conn.list_runs()
        assert set(listed) == set(numbers)
        for number in numbers:
            run = conn.attach(listed[number], {})
            conn.signal(run, 9, group=True)
        for run in list(conn.runs.values()):
            conn.end(run)
            conn.forget(run)
        assert conn.list_runs() == {}
    assert sorted(p.name for p in folder.iterdir()) == sorted(f"file{i}" for i in range(50))
    server.close()


def test_peer_that_asks_and_does_not_listen(guest):
    """Its answers are not piled up: it is not read from any more, and the guest stays small."""
    with guest.connect() as conn:
        conn.take = lambda *a: False
        conn.timeout = 2
        with pytest.raises(TimeoutError):
            for i in range(20000):
                conn.send(frame("processes", 100_000 + i))
                conn.send(frame("stat", 200_000 + i, path="/" + "x" * 2000))
        guest.stays_below(2000)
    with guest.connect() as conn:
        assert conn.end(conn.sh("exit 2")).code == 2


def test_fairness(guest, folder):
    """A terminal answers quickly while archives and floods are under way."""
    for i in range(200):
        (folder / f"f{i}").write_bytes(bytes(1_000_000))
    with guest.connect() as conn:
        packs = [conn.ask("tar-out", path=str(folder)) for _ in range(3)]
        flood = conn.sh("cat /dev/zero")
        for source in [*packs, flood]:
            source.keep = False
        shell = conn.sh("while read x; do echo $x; done", tty=(24, 80))
        conn.wait(lambda: shell.pid)
        times, served_by = [], (guest.own_pid, guest.outside(shell))
        for i in range(20):
            watch = Stopwatch(*served_by)
            conn.input(shell, b"ping%d\n" % i)
            conn.wait(lambda: b"ping%d\r\nping%d\r\n" % (i, i) in shell.out)
            times.append(watch.seconds)
        assert not any(p.end for p in packs)  # they were busy all the time
        assert min(p.received for p in packs) > max(p.received for p in packs) / 4 > 0  # and took turns
        assert max(times) < 1.0, times
        conn.signal(flood, 9, group=True)


def test_descriptors_run_out(guest):
    """At its limit of descriptors the guest refuses runs with a sentence, and a successor can still connect."""
    import resource
    resource.prlimit(guest.own_pid, resource.RLIMIT_NOFILE, (40, 40))
    with guest.connect() as conn:
        runs = [conn.sh("cat", stdin=True) for _ in range(10)]
        conn.wait(lambda: all(r.pid or r.exited for r in runs))
        failed = [r for r in runs if r.exited]
        assert 0 < len(failed) < 10 and {r.exited.error for r in failed} == {-24}
        null = os.open("/dev/null", os.O_WRONLY)  # and it can still be given descriptors
        assert conn.end(conn.sh("true", fds=[null] * 8)).exited.error == -24
        os.close(null)
        for _ in range(3):
            with guest.connect() as other:
                listed = other.list_runs()
                assert len(listed) == 11
        with guest.connect() as last:
            for m in last.list_runs().values():
                run = last.attach(m, {})
                last.signal(run, 9)
            last.wait(lambda: all(r.exited for r in last.runs.values()))
            for run in list(last.runs.values()):
                last.forget(run)
            assert last.end(last.sh("exit 8", number=99)).code == 8
