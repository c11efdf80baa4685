"""Children of the warden that pack and copy have none of its locks: whoever comes after it need not wait for them."""
import os
import pathlib

import pytest
from daemon import Refused, until
from test_disks import make_disk, with_disk, write  # pylint: disable=unused-import


def workers(d):
    """Children that are at work: those that wait for orders about new disks (warm.c) are not meant."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "stat").read_text().rsplit(")", 1)[1].split()[1] == str(d.process.pid) \
               and (entry / "comm").read_text().strip() == "stockaded-work":
                found.append(entry)
        except OSError:
            pass
    return found


def files_of(process):
    found = []
    for fd in (process / "fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except OSError:
            pass
    return found


def test_nobody_else_has_the_locks(warden, with_disk, inside):
    disk = make_disk(warden)
    write(warden, with_disk, disk, "head -c 4000000 /dev/urandom >f", inside)
    before = {p.name for p in workers(warden)}
    reader, writer = os.pipe()  # that nobody reads: the child stays
    serial = warden.send("export", fds=[writer], layers=[disk])
    os.close(writer)
    try:
        until(lambda: [p for p in workers(warden) if p.name not in before])
        locks = {str(warden.folder / "run/lock"), str(warden.folder / "operator")}
        assert locks <= set(files_of(pathlib.Path(f"/proc/{warden.process.pid}")))

        def are_free():
            new = [p for p in workers(warden) if p.name not in before]
            assert new, "it ended"
            return not any(locks & set(files_of(p)) for p in new)
        until(are_free)
    finally:
        os.close(reader)
    with pytest.raises(Refused):
        warden.answer(serial)
    warden.drop(disk)
