"""Archives out and in: round trips through other makers' tools, and hostile archives, which unpack nothing outside."""
import errno
import io
import os
import random
import shutil
import stat
import subprocess
import tarfile

import pytest


def tree_of(root):
    """Everything below a folder, as data."""
    found = {}
    root = os.fsencode(root)
    for here, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(here, name)
            st = os.lstat(path)
            content = None
            if stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    content = f.read()
            found[os.path.relpath(path, root)] = (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), content)
    return found


def fill(root, seed=3):
    rng = random.Random(seed)
    root.mkdir()
    (root / "empty").touch()
    (root / "exact").write_bytes(rng.randbytes(512))
    (root / "large").write_bytes(rng.randbytes(3_000_001))
    (root / "script").write_bytes(b"#!/bin/sh\n")
    (root / "script").chmod(0o755)
    (root / "private").write_bytes(b"x")
    (root / "private").chmod(0o600)
    (root / "link").symlink_to("large")
    (root / "dangling").symlink_to("/no/where")
    (root / ("long" * 50)).write_bytes(b"long name")
    (root / "long link").symlink_to("t" * 300)
    deep = root
    for i in range(20):
        deep = deep / f"folder{i:010}"
        deep.mkdir()
        (deep / "f").write_bytes(b"%d" % i)
    for name in (b"new\nline", b"\xff\xfe", "ümlaut".encode(), b"\xff" * 200, b" ", b"*"):
        with open(os.path.join(os.fsencode(root), name), "wb") as f:
            f.write(name)
    (root / "nothing in it").mkdir()
    return root


def test_round_trip(conn, folder):
    source = fill(folder / "source")
    request = conn.pack(str(source))
    assert request.end.error == 0 and request.end.bytes == len(request.data) and len(request.data) % 512 == 0
    (folder / "copy").mkdir()
    end = conn.unpack(str(folder / "copy"), bytes(request.data))
    assert end.error == 0, end
    assert tree_of(folder / "copy") == tree_of(source)
    assert end.bytes_free == request.end.bytes_free == len(tree_of(source))  # entries
    for name in ("large", "script"):
        assert abs((folder / "copy" / name).stat().st_mtime_ns - (source / name).stat().st_mtime_ns) < 1000


@pytest.mark.parametrize("reader", ["tar", "python"])
def test_others_read_ours(conn, folder, reader):
    source = fill(folder / "source")
    archive = bytes(conn.pack(str(source)).data)
    target = folder / "out"
    target.mkdir()
    if reader == "tar":
        subprocess.run(["tar", "-xf", "-", "-C", target], input=archive, check=True)
    else:
        with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as t:
            t.extractall(target)
    assert tree_of(target) == tree_of(source)


@pytest.mark.parametrize("form", ["gnu", "posix", "ustar"])
def test_we_read_others(conn, folder, form):
    source = fill(folder / "source")
    if form == "ustar":  # which cannot say all of it
        for name in os.listdir(os.fsencode(source)):
            if len(name) > 100 or name == b"long link":
                os.unlink(os.path.join(os.fsencode(source), name))
        shutil.rmtree(source / "folder0000000000" / "folder0000000001" / "folder0000000002")
    archive = subprocess.run(["tar", "-cf", "-", f"--format={form}", "-C", source, "."], check=True,
                             capture_output=True).stdout
    (folder / "copy").mkdir()
    end = conn.unpack(str(folder / "copy"), archive)
    assert end.error == 0, end
    assert tree_of(folder / "copy") == tree_of(source)


def test_single_file(conn, folder):
    (folder / "one").write_bytes(b"content")
    (folder / "link").symlink_to("one")
    with tarfile.open(fileobj=io.BytesIO(conn.pack(str(folder / "one")).data)) as t:
        assert t.getnames() == ["one"] and t.extractfile("one").read() == b"content"
    os.mkfifo(folder / "fifo")
    assert conn.pack(str(folder / "fifo")).end.error == -errno.EINVAL


def test_special_files_are_left_out_and_counted(conn, folder):
    os.mkfifo(folder / "fifo")
    (folder / "f").touch()
    request = conn.pack(str(folder))
    assert request.end.inodes == 1 and request.end.bytes_free == 1
    with tarfile.open(fileobj=io.BytesIO(request.data)) as t:
        assert t.getnames() == ["f"]


def test_empty_folder(conn, folder):
    request = conn.pack(str(folder))
    assert request.data == bytes(1024) and request.end.error == 0
    assert conn.unpack(str(folder), bytes(request.data)).error == 0


def test_archive_through_the_front_of_a_run(conn, folder):
    """A tree that changes while it is packed still gives a whole archive."""
    (folder / "d").mkdir()
    for i in range(300):
        (folder / "d" / f"f{i}").write_bytes(bytes(20_000))
    noise = conn.sh(f"cd {folder}/d; while :; do for i in 1 2 3 4 5 6 7 8 9; do rm -f f$i; head -c $((i*3000)) /dev/zero"
                    " > f$i; truncate -s 1000 f1$i; truncate -s 40000 f1$i; done; done")
    for _ in range(5):
        request = conn.pack(str(folder / "d"))
        assert request.end.error == 0, request.end
        with tarfile.open(fileobj=io.BytesIO(request.data)) as t:
            assert 280 < len(t.getnames()) <= 310
    conn.signal(noise, 9, group=True)


def test_more_than_a_window_without_credit(conn, folder):
    (folder / "f").write_bytes(bytes(1_000_000))
    request = conn.ask("tar-out", path=str(folder))
    request.hold = True
    conn.stays(lambda: len(request.data) == 65536 and not request.end)
    conn.cancel(request)
    conn.finish_of(request)


def archive(*members, form=tarfile.PAX_FORMAT):
    """Of (name, type, content or link, mode)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as t:
        for name, kind, content, *rest in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = rest[0] if rest else 0o644
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                t.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content or ""
                t.addfile(info)
    return out.getvalue()


FILE, DIR, SYM, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
ESCAPES = {
    "absolute": [("/tmp/stockade-escape", FILE, b"x")],
    "parent": [("../escape", FILE, b"x")],
    "parent inside": [("a/../../escape", FILE, b"x")],
    "parent at the end": [("a/..", FILE, b"x")],
    "only parents": [("..", DIR, None)],
    "through a link": [("a", SYM, ".."), ("a/escape", FILE, b"x")],
    "through an absolute link": [("a", SYM, "/OUTSIDE"), ("a/escape", FILE, b"x")],
    "through a link of links": [("a", SYM, "b"), ("b", SYM, ".."), ("a/escape", FILE, b"x")],
    "folder through a link": [("a", SYM, ".."), ("a/escape", DIR, None)],
    "link through a link": [("a", SYM, ".."), ("a/escape", SYM, "x")],
    "second name of something outside": [("escape", LINK, "../target")],
    "second name by an absolute path": [("escape", LINK, "/OUTSIDE/target")],
    "second name through a link": [("a", SYM, ".."), ("escape", LINK, "a/target")],
}


@pytest.mark.parametrize("members", ESCAPES.values(), ids=ESCAPES.keys())
def test_escapes(conn, folder, members):
    (folder / "target").write_bytes(b"outside")
    inside = folder / "in"
    inside.mkdir()
    members = [(n, k, c.replace("/OUTSIDE", str(folder)) if isinstance(c, str) else c) for n, k, c in members]
    before = (folder / "target").stat().st_nlink
    end = conn.unpack(str(inside), archive(*members))
    assert end.error < 0 and end.text.startswith(b"cannot unpack")
    assert sorted(os.listdir(folder)) == ["in", "target"]
    assert (folder / "target").read_bytes() == b"outside" and (folder / "target").stat().st_nlink == before
    assert not os.path.exists("/tmp/stockade-escape")


def test_a_link_is_never_written_through(conn, folder):
    (folder / "target").write_bytes(b"outside")
    inside = folder / "in"
    inside.mkdir()
    end = conn.unpack(str(inside), archive(("f", SYM, "../target"), ("f", FILE, b"inside")))
    assert end.error == 0
    assert (folder / "target").read_bytes() == b"outside" and (inside / "f").read_bytes() == b"inside"
    # nor a second name, which was there before
    os.link(folder / "target", inside / "g")
    assert conn.unpack(str(inside), archive(("g", FILE, b"new"))).error == 0
    assert (folder / "target").read_bytes() == b"outside" and (inside / "g").read_bytes() == b"new"


def test_links_may_point_anywhere(conn, folder):
    assert conn.unpack(str(folder), archive(("a", SYM, "/etc/passwd"), ("b", SYM, "../../x"))).error == 0
    assert os.readlink(folder / "a") == "/etc/passwd" and os.readlink(folder / "b") == "../../x"


def test_second_names(conn, folder):
    end = conn.unpack(str(folder), archive(("d/a", FILE, b"x"), ("b", LINK, "d/a"), ("b", LINK, "./d/a"),
                                           ("b", LINK, "b")))
    assert end.error == 0, end
    assert (folder / "b").stat().st_ino == (folder / "d" / "a").stat().st_ino and (folder / "b").read_bytes() == b"x"
    assert conn.unpack(str(folder), archive(("c", LINK, "d"))).error == -errno.EISDIR
    assert conn.unpack(str(folder), archive(("c", LINK, "no"))).error == -errno.ENOENT


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_no_devices(conn, folder, kind):
    end = conn.unpack(str(folder), archive(("a", FILE, b"x"), ("dev", kind, None)))
    assert end.error == -errno.EOPNOTSUPP and os.listdir(folder) == ["a"]


def test_set_id_bits_are_dropped(conn, folder):
    assert conn.unpack(str(folder), archive(("f", FILE, b"x", 0o6755), ("d", DIR, None, 0o2755))).error == 0
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o755
    assert not (folder / "d").stat().st_mode & 0o6000


def test_read_only_folders_take_their_files(conn, folder):
    assert conn.unpack(str(folder), archive(("d", DIR, None, 0o555), ("d/f", FILE, b"x", 0o444))).error == 0
    assert (folder / "d" / "f").read_bytes() == b"x"


def test_what_is_in_the_way(conn, folder):
    (folder / "d").mkdir()
    (folder / "f").touch()
    assert conn.unpack(str(folder), archive(("d", FILE, b"x"))).error == -errno.EISDIR
    assert conn.unpack(str(folder), archive(("f", DIR, None))).error == -errno.EEXIST
    assert conn.unpack(str(folder), archive(("f/x", FILE, b"x"))).error == -errno.ENOTDIR
    assert conn.unpack(str(folder), archive(("d", DIR, None), ("f", FILE, b"y"))).error == 0


BROKEN = {
    "nothing": b"",
    "zeros too few": bytes(100),
    "cut in a header": archive(("a", FILE, b"x"))[:300],
    "cut in contents": archive(("a", FILE, b"x" * 5000))[:2000],
    "no end": archive(("a", FILE, b"x"))[:1024],
    "text": b"this is no archive" * 100,
    "sum": archive(("a", FILE, b"x")).replace(b"a\0", b"b\0", 1),
    "random": random.Random(1).randbytes(10_000),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_archives(conn, folder, data):
    end = conn.unpack(str(folder), data)
    assert end.error < 0, end


def test_huge_size_is_no_memory(guest, conn, folder):
    head = bytearray(archive(("a", FILE, b"x"))[:512])
    head[124:136] = b"\x80" + bytes(3) + (1 << 60).to_bytes(8, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    request = conn.ask("tar-in", path=str(folder))
    conn.data(request, bytes(head) + b"x" * 100_000)
    conn.idle(0.1)
    guest.stays_below(2000)
    conn.cancel(request)
    conn.finish_of(request)


def test_archives_with_changed_bytes(conn, folder):
    """Whatever it says, nothing appears outside the folder, and the guest lives."""
    rng = random.Random(9)
    base = archive(("dir", DIR, None), ("dir/file", FILE, b"x" * 700), ("ln", SYM, "dir"), ("hard", LINK, "dir/file"),
                   ("x" * 150, FILE, b"y"))
    inside = folder / "in"
    for _ in range(300):
        inside.mkdir()
        data = bytearray(base)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.5:  # with sums that are right again
            for at in range(0, len(data), 512):
                block = data[at:at + 512]
                if block[257:262] == b"ustar":
                    block[148:156] = b" " * 8
                    data[at + 148:at + 156] = b"%06o\0 " % sum(block)
        conn.unpack(str(inside), bytes(data))
        assert os.listdir(folder) == ["in"]
        conn.end(conn.exec("rm", "-rf", str(inside)))


def test_large_archive(conn, folder):
    data = os.urandom(1 << 20) * 50
    assert conn.unpack(str(folder), archive(("big", FILE, data))).error == 0
    assert (folder / "big").read_bytes() == data
