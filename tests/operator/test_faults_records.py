"""A damaged database page, a truncated ledger segment, a changed byte in one, a store of a newer build: whoever asks hears
what is wrong and what to do next, what runs goes on, and when the files are right again so is everything else."""
import os
import shutil
import sqlite3
import subprocess

import pytest

import harness
from harness import Gone, Refused, alive, until

PAGE = 4096


def segments(daemon):
    return sorted((daemon.state / "operator/ledger").glob("*.jsonl"))


def damage_page(daemon):
    """All pages but the first, which says that it is a database at all."""
    store = daemon.state / "operator/store.db"
    data = bytearray(store.read_bytes())
    assert len(data) > 4 * PAGE, "everything is in the log yet"
    for place in range(PAGE, len(data), PAGE):
        data[place:place + 64] = os.urandom(64)
    store.write_bytes(data)


def make_newer(daemon):
    with sqlite3.connect(daemon.state / "operator/store.db") as db:
        db.execute("INSERT INTO schema_version VALUES (99, 1, '99.0')")
    db.close()


def cut_segment(daemon):
    last = segments(daemon)[-1]
    os.truncate(last, last.stat().st_size - 50)


def change_byte(daemon):
    last = segments(daemon)[-1]
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)


def lose_keys(daemon):
    (daemon.state / "operator/ledger/keys").unlink()


@pytest.mark.skipif(not harness.IS_ROOT, reason="needs root")
@pytest.mark.parametrize("damage, says, hint", [
    (damage_page, "damaged", "store.db.bak"),
    (make_newer, "newer build", "run that build again"),
    (cut_segment, "lost events", "stockade ledger verify"),
    (change_byte, "damaged", "stockade ledger verify"),
    (lose_keys, "keys", "backup"),
])
def test_damage_is_said(daemon, damage, says, hint):
    client, folder = daemon.client, daemon.state / "operator"
    box = client.create(name="kept", profile="medium")
    for i in range(20):
        client.create(name=f"n{i}", profile="low")
    with client.call("exec", sandbox="kept", argv=["/bin/sleep", "1000"]) as run:
        run.event()
    found = []
    assert until(lambda: found.extend(p for p in daemon.processes() if harness.command_of(p) == "/bin/sleep 1000") or found)
    inside = found[0]
    daemon.down(stop=False)
    shutil.copytree(folder, daemon.state.parent / "right")
    damage(daemon)
    damaged = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    daemon.start(wait=False)
    try:
        for verb in ("list", "create", "ping"):
            with pytest.raises(Refused) as e:
                until(lambda verb=verb: attempt(client, verb), 25)
            assert says in e.value.message and hint in e.value.hint, e.value
        done = subprocess.run([str(daemon.programs.stockade), "list", "--socket", str(daemon.socket)], capture_output=True,
                              text=True, timeout=40)
        assert done.returncode != 0 and says in done.stderr and hint in done.stderr, done
        assert daemon.process.poll() is None and alive(inside), "what runs was ended"
        for path, before in damaged.items():
            if path.suffix == ".jsonl" or path.name == "store.db":
                assert path.read_bytes() == before, f"{path.name} was changed"
    finally:
        owner = folder.stat()
        for path in (daemon.state.parent / "right").rglob("*"):
            place = folder / path.relative_to(daemon.state.parent / "right")
            if path.is_file():
                shutil.copy(path, place)
                os.chown(place, owner.st_uid, owner.st_gid)
    assert until(lambda: answers(daemon), 30), daemon.said()
    assert client.show(sandbox="kept")["id"] == box["id"] and alive(inside)
    assert client.sh("kept", "echo well")["out"] == b"well\n"
    done = subprocess.run([str(daemon.programs.stockade_ledger), "verify", str(folder / "ledger")], capture_output=True, text=True)
    assert done.returncode == 0, done


def attempt(client, verb):
    try:
        client.ask(verb, timeout=60)
    except Gone:  # between two operators
        return False
    return True


def answers(daemon):
    try:
        return daemon.answers()
    except Refused:
        return False


@pytest.mark.skipif(not harness.IS_ROOT, reason="needs root")
def test_a_row_that_cannot_be_read(daemon):
    """One row is nonsense: the others are served, and nothing is thrown away because of it."""
    client = daemon.client
    client.create(name="good", profile="medium")
    bad = client.create(name="bad", profile="medium")["id"]
    daemon.down(stop=False)
    with sqlite3.connect(daemon.state / "operator/store.db") as db:
        db.execute("UPDATE sandbox_frozen SET policy = ? WHERE sandbox = ?", (b"no: [policy", bad))
    db.close()
    daemon.start()
    assert "good" in [s["name"] for s in client.list()["sandboxes"]], daemon.said()
    assert client.sh("good", "echo well")["out"] == b"well\n"
    assert bad in os.listdir(daemon.state / "run/sandboxes"), "it was ended because its row cannot be read"
    assert bad in daemon.said(), "nobody said which"
    client.delete(sandbox="good", force=True)
