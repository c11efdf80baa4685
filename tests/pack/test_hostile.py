"""Archives that were made to do harm: none gets out of its tree, none costs more than its caps, and each that is refused
says why."""
import gzip
import os
import pathlib
import subprocess
import tarfile

import pytest

from conftest import MIB, Tar

ERR_INPUT, ERR_LIMIT = -1003, -1005


@pytest.fixture
def outside(tmp_path):
    """What must not change: a file and a folder next to everything, and names that an escape would make."""
    (tmp_path / "secret").write_text("secret")
    yield tmp_path
    assert (tmp_path / "secret").read_text() == "secret"
    for name in ("/escaped", "/tmp/escaped", "/etc/escaped"):
        assert not os.path.lexists(name)


def refused(state, archive, error=ERR_INPUT, words="", **caps):
    root, r, name = state.image(archive, **caps)
    assert not r.ok and r.error == error, r.line
    assert words in r.text, r.text
    assert not root.exists(), "a refused image is gone"
    for folder in ("images", "disks"):
        assert name not in os.listdir(state.path / folder)
    return r


@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped", "/escaped", "..", "a/..", "//etc/escaped", "./../x", "a/b/../../../x"])
def test_names_that_lead_out(state, outside, name):
    refused(state, Tar().folder("a").add(name, b"x").bytes(), words="leads out")


def test_link_then_file_through_it(state, outside):
    for target in (str(outside), "..", "/", "a/../..", "."):
        refused(state, Tar().link("l", target).add("l/secret", b"changed").bytes(), words="through a link")
    # a file in the place of the link itself is just a file
    root, r, _ = state.image(Tar().link("l", str(outside / "secret")).add("l", b"file").bytes())
    assert r.ok and (root / "l").read_bytes() == b"file" and not (root / "l").is_symlink()
    # and so is a folder
    root, r, _ = state.image(Tar().link("l", str(outside)).folder("l").add("l/secret", b"mine").bytes())
    assert r.ok and (root / "l/secret").read_bytes() == b"mine"


def test_links_may_point_anywhere_and_stay_links(state, outside):
    root, r, _ = state.image(Tar().link("abs", "/etc/passwd").link("up", "../../..").link("self", "self").bytes())
    assert r.ok
    assert os.readlink(root / "abs") == "/etc/passwd" and os.readlink(root / "up") == "../../.."
    refused(state, Tar().link("l", "").bytes())


def test_hard_links_stay_inside(state, outside):
    for target in ("/etc/passwd", "../secret", str(outside / "secret")):
        refused(state, Tar().same("h", target).bytes(), words="leads out")
    refused(state, Tar().link("l", "/etc").same("h", "l/passwd").bytes(), words="through a link")
    refused(state, Tar().folder("d").same("h", "d").bytes(), error=-21)
    refused(state, Tar().same("h", "nothing").bytes(), error=-2)
    # a hard link to a link is the link, not what it points to
    root, r, _ = state.image(Tar().link("l", "/etc/passwd").same("h", "l").bytes())
    assert r.ok and (root / "h").is_symlink() and os.readlink(root / "h") == "/etc/passwd"
    # writing to a name that a hard link shares does not write through it
    root, r, _ = state.image(Tar().add("a", b"one").same("b", "a").add("b", b"two").bytes())
    assert r.ok and (root / "a").read_bytes() == b"one" and (root / "b").read_bytes() == b"two"


def test_devices_are_left_out(state):
    t = Tar().folder("dev").add("dev/mem", kind=tarfile.CHRTYPE, devmajor=1, devminor=1)
    t.add("dev/sda", kind=tarfile.BLKTYPE, devmajor=8, devminor=0).add("dev/wh", kind=tarfile.CHRTYPE, devmajor=0, devminor=0)
    root, r, _ = state.image(t.add("fifo", kind=tarfile.FIFOTYPE).bytes())
    assert r.ok and r.skipped == 3
    assert os.listdir(root / "dev") == [] and (root / "fifo").is_fifo()


def test_set_id_bits_are_dropped(state):
    root, r, _ = state.image(Tar().add("su", b"#!", mode=0o6755).folder("d", mode=0o7777).add("s", b"", mode=0o1644).bytes())
    assert r.ok
    assert (root / "su").stat().st_mode & 0o7777 == 0o755
    assert (root / "d").stat().st_mode & 0o7777 == 0o1777
    assert (root / "s").stat().st_mode & 0o7777 == 0o644


def test_capabilities_and_overlay_marks_are_dropped(state, tmp_path):
    t = Tar(mode="w", format=tarfile.PAX_FORMAT)
    cap = b"\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00".decode("latin-1")
    t.add("f", b"x", pax_headers={"SCHILY.xattr.security.capability": cap, "SCHILY.xattr.trusted.overlay.opaque": "y",
                                  "SCHILY.xattr.user.overlay.whiteout": "y", "SCHILY.xattr.user.note": "kept"})
    root, r, _ = state.image(t.bytes())
    assert r.ok, r.line
    assert os.listxattr(root / "f") == ["user.note"] and os.getxattr(root / "f", "user.note") == b"kept"


def test_ids_are_canonical(state):
    t = Tar(format=tarfile.PAX_FORMAT)
    for name, uid in (("root", 0), ("www", 33), ("max", 65535), ("large", 65536), ("huge", 2**31), ("negative", -1)):
        t.add(name, b"", uid=uid, gid=uid)
    root, r, _ = state.image(t.bytes())
    assert r.ok, r.line
    ids = {p.name: (p.stat().st_uid, p.stat().st_gid) for p in root.iterdir()}
    assert ids == {"root": (0, 0), "www": (33, 33), "max": (65535, 65535), "large": (65534, 65534),
                   "huge": (65534, 65534), "negative": (65534, 65534)}


def many():
    """A hundred thousand empty files in a hundred folders."""
    head = tarfile.TarInfo("d").tobuf()

    def one(i):
        name = b"d%d/f%d" % (i % 100, i)
        block = name + b"\0" * (100 - len(name)) + head[100:148] + b" " * 8 + head[156:]
        return block[:148] + b"%06o\0 " % sum(block) + block[156:]

    return b"".join(map(one, range(100000))) + b"\0" * 1024


def test_too_many_entries(state):
    data = many()
    refused(state, gzip.compress(data, 1), ERR_LIMIT, "more than 5000 entries", entries=5000)
    disk = state.disk(inodes=1000)
    path = state.path / "many.tar"
    path.write_bytes(data)
    r = state.unpack(disk, path)
    assert not r.ok and r.error == -28 and "No space left" in r.text, r.line


def test_all_of_many_entries(state):
    disk = state.disk(inodes=100100)
    path = state.path / "many.tar.gz"
    path.write_bytes(gzip.compress(many(), 1))
    r = state.unpack(disk, path, entries=100000)
    assert r.ok and r.entries == 100000, r.line
    assert state.shell(disk, "find . -type f | wc -l", "look").strip() == "100000"


def test_bytes_are_capped(state):
    refused(state, Tar().add("a", b"x" * 3 * MIB).add("b", b"x" * 3 * MIB).bytes(), ERR_LIMIT, "more than", bytes=5 * MIB)
    root, r, _ = state.image(Tar().add("a", b"x" * 3 * MIB).bytes(), bytes=5 * MIB)
    assert r.ok and r.bytes == 3 * MIB


def test_bombs(state, tmp_path):
    """Half a gigabyte of zeros in half a megabyte, and in a few kilobytes."""
    for command in ("gzip -9", "xz -0", "zstd -1"):
        path = tmp_path / "bomb"
        subprocess.run(f"""{{ python3 -c 'import tarfile,sys
i=tarfile.TarInfo("zero"); i.size=1<<29; sys.stdout.buffer.write(i.tobuf())'; head -c 536870912 /dev/zero; }} | {command} > {path}""",
                       shell=True, check=True)
        refused(state, path, ERR_LIMIT, "times its size")


def test_sparse_bombs(state):
    def sparse(realsize, stretches):
        """GNU's format 1.0 by hand: a map, then the data."""
        numbers = b"%d\n" % len(stretches) + b"".join(b"%d\n%d\n" % s for s in stretches)
        numbers += b"\0" * (-len(numbers) % 512)
        data = numbers + b"".join(b"x" * n for _, n in stretches)
        t = Tar(format=tarfile.PAX_FORMAT)
        t.add("GNUSparseFile.0/s", data, pax_headers={
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": str(realsize)})
        return t.bytes()

    root, r, _ = state.image(sparse(1 << 40, [(0, 10), (1 << 39, 10)]))
    assert r.ok and (root / "s").stat().st_size == 1 << 40 and (root / "s").stat().st_blocks < 100
    refused(state, sparse(1 << 60, [(0, 1)]), ERR_LIMIT)
    # a hundred thousand bytes, each in a block of its own
    refused(state, sparse(1 << 40, [(i * 8192, 1) for i in range(100000)]), ERR_LIMIT, "more than", bytes=64 * MIB)
    # data beyond the size that is said
    _, r, _ = state.image(sparse(100, [(0, 10), (5000, 10)]))
    assert not r.ok


def test_long_names(state):
    refused(state, Tar(format=tarfile.PAX_FORMAT).add("x" * 256, b"").bytes(), ERR_LIMIT, "255 bytes")
    refused(state, Tar(format=tarfile.PAX_FORMAT).add("d/" * 2100 + "f", b"").bytes(), ERR_LIMIT, "name of more than")
    refused(state, Tar(format=tarfile.GNU_FORMAT).add("y" * 70000, b"").bytes(), ERR_LIMIT)
    root, r, _ = state.image(Tar(format=tarfile.PAX_FORMAT).add("d/" * 1900 + "f", b"deep").bytes())
    assert r.ok
    assert subprocess.run(["find", ".", "-name", "f"], cwd=root, capture_output=True, text=True).stdout.count("/") == 1901


def test_same_names_again(state):
    root, r, _ = state.image(Tar().add("a", b"1").add("./a", b"2").add("a//", b"").add(".//a", b"3").bytes())
    assert r.ok and (root / "a").read_bytes() == b"3" and os.listdir(root) == ["a"]
    # a file over a folder, a folder over a file, a link over both
    t = Tar().folder("x").add("x/deep/f", b"1").add("x", b"file").folder("x").add("x/g", b"2").link("x", "g").add("y", b"").folder("y")
    root, r, _ = state.image(t.bytes())
    assert r.ok and os.readlink(root / "x") == "g" and (root / "y").is_dir()
    refused(state, Tar().add("f", b"").add("f/g", b"").bytes(), words="through a link or a file")
    # the root itself
    refused(state, Tar().add(".", b"x").bytes())
    root, r, _ = state.image(Tar().folder(".", mode=0o711, uid=5, gid=6).bytes())
    assert r.ok and root.stat().st_mode & 0o777 == 0o711 and (root.stat().st_uid, root.stat().st_gid) == (5, 6)


def test_broken_archives(state, tmp_path):
    good = Tar().add("a", os.urandom(100000)).bytes()
    for command in ("zstd", "gzip", "xz", "bzip2"):
        packed = subprocess.run([command, "-c"], input=good, capture_output=True, check=True).stdout
        root, r, _ = state.image(packed)
        assert r.ok and (root / "a").stat().st_size == 100000
        refused(state, packed[:len(packed) // 2])
        if command == "gzip":
            continue  # libarchive does not look at gzip's checksum
        broken = bytearray(packed)
        broken[len(broken) // 2] ^= 0xFF
        broken[len(broken) // 2 + 1] ^= 0xFF
        refused(state, bytes(broken))
    refused(state, good[:5000])  # cut within a file
    for nonsense in (b"", b"\0", b"hello world" * 100, b"\x28\xb5\x2f\xfd" + b"\xff" * 100, os.urandom(5000)):
        _, r, _ = state.image(nonsense)
        assert not r.ok, nonsense[:20]
    # other formats of libarchive are not read at all
    (tmp_path / "z").write_text("x")
    subprocess.run("python3 -c \"import zipfile; zipfile.ZipFile('z.zip','w').write('z')\"; echo z | cpio -o -H newc > z.cpio 2>/dev/null",
                   shell=True, cwd=tmp_path)
    refused(state, (tmp_path / "z.zip").read_bytes())
    refused(state, (tmp_path / "z.cpio").read_bytes())


def test_every_cut_and_flip_of_a_small_archive(state, tmp_path):
    """Nothing but a proper end: no signal, no silence."""
    t = Tar(format=tarfile.PAX_FORMAT).folder("d").add("d/f", b"x" * 600).link("l", "d/f").same("h", "d/f")
    t.add("ö" * 60, b"long", pax_headers={"SCHILY.xattr.user.a": "b"})
    data = t.bytes()
    for i in range(0, len(data), 97):
        broken = bytearray(data)
        broken[i] ^= 1 << (i % 8)
        for each in (data[:i], bytes(broken)):
            _, r, name = state.image(each)
            assert "signal" not in r.line and (r.ok or r.error < 0), (i, r.line)
            if r.ok:
                subprocess.run(["rm", "-r", state.path / "images" / name], check=True)


def test_a_full_disk_says_so(state):
    disk = state.disk(size=MIB)
    path = state.path / "big.tar"
    Tar().add("big", os.urandom(3 * MIB)).save(path)
    r = state.unpack(disk, path)
    assert not r.ok and r.error == -28 and "big" in r.text
    assert state.shell(disk, "echo works > x 2>/dev/null || rm -f big; echo works > x; cat x").strip() == "works"
