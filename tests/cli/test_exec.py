"""Streams, signals, terminals, and coming back after the connection broke."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest

from fake import frame


def ended(code=0, **more):
    return {"sandbox": "s", "run": 7, "state": "ended", "reason": "exited", "exit_code": code, "signal": None, **more}


def test_streams_are_exact(operator, run):
    every = bytes(range(256)) * 1000

    def cat(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        data = c.everything()
        for start in range(0, len(data), 60000):
            c.send("output", data[start:start + 60000])
        c.send("errors", data[:1000])
        c.send("output", b"")
        c.ok(ended(3))
    operator.on("exec", cat)
    done = run("exec", "-i", "s", "--", "cat", "-x", "--", "y", input=every)
    assert done.status == 3 and done.out == every and done.err == every[:1000]
    assert operator.requests == [{"verb": "exec", "sandbox": "s", "argv": ["cat", "-x", "--", "y"], "stdin": True}]


def test_without_i_nothing_is_read(operator, client):
    seen = []

    def exec_(c, q):
        seen.append(q["stdin"])
        c.ok(ended())
    operator.on("exec", exec_)
    process = client.popen("exec", "s", "true")  # its standard input stays open
    assert process.wait(60) == 0 and seen == [False]
    process.stdin.close()


@pytest.mark.parametrize("result,status,words", [
    (ended(0), 0, ""), (ended(255), 255, ""), (ended(127), 127, ""),
    (ended(None, exit_code=None, signal=9, reason="signal"), 137, ""),
    (ended(None, exit_code=None, signal=9, reason="oom"), 137, "more memory"),
    (ended(None, exit_code=None, signal=9, reason="timeout"), 124, "longer than"),
    (ended(None, exit_code=None, signal=9, reason="cancelled"), 137, "cancelled"),
    (ended(None, exit_code=None, reason="lost"), 125, "nobody knows"),
    (ended(300), 125, ""), ({}, 125, ""),
])
def test_statuses(operator, run, result, status, words):
    operator.on("exec", lambda c, q: c.ok(result))
    done = run("exec", "s", "true")
    assert done.status == status and words in done.errors
    done = run("exec", "--json", "s", "true")
    assert json.loads(done.err) == result and done.out == b""


def test_refusal(operator, run):
    operator.on("exec", lambda c, q: c.refuse("conflict", "s is stopped", "stockade resume s"))
    done = run("exec", "s", "true")
    assert done.status == 125 and done.errors == "stockade: s is stopped\n  hint: stockade resume s\n"


def test_options(operator, run):
    operator.on("exec", lambda c, q: c.ok(ended()))
    run("exec", "-e", "A=1", "-e", "B", "-e", "NONE", "--env=A=2", "-w", "/tmp", "--timeout", "2s", "s", "env", env={"B": "b=b"}).ok()
    assert operator.requests == [{"verb": "exec", "sandbox": "s", "argv": ["env"], "cwd": "/tmp", "stdin": False,
                                  "env": {"A": "2", "B": "b=b"}, "timeout_ms": 2000}]


def test_detached(operator, run):
    operator.on("exec", lambda c, q: c.ok({"run": 12, "state": "running"}))
    assert run("exec", "-d", "--key", "k", "s", "sleep", "9").ok() == "12\n"
    assert operator.requests[0]["detach"] is True and operator.requests[0]["key"] == "k"
    assert run("exec", "s", "--detach", "--", "sleep", "-x").ok() == "12\n"  # options may follow the sandbox
    assert operator.requests[1]["argv"] == ["sleep", "-x"] and operator.requests[1]["detach"] is True


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)


def test_signals_are_passed_on(operator, client):
    got = []

    def wait(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"ready\n")
        for _ in range(3):
            got.append(c.read())
        c.ok(ended(None, exit_code=None, signal=15, reason="signal"))
    operator.on("exec", wait)
    process = client.popen("exec", "s", "sleep")
    assert process.stdout.readline() == b"ready\n"
    for count, number in enumerate((signal.SIGUSR1, signal.SIGINT, signal.SIGTERM)):
        process.send_signal(number)
        wait_for(lambda: len(got) > count)  # pylint: disable=W0640
    assert process.wait(60) == 143
    assert got == [("control", {"signal": n}) for n in (10, 2, 15)]


def stubborn(got):
    """A command that does not end, whatever it is told."""
    def serve(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"ready\n")
        while True:
            got.append(c.read())
    return serve


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asking_twice_leaves(operator, client, number):
    got = []
    operator.on("exec", stubborn(got))
    process = client.popen("exec", "s", "sleep")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)  # once: it has all the time that it wants
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    errors = process.stderr.read().decode()
    assert "run 7 goes on in s" in errors and "stockade cancel s 7" in errors and "stockade attach s 7" in errors
    wait_for(lambda: len(got) > 2)  # it has left; what it said last may still be on its way
    assert got == [("control", {"signal": number})] * 2 + [("control", {"detach": True})]


def test_asking_in_other_words_does_not_leave(operator, client):
    got = []
    operator.on("exec", stubborn(got))
    process = client.popen("exec", "s", "sleep")
    assert process.stdout.readline() == b"ready\n"
    for count, number in enumerate((signal.SIGUSR1, signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)):
        process.send_signal(number)
        wait_for(lambda: len(got) > count)  # pylint: disable=W0640
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    assert [payload["signal"] for _, payload in got] == [10, 10, 2, 15, 3]
    process.kill()
    process.wait()


def test_a_command_that_wants_to_be_asked_twice(operator, client):
    """The second one is passed on too, and there is time to end of it."""
    got = []

    def serve(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"ready\n")
        for _ in range(2):
            got.append(c.read())
        time.sleep(0.3)
        c.send("output", b"bye\n")
        c.ok(ended(9))
    operator.on("exec", serve)
    process = client.popen("exec", "s", "sleep")
    assert process.stdout.readline() == b"ready\n"
    for count in range(2):
        process.send_signal(signal.SIGINT)
        wait_for(lambda: len(got) > count)  # pylint: disable=W0640
    assert process.stdout.read() == b"bye\n" and process.wait(60) == 9


def test_leaving_a_daemon_that_does_nothing(operator, client):
    """It reads nothing and says nothing: not even a full connection keeps the client."""
    stuck = threading.Event()
    operator.on("exec", lambda c, q: stuck.wait(100))
    with open("/dev/zero", "rb") as zero:
        process = client.popen("exec", "-i", "s", "cat", stdin=zero)
    time.sleep(0.5)

    def left():
        process.send_signal(signal.SIGTERM)  # two that come at once are one
        time.sleep(0.2)
        return process.poll() is not None
    wait_for(left)
    assert process.wait(60) == 143 and b"stockade runs s" in process.stderr.read()
    stuck.set()


def test_a_reader_that_leaves(operator, client):
    got = []

    def yes(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        for _ in range(40):
            c.send("output", b"y\n" * 10000)
        while not got:
            kind, payload = c.read()
            if kind == "control":
                got.append(payload)
        c.send("output", b"more")
        c.ok(ended(None, exit_code=None, signal=13, reason="signal"))
    operator.on("exec", yes)
    process = client.popen("exec", "s", "yes")
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(60) == 141 and got == [{"signal": 13}]


def test_output_that_nobody_takes_is_not_read(operator, client):
    """What the caller does not take stays with the operator: the client's memory has an end."""
    sent = []

    def flood(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        for _ in range(400):
            c.send("output", b"z" * 65536)
            sent.append(1)
        c.ok(ended())
    operator.on("exec", flood)
    process = client.popen("exec", "s", "flood")
    time.sleep(0.7)
    before = len(sent)
    assert before < 40, "everything was taken"
    assert len(process.stdout.read()) == 400 * 65536
    assert process.wait(60) == 0


def test_input_that_nobody_takes_is_not_read(operator, client):
    release = threading.Event()

    def slow(c, q):
        release.wait(60)
        size = len(c.everything())
        c.send("output", str(size).encode())
        c.ok(ended())
    operator.on("exec", slow)
    read_end, write_end = os.pipe()
    process = client.popen("exec", "-i", "s", "wc", stdin=read_end)
    os.close(read_end)
    os.set_blocking(write_end, False)
    written = 0
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            written += os.write(write_end, b"x" * 4096)
        except BlockingIOError:
            time.sleep(0.02)
    assert written < 2 << 20
    os.close(write_end)
    release.set()
    out, _ = process.communicate(timeout=60)
    assert int(out) == written


# --- the connection breaks ---

def test_comes_back_where_it_was(operator, run):
    text = bytes(range(256)) * 40
    seen = []

    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", text[:3000])
        c.send("errors", b"abc")
        c.raw(frame("output", text[3000:4000])[:500])  # killed in the middle of a frame

    def attach(c, q):
        seen.append((q["run"], q["out"], q["err"]))
        c.send("event", {"run": 7, "out": q["out"], "err": q["err"]})
        c.send("output", text[q["out"]:q["out"] + 2000])
        if len(seen) < 3:
            return
        c.send("output", text[q["out"] + 2000:])
        c.send("errors", b"abcdef"[q["err"]:])
        c.ok(ended(5))
    operator.on("exec", begin)
    operator.on("attach", attach)
    done = run("exec", "s", "long")
    said = done.err.replace(b"stockade: the connection broke; trying again, Ctrl-C leaves\n", b"")  # if that took a while
    assert done.status == 5 and done.out == text and said == b"abcdef"
    assert seen == [(7, 3000, 3), (7, 5000, 3), (7, 7000, 3)]


def test_waits_for_the_daemon_to_come_back(operator, run):
    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"one ")
        operator.close()
        threading.Timer(1.0, operator.listen).start()

    def attach(c, q):
        c.send("event", {"run": 7, "out": q["out"], "err": 0})
        c.send("output", b"two")
        c.ok(ended())
    operator.on("exec", begin)
    operator.on("attach", attach)
    assert run("exec", "s", "long").ok() == "one two"


def test_can_be_ended_while_the_daemon_is_gone(operator, client):
    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"one\n")
        operator.close()
    operator.on("exec", begin)
    process = client.popen("exec", "s", "long")
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (125, 143)
    operator.listen()


def test_lost_input_is_not_passed_over(operator, run):
    """Nobody can know how much of it arrived: a clear end, no silent gap."""
    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.read()
    operator.on("exec", begin)
    done = run("exec", "-i", "s", "sort", input=b"x" * 100000)
    assert done.status == 125 and "run 7 goes on" in done.errors


def test_lost_before_it_ran(operator, run):
    operator.on("exec", lambda c, q: None)
    done = run("exec", "s", "true")
    assert done.status == 125 and "before the command was known to run" in done.errors


def test_a_run_that_is_gone_meanwhile(operator, run):
    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
    operator.on("exec", begin)
    operator.on("attach", lambda c, q: c.refuse("not_found", "there is no run 7", ""))
    done = run("exec", "s", "true")
    assert done.status == 125 and "no run 7" in done.errors


# --- terminals ---

class Terminal:
    def __init__(self, client, *args, rows=30, columns=100):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)

        def prepare():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            client.become()
        os.fchown(self.slave, client.uid, client.uid)
        self.process = subprocess.Popen([client.program, *args], env=client.environment(), cwd=client.cwd, stdin=self.slave,
                                        stdout=self.slave, stderr=self.slave, start_new_session=True, preexec_fn=prepare)
        self.seen = b""

    def type(self, keys):
        os.write(self.master, keys)

    def expect(self, pattern, seconds=40):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < end, self.seen
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)
        return self.seen

    def raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def end(self, seconds=60):
        status = self.process.wait(seconds)
        while select.select([self.master], [], [], 0.05)[0]:
            self.seen += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not as it was"
        os.close(self.master)
        os.close(self.slave)
        return status


def echo(frames):
    """A far end that shows what is typed, and keeps it."""
    def serve(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"ready$ ")
        while True:
            kind, payload = c.read()
            frames.append((kind, payload))
            if kind == "input":
                c.send("output", b"[" + payload + b"]")
                if b"\x04" in payload:
                    c.ok(ended(4))
                    return
    return serve


def typed(frames):
    return b"".join(payload for kind, payload in frames if kind == "input")


def test_terminal(operator, client):
    frames = []
    operator.on("exec", echo(frames))
    t = Terminal(client, "exec", "-it", "s", "sh")
    t.expect(rb"ready\$ ")
    assert t.raw()
    q = operator.requests[0]
    assert q["tty"] is True and q["stdin"] is True and (q["rows"], q["cols"]) == (30, 100)
    t.type(b"a\x03\x1a\x1c~x\r~y")
    t.expect(rb"~y\]")
    fcntl.ioctl(t.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    wait_for(lambda: ("control", {"resize": [40, 120]}) in frames)
    t.type(b"\x04")
    assert t.end() == 4
    assert typed(frames) == b"a\x03\x1a\x1c~x\r~y\x04"
    assert ("control", {"resize": [40, 120]}) in frames


def test_leaving(operator, client):
    frames = []
    operator.on("exec", echo(frames))
    t = Terminal(client, "shell", "s")
    t.expect(rb"ready\$ ")
    t.type(b"ls\r")
    t.expect(rb"ls\r")
    t.type(b"~.")
    assert t.end() == 0
    assert b"stockade attach s 7" in t.seen
    wait_for(lambda: ("control", {"detach": True}) in frames)  # it has left; that may still be on its way
    assert typed(frames) == b"ls\r" and frames[-1] == ("control", {"detach": True})


def test_a_window_that_is_closed_leaves_it_running(operator, client):
    frames = []
    operator.on("exec", echo(frames))
    t = Terminal(client, "shell", "s")
    t.expect(rb"ready\$ ")
    t.process.send_signal(signal.SIGHUP)
    assert t.end() == 129
    wait_for(lambda: ("control", {"detach": True}) in frames)  # it has left; that may still be on its way
    assert frames[-1] == ("control", {"detach": True})


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_the_terminal_is_put_back_after_a_crash(operator, client, number):
    operator.on("exec", echo([]))
    t = Terminal(client, "shell", "s")
    t.expect(rb"ready\$ ")
    assert t.raw()
    t.process.send_signal(number)
    assert t.end() != 0


def test_a_shell_comes_back(operator, client):
    """With the scrollback's offset, and what is typed goes to the new connection."""
    frames, offsets = [], []

    def begin(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"0123456789")
        while c.read() != ("input", b"x"):
            pass

    def attach(c, q):
        offsets.append((q["out"], q.get("err")))
        c.send("event", {"run": 7, "out": q["out"]})
        c.send("output", b"back$ ")
        echo(frames)(c, q)
    operator.on("exec", begin)
    operator.on("attach", attach)
    t = Terminal(client, "shell", "s")
    t.expect(rb"0123456789")
    t.type(b"x")
    t.expect(rb"back\$ ")
    t.type(b"y\x04")
    assert t.end() == 4 and offsets == [(10, None)] and typed(frames) == b"y\x04"


def test_attach(operator, client):
    frames = []
    operator.answers("runs", {"runs": [{"run": 7, "tty": True, "state": "running"}]})
    operator.on("attach", echo(frames))
    t = Terminal(client, "attach", "s", "7")
    t.expect(rb"ready\$ ")
    assert t.raw() and operator.requests[-1] == {"verb": "attach", "sandbox": "s", "run": 7}
    t.type(b"\x04")
    assert t.end() == 4


def test_attach_to_nothing(operator, run):
    operator.answers("runs", {"runs": []})
    assert "there is no run 9" in run("attach", "s", "9").errors
    assert "is not the number of a run" in run("attach", "s", "x").errors


def test_logs(operator, run, client):
    def logs(c, q):
        c.send("output", b"out\n")
        c.send("errors", b"err\n")
        if q.get("follow"):
            c.read()
        c.ok(ended(1))
    operator.on("logs", logs)
    done = run("logs", "s", "7")
    assert (done.status, done.out, done.err) == (0, b"out\n", b"err\n")
    process = client.popen("logs", "-f", "s", "7")
    assert process.stdout.readline() == b"out\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


@pytest.mark.parametrize("keys", [b"q", b"\x03", b"mcq"])
def test_top_on_a_terminal(operator, client, keys):
    operator.answers("usage", {"usage": [{"sandbox": f"{n:016x}", "cpu_us": 5, "memory": n << 20, "processes": 3} for n in range(100)]})
    operator.answers("list", {"sandboxes": [{"id": f"{n:016x}", "name": "x\x1b[2Jy" * 20, "state": "running"} for n in range(100)]})
    t = Terminal(client, "top", rows=10, columns=90)
    t.expect(rb"100 running")
    time.sleep(0.1)
    t.type(keys)
    assert t.end() == 0
    for screen in t.seen.split(b"\x1b[H")[1:]:
        lines = screen.split(b"\r\n")
        assert len(lines) <= 10 and b"\x1b[2Jy" not in screen
        for line in lines:
            assert len(re.sub(rb"\x1b\[[KJ]", b"", line).decode()) <= 90, line


def test_top_that_is_ended(operator, client):
    operator.answers("usage", {"usage": []})
    operator.answers("list", {"sandboxes": []})
    t = Terminal(client, "top")
    t.expect(rb"0 running")
    t.process.send_signal(signal.SIGTERM)
    assert t.end() != 0  # and the terminal is as it was
