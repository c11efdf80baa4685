"""Clients that we did not write: curl, ethers and paseto-ts in Node, Python's websockets, promtool, Chromium and OpenSSH."""
import asyncio
import json
import os
import shutil
import subprocess

import harness
import pytest
from conftest import ROOT
from wallet import Wallet

SECRET = b"a secret of at least thirty-two bytes, for tests"


def need(program):
    if not shutil.which(program):
        harness.missing(f"there is no {program}")


class Curl:
    def __init__(self, url, token=None):
        need("curl")
        self.url, self.token = url, token

    def __call__(self, method, path, *options, data=None, status=200, stdin=None):
        words = ["curl", "-sS", "-q", "-X", method, "-w", "\n%{http_code}", *options]
        if self.token:
            words += ["-H", f"Authorization: Bearer {self.token}"]
        if data is not None:
            words += ["-H", "Content-Type: application/json", "-d", json.dumps(data)]
        done = subprocess.run([*words, self.url + path], input=stdin, capture_output=True, timeout=120, check=True)
        body, _, code = done.stdout.rpartition(b"\n")
        assert int(code) == status, (path, code, body)
        return body

    def json(self, *args, **kw):
        return json.loads(self(*args, **kw))


@pytest.fixture(scope="module")
def curl(url):
    wallet, nobody = Wallet("curl"), Curl(url)
    challenge = nobody.json("POST", "/api/auth/challenge", data={"address": wallet.address})
    session = nobody.json("POST", "/api/auth/session", data={"nonce": challenge["nonce"], "signature": wallet.sign(challenge["message"])})
    return Curl(url, session["token"])


@pytest.fixture(scope="module")
def box(curl):
    made = curl.json("POST", "/api/sandboxes", data={"profile": "medium"}, status=201)["id"]
    yield f"/api/sandboxes/{made}"
    curl("DELETE", f"/api/sandboxes/{made}?force=true")


def test_curl(curl, url, box, tmp_path):
    assert curl.json("POST", f"{box}/exec", data={"command": "echo hi"})["stdout"] == "hi\n"
    data = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(data)
    for how in (["-T", str(tmp_path / "file")], ["-T", "-", "-H", "Expect: 100-continue"], ["--data-binary", f"@{tmp_path}/file"]):
        assert curl.json("PUT", f"{box}/files?path=/home/agent/by-curl", *how, stdin=data)["bytes"] == len(data)
    assert curl("GET", f"{box}/files?path=/home/agent/by-curl") == data
    assert curl("GET", f"{box}/files?path=/home/agent/by-curl", "-r", "100-199", status=206) == data[100:200]
    # what was broken off goes on
    (tmp_path / "part").write_bytes(data[:1 << 20])
    curl("GET", f"{box}/files?path=/home/agent/by-curl", "-C", "-", "-o", str(tmp_path / "part"), status=206)
    assert (tmp_path / "part").read_bytes() == data
    head = subprocess.run(["curl", "-sSi", f"{url}/health"], capture_output=True, text=True, check=True).stdout.lower()
    assert head.startswith("http/1.1 200") and "x-request-id" in head and "nosniff" in head
    error = Curl(url).json("GET", "/api/sandboxes", status=401)
    assert error["code"] == "NO_TOKEN" and error["error"] and error["hint"]
    assert Curl(url).json("GET", "/nothing/../health", "--path-as-is", status=404)["code"]
    assert Curl(url).json("GET", "/health", "-H", "Host: evil.example", status=403)["code"]


def test_curl_streams(curl, box):
    text = curl("POST", f"{box}/exec", "-N", data={"command": "echo one; sleep 0.1; echo two", "stream": True}).decode()
    names = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
    assert names[0] == "started" and names[-1] == "exit" and "stdout" in names


def test_curl_many_at_once(curl, box):
    """One connection, then many; requests that arrive in parallel."""
    words = ["curl", "-sS", "-q", "-Z", "--parallel-max", "16", "-H", f"Authorization: Bearer {curl.token}"]
    for _ in range(64):
        words += ["-o", "/dev/null", "-w", "%{http_code} ", curl.url + box]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["200"] * 64


def test_node_with_ethers_and_paseto(suite, packages, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    from conftest import RATES
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nsession_secret_file = {secret}\n{RATES}").start(seconds=60)
    try:
        url = "http://" + daemon.client.health()["api"]["listen"][0]
        shutil.copy(ROOT / "tests/clients/foreign.mjs", packages)
        r = subprocess.run(["node", "foreign.mjs", url, str(secret)], cwd=packages, capture_output=True, text=True, timeout=200)
        assert r.returncode == 0, r.stderr[-4000:] + daemon.said()
        found = json.loads(r.stdout)
        assert found["guesses"] >= 6 and found["refused"] >= 15
    finally:
        daemon.end()


def test_python_websockets(curl, address, box):
    websockets = pytest.importorskip("websockets") if not harness.MUST_WORK else __import__("websockets")
    session = curl.json("POST", f"{box}/live/terminal/sessions", data={"command": "stty -echo; PS1= exec sh -i"})["session_id"]
    path = f"{box}/live/terminal/sessions/{session}/ws"
    bearer = {"Authorization": f"Bearer {curl.token}"}

    async def until(ws, text):
        seen = b""
        while text not in seen:
            message = await asyncio.wait_for(ws.recv(), 60)
            seen += message if isinstance(message, bytes) else b""
        return seen

    async def use():
        async with websockets.connect(f"ws://{address}{path}", extra_headers=bearer) as ws:
            started = json.loads(await asyncio.wait_for(ws.recv(), 60))
            assert started["started"]["run"] == int(session)
            await ws.send(json.dumps({"resize": [31, 71]}))
            await ws.send(b"stty size; echo re''ady\n")
            assert b"31 71" in await until(ws, b"ready")
            await asyncio.wait_for(await ws.ping(), 60)
            await ws.send([b"echo frag", b"mented; echo ", b"do''ne\n"])  # one message in three frames
            assert b"fragmented" in await until(ws, b"done")
            await ws.send("this is no control")
            while "refused" not in json.loads(await asyncio.wait_for(ws.recv(), 60)):
                pass
        # a browser's way: no header, but a ticket
        ticket = curl.json("POST", "/api/auth/ticket", data={"path": path})["ticket"]
        async with websockets.connect(f"ws://{address}{path}?ticket={ticket}") as ws:
            await ws.send(b"exit 7\n")
            last = None
            try:
                while True:
                    last = await asyncio.wait_for(ws.recv(), 60)
            except websockets.ConnectionClosed:
                pass
            assert json.loads(last)["exit"]["exit_code"] == 7 and ws.close_code == 1000
        for headers, target, status in (({}, path, 401), (bearer, path.replace(session, "99999"), 404),
                                        ({**bearer, "Origin": "https://evil.example"}, path, 403)):
            with pytest.raises(websockets.InvalidStatusCode) as no:
                async with websockets.connect(f"ws://{address}{target}", extra_headers=headers):
                    pass
            assert no.value.status_code == status
    asyncio.run(use())


def test_promtool(curl, url, box):
    need("promtool")
    curl.json("POST", f"{box}/exec", data={"command": "true"})
    metrics = Curl(url)("GET", "/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr.strip(), (done.stdout + done.stderr).decode()
    assert metrics.count(b"# TYPE ") >= 10
    # and it would have seen something
    broken = subprocess.run(["promtool", "check", "metrics"], input=metrics + b"stockade{ 1\n", capture_output=True, timeout=60, check=False)
    assert broken.returncode != 0


SPY = """#!/bin/bash
# what everybody on the machine could have read, and who has been given the wallet's key
printf '%s ' {name} "$@" $'\\n' >>"$SPY_FOLDER/arguments"
[ -z "$WALLET_KEY" ] || echo {name} "$@" >>"$SPY_FOLDER/keys"
exec {program} "$@"
"""


@pytest.fixture
def spied(tmp_path):
    """PATH with programs that write down how they were called, before they are what they are."""
    folder = tmp_path / "spies"
    folder.mkdir()
    for name in ("curl", "python3", "node", "ssh", "ssh-keygen", "sed", "grep", "tar", "cat"):
        need(name)
        (folder / name).write_text(SPY.format(name=name, program=shutil.which(name)))
        (folder / name).chmod(0o755)
    return folder, {"PATH": f"{folder}:{os.environ['PATH']}", "SPY_FOLDER": str(folder)}


def test_the_tour(packages, tmp_path, spied):
    """examples/tour.sh: ethers, curl, websockets, a browser, ssh, from a fresh `stockade up`."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    for program in ("chromium", "ssh", "npm"):
        need(program)
    launcher = os.environ.get("STOCKADE", str(ROOT / "build/src/cli/stockade"))
    temp = tmp_path / "tmp"
    temp.mkdir()
    r = subprocess.run([str(ROOT / "examples/tour.sh")], capture_output=True, text=True, timeout=350 * harness.SLOW, check=False,
                       env={**os.environ, "STOCKADE": launcher, "TOUR_PACKAGES": str(packages), "TMPDIR": str(temp), **spied[1]})
    assert r.returncode == 0, r.stdout[-3000:] + r.stderr[-3000:]
    for words in ("signed in as eth:0x", "second time: 401", "/dev/pts/", "still-me", "byte for byte", "hello from inside at 8000",
                  "without the cookie: 401", "by ssh, as agent", "opens nothing any more", "stockade-secret-", "closed with 1008",
                  "from now on: 401", "nothing is left"):
        assert words in r.stdout, r.stdout
    assert "that-nobody-sees" not in r.stdout
    assert list(temp.iterdir()) == []
    arguments = (spied[0] / "arguments").read_text()
    assert arguments.count("curl -sS") > 20 and "/api/auth/session" in arguments
    for secret in ("Bearer v", "v4.local.", "-value-", '"signature"', "signature 0x"):
        assert secret not in arguments, [line for line in arguments.splitlines() if secret in line]
    assert (spied[0] / "keys").read_text() == "node wallet.mjs sign\n"


def test_the_tour_fails_loudly(tmp_path):
    r = subprocess.run([str(ROOT / "examples/tour.sh")], capture_output=True, text=True, timeout=60, check=False,
                       env={**os.environ, "STOCKADE": "/bin/false", "TOUR_PACKAGES": str(tmp_path), "TMPDIR": str(tmp_path)})
    assert r.returncode != 0 and "FAILED" in r.stderr
    assert list(tmp_path.iterdir()) == []
