"""What tests of stored secrets share: a profile with two of them, and looks into the store and at every byte around it."""
import base64
import os
import sqlite3

PROFILE = ("profile: 1\nname: keyed\nextends: medium\nsecrets: [TOKEN, OTHER]\n"
           "network: {allow: [{host: api.example.com, secret: TOKEN}, {host: www.example.com, secret: OTHER}]}\n")
VALUE = "s3cret-value-that-is-written-nowhere"
SECOND = "another-value-that-is-written-nowhere"
BOTH = {"TOKEN": VALUE, "OTHER": SECOND}


def forms(value):
    """The value as it could have been written by somebody who did not think."""
    data = value.encode()
    return [data, data.hex().encode(), base64.b64encode(data)[:-4], data[::-1]]


def pieces(path):
    """The parts of a file that have bytes: disks are mostly holes."""
    with open(path, "rb") as file:
        at, end = 0, os.fstat(file.fileno()).st_size
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            while at < hole:
                data = os.pread(file.fileno(), min(hole - at, 1 << 22), at)
                if not data:
                    return
                yield data
                at += max(len(data) - 4096, 1) if at + len(data) < hole else len(data)


def written(daemon, *needles):
    """Files of the state folder, and the log, that have any of these bytes."""
    found = []
    files = [os.path.join(folder, name) for folder, _, names in os.walk(daemon.state) for name in names]
    for path in [*files, daemon.log]:
        try:
            if os.path.isfile(path) and any(needle in data for data in pieces(path) for needle in needles):
                found.append(str(path))
        except OSError:
            pass  # it went meanwhile
    return found


def nowhere(daemon, *values):
    found = written(daemon, *(form for value in values or (VALUE, SECOND) for form in forms(value)))
    assert not found, found


def rows(daemon, sandbox=None):
    """{(sandbox, name): sealed} as the store has them."""
    db = sqlite3.connect(f"file:{daemon.state}/operator/store.db?mode=ro", uri=True, timeout=10)
    try:
        found = {(s, n): sealed for s, n, sealed in db.execute("SELECT sandbox, name, sealed FROM secret")}
    finally:
        db.close()
    return {key: sealed for key, sealed in found.items() if sandbox in (None, key[0])}


def change(daemon, sql, *values):
    """The store of a daemon that does not run."""
    db = sqlite3.connect(f"{daemon.state}/operator/store.db", timeout=10)
    try:
        with db:
            assert db.execute(sql, values).rowcount > 0, sql
    finally:
        db.close()


def make(client, name, secrets=None):
    return client.create(profile_text=PROFILE, name=name, secrets=secrets or BOTH)["id"]


def missing(client, box):
    return client.show(sandbox=box)["secrets_missing"]
