"""Runs on a terminal: job control, size, scrollback, and coming back to it after any loss of the connection."""
import signal
import time

import frames
from client import until
from frames import SCROLLBACK, TTY, WINDOW


def test_echo_and_end(conn):
    run = conn.sh("read x; echo got:$x; read y || echo end", tty=(24, 80))
    conn.input(run, b"hello\n")
    conn.wait(lambda: b"got:hello" in run.out)
    assert run.out == b"hello\r\ngot:hello\r\n"
    conn.input_end(run)
    conn.end(run)
    assert run.out.endswith(b"end\r\n") and run.code == 0


def test_size_and_resize(conn):
    run = conn.sh("stty size; trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.05; done", tty=(33, 111))
    conn.wait(lambda: b"up" in run.out)
    assert run.out.startswith(b"33 111\r\n")
    conn.resize(run, 50, 200)
    conn.end(run)
    assert run.out.endswith(b"50 200\r\n")


def test_size_that_was_not_said(conn):
    assert conn.end(conn.sh("stty size", tty=(0, 0))).out == b"24 80\r\n"


def test_controlling_terminal_and_interrupt(conn):
    run = conn.sh("tty; echo here >/dev/tty; sleep 1000", tty=(24, 80))
    conn.wait(lambda: b"here" in run.out)
    assert run.out.startswith(b"/dev/pts/")
    conn.press(run, b"\x03", lambda: run.exited)
    assert conn.end(run).code == -signal.SIGINT


def test_job_control_in_a_shell(conn):
    run = conn.exec("bash", "--norc", "-i", tty=(24, 80), env=["PATH=/usr/bin:/bin", "PS1=> ", "TERM=dumb"])
    conn.wait(lambda: b"> " in run.out)
    conn.input(run, b"sleep 1000\n")
    conn.wait(lambda: b"sleep 1000" in run.out)
    conn.press(run, b"\x1a", lambda: b"Stopped" in run.out and run.out.endswith(b"> "))
    seen = run.out.count(b"sleep 1000")
    conn.input(run, b"fg\n")
    conn.wait(lambda: run.out.count(b"sleep 1000") > seen)
    conn.press(run, b"\x03", lambda: run.out.endswith(b"> "))
    conn.press(run, b"exit 5\n", lambda: run.exited)
    assert conn.end(run).code == 5


def test_stderr_is_the_terminal(conn):
    assert conn.end(conn.sh("echo e >&2; test -t 0 && test -t 1 && test -t 2", tty=(24, 80))).code == 0


def test_closing_hangs_up(conn):
    run = conn.sh("trap '' HUP; (sleep 0.4; echo late) & echo now", tty=(24, 80))
    conn.end(run)
    assert b"now" in run.out  # what a background process says later goes nowhere or comes: both are right
    conn.idle(0.6)


def test_erasing_takes_whole_characters(conn):
    run = conn.sh("read x; printf %s \"$x\" | od -An -tx1", tty=(24, 80))
    conn.wait(lambda: run.pid)
    conn.idle(0.2)
    conn.input(run, "aä\x7fb\n".encode())
    conn.end(run)
    assert b" 61 62" in run.out


def test_scrollback_while_nobody_is_there(guest):
    with guest.connect() as first:
        run = first.exec("python3", "-uc", """
import sys
sys.stdin.readline()
for i in range(100000):
    print(f'{i:07}')
print('done')
sys.stdin.readline()
""", tty=(24, 80))
        first.input(run, b"\n")
        first.wait(lambda: len(run.out) > 1000)
    time.sleep(0.2)
    with guest.connect() as second:
        def all_written():
            listed = second.list_runs()[run.number]
            return listed if listed.newest2 == 2 + 100000 * 9 + 6 else None
        until(all_written)  # it never waited for us
        listed = all_written()
        assert listed.newest2 - listed.oldest2 == SCROLLBACK
        again = second.attach(listed, {TTY: len(run.out)})
        second.wait(lambda: again.next(TTY) == listed.newest2)
        assert again.began[TTY] == listed.oldest2 > len(run.out)
        whole = b"\r\n" + b"".join(b"%07d\r\n" % i for i in range(100000)) + b"done\r\n"
        assert again.out == whole[again.began[TTY]:]
        again.sent, again.taken = listed.offset, listed.length
        second.input(again, b"\n")
        assert second.end(again).code == 0


def test_comes_back_exactly(guest):
    """The connection is lost again and again in the middle of output: not a byte is missing or twice."""
    script = "import sys, time\nfor i in range(30000):\n    print(i, flush=i % 100 == 0)\n    if i % 100 == 0: time.sleep(0.002)\n"
    got, run = b"", None
    for turn in range(200):
        with guest.connect() as conn:
            if turn == 0:
                run = conn.exec("python3", "-c", script, tty=(24, 80))
                number = run.number
            else:
                run = conn.attach(conn.list_runs()[number], {TTY: len(got)})
                assert run.began[TTY] == len(got)
            conn.wait(lambda: run.exited or len(run.out) > 3000 + 700 * turn % 5000)
            got += run.out
            if run.exited:
                break
    assert got == b"".join(b"%d\r\n" % i for i in range(30000))
    assert turn > 3


def test_attached_terminal_waits_for_a_slow_reader(conn):
    run = conn.exec("python3", "-c", "import sys; sys.stdout.write('0123456789abcde\\n' * 60000)", tty=(24, 80))
    run.hold = True
    conn.stays(lambda: run.next(TTY) == WINDOW and not run.exited)
    run.hold = False
    conn.give(run, TTY)
    conn.end(run)
    assert run.out == b"0123456789abcde\r\n" * 60000


def test_attach_from_the_middle_and_beyond(guest):
    with guest.connect() as first:
        run = first.sh("printf 0123456789; sleep 1000", tty=(24, 80))
        first.wait(lambda: len(run.out) == 10)
    with guest.connect() as conn:
        listed = conn.list_runs()[run.number]
        for offset, expected in ((4, b"456789"), (0, b"0123456789"), (10, b""), (99, b"")):
            again = conn.attach(listed, {TTY: offset})
            conn.stays(lambda: again.out == expected, 0.1)
        conn.signal(again, 9)
        conn.end(again)


def test_input_survives_the_connection(guest):
    with guest.connect() as first:
        run = first.exec("python3", "-c", "import time, sys; time.sleep(0.5); print(len(sys.stdin.buffer.read()))",
                         stdin=True)
        first.input(run, b"x" * WINDOW)  # into the kernel's pipe
        first.wait(lambda: run.taken)
        first.input(run, b"y" * run.taken)  # some of it into the guest's ring
    with guest.connect() as second:
        listed = second.list_runs()[run.number]
        assert listed.offset == run.sent
        again = second.attach(listed, {})
        second.input(again, b"z" * 100_000)
        second.input_end(again)
        assert int(second.end(again).out) == run.sent + 100_000


def test_many_terminals(conn):
    runs = [conn.sh(f"read x; echo $x-{i}", tty=(24, 80)) for i in range(40)]
    for i, run in enumerate(runs):
        conn.input(run, b"%d\n" % i)
    for i, run in enumerate(runs):
        conn.end(run)
        assert run.out.endswith(b"%d-%d\r\n" % (i, i))
