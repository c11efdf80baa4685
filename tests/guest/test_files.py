"""Requests about files: what is there, ranged reads, atomic writes, folders, moves, removals, space."""
import errno
import os
import stat
import time

import pytest

import frames
from client import until
from frames import NO_REPLACE, PARENTS, RECURSIVE, WINDOW

NAMES = [b"plain", b"with space", b"new\nline", b"tab\t", b"\x1b[31mred", b"\xff\xfe not utf-8", "ümlaut".encode(),
         b"-rf", b"*", b"'quote\"", b"a" * 255, b"$(id)", b".hidden", b"back\\slash", b"..."]


def names(folder):
    return sorted(os.listdir(os.fsencode(folder)))


def test_stat(conn, folder):
    path = folder / "file"
    path.write_bytes(b"12345")
    path.chmod(0o640)
    os.utime(path, (1_700_000_000, 1_700_000_000.25))
    entry, = conn.call("stat", path=str(path)).items
    assert stat.S_ISREG(entry.mode) and stat.S_IMODE(entry.mode) == 0o640
    assert (entry.size, entry.time_ms, entry.inode) == (5, 1_700_000_000_250, path.stat().st_ino)
    assert (entry.uid, entry.gid) == (0, 0)  # as whom the guest runs in its namespace
    assert entry.path == os.fsencode(path)


def test_stat_of_a_link_is_of_the_link(conn, folder):
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "broken").symlink_to(b"\xff\n".decode(errors="surrogateescape"))
    entry, = conn.call("stat", path=str(folder / "link")).items
    assert stat.S_ISLNK(entry.mode) and entry.target == b"/etc/passwd"
    entry, = conn.call("stat", path=str(folder / "broken")).items
    assert entry.target == b"\xff\n"


@pytest.mark.parametrize("kind, fields", [
    ("stat", {}), ("list", {}), ("read", {"offset": 0, "length": 1}), ("remove", {}), ("tar-out", {}), ("tar-in", {}),
    ("watch", {}), ("usage", {}), ("move", {"target": "/dev/shm/never"}),
])
def test_what_is_not_there(conn, folder, kind, fields):
    end = conn.call(kind, path=str(folder / "no"), **fields).end
    assert end.error == -errno.ENOENT and b"No such file" in end.text and end.text.startswith(b"cannot ")


def test_sentences_are_inert(conn, folder):
    end = conn.call("stat", path=os.fsencode(folder) + b"/\x1b[2J\n\xff").end
    assert b"\x1b" not in end.text and b"\n" not in end.text and b"\xff" not in end.text


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_hostile_names(conn, folder, name):
    path = os.path.join(os.fsencode(folder), name)
    data = os.urandom(1000)
    assert conn.put(path, data).error == 0
    assert names(folder) == [name]
    assert conn.get(path) == data
    entry, = conn.call("list", path=str(folder)).items
    assert entry.path == name
    assert conn.call("move", path=path, target=path[:-1] + b"2").end.error == 0
    assert conn.call("remove", path=path[:-1] + b"2").end.error == 0
    assert names(folder) == []


def test_list(conn, folder):
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")
    os.mkfifo(folder / "fifo")
    for i in range(500):
        (folder / f"f{i}").write_bytes(bytes(i))
    request = conn.call("list", path=str(folder))
    assert request.end.error == 0 and len(request.items) == 503
    by_name = {e.path: e for e in request.items}
    assert stat.S_ISDIR(by_name[b"sub"].mode) and stat.S_ISFIFO(by_name[b"fifo"].mode)
    assert by_name[b"f77"].size == 77 and by_name[b"link"].target == b"sub"
    assert conn.call("list", path=str(folder / "link")).items == []
    assert conn.call("list", path=str(folder / "f1")).end.error == -errno.ENOTDIR


def test_list_of_many_can_be_cancelled(conn, folder):
    for i in range(5000):
        (folder / f"{i:0200}").touch()
    request = conn.ask("list", path=str(folder))
    conn.cancel(request)
    assert conn.finish_of(request).error in (-errno.ECANCELED, 0)
    request = conn.call("list", path=str(folder))
    assert len(request.items) == 5000


@pytest.mark.parametrize("offset, length", [(0, frames.TO_END), (0, 0), (0, 1), (1, 1), (999_999, 10), (1_000_000, 5),
                                            (5_000_000, 5), (123_456, 500_000), (2**62, frames.TO_END)])
def test_ranged_reads(conn, folder, offset, length):
    data = os.urandom(1_000_000)
    (folder / "f").write_bytes(data)
    expected = data[offset:offset + min(length, 2_000_000)]
    request = conn.call("read", path=str(folder / "f"), offset=offset, length=length)
    assert request.data == expected and request.end.bytes == len(expected) and request.end.error == 0


def test_large_file_both_ways(conn, folder):
    data = os.urandom(1 << 20) * 50
    assert conn.put(str(folder / "f"), data).bytes == len(data)
    assert (folder / "f").read_bytes() == data
    assert conn.get(str(folder / "f")) == data


def test_reading_waits_for_credit(conn, folder):
    (folder / "f").write_bytes(bytes(1_000_000))
    request = conn.ask("read", path=str(folder / "f"), offset=0, length=frames.TO_END)
    request.hold = True
    conn.stays(lambda: len(request.data) == WINDOW and not request.end)
    conn.cancel(request)
    assert conn.finish_of(request).error == -errno.ECANCELED


@pytest.mark.parametrize("make, expected", [
    (lambda p: os.mkfifo(p), errno.EINVAL), (lambda p: os.mkdir(p), errno.EISDIR),
    (lambda p: os.symlink("loop", p), errno.ELOOP)])
def test_reading_what_is_no_file(conn, folder, make, expected):
    make(folder / "loop")
    request = conn.call("read", path=str(folder / "loop"), offset=0, length=1)
    assert request.end.error == -expected


def test_reading_proc_and_devices(conn):
    assert b"MemTotal" in conn.get("/proc/meminfo")
    assert conn.call("read", path="/dev/zero", offset=0, length=10).end.error == -errno.EINVAL


def test_write_is_atomic(conn, folder):
    path = folder / "f"
    path.write_bytes(b"old")
    request = conn.ask("write", path=str(path), mode=0)
    conn.data(request, b"new" * 100_000)
    until(lambda: len(os.listdir(folder)) == 2)
    assert path.read_bytes() == b"old"
    conn.finish(request)
    assert conn.finish_of(request).bytes == 300_000
    assert path.read_bytes() == b"new" * 100_000 and os.listdir(folder) == ["f"]


def test_write_that_does_not_end_leaves_nothing(guest, conn, folder):
    request = conn.ask("write", path=str(folder / "f"), mode=0o644)
    conn.data(request, b"x" * 100_000)
    conn.cancel(request)
    assert conn.finish_of(request).error == -errno.ECANCELED
    assert os.listdir(folder) == []
    request = conn.ask("write", path=str(folder / "f"), mode=0o644)
    conn.data(request, b"x" * 100_000)
    conn.close()
    with guest.connect() as other:
        other.list_runs()
        assert os.listdir(folder) == []


@pytest.mark.parametrize("before, asked, expected", [(None, 0, 0o644), (0o755, 0, 0o755), (0o600, 0o640, 0o640),
                                                     (None, 0o400, 0o400), (0o4755, 0, 0o755)])
def test_modes(conn, folder, before, asked, expected):
    path = folder / "f"
    if before is not None:
        path.touch()
        path.chmod(before)
    assert conn.put(str(path), b"x", mode=asked).error == 0
    assert stat.S_IMODE(path.stat().st_mode) == expected


def test_empty_file(conn, folder):
    assert conn.put(str(folder / "f"), b"").error == 0
    assert (folder / "f").read_bytes() == b"" and conn.get(str(folder / "f")) == b""


def test_write_replaces_a_link_and_not_its_target(conn, folder):
    (folder / "target").write_bytes(b"safe")
    (folder / "link").symlink_to("target")
    assert conn.put(str(folder / "link"), b"new").error == 0
    assert (folder / "target").read_bytes() == b"safe"
    assert not (folder / "link").is_symlink() and (folder / "link").read_bytes() == b"new"


def test_write_without_replacing(conn, folder):
    assert conn.put(str(folder / "f"), b"one", flags=NO_REPLACE).error == 0
    assert conn.put(str(folder / "f"), b"two", flags=NO_REPLACE).error == -errno.EEXIST
    request = conn.ask("write", NO_REPLACE, path=str(folder / "g"), mode=0)
    conn.data(request, b"three")
    until(lambda: len(os.listdir(folder)) == 2)
    (folder / "g").write_bytes(b"meanwhile")
    conn.finish(request)
    assert conn.finish_of(request).error == -errno.EEXIST
    assert sorted(os.listdir(folder)) == ["f", "g"] and (folder / "g").read_bytes() == b"meanwhile"


def numbers_of(path):
    st = os.lstat(path)
    return {"size": st.st_size, "time_ms": st.st_mtime_ns // 1_000_000, "inode": st.st_ino}


@pytest.mark.parametrize("change", ["size", "time", "replaced", "removed", "link", "folder"])
@pytest.mark.parametrize("late", [False, True])
def test_write_if_it_is_what_it_was(conn, folder, change, late):
    """Looked at before anything is taken, and again before the name is: what came meanwhile stays."""
    path, other = folder / "f", folder.parent / "other"
    path.write_bytes(b"old")
    seen = numbers_of(path)

    def make():
        if change == "size":
            path.write_bytes(b"longer")
        elif change == "time":
            os.utime(path, (1, 1))
        else:
            path.rename(other)
        if change == "replaced":
            path.write_bytes(b"old")
            os.utime(path, ns=(0, seen["time_ms"] * 1_000_000))
        elif change == "link":
            path.symlink_to(other)
        elif change == "folder":
            path.mkdir()
    if not late:
        make()
    request = conn.ask("write-if", path=str(path), mode=0, **seen)
    if late:
        conn.data(request, b"mine")
        until(lambda: len(os.listdir(folder)) == 2)
        make()
        conn.finish(request)
    after = os.path.lexists(path) and numbers_of(path)
    assert conn.finish_of(request).error == (-errno.EISDIR if change == "folder" and not late else -errno.ESTALE)
    assert os.listdir(folder) == ([] if change == "removed" else ["f"]) and (os.path.lexists(path) and numbers_of(path)) == after
    assert not os.path.lexists(other) or other.read_bytes() == b"old"


def test_write_if_goes_on(conn, folder):
    path = folder / "f"
    path.write_bytes(b"old")
    request = conn.ask("write-if", path=str(path), mode=0, **numbers_of(path))
    conn.data(request, b"new")
    conn.finish(request)
    assert conn.finish_of(request).error == 0 and path.read_bytes() == b"new" and os.listdir(folder) == ["f"]


def test_write_over_a_folder(conn, folder):
    (folder / "d").mkdir()
    assert conn.put(str(folder / "d"), b"x").error == -errno.EISDIR
    assert conn.put(str(folder / "new") + "/", b"x").error == -errno.EISDIR
    assert conn.put("/", b"x").error == -errno.EISDIR
    assert conn.put(str(folder / "f" / ".."), b"x").error == -errno.EINVAL


def test_write_makes_folders_if_asked(conn, folder):
    path = folder / "a" / "b" / "c"
    assert conn.put(str(path), b"x").error == -errno.ENOENT
    assert conn.put(str(path), b"x", flags=PARENTS).error == 0
    assert path.read_bytes() == b"x"


def test_write_to_a_full_disk(conn):
    request = conn.ask("write", path="/dev/full", mode=0)
    conn.finish_of(request) if request.end else conn.idle(0.1)
    conn.cancel(request)
    conn.idle(0.1)
    end = conn.put("/proc/f", b"x")
    assert end.error in (-errno.ENOENT, -errno.EACCES, -errno.EPERM)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_no_space_left(conn, folder):
    small = folder / "small"
    small.mkdir()
    assert conn.end(conn.exec("mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small))).code == 0
    end = conn.put(str(small / "f"), bytes(2_000_000))
    assert end.error == -errno.ENOSPC
    assert conn.call("list", path=str(small)).items == []
    usage = conn.call("usage", path=str(small)).end
    assert usage.bytes == 256 * 1024 and usage.bytes_free == usage.bytes and usage.inodes > usage.inodes_free > 0
    assert conn.end(conn.exec("umount", str(small))).code == 0


def test_mkdir(conn, folder):
    assert conn.call("mkdir", path=str(folder / "a"), mode=0o700).end.error == 0
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o700
    assert conn.call("mkdir", path=str(folder / "all"), mode=0o777).end.error == 0
    assert stat.S_IMODE((folder / "all").stat().st_mode) == 0o777
    assert conn.call("mkdir", path=str(folder / "a"), mode=0o700).end.error == -errno.EEXIST
    assert conn.call("mkdir", PARENTS, path=str(folder / "a"), mode=0o700).end.error == 0
    assert conn.call("mkdir", path=str(folder / "x" / "y"), mode=0o755).end.error == -errno.ENOENT
    assert conn.call("mkdir", PARENTS, path=str(folder / "x" / "y" / "z") + "//", mode=0o755).end.error == 0
    assert (folder / "x" / "y" / "z").is_dir()
    (folder / "f").touch()
    assert conn.call("mkdir", PARENTS, path=str(folder / "f"), mode=0o755).end.error == -errno.EEXIST
    assert conn.call("mkdir", PARENTS, path=str(folder / "f" / "g"), mode=0o755).end.error == -errno.ENOTDIR


def test_move(conn, folder):
    (folder / "a").write_bytes(b"a")
    (folder / "b").write_bytes(b"b")
    move = dict(path=str(folder / "a"), target=str(folder / "b"))
    assert conn.call("move", NO_REPLACE, **move).end.error == -errno.EEXIST
    assert conn.call("move", **move).end.error == 0
    assert os.listdir(folder) == ["b"] and (folder / "b").read_bytes() == b"a"
    end = conn.call("move", path=str(folder / "b"), target="/proc/x").end
    assert end.error == -errno.EXDEV and b"copy" in end.text


def test_remove_one(conn, folder):
    (folder / "f").touch()
    (folder / "d").mkdir()
    (folder / "d" / "x").touch()
    assert conn.call("remove", path=str(folder / "f")).end.error == 0
    assert conn.call("remove", path=str(folder / "d")).end.error == -errno.ENOTEMPTY
    assert conn.call("remove", path="/").end.error == -errno.EINVAL
    assert conn.call("remove", path=str(folder / "d" / "..")).end.error == -errno.EINVAL
    assert os.listdir(folder) == ["d"]


def test_remove_a_tree_without_following(conn, folder):
    outside = folder / "outside"
    outside.mkdir()
    (outside / "keep").write_bytes(b"keep")
    tree = folder / "tree"
    tree.mkdir()
    for i in range(30):
        (tree / f"d{i}").mkdir()
        for j in range(30):
            (tree / f"d{i}" / f"f{j}").touch()
        (tree / f"d{i}" / "link").symlink_to(outside)
    (folder / "to-tree").symlink_to(tree)
    assert conn.call("remove", RECURSIVE, path=str(folder / "to-tree")).end.error == 0
    assert tree.is_dir()  # only the link went
    end = conn.call("remove", RECURSIVE, path=str(tree)).end
    assert end.error == 0 and end.bytes_free == 1 + 30 * 32
    assert sorted(os.listdir(folder)) == ["outside"] and (outside / "keep").read_bytes() == b"keep"


def test_remove_a_deep_tree(conn, folder):
    def make(depth):
        here = os.open(folder, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=here)
            there = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = there
        os.close(here)
    make(200)
    assert conn.call("remove", RECURSIVE, path=str(folder / "d")).end.error == 0
    make(400)
    end = conn.call("remove", RECURSIVE, path=str(folder / "d")).end
    assert end.error == -errno.ELOOP
    assert conn.end(conn.exec("rm", "-r", str(folder / "d"))).code == 0


def test_remove_that_takes_long_can_be_cancelled(conn, folder):
    for i in range(40):
        (folder / f"d{i}").mkdir()
        for j in range(100):
            (folder / f"d{i}" / f"f{j}").touch()
    request = conn.ask("remove", RECURSIVE, path=str(folder))
    conn.cancel(request)
    assert conn.finish_of(request).error in (-errno.ECANCELED, 0)


def test_processes(guest, conn):
    start = time.time()
    run = conn.sh("exec sleep 1000 'with blank' 2>/dev/null || exec sleep 1000")
    tty = conn.exec("sh", "-c", "printf '\\033[2J'; sleep 1000 # \x1b[31m\n", tty=(24, 80))
    conn.wait(lambda: run.pid and tty.pid)
    found = {}

    def ready():
        found.update({m.number: m for m in conn.call("processes").items})
        return found[tty.pid].text.startswith(b"sh -c") and found[tty.pid].size > 100_000
    until(ready)
    assert found[1].parent == 0 and b"stockade-guest serve" in found[1].text and chr(found[1].mode) in "SR"
    assert found[tty.pid].parent == 1 and b"\x1b" not in found[tty.pid].text
    assert start - 5 < found[tty.pid].time_ms / 1000 < time.time() + 5
    for r in (run, tty):
        conn.signal(r, 9, group=True)
        conn.end(r)


def test_usage(conn):
    end = conn.call("usage", path="/").end
    v = os.statvfs("/")
    assert end.bytes == v.f_blocks * v.f_frsize and end.inodes == v.f_files
    assert abs(end.bytes_free - v.f_bavail * v.f_frsize) < 1 << 30
