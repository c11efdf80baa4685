"""`stockade ledger` as people and scripts use it; and the format, checked by a program that shares no line with ours."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from records import TOOL, Driver, tool

ID = "0123456789abcdef"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """One that was written for a while and closed by a kill, so that its end is under no checkpoint."""
    folder = tmp_path_factory.mktemp("ledger")
    while True:
        d = Driver("ledger", folder, 20000)
        d.wait_for(lambda n: n[0] == "durable" and int(n[1]) > 600)
        d.kill()
        if json.loads(tool("verify", folder, "--json").stdout)["unsigned_events"] > 0:
            return folder


@pytest.fixture
def copy(ledger, tmp_path):
    return shutil.copytree(ledger, tmp_path / "copy")


def segments(folder):
    return sorted(folder.glob("*.jsonl"))


def blake(data):
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def node(left, right):
    return hashlib.blake2b(b"\1" + left + right, digest_size=32).digest()


def root(leaves):
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return node(root(leaves[:k]), root(leaves[k:]))


def signed_text(event):
    d = event["data"]
    return (f"stockade ledger checkpoint 1\nseq {event['seq']}\ntime {event['time']}\nfrom {d['from']}\nto {d['to']}\n"
            f"root {d['root']}\nhead {event['prev']}\n").encode()


def ed25519_holds(key, signature, text, folder):
    """By openssl, from the bare bytes."""
    (folder / "key.der").write_bytes(bytes.fromhex("302a300506032b6570032100" + key))
    (folder / "text").write_bytes(text)
    (folder / "signature").write_bytes(bytes.fromhex(signature))
    return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.der", "-keyform", "DER", "-rawin",
                           "-in", "text", "-sigfile", "signature"], cwd=folder, capture_output=True).returncode == 0


def secp256k1_holds(key, signature, text, folder):
    r, s = (int(signature[i:i + 64], 16) for i in (0, 64))

    def number(n):
        b = n.to_bytes(33, "big").lstrip(b"\0")
        b = b"\0" + b if b[0] & 0x80 else b
        return bytes([2, len(b)]) + b

    body = number(r) + number(s)
    (folder / "key.der").write_bytes(bytes.fromhex("3036301006072a8648ce3d020106052b8104000a032200" + key))
    (folder / "text").write_bytes(hashlib.blake2b(text, digest_size=32).digest())
    (folder / "signature").write_bytes(bytes([0x30, len(body)]) + body)
    return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.der", "-keyform", "DER", "-in",
                           "text", "-sigfile", "signature"], cwd=folder, capture_output=True).returncode == 0


def durable_lines(folder):
    places = [p for p in re.split(r"\n\n+", (folder / "head").read_text()) if p.strip()]
    assert len(places) == 2
    for place in places:
        assert place.splitlines()[-1] == "sum " + blake(place.strip()[:place.index("sum ")].encode())
    head = max((dict(line.split(" ") for line in p.splitlines()) for p in places), key=lambda h: int(h["count"]))
    for segment in segments(folder):
        if int(segment.stem) > int(head["segment"]):
            break
        data = segment.read_bytes()
        if int(segment.stem) == int(head["segment"]):
            data = data[:int(head["size"])]
        yield from data.splitlines()


def test_the_format_is_what_the_page_says(ledger, tmp_path):
    """docs/ledger.md, followed by a stranger: chain, roots, both signatures."""
    before, leaves, checkpoints, expected = "0" * 64, [], 0, 1
    for line in durable_lines(ledger):
        event = json.loads(line)
        assert list(event) == ["seq", "time", "sandbox", "actor", "kind", "data", "prev", "hash"]
        assert event["seq"] == expected and event["prev"] == before
        assert event["hash"] == blake(line[:line.rindex(b',"hash"')])
        if event["kind"] == "ledger.checkpoint":
            d = event["data"]
            assert d["to"] == expected - 1 and d["to"] - d["from"] + 1 == len(leaves) and d["root"] == root(leaves).hex()
            if checkpoints < 3:
                text = signed_text(event)
                for holds, kind in ((ed25519_holds, "ed25519"), (secp256k1_holds, "secp256k1")):
                    assert holds(d[kind]["key"], d[kind]["signature"], text, tmp_path)
                    assert not holds(d[kind]["key"], d[kind]["signature"], text + b"x", tmp_path)
            checkpoints, leaves = checkpoints + 1, []
        leaves.append(bytes.fromhex(event["hash"]))
        before, expected = event["hash"], expected + 1
    assert checkpoints > 8
    verdict = json.loads(tool("verify", ledger, "--json").stdout)
    assert verdict["last_hash"] == before and verdict["events"] == expected - 1 and verdict["checkpoints"] == checkpoints


def test_evidence_by_a_stranger(ledger, tmp_path):
    """The proof, recomputed from the file alone as docs/ledger.md says."""
    path = tmp_path / "e.json"
    assert tool("evidence", ledger, "--sandbox", ID, "-o", path).returncode in (0, 1)  # no daemon signs the end any more
    evidence = json.loads(path.read_text())
    shown = 0
    for interval in evidence["intervals"]:
        lines = [line.encode() for line in interval["events"]]
        for line in lines:
            assert json.loads(line)["hash"] == blake(line[:line.rindex(b',"hash"')])
        if interval["checkpoint"] is None:
            continue
        checkpoint = json.loads(interval["checkpoint"])
        first, last = checkpoint["data"]["from"], checkpoint["data"]["to"]
        known = {json.loads(line)["seq"]: bytes.fromhex(json.loads(line)["hash"]) for line in lines}
        proof = [bytes.fromhex(h) for h in interval["proof"]]

        def part(start, count):
            if not any(start <= s < start + count for s in known):
                return proof.pop(0)
            if count == 1:
                return known[start]
            k = 1
            while 2 * k < count:
                k *= 2
            return node(part(start, k), part(start + k, count - k))

        assert part(first, last - first + 1).hex() == checkpoint["data"]["root"] and not proof
        shown += len(lines)
    assert shown > 400


def test_verify_says_what_holds(ledger):
    result = tool("verify", ledger)
    assert result.returncode == 0 and "BROKEN" not in result.stdout and "\033" not in result.stdout
    position = re.search(r"position (\d+:[0-9a-f]{64})", result.stdout).group(1)
    key = re.search(r"^ +([0-9a-f]{64})$", result.stdout, re.M).group(1)
    assert tool("verify", ledger, "--expect", position, "--key", key).returncode == 0
    number, digest = position.split(":")
    later = tool("verify", ledger, f"--expect={int(number) + 1}:{digest}")
    assert later.returncode == 1 and f"event {int(number) + 1} was expected to be there" in later.stdout
    other = tool("verify", ledger, "--key", "0" * 64)
    assert other.returncode == 1 and "other keys than expected" in other.stdout
    one = tool("verify", segments(ledger)[1])
    assert one.returncode == 0 and "One segment alone" in one.stdout


def test_verify_names_what_is_broken(copy):
    victim = segments(copy)[1]
    lines = victim.read_bytes().splitlines(keepends=True)
    number = json.loads(lines[4])["seq"]
    victim.write_bytes(b"".join(lines[:4] + [lines[4].replace(b'"actor":"driver"', b'"actor":"dragon"')] + lines[5:]))
    result = tool("verify", copy)
    assert result.returncode == 1
    assert f"BROKEN at event {number} in {victim.name}: its hash does not match its bytes" in result.stdout
    verdict = json.loads(tool("verify", copy, "--json").stdout)
    assert verdict["holds"] is False and verdict["broken"]["seq"] == number
    # the other verbs do not serve what does not hold
    evidence = tool("evidence", copy, "--sandbox", ID, "-o", "-")
    assert evidence.returncode == 1 and str(number) in evidence.stderr and evidence.stdout == ""
    assert tool("checkpoints", copy).returncode == 1


def test_a_truncated_segment_leaves_the_rest_readable(copy):
    victim = segments(copy)[2]
    os.truncate(victim, victim.stat().st_size // 2)
    assert tool("verify", copy).returncode == 1
    after = int(segments(copy)[3].stem)
    tail = tool("tail", copy, "--from", after, "--json")
    assert tail.returncode == 0 and json.loads(tail.stdout.splitlines()[0])["seq"] == after
    broken = tool("tail", copy, "--from", int(victim.stem), "--json")
    assert broken.returncode == 1 and "damaged or missing" in broken.stderr and "ledger verify" in broken.stderr


def test_evidence_round_trip(ledger, tmp_path):
    first = tool("evidence", ledger, "--sandbox", ID, cwd=tmp_path)
    name = tmp_path / f"evidence-{ID}.json"
    assert first.returncode == 1 and "no daemon seems to write one" in first.stderr and name.exists()
    assert name.stat().st_mode & 0o777 == 0o600
    again = tool("evidence", ledger, "--sandbox", ID, cwd=tmp_path)
    assert again.returncode == 125 and "remove that one first" in again.stderr
    result = tool("verify", name)
    assert result.returncode == 1 and "under no signed checkpoint" in result.stdout
    d = Driver("ledger", ledger, 20000)  # a daemon comes back: the end is signed
    d.wait_for(lambda n: n[0] == "durable" and int(n[1]) > 700)
    live = tool("evidence", ledger, "--sandbox", ID, "-o", tmp_path / "live.json")
    d.kill()
    assert live.returncode in (0, 1), live.stderr  # it never stops writing: there is always something unsigned
    text = name.read_text()
    assert tool("verify", "/dev/stdin", input=text).returncode in (1, 125)
    name.write_text(text.replace("driver", "dragon", 1))
    broken = tool("verify", name)
    assert broken.returncode == 1 and "BROKEN at event" in broken.stdout
    assert tool("evidence", ledger, "--sandbox", "ffffffffffffffff", "-o", "-").returncode == 125
    assert tool("evidence", ledger).returncode == 125


def test_tail(ledger):
    lines = tool("tail", ledger).stdout.splitlines()
    assert len(lines) == 21 and lines[0].split()[:2] == ["EVENT", "DATE"]
    three = tool("tail", ledger, "-n", "3", "--json").stdout.splitlines()
    last = [json.loads(x)["seq"] for x in three]
    assert last == list(range(last[0], last[0] + 3))
    assert [json.loads(x)["seq"] for x in tool("tail", ledger, "--from", "5", "-n2", "--json").stdout.splitlines()] == [5, 6]
    checkpoints = tool("tail", ledger, "--kind", "ledger", "-n", "1000", "--json").stdout.splitlines()
    assert len(checkpoints) > 5 and all(json.loads(x)["kind"].startswith("ledger.") for x in checkpoints)
    assert tool("tail", ledger, "--kind", "ledge").stdout == ""
    assert tool("tail", ledger, "--sandbox", "ffffffffffffffff").stdout == ""


def test_a_terminal_gets_colours_and_lines_that_fit(ledger):
    shown = subprocess.run(["script", "-qec", f"stty cols 90; {TOOL} tail {ledger} -n 30", "/dev/null"], capture_output=True,
                           text=True, env={**os.environ, "TERM": "xterm"}).stdout
    assert "\033[2m" in shown and "…" in shown
    for width in (70, 90, 110, 200):
        shown = subprocess.run(["script", "-qec", f"stty cols {width}; {TOOL} tail {ledger} -n 30", "/dev/null"],
                               capture_output=True, text=True, env={**os.environ, "TERM": "xterm"}).stdout
        for line in shown.splitlines():
            assert len(re.sub(r"\033\[[0-9;]*m", "", line)) <= width
    plain = subprocess.run(["script", "-qec", f"{TOOL} tail {ledger}", "/dev/null"], capture_output=True, text=True,
                           env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"}).stdout
    assert "\033" not in plain


def test_hostile_bytes_do_not_reach_the_terminal(copy):
    victim = segments(copy)[0]
    data = victim.read_bytes().replace(b'"pad":"0', b'"pad":"\x1b', 3)
    victim.write_bytes(data)
    assert b"\x1b" not in subprocess.run([TOOL, "tail", copy, "--from", "1"], capture_output=True).stdout


@pytest.mark.parametrize("words, hint", [
    (["verify", "/nonexistent"], "--state"), (["verify", "/"], "no ledger"), (["verify", "/etc/passwd"], "neither"),
    (["verify", ".", "--expect", "1"], "64 hex"), (["verify", ".", "--key", "x"], "64 hex"), (["tail", "--from", "x"], "--from"),
    (["tail", "--frum"], "--help"), (["tail", "a", "b"], "too many"), (["evidence", "--sandbox", "x", "--run", "0"], "from 1"),
    (["mend"], "no verb"), ([], "usage"), (["tail", "--from"], "needs a value"), (["verify", "--follow"], "--help"),
    (["tail", "--follow=yes"], "takes no value"), (["verify", "--state", "/x" * 3000], "too long"),
])
def test_wrong_use_is_explained(words, hint, tmp_path):
    result = tool(*words, cwd=tmp_path)
    assert result.returncode == 125 and hint in result.stderr, result


def test_which_ledger_is_meant(ledger, tmp_path):
    place = tmp_path / "work/.stockade/operator"
    place.mkdir(parents=True)
    shutil.copytree(ledger, place / "ledger")
    assert tool("verify", cwd=tmp_path / "work").returncode == 0
    assert tool("verify", "--state", tmp_path / "work/.stockade").returncode == 0
    assert tool("verify", env={**os.environ, "STOCKADE_STATE": str(tmp_path / "work/.stockade")}).returncode == 0
    assert tool("verify", "--help").returncode == 0 and "--expect" in tool("verify", "--help").stdout


def test_help_and_manual_agree():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/man/stockade-ledger.1.scd").read_text()
    options = set(re.findall(r"--[a-z]+", tool("--help").stdout)) | {"--help"}
    assert options == set(re.findall(r"(?:^|, )\*(--[a-z]+)\*", page, re.M))
    for verb in ("verify", "tail", "evidence", "checkpoints"):
        synopsis = re.search(rf"^\*stockade ledger\* \*{verb}\*(.*)$", page, re.M).group(1)
        for option in set(re.findall(r"--[a-z]+", tool(verb, "--help").stdout)):
            letter = re.search(rf"^\*(-[a-z])\*, \*{option}\*", page, re.M)
            assert option in synopsis or letter and letter.group(1) in synopsis, (verb, option)
