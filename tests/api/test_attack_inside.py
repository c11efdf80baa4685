"""Hostile code inside, seen through the API: names and output that look like something else, files that are none or change while
they are read, and what it can learn of secrets."""
import io
import json
import os
import socket
import tarfile

import pytest

import harness
from conftest import events
from test_tunnel import Tunnel, frame

NAMES = ["a\nb", "<script>alert(1)", "\x1b[2J\x1b]0;x\x07", '"', "\\", " ", "-rf", "event: exit\ndata: {}\n\n", "\u202egpj.exe", "a" * 255]
MAKE = f"""
import os
for name in {NAMES!r}:
    open("/tmp/odd/" + name, "w").close()
"""


def sh(web, box, script, **fields):
    answer = web.post(f"/api/sandboxes/{box}/exec", {"command": script, **fields}, timeout=60)
    assert answer.status in (200, 202), answer
    return answer.json


@pytest.fixture(scope="module")
def den(alice):
    made = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    yield made
    assert alice.delete(f"/api/sandboxes/{made}?force=true").status == 200


def get(web, box, path, **kw):
    return web.get(f"/api/sandboxes/{box}/files?path={path}", **kw)


def test_names_are_only_names(alice, den):
    """In lists, in the stream of a watch, in an archive."""
    assert sh(alice, den, "mkdir /tmp/odd")["exit_code"] == 0
    c, watch = alice.open(f"/api/sandboxes/{den}/files/watch?path=/tmp/odd")
    assert events(watch, 1)[0][1] == {"opened": True}
    assert alice.ask("PUT", f"/api/sandboxes/{den}/files?path=/tmp/make.py", MAKE.encode()).status == 200
    assert sh(alice, den, "python3 /tmp/make.py")["exit_code"] == 0
    answer = get(alice, den, "/tmp/odd")
    assert sorted(entry["name"] for entry in answer.json["entries"]) == sorted(NAMES)
    assert not any(byte < 0x20 for byte in answer.body) and answer.headers["content-type"] == "application/json"
    seen, kinds = set(), set()
    while len(seen) < len(NAMES):
        kind, data = events(watch, 1)[0]
        kinds.add(kind)
        seen.add(data["path"].rsplit("/tmp/odd/", 1)[-1].lstrip("/"))
    c.close()
    assert "exit" not in kinds, kinds
    archive = alice.get(f"/api/sandboxes/{den}/files/archive?path=/tmp/odd")
    with tarfile.open(fileobj=io.BytesIO(archive.body)) as tar:
        assert set(NAMES) <= {name.split("/", 1)[-1] for name in tar.getnames()}


def test_output_is_only_output(alice, den):
    """Lines that are events of ours, when they come from inside, are data of one."""
    forged = "event: exit\ndata: {\"exit_code\": 0}\n\nid: 7\nretry: 1\n: x\r\revent: exit\rdata: 1\r\r"
    answer = alice.post(f"/api/sandboxes/{den}/exec", {"argv": ["printf", "%s", forged], "stream": True})
    told = [line.split(":")[0] for line in answer.body.decode().replace("\r", "\n").split("\n") if line and line[0] != ":"]
    assert set(told) <= {"event", "data", "id"} and answer.headers["content-type"].startswith("text/event-stream"), answer.body
    text = "".join(json.loads(line[6:]).get("data", "") for line in answer.body.decode().split("\n") if line.startswith("data: "))
    assert text == forged, answer.body
    run = sh(alice, den, "printf '<html><script>'")["run"]
    log = alice.get(f"/api/sandboxes/{den}/runs/{run}/logs")
    assert "html" not in log.headers["content-type"] and log.headers["x-content-type-options"] == "nosniff", log.headers


SPECIAL = """cd /tmp && mkdir s && cd s && mkfifo fifo && ln -s fifo to-fifo && ln -s /dev/zero to-zero && ln -s loop loop && ln -s /proc/1/root root &&
ln -s /dev/tty tty && echo 0123456789 > file"""


def test_what_is_no_file_holds_nobody_up(alice, den):
    assert sh(alice, den, SPECIAL)["exit_code"] == 0
    for name in ("fifo", "to-fifo", "to-zero", "loop", "tty"):
        for _ in range(3):
            assert get(alice, den, f"/tmp/s/{name}", timeout=20).status in (400, 403, 409, 500), name
    for path in ("/proc/kmsg", "/proc/1/mem", "/proc/1/environ", "/proc/self/environ", "/dev/null", "/dev/ptmx"):
        assert get(alice, den, path, timeout=20).status in (400, 403, 409), path
    for name in ("fifo", "to-fifo", "to-zero", "loop"):  # replaced, as a whole: nothing is written through
        assert alice.ask("PUT", f"/api/sandboxes/{den}/files?path=/tmp/s/{name}", b"hello", timeout=20).status == 200
    assert sh(alice, den, "cd /tmp/s && cat fifo to-fifo to-zero loop && ls -l /dev/zero")["stdout"].startswith("hello" * 4 + "c")


def test_a_file_that_becomes_a_pipe_and_back(alice, den):
    swap = ("import ctypes, os\nos.mkfifo('/tmp/p')\nopen('/tmp/f', 'w').write('x' * 10)\nlibc = ctypes.CDLL(None)\n"
            "while True:\n libc.renameat2(-100, b'/tmp/f', -100, b'/tmp/p', 2)\n")
    assert alice.ask("PUT", f"/api/sandboxes/{den}/files?path=/tmp/swap.py", swap.encode()).status == 200
    run = sh(alice, den, "exec python3 /tmp/swap.py", background=True)["run"]
    assert harness.until(lambda: get(alice, den, "/tmp/p", timeout=20).status in (200, 409), step=0.05)
    found = {}
    for _ in range(60):
        answer = get(alice, den, "/tmp/f", timeout=20)
        found[answer.status] = found.get(answer.status, 0) + 1
        assert answer.status in (400, 404, 409) or answer.body == b"x" * 10, answer
    assert sh(alice, den, "echo alive")["stdout"] == "alive\n"
    assert alice.post(f"/api/sandboxes/{den}/runs/{run}/cancel", {}).status == 200


def test_a_file_that_shrinks_is_not_made_up_for(alice, den):
    """Its length was promised: the connection ends, and what was asked next on it is not taken for the rest."""
    sh(alice, den, "head -c 30000000 /dev/zero > /tmp/shrinks")
    with alice.socket(60) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        path = f"/api/sandboxes/{den}/files?path=/tmp/shrinks"
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {alice.address}\r\nAuthorization: Bearer {alice.token}\r\n\r\n"
                  f"GET /health HTTP/1.1\r\nHost: {alice.address}\r\n\r\n".encode())
        data = s.recv(4096)
        sh(alice, den, "truncate -s 1000 /tmp/shrinks")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        try:
            while part := s.recv(1 << 20):
                data += part
        except ConnectionError:
            pass
    body = data.split(b"\r\n\r\n", 1)[1]
    assert b"Content-Length: 30000000" in data and len(body) < 30000000 and not body.strip(b"\0"), len(body)


def test_set_id_bits_are_left_out(alice, den):
    """By none of the ways in; and a link that was unpacked is not gone through."""
    base = f"/api/sandboxes/{den}/files"
    for mode in ("4755", "2755", "6777", "7777"):
        assert alice.ask("PUT", f"{base}?path=/tmp/id-{mode}&mode={mode}", b"x").status == 403
        assert alice.post(f"{base}/folder", {"path": f"/tmp/id-folder-{mode}", "mode": int(mode, 8)}).status == 403
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in (("id-user", 0o4755), ("id-group", 0o2755)):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, 1
            tar.addfile(entry, io.BytesIO(b"x"))
        entry = tarfile.TarInfo("id-link")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/home"
        tar.addfile(entry)
        entry = tarfile.TarInfo("id-link/through")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    assert alice.ask("PUT", f"{base}/archive?path=/tmp", out.getvalue()).status == 409
    found = sh(alice, den, "find /tmp /home -name 'id-*' -perm /6000; ls /home/through")
    assert found["stdout"] == "" and found["exit_code"] != 0, found


BAD = [b"\xff\xff\xff\xffQ\0\0\0{}", b"\x02\0\0\0Q\x01\0\0{}", b"\x02\0\0\0Z\0\0\0{}", frame(b"Q", b"[]"), frame(b"Q"), frame(b"I", b"x"),
       frame(b"A", b"{}"), frame(b"Q", b'{"verb":"ping","verb":"down"}'), frame(b"Q", b'{"verb":"ping\\u0000"}'), frame(b"Q", b'{"verb":7}')]
AFAR = [{"verb": verb} for verb in ("down", "sign-in", "owners", "ssh-check", "no-such")]
OTHERS = [{"verb": "list", "all": True}, {"verb": "list", "owner": "uid:0"}, {"verb": "create", "profile": "low", "owner": "uid:0"}]


def test_tunnels_take_only_requests(alice, box):
    for data in BAD:
        t = Tunnel(alice, data)
        kind, answer = t.frame()
        assert kind == b"A" and json.loads(answer)["error"]["code"] == "bad_request" and t.frame() == (None, 1000), data
        t.s.close()
    for fields in AFAR + OTHERS + [{"verb": "exec", "sandbox": box, "argv": ["true"], "door": "0" * 32}]:
        answer, _ = Tunnel(alice, frame(b"Q", fields)).whole()
        assert not answer["ok"] and answer["error"]["code"] in ("refused", "bad_request"), (fields, answer)
    request = frame(b"Q", {"verb": "ping"})
    t = Tunnel(alice)
    for i in range(len(request)):  # a byte in each message
        t.s.send(request[i:i + 1])
    assert t.whole()[0]["ok"]


PROFILE = """profile: 1
extends: medium
secrets: [TOKEN]
network:
  allow:
    - host: api.example.com
      methods: [GET]
      secret: TOKEN
"""


def test_a_value_is_nowhere(house, alice):
    """Not inside, in no answer, in no file of the daemon's; and after it was wiped not in the memory of any of its processes."""
    value = "sk-" + os.urandom(16).hex()
    made = alice.post("/api/sandboxes", {"profile_text": PROFILE, "secrets": {"TOKEN": value}})
    assert made.status == 201, made
    box = made.json["id"]
    try:
        run = sh(alice, box, f"env; cat /proc/*/environ | tr '\\0' '\\n'; grep -ras {value[:12]} /run /etc /tmp /home; echo $TOKEN > ~/t")
        assert "TOKEN=stockade-secret-" in run["stdout"]
        snapshot = alice.post(f"/api/sandboxes/{box}/snapshot", {}).json["id"]
        places = ["", "/policy", "/secrets", "/events?follow=false", "/runs", f"/runs/{run['run']}/logs", "/processes", "/evidence", "/usage"]
        answers = [made, *(alice.get(f"/api/sandboxes/{box}{place}") for place in places), alice.get(f"/api/snapshots/{snapshot}/export")]
        for wrong in ({"secrets": {"OTHER": value}}, {"secrets": {"TOKEN": value + "\n"}}, {"secrets": value}, {"env_json": value},
                      {"secrets": {"TOKEN": [value]}}):
            answers.append(alice.post(f"/api/sandboxes/{box}/secrets", wrong))
            assert answers[-1].status == 400, answers[-1]
        for answer in answers:
            assert answer.status < 500 and value.encode() not in answer.body, answer
        assert value not in run["stdout"].replace(f"grep -ras {value[:12]}", "")
        found = []
        for folder, _, names in os.walk(house.state):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 64 << 20:
                    with open(path, "rb") as file:
                        found += [path] if value.encode() in file.read() else []
        assert not found and value not in house.log.read_text(errors="replace"), found
        assert alice.delete(f"/api/snapshots/{snapshot}").status == 200
        assert alice.delete(f"/api/sandboxes/{box}/secrets").status == 200
        assert harness.until(lambda: not any(remembers(pid, value) for pid in (house.operator, house.warden, *house.gates)), step=0.2)
    finally:
        alice.delete(f"/api/sandboxes/{box}?force=true")


def remembers(pid, value):
    """Whether it is in the memory that this process can write to."""
    try:
        with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                if " rw" not in line or end - begin > 256 << 20:
                    continue
                try:
                    memory.seek(begin)
                    if value.encode() in memory.read(end - begin):
                        return True
                except OSError:
                    pass
    except OSError:
        pass
    return False
