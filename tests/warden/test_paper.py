"""Papers about the host. A captured operator may ask for them as often as it likes, and gets bytes that it may read: no
file of the host's choosing or its own, no process that it can steer, and never more than one of a kind at a time."""
import errno
import fcntl
import json
import os
import pathlib
import shutil
import struct
import threading

import own_state
import plans
import pytest
import wire
from daemon import Refused, alive, until
from test_captured import REFUSED, raw
from test_disks import make_disk, with_disk, write  # noqa: F401  pylint: disable=unused-import
from test_life import refused

DOCTOR, VERIFY, PAGE, DRIVERS = range(4)
LIMIT, CORRUPT = -1005, -1004
MOST = 4 << 20
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@pytest.fixture
def begin(make):
    """begin(script): a warden with a host's state folder of its own, where `stockade` is this script, or the real one."""
    def one(script=None, conf=""):
        d = make(conf=conf)
        if script:
            bin = d.state / "bin"
            bin.mkdir()
            for name, place in (("stockaded", "warden"), ("stockade-guest", "guest"), ("stockade-pack", "pack")):
                found = [p for p in (pathlib.Path(plans.BUILD) / "src" / place / name, pathlib.Path(plans.BUILD) / "src/cli" / name) if p.exists()]
                shutil.copy(found[0], bin / name)
            (bin / "stockade").write_text(f"#!/bin/sh\n{script}\n")
            (bin / "stockade").chmod(0o755)
            d.program = str(bin / "stockaded")
        d.kept = d.state / "lib/stockade/verify"
        d.program = str(own_state.through(d.state / "lib", d.program, "daemon"))
        d.start()
        d.kept.mkdir(parents=True, mode=0o700)
        return d
    return one


def leave(d, name, data):
    at = d.kept / name
    at.unlink(missing_ok=True)
    at.write_bytes(data)
    at.chmod(0o600)
    return at


def content(answer, fds):
    """What came, which is all that came."""
    assert len(fds) == 1 and os.fstat(fds[0]).st_size == answer.numbers[0] and fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) == SEALS
    data = os.pread(fds[0], MOST + 1, 0)
    wire.close(fds)
    return data


def children(d):
    """Whoever works for this warden, and for them."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(pid)] = int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = {d.process.pid}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found - {d.process.pid}


def cgroups_of(pids):
    """Those that were made for sandboxes."""
    found = set()
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            continue
        for _, controllers, path in (line.split(":", 2) for line in lines):
            at = [root / path.lstrip("/") for root in (pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup") / (controllers or "unified"))]
            found |= {p for p in at if p.name.startswith("stockade-") and p.exists()}
    return found


def test_doctor(begin):
    d = begin()
    said = json.loads(content(*d.ask("paper", paper=DOCTOR)))
    assert said["low"] is True and said["uid"] == 0 and len(said["facts"]) > 20


def test_reports(begin):
    d = begin()
    for paper in (VERIFY, PAGE):
        assert "run 'stockade verify'" in refused(lambda: d.ask("paper", paper=paper), -errno.ENOENT).hint
    for paper, name in ((VERIFY, "latest.json"), (PAGE, "latest.html")):
        for data in (b"{}", bytes(range(256)) * 4096, b"x" * MOST):  # whatever it is: nobody here reads it
            leave(d, name, data)
            assert content(*d.ask("paper", paper=paper)) == data
        leave(d, name, b"x" * (MOST + 1))
        refused(lambda: d.ask("paper", paper=paper), LIMIT, "bytes")


def test_it_cannot_be_changed(begin):
    """Not by the one who has it, not before anybody else reads it."""
    d = begin()
    leave(d, "latest.json", b"{}")
    _, fds = d.ask("paper", paper=VERIFY)
    for change in (lambda: os.pwrite(fds[0], b"x", 0), lambda: os.ftruncate(fds[0], 0), lambda: os.ftruncate(fds[0], 9),
                   lambda: fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)):
        with pytest.raises(OSError) as e:
            change()
        assert e.value.errno == errno.EPERM
    assert os.readlink(f"/proc/self/fd/{fds[0]}").startswith("/memfd:")  # no file of the host's
    wire.close(fds)


@pytest.mark.parametrize("how", ["link", "pipe", "device", "folder", "others'", "anybody's", "link to a folder"])
def test_no_other_file(begin, how):
    """Whoever could put something there was root; it is not followed all the same."""
    d = begin()
    at = d.kept / "latest.json"
    {"link": lambda: at.symlink_to("/etc/shadow"), "pipe": lambda: os.mkfifo(at, 0o600), "folder": at.mkdir,
     "device": lambda: os.mknod(at, 0o20600, os.makedev(1, 5)), "others'": lambda: os.chown(leave(d, at.name, b"{}"), 65534, 65534),
     "anybody's": lambda: os.chmod(leave(d, at.name, b"{}"), 0o622),
     "link to a folder": lambda: (leave(d, at.name, b"{}"), d.kept.rename(f"{d.kept}2"), d.kept.symlink_to("verify2"))}[how]()
    assert refused(lambda: d.ask("paper", paper=VERIFY), REFUSED).hint


def test_only_a_number(begin):
    """Neither a descriptor nor a path nor a flag of the operator's has any part in it."""
    d = begin()
    null = os.open("/dev/null", os.O_RDWR)
    for data, fds in ((wire.pack("paper", 77, paper=4), ()), (wire.pack("paper", 77, paper=(1 << 32) - 1), ()), (wire.pack("paper", 77, flags=1), ()),
                      (wire.pack("paper", 77), [null]), (wire.pack("paper", 77) + wire.text("/etc/shadow"), ()), (struct.pack("<III", wire.KINDS["paper"], 77, 0), ())):
        raw(d, data, fds)
        refused(lambda: d.answer(77), -errno.EBADMSG)
    os.close(null)
    assert not children(d) - {d.operator}


def test_drivers(begin):
    """Those that are declared and not native, in their order; whatever a probe does, the others are heard."""
    assert json.loads(content(*begin().ask("paper", paper=DRIVERS))) == {"drivers": []}
    d = begin("exit 1", conf="drivers = microvm native gvisor docker\n")
    for name, script in (("gvisor", "echo '{\"driver\": \"gvisor\"}'; echo \"$@\" >&2"), ("docker", "head -c 100000 /dev/zero")):
        path = pathlib.Path(d.state / "bin" / f"stockade-box-{name}")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    said = json.loads(content(*d.ask("paper", paper=DRIVERS)))["drivers"]
    assert [one["driver"] for one in said] == ["microvm", "gvisor", "docker"]
    assert "not installed" in said[0]["why"] and said[1] == {"driver": "gvisor"} and said[2]["why"] == "its probe failed"


def test_what_the_doctor_is_started_with(begin):
    """Fixed words, three streams, the root folder: nothing that the warden has, and nothing that the operator chose."""
    d = begin('echo "$@"; pwd; ls -l /proc/self/fd | grep -o "[0-9]* -> .*" | grep -v "/proc/"')
    args, cwd, *fds = content(*d.ask("paper", paper=DOCTOR)).decode().splitlines()
    assert args == "doctor --json" and cwd == "/"
    assert [f.split()[0] for f in fds] == ["0", "1", "2"] and fds[0].endswith("/dev/null") and "pipe:" in fds[1], fds


def test_one_doctor_at_a_time(begin):
    """A flood of requests is a flood of refusals; and the descriptors of the warden stay as many as they were."""
    d = begin('echo $$ >>"${0%/*}/pids"; while [ ! -e "${0%/*}/go" ]; do sleep 0.05; done; echo well')
    pids = d.state / "bin/pids"
    first = d.send("paper", paper=DOCTOR)
    until(lambda: pids.exists() and pids.read_text().strip())
    before = len(os.listdir(f"/proc/{d.process.pid}/fd"))
    for _ in range(300):
        refused(lambda: d.ask("paper", paper=DOCTOR), -errno.EBUSY)
    leave(d, "latest.json", b"{}")
    for _ in range(50):  # he is in nobody's way
        assert content(*d.ask("paper", paper=VERIFY)) == b"{}"
    until(lambda: len(os.listdir(f"/proc/{d.process.pid}/fd")) == before)
    (d.state / "bin/go").touch()
    assert content(*d.answer(first)) == b"well\n" and len(pids.read_text().split()) == 1


def test_a_flood_that_is_not_read(begin):
    """Answers with descriptors that nobody takes: they wait, and so does he who asks."""
    d = begin()
    leave(d, "latest.json", b"x" * 1000)
    asked = [d.send("paper", paper=VERIFY) for _ in range(200)]
    got = 0
    for serial in asked:
        try:
            assert content(*d.answer(serial)) == b"x" * 1000
            got += 1
        except Refused as e:
            assert e.error == -errno.EBUSY, e
    assert got >= 1
    until(lambda: not children(d) - {d.operator})


@pytest.mark.parametrize("script, code, word", [("cat /dev/zero", LIMIT, "bytes"), ("true", CORRUPT, "failed"), ("echo x; exit 2", CORRUPT, "failed"),
                                                ("echo x; kill -9 $$", CORRUPT, "failed"), ("exec /nowhere", CORRUPT, "failed")])
def test_doctors_that_fail(begin, script, code, word):
    d = begin(script)
    assert refused(lambda: d.ask("paper", paper=DOCTOR), code, word).hint
    until(lambda: not children(d) - {d.operator})


def test_papers_while_all_are_busy(begin, with_disk, inside):  # noqa: F811
    """Every slot for long work has somebody who waits for a reader that sleeps: papers come all the same."""
    d = begin()
    leave(d, "latest.json", b"{}")
    disk = make_disk(d)
    write(d, with_disk, disk, "head -c 2m /dev/urandom >data", inside)
    pipes = [os.pipe() for _ in range(6)]
    asked = []
    for _, w in pipes:
        asked.append(d.send("export", fds=[w], layers=[disk]))
        os.close(w)
    assert content(*d.ask("paper", paper=VERIFY)) == b"{}"
    assert json.loads(content(*d.ask("paper", paper=DOCTOR)))["low"] is True
    for r, _ in pipes:
        threading.Thread(target=lambda r=r: shutil.copyfileobj(open(r, "rb"), open(os.devnull, "wb"))).start()
    for serial in asked:
        d.answer(serial)


def test_the_real_doctor_is_cleared_away(begin):
    """Whoever wanted to hear him is gone in the middle: nothing of what he tried stays."""
    d = begin()
    d.send("paper", paper=DOCTOR)
    until(lambda: cgroups_of(children(d)))  # the sandbox of his self-test
    theirs = children(d) - {d.operator}
    made = cgroups_of(theirs)
    d.let_go()  # the operator is lost, and another is started
    d.connect()
    d.hello()
    until(lambda: not any(alive(p) for p in theirs) and not any(path.exists() for path in made))
    assert json.loads(content(*d.ask("paper", paper=DOCTOR)))["low"] is True
