"""Secrets of sandboxes are given once: sealed in the store, they are there again whatever of ours died, and nowhere else. What
is wiped or deleted is gone from the files, too; what cannot be opened is missing, and nothing else breaks."""
import random
import threading
import time

import pytest

import harness
from harness import Gone, Refused, until
from sealed import BOTH, PROFILE, SECOND, VALUE, change, make, missing, nowhere, rows, written

pytestmark = pytest.mark.long  # many starts of the daemon


@pytest.fixture
def daemon(make_daemon):
    return make_daemon(conf="pool = 0\n")


# --- they come back

def down_and_up(daemon):
    daemon.down(stop=False)
    daemon.start()


@pytest.mark.parametrize("pool", [0, 1])
def test_they_are_given_once(make_daemon, pool):
    daemon = make_daemon(conf=f"pool = {pool}\n")
    client = daemon.client
    box = make(client, "box")
    inside = client.sh(box, "echo $TOKEN $OTHER")["out"]
    assert inside.count(b"stockade-secret-") == 2
    for happens in (daemon.kill_operator, daemon.kill_warden, daemon.kill_all, lambda: down_and_up(daemon)):
        happens()
        shown = client.show(sandbox=box)
        assert shown["secrets_missing"] == [] and "secrets_hint" not in shown, (happens, daemon.said())
        assert client.sh(box, "echo $TOKEN $OTHER")["out"] == inside
        assert client.secrets(sandbox=box)["secrets"] == [{"name": "TOKEN", "given": True}, {"name": "OTHER", "given": True}]
        nowhere(daemon)
    client.stop(sandbox=box)
    daemon.kill_operator()
    client.resume(sandbox=box)
    assert missing(client, box) == [] and client.sh(box, "echo $TOKEN $OTHER")["out"] == inside
    daemon.down(stop=True)
    daemon.start()
    assert client.show(sandbox=box)["state"] == "stopped"
    client.resume(sandbox=box)
    assert missing(client, box) == [] and client.sh(box, "echo $TOKEN $OTHER")["out"] == inside
    nowhere(daemon)


def test_what_is_given_again_replaces(daemon):
    client = daemon.client
    box = make(client, "box")
    old = rows(daemon)
    client.secret(sandbox=box, secrets={"TOKEN": VALUE[::-1]})
    new = rows(daemon)
    assert old[box, "TOKEN"] != new[box, "TOKEN"] and old[box, "OTHER"] == new[box, "OTHER"] and len(new) == 2
    assert not written(daemon, old[box, "TOKEN"]), "what it was sealed as before is still there"
    daemon.kill_all()
    assert missing(client, box) == []
    nowhere(daemon)


def test_equal_values_look_different(daemon):
    boxes = [make(daemon.client, f"box-{i}", {"TOKEN": VALUE, "OTHER": VALUE}) for i in range(2)]
    sealed = list(rows(daemon).values())
    assert len(sealed) == 4 == len(set(sealed)) and {len(s) for s in sealed} == {len(sealed[0])}
    assert all(missing(daemon.client, box) == [] for box in boxes)


def test_a_fork_has_none_of_its_origin(daemon):
    client = daemon.client
    box = make(client, "box")
    shot = client.snapshot(sandbox=box, name="shot")["id"]
    with pytest.raises(Refused) as e:
        client.create(snapshot=shot, name="none")
    assert "TOKEN" in e.value.message or "OTHER" in e.value.message
    fork = client.create(snapshot=shot, name="fork", secrets={"TOKEN": VALUE[::-1], "OTHER": SECOND[::-1]})["id"]
    daemon.kill_all()
    assert missing(client, fork) == [] == missing(client, box)
    client.secret_wipe(sandbox=fork)
    daemon.kill_operator()
    assert missing(client, fork) == ["TOKEN", "OTHER"] and missing(client, box) == []
    nowhere(daemon)


# --- they go

@pytest.mark.parametrize("how", ["wipe", "delete"])
def test_what_goes_is_gone_from_the_files(daemon, how):
    client = daemon.client
    box, other = make(client, "box"), make(client, "other")
    down_and_up(daemon)  # a copy of the store is made here
    assert (daemon.state / "operator/store.db.bak").exists()
    sealed = rows(daemon, box)
    assert len(sealed) == 2 and written(daemon, *sealed.values()), "the look itself does not work"
    if how == "wipe":
        client.secret_wipe(sandbox=box)
    else:
        client.delete(sandbox=box, force=True)
    assert rows(daemon, box) == {} and len(rows(daemon, other)) == 2
    assert not written(daemon, *sealed.values()), "what was sealed is still in a file"
    daemon.kill_all()
    assert missing(client, other) == []
    if how == "wipe":
        shown = client.show(sandbox=box)
        assert shown["secrets_missing"] == ["TOKEN", "OTHER"] and "stockade secret" in shown["secrets_hint"]
        client.secret(sandbox=box, secrets=BOTH)
        daemon.kill_operator()
        assert missing(client, box) == []


def test_one_that_was_not_created_leaves_none(daemon):
    client = daemon.client
    make(client, "box")
    before = rows(daemon)
    with pytest.raises(Refused):
        make(client, "box")
    with pytest.raises(Refused):
        client.create(profile_text=PROFILE, name="half", secrets={"TOKEN": VALUE})
    assert rows(daemon) == before


# --- they cannot be opened

def test_damaged_rows(daemon):
    client = daemon.client
    boxes = [make(client, f"box-{i}") for i in range(4)]
    odd = make(client, "odd")
    daemon.down(stop=False)
    change(daemon, "UPDATE secret SET sealed = zeroblob(60) WHERE sandbox = ? AND name = 'TOKEN'", boxes[0])
    change(daemon, "UPDATE secret SET sealed = x'' WHERE sandbox = ? AND name = 'OTHER'", boxes[0])
    change(daemon, "UPDATE secret SET name = ? WHERE sandbox = ? AND name = 'TOKEN'", "N" * 300, odd)
    change(daemon, "UPDATE secret SET name = ? WHERE sandbox = ? AND name = 'OTHER'", "OTHER\0", odd)
    was = rows(daemon)
    for a, b in ((1, 2), (2, 1)):  # exchanged: whole, but not theirs
        change(daemon, "UPDATE secret SET sealed = ? WHERE sandbox = ? AND name = 'TOKEN'", was[boxes[a], "TOKEN"], boxes[b])
    daemon.start()
    assert missing(client, boxes[0]) == ["TOKEN", "OTHER"]
    assert "damaged" in client.show(sandbox=boxes[0])["secrets_hint"]
    assert missing(client, boxes[1]) == ["TOKEN"] == missing(client, boxes[2])
    assert missing(client, boxes[3]) == [] and missing(client, odd) == ["TOKEN", "OTHER"]
    for box in boxes:
        assert client.sh(box, "echo $TOKEN")["out"].startswith(b"stockade-secret-")
    assert client.health()["ok"] and client.health()["keys"]["locked"] == 4
    client.secret(sandbox=boxes[0], secrets=BOTH)
    client.secret(sandbox=boxes[1], secrets={"TOKEN": VALUE})
    client.delete(sandbox=boxes[2], force=True)
    client.secret_wipe(sandbox=odd)
    assert rows(daemon, odd) == {} and len(rows(daemon)) == 6
    daemon.kill_operator()
    assert [missing(client, boxes[i]) for i in (0, 1, 3)] == [[], [], []] and client.health()["keys"]["locked"] == 0


def test_a_key_that_is_lost_and_found(daemon):
    client = daemon.client
    box, own = make(client, "box"), daemon.state / "session.secret"
    first = own.read_text()
    daemon.down(stop=False)
    own.unlink()
    daemon.start()
    shown = client.show(sandbox=box)
    assert shown["secrets_missing"] == ["TOKEN", "OTHER"] and "session_secret_previous" in shown["secrets_hint"]
    assert "session_secret_previous" in daemon.said()
    other = make(client, "other")  # sealed with a key of its own, beside the old one
    client.secret(sandbox=box, secrets={"OTHER": SECOND})
    daemon.kill_operator()
    assert missing(client, box) == ["TOKEN"] and missing(client, other) == []
    former = daemon.state.parent / "former"
    former.write_text(first)
    former.chmod(0o600)
    with open(daemon.config, "a", encoding="utf-8") as conf:
        conf.write(f"session_secret_previous = {former}\n")
    daemon.kill_operator()  # the next one has it
    assert missing(client, box) == [] == missing(client, other), daemon.said()
    assert until(lambda: client.health()["keys"]["wrapped"])
    daemon.config.write_text(daemon.config.read_text().replace("session_secret_previous", "# "))
    daemon.kill_operator()  # and this one does without it
    assert missing(client, box) == [] == missing(client, other), daemon.said()
    nowhere(daemon, VALUE, SECOND)


def test_a_damaged_data_key(daemon):
    client = daemon.client
    box = make(client, "box")
    daemon.down(stop=False)
    change(daemon, "UPDATE data_key SET wrapped = zeroblob(81)")
    daemon.start()
    assert missing(client, box) == ["TOKEN", "OTHER"] and client.health()["ok"]
    client.secret(sandbox=box, secrets=BOTH)
    other = make(client, "other")
    daemon.kill_all()
    assert missing(client, box) == [] == missing(client, other), daemon.said()


def test_without_a_session_secret(make_daemon):
    daemon = make_daemon(conf="pool = 0\nsession_secret_file = /nonexistent/secret\n")
    client = daemon.client
    with pytest.raises(Refused) as e:
        make(client, "box")
    assert "session_secret_file" in e.value.hint
    box = client.create(profile="medium")["id"]
    assert client.sh(box, "echo fine")["out"] == b"fine\n"
    assert client.list()["sandboxes"][0]["id"] == box and client.health()["keys"]["current"] == ""


# --- killed in between

def test_killed_at_any_moment(daemon):
    """One of the two values is always there; what was answered lasts."""
    client, chance = daemon.client, random.Random(5)
    box = make(client, "box")
    for turn in range(harness.rounds(12)):
        answered = threading.Event()

        def give():
            try:
                client.secret(sandbox=box, secrets={"TOKEN": f"{VALUE}-{turn}"})  # pylint: disable=cell-var-from-loop
                answered.set()  # pylint: disable=cell-var-from-loop
            except (Gone, Refused, OSError):
                pass
        thread = threading.Thread(target=give)
        before = rows(daemon)[box, "TOKEN"]
        thread.start()
        time.sleep(chance.random() * 0.03)
        daemon.kill_all()  # not the operator alone: the warden would wait longer each time
        thread.join()
        assert missing(client, box) == [], daemon.said()
        if answered.is_set():
            assert rows(daemon)[box, "TOKEN"] != before
    nowhere(daemon)
