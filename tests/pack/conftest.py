"""A state folder with disks and images, and stockade-pack driven as the warden drives it (driver.c)."""
import io
import itertools
import os
import pathlib
import subprocess
import tarfile
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STOCKADE", ROOT / "build/src/cli/stockade")).parents[2]
PACK = BUILD / "src/pack/stockade-pack"
DRIVER = BUILD / "tests/pack/pack-driver"
MIB = 1 << 20
ENVIRONMENT = {"STOCKADE_PACK": str(PACK), "PATH": os.environ["PATH"],
               "SANITIZER": "ASAN_OPTIONS=" + os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

if os.geteuid() != 0:
    collect_ignore_glob = ["test_*.py"]  # disks need root: rootless runs have none of this


class Result:
    def __init__(self, process):
        self.status = process.returncode
        line = process.stdout.decode(errors="replace").strip().split("\n")[-1]
        self.line = line + process.stderr.decode(errors="replace")
        words = line.split(" ", 4)
        self.ok = words[0] == "ok"
        self.bytes, self.entries, self.skipped = (int(w) for w in words[1:4]) if self.ok else (0, 0, 0)
        self.text = words[4] if self.ok and len(words) > 4 else line
        self.error = -int(words[1]) if words[0] == "error" else 0


class State:
    def __init__(self, path):
        self.path = path
        self.numbers = itertools.count(1)

    def run(self, *words, **more):
        return subprocess.run([DRIVER, self.path, *map(str, words)], capture_output=True, timeout=120,
                              env=ENVIRONMENT, **more)

    def new(self):
        return f"{next(self.numbers):016x}"

    def disk(self, size=64 * MIB, inodes=10000):
        name = self.new()
        assert self.run("make", name, size, inodes).returncode == 0
        return name

    def shell(self, view, command, who="shell"):
        r = self.run(who, view, command)
        assert r.returncode == 0, (command, r.stdout, r.stderr)
        return r.stdout.decode(errors="surrogateescape")

    def image(self, archive, bytes=0, entries=0, **more):
        """Imports an archive (a path, or bytes through a pipe). The image's root on the host, and what was said."""
        name = self.new()
        if isinstance(archive, (str, pathlib.Path)):
            r = Result(self.run("image", name, archive, bytes, entries, **more))
        else:
            r = Result(self.run("image", name, "-", bytes, entries, input=archive, **more))
        return self.path / "images" / name / "root", r, name

    def unpack(self, disk, archive, bytes=0, entries=0):
        return Result(self.run("unpack", disk, archive, bytes, entries))


@pytest.fixture(scope="session")
def state():
    path = pathlib.Path(tempfile.mkdtemp(prefix="stockade-pack-"))  # some of it is deeper than Python can tidy up
    yield State(path)
    left = subprocess.run("cat /sys/block/loop*/loop/backing_file 2>/dev/null", shell=True, capture_output=True, text=True)
    assert str(path) not in left.stdout, "a loop device is left"
    subprocess.run(["rm", "-rf", path], check=True)


class Tar:
    """An archive made entry by entry, also such as no program makes."""

    def __init__(self, path=None, mode="w", **more):
        self.buffer = io.BytesIO()
        self.tar = tarfile.open(path, mode, **more) if path else tarfile.open(fileobj=self.buffer, mode=mode, **more)

    def add(self, name, data=b"", kind=tarfile.REGTYPE, **more):
        info = tarfile.TarInfo(name)
        info.type = kind
        info.size = len(data) if kind == tarfile.REGTYPE else 0
        info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
        for key, value in more.items():
            setattr(info, key, value)
        self.tar.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
        return self

    def folder(self, name, **more):
        return self.add(name, kind=tarfile.DIRTYPE, **more)

    def link(self, name, to, **more):
        return self.add(name, kind=tarfile.SYMTYPE, linkname=to, **more)

    def same(self, name, to, **more):
        return self.add(name, kind=tarfile.LNKTYPE, linkname=to, **more)

    def bytes(self):
        self.tar.close()
        return self.buffer.getvalue()

    def save(self, path):
        path.write_bytes(self.bytes())
        return path
