"""What people come for: sandboxes, commands, files, terminals, snapshots, events; through a door that anybody can knock at."""
import io
import json
import tarfile
import time
from urllib.parse import quote

import pytest

import harness
from conftest import events


def test_life(alice):
    made = alice.post("/api/sandboxes", {"profile": "low", "name": "life"})
    assert made.status == 201 and made.json["state"] == "running" and made.json["owner"].startswith("eth:0x"), made
    path = f"/api/sandboxes/{made.json['id']}"
    assert alice.get("/api/sandboxes/life").json["id"] == made.json["id"]  # by its name
    for verb, state in (("pause", "paused"), ("unpause", "running"), ("stop", "stopped"), ("stop", "stopped"), ("resume", "running")):
        answer = alice.post(f"{path}/{verb}")
        assert answer.status == 200 and answer.json["state"] == state and answer.json["success"], (verb, answer)
        assert answer.json["sandbox_id"] == made.json["id"]
    assert alice.get(f"{path}/usage").json["memory"] > 0
    assert "limits" in alice.get(f"{path}/policy").json["effective"]
    assert alice.delete(path).status == 409  # it runs
    assert alice.delete(f"{path}?force=true").json == {"deleted": True}
    assert alice.delete(path).status == 200  # a second time is fine
    assert alice.get(path).status == 404


def test_list_in_pages(alice):
    made = [alice.post("/api/sandboxes", {"profile": "low"}).json["id"] for _ in range(5)]
    for sandbox in made[:2]:
        assert alice.post(f"/api/sandboxes/{sandbox}/stop").status == 200
    seen, cursor = [], None
    while True:
        page = alice.get("/api/sandboxes?limit=2" + (f"&cursor={cursor}" if cursor else ""))
        assert page.status == 200 and len(page.json["sandboxes"]) <= 2, page
        seen += [s["id"] for s in page.json["sandboxes"]]
        cursor = page.json["next_cursor"]
        if not cursor:
            break
        if len(seen) == 2:  # one that has been shown goes: the next page begins where it would have
            alice.delete(f"/api/sandboxes/{made.pop(0)}?force=true")
    assert len(seen) == len(set(seen)) and set(made) <= set(seen)
    stopped = alice.get("/api/sandboxes?state=stopped").json["sandboxes"]
    assert {s["id"] for s in stopped} == {made[0]}
    for sandbox in made:
        assert alice.delete(f"/api/sandboxes/{sandbox}?force=true").status == 200


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "cursor=x", "cursor=1.x", "state=odd", "extra=1",
                                   "all=true"])
def test_list_refuses(alice, query):
    answer = alice.get(f"/api/sandboxes?{query}")
    assert answer.status == (403 if query == "all=true" else 400) and answer.json["code"], answer


def test_exec(alice, box):
    path = f"/api/sandboxes/{box}/exec"
    answer = alice.post(path, {"command": "echo hello; echo oops >&2; exit 3"})
    assert (answer.status, answer.json["exit_code"], answer.json["stdout"], answer.json["stderr"]) == (200, 3, "hello\n", "oops\n")
    answer = alice.post(path, {"argv": ["cat"], "stdin": "ä" * 120000})
    assert answer.json["stdout"] == "ä" * 120000 and not answer.json["truncated"]
    answer = alice.post(path, {"command": "pwd; echo $A $B", "cwd": "/tmp", "env_json": '{"A": "1", "B": "x y"}'})
    assert answer.json["stdout"] == "/tmp\n1 x y\n", answer
    answer = alice.post(path, {"command": "sleep 60", "timeout_ms": 200})
    assert answer.json["reason"] == "timeout", answer
    answer = alice.post(path, {"command": "printf '\\377\\000x'"})
    assert answer.json["stdout_base64"] == "/wB4", answer
    answer = alice.post(path, {"command": "head -c 6000000 /dev/zero | tr '\\0' a"})
    assert answer.json["truncated"] and len(answer.json["stdout"]) == 4 << 20


@pytest.mark.parametrize("body", [{}, {"command": 1}, {"command": "x", "argv": ["x"]}, {"argv": []}, {"argv": "x"}, {"command": "x", "cwd": "y"},
                                  {"command": "x", "env": {"A": 1}}, {"command": "x", "env_json": "["}, {"command": "x", "sandbox": "y"},
                                  {"command": "x", "verb": "down"}, {"command": "x" * 110000}, {"command": "x", "timeout_ms": -1}, []])
def test_exec_refuses(alice, box, body):
    answer = alice.post(f"/api/sandboxes/{box}/exec", body)
    assert answer.status == 400 and answer.json["code"] == "BAD_REQUEST" and answer.json["error"], answer


def test_exec_as_a_stream(alice, box):
    c = alice.connect()
    c.request("POST", f"/api/sandboxes/{box}/exec", json.dumps({"command": "for i in 1 2 3; do echo $i; sleep 0.1; done; echo no >&2", "stream": True}),
              {"Authorization": f"Bearer {alice.token}", "Content-Type": "application/json"})
    response = c.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    found = events(response)
    assert found[0][0] == "started" and found[-1][0] == "exit" and found[-1][1]["exit_code"] == 0, found
    assert "".join(d["data"] for e, d in found if e == "stdout") == "1\n2\n3\n"
    assert "".join(d["data"] for e, d in found if e == "stderr") == "no\n"
    assert len([e for e, _ in found if e == "stdout"]) >= 3  # as it came, not at the end


def test_in_the_background(alice, box):
    path = f"/api/sandboxes/{box}"
    begun = alice.post(f"{path}/exec", {"command": "echo begun; trap 'echo got it; exit 5' USR1; while :; do sleep 0.05; done", "background": True})
    assert begun.status == 202 and begun.json["accepted"], begun
    run = begun.json["run_id"]
    assert alice.get(f"{path}/runs/{run}").json["state"] == "running"
    assert harness.until(lambda: alice.get(f"{path}/runs/{run}/logs").json["stdout"] == "begun\n")
    c, response = alice.open(f"{path}/runs/{run}/stream?out=0")
    assert alice.post(f"{path}/runs/{run}/signal", {"signal": "SIGUSR1"}).status == 200
    found = events(response, until="exit")
    c.close()
    assert "".join(d["data"] for e, d in found if e == "stdout") == "begun\ngot it\n" and found[-1][1]["exit_code"] == 5
    assert alice.get(f"{path}/runs/{run}").json["exit_code"] == 5
    assert run in [r["run"] for r in alice.get(f"{path}/runs?max=5").json["runs"]]
    assert alice.post(f"{path}/runs/{run}/signal", {"signal": 15}).status == 409
    assert alice.post(f"{path}/runs/{run}/cancel").status == 200
    assert alice.get(f"{path}/runs/99999").status == 404
    assert alice.get(f"{path}/runs/x").status == 400


def test_who_goes_away_is_noticed(alice, box):
    """A stream that nobody reads holds nothing: its watcher leaves within a second or two."""
    c, response = alice.open(f"/api/sandboxes/{box}/files/watch?path=/tmp")
    assert events(response, 1)[0][0] == "opened"
    c.close()
    metrics = lambda: [line for line in alice.get("/metrics").body.decode().splitlines() if line.startswith("stockade_http_connections")][0]
    assert harness.until(lambda: metrics() == "stockade_http_connections 1"), metrics()


def test_files(alice, box):
    base = f"/api/sandboxes/{box}/files"
    data = bytes(range(256)) * 9000
    where = quote("/home/agent/a b+c/ü.bin")
    assert alice.post(f"{base}/folder", {"path": "/home/agent/a b+c"}).status == 201
    answer = alice.put(f"{base}?path={where}&mode=0640", data)
    assert answer.status == 200 and answer.json["bytes"] == len(data), answer
    answer = alice.get(f"{base}?path={where}")
    assert answer.status == 200 and answer.body == data and answer.headers["content-length"] == str(len(data))
    assert answer.headers["content-disposition"] == "attachment" and answer.headers["x-content-type-options"] == "nosniff"
    assert alice.get(f"{base}/stat?path={where}").json["mode"] == 0o640
    for span, want in (("bytes=0-9", data[:10]), ("bytes=100-", data[100:]), ("bytes=-7", data[-7:]), ("bytes=5-99999999", data[5:])):
        part = alice.get(f"{base}?path={where}", headers={"Range": span})
        assert part.status == 206 and part.body == want, (span, part)
        assert part.headers["content-range"].endswith(f"/{len(data)}")
    beyond = alice.get(f"{base}?path={where}", headers={"Range": f"bytes={len(data)}-"})
    assert beyond.status == 416 and beyond.headers["content-range"] == f"bytes */{len(data)}"
    for odd in ("bytes=5-1", "lines=1-2", "bytes=0-1,3-4", "bytes=x"):
        assert alice.get(f"{base}?path={where}", headers={"Range": odd}).status == 200
    listed = alice.get(f"{base}?path={quote('/home/agent/a b+c')}").json["entries"]
    assert [e["name"] for e in listed] == ["ü.bin"]
    assert alice.post(f"{base}/move", {"path": "/home/agent/a b+c/ü.bin", "to": "/home/agent/moved"}).status == 200
    assert alice.get(f"{base}?path={where}").status == 404
    assert alice.delete(f"{base}?path=/home/agent/moved").status == 200
    alice.put(f"{base}?path={where}", b"x")
    assert alice.delete(f"{base}?path={quote('/home/agent/a b+c')}").status == 409  # it is not empty
    assert alice.delete(f"{base}?path={quote('/home/agent/a b+c')}&recursive=true").status == 200


def test_a_file_in_pieces(alice, box):
    c = alice.connect()
    pieces = [bytes([n]) * 70000 for n in range(40)]
    c.request("PUT", f"/api/sandboxes/{box}/files?path=/home/agent/pieces", iter(pieces),
              {"Authorization": f"Bearer {alice.token}", "Transfer-Encoding": "chunked"}, encode_chunked=True)
    response = c.getresponse()
    assert response.status == 200 and json.loads(response.read())["bytes"] == 2800000
    assert alice.get(f"/api/sandboxes/{box}/files?path=/home/agent/pieces").body == b"".join(pieces)
    empty = alice.put(f"/api/sandboxes/{box}/files?path=/home/agent/empty", b"")
    assert empty.status == 200 and empty.json["bytes"] == 0, empty
    assert alice.get(f"/api/sandboxes/{box}/files?path=/home/agent/empty").body == b""


def test_half_a_file_is_no_file(alice, box):
    c = alice.connect()
    c.putrequest("PUT", f"/api/sandboxes/{box}/files?path=/home/agent/half")
    c.putheader("Authorization", f"Bearer {alice.token}")
    c.putheader("Content-Length", "1000000")
    c.endheaders(b"x" * 500000)
    time.sleep(0.3)
    c.close()
    time.sleep(0.7)
    assert alice.get(f"/api/sandboxes/{box}/files?path=/home/agent/half").status == 404


def test_archives(alice, box):
    base = f"/api/sandboxes/{box}/files"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in (("tree/one", b"1"), ("tree/deep/two", b"2" * 100000)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    assert alice.post(f"{base}/folder", {"path": "/home/agent/in"}).status == 201
    put = alice.put(f"{base}/archive?path=/home/agent/in", out.getvalue())
    assert put.status == 200, put
    got = alice.get(f"{base}/archive?path=/home/agent/in/tree")
    assert got.status == 200 and got.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(got.body)) as tar:
        assert {m.name.lstrip("./"): m.size for m in tar if m.isfile()}["deep/two".lstrip("./")] == 100000 or \
            any(m.name.endswith("deep/two") and m.size == 100000 for m in tar)


@pytest.mark.parametrize("name", ["../../../etc/escape", "/etc/escape-abs"])
def test_archives_that_want_out(alice, box, name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    alice.post(f"/api/sandboxes/{box}/files/folder", {"path": "/home/agent/out"})
    alice.put(f"/api/sandboxes/{box}/files/archive?path=/home/agent/out", out.getvalue())
    found = alice.post(f"/api/sandboxes/{box}/exec", {"command": "ls -d /etc/escape* /home/agent/../etc/escape* 2>/dev/null"})
    assert found.json["stdout"] == "", found


@pytest.mark.parametrize("path", ["relative", "", "/a/../b", "/a%00b", "/%ff", "/x" * 3000, "/a%2", "/a%zz"])
def test_paths_that_are_none(alice, box, path):
    answer = alice.get(f"/api/sandboxes/{box}/files?path={path}")
    assert answer.status in (400, 404, 414, 431) and (answer.status == 431 or answer.json["code"]), answer


@pytest.mark.parametrize("name", ["two\nlines", "\x1b]0;title\x07", "\t", "del\x7f", "\r\nX-Evil: 1"])
def test_names_with_controls(alice, box, name):
    """A name has any byte but two. What a list shows can be asked for, by every route, and no answer is broken by it."""
    files, folder, path = f"/api/sandboxes/{box}/files", "/home/agent/controls", f"/home/agent/controls/{name}"
    at = quote(path, safe="/")
    assert alice.post(f"{files}/folder", {"path": folder, "recursive": True}).status == 201
    try:
        assert alice.put(f"{files}?path={at}", b"inside").json["bytes"] == 6
        assert [e["name"] for e in alice.get(f"{files}?path={folder}").json["entries"]] == [name]
        assert alice.get(f"{files}/stat?path={at}").json["size"] == 6
        answer = alice.get(f"{files}?path={at}")
        assert answer.body == b"inside" and "x-evil" not in answer.headers
        with tarfile.open(fileobj=io.BytesIO(alice.get(f"{files}/archive?path={at}").body)) as tar:
            assert tar.getnames() == [name]
        assert alice.post(f"{files}/move", {"path": path, "to": f"{path}2"}).status == 200
        assert alice.delete(f"{files}?path={at}").status == 404
        assert alice.delete(f"{files}?path={at}2").status == 200
        missing = alice.get(f"{files}?path={at}")  # words for a person have none of it
        assert missing.status == 404 and not set(missing.json["error"]) & set(map(chr, range(32))), missing
    finally:
        assert alice.delete(f"{files}?path={folder}&recursive=true").status == 200


def test_watching(alice, box):
    c, response = alice.open(f"/api/sandboxes/{box}/files/watch?path=/home/agent")
    assert events(response, 1) == [("opened", {"opened": True})]
    alice.put(f"/api/sandboxes/{box}/files?path=/home/agent/seen", b"x")
    while True:
        name, change = events(response, 1)[0]
        if "seen" in change["path"] or "seen" in change.get("to", ""):
            break
    c.close()


def test_snapshots(alice):
    sandbox = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    path = f"/api/sandboxes/{sandbox}"
    alice.put(f"{path}/files?path=/home/agent/a", b"one")
    first = alice.post(f"{path}/snapshot", {"name": "first"})
    assert first.status == 201, first
    alice.put(f"{path}/files?path=/home/agent/b", b"two")
    second = alice.post(f"{path}/snapshot").json["id"]
    diff = alice.get(f"/api/snapshots/first/diff?to={second}")
    assert diff.status == 200 and diff.json["added"] == 1 and [c["path"] for c in diff.json["changes"] if c["change"] == "added"], diff
    fork = alice.post(f"{path}/fork", {"name": "forked"})
    assert fork.status == 201 and fork.json["state"] == "running", fork
    assert alice.get(f"/api/sandboxes/forked/files?path=/home/agent/b").body == b"two"
    made = alice.post("/api/sandboxes", {"from_snapshot": "first"})
    assert made.status == 201 and alice.get(f"/api/sandboxes/{made.json['id']}/files?path=/home/agent/b").status == 404
    out = alice.get("/api/snapshots/first/export")
    assert out.status == 200 and out.body[:4] == b"\x28\xb5\x2f\xfd", out
    back = alice.ask("POST", "/api/snapshots/import?name=imported&profile=medium", out.body)
    assert back.status == 201, back
    assert alice.post(f"{path}/rollback", {"snapshot": "first"}).status == 200
    assert alice.get(f"{path}/files?path=/home/agent/b").status == 404
    assert {s["name"] for s in alice.get("/api/snapshots").json["snapshots"]} >= {"first", "imported"}
    for name in (sandbox, "forked", made.json["id"]):
        assert alice.delete(f"/api/sandboxes/{name}?force=true").status == 200
    for name in ("first", second, "imported"):
        assert alice.delete(f"/api/snapshots/{name}").status == 200, name


def test_events(alice, bob, box):
    c, response = alice.open("/api/events?kinds=sandbox")
    made = alice.post("/api/sandboxes", {"profile": "low"}).json["id"]
    seen = []
    while not any(d["kind"] == "sandbox.start" and d["sandbox"] == made for _, d in seen):
        seen += events(response, 1)
    c.close()
    assert all(name.startswith("sandbox.") for name, _ in seen)
    last = seen[0][1]["seq"]
    c, response = alice.open("/api/events?follow=false", headers={"Last-Event-ID": str(last)})
    again = events(response)
    c.close()
    assert again[0][1]["seq"] > last and again[-1][0] == "end"
    c, response = bob.open(f"/api/events?follow=false&from=1")
    assert made not in [d.get("sandbox") for _, d in events(response)]
    c.close()
    alice.delete(f"/api/sandboxes/{made}?force=true")
    where = alice.get("/api/ledger/checkpoint")
    assert where.status == 200 and where.json["seq"] > last and len(where.json["hash"]) == 64


def test_secrets(alice, box):
    path = f"/api/sandboxes/{box}/secrets"
    assert alice.get(path).json["secrets"] == []
    assert alice.post(path, {"env_json": {"NOT_IN_PROFILE": "hush-hush"}}).status == 400
    assert alice.post(path, {"env_json": "x"}).status == 400
    profile = "profile: 1\nname: keyed\nextends: medium\nsecrets: [TOKEN]\nnetwork: {allow: [{host: api.example.com, secret: TOKEN}]}\n"
    made = alice.post("/api/sandboxes", {"profile_text": profile, "secrets": {"TOKEN": "value-of-the-token"}})
    assert made.status == 201, made
    path = f"/api/sandboxes/{made.json['id']}/secrets"
    assert alice.get(path).json["secrets"] == [{"name": "TOKEN", "given": True}]
    assert alice.delete(path).json == {"status": "secrets_wiped"}
    assert alice.get(path).json["secrets"] == [{"name": "TOKEN", "given": False}]
    assert alice.post(path, {"env_json": {"TOKEN": "another-value"}}).json == {"status": "secrets_configured"}
    assert alice.get(path).json["secrets"] == [{"name": "TOKEN", "given": True}]
    everything = b"".join(alice.get(p).body for p in (path, f"/api/sandboxes/{made.json['id']}", "/api/sandboxes", "/api/events?follow=false&from=1"))
    assert b"value-of-the-token" not in everything
    alice.delete(f"/api/sandboxes/{made.json['id']}?force=true")


def test_idempotency(alice):
    body = {"profile": "low", "key": "once"}
    first, second = (alice.post("/api/sandboxes", body) for _ in range(2))
    assert first.status == second.status == 201 and first.json["id"] == second.json["id"]
    assert alice.post("/api/sandboxes", {"profile": "medium", "key": "once"}).status == 409
    alice.delete(f"/api/sandboxes/{first.json['id']}?force=true")


def test_a_driver_is_had_or_refused(alice):
    """Never another one than the one asked for."""
    refused = alice.post("/api/sandboxes", {"profile": "low", "driver": "gvisor"})
    assert refused.status == 422 and "driver gvisor is not offered here" in refused.json["error"], refused
    made = alice.post("/api/sandboxes", {"profile": "low", "driver": "native"})
    assert made.status == 201 and made.json["driver_why"] == "it was asked for", made
    alice.delete(f"/api/sandboxes/{made.json['id']}?force=true")


def test_host(nobody, alice):
    assert nobody.get("/health").json["status"] == "ok"
    assert harness.until(lambda: nobody.get("/readyz").status == 200)
    found = nobody.get("/api/capabilities").json
    assert found["drivers"] == ["native"] and found["limits"]["memory"] > 0
    text = nobody.get("/metrics")
    assert text.status == 200 and text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'stockade_http_requests_total{method="GET",route="/health",class="2xx"}' in text.body.decode()
