"""Runs the driver, kills it, makes its disk fail or forget, and looks at what is left."""
import os
import pathlib
import random
import select
import signal
import sqlite3
import struct
import subprocess
import time

BUILD = pathlib.Path(os.environ.get("STOCKADE_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
DRIVER = BUILD / "tests/records/driver"
FAULTS = BUILD / "tests/records/faults.so"
TOOL = BUILD / "src/ledger/stockade-ledger"
SANITIZED = any(k.endswith("SAN_OPTIONS") for k in os.environ)


def tool(*words, **options):
    return subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, timeout=120, **options)


class Driver:
    """One life of the driver. What it says is in news, in order."""

    def __init__(self, *words, fault=None, log=None):
        environment = dict(os.environ)
        if fault or log:
            environment["LD_PRELOAD"] = str(FAULTS)
        if fault:
            environment["FAULTS"] = str(fault)
        if log:
            environment["FAULTS_LOG"] = str(log)
        self.process = subprocess.Popen([DRIVER, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment)
        self.news, self.rest = [], b""

    def listen(self, seconds):
        """Takes in what is said for so long, or until the end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.process.stdout], [], [], left)[0]:
                break
            if not self.take():
                break

    def take(self):
        piece = os.read(self.process.stdout.fileno(), 65536)
        *lines, self.rest = (self.rest + piece).split(b"\n")
        self.news += [line.decode().split() for line in lines]
        return piece

    def wait_for(self, good, seconds=60):
        """Until some news is good."""
        seen, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for word in self.news[seen:]:
                seen += 1
                if good(word):
                    return word
            if select.select([self.process.stdout], [], [], 0.2)[0] and not self.take():
                break
        raise AssertionError(f"it never said so; last: {self.news[-5:]}, {self.process.stderr.read() if self.process.poll() else ''}")

    def last(self, word):
        return next((n for n in reversed(self.news) if n[0] == word), None)

    def kill(self):
        """kill -9; what was said before counts."""
        self.process.send_signal(signal.SIGKILL)
        while self.take():
            pass
        self.process.wait()
        errors = self.process.stderr.read().decode()
        assert self.process.returncode == -signal.SIGKILL, errors
        self.process.stdout.close()
        self.process.stderr.close()
        return self


class Fault:
    """The byte that tells the disk what to do."""

    def __init__(self, folder):
        self.path = folder / "fault"
        self.path.write_text("0")

    def __str__(self):
        return str(self.path)

    def set(self, letter):
        with open(self.path, "r+b") as f:  # in place: it is mapped
            f.write(letter.encode())


# --- a loss of power ---

WRITTEN, SYNCED, MADE, CUT = 1, 2, 3, 4
ENTRY = struct.Struct("=IIQQQQ")


def entries(log):
    data, at = log.read_bytes(), 0
    while at + ENTRY.size <= len(data):
        kind, path_size, offset, size, old_size, old_bytes = ENTRY.unpack_from(data, at)
        at += ENTRY.size
        path = data[at:at + path_size].decode()
        at += path_size
        yield kind, path, offset, size, old_size, data[at:at + old_bytes]
        at += old_bytes


def lose_power(log, choose):
    """Undoes writes that were not synced, as many as chance wants; returns how many."""
    pending, names = {}, {}
    for entry in entries(log):
        kind, path = entry[:2]
        if kind == SYNCED:
            pending.pop(path, None)
            for made in [m for m in names if os.path.dirname(m) == path]:
                del names[made]
        elif kind == MADE:
            names[path] = True
        else:
            pending.setdefault(path, []).append(entry)
    undone = 0
    for path, list_ in pending.items():
        share = choose.choice([0, 0.3, 1, 1])  # of what was not synced, this much reached the disk
        for kind, _, offset, size, old_size, old in reversed(list_):
            if choose.random() < share or not os.path.exists(path):
                continue
            undone += 1
            with open(path, "r+b") as f:
                f.seek(offset)
                f.write(old)
                if kind == WRITTEN:
                    f.write(bytes(size - len(old)))
                    if share == 0 and choose.random() < 0.5:
                        f.truncate(max(old_size, offset + len(old)))
    for path in names:
        if os.path.exists(path) and choose.random() < 0.5:
            os.unlink(path)
            undone += 1
    log.unlink()
    return undone


# --- what has to be there ---

def check_ledger(folder, acknowledged):
    """All holds, and the last acknowledged event is what it was."""
    words = ["verify", folder, "--json"]
    if acknowledged and int(acknowledged[1]) > 0:
        words += ["--expect", f"{acknowledged[1]}:{acknowledged[2]}"]
    result = tool(*words)
    assert result.returncode == 0, result.stdout + result.stderr


def check_store(folder, acknowledged):
    """SQLite itself finds nothing wrong, and rows 1 to N are there as they were put."""
    db = sqlite3.connect(f"file:{folder}/store.db", uri=True)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        if not acknowledged:
            return  # it may not even have its tables yet
        count = int(acknowledged[1])
        rows = db.execute("SELECT id, created_ms, policy FROM sandbox LEFT JOIN sandbox_frozen ON sandbox = id"
                          " ORDER BY created_ms").fetchall()
        assert len(rows) >= count
        for i, (id_, created, policy) in enumerate(rows, 1):
            assert id_ == f"{i:016x}" and created == i, f"row {i} is {id_}"
            assert policy.split(b":")[0] == str(i).encode() and len(policy.split(b":")[1]) == 1 + i * 7919 % 2900
    finally:
        db.close()
