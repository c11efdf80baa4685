"""`stockade run --driver D`: what is asked of the daemon, what is refused, and that the sandbox is always removed."""
import json
import signal
import time

import pytest

ID = "00112233445566aa"
RUN = {"sandbox": ID, "run": 1, "state": "ended", "reason": "exited", "exit_code": 3, "signal": 0, "started_ms": 1000,
       "ended_ms": 1500, "cpu_us": 7, "memory_peak": 4096, "out_bytes": 2, "err_bytes": 0}


@pytest.fixture
def daemon(operator):
    """Makes, runs and removes, and keeps what it was asked."""
    def execute(c, q):
        c.send("event", {"run": 1, "out": 0, "err": 0})
        c.everything()
        c.send("output", b"hi")
        c.ok(RUN)
    operator.on("create", lambda c, q: c.ok({"id": ID, "name": q["name"], "state": "running"}))
    operator.on("exec", execute)
    operator.on("delete", lambda c, q: c.ok({}))
    return operator


def asked(operator, verb):
    return [q for q in operator.requests if q["verb"] == verb]


def wait_for(operator, verb, seconds=5):
    end = time.monotonic() + seconds
    while not asked(operator, verb) and time.monotonic() < end:
        time.sleep(0.02)
    return asked(operator, verb)


def test_makes_runs_and_removes(daemon, run):
    done = run("run", "--driver", "gvisor", "--memory", "64MiB", "--env", "A=b", "--allow", "x.test", "--cwd", "/tmp", "--",
               "sh", "-c", "exit 3", input=b"in")
    assert done.status == 3 and done.out == b"hi", done.err
    create, = asked(daemon, "create")
    assert create["driver"] == "gvisor" and create["profile"] == "low" and create["name"].startswith("run-")
    assert create["set"] == {"limits.memory": "64MiB"} and create["allow"] == ["x.test"]
    execute, = asked(daemon, "exec")
    assert execute["sandbox"] == ID and execute["argv"] == ["sh", "-c", "exit 3"] and execute["stdin"] is True
    assert execute["env"] == {"A": "b"} and execute["cwd"] == "/tmp" and "tty" not in execute
    delete, = asked(daemon, "delete")
    assert delete["sandbox"] == ID and delete["force"] is True


def test_record(daemon, run, tmp_path):
    daemon.on("show", lambda c, q: c.ok({"id": ID, "profile": "low", "driver": "gvisor", "persistent": False, "runs": [RUN]}))

    def events(c, q):
        c.send("event", {"seq": 1, "kind": "limit.hit", "data": {"limit": "limits.processes"}})
        c.send("event", {"seq": 2, "kind": "limit.hit", "data": {"limit": "limits.processes"}})
        c.send("event", {"seq": 3, "kind": "net.deny", "data": {"host": "evil.test", "port": 80, "reason": "no-rule", "count": 2}})
        c.send("event", {"seq": 4, "kind": "dns.deny", "data": {"host": "\x1b[2J", "reason": "lookups"}})
        c.ok({})
    daemon.on("events", events)
    file = tmp_path / "record"
    assert run("run", "--driver", "gvisor", "--record", file, "--", "true").status == 3
    record = json.loads(file.read_text())
    assert (record["driver"], record["reason"], record["status"], record["exit_code"]) == ("gvisor", "exited", 3, 3)
    assert record["limits_hit"] == ["limits.processes"] and record["workspace"] == "memory"
    assert [(d["rule"], d["count"]) for d in record["denials"]] == [("network.allow", 2), ("limits.lookups", 1)]
    assert record["usage"]["wall_us"] == 500000 and record["usage"]["processes_peak"] is None


@pytest.mark.parametrize("options", [["--ro", "/usr:/mnt/usr"], ["--rw", "/usr:/mnt"], ["--workspace", "/usr"], ["--root", "/usr"],
                                     ["--learn"], ["--live"], ["--accept-missing", "limits.memory"], ["--plan"]],
                         ids=lambda options: options[0])
def test_what_such_a_sandbox_has_not(daemon, run, options):
    done = run("run", "--driver", "gvisor", *options, "--", "true")
    assert done.status == 125 and options[0] in done.errors and "hint: " in done.errors
    assert daemon.requests == []


def test_there_is_no_such_driver(daemon, run):
    done = run("run", "--driver", "cardboard", "--", "true")
    assert done.status == 125 and "no driver 'cardboard'" in done.errors and "microvm" in done.errors
    assert daemon.requests == []


def test_there_is_no_daemon(run, tmp_path):
    done = run("run", "--driver", "gvisor", "--", "true", env={"STOCKADE_SOCKET": str(tmp_path / "nobody")})
    assert done.status == 125 and "driver gvisor is the daemon's: no daemon answers" in done.errors
    assert "stockade up" in done.errors


def test_refused(operator, run):
    operator.on("create", lambda c, q: c.refuse("unenforced", "driver gvisor is not offered here", "declare it"))
    done = run("run", "--driver", "gvisor", "--", "true")
    assert done.status == 125 and "not offered here" in done.errors and "declare it" in done.errors
    time.sleep(0.3)
    assert not asked(operator, "delete"), "there is nothing to remove"


def started(daemon, popen):
    def forever(c, q):
        c.send("event", {"run": 1, "out": 0, "err": 0})
        c.send("output", b"here\n")
        c.everything()
        time.sleep(20)
    daemon.on("exec", forever)
    process = popen("run", "--driver", "gvisor", "--", "sleep", "100")
    assert process.stdout.readline() == b"here\n"
    return process


def test_killed(daemon, client):
    process = started(daemon, client.popen)
    process.kill()
    process.wait()
    name = asked(daemon, "create")[0]["name"]
    assert [q["sandbox"] for q in wait_for(daemon, "delete")] == [name]


def test_killed_while_it_is_made(operator, client):
    """What was asked for comes to be although nobody waits for it any more, and is removed then."""
    def late(c, q):
        time.sleep(0.7)
        operator.on("delete", lambda c, q: c.ok({}))
        c.ok({"id": ID})
    operator.on("create", late)
    operator.on("delete", lambda c, q: c.refuse("not_found", "there is no sandbox", ""))
    process = client.popen("run", "--driver", "gvisor", "--", "true")
    wait_for(operator, "create")
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1.5)
    count = len(asked(operator, "delete"))
    assert count > 1
    time.sleep(0.5)
    assert len(asked(operator, "delete")) == count, "it goes on asking"


def test_nothing_keeps_its_streams(daemon, client):
    process = started(daemon, client.popen)
    process.kill()
    out, err = process.communicate(timeout=5)
    assert out == b"" and err == b""


def test_native_asks_nobody(daemon, run):
    run("run", "--driver", "native", "--", "true")
    assert daemon.requests == []
