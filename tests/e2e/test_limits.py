"""Limits that the kernel counts: memory, processes, processors, descriptors. Each is reached from inside."""
import subprocess

import pytest

import harness

EAT = """
import sys
blocks = []
while True:
    blocks.append(bytearray(b"x" * (1 << 20)))
    sys.stdout.write("."); sys.stdout.flush()
"""
FORKS = """
import os, errno, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        count += 1
except OSError as e:
    print(count, errno.errorcode[e.errno])
"""
THREADS = """
import threading, time
count = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        count += 1
except RuntimeError:
    print(count, flush=True)
import os; os._exit(0)
"""
SPIN = """
import time, os
end = time.monotonic() + {seconds}
while time.monotonic() < end: pass
"""


@pytest.mark.parametrize("limit", [32, 96])
def test_memory(py, limit):
    result = py(EAT, "--memory", f"{limit}MiB")
    assert result.status == 137 and result.reason == "oom" and result.record["limits_hit"] == ["limits.memory"]
    assert limit - 20 <= len(result.out) <= limit
    assert result.record["usage"]["memory_peak"] <= limit << 20
    assert "limits.memory" in result.errors and "--memory" in result.errors


def test_memory_of_a_child_spares_the_command(py):
    script = f"""
import os
pid = os.fork()
if pid == 0:
    exec({EAT!r})
print(os.WTERMSIG(os.waitpid(pid, 0)[1]))
"""
    result = py(script, "--memory", "64MiB")
    assert result.status == 0 and result.text.endswith("9\n") and result.reason == "exited"
    assert result.record["limits_hit"] == ["limits.memory"] and result.record["usage"]["oom_kills"] >= 1


@pytest.mark.parametrize("where", ["/tmp", "/dev/shm"])
def test_files_in_memory_count_as_memory(sh, where):
    size = "files.workspace.size=512MiB" if where == "/tmp" else "shm=48MiB"
    result = sh(f"head -c 200000000 /dev/zero > {where}/x; echo survived", "--memory", "48MiB", "--set", size)
    assert result.record["usage"]["memory_peak"] <= 48 << 20
    assert "limits.memory" in result.record["limits_hit"]


def test_memory_of_many_processes_together(py):
    script = """
import os, time
for i in range(8):
    if os.fork() == 0:
        b = bytearray(b"x" * (16 << 20)); time.sleep(1); os._exit(0)
codes = [os.wait()[1] & 127 for i in range(8)]
print(codes.count(9))
"""
    result = py(script, "--memory", "64MiB")
    assert result.record["usage"]["memory_peak"] <= 64 << 20 and result.record["usage"]["oom_kills"] >= 1


def test_no_swap(py):
    """Memory beyond the limit is refused, not moved to swap: the peak of both together stays below it."""
    result = py(EAT, "--memory", "40MiB")
    assert result.reason == "oom" and len(result.out) <= 40


@pytest.mark.parametrize("limit", [4, 16, 50])
def test_processes(py, limit):
    result = py(FORKS, "--processes", str(limit))
    assert result.ok() == f"{limit - 2} EAGAIN\n"  # PID 1 and the command itself count
    assert result.record["usage"]["processes_peak"] == limit and result.record["usage"]["fork_refusals"] >= 1
    assert "limits.processes" in result.record["limits_hit"] and "--processes" in result.errors


def test_threads_are_processes(py):
    assert py(THREADS, "--processes", "20").ok() == "18\n"


def test_fork_bomb_ends_with_the_run(sh):
    def once():
        assert sh("bomb() { bomb | bomb & }; bomb; sleep 0.3; exit 7", "--processes", "40", "--output", "1MiB").status in (7, 2)
    assert harness.quickest(once, 10 * harness.SLOW) < 10 * harness.SLOW


@pytest.mark.parametrize("cpus", ["0.2", "0.5"])
def test_cpus(py, cpus):
    """Never more, and not much less. The control spins beside it without a limit: where this machine has less than the limit
    for one process, the limit is not what holds it back, and it is tried again."""
    tried = []
    while len(tried) < 10:
        with subprocess.Popen([harness.PYTHON, "-ISc", SPIN.format(seconds=1.2) + "print(time.process_time() / 1.2)"],
                              stdout=subprocess.PIPE) as control:
            result = py(SPIN.format(seconds=1.2), "--cpus", cpus)
            had = float(control.stdout.read())
        usage = result.record["usage"]
        share = usage["cpu_us"] / usage["wall_us"]
        tried.append((share, had))
        assert share <= float(cpus) * 1.25 + 0.02, f"{share} of a processor"
        if share >= float(cpus) * 0.5 and usage["throttled_us"] > 0:
            return
    assert all(had < float(cpus) * 1.5 for _, had in tried), f"shares with the limit and without: {tried}"


def test_cpus_are_shared_by_all_processes(py):
    script = "import os\nfor i in range(3): os.fork()\n" + SPIN.format(seconds=1)
    usage = py(script, "--cpus", "0.5").record["usage"]
    assert usage["cpu_us"] / usage["wall_us"] <= 0.7


def test_cpu_time_budget(sh):
    result = sh("while :; do :; done", "--cpu-time", "300ms")
    assert result.status == 137 and result.reason == "budget" and result.record["limits_hit"] == ["budget.cpu"]
    assert 290_000 <= result.record["usage"]["cpu_us"] <= 700_000 * harness.SLOW
    assert "budget.cpu" in result.errors and "--cpu-time" in result.errors


def test_cpu_time_of_all_processes_counts(sh):
    result = sh("for i in 1 2 3 4; do (while :; do :; done) & done; wait", "--cpu-time", "400ms")
    assert result.reason == "budget" and result.record["usage"]["cpu_us"] <= 900_000 * harness.SLOW


def test_cpu_time_is_not_wall_time(sh):
    budget = 0.3 * max(1, harness.SLOW / 3)  # on an emulated processor starting alone costs as much
    assert sh(f"sleep {2 * budget}", "--cpu-time", f"{int(budget * 1000)}ms").status == 0


@pytest.mark.parametrize("limit", [16, 64, 1000])
def test_files(py, limit):
    script = """
import os, errno, resource
fds = []
try:
    while True: fds.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e:
    print(max(fds) + 1, errno.errorcode[e.errno])
try: resource.setrlimit(resource.RLIMIT_NOFILE, (100000, 100000)); print("raised")
except (ValueError, OSError): print("kept")
"""
    assert py(script, "--files", str(limit)).ok() == f"{limit} EMFILE\nkept\n"


def test_limits_cannot_be_lifted_from_inside(sh):
    """No cgroup file system, no way to a parent's cgroup: what is there is read-only or absent."""
    result = sh("mount 2>/dev/null | grep -c cgroup; ls -d /sys/fs/cgroup /cgroup 2>/dev/null; "
                "mkdir /tmp/c; mount -t cgroup2 none /tmp/c 2>/dev/null && echo mounted; true")
    assert result.ok() == "0\n"


def test_cgroup_names_of_the_host_are_hidden(sh):
    lines = sh("cat /proc/self/cgroup").ok().splitlines()
    bad = [line for line in lines if "e2e-" in line]
    assert not bad, bad


def test_tiers_have_limits(who):
    """Every tier that can run here limits memory, processes and processors."""
    for tier in ("low", "medium"):
        plan = harness.verb(who, "run", "--profile", tier, "--plan", "--", "true").ok()
        for key in ("limits.memory", "limits.processes", "limits.cpus", "budget.cpu", "time.run"):
            assert key in plan, f"{tier}: {key}"
