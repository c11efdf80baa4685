"""Signals that the launcher gets reach the command, and nothing else does."""
import signal
import time

import pytest

import harness

TRAP = "trap 'echo got {0}; exit 9' {0}; echo up; while :; do sleep 0.02; done"


def started(who, script, *options):
    process = harness.start(who, *options, "--", "sh", "-c", script)
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1", "USR2", "QUIT", "ALRM"])
def test_signal_reaches_the_command(who, name):
    process = started(who, TRAP.format(name))
    try:
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.wait(harness.ENOUGH * harness.SLOW) == 9
        assert process.stdout.readline() == f"got {name}\n".encode()
    finally:
        harness.stop(process)


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1"])
def test_signal_ends_a_command_that_does_not_care(who, place, name):
    path = place / "record"
    process = harness.start(who, "--", "sh", "-c", "echo up; exec sleep 60", record=path)
    try:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        number = getattr(signal, f"SIG{name}")
        assert process.wait(harness.ENOUGH * harness.SLOW) == 128 + number
        record = harness.read_record(path)
        assert record["reason"] == "signal" and record["signal"] == number
    finally:
        harness.stop(process)


def test_stopped_launcher_goes_on(who):
    """^Z for the launcher's job, then fg."""
    process = started(who, "echo up; read line; echo back $line")
    try:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        process.send_signal(signal.SIGCONT)
        process.stdin.write(b"again\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"back again\n" and process.wait(harness.ENOUGH * harness.SLOW) == 0
    finally:
        harness.stop(process)


def test_many_signals(who):
    script = "n=0; trap 'n=$((n + 1)); echo $n' USR1; trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"
    process = started(who, script)
    try:
        for i in range(1, 11):
            process.send_signal(signal.SIGUSR1)
            assert process.stdout.readline() == b"%d\n" % i
        process.send_signal(signal.SIGTERM)
        assert process.wait(harness.ENOUGH * harness.SLOW) == 0
    finally:
        harness.stop(process)


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_signal_while_it_starts(who, name):
    """A signal at any moment of the start: the run ends, or goes on; it does not hang, and leaves nothing."""
    for i in range(harness.rounds(12)):
        process = harness.start(who, "--", "sleep", "0.3")
        time.sleep(0.001 * i)
        process.send_signal(getattr(signal, f"SIG{name}"))
        status = process.wait(harness.ENOUGH * harness.SLOW)
        number = getattr(signal, f"SIG{name}")
        harness.stop(process)
        assert status in (0, -number, 128 + number, 125), f"after {i} ms: {status}"


def test_signals_do_not_get_out(who):
    """All processes inside can be signalled by the command, and none outside: the launcher lives on."""
    result = harness.run(who, "--", "sh", "-c", "kill -TERM -1; kill -KILL -1; for p in $(seq 2 3000); do "
                         "kill -0 $p 2>/dev/null && echo $p; done; echo $$; exit 3")
    lines = result.text.split()
    assert result.status == 3 and set(lines) == {lines[-1]}


def test_pid_1_cannot_be_killed_from_inside(who):
    result = harness.run(who, "--", "sh", "-c", "kill -KILL 1; kill -TERM 1; kill -INT 1; sleep 0.1; echo alive")
    assert result.ok() == "alive\n"


def test_ignored_signals_are_not_inherited(who):
    """nohup around the launcher does not decide what the command ignores."""
    process = who.popen(["/bin/sh", "-c", 'trap "" INT TERM USR1; exec "$@"', "sh", *who.command(
        "--", "grep", "^SigIgn", "/proc/self/status")], stdout=-1, stderr=-1)
    assert int(harness.finish(process).ok().split()[1], 16) == 0


def test_blocked_signals_are_not_inherited(who):
    process = who.popen([harness.PYTHON, "-c", "import os, signal, sys; signal.pthread_sigmask(0, range(1, 65)); "
                         "os.execv(sys.argv[1], sys.argv[1:])", *who.command("--", "grep", "^SigBlk",
                                                                               "/proc/self/status")],
                        stdout=-1, stderr=-1)
    assert int(harness.finish(process).ok().split()[1], 16) == 0
