"""A terminal inside: its own, with job control, sizes and settings, and no way to the caller's."""
import os
import signal
import termios
import time
from pathlib import Path

import pytest

import harness
from pseudo import Terminal

SHELL = ["--", "/bin/bash", "--norc", "--noprofile", "-i"]
PROMPT = {"PS1": "$ "}


@pytest.fixture
def terminal(who):
    made = []

    def make(*args, **kw):
        made.append(Terminal(who, *args, **kw))
        return made[-1]
    yield make
    for t in made:
        t.close()


@pytest.fixture
def bash(terminal):
    def make(*options, **kw):
        t = terminal("--env", "PS1=ready> ", *options, *SHELL, **kw)
        t.expect("ready> ")
        return t
    return make


def test_it_is_a_terminal_of_its_own(terminal):
    t = terminal("--", "sh", "-c", "tty; tty <&1; tty <&2; ls /dev/pts; echo $TERM; exit 3")
    assert t.wait() == 3
    assert t.seen.split() == [b"/dev/pts/0"] * 3 + [b"0", b"ptmx", b"xterm"]


def test_the_callers_terminal_is_not_inside(terminal):
    t = terminal("--", "sh", "-c", "ls -l /proc/self/fd /dev/pts/ | grep -v 'fd -> /proc' ; echo end")
    t.expect("end")
    assert os.path.basename(t.slave_name).encode() + b"\r\n" not in t.seen or t.slave_name == "/dev/pts/0"


def test_without_a_terminal_there_is_none(sh):
    result = sh("test -t 0 || test -t 1 || test -t 2 || echo none; (: </dev/tty) 2>/dev/null || echo no tty; ls /dev/pts")
    assert result.ok().split("\n") == ["none", "no tty", "ptmx", ""]


def test_no_tty_at_a_terminal(terminal):
    t = terminal("--no-tty", "--", "sh", "-c", "test -t 0 || echo no0; test -t 1 || echo no1; test -t 2 || echo no2; "
                 "(: </dev/tty) 2>/dev/null || echo notty")
    assert t.wait() == 0
    assert sorted(t.seen.split()) == [b"no0", b"no1", b"no2", b"notty"]


def test_tty_without_one(run):
    """--tty in a script: the command has a terminal although the caller has none."""
    result = run("--tty", "--", "sh", "-c", "tty; test -t 0 && test -t 1 && echo yes")
    assert result.ok().replace("\r", "") == "/dev/pts/0\nyes\n"


def press_until(t, key, pattern):
    """A key, again until it has its effect: the shell says what it is going to do before it does it."""
    for _ in range(20):
        time.sleep(0.1)
        t.type(key)
        try:
            return t.expect(pattern, 0.3)
        except AssertionError:
            pass
    return t.expect(pattern)


def test_job_control(bash):
    t = bash()
    t.type("sleep 30 &\n")
    t.expect(r"\[1\] \d+")
    t.type("jobs\n")
    t.expect(r"\[1\]\+\s+Running\s+sleep 30 &")
    t.type("fg\n")
    t.expect("sleep 30")
    press_until(t, b"\x1a", r"\[1\]\+\s+Stopped\s+sleep 30")
    t.type("bg; fg\n")
    t.expect("sleep 30 &")
    t.expect("sleep 30")
    press_until(t, b"\x03", "ready> ")
    t.type("jobs; echo status $?; exit 6\n")
    t.expect("status 0")
    assert t.wait() == 6 and b"no job control" not in t.seen


def test_interrupt_reaches_only_the_foreground(bash):
    t = bash()
    t.type("(echo u''p; exec sleep 50)\n")
    t.expect("up")
    press_until(t, b"\x03", "ready> ")
    t.type("echo status $?\n")
    t.expect("status 130")
    t.expect("ready> ")
    t.type("exit 5\n")
    assert t.wait() == 5


def test_interrupt_with_output_in_a_pipe(who):
    """`stockade run … | less` at a terminal, without a terminal inside: ^C ends all of it, as without a sandbox."""
    seconds = f"3000.{os.getpid()}"
    argv = ["/bin/sh", "-c", '"$@" | cat; echo over', "sh", *who.command("--", "sh", "-c", f"echo up; sleep {seconds}; echo no")]

    def sleeps():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if Path(f"/proc/{pid}/cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                    return True
            except OSError:
                pass
        return False

    def once():
        with Terminal(who, argv=argv) as t:
            t.expect("up")
            # dash itself, also without a sandbox, misses a ^C between its echo and its sleep
            assert harness.until(sleeps, step=0.02)
            begin = time.monotonic()
            t.type(b"\x03")
            assert t.wait() in (0, 130, -signal.SIGINT) and b"no" not in t.seen
            return time.monotonic() - begin
    assert harness.quickest(once, 3 * harness.SLOW) < 3 * harness.SLOW


def test_quit_character(terminal):
    t = terminal("--", "sh", "-c", "echo up; exec sleep 30")
    t.expect("up")
    t.type(b"\x1c")
    assert t.wait() == 128 + signal.SIGQUIT


def test_window_size(terminal):
    t = terminal("--", "sh", "-c", "stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done",
                 rows=33, columns=111)
    t.expect("33 111")
    t.expect("ready")
    t.resize(44, 99)
    os.kill(t.process.pid, signal.SIGWINCH)
    t.expect("44 99")
    assert t.wait() == 0


def test_raw_bytes(terminal):
    """In raw mode every byte arrives, in both directions."""
    script = ("import os, tty; tty.setraw(0); os.write(1, b'ready'); got = b''\n"
              "while len(got) < 256: got += os.read(0, 256)\n"
              "os.write(1, b'<' + got + b'>')")
    t = terminal("--", harness.PYTHON, "-ISc", script)
    t.expect("ready")
    t.type(bytes(range(256)))
    assert t.wait() == 0 and t.seen == b"<" + bytes(range(256)) + b">"


def test_large_paste_and_large_output(terminal):
    t = terminal("--", "sh", "-c", "stty raw -echo; echo ready; head -c 200000 | wc -c; head -c 300000 /dev/zero")
    t.expect("ready\r?\n")
    data = b"p" * 200_000
    while data:
        data = data[os.write(t.master, data[:4000]):]
        t.read_some(0)
    t.expect(rb"200000\r?\n", 20)
    assert t.wait(20) == 0 and t.seen == b"\0" * 300_000


def test_settings_are_restored(terminal):
    t = terminal("--", "sh", "-c", "stty raw -echo -isig; echo changed")
    assert t.wait() == 0 and t.now() == t.settings


def test_settings_are_restored_after_a_failure(terminal):
    t = terminal("--", "/usr/bin/no-such-program")
    assert t.wait() == 127 and t.now() == t.settings


def test_settings_are_restored_after_kill_9(terminal):
    t = terminal("--", "sh", "-c", "echo up; sleep 60")
    t.expect("up")
    assert t.is_raw()
    t.process.send_signal(signal.SIGKILL)
    t.process.wait()
    assert harness.until(lambda: t.now() == t.settings), "the terminal stays raw"


def test_settings_are_restored_after_a_timeout(terminal):
    t = terminal("--timeout", "200ms", "--", "sleep", "60")
    assert t.wait() == 124 and t.now() == t.settings


@pytest.mark.parametrize("request_name", ["TIOCSTI", "TIOCLINUX", "TIOCCONS"])
def test_terminal_tricks(terminal, request_name):
    """No characters are pushed into anybody's input, also not into the sandbox's own terminal."""
    number = {"TIOCSTI": termios.TIOCSTI, "TIOCLINUX": 0x541C, "TIOCCONS": termios.TIOCCONS}[request_name]
    script = (f"import fcntl\ntry: fcntl.ioctl(0, {number}, b'x'); print('pushed')\n"
              "except OSError as e: print('refused', e.errno)")
    t = terminal("--", harness.PYTHON, "-ISc", script)
    t.expect("refused")
    assert t.wait() == 0


def test_ioctl_argument_with_high_bits(terminal):
    """The kernel looks at 32 bits of the request; so does the filter."""
    script = ("import ctypes; libc = ctypes.CDLL(None, use_errno=True); b = ctypes.c_char(b'x')\n"
              f"r = libc.syscall(16, 0, ctypes.c_ulong({termios.TIOCSTI} | 1 << 32), ctypes.byref(b))\n"
              "print('pushed' if r == 0 else 'refused')")
    t = terminal("--", harness.PYTHON, "-Ic", script)
    t.expect("refused")


def test_stolen_controlling_terminal(terminal, who):
    """The caller's terminal cannot be made the sandbox's: it is not there to be opened."""
    script = ("import os\nos.setsid() if os.fork() == 0 else os._exit(os.WEXITSTATUS(os.wait()[1]))\n"
              "for n in os.listdir('/dev/pts'): print('entry', n)\n"
              "try: os.open('/dev/tty', os.O_RDWR); print('open')\nexcept OSError: print('closed')")
    t = terminal("--", harness.PYTHON, "-ISc", script)
    t.expect("entry")
    t.expect("closed")


def test_hangup_ends_the_run(terminal, who):
    """The window is closed."""
    t = terminal("--", "sh", "-c", "echo up; sleep 60")
    t.expect("up")
    os.kill(t.process.pid, signal.SIGHUP)
    assert t.wait() == 128 + signal.SIGHUP


def test_output_limit_on_a_terminal(terminal):
    t = terminal("--output", "5000", "--quiet", "--", "yes")
    assert t.wait() == 137
    assert len(t.seen) == 5000, len(t.seen)
