"""Clients of the local socket, good and bad: the operator goes on serving the others."""
import json
import os
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

import harness
from harness import Call, Gone, Refused


def raw(daemon):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(harness.ENOUGH * harness.SLOW)
    s.connect(str(daemon.socket))
    return s


def everything(s):
    data = b""
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


def frame(kind, data=b"", size=None):
    return struct.pack("<IBxxx", len(data) if size is None else size, ord(kind)) + data


GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\0" * 64,
    b"\xff" * 64,
    frame("A", b"{}"),
    frame("Z", b"{}"),
    frame("Q", b"{}", size=1 << 30),
    frame("Q", b"x" * 8, size=200 * 1024),
    frame("Q", b"not json"),
    frame("Q", b"[]"),
    frame("Q", b"{}"),
    frame("Q", b'{"verb":"ping","verb":"ping"}'),
    frame("Q", b'{"verb":"no-such-verb"}'),
    frame("Q", b'{"verb":1}'),
    frame("Q", b'{"verb":"ping","surprise":1}'),
    frame("Q", b'{"verb":"show","sandbox":"' + b"x" * 10000 + b'"}'),
    frame("Q", b"[" * 1000),
    frame("Q", b'{"verb":"ping"}' + b"\0"),
    frame("I", b"input first"),
    struct.pack("<IBBBB", 15, ord("Q"), 1, 2, 3) + b'{"verb":"ping"}',
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage(daemon, data):
    """One error, with a code, a message and a hint, and then the end of the connection."""
    with raw(daemon) as s:
        s.sendall(data)
        answer = everything(s)
    assert len(answer) > 8 and answer[4:5] == b"A", answer
    error = json.loads(answer[8:])["error"]
    assert error["code"] in ("bad_request", "not_found", "too_large") and error["message"] and error["hint"]
    assert daemon.answers()


def test_pieces(daemon):
    data = frame("Q", b'{"verb":"ping"}')
    with raw(daemon) as s:
        for i in range(len(data)):
            s.sendall(data[i:i + 1])
            time.sleep(0.001)
        assert json.loads(everything(s)[8:])["ok"]


@pytest.mark.long
def test_slow_request(daemon):
    """A client that never finishes its request is sent away after ten seconds, and costs nothing meanwhile."""
    slow = [raw(daemon) for _ in range(50)]
    for s in slow:
        s.sendall(frame("Q", b"{", size=100))
    watch = daemon.stopwatch()
    assert daemon.answers()
    for s in slow:
        answer = everything(s)
        assert json.loads(answer[8:])["error"]["code"] == "bad_request"
        s.close()
    assert watch.wall > 8
    assert watch.seconds < 15 * harness.SLOW
    assert daemon.answers()


def test_many_connections(make_daemon):
    """One user cannot take all the places: root still gets in."""
    daemon = make_daemon()
    os.chmod(daemon.state, 0o755)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(4299, 4299, 4299)
            os.setresuid(4299, 4299, 4299)
            held, ended, refused = [], [], 0
            for _ in range(300):
                held.append(raw(daemon))
            end = time.monotonic() + harness.ENOUGH
            while refused < 300 - 256 and time.monotonic() < end:
                time.sleep(0.3)
                for s in list(held):
                    s.setblocking(False)
                    try:
                        if b"owner_clients" in s.recv(4096):
                            refused += 1
                            held.remove(s)
                            ended.append(s)
                    except BlockingIOError:
                        pass
            os.write(ready[1], bytes([refused == 300 - 256]))
            os.read(go[0], 1)
            status = 0
        finally:
            os._exit(status)
    try:
        assert os.read(ready[0], 1) == b"\1"
        assert daemon.answers()
        assert len([c for c in [raw(daemon) for _ in range(100)] if c]) == 100
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        for fd in (*ready, *go):
            os.close(fd)
    assert harness.until(daemon.answers)


def test_owner_is_the_peer(make_daemon):
    """Who asks is what the kernel says: another user sees nothing of root's, and may not end the daemon."""
    daemon = make_daemon(conf="pool = 0\n")
    box = daemon.client.create(profile="low")["id"]
    os.chmod(daemon.state, 0o755)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = {}
        try:
            os.setgroups([])
            os.setresgid(4299, 4299, 4299)
            os.setresuid(4299, 4299, 4299)
            said["list"] = daemon.client.list()["sandboxes"]
            for verb, fields in (("show", {"sandbox": box}), ("delete", {"sandbox": box, "force": True}), ("down", {}),
                                 ("exec", {"sandbox": box, "argv": ["true"]}), ("list", {"all": True})):
                try:
                    said[verb + "-asked"] = daemon.client.ask(verb, **fields)
                except Refused as e:
                    said[verb + "-refused"] = e.code
        except BaseException as e:  # pylint: disable=broad-except
            said["problem"] = repr(e)
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    data = b""
    while part := os.read(read, 65536):
        data += part
    os.close(read)
    os.waitpid(child, 0)
    said = json.loads(data)
    assert "problem" not in said, said
    assert said["list"] == [] and said["show-refused"] == "not_found" and said["exec-refused"] == "not_found", said
    assert "down-refused" in said, said
    assert said.get("list-refused") or said.get("list-asked") == {"sandboxes": []}, said
    assert daemon.client.show(sandbox=box)["state"] == "running"


def test_hanging_up(make_daemon):
    """A client that goes away in the middle of anything: what it started goes on, and nothing is left of it."""
    daemon = make_daemon(conf="pool = 0\n")  # those in the pool have descriptors, and come when they come
    box = daemon.client.create(profile="low")["id"]
    call = daemon.client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "sleep 0.3; echo done > $HOME/done"])
    assert call.event()["run"]
    call.socket.close()
    assert harness.until(lambda: daemon.client.sh(box, "cat $HOME/done")["out"] == b"done\n")
    before = len(os.listdir(f"/proc/{daemon.operator}/fd"))
    for _ in range(100):
        c = daemon.client.call("exec", sandbox=box, argv=["true"])
        c.socket.close()
        raw(daemon).close()
    assert harness.until(lambda: len(os.listdir(f"/proc/{daemon.operator}/fd")) <= before + 2)


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def test_nobody_reads(daemon):
    """Output that its client does not read waits inside: memory stays bounded, and others are served."""
    box = daemon.client.create(profile="low")["id"]
    operator = daemon.operator
    before = resident(operator)
    calls = [daemon.client.call("exec", sandbox=box, argv=["/bin/sh", "-c", "yes 0123456789abcdef | head -c 300000000"])
             for _ in range(5)]
    time.sleep(1)
    times = []
    for _ in range(50):
        watch = harness.Stopwatch(operator)
        daemon.client.ping()
        times.append(watch.seconds)
    assert resident(operator) - before < 16 << 20
    assert max(times) < 0.25 * harness.SLOW, times
    for call in calls:
        call.socket.close()
    for run in daemon.client.runs(sandbox=box)["runs"]:
        if run["state"] == "running":
            daemon.client.cancel(sandbox=box, run=run["run"])


def test_input_nobody_takes(daemon):
    """Input that its program does not read is held back at the client."""
    box = daemon.client.create(profile="low")["id"]
    before = resident(daemon.operator)
    with daemon.client.call("exec", sandbox=box, argv=["sleep", "300"], stdin=True) as call:
        call.event()
        call.socket.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 << 20:
                call.send("I", b"x" * 65536)
                sent += 65536
        assert sent < 8 << 20
        assert resident(daemon.operator) - before < 8 << 20
        assert daemon.answers()


def test_through_and_through(daemon):
    """Everything that is sent comes back, in order, while much else goes on."""
    box = daemon.client.create(profile="low")["id"]
    data = os.urandom(3 << 20)
    failures = []

    def one():
        try:
            with daemon.client.call("exec", sandbox=box, argv=["cat"], stdin=True) as call:
                feeder = threading.Thread(target=call.input, args=(data,))
                feeder.start()
                result = call.answer()
                feeder.join()
                if result["exit_code"] != 0 or bytes(call.out) != data:
                    failures.append((result, len(call.out)))
        except Exception as e:  # pylint: disable=broad-except
            failures.append(repr(e))
    threads = [threading.Thread(target=one) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


def test_second_request(daemon):
    """One request per connection: another one ends it, also while the first goes on."""
    box = daemon.client.create(profile="low")["id"]
    with daemon.client.call("exec", sandbox=box, argv=["cat"], stdin=True) as call:
        call.event()
        call.send("Q", b'{"verb":"ping"}')
        with pytest.raises(Gone):
            call.answer()
    assert daemon.answers()


def test_large_request(daemon):
    with pytest.raises(Refused) as e:
        with Call(daemon.socket, {"verb": "create", "name": "x" * 100000}) as c:
            c.answer()
    assert e.value.code == "bad_request" and e.value.hint


def test_pages_of_what_was_made_at_once(make_daemon):
    """Each one is shown once, also when the last one of the page before is gone: several are made in one millisecond."""
    client, made = make_daemon(conf="pool = 0\n").client, []
    threads = [threading.Thread(target=lambda: made.append(client.create(profile="low")["id"])) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seen, after = [], ""
    while after is not None:
        page = client.list(max=1, **({"after": after} if after else {}))
        seen += [s["id"] for s in page["sandboxes"]]
        after = page["next_cursor"]
        client.delete(sandbox=seen[-1], force=True)
    assert sorted(seen) == sorted(made) and len(made) == 16
