"""Disk full, EIO, no descriptors: nothing that was accepted is lost, what cannot be recorded is refused, and it goes on by
itself afterwards."""
import errno
import os
import subprocess

import pytest

from records import Driver, Fault, check_ledger, check_store, tool

NUMBERS = {"n": errno.ENOSPC, "s": errno.EIO}


def is_health(number):
    return lambda n: n[0] == "health" and n[1] == str(number)


@pytest.mark.parametrize("letter", NUMBERS)
def test_ledger(tmp_path, letter):
    folder, fault = tmp_path / "ledger", Fault(tmp_path)
    folder.mkdir()
    d = Driver("ledger", folder, 1 << 20, fault=fault)
    for _ in range(4):
        d.wait_for(lambda n: n[0] == "durable")
        d.news.clear()
        fault.set(letter)
        d.wait_for(is_health(NUMBERS[letter]))
        d.wait_for(lambda n: n == ["refused", str(NUMBERS[letter])])
        before = d.last("durable")
        d.listen(0.4)  # some tries that fail
        assert d.last("durable") == before
        if before:
            check_ledger(folder, before)  # what a reader sees meanwhile is right
        fault.set("0")
        d.wait_for(is_health(0))
        d.news.clear()
        d.wait_for(lambda n: n[0] == "durable")
    d.kill()
    check_ledger(folder, d.last("durable"))
    assert "ledger.repair" not in tool("tail", folder, "--from", "1").stdout


@pytest.mark.parametrize("letter", NUMBERS)
def test_ledger_killed_while_sick(tmp_path, letter):
    folder, fault = tmp_path / "ledger", Fault(tmp_path)
    folder.mkdir()
    best = None
    for _ in range(8):
        d = Driver("ledger", folder, 8000, fault=fault)
        d.wait_for(lambda n: n[0] == "durable")
        fault.set(letter)
        d.wait_for(is_health(NUMBERS[letter]))
        d.kill()
        fault.set("0")
        best = d.last("durable") or best
        check_ledger(folder, best)


@pytest.mark.parametrize("letter", NUMBERS)
def test_store(tmp_path, letter):
    folder, fault = tmp_path / "store", Fault(tmp_path)
    folder.mkdir()
    d = Driver("store", folder, fault=fault)
    for _ in range(4):
        d.wait_for(lambda n: n[0] == "committed")
        fault.set(letter)
        d.wait_for(is_health(NUMBERS[letter]))
        before = d.last("committed")
        d.listen(0.4)
        assert d.last("committed") == before
        fault.set("0")
        d.wait_for(is_health(0))
        d.news.clear()
        d.wait_for(lambda n: n[0] == "committed")
    d.kill()
    check_store(folder, d.last("committed"))


def test_no_descriptors(tmp_path):
    """A new segment cannot be made for a while."""
    folder, fault = tmp_path / "ledger", Fault(tmp_path)
    folder.mkdir()
    d = Driver("ledger", folder, 8000, fault=fault)
    d.wait_for(lambda n: n[0] == "durable")
    fault.set("c")
    d.wait_for(is_health(errno.EMFILE))
    fault.set("0")
    d.wait_for(is_health(0))
    d.news.clear()
    d.wait_for(lambda n: n[0] == "durable")
    d.kill()
    check_ledger(folder, d.last("durable"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.parametrize("kind", ["ledger", "store"])
def test_a_file_system_that_is_really_full(tmp_path, kind):
    place, check = tmp_path / "small", check_ledger if kind == "ledger" else check_store
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], check=True)
    try:
        folder = place / kind
        folder.mkdir()
        d = Driver(kind, folder, *([1 << 20] if kind == "ledger" else []))
        d.wait_for(is_health(errno.ENOSPC), 60)
        before = d.last("durable" if kind == "ledger" else "committed")
        subprocess.run(["mount", "-o", "remount,size=40m", place], check=True)
        d.news.clear()
        d.wait_for(is_health(0))
        after = d.wait_for(lambda n: n[0] == before[0] and int(n[1]) > int(before[1]))
        d.kill()
        check(folder, d.last(before[0]) or after)
        # and a start on a full one says so, or works; it never breaks what is there
        subprocess.run(["mount", "-o", "remount,size=1m", place], check=False)
        check(folder, d.last(before[0]))
    finally:
        subprocess.run(["umount", "-l", place], check=True)  # what failed may still be there
