"""kill -9 at any moment, and a loss of power on top: what was acknowledged is there, and all of it verifies."""
import os
import random
import threading
import time

import pytest

from records import Driver, check_ledger, check_store, lose_power, tool

ROUNDS = int(os.environ.get("STOCKADE_ROUNDS", 60))


def lives(choose, words, check, log=None):
    """Round after round on the same files."""
    best, undone = None, 0
    for _ in range(ROUNDS):
        d = Driver(*words, log=log)
        if choose.random() < 0.6:  # somewhere in the middle of its work; else maybe before it has begun
            d.wait_for(lambda n, k=choose.randint(1, 4): len(d.news) > k)
        d.listen(choose.choice([0, 0.002, 0.01, 0.03]))
        d.kill()
        if log and log.exists():
            undone += lose_power(log, choose)
        for word in ("durable", "committed"):
            best = d.last(word) or best
        check(best)
    return best, undone


@pytest.mark.parametrize("segment", [8000, 1 << 20])
def test_ledger_killed(tmp_path, segment):
    best, _ = lives(random.Random(segment), ["ledger", tmp_path, segment], lambda b: check_ledger(tmp_path, b))
    assert int(best[1]) > ROUNDS


def test_store_killed(tmp_path):
    best, _ = lives(random.Random(3), ["store", tmp_path], lambda b: check_store(tmp_path, b))
    assert int(best[1]) > ROUNDS


@pytest.mark.parametrize("segment", [8000, 1 << 20])
def test_ledger_power(tmp_path, segment):
    """Unsynced writes are lost, in part and out of order; lost durable ones would be refused at the next start."""
    folder, log = tmp_path / "ledger", tmp_path / "log"
    folder.mkdir()

    def check(best):
        # the writer first: what it finds behind the head may be half written, and is its to cut off
        d = Driver("ledger", folder, segment)
        d.wait_for(lambda n: n[0] == "open")
        d.kill()
        if best:
            assert int(d.news[0][1]) >= int(best[1])
        check_ledger(folder, best)

    best, undone = lives(random.Random(segment + 1), ["ledger", folder, segment], check, log)
    assert int(best[1]) > ROUNDS and undone > ROUNDS // 10


def test_store_power(tmp_path):
    folder, log = tmp_path / "store", tmp_path / "log"
    folder.mkdir()
    best, undone = lives(random.Random(5), ["store", folder], lambda b: check_store(folder, b), log)
    assert int(best[1]) > ROUNDS and undone > 0


def test_the_loss_is_real(tmp_path):
    """The same loss taken of writes that were synced, too, is noticed: else the tests above would show nothing."""
    folder, log = tmp_path / "ledger", tmp_path / "log"
    folder.mkdir()
    d = Driver("ledger", folder, 1 << 20, log=log)
    d.wait_for(lambda n: n[0] == "durable" and int(n[1]) > 200)
    d.kill()
    from records import SYNCED, entries
    lost = [e for e in entries(log) if e[0] != SYNCED and e[1].endswith(".jsonl")]
    assert len(lost) > 2
    _, path, offset, size, _, _ = lost[1]
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(bytes(size))
    result = tool("verify", folder)
    assert result.returncode == 1 and "BROKEN" in result.stdout
    again = Driver("ledger", folder, 1 << 20)
    assert again.process.wait(60) == 1
    error = again.process.stderr.read().decode()
    assert "has lost events or is damaged" in error and "stockade ledger verify" in error


def test_readers_while_it_is_killed(tmp_path):
    """Followers see every durable event once, in order, over the lives of several writers."""
    import json
    import subprocess
    from records import TOOL
    Driver("ledger", tmp_path, 8000).kill()
    d = Driver("ledger", tmp_path, 8000)
    d.wait_for(lambda n: n[0] == "open")
    followers = [subprocess.Popen([TOOL, "tail", tmp_path, "--from", "1", "-f", "--json"], stdout=subprocess.PIPE)
                 for _ in range(3)]
    seen = [[] for _ in followers]
    threads = [threading.Thread(target=lambda f=f, s=s: s.extend(json.loads(x)["seq"] for x in f.stdout))
               for f, s in zip(followers, seen)]
    for t in threads:
        t.start()
    for _ in range(8):
        d.listen(0.1)
        d.kill()
        d = Driver("ledger", tmp_path, 8000)
        d.wait_for(lambda n: n[0] == "durable")
    d.kill()
    last = int(d.last("durable")[1])
    end = time.monotonic() + 60
    while time.monotonic() < end and any(len(s) < last for s in seen):
        time.sleep(0.1)
    for f in followers:
        f.terminate()
        f.wait()
    for t in threads:
        t.join()
    for s in seen:
        assert s == list(range(1, len(s) + 1)) and len(s) >= last
