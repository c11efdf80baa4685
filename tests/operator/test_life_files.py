"""Files, archives, ports and processes inside, over the guest."""
import io
import os
import tarfile
import threading
import time

import pytest

from harness import Refused, until


@pytest.fixture
def box(client):
    return client.create(profile="medium")["id"]


def put(client, box, path, data, **more):
    with client.call("put", sandbox=box, path=path, **more) as c:
        c.input(data)
        return c.answer()


def get(client, box, path, **more):
    with client.call("get", sandbox=box, path=path, **more) as c:
        result = c.answer()
        assert result["bytes"] == len(c.out)
        return bytes(c.out)


def code(call, *args, **fields):
    with pytest.raises(Refused) as e:
        call(*args, **fields)
    assert e.value.message
    return e.value.code


def test_an_etag_that_is_none(client, box):
    """Of a link or a pipe there is none: whoever sends what he got does not write without a condition."""
    put(client, box, "/home/agent/f", b"theirs")
    assert code(put, client, box, "/home/agent/f", b"mine", if_match="") == "bad_request"
    assert get(client, box, "/home/agent/f") == b"theirs"


def test_there_and_back(client, box):
    data = os.urandom(5 << 20)
    assert put(client, box, "/home/agent/big", data, mode=0o600)["bytes"] == len(data)
    assert get(client, box, "/home/agent/big") == data
    assert get(client, box, "/home/agent/big", offset=1000, length=77) == data[1000:1077]
    entry = client.stat(sandbox=box, path="/home/agent/big")
    assert (entry["kind"], entry["size"], entry["mode"]) == ("file", len(data), 0o600)
    assert put(client, box, "/home/agent/empty", b"")["bytes"] == 0
    assert get(client, box, "/home/agent/empty") == b""
    assert client.sh(box, "sha256sum </home/agent/big")["out"].split()[0].decode() == __import__("hashlib").sha256(data).hexdigest()


def test_folders(client, box):
    client.mkdir(sandbox=box, path="/home/agent/a/b/c", recursive=True)
    assert code(client.mkdir, sandbox=box, path="/home/agent/a") == "conflict"
    put(client, box, "/home/agent/a/f", b"1")
    client.sh(box, "ln -s f /home/agent/a/l")
    kinds = {e["name"]: e["kind"] for e in client.ls(sandbox=box, path="/home/agent/a")["entries"]}
    assert kinds == {"b": "folder", "f": "file", "l": "link"}
    client.mv(sandbox=box, path="/home/agent/a/f", to="/home/agent/a/g")
    assert get(client, box, "/home/agent/a/g") == b"1"
    assert code(client.rm, sandbox=box, path="/home/agent/a") in ("conflict", "bad_request", "refused")
    client.rm(sandbox=box, path="/home/agent/a", recursive=True)
    assert code(client.stat, sandbox=box, path="/home/agent/a") == "not_found"


def test_what_is_not_there_or_not_allowed(client, box):
    assert code(client.get, sandbox=box, path="/no/such") == "not_found"
    assert code(client.ls, sandbox=box, path="/no/such") == "not_found"
    assert code(client.ls, sandbox=box, path="/etc/passwd") == "conflict"
    assert code(put, client, box, "/usr/x", b"1") == "refused"
    assert code(put, client, box, "/home/agent/no/such/x", b"1") == "not_found"


def test_a_put_that_is_not_finished_is_not_seen(client, box):
    put(client, box, "/home/agent/f", b"old")
    with client.call("put", sandbox=box, path="/home/agent/f") as c:
        c.input(b"new and long" * 1000, end=False)
        time.sleep(0.2)
        assert get(client, box, "/home/agent/f") == b"old"

    def names():
        return [e["name"] for e in client.ls(sandbox=box, path="/home/agent")["entries"] if e["name"] != "lost+found"]
    assert until(lambda: names() == ["f"]), names()  # it is taken away when the guest has heard that the client left
    assert get(client, box, "/home/agent/f") == b"old"


def test_archives(client, box):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as t:
        for i in range(200):
            info = tarfile.TarInfo(f"tree/{i % 7}/{i}")
            info.size = i * 10
            t.addfile(info, io.BytesIO(b"z" * (i * 10)))
    with client.call("tar-in", sandbox=box, path="/home/agent") as c:
        c.input(made.getvalue())
        assert c.answer()["bytes"] == len(made.getvalue())
    assert client.sh(box, "find ~/tree -type f | wc -l")["out"].strip() == b"200"
    with client.call("tar-out", sandbox=box, path="/home/agent/tree") as c:
        c.answer()
        with tarfile.open(fileobj=io.BytesIO(bytes(c.out))) as t:
            files = {m.name.split("/")[-1]: m.size for m in t if m.isfile()}
    assert len(files) == 200 and files["77"] == 770
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as t:
        info = tarfile.TarInfo("../../../tmp/evil")
        info.size = 1
        t.addfile(info, io.BytesIO(b"x"))
    with client.call("tar-in", sandbox=box, path="/home/agent") as c:
        try:
            c.input(evil.getvalue())
        except BrokenPipeError:
            pass  # it has its answer already
        assert code(c.answer) in ("refused", "bad_request")
    assert client.sh(box, "ls /tmp/evil")["exit_code"] != 0


def test_a_slow_client_loses_nothing(client, box):
    data = os.urandom(8 << 20)
    put(client, box, "/home/agent/f", data)
    with client.call("get", sandbox=box, path="/home/agent/f") as c:
        time.sleep(1)
        c.answer()
        assert bytes(c.out) == data


def test_watch(client, box):
    with client.call("watch", sandbox=box, path="/home/agent") as c:
        assert c.event() == {"opened": True}
        client.sh(box, "echo 1 >/home/agent/seen")
        changes = set()
        while ("made", "seen") not in changes:
            event = c.event()
            changes.add((event["change"], event["path"].split("/")[-1]))
    assert client.sh(box, "true")["exit_code"] == 0


def test_connect(client, box):
    server = "import socket; s = socket.create_server(('127.0.0.1', 8123)); print('up', flush=True); c, _ = s.accept(); d = c.makefile('rb').read(); c.sendall(d[::-1]); c.close()"
    with client.call("exec", sandbox=box, argv=["/usr/bin/python3", "-c", server]) as run:
        run.until_out(b"up")
        with client.call("connect", sandbox=box, port=8123) as c:
            assert c.event() == {"opened": True}
            data = os.urandom(300000)
            c.input(data)
            assert c.answer()["bytes"] == len(data)
            assert bytes(c.out) == data[::-1]
        assert run.answer()["exit_code"] == 0
    assert code(client.connect, sandbox=box, port=9) == "not_found"


def test_processes_and_usage(client, box):
    with client.call("exec", sandbox=box, argv=["/bin/sleep", "77"]) as c:
        c.event()
        assert until(lambda: any(p["command"] == "/bin/sleep 77" for p in client.processes(sandbox=box)["processes"]))
        put(client, box, "/home/agent/f", b"x" * 100000)
        usage = client.usage()["usage"]
        assert [u["sandbox"] for u in usage] == [box] and usage[0]["processes"] >= 2 and usage[0]["memory"] > 0
        shown = client.show(sandbox=box)
        assert shown["usage"]["disk_used"] > 0 and "exec" in shown["allowed"] and shown["runs"][0]["state"] == "running"
    client.stop(sandbox=box)
    assert client.usage()["usage"] == [] and client.show(sandbox=box)["usage"] is None


def test_files_end_with_their_sandbox(client, box):
    with client.call("watch", sandbox=box, path="/home/agent") as c:
        c.event()
        client.stop(sandbox=box)
        assert code(c.answer) == "busy"
