"""Sandboxes that run: starting, using and ending them."""
import errno
import os
import signal
import socket
import time

import plans
import pytest
import wire
from daemon import Refused, alive, cgroups, new_id, until
from stopwatch import Stopwatch


def refused(call, code, *words):
    with pytest.raises(Refused) as e:
        call()
    assert code is None or e.value.error == code, e.value
    for word in words:
        assert word in e.value.text, e.value
    return e.value


def test_starts_serves_and_stops(warden, low, inside):
    id, answer, guest, fds = warden.begin(low)
    assert not fds and alive(answer.pid) and answer.start_time > 0
    said, code = inside(guest).output("id -u; cat /proc/1/comm; ls -A / | head -3")
    assert said.split()[:2] == ["1000", "stockade-guest"] or said.split()[0] == "1000"
    assert code == 0
    items = [m for m in warden.list() if m.item == wire.SANDBOX]
    assert [(m.id, m.pid, m.start_time) for m in items] == [(id, answer.pid, answer.start_time)]
    folder = warden.folder / "run/sandboxes" / id
    assert (folder / "info").exists() and oct(folder.stat().st_mode)[-3:] == "700"
    usage = warden.stop(id).usage
    assert usage["cpu_us"] > 0 and usage["memory_peak"] > 0 and usage["processes_peak"] >= 2
    assert not alive(answer.pid) and not folder.exists() and not cgroups(id)
    assert warden.running() == set()
    warden.stop(id)  # twice is fine


def test_host_is_out_of_reach(warden, low, inside):
    _, _, guest, _ = warden.begin(low)
    c = inside(guest)
    said, _ = c.output("cat /proc/self/status")
    status = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["1000"] * 4
    assert status["CapBnd"] == "0000000000000000" and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    for script in ("touch /usr/x", "cat /etc/shadow", "mount -t tmpfs x /tmp", "unshare -U true", "ls /work /root /home/*"):
        assert c.output(script)[1] != 0, script
    assert "operator.sock" not in c.output("cat /proc/net/unix; ls -lR /run /proc/1/fd 2>&1")[0]


def test_runs_have_leaves(warden, low, inside):
    id, _, guest, _ = warden.begin(low)
    c = inside(guest)
    files = warden.ask("leaf", id=id, run=7)[1]
    assert 1 <= len(files) <= 8
    run = c.sh("cat /proc/self/cgroup; sleep 60 & exec sleep 60", number=7, fds=files)
    wire.close(files)
    c.wait(lambda: b"\n" in run.out)
    leaf = [p for p in cgroups("run-7") if id in p]
    assert leaf
    again = warden.ask("leaf", id=id, run=7)[1]  # a successor asks again
    assert len(again) == len(files)
    wire.close(again)
    until(lambda: warden.ask("usage", id=id, run=7)[0].usage["processes_now"] == 2)
    whole = warden.ask("usage", id=id)[0].usage
    assert whole["processes_now"] == 3
    refused(lambda: warden.ask("leaf-end", id=id, run=7), -errno.EBUSY, "live on")
    usage = warden.ask("leaf-end", wire.KILL, id=id, run=7)[0].usage
    assert usage["cpu_us"] > 0
    c.end(run)
    assert os.WTERMSIG(run.exited.number) == signal.SIGKILL
    assert not [p for p in cgroups("run-7") if id in p]
    until(lambda: warden.ask("usage", id=id)[0].usage["processes_now"] == 1)  # whoever was killed counts until PID 1 has reaped it
    refused(lambda: warden.ask("leaf-end", id=id, run=7), -errno.ENOENT)


def test_a_fork_bomb_is_cancelled(warden, low, inside):
    id, _, guest, _ = warden.begin(low.limit("limits.processes", 60))
    c = inside(guest)
    files = warden.ask("leaf", id=id, run=1)[1]
    run = c.sh("f() { f | f & }; f; sleep 100", number=1, fds=files)
    wire.close(files)
    until(lambda: warden.ask("usage", id=id)[0].usage["fork_refusals"] > 0)
    watch = Stopwatch(warden.process.pid)
    usage = warden.ask("leaf-end", wire.KILL, id=id, run=1)[0].usage
    assert watch.seconds < 5, watch.wall
    until(lambda: warden.ask("usage", id=id)[0].usage["processes_now"] == 1)
    assert warden.ask("usage", id=id)[0].usage["fork_refusals"] >= usage["fork_refusals"]
    c.end(run)
    assert c.output("echo still here", number=2)[0] == "still here\n"


def test_an_oom_names_its_run(warden, low, inside):
    id, _, guest, _ = warden.begin(low.limit("limits.memory", 64 << 20))
    c = inside(guest)
    for number, script in ((1, "echo innocent"), (2, "head -c 200m /dev/zero | tail -c 190m >/dev/null")):
        files = warden.ask("leaf", id=id, run=number)[1]
        c.end(c.sh(script, number=number, fds=files))
        wire.close(files)
    assert warden.ask("leaf-end", id=id, run=1)[0].usage["oom_kills"] == 0
    assert warden.ask("leaf-end", id=id, run=2)[0].usage["oom_kills"] == 1
    assert warden.ask("usage", id=id)[0].usage["oom_kills"] == 1
    assert warden.stop(id).usage["oom_kills"] == 1


def test_pauses(warden, low, inside):
    id, _, guest, _ = warden.begin(low)
    c = inside(guest)
    run = c.sh("i=0; while :; do i=$((i+1)); echo $i; done", number=1)
    c.wait(lambda: len(run.out) > 100)
    warden.ask("freeze", id=id)
    warden.ask("freeze", id=id)  # twice is fine
    assert [m.flags & wire.FROZEN for m in warden.list() if m.item == wire.SANDBOX] == [wire.FROZEN]
    c.idle(0.1)
    before = warden.ask("usage", id=id)[0].usage["cpu_us"]
    time.sleep(0.2)
    assert warden.ask("usage", id=id)[0].usage["cpu_us"] == before
    warden.ask("thaw", id=id)
    warden.ask("thaw", id=id)
    n = len(run.out)
    c.wait(lambda: len(run.out) > n)
    warden.ask("freeze", id=id)
    warden.stop(id)  # also a paused one


def test_an_end_that_nobody_asked_for(warden, low):
    id, answer, _, _ = warden.begin(low)
    os.kill(answer.pid, signal.SIGKILL)
    gone = warden.wait_told("gone")
    assert gone.id == id and os.WTERMSIG(gone.error) == signal.SIGKILL and gone.usage["cpu_us"] > 0
    assert warden.running() == set() and not cgroups(id)
    refused(lambda: warden.ask("connect", id=id), -errno.ENOENT, id)


def test_connections(warden, low, inside):
    id, _, guest, _ = warden.begin(low)
    inside(guest).output("true")
    _, fds = warden.ask("connect", id=id)
    assert inside(socket.socket(fileno=fds[0])).output("echo newer", number=2)[0] == "newer\n"


def test_what_is_not_there(warden, low):
    for kind in "connect network freeze thaw cut".split():
        refused(lambda kind=kind: warden.ask(kind, id=new_id()), -errno.ENOENT)
    for kind in ("leaf", "leaf-end", "usage"):
        refused(lambda kind=kind: warden.ask(kind, id=new_id(), run=1), -errno.ENOENT)
    id, _, _, _ = warden.begin(low)
    refused(lambda: warden.begin(low, id), -errno.EEXIST, id)
    refused(lambda: warden.ask("usage", id=id, run=3), -errno.ENOENT)


def test_a_plan_that_the_host_cannot_do(warden, low):
    missing = low.behind_root(plans.Step("OP_BIND", 0, "/usr/no/such/thing", "/mnt"))
    id = new_id()
    e = refused(lambda: warden.begin(missing, id), -errno.ENOENT, "/usr/no/such/thing")
    assert "bind" in e.text
    assert warden.running() == set() and not cgroups(id) and not (warden.folder / "run/sandboxes" / id).exists()


def test_many_at_once(warden, low):
    began = time.monotonic()
    ids = [new_id() for _ in range(30)]
    serials = [warden.send_start(low, id) for id in ids]
    for serial in serials:
        answer, fds = warden.answer(serial)
        warden.pids.append(answer.pid)
        wire.close(fds)
    assert warden.running() == set(ids)
    serials = [warden.send("stop", id=id) for id in ids]
    for serial in serials:
        warden.answer(serial)
    assert warden.running() == set()
    print(f"30 started and stopped in {time.monotonic() - began:.2f} s")
