"""Requests, answers, errors and tables."""
import json
import re
import struct

import pytest

from fake import frame

SANDBOX = {"id": "0123456789abcdef", "owner": "uid:0", "name": "first", "state": "running", "profile": "low",
           "created_ms": 1, "runs_active": 0, "disk": {"size": 1 << 30, "used": 1 << 20}}


def test_create_sends_what_was_asked_for(operator, run, client):
    operator.answers("create", SANDBOX)
    (client.cwd / "token").write_text("sixteen-characters\n")
    assert run("create", "-p", "medium", "--name", "first", "--memory", "1GiB", "--set", "limits.cpus=2", "--set", "limits.cpus=3",
               "-a", "example.org", "--allow", "example.com:443", "--secret", "TOKEN=@token", "--key", "k",
               "--memory-only").ok() == "0123456789abcdef\n"
    assert operator.requests == [{"verb": "create", "profile": "medium", "name": "first", "key": "k", "memory_only": True,
                                  "allow": ["example.org", "example.com:443"],
                                  "set": {"limits.memory": "1GiB", "limits.cpus": "3"},
                                  "secrets": {"TOKEN": "sixteen-characters"}}]


def test_a_profile_by_path_is_read_here(operator, run, client):
    operator.answers("create", SANDBOX)
    (client.cwd / "mine.yaml").write_text("profile: 1\nname: mine\n")
    run("create", "-p", "./mine.yaml").ok()
    assert operator.requests[0]["profile_text"] == "profile: 1\nname: mine\n"
    assert "profile" not in operator.requests[0]
    assert "cannot open './none.yaml'" in run("create", "-p", "./none.yaml").errors


def test_json_is_the_result_as_it_is(operator, run):
    operator.on("list", lambda c, q: c.raw(frame("answer", b'{"ok": true, "result": {"sandboxes":[ ]} }')))
    assert run("list", "--json").ok() == '{"sandboxes":[ ]}\n'


def test_list(operator, run):
    operator.answers("list", {"sandboxes": [SANDBOX, {**SANDBOX, "id": "f" * 16, "name": ""}]})
    lines = run("list").ok().splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "PROFILE", "IMAGE", "RUNS", "DISK", "AGE"]
    assert lines[1].split()[:4] == ["0123456789abcdef", "first", "running", "low"] and "1.0MiB" in lines[1]
    assert lines[2].split()[1] == "-"
    assert run("list", "-q").ok() == "0123456789abcdef\n" + "f" * 16 + "\n"
    assert operator.requests[0] == {"verb": "list"}


def test_long_lists(operator, run):
    operator.answers("list", {"sandboxes": [{**SANDBOX, "id": f"{n:016x}"} for n in range(20000)]})
    assert len(run("list").ok().splitlines()) == 20001


def test_what_a_sandbox_named_itself_cannot_move_the_cursor(operator, run):
    evil = "x\x1b[2J\x1b]0;pwn\x07\u202eabc\r\n\x9b"
    operator.answers("list", {"sandboxes": [{**SANDBOX, "name": evil, "state": evil, "profile": evil}]})
    operator.answers("show", {**SANDBOX, "name": evil, "policy": "a: 1\nb: " + evil})
    operator.answers("ls", {"entries": [{"name": evil, "kind": evil, "size": 1, "mode": 33188, "mtime_ms": 1}]})
    operator.answers("runs", {"runs": [{"run": 1, "state": evil, "command": ["sh", "-c", evil]}]})
    operator.answers("processes", {"processes": [{"pid": 1, "command": evil}]})
    operator.on("stop", lambda c, q: c.refuse(message="bad " + evil, hint=evil))
    operator.answers("diff", {"added": 1, "changed": 0, "removed": 0})
    for words in (["list"], ["show", "x"], ["ls", "x:/"], ["runs", "x"], ["ps", "x"], ["stop", "x"]):
        done = run(*words)
        for byte in b"\x1b\x07\r\x9b":
            assert byte not in (done.out + done.err).replace("…".encode(), b"").replace(b"\xc2\x9b", b"") or byte == 0x9b
        assert b"\x1b" not in done.out + done.err and b"\x07" not in done.out + done.err and b"\r" not in done.out
        assert "\u202e" not in (done.text + done.errors)


def test_refusals_are_told(operator, run):
    operator.on("stop", lambda c, q: c.refuse("conflict", "it is not running", "start it first"))
    done = run("stop", "a", "b")
    assert done.status == 125 and done.errors == 2 * "stockade: it is not running\n  hint: start it first\n"
    done = run("stop", "a", "--json")
    assert json.loads(done.err) == {"error": {"code": "conflict", "message": "it is not running", "hint": "start it first"}}
    assert done.status == 125 and done.out == b""


def test_nobody_there(operator, run, client, tmp_path):
    done = run("list", "--socket", tmp_path / "none")
    assert done.status == 125 and "no daemon answers at" in done.errors and "stockade up" in done.errors
    done = run("list", env={"STOCKADE_SOCKET": "", "XDG_STATE_HOME": str(tmp_path)})
    if done.status:  # a daemon of the system may be running on this host
        assert "no daemon is running" in done.errors and "stockade up" in done.errors
    operator.close()
    assert "no daemon answers" in run("list").errors  # left over
    operator.listen()


def test_words_that_are_not_utf8(run):
    done = run("stop", b"\xff\xfe".decode(errors="surrogateescape"))
    assert done.status == 125 and "not UTF-8" in done.errors


def test_too_large(run):
    done = run("exec", "x", "echo", "y" * 70000, "y" * 70000)
    assert done.status == 125 and "larger than" in done.errors


@pytest.mark.parametrize("answer", [
    b"", b"x", b"\0" * 8, frame("answer", b"{"), frame("answer", b"[]"), frame("answer", b"{}"), frame("answer", b'{"ok":true}'),
    frame("answer", b'{"ok":false}'), frame("answer", b'{"ok":false,"error":{}}'), frame("answer", b'{"ok":1,"result":{}}'),
    frame("request", b"{}"), frame("input", b"x"), frame("control", b"{}"), struct.pack("<I", 1) + b"F\0\0\0x",
    struct.pack("<I", 1 << 30) + b"A\0\0\0", struct.pack("<I", (256 << 10) + 1) + b"O\0\0\0", struct.pack("<I", 2) + b"A\0\0\1{}",
    frame("answer", b'{"ok":true,"result":{}}')[:-1], frame("event", b"not json"), frame("answer", b'{"ok":true,"result":{"a":1,"a":2}}'),
    frame("answer", b"[" * 5000 + b"]" * 5000), frame("answer", b'{"ok":true,"result":"\xff"}'),
])
def test_answers_that_are_none(operator, run, answer):
    operator.on("list", lambda c, q: c.raw(answer))
    done = run("list")
    assert done.status == 125 and re.match(r"stockade: \S.*\n", done.errors), done
    assert len(done.errors) < 1200


def test_frames_in_every_piece(operator, run):
    def slowly(c, q):
        for byte in frame("event", {"n": 1}) + frame("answer", {"ok": True, "result": {"sandboxes": []}}):
            c.raw(bytes([byte]))
    operator.on("list", slowly)
    assert run("list", "-q").ok() == ""


def test_diff(operator, run):
    def diff(c, q):
        for change in ("added", "changed", "removed"):
            c.send("event", {"change": change, "path": f"/etc/{change}", "kind": "file", "size": 2048})
        c.ok({"added": 1, "changed": 1, "removed": 1})
    operator.on("diff", diff)
    done = run("diff", "a", "b")
    assert done.status == 1 and done.text == "+ /etc/added  2.0KiB\n~ /etc/changed  2.0KiB\n- /etc/removed\n"
    operator.answers("diff", {"added": 0, "changed": 0, "removed": 0})
    assert run("diff", "a", "b").ok() == ""


def test_events_come_back(operator, run):
    """The connection breaks after the second event: the follower goes on behind it, and leaves none out."""
    asked = []

    def events(c, q):
        asked.append(q.get("from"))
        first = q.get("from", 1)
        for seq in range(first, first + 2):
            c.send("event", {"seq": seq, "time": "2026-01-02T03:04:05.678901Z", "sandbox": "s", "kind": "run.start", "data": {"n": seq}})
        if first > 4:
            c.ok()
    operator.on("events", events)
    operator.answers("health", {"ok": True, "ledger_seq": 0})
    lines = run("events", "-f", "--json").ok().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4, 5, 6] and asked == [1, 3, 5]
    assert "2026-01-02 03:04:05  s                 run.start" in run("events", "--from", "5").ok()
    assert run("events", "--from", "x").status == 125


def test_top_once(operator, run):
    operator.answers("usage", {"usage": [{"sandbox": "a" * 16, "cpu_us": 5, "memory": 1 << 20, "memory_peak": 2 << 20, "processes": 3}]})
    operator.answers("list", {"sandboxes": [{**SANDBOX, "id": "a" * 16}]})
    text = run("top").ok()
    assert re.search(r"^a{16}  first  running +0\.0 +1\.0MiB +2\.0MiB +3 ", text, re.MULTILINE), text
    assert json.loads(run("top", "--json").ok())["usage"][0]["memory"] == 1 << 20


def test_policy(operator, run):
    operator.answers("policy", SANDBOX)
    operator.answers("show", {**SANDBOX, "policy": "profile: 1\nname: x\n"})
    assert run("policy", "first").ok() == "profile: 1\nname: x\n"
    run("policy", "first", "--none").ok()
    run("policy", "first", "-a", "a.test", "-a", "b.test:22").ok()
    assert [q["allow"] for q in operator.requests if q["verb"] == "policy"] == [[], ["a.test", "b.test:22"]]


def test_secret(operator, run):
    operator.answers("secret", {})
    run("secret", "first", "TOKEN", env={"TOKEN": "12345678-abcd"}).ok()
    assert operator.requests == [{"verb": "secret", "sandbox": "first", "secrets": {"TOKEN": "12345678-abcd"}}]
    assert "takes NAME" in run("secret", "first", "TOKEN=value").errors


def test_health(operator, run):
    operator.answers("health", {"ok": True, "ledger": True, "disk": "12 GiB free"})
    assert run("health").ok().splitlines() == ["ledger     well", "disk       12 GiB free", "all is well"]
    operator.answers("health", {"ok": False, "ledger": False})
    assert run("health").status == 1
    operator.answers("health", {"ok": True, "incomplete": False})
    assert run("health").ok() == "all is well\n"
    operator.answers("health", {"ok": False, "incomplete": True})
    assert "could not be read" in run("health").text


def test_help_in_every_way(run):
    assert run("help", "create").ok() == run("create", "--help").ok()
    for words in (["nonsense-entirely"], ["help", "nonsense-entirely"]):
        done = run(*words)
        assert done.status == 125 and done.text == ""
        assert done.err.decode().splitlines() == ["stockade: unknown verb 'nonsense-entirely'", "  hint: 'stockade --help' lists the verbs"]


def test_hints_are_for_people(operator, run):
    """What a request has to look like is of no use to somebody who types words."""
    operator.on("create", lambda c, q: c.refuse("bad_request", "'name' is wrong", "docs/protocol/local.md says what each verb takes"))
    assert run("create").err == b"stockade: 'name' is wrong\n"
    assert run("create", "word").err.decode().endswith("hint: stockade create [OPTION…]\n")


def test_completion(operator, run):
    operator.answers("list", {"sandboxes": [SANDBOX]})
    operator.answers("images", {"images": [{"id": "b" * 16, "name": "debian", "about": "a tar"}]})

    def words(*line):
        return [text.split("\t")[0] for text in run("completion", "--words", "--", *line).ok().splitlines()]
    assert {"create", "exec", "run"} <= set(words(""))
    assert words("ex") == ["exec", "export"]
    assert words("exec", "f") == ["first"] and words("exec", "x") == []
    assert "--interactive" in words("exec", "--") and words("exec", "first", "--") == []
    assert words("create", "--image", "") == ["debian"]
    assert "--timeout" in words("run", "--")
    assert words("image", "") == ["import", "list", "remove", "microvm"]
    for shell in ("bash", "zsh", "fish"):
        assert "stockade completion" in run("completion", shell).ok() or "completion --words" in run("completion", shell).ok()
    assert run("completion", "csh").status == 125
