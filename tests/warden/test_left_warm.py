"""Disks that are let go and whose devices stay for a moment: the warden waits for them in its loop, where all but the operator's
next request is looked after meanwhile."""
import os
import pathlib
import threading
import time

from test_disks import INODES, SIZE, disks, make_disk
from test_warm import _stocked, drop  # pylint: disable=unused-import


def open_device(disk):
    """As long as somebody has it open, the kernel does not take the device of a disk apart."""
    for p in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if f"/{disk}/" in p.read_text():
                return os.open(f"/dev/{p.parts[3]}", os.O_RDONLY)
        except OSError:
            pass
    raise AssertionError(f"the disk {disk} has no device")


def test_nobody_sleeps_while_devices_go(stocked):
    """A device that is not taken apart at once is waited for in the loop, and not asleep."""
    ids = [f"{i:016x}" for i in range(12)]
    for serial in [stocked.send("disk-make", id=id, size=SIZE, inodes=INODES, owner=1) for id in ids]:
        assert stocked.answer(serial)[0].error == 0
    held = [open_device(id) for id in ids]
    seen, over = [], threading.Event()

    def look():
        while not over.is_set():
            seen.append(pathlib.Path(f"/proc/{stocked.process.pid}/syscall").read_text().split()[0])
            time.sleep(0.0005)
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        stocked.ask("flatten", target="f" * 16, size=SIZE, inodes=INODES, layers=ids)
    finally:
        over.set()
        watcher.join()
        for fd in held:
            os.close(fd)
    asleep = {str(number) for number in (35, 230)}  # nanosleep and clock_nanosleep
    assert not asleep & set(seen), "the warden slept"
    for id in [*ids, "f" * 16]:
        drop(stocked, id)


def test_an_operator_that_goes_while_its_request_waits(stocked):
    disk = make_disk(stocked)
    held = open_device(disk)
    try:
        stocked.send("disk-space", id=disk)
        stocked.let_go()
    finally:
        os.close(held)
    stocked.connect()
    stocked.hello()
    drop(stocked, disk)
    assert disks(stocked) == {}
