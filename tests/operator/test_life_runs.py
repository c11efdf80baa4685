"""Runs: streams, exit codes, signals, time, output, memory; terminals; who attaches again and what he sees."""
import os
import select
import signal
import threading
import time

import pytest

import harness
from harness import Refused, until

LOW = {"profile": "low"}


@pytest.fixture
def box(client):
    return client.create(**LOW)["id"]


def last(client, box):
    return client.runs(sandbox=box, max=1)["runs"][0]


def test_streams_are_apart_and_whole(client, box):
    run = client.sh(box, "echo out; echo err >&2; exit 7")
    assert (run["out"], run["err"], run["exit_code"], run["reason"]) == (b"out\n", b"err\n", 7, "exited")
    data = os.urandom(3 << 20)
    for script in ("cat", "cat >&2"):
        with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", script], stdin=True) as c:
            writer = threading.Thread(target=c.input, args=(data,))
            writer.start()  # who writes and does not read stands still, as with a pipe
            run = c.answer()
            writer.join()
            assert bytes(c.err if "&2" in script else c.out) == data and run["exit_code"] == 0
            assert run["err_bytes" if "&2" in script else "out_bytes"] == len(data)


@pytest.mark.parametrize("code", [0, 1, 2, 42, 125, 126, 127, 128, 137, 255])
def test_exit_codes(client, box, code):
    run = client.sh(box, f"exit {code}")
    assert run["exit_code"] == code and run["reason"] == "exited" and run["signal"] == 0


def test_signals(client, box):
    run = client.sh(box, "kill -TERM $$")
    assert run["exit_code"] == 143 and run["signal"] == 15 and run["reason"] == "signal"
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.01; done"]) as c:
        number = c.event()["run"]
        c.until_out(b"ready")
        client.signal(sandbox=box, run=number, signal=signal.SIGUSR1)
        run = c.answer()
        assert bytes(c.out) == b"ready\ncaught\n" and run["exit_code"] == 9
    with pytest.raises(Refused) as e:
        client.signal(sandbox=box, run=number, signal=15)
    assert e.value.code == "conflict"


def test_what_cannot_be_executed(client, box):
    assert client.run(box, "/no/such/program")["exit_code"] == 127
    denied = client.run(box, "/tmp")
    assert denied["exit_code"] == 126 and denied["reason"] == "denied"
    # written inside, under a profile that executes only what the host has
    client.sh(box, "cp /bin/true /tmp/mine; chmod +x /tmp/mine")
    assert client.run(box, "/tmp/mine")["reason"] == "denied"


def test_environment_and_folder(client, box):
    run = client.sh(box, "echo $A; pwd; echo $HOME", env={"A": "b c"}, cwd="/usr")
    assert run["out"] == b"b c\n/usr\n/tmp\n"
    assert client.run(box, "/usr/bin/env", env={"PATH": "/x"})["out"].count(b"PATH=") == 1
    missing = client.sh(box, "pwd", cwd="/no/such")
    assert missing["exit_code"] in (126, 127)


def test_time_ends_a_run_and_all_it_started(client, box):
    def once():
        assert client.sh(box, "sleep 1000 & setsid sleep 1000 & sleep 1000", timeout_ms=400)["reason"] == "timeout"
    assert harness.quickest(once, 5 * harness.SLOW) < 5 * harness.SLOW
    assert until(lambda: len(client.processes(sandbox=box)["processes"]) == 1), client.processes(sandbox=box)
    short = client.create(profile="low", set={"time.run": "1s"})["id"]
    assert client.sh(short, "sleep 100", timeout_ms=100000)["reason"] == "timeout"


def test_cancel_means_cancelled(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' & echo up; wait"]) as c:
        number = c.event()["run"]
        c.until_out(b"up")
        ended = client.cancel(sandbox=box, run=number)
        assert ended["state"] == "ended" and ended["reason"] == "cancelled"
        assert c.answer()["reason"] == "cancelled"
    assert until(lambda: len(client.processes(sandbox=box)["processes"]) == 1)
    assert client.cancel(sandbox=box, run=number)["reason"] == "cancelled"  # again


OUTRUN = """
import os, time
first = os.getpid()
for _ in range(4):
    if os.getpid() == first:
        os.fork()
os.write(1, b"up")
while os.getpid() == first:
    time.sleep(1)
while True:  # each one lives for a moment, in a session of its own, and its parent is dead
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def test_nobody_outruns_a_cancel(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "1000"]) as innocent:
        innocent.event()
        with client.call("exec", sandbox=box, argv=["/usr/bin/python3", "-c", OUTRUN]) as c:
            number = c.event()["run"]
            c.until_out(b"up" * 5)
            client.cancel(sandbox=box, run=number)
        def left():
            return sorted(p["command"] for p in client.processes(sandbox=box)["processes"] if p["pid"] != 1)
        assert until(lambda: left() == ["/bin/sleep 1000"]), left()
    assert client.sh(box, "echo fine")["out"] == b"fine\n"


def test_background_processes_outlive_their_run(client, box):
    run = client.sh(box, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo started")
    assert run["out"] == b"started\n" and run["exit_code"] == 0
    assert any("sleep" in p["command"] for p in client.processes(sandbox=box)["processes"])
    client.stop(sandbox=box)
    client.resume(sandbox=box)
    assert not any("sleep" in p["command"] for p in client.processes(sandbox=box)["processes"])


@pytest.mark.parametrize("kill", [False, True])
def test_the_background_has_no_more_time_than_its_run(daemon, client, kill):
    box = client.create(profile="low", set={"time.run": "6s"})["id"]
    run = client.sh(box, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo started")
    assert run["reason"] == "exited" and len(client.processes(sandbox=box)["processes"]) == 2
    if kill:
        daemon.kill_operator()
    assert until(lambda: len(client.processes(sandbox=box)["processes"]) == 1), client.processes(sandbox=box)
    assert client.show(sandbox=box)["state"] == "running"
    def hits():
        with client.call("events", sandbox=box) as c:
            c.answer()
            return [e["data"] for e in c.events if e["kind"] == "limit.hit"]
    assert until(lambda: {"run": run["run"], "limit": "time.run", "background": True} in hits()), hits()


def test_the_background_uses_the_budget(client):
    box = client.create(profile="low", set={"budget.cpu": "1s"})["id"]
    client.sh(box, "setsid sh -c 'while :; do :; done' </dev/null >/dev/null 2>&1 & exit 0")
    assert until(lambda: client.show(sandbox=box)["state"] == "stopped")
    assert client.show(sandbox=box)["reason"] == "budget"


def test_running_out_of_memory_names_the_run(client):
    box = client.create(profile="low", set={"limits.memory": "64MiB"})["id"]
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "1000"]) as innocent:
        innocent.event()
        guilty = client.sh(box, "exec python3 -c 'x = bytearray(300 << 20)'")
        assert guilty["reason"] == "oom", guilty
        states = {r["run"]: r for r in client.runs(sandbox=box)["runs"]}
        assert states[guilty["run"]]["reason"] == "oom"
        assert [r["state"] for r in states.values() if r["run"] != guilty["run"]] == ["running"]
    assert client.sh(box, "echo fine")["out"] == b"fine\n"
    def hits():
        with client.call("events", sandbox=box) as c:
            c.answer()
            return [e["data"] for e in c.events if e["kind"] == "limit.hit"]
    assert until(lambda: {"run": guilty["run"], "limit": "limits.memory"} in hits()), hits()


def test_too_much_output(client):
    box = client.create(profile="low", set={"limits.output": "1MiB"})["id"]
    run = client.sh(box, "yes")
    assert run["reason"] == "output_limit" and len(run["out"]) == 1 << 20
    assert run["out"] == (b"y\n" * (1 << 19))
    for _ in range(20):  # it may end by itself before it is killed: that is no good end
        run = client.sh(box, "head -c 1048577 /dev/zero")
        assert run["reason"] == "output_limit" and run["exit_code"] == 137, run


def test_a_slow_reader_holds_the_run_up(client):
    box = client.create(profile="medium", memory_only=True)["id"]
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "yes 0123456789abcdef | head -c 50000000"]) as c:
        c.event()
        time.sleep(1)
        assert last(client, box)["out_bytes"] < 20 << 20 and last(client, box)["state"] == "running"
        run = c.answer()
        assert len(c.out) == 50000000 and run["exit_code"] == 0
        assert bytes(c.out[:17]) == b"0123456789abcdef\n" and len(set(bytes(c.out).split(b"\n")[:-1])) == 1


def test_input_waits_for_a_slow_program(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "sleep 0.5; wc -c"], stdin=True) as c:
        c.event()
        c.input(b"x" * 2000000)
        assert c.answer()["exit_code"] == 0
        assert bytes(c.out).strip() == b"2000000"


def test_many_runs_at_once(client, box):
    calls = [client.call("exec", sandbox=box, argv=["/bin/sh", "-c", f"sleep 0.2; echo {i}"]) for i in range(30)]
    assert [(c.answer()["exit_code"], bytes(c.out)) for c in calls] == [(0, b"%d\n" % i) for i in range(30)]
    numbers = [r["run"] for r in client.runs(sandbox=box)["runs"]]
    assert len(numbers) == 30 and numbers == sorted(numbers, reverse=True)
    for c in calls:
        c.socket.close()


@pytest.mark.parametrize("more", [{}, {"detach": True}], ids=["attached", "detached"])
def test_more_at_once_than_the_guest_takes(daemon, more):
    """The guest does not read for a while, and then all of them begin."""
    client = daemon.client
    box = client.create(profile="low")["id"]
    guest = int(next(line.split()[1] for line in daemon.info(box).splitlines() if line.startswith("pid ")))
    os.kill(guest, signal.SIGSTOP)
    calls = [client.call("exec", sandbox=box, argv=["/bin/true"], **more) for _ in range(100)]
    assert until(lambda: client.show(sandbox=box)["runs_active"] == 100)
    os.kill(guest, signal.SIGCONT)
    assert until(lambda: client.show(sandbox=box)["runs_active"] == 0), client.show(sandbox=box)["runs_active"]
    assert {c.answer()["state"] for c in calls} <= {"running", "ended"}
    assert {(r["state"], r["exit_code"]) for r in client.runs(sandbox=box, max=100)["runs"]} == {("ended", 0)}
    for c in calls:
        c.socket.close()


def test_detached_runs_and_their_logs(client, box):
    run = client.ask("exec", sandbox=box, argv=["/bin/sh", "-c", "echo one; sleep 0.4; echo two; echo bad >&2"], detach=True)
    assert run["state"] == "running" and run["run"] >= 1
    with client.call("logs", sandbox=box, run=run["run"], follow=True) as c:
        assert c.answer()["exit_code"] == 0
        assert bytes(c.out) == b"one\ntwo\n" and bytes(c.err) == b"bad\n"
    with client.call("logs", sandbox=box, run=run["run"]) as c:
        assert c.answer()["state"] == "ended"
        assert bytes(c.out) == b"one\ntwo\n"
    with client.call("attach", sandbox=box, run=run["run"], out=2, err=0) as c:
        assert c.event() == {"run": run["run"], "out": 2, "err": 0}
        c.answer()
        assert bytes(c.out) == b"e\ntwo\n" and bytes(c.err) == b"bad\n"
    slow = client.ask("exec", sandbox=box, argv=["/bin/sh", "-c", "echo now; sleep 100"], detach=True)
    assert until(lambda: last(client, box)["out_bytes"] == 4)
    with client.call("logs", sandbox=box, run=slow["run"]) as c:
        assert c.answer()["state"] == "running" and bytes(c.out) == b"now\n"


def test_a_run_goes_on_without_its_client(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done"]) as c:
        number = c.event()["run"]
        c.until_out(b"1\n")
    with client.call("attach", sandbox=box, run=number, out=2) as c:
        assert c.answer()["exit_code"] == 0
        assert bytes(c.out) == b"2\n3\n4\n5\n6\n"


def test_two_watch_the_same_run(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "echo a; sleep 0.3; echo b"]) as one:
        number = one.event()["run"]
        one.until_out(b"a\n")
        with client.call("attach", sandbox=box, run=number, out=0) as two:
            assert two.answer() == one.answer()
            assert bytes(two.out) == bytes(one.out) == b"a\nb\n"


def test_a_terminal(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sh"], tty=True, rows=31, cols=97) as c:
        number = c.event()["run"]
        c.input(b"stty size; tty; echo $TERM\n", end=False)
        c.until_out(b"31 97")
        c.until_out(b"/dev/pts/")
        c.until_out(b"xterm")
        c.control(resize=[40, 120])
        c.input(b"stty size\n", end=False)
        c.until_out(b"40 120")
        c.control(detach=True)
        assert c.answer()["state"] == "running"
    # somebody else comes back, sees what was, and goes on
    with client.call("attach", sandbox=box, run=number) as c:
        c.until_out(b"31 97")
        c.until_out(b"40 120")
        c.input(b"echo still $((20 + 3))\n", end=False)
        c.until_out(b"still 23")
        c.input(b"\x03", end=False)
        c.until_out(b"^C")
        run = None
        while run is None:  # what is typed before the shell has seen to the interrupt goes with it
            c.input(b"exit 5\n", end=False)
            while run is None and select.select([c.socket], [], [], 2)[0]:
                run = c.take(*c.next())
        assert run["exit_code"] == 5
    assert client.runs(sandbox=box, max=1)["runs"][0]["tty"]


def test_stop_ends_runs_and_their_watchers(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "1000"]) as c:
        c.event()
        client.stop(sandbox=box)
        run = c.answer()
        assert run["state"] == "ended" and run["reason"] == "stopped"
    client.resume(sandbox=box)
    second = client.sh(box, "true")
    assert second["run"] > run["run"]


def test_time_stands_still_while_paused(client):
    box = client.create(profile="low")["id"]
    begin = time.monotonic()
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "1000"], timeout_ms=3000) as c:
        c.event()
        client.pause(sandbox=box)
        left = 3 - (time.monotonic() - begin)
        time.sleep(3.2)
        assert last(client, box)["state"] == "running"
        begin = time.monotonic()
        client.unpause(sandbox=box)
        assert c.answer()["reason"] == "timeout"
        assert time.monotonic() - begin > left - 0.5


def test_a_huge_command(client, box):
    run = client.run(box, "/bin/echo", *["x" * 100] * 900)
    assert len(run["out"]) == 900 * 101 and run["command"][-1] == "…"
    with pytest.raises(Refused) as e:
        client.run(box, "/bin/true", env={f"V{i}": "y" * 300 for i in range(256)}, cwd="/" + "d" * 5000)
    assert e.value.code == "bad_request"
