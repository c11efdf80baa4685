"""Disks that are mounted before they are needed: they are disks like any other, and nothing of them outlives a warden."""
import errno
import pathlib

import pytest
from daemon import Refused, until
from test_disks import HOME, INODES, SIZE, disks, make_disk, options_of, with_disk, write  # pylint: disable=unused-import


def backing(d):
    """The files below the state folder that loop devices are on."""
    found = []
    for p in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found += [t for t in [p.read_text().strip()] if str(d.folder) in t]
        except OSError:
            pass
    return found


def in_stock(d):
    return [p.name for p in (d.folder / "blank/disks").iterdir()]


def drop(d, disk):
    """Some kernels take a device apart a moment after its mount: until then its disk seems to be in use."""
    def dropped():
        try:
            d.ask("disk-drop", id=disk)
            return True
        except Refused as e:
            assert e.error == -errno.EBUSY, e
            return False
    until(dropped)


@pytest.fixture(name="stocked")
def _stocked(warden):
    """One that knows a kind of disks, and has some in stock."""
    drop(warden, make_disk(warden))  # with mke2fs
    drop(warden, make_disk(warden))
    until(lambda: len(in_stock(warden)) == 4)
    until(lambda: len(backing(warden)) == 4)
    return warden


def test_one_from_the_stock(stocked, with_disk, inside):
    stock = set(in_stock(stocked))
    disk = make_disk(stocked)
    assert len(stock - set(in_stock(stocked))) >= 1 and disks(stocked) == {disk: 0}
    assert options_of(disk), "it is mounted already"
    assert write(stocked, with_disk, disk, "echo kept >f; stat -c %u:%g .", inside).strip() == "1000:1000"
    until(lambda: not options_of(disk))
    assert write(stocked, with_disk, disk, "cat f", inside).strip() == "kept"
    drop(stocked, disk)


def test_one_that_is_not_used_goes_at_once(stocked):
    disk = make_disk(stocked)
    drop(stocked, disk)
    assert disks(stocked) == {} and not any(disk in b for b in backing(stocked))


def test_every_other_request_lets_it_go(stocked, with_disk, inside):
    disk, other = make_disk(stocked), make_disk(stocked)
    numbers = stocked.ask("disk-space", id=disk)[0].numbers
    assert numbers[1] >= SIZE * 0.9 and numbers[3] >= INODES
    until(lambda: not options_of(disk))
    # as a layer below another one: sealed, not mounted for writing
    assert write(stocked, with_disk, other, "echo on top >f; cat f", inside, layers=[disk]).strip() == "on top"
    assert disks(stocked).keys() == {disk, other}


def test_killed_with_a_full_stock(stocked, with_disk, inside):
    disk = make_disk(stocked)
    assert options_of(disk)
    stocked.kill()
    until(lambda: not backing(stocked))
    stocked.start()
    assert in_stock(stocked) == [] and disks(stocked) == {disk: 0}
    assert write(stocked, with_disk, disk, "echo still good", inside).strip() == "still good"


def test_many_at_once(stocked):
    """More than there are in stock: each gets one of its own, whichever way it was made."""
    serials = []
    ids = []
    for i in range(12):
        ids.append(f"{i:016x}")
        serials.append(stocked.send("disk-make", id=ids[-1], size=SIZE, inodes=INODES, owner=1))
    for serial in serials:
        assert stocked.answer(serial)[0].error == 0
    assert disks(stocked).keys() == set(ids)
    files = [b for b in backing(stocked) if any(i in b for i in ids)]
    assert len(files) == len(set(files)) == 12
    for id in ids:
        drop(stocked, id)


def test_down_leaves_no_device(stocked):
    stocked.down()
    until(lambda: not backing(stocked))
    assert in_stock(stocked) == []
