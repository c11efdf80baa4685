"""Attempts to use up what everybody shares, each against a small limit and, as a control, below a larger one. What is
believed is the record, which the launcher makes from what the kernel counted, and what arrived outside."""
import subprocess

import pytest

import judge
from judge import PROBE

MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("unchanged")


def workspace(profile):
    """The folder whose size --size and --inodes set."""
    return "folder=/tmp" if profile == "low" else "folder=/home/agent"


def attempt(person, profile, name, *options, facts=(), **kw):
    return person.probe(profile, name, options, facts=facts, **kw)


@pytest.mark.parametrize("name", ["fork-bomb", "thread-bomb"])
def test_processes(person, profile, name):
    run = attempt(person, profile, name, "--processes", "40", facts=["ceiling=400"])
    assert run.only["result"] == "refused" and run.only["errno"] == "EAGAIN", run.only
    assert run.record["usage"]["processes_peak"] <= 40, run.record
    assert run.record["usage"]["fork_refusals"] > 0 and "limits.processes" in run.record["limits_hit"], run.record
    control = attempt(person, profile, name, "--processes", "200", facts=["ceiling=100"])
    assert control.only["result"] == "done", control.only
    assert "limits.processes" not in control.record["limits_hit"]


def test_orphans_are_reaped(person, profile):
    run = attempt(person, profile, "zombie-flood", "--processes", "40", facts=["ceiling=600"])
    assert run.status == 0 and run.only["result"] == "refused", run


@pytest.mark.parametrize("name", ["memory-bomb", "sysv-bomb"])
def test_memory(person, profile, name):
    """Before Linux 6.4 the kernel may go on looking for memory to take back for a while, when others have a lot of cached
    entries: it counts theirs as progress. So nothing is said about how soon the end comes."""
    run = attempt(person, profile, name, "--memory", "64MiB", facts=[f"ceiling={256 * MIB}"])
    said = run.lines.get(name)  # nothing at all if the kernel chose the whole sandbox
    assert said is None or said["result"] == "killed" or said["errno"] in ("ENOMEM", "ENOSPC"), f"OPEN: {said}"
    assert run.record["usage"]["memory_peak"] <= 66 * MIB, run.record
    assert run.record["usage"]["oom_kills"] > 0 and "limits.memory" in run.record["limits_hit"], (said, run.record)
    control = attempt(person, profile, name, "--memory", "256MiB", facts=[f"ceiling={48 * MIB}"])
    assert control.only["result"] == "done", control.only


@pytest.mark.parametrize("name", ["fill-folder", "fill-allocate"])
def test_disk(person, profile, name):
    run = attempt(person, profile, name, "--size", "16MiB", facts=[workspace(profile), f"ceiling={64 * MIB}"])
    assert run.only["result"] == "refused" and run.only["errno"] == "ENOSPC", f"OPEN: {run.only}"
    control = attempt(person, profile, name, "--size", "16MiB", facts=[workspace(profile), f"ceiling={8 * MIB}"])
    assert control.only["result"] == "done", control.only


def test_shared_memory(person, profile):
    run = attempt(person, profile, "fill-shm", "--set", "shm=8MiB", facts=[f"ceiling={32 * MIB}"])
    assert run.only["result"] == "refused" and run.only["errno"] == "ENOSPC", f"OPEN: {run.only}"
    control = attempt(person, profile, "fill-shm", "--set", "shm=8MiB", facts=[f"ceiling={4 * MIB}"])
    assert control.only["result"] == "done", control.only


@pytest.mark.parametrize("name", ["inode-bomb", "deep-folders"])
def test_files(person, profile, name):
    def once():
        run = attempt(person, profile, name, "--inodes", "1000", facts=[workspace(profile), "ceiling=4000"])
        assert run.only["result"] == "refused" and run.only["errno"] == "ENOSPC", f"OPEN: {run.only}"
        return run.wall
    assert judge.quickest(once, 10) < 10
    control = attempt(person, profile, name, "--inodes", "1000", facts=[workspace(profile), "ceiling=500"])
    assert control.only["result"] == "done", control.only


def test_descriptors(person, profile):
    run = attempt(person, profile, "descriptor-bomb", "--files", "256", facts=["ceiling=4096"])
    assert run.only["result"] == "refused" and run.only["errno"] == "EMFILE", f"OPEN: {run.only}"
    control = attempt(person, profile, "descriptor-bomb", "--files", "256", facts=["ceiling=100"])
    assert control.only["result"] == "done", control.only


def test_terminals(person, profile):
    """The host's own number of terminals is out of reach."""
    run = attempt(person, profile, "terminal-bomb", facts=["ceiling=512"])
    assert run.only["result"] == "refused" and run.only["errno"] == "ENOSPC", f"OPEN: {run.only}"
    control = attempt(person, profile, "terminal-bomb", facts=["ceiling=16"])
    assert control.only["result"] == "done", control.only


def test_queues(person, profile):
    """No control: Landlock has no rule for them, so none can be made at all (EACCES)."""
    run = attempt(person, profile, "queue-bomb", facts=["ceiling=400"])
    assert run.only["result"] == "refused" and run.only["errno"] in ("EACCES", "EMFILE", "ENOSPC"), f"OPEN: {run.only}"


# What the kernel counts by user and not by cgroup, up to the launcher's own id: a sandbox gets a small share, so that the
# host's processes of the same person are never without. The ceilings are far below what the host has.

def test_inotify_of_the_host(person, profile):
    run = attempt(person, profile, "inotify-bomb", facts=["ceiling=65"])
    assert run.only["result"] == "refused" and run.only["errno"] == "EMFILE", f"OPEN: {run.only}"
    control = attempt(person, profile, "inotify-bomb", facts=["ceiling=8"])
    assert control.only["result"] == "done", control.only


def test_timers_of_the_host(person, profile):
    run = attempt(person, profile, "timer-bomb", facts=["ceiling=10000"])
    assert run.only["result"] == "refused" and run.only["errno"] == "EAGAIN", f"OPEN: {run.only}"
    control = attempt(person, profile, "timer-bomb", facts=["ceiling=100"])
    assert control.only["result"] == "done", control.only


PASS_ONE = ("import array, resource, socket; a, b = socket.socketpair(); resource.setrlimit(resource.RLIMIT_NOFILE,"
            " (1024, 1024)); a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])")


def left_for_the_host(host, person, profile):
    """Can the host still pass descriptors while the sandbox has as many in flight as it could get?"""
    process = person.start(profile, [PROBE, "in-flight-bomb", *host.facts(person, profile), "hold=20000"],
                           stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout.readline() == b"full\n"
    with person.popen(["/usr/bin/python3", "-ISc", PASS_ONE], stderr=subprocess.DEVNULL) as outside:
        status = outside.wait(60)
    process.kill()
    process.communicate(timeout=60)
    with person.popen(["/usr/bin/python3", "-ISc", PASS_ONE]) as control:
        assert control.wait(60) == 0, "control: without the sandbox it can"
    return status == 0


def test_descriptors_in_flight_of_the_host(host, person, profile):
    enough = left_for_the_host(host, person, profile)
    if person.rootless and not enough:
        pytest.xfail("with one mapped id, what the kernel counts by id is shared with the user (SECURITY)")
    assert enough, "OPEN: the host cannot pass descriptors any more"


def test_processors(person, profile):
    """Four processes that compute get half a processor together."""
    run = attempt(person, profile, "cpu-spin", "--cpus", "0.5", facts=["ms=900"])
    usage = run.record["usage"]
    assert usage["cpu_us"] <= 0.5 * usage["wall_us"] * 1.25 + 60000, f"OPEN: {usage}"
    # it ran into its limit, unless this machine was too busy to give it as much
    assert usage["throttled_us"] is None or usage["throttled_us"] > 0, usage


def test_processor_time(person, profile):
    def once():
        run = attempt(person, profile, "cpu-spin", "--cpu-time", "400ms", facts=["ms=60000"])
        assert run.record["reason"] == "budget", f"OPEN: {run}"
        assert run.record["usage"]["cpu_us"] < 3_000_000, run
        return run.wall
    assert judge.quickest(once, 8) < 8


def test_output(person, profile):
    run = attempt(person, profile, "output-flood", "--output", "1MiB", facts=[f"ceiling={64 * MIB}"])
    assert len(run.out) <= MIB, f"OPEN: {len(run.out)} bytes came out"
    assert run.record["reason"] == "output_limit" and run.record["output_cut"], run.record
    control = attempt(person, profile, "output-flood", "--output", "4MiB", facts=[f"ceiling={2 * MIB}"])
    assert len(control.out) >= 2 * MIB and control.record["reason"] == "exited", control.record


def test_output_without_reader(person, profile):
    """Nobody reads: the sandbox waits, and ends with its time."""
    run = person.run(profile, ["/bin/sh", "-c", "yes | head -c 50000000 >/dev/null; echo done"], ["--timeout", "20s"])
    assert run.text == "done\n", run


@pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])
def test_deadline(person, profile, on_terminal):
    """Every signal blocked, one process stopped: over at the deadline all the same."""
    def once():
        run = attempt(person, profile, "stubborn", "--timeout", "700ms", on_terminal=on_terminal)
        assert run.status == 124 and run.record["reason"] == "timeout", f"OPEN: {run}"
    assert judge.quickest(once, 5) < 5


@pytest.mark.parametrize("script, status, reason", [("exit 137", 137, "exited"), ("kill -9 $$", 137, "signal"),
                                                    ("exit 124", 124, "exited"), ("kill -15 $$", 143, "signal")])
def test_truth_about_the_end(person, profile, script, status, reason):
    """What looks like a limit and is none is told apart."""
    run = person.run(profile, ["/bin/sh", "-c", script])
    assert run.status == status and run.record["reason"] == reason, run.record
    assert not run.record["limits_hit"]
