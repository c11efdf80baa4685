"""The Python client against the real daemon: every method, and every route that it knows."""
import io
import json
import shutil
import subprocess
import tarfile
import threading
import time
from datetime import datetime, timedelta, timezone

import harness
import pytest
import stockade
from conftest import DOMAIN, ROOT, free_port
from drift import routes_of_python, template_of
from stockade import Client, CommandFailed, StockadeError, StreamEnded
from stockade.transport import Transport
from stockade.websocket import WebSocket
from wallet import Wallet

KEYED = "profile: 1\nname: keyed\nextends: medium\nsecrets: [TOKEN]\nnetwork: {allow: [{host: api.example.com, secret: TOKEN}]}\n"
asked = set()


@pytest.fixture(scope="module", autouse=True)
def recorded():
    """Which routes were asked, so that none is left untested."""
    send, open_ws = Transport.send, WebSocket.__init__

    def note_send(self, method, path, *args, **kw):
        asked.add((method, template_of(method, path)))
        return send(self, method, path, *args, **kw)

    def note_ws(self, transport, method, path):
        asked.add((method, template_of(method, path)))
        open_ws(self, transport, method, path)
    Transport.send, WebSocket.__init__ = note_send, note_ws
    yield
    Transport.send, WebSocket.__init__ = send, open_ws


def signed_in(url, name="ada"):
    wallet = Wallet(name)
    client = Client(url)
    client.sign_in(wallet.address, wallet.sign)
    return client


@pytest.fixture(scope="module")
def client(url):
    with signed_in(url) as made:
        yield made


@pytest.fixture(scope="module")
def box(client):
    with client.sandboxes.create("medium", name="python-box") as made:
        yield made


def refused(call, *args, **kw):
    with pytest.raises(StockadeError) as found:
        call(*args, **kw)
    return found.value


def test_types():
    if not shutil.which("mypy"):
        harness.missing("there is no mypy")
    r = subprocess.run(["mypy", "--strict", "--cache-dir=/dev/null", str(ROOT / "clients/python/stockade"),
                        str(ROOT / "examples/python")], capture_output=True, text=True, timeout=200)
    assert r.returncode == 0, r.stdout


def test_sign_in(url, house):
    wallet = Wallet("ada")
    client = Client(url)
    assert refused(client.whoami).code == "NO_TOKEN"
    session = client.sign_in(wallet.address, wallet.sign)
    assert session["owner"] == wallet.owner and client.token == session["token"]
    assert client.whoami()["owner"] == wallet.owner
    assert refused(client.sign_in, wallet.address, lambda text: Wallet("eve").sign(text)).status == 401
    link = house.client.ask("sign-in")["url"]
    by_link = Client(url)
    by_link.sign_in_with_link(link)
    assert by_link.whoami()["owner"] == "uid:0"
    again = refused(Client(url).sign_in_with_link, link)
    assert again.code == "BAD_TOKEN" and again.hint
    old = client.token
    client.sign_out()
    assert refused(Client(url, token=old).whoami).status == 401


def test_errors(client):
    found = refused(client.sandboxes.get, "nothing-of-this-name")
    assert (found.status, found.code) == (404, "NOT_FOUND") and found.message and found.hint and found.request_id
    assert "NOT_FOUND" in str(found) and found.hint in str(found)
    with pytest.raises(ValueError):
        client.sandboxes.get("")
    with pytest.raises(ValueError):
        Client("ftp://x")
    with pytest.raises(OSError):
        Client(f"http://127.0.0.1:{free_port()}").health()


def test_host(client):
    assert client.health()["status"] == "ok"
    assert harness.until(lambda: client.ready()["status"] == "ready", 90), client.ready()
    assert "native" in client.capabilities()["drivers"]
    assert "stockade_http_requests_total" in client.metrics()
    assert "/api/sandboxes" in client.openapi()["paths"]
    assert len(client.checkpoint()["hash"]) == 64


def test_life(client):
    box = client.sandboxes.create("low", key="python-once")
    assert client.sandboxes.create("low", key="python-once").id == box.id
    for verb, state in ((box.pause, "paused"), (box.unpause, "running"), (box.stop, "stopped"), (box.resume, "running")):
        assert verb()["state"] == state
    assert box.refresh()["state"] == "running" and box.usage()["memory"] > 0 and "policy" in box.info
    assert "effective" in box.policy() and isinstance(box.processes(), list)
    assert [b.id for b in client.sandboxes.list(state="running", page=1) if b.id == box.id] == [box.id]
    assert refused(box.delete).code == "CONFLICT"
    assert box.quarantine("looks odd")["state"] == "quarantined"
    box.delete(force=True)
    assert refused(box.refresh).code == "NOT_FOUND"


def test_policy(client):
    with client.sandboxes.create(profile_text="profile: 1\nname: p\nextends: medium\nnetwork: {allow: [{host: a.example}]}\n") as box:
        assert box.allow(["b.example"])["id"] == box.id
        assert "b.example" in json.dumps(box.policy())


def test_exec(box):
    out = box.exec("echo out; echo err >&2; exit 3", env={"A": "1"}, cwd="/tmp")
    assert (out.exit_code, out.stdout, out.stderr, out.truncated) == (3, b"out\n", b"err\n", False)
    with pytest.raises(CommandFailed, match="ended with 3.*err"):
        out.check()
    assert box.exec(["cat"], stdin="ä").check().text == "ä"
    assert box.exec("printf '\\377\\000x'").stdout == b"\xff\0x"
    assert box.exec("sleep 600", timeout_ms=200).info["reason"] == "timeout"


def test_exec_stream(box):
    found = list(box.exec_stream("echo one; echo two >&2; printf '\\377'"))
    assert found[0].kind == "started" and found[-1].kind == "exit" and found[-1].info["exit_code"] == 0
    assert b"".join(e.data for e in found if e.kind == "stdout") == b"one\n\xff"
    assert b"".join(e.data for e in found if e.kind == "stderr") == b"two\n"
    assert refused(lambda: list(box.exec_stream([]))).code == "BAD_REQUEST"


def test_background(box):
    run = box.start("echo begun; read line; echo got $line; read more", tty=True)
    assert harness.until(lambda: b"begun" in run.logs().stdout, 30)
    run.input("this\n")
    assert harness.until(lambda: b"got this" in run.logs().stdout, 30)
    assert run.info()["state"] == "running" and box.run(run.number).info()["run"] == run.number
    assert run.number in [r["run"] for r in box.runs(limit=5)]
    stream = run.stream(out=0)
    assert next(stream).kind == "started"
    run.signal("TERM")
    assert [e for e in stream][-1].kind == "exit"
    assert run.wait()["state"] != "running"
    other = box.start(["sleep", "600"])
    other.cancel()
    assert other.wait()["reason"] == "cancelled"


def test_attach_to_a_run(box):
    run = box.start("echo before; echo wrong >&2; sleep 0.2; exit 4")
    with run.attach(out=0, err=0) as attached:
        found = list(attached)
    assert b"".join(e.data for e in found if e.kind == "stdout") == b"before\n"
    assert b"".join(e.data for e in found if e.kind == "stderr") == b"wrong\n"
    assert attached.exit["exit_code"] == 4


def test_terminal(box):
    terminal = box.terminals.create("stty -echo; PS1= exec sh -i", rows=30, cols=100)
    with terminal.attach() as attached:
        attached.resize(33, 77)
        attached.send(b"stty size; echo re''ady\n")
        assert b"33 77" in attached.read_until(b"ready")
        attached.send(b"trap 'echo sig''nal' USR1; kill -USR1 $$; echo do''ne\n")
        assert b"signal" in attached.read_until(b"done")
        attached.signal(28)
        attached.send(b"x" * 70000 + b"\n")  # longer frames, too
    terminal.resize(20, 60)
    terminal.input("\necho ag''ain\n")
    with terminal.attach() as attached:  # it is still there, with what it showed
        attached.read_until(b"again")
    stream = terminal.stream(out=0)
    assert next(stream).kind == "started"
    seen = b""
    while b"again" not in seen:
        seen += next(stream).data
    assert terminal.id in [t.id for t in box.terminals.list()]
    terminal.close()
    assert [e for e in stream][-1].kind == "exit"
    assert harness.until(lambda: terminal.id not in [t.id for t in box.terminals.list()], 30)
    assert refused(box.terminals.create, "x", cwd="not-absolute").status == 400


def test_a_revoked_session_ends_streams(url, box):
    mine = signed_in(url)
    terminal = mine.sandboxes.get(box.id).terminals.create()
    attached = terminal.attach()
    events = mine.events(kinds=["sandbox"], after=0)
    next(events)
    mine.sign_out()
    with pytest.raises(StreamEnded) as found:
        list(attached)
    assert found.value.code in (1008, None)
    assert refused(lambda: list(events)).status == 401  # it comes back by itself, and is told
    assert refused(terminal.attach).status == 401
    box.terminals.list()[-1].close()


def test_files(box, tmp_path):
    files, data = box.files, bytes(range(256)) * 1000
    files.make_folder("/home/agent/py/deep", parents=True)
    assert files.write("/home/agent/py/ü b.bin", data, mode=0o640) == len(data)
    assert files.read("/home/agent/py/ü b.bin") == data and files.read("/home/agent/py/ü b.bin", (5, 9)) == data[5:10]
    assert files.read("/home/agent/py/ü b.bin", (len(data) - 3, None)) == data[-3:]
    assert files.stat("/home/agent/py/ü b.bin")["mode"] == 0o640
    assert files.write("/home/agent/py/text", "text") == 4
    assert files.write("/home/agent/py/pieces", (b"x" * 70000 for _ in range(5))) == 350000
    assert files.write("/home/agent/py/file", io.BytesIO(b"from a file")) == 11
    with files.open("/home/agent/py/pieces") as response:
        assert response.read(10) == b"x" * 10  # the rest is not fetched
    assert {e["name"] for e in files.list("/home/agent/py")} == {"deep", "ü b.bin", "text", "pieces", "file"}
    for wrong, call in ((NotADirectoryError, files.list), (StockadeError, files.read)):
        with pytest.raises(wrong):
            call("/home/agent/py/text" if wrong is NotADirectoryError else "/home/agent/py/none")
    with pytest.raises(IsADirectoryError):
        files.read("/home/agent/py")
    files.write("/home/agent/py/data.json", "{}")
    assert files.read("/home/agent/py/data.json") == b"{}"  # a file all the same
    files.move("/home/agent/py/text", "/home/agent/py/moved")
    files.remove("/home/agent/py/moved")
    assert refused(files.remove, "/home/agent/py").code == "CONFLICT"
    files.remove("/home/agent/py", recursive=True)


def test_trees(box, tmp_path):
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/data").write_bytes(b"d" * 200000)
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    box.files.make_folder("/home/agent/tree")
    box.files.upload_tree(tree, "/home/agent/tree")
    assert box.exec("ln -s /etc/passwd /home/agent/tree/link; wc -c <tree/a/b/data", cwd="/home/agent").text.strip() == "200000"
    back = tmp_path / "back"
    box.files.download_tree("/home/agent/tree", back)
    found = {str(p.relative_to(back)) for p in back.rglob("*") if p.is_file() or p.is_symlink()}
    names = {name.split("tree/", 1)[-1] for name in found}
    assert names == {"a/b/data", "run.sh"}, found  # and not the link
    script = next(p for p in back.rglob("run.sh"))
    assert script.stat().st_mode & 0o777 == 0o755
    with box.files.tar("/home/agent/tree") as response, tarfile.open(fileobj=response, mode="r|") as tar:
        assert any(m.issym() for m in tar)


@pytest.mark.parametrize("name, kind", [("../out", tarfile.REGTYPE), ("/abs", tarfile.REGTYPE), ("a/../../out", tarfile.REGTYPE)])
def test_an_archive_that_wants_out(box, tmp_path, monkeypatch, name, kind):
    """Were the server taken over, its archive still could not write elsewhere on this machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, 1
        tar.addfile(info, io.BytesIO(b"x"))
    data.seek(0)
    monkeypatch.setattr(box.files, "tar", lambda path: data)
    with pytest.raises(ValueError, match="leads outside"):
        box.files.download_tree("/home/agent", tmp_path / "in")
    assert not (tmp_path / "out").exists()


def test_an_archive_over_a_link(box, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path)
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "in/direct").symlink_to(tmp_path / "kept")
    for name, wrong in (("link/out", True), ("direct", False)):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        data.seek(0)
        monkeypatch.setattr(box.files, "tar", lambda path, data=data: data)
        if wrong:
            with pytest.raises(ValueError, match="link on the way"):
                box.files.download_tree("/home/agent", tmp_path / "in")
        else:
            box.files.download_tree("/home/agent", tmp_path / "in")
    assert not (tmp_path / "out").exists() and (tmp_path / "kept").read_text() == "kept"


def test_watch(box):
    changes = box.files.watch("/home/agent")
    box.files.write("/home/agent/watched", "x")
    assert any("watched" in json.dumps(change) for change in changes)
    changes.close()


def test_ports(client, box):
    box.files.make_folder("/home/agent/www")
    box.files.write("/home/agent/www/index.html", "from inside")
    server = box.start("exec python3 -m http.server 8080 --directory /home/agent/www")
    assert harness.until(lambda: 8080 in box.ports(), 60), server.logs()
    response = box.port_request("GET", 8080)
    assert response.status == 200 and response.read() == b"from inside"
    missing = box.port_request("GET", 8080, "/none?x=1")
    assert missing.status == 404
    missing.close()
    assert box.port_url(8080, "/a").endswith(f"/api/sandboxes/{box.id}/port/8080/a")
    tab = box.tab_url(8080, DOMAIN)
    assert tab.startswith(f"http://8080-{box.id}.{DOMAIN}:") and "/.stockade/open?ticket=" in tab
    server.cancel()


def test_ticket(client, url, box):
    path = f"/api/sandboxes/{box.id}/files"
    ticket = client.ticket(path)
    box.files.write("/home/agent/by-ticket", "once")
    other, query = Client(url)._t, {"path": "/home/agent/by-ticket", "ticket": ticket}
    assert other.open("GET", path, query=query).read() == b"once"
    assert refused(other.open, "GET", path, query=query).status == 401


def test_secrets(client):
    def given(box):
        return [(s["name"], s["given"]) for s in box.secrets()]
    with client.sandboxes.create(profile_text=KEYED, secrets={"TOKEN": "value-of-the-token"}) as box:
        assert given(box) == [("TOKEN", True)]
        box.wipe_secrets()
        assert given(box) == [("TOKEN", False)]
        box.give_secrets({"TOKEN": "another-value"})
        assert given(box) == [("TOKEN", True)]
        assert "-value" not in json.dumps([box.refresh(), box.secrets()])


def test_ssh(box, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text().strip()
    made = box.add_ssh_key(public)
    assert made["fingerprint"].startswith("SHA256:") and [k["fingerprint"] for k in box.ssh_keys()] == [made["fingerprint"]]
    user = box.ssh_user()
    port = user["listen"][0].rsplit(":", 1)[1]
    done = subprocess.run(["ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
                           "-o", f"UserKnownHostsFile={tmp_path}/known", "-i", str(key), "-p", port,
                           f"{user['username']}@127.0.0.1", "echo by ssh"], capture_output=True, timeout=60, check=False)
    assert done.stdout == b"by ssh\n", done
    box.remove_ssh_key(public)
    assert box.ssh_keys() == []


def test_snapshots(client):
    with client.sandboxes.create("medium") as box:
        box.files.write("/home/agent/a", "one")
        first = box.snapshot(name="python-first")
        box.files.write("/home/agent/b", "two")
        second = box.snapshot()
        diff = client.snapshots.diff(first["id"], second["id"])
        assert diff["added"] == 1 and not diff["truncated"]
        with client.snapshots.open(second["id"], f"{second['root']}/b") as response:
            assert response.read() == b"two"
        assert refused(client.snapshots.open, first["id"], "/home/agent/b").code == "NOT_FOUND"
        with box.fork(name="python-fork") as fork:
            assert fork.files.read("/home/agent/b") == b"two"
        with client.snapshots.export("python-first") as response:
            archive = response.read()
        imported = client.snapshots.import_(io.BytesIO(archive), name="python-imported", profile="medium")
        with client.sandboxes.create(from_snapshot=imported["id"]) as made:
            assert made.files.read("/home/agent/a") == b"one"
        assert box.rollback("python-first")["state"] == "running"
        assert refused(box.files.read, "/home/agent/b").code == "NOT_FOUND"
        assert {s["name"] for s in client.snapshots.list()} >= {"python-first", "python-imported"}
        assert [s["id"] for s in client.snapshots.list(sandbox=box.id)]
    for snapshot in (first["id"], second["id"], imported["id"]):
        client.snapshots.delete(snapshot)


def test_events(client, box):
    box.exec("true")
    past = list(box.events(follow=False))
    assert past[0].kind.startswith("sandbox.") and [e.seq for e in past] == sorted({e.seq for e in past})
    later = list(client.events(after=past[0].seq, follow=False))
    assert later[0].seq > past[0].seq
    assert all(e.kind.startswith("sandbox.") for e in client.events(after=0, kinds=["sandbox"], follow=False))


def test_evidence(box):
    run = box.exec("echo evident").info["run"]
    for evidence in (box.evidence(), box.evidence(run)):
        assert json.loads(evidence)


def test_events_go_on_after_a_restart(suite):
    """The operator is killed while somebody listens: nothing is missed and nothing comes twice."""
    from conftest import conf
    daemon = suite.daemon(conf=conf(listen=f"127.0.0.1:{free_port()}")).start(seconds=60)
    try:
        url = "http://" + daemon.client.health()["api"]["listen"][0]
        client = signed_in(url)
        seen, made = [], [client.sandboxes.create("low").id]

        def listen():
            for event in client.events(after=0, kinds=["sandbox.create"]):
                seen.append((event.seq, event.data["sandbox"]))
                if len(seen) == 3:
                    return
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert harness.until(lambda: len(seen) == 1, 30)
        daemon.kill_operator()
        assert harness.until(lambda: daemon.client.health()["api"]["open"], 60)
        made += [client.sandboxes.create("low").id for _ in range(2)]
        thread.join(60)
        assert [sandbox for _, sandbox in seen] == made
    finally:
        daemon.end()


def test_tokens(client, url, box):
    token = client.tokens.create(["exec", "show"], [f"sandbox/{box.id}", "sandbox"], expires_in=600, about="for CI")
    machine = Client(url, token=token)
    assert machine.sandboxes.get(box.id).exec("echo hi").text == "hi\n"
    assert refused(machine.sandboxes.get(box.id).delete).status == 403
    narrower = stockade.narrow(token, verbs=["show"], expires=datetime.now(timezone.utc) + timedelta(minutes=5))
    less = Client(url, token=narrower).sandboxes.get(box.id)
    assert refused(less.exec, "true").status == 403
    wider = Client(url, token=stockade.narrow(narrower, verbs=["exec", "show"]))
    assert refused(wider.sandboxes.get(box.id).exec, "true").status == 403
    with pytest.raises(ValueError):
        stockade.narrow("v4.local.x")
    (listed,) = [t for t in client.tokens.list() if t["about"] == "for CI"]
    client.tokens.revoke(listed["jti"])
    assert refused(machine.sandboxes.get, box.id).status == 401


def test_operators(url, box):
    assert refused(signed_in(url).operator.health).status == 403
    operator = signed_in(url, "operator").operator
    assert operator.health() and box.id in [b.id for b in operator.sandboxes(state="running", page=1)]
    assert Wallet("ada").owner in json.dumps(operator.owners())
    assert operator.load()["cpus"] >= 1 and operator.pool()["size"] >= 0 and isinstance(operator.gate(limit=10)["names"], list)
    assert "native" in [f["name"] for f in operator.doctor()["facts"] if f["group"] == "drivers"]
    try:  # whether somebody verified this host is nobody's business here
        assert operator.verify()["tally"] and operator.verify_page().startswith("<!DOCTYPE html>")
    except StockadeError as e:
        assert e.code == "NOT_FOUND" and refused(operator.verify_page).status == 404


def test_provisions(client):
    assert isinstance(list(client.provisions()), list)
    assert refused(client.provision, "1").status == 404


def test_profiles(client, box):
    medium = next(p for p in client.profiles.list() if p["name"] == "medium")
    assert medium["ok"] and medium["summary"] and medium["limits"]["memory"] == 2 << 30
    assert any(k["key"] == "limits.memory" for k in client.profiles.schema())
    good = client.profiles.check("medium", overrides={"limits.cpus": "1"}, allow=["example.org"])
    assert good["ok"] and good["network"] == ["example.org"]
    assert [p["field"] for p in client.profiles.check(overrides={"limits.cpus": "x"})["problems"]] == ["overrides.limits.cpus"]
    assert box.policy()["described"]["summary"] and box.policy()["asked"]["profile"]
    with client.sandboxes.create("medium", allow=["one.example"]) as made:
        assert made.try_network(allow=[])["described"]["network"] == []
        assert made.try_network(add=["two.example"])["described"]["network"] == ["one.example", "two.example"]
        assert made.policy()["described"]["network"] == ["one.example"]
        made.allow_more(["two.example"])
        assert made.policy()["described"]["network"] == ["one.example", "two.example"]


def test_usage_over_time(client, box):
    end = time.monotonic() + 60
    while len(box.usage_history()["samples"]) < 2:
        assert time.monotonic() < end, "it is not measured"
        time.sleep(0.2)
    samples = box.usage_history()["samples"]
    assert samples[0]["at_ms"] < samples[1]["at_ms"] and samples[0]["memory"] > 0
    assert all(s["at_ms"] > samples[0]["at_ms"] for s in box.usage_history(since_ms=samples[0]["at_ms"])["samples"])
    assert client.sandboxes.usage([box.id, "0" * 16]).keys() == {box.id}


def test_looking_back(client, url, box):
    page = client.search_events(sandbox=box.id, kinds=["sandbox"], limit=1)
    assert [e["sandbox"] for e in page["events"]] == [box.id] and page["events"][0]["kind"].startswith("sandbox.")
    other = Client(url)
    wallet = Wallet("the python client, renewed")
    other.sign_in(wallet.address, wallet.sign)
    old = other.token
    time.sleep(0.01)
    assert other.renew()["token"] == other.token != old
    assert other.whoami()["owner"] == Client(url, token=old).whoami()["owner"]


def test_many_threads_share_a_client(client, box):
    results, wrong = [], []

    def work(number):
        try:
            results.append(box.exec(f"echo {number}").check().text == f"{number}\n")
        except Exception as e:  # noqa: BLE001
            wrong.append(e)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 16, wrong


def test_an_answer_that_is_cut_short_is_an_error():
    """From a server that promises more than it sends."""
    import socket
    with socket.create_server(("127.0.0.1", 0)) as server:
        answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal"]

        def serve():
            for answer in answers:
                c, _ = server.accept()
                c.recv(65536)
                c.sendall(answer)
                c.close()
        thread = threading.Thread(target=serve)
        thread.start()
        client = Client(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=30)
        for _ in answers:
            with pytest.raises(StreamEnded):
                client.metrics()
        thread.join()


def test_the_example(house, url, tmp_path):
    link = house.client.ask("sign-in")["url"]
    r = subprocess.run(["/usr/bin/python3", str(ROOT / "examples/python/tour.py")], input=link + "\n", capture_output=True, text=True, timeout=200,
                       env={"PYTHONPATH": str(ROOT / "clients/python"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})
    assert r.returncode == 0, r.stderr
    for words in ("hello from", "counted to 3", "2 files came back", "the port answers", "after the rollback: kept", "sandbox.delete"):
        assert words in r.stdout, r.stdout


def test_every_route_was_asked():
    """Of those that the client knows; the whole file has to have run."""
    from drift import expand
    assert {r for r in expand(routes_of_python()) if not r[1].endswith("/{rest}")} - asked == set()
