"""How a run ends: the exit status, and the record that says why."""
import datetime
import json
import os
import re
import signal
import time

import pytest

import harness


@pytest.mark.parametrize("code", [0, 1, 2, 42, 100, 123, 124, 125, 126, 127, 128, 137, 200, 254, 255])
def test_own_status(sh, code):
    result = sh(f"exit {code}")
    assert result.status == code and result.record["exit_code"] == code
    assert result.reason == "exited" and result.record["signal"] is None and result.err == b""


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "PIPE",
                                  "ALRM", "TERM", "XCPU", "SYS"])
def test_own_signal(sh, name):
    number = int(getattr(signal, f"SIG{name}"))
    result = sh(f"kill -{name} $$")
    assert result.status == 128 + number
    assert result.reason == "signal" and result.record["signal"] == number and result.record["exit_code"] is None


def test_no_core_file(sh, place):
    """A crash leaves nothing on the host, wherever the host's core pattern points."""
    result = sh(f"cd {place}; ulimit -c; kill -SEGV $$", "--rw", place)
    assert result.status == 139 and result.text == "0\n" and os.listdir(place) == []


def test_command_not_found(run):
    result = run("--", "/usr/bin/no-such-program")
    assert result.status == 127 and "no-such-program" in result.errors
    assert result.record["status"] == 127


def test_command_not_found_in_path(run):
    assert run("--", "no-such-program").status == 127


@pytest.mark.parametrize("command", ["/usr/lib", "/etc/passwd"])
def test_command_that_cannot_be_executed(run, command):
    result = run("--", command)
    assert result.status == 126 and command in result.errors
    assert result.record["status"] == 126


def test_empty_command(run):
    assert run("--", "").status in (125, 126, 127)


def test_timeout(run):
    result = run("--timeout", "200ms", "--", "sleep", "60")
    assert result.status == 124 and result.reason == "timeout"
    assert "time.run" in result.record["limits_hit"] and "--timeout" in result.errors
    assert 180_000 <= result.record["usage"]["wall_us"] < 2_000_000 * harness.SLOW


def test_the_four_ways_to_137_differ(run, sh, py, who):
    """Own exit 137, own SIGKILL, out of memory, output limit: one status, four records."""
    own = sh("exit 137")
    kill = sh("kill -KILL $$")
    oom = py("x = bytearray(1 << 30)", "--memory", "48MiB")
    cut = run("--output", "10", "--", "yes")
    assert [r.status for r in (own, kill, oom, cut)] == [137] * 4
    assert [r.reason for r in (own, kill, oom, cut)] == ["exited", "signal", "oom", "output_limit"]
    assert own.record["limits_hit"] == kill.record["limits_hit"] == []
    assert oom.record["limits_hit"] == ["limits.memory"] and cut.record["limits_hit"] == ["limits.output"]


def test_killed_from_outside(who, place):
    """Somebody on the host kills the command: a signal, no limit."""
    path = place / "record"
    process = harness.start(who, "--", "sleep", "77.25", record=path)
    try:
        assert harness.until(lambda: [p for p, c in who.suite.processes().items() if c.startswith("sleep 77.25")])
        victim = [p for p, c in who.suite.processes().items() if c.startswith("sleep 77.25")][0]
        os.kill(victim, signal.SIGKILL)
        result = harness.finish(process, path)
    finally:
        harness.stop(process)
    assert result.status == 137 and result.reason == "signal" and result.record["limits_hit"] == []


def test_record_is_complete(who, run):
    before = time.time()
    argv = [harness.PYTHON, "-ISc", "import os; b = b'x' * (40 << 20); os.fork() or os._exit(0); "
            "t = os.times();\nwhile os.times().user - t.user < 0.2: pass"]
    result = run("--", *argv)
    after = time.time()
    record, usage = result.record, result.record["usage"]
    assert result.status == 0
    assert record["argv"] == argv and record["profile"] == "low" and record["rootless"] == who.rootless
    assert re.fullmatch("[0-9a-f]{8,}", record["id"]) and re.fullmatch("[0-9a-f]{64}", record["policy_hash"])
    start, end = (datetime.datetime.fromisoformat(record[key].replace("Z", "+00:00")).timestamp()
                  for key in ("start", "end"))
    assert before - 0.01 <= start <= end <= after + 0.01
    assert 150_000 <= usage["wall_us"] <= (after - before) * 1e6
    assert 150_000 <= usage["cpu_us"] <= 2 * usage["wall_us"]
    assert 40 << 20 <= usage["memory_peak"] <= 200 << 20
    assert 2 <= usage["processes_peak"] <= 8
    assert usage["output_bytes"] == 0 and usage["oom_kills"] == 0 and usage["fork_refusals"] == 0
    assert {"read_bytes", "write_bytes", "throttled_us"} <= usage.keys()
    assert record["limits_hit"] == [] and record["denials"] == [] and record["not_enforced"] == []
    assert {"limits", "exec", "files", "network"} <= record["denial_sources"].keys()


def test_ids_differ_and_hash_does_not(run):
    first, second = run("--", "true").record, run("--", "true").record
    assert first["id"] != second["id"] and first["policy_hash"] == second["policy_hash"]
    assert run("--memory", "300MiB", "--", "true").record["policy_hash"] != first["policy_hash"]


def test_record_of_hostile_arguments(run):
    """Control characters, quotes and bytes that are not UTF-8 cannot break the record."""
    words = ['"', "\\", "\n\t\x01\x7f", "\u2028é", os.fsdecode(b"\xff\xfe\x80"), ""]
    result = run("--", "true", *words)
    assert result.status == 0 and len(result.record["argv"]) == 7
    assert result.record["argv"][1:4] == words[:3]


def test_io_is_counted_when_it_is_limited(who, sh):
    result = sh("true", "--disk-read", "100MiB/s")
    if result.status == 125:
        harness.missing(result.errors)
    assert isinstance(result.record["usage"]["read_bytes"], int)


def test_without_a_record(run, sh):
    result = run("--", "sh", "-c", "echo out; echo err >&2; exit 5", record=False)
    assert (result.status, result.out, result.err) == (5, b"out\n", b"err\n")


def test_json_on_standard_error(run):
    result = run("--json", "--", "sh", "-c", "exit 5", record=False)
    record = json.loads(result.err)
    assert result.status == 5 and record["status"] == 5 and result.err.count(b"\n") == 1


def test_record_that_cannot_be_written_fails(who):
    result = harness.run(who, "--record", "/proc/nope/record", "--", "true", record=False)
    assert result.status == 125 and "/proc/nope/record" in result.errors


def test_record_replaces_an_older_one(who, place):
    path = place / "record"
    path.write_text("x" * 100_000)
    os.chown(path, who.uid, who.gid)
    harness.run(who, "--record", path, "--", "true", record=False).ok()
    assert harness.read_record(path)["status"] == 0
