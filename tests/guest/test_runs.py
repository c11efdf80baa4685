"""Runs on pipes: streams byte for byte, back-pressure, signals, results, what they inherit, what outlives them."""
import errno
import hashlib
import os
import signal

import pytest

import frames
from client import ENOUGH, ENV, Broken, Request, until
from frames import ENDED, ERR, OPEN, OUT, RING, WINDOW


def test_streams_and_status(conn):
    run = conn.end(conn.sh("printf 'a\\0b'; printf err >&2; exit 7"))
    assert (run.out, run.err, run.code) == (b"a\0b", b"err", 7)
    assert run.pid > 1 and run.exited.error == 0 and run.exited.flags == 0
    assert run.exited.memory_peak > 100_000


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 255])
def test_exit_codes(conn, code):
    assert conn.end(conn.sh(f"exit {code}")).code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGUSR1, 64])
def test_signals_are_delivered(conn, number):
    run = conn.exec("sleep", "1000")
    conn.wait(lambda: run.pid)
    conn.signal(run, number)
    assert conn.end(run).code == -number


def test_signal_to_group(conn):
    run = conn.sh("sleep 1000 & sleep 1000 & echo up; wait")
    conn.wait(lambda: run.out)
    conn.signal(run, signal.SIGKILL, group=True)
    assert conn.end(run).code == -signal.SIGKILL
    until(lambda: not conn.list_runs()[run.number].flags & OPEN)  # nobody is left who could hold its output
    until(lambda: [m.number for m in conn.call("processes").items] == [1])


def test_signal_to_process_alone(conn):
    run = conn.sh("sleep 1000 & echo $!; wait")
    conn.wait(lambda: run.out.endswith(b"\n"))
    conn.signal(run, signal.SIGKILL)
    conn.end(run)
    assert run.exited.flags & OPEN  # the other one lives and holds its output
    assert conn.end(conn.sh(f"kill -9 {int(run.out)}")).code == 0


def test_signals_are_as_in_a_fresh_process(conn):
    run = conn.end(conn.exec("cat", "/proc/self/status"))
    masks = dict(line.split(b":\t") for line in run.out.splitlines() if line.startswith(b"Sig"))
    assert {masks[name] for name in (b"SigBlk", b"SigCgt", b"SigPnd")} == {b"0" * 16}
    assert int(masks[b"SigIgn"], 16) & 0x7fffffff == 0


@pytest.mark.parametrize("argv, cwd, expected, text", [
    (["no-such-program"], "/", errno.ENOENT, "No such file"),
    (["/no/such/program"], "/", errno.ENOENT, "No such file"),
    (["/etc/passwd"], "/", errno.EACCES, "Permission denied"),
    (["/etc"], "/", errno.EACCES, "Permission denied"),
    (["true"], "/no/such/folder", errno.ENOTDIR, "there is no such folder: '/no/such/folder'"),
    (["true"], "/etc/passwd", errno.ENOTDIR, "cannot change to the folder '/etc/passwd'"),
    ([""], "/", errno.ENOENT, "No such file"),
])
def test_what_cannot_be_started(conn, argv, cwd, expected, text):
    run = conn.end(conn.exec(*argv, cwd=cwd))
    assert run.exited.error == -expected and run.pid is None
    assert text in run.exited.text.decode()
    listed = conn.list_runs()[run.number]  # a successor learns it too
    assert listed.flags & ENDED and listed.error == -expected
    conn.forget(run)
    assert conn.list_runs() == {}


def test_names_in_sentences_are_inert(conn):
    run = conn.end(conn.exec("/no\x1b[31m\nsuch"))
    assert b"\x1b" not in run.exited.text and b"\n" not in run.exited.text


def test_environment_and_folder(conn, folder):
    run = conn.end(conn.exec("/usr/bin/env", env=["A=1", "B=x y", "EMPTY="], cwd=str(folder)))
    assert run.out == b"A=1\nB=x y\nEMPTY=\n"
    assert conn.end(conn.exec("pwd", cwd=str(folder))).out.strip() == str(folder).encode()


def test_program_is_looked_for_in_the_run_s_path(conn, folder):
    program = folder / "mine"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert conn.end(conn.exec("mine", env=[f"PATH={folder}"])).out == b"found\n"
    assert conn.end(conn.exec("mine", env=ENV)).exited.error == -errno.ENOENT


def test_nothing_is_inherited(conn):
    others = [conn.sh("cat", stdin=True) for _ in range(5)]
    run = conn.end(conn.sh("ls /proc/self/fd; ulimit -c >/dev/null; umask"))
    assert run.out.split() == [b"0", b"1", b"2", b"3", b"0022"]  # 3 is ls itself, reading that folder
    run = conn.end(conn.sh("readlink /proc/self/fd/0"))
    assert run.out == b"/dev/null\n"
    for other in others:
        conn.input_end(other)


def test_session_of_its_own(conn):
    run = conn.end(conn.exec("/bin/sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat"))
    pid, group, session = run.out.split()
    assert pid == group == session


def test_much_output_is_exact(conn):
    size = 50_000_000
    run = conn.exec("python3", "-c", f"""
import hashlib, os, sys
left, h = {size}, hashlib.sha256()
while left:
    piece = os.urandom(min(left, 1 << 16))
    h.update(piece)
    sys.stdout.buffer.write(piece)
    left -= len(piece)
sys.stderr.write(h.hexdigest())
""")
    conn.end(run, 120)
    assert len(run.out) == size and hashlib.sha256(run.out).hexdigest().encode() == run.err


def test_both_streams_at_once(conn):
    run = conn.sh("(i=0; while [ $i -lt 20000 ]; do echo out$i; i=$((i+1)); done) & "
                  "i=0; while [ $i -lt 20000 ]; do echo err$i; i=$((i+1)); done >&2; wait")
    conn.end(run)
    assert run.out == b"".join(b"out%d\n" % i for i in range(20000))
    assert run.err == b"".join(b"err%d\n" % i for i in range(20000))


def test_much_input_and_output(conn):
    data = os.urandom(1 << 20) * 50
    run = conn.exec("cat", stdin=True)
    conn.input(run, data)
    conn.input_end(run)
    conn.end(run, 120)
    assert len(run.out) == len(data)
    assert run.out == data


def test_input_waits_for_the_program(conn):
    run = conn.sh("sleep 0.5; wc -c", stdin=True)
    conn.input(run, b"x" * WINDOW)
    assert run.sent == WINDOW
    conn.input(run, b"y" * 300_000)  # needs credit, which comes when it reads
    conn.input_end(run)
    assert int(conn.end(run).out) == WINDOW + 300_000


def test_input_beyond_the_window_ends_the_connection(guest):
    with guest.connect() as conn:
        run = conn.exec("sleep", "1000", stdin=True)
        conn.wait(lambda: run.pid)
        with pytest.raises(Broken):
            for _ in range(8):
                run.sent += 60_000
                conn.send(frames.frame("input", run.number, data=b"x" * 60_000))
            conn.idle(ENOUGH)
    with guest.connect() as conn:
        assert list(conn.list_runs()) == [run.number]  # the run goes on


def test_input_to_a_closed_pipe_is_dropped(conn):
    run = conn.sh("exec <&-; sleep 0.3; echo done", stdin=True)
    conn.wait(lambda: run.pid)
    conn.idle(0.1)
    conn.input(run, b"x" * 500_000)
    conn.input_end(run)
    assert conn.end(run).out == b"done\n"


def test_input_end_is_seen(conn):
    run = conn.sh("cat; echo end", stdin=True)
    conn.input(run, b"some ")
    conn.input_end(run)
    assert conn.end(run).out == b"some end\n"


def test_without_input_it_is_empty(conn):
    assert conn.end(conn.sh("cat; echo end")).out == b"end\n"


def test_back_pressure_holds_the_program(conn):
    run = conn.exec("python3", "-uc", """
import os, time
n = full = 0
os.set_blocking(1, False)
while True:
    try:
        n += os.write(1, b'x' * 4096)
        full = 0
    except BlockingIOError:
        full += 1
        if full == 12:
            break
        time.sleep(0.15)
os.set_blocking(1, True)
os.write(2, b'%d' % n)
""")
    run.hold = True
    conn.wait(lambda: run.err)
    assert run.next(OUT) == WINDOW  # not a byte more without credit
    written = int(run.err)
    assert RING < written <= RING + 65536 + 4096, written  # the ring, and the kernel's pipe
    assert not run.exited
    run.hold = False
    conn.give(run, OUT)
    conn.end(run)
    assert len(run.out) == written  # not a byte less in the end


def test_slow_reader_gets_everything(conn):
    run = conn.exec("python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4000)")
    run.hold = True
    while not run.exited:
        before = run.next(OUT)
        conn.idle(0.02)
        run.credit[OUT] = min(run.next(OUT), run.credit[OUT] + 30_000)
        conn.send(frames.frame("credit", run.number, stream=OUT, offset=run.credit[OUT]))
        assert run.next(OUT) - before <= WINDOW
    assert run.out == bytes(range(256)) * 4000


def test_credit_for_what_was_never_sent_ends_the_connection(guest):
    with guest.connect() as conn:
        run = conn.sh("echo hello; sleep 1000")
        conn.wait(lambda: run.out)
        conn.send(frames.frame("credit", run.number, stream=OUT, offset=7))
        with pytest.raises(Broken):
            conn.idle(ENOUGH)


def test_exit_follows_the_output(conn):
    for _ in range(50):
        run = conn.sh("echo a; echo b >&2")
        conn.end(run)  # the client checks that newest is what has come
        assert (run.out, run.err) == (b"a\n", b"b\n")
        conn.forget(run)


def test_background_process_holds_the_output(conn, folder):
    run = conn.end(conn.sh(f"(while [ ! -e {folder}/go ]; do sleep 0.02; done; echo late) & echo now"))
    assert run.out == b"now\n" and run.exited.flags & OPEN
    (folder / "go").touch()
    conn.wait(lambda: run.out == b"now\nlate\n")


def test_background_process_behind_much_output(conn):
    run = conn.end(conn.sh("sleep 1000 & head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo $!"))
    assert len(run.out) > 1_000_000 == len(run.err) and run.exited.flags & OPEN
    run = conn.sh("sleep 1000 & head -c 90000 /dev/zero")
    run.hold = True
    conn.stays(lambda: not run.exited and len(run.out) == WINDOW)
    run.credit[OUT] = run.next(OUT)
    conn.send(frames.frame("credit", run.number, stream=OUT, offset=run.next(OUT)))  # once, and no more is needed
    conn.end(run)
    assert run.exited.flags & OPEN and len(run.out) == 90_000


def test_forgotten_run_s_background_process_lives(conn, folder):
    mark = folder / "mark"
    run = conn.end(conn.sh(f"(sleep 0.3; head -c 1000000 /dev/zero; echo ok > {mark}) & echo now"))
    conn.forget(run)
    assert conn.list_runs() == {}
    until(mark.exists)


def test_orphans_are_reaped(guest, conn):
    conn.end(conn.sh("for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 & sleep 0.05 &) ; done"))
    until(lambda: [m.number for m in conn.call("processes").items] == [1])  # no zombie is left


def test_a_thousand_orphans_at_once(guest, conn):
    conn.end(conn.sh("for i in $(seq 600); do (sleep 0.5 &); done; sleep 0.1"))
    until(lambda: len(conn.call("processes").items) == 1)


def test_ended_runs_hold_no_descriptors(guest, conn):
    before = len(os.listdir(f"/proc/{guest.own_pid}/fd"))
    runs = [conn.sh("true", stdin=True) for _ in range(10)] + [conn.sh("true", tty=(24, 80)) for _ in range(10)]
    for run in runs:
        conn.end(run)
    until(lambda: len(os.listdir(f"/proc/{guest.own_pid}/fd")) <= before)
    assert len(conn.list_runs()) == 20


def test_result_stays_until_forgotten(guest):
    with guest.connect() as first:
        run = first.end(first.sh("echo kept; exit 9"))
    with guest.connect() as second:
        listed = second.list_runs()[run.number]
        assert listed.flags & ENDED and os.waitstatus_to_exitcode(listed.number) == 9
        again = second.attach(listed, {OUT: 0, ERR: 0})
        second.end(again)
        assert again.out == b"kept\n" and again.code == 9
        second.forget(again)
        assert second.list_runs() == {}


def test_forget_of_a_living_run_is_ignored(conn):
    run = conn.exec("sleep", "1000")
    conn.wait(lambda: run.pid)
    conn.send(frames.frame("forget", run.number))
    assert list(conn.list_runs()) == [run.number]
    conn.signal(run, 9)
    conn.end(run)


def test_same_number_twice_ends_the_connection(guest):
    with guest.connect() as conn:
        run = conn.exec("sleep", "1000")
        conn.wait(lambda: run.pid)
        with pytest.raises(Broken):
            conn.exec("true", number=run.number)
            conn.idle(ENOUGH)


def test_many_runs_at_once(conn):
    runs = [conn.sh(f"sleep 0.2; echo {i}; exit {i % 256}") for i in range(200)]
    for i, run in enumerate(runs):
        conn.end(run)
        assert run.out == b"%d\n" % i and run.code == i % 256


def test_nothing_stalls_when_a_full_connection_empties(conn):
    """Once in some hundred floods the peer emptied the socket in the middle of a turn in which nobody could say more, and
    then nobody went on. No credit is given here: nothing but the guest itself makes it go on."""
    take = conn.take
    conn.take = lambda: take(65536)
    for _ in range(200):
        runs = [conn.sh("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2") for _ in range(20)]
        for run in runs:
            run.hold = True
        conn.wait(lambda: all(run.exited for run in runs))
        for run in runs:
            conn.forget(run)


def test_too_many_runs(conn):
    runs = [conn.exec("true") for _ in range(frames.RUNS_MAX + 3)]
    for run in runs:
        conn.end(run)
    assert [r.exited.error for r in runs[-3:]] == [-errno.EAGAIN] * 3
    assert {r.exited.error for r in runs[:-3]} == {0}
    assert b"forget" in runs[-1].exited.text
    assert len(conn.list_runs()) == frames.RUNS_MAX
    for run in runs:
        conn.forget(run)
    assert conn.end(conn.sh("exit 4")).code == 4


def leaf(path):
    return os.open(path, os.O_WRONLY)


def test_leaves_are_entered_first(conn, folder):
    paths = [folder / name for name in ("a", "b", "c")]
    for path in paths:
        path.touch()
    fds = [leaf(path) for path in paths]
    run = conn.exec("cat", *map(str, paths), fds=fds)
    for fd in fds:
        os.close(fd)
    assert conn.end(run).out == b"000"  # written before it was executed


def test_run_that_cannot_enter_is_not_started(conn, folder):
    mark = folder / "mark"
    read_only = os.open("/dev/null", os.O_RDONLY)
    run = conn.end(conn.sh(f"touch {mark}", fds=[read_only]))
    assert run.exited.error == -errno.EBADF and b"cgroup" in run.exited.text
    full = os.open("/dev/full", os.O_WRONLY)
    run = conn.end(conn.sh(f"touch {mark}", fds=[full, read_only]))
    assert run.exited.error == -errno.ENOSPC
    os.close(read_only)
    os.close(full)
    assert not mark.exists()
    assert conn.end(conn.sh("ls /proc/1/fd | wc -l; ls /proc/self/fd | wc -l")).out.split()[1] == b"4"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a cgroup")
def test_real_cgroup(conn):
    base = "/sys/fs/cgroup/unified" if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs") else "/sys/fs/cgroup"
    group = os.path.join(base, f"stockade-guest-test-{os.getpid()}")
    os.mkdir(group)
    try:
        fd = leaf(os.path.join(group, "cgroup.procs"))
        run = conn.end(conn.sh("cat /proc/self/cgroup", fds=[fd]))
        os.close(fd)
        assert os.path.basename(group).encode() in run.out
    finally:
        os.rmdir(group)


def test_descriptors_that_no_frame_claims(guest):
    null = os.open("/dev/null", os.O_RDONLY)
    until(lambda: "3" not in os.listdir(f"/proc/{guest.own_pid}/fd"))
    before = len(os.listdir(f"/proc/{guest.own_pid}/fd"))
    with guest.connect() as conn:
        with pytest.raises(Broken):
            for _ in range(20):
                request = conn.requests[conn.next_request] = Request(conn.next_request)
                conn.next_request += 1
                conn.send(frames.frame("list-runs", request.channel), fds=[null] * 8)
                conn.finish_of(request)
    os.close(null)
    until(lambda: len(os.listdir(f"/proc/{guest.own_pid}/fd")) == before)


def test_exec_that_claims_more_than_came(guest):
    with guest.connect() as conn:
        with pytest.raises(Broken):
            conn.send(frames.frame("exec", 1, fds=2, path="/", words=(["true"], [])))
            conn.idle(ENOUGH)


def test_long_command_lines(conn):
    words = ["x" * 100] * 1000
    run = conn.end(conn.exec("python3", "-c", "import sys; print(len(sys.argv), sum(map(len, sys.argv)))", *words))
    assert run.out.split()[0] == b"1001"
    run = conn.end(conn.exec("printenv", "BIG", env=[*ENV, "BIG=" + "y" * 120_000]))
    assert len(run.out) == 120_001
    run = conn.end(conn.exec("true", "z" * 140_000))  # more than the kernel takes in one word
    assert run.exited.error == -errno.E2BIG
