"""Disks: made, used, copied, packed; never by two at once."""
import errno
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time

import plans
import pytest
import wire
from daemon import new_id, until
from test_life import refused

HOME = "/home/agent"
SIZE, INODES = 64 << 20, 4096


@pytest.fixture(scope="session")
def with_disk(medium):
    return plans.with_disk(medium, HOME, SIZE, INODES)


def make_disk(d, size=SIZE, inodes=INODES):
    id = new_id()
    d.ask("disk-make", id=id, size=size, inodes=inodes, owner=1)
    return id


def write(d, plan, disk, script, inside, layers=(), image=""):
    """Runs a script in a sandbox on this disk; its output."""
    id, _, guest, _ = d.begin(plan, disk=disk, layers=list(layers), image=image)
    said, code = inside(guest).output(script, cwd=HOME)
    d.stop(id)
    assert code == 0, said
    return said


def disks(d):
    return {m.id: m.flags for m in d.list() if m.item == wire.DISK}


def test_a_disk_keeps_what_was_written(warden, with_disk, inside):
    disk = make_disk(warden)
    assert disks(warden) == {disk: 0}
    write(warden, with_disk, disk, "echo kept >file; mkdir d; id -u; ls -ld .", inside)
    assert write(warden, with_disk, disk, "cat file; stat -c %u file", inside).split() == ["kept", "1000"]
    numbers = warden.ask("disk-space", id=disk)[0].numbers
    assert numbers[0] > 0 and numbers[1] >= SIZE * 0.9 and numbers[3] >= INODES
    warden.ask("disk-drop", id=disk)
    warden.ask("disk-drop", id=disk)
    assert disks(warden) == {}


def test_quota(warden, with_disk, inside):
    disk = make_disk(warden)
    said = write(warden, with_disk, disk,
                 "dd if=/dev/zero of=big bs=1M count=200 2>&1 | tail -1; rm big; "
                 "seq -f f%g 6000 | xargs -n 500 touch 2>/dev/null; echo; ls | wc -l; true", inside)
    assert 3000 < int(said.split()[-1]) <= INODES, said


def test_in_use(make, with_disk, inside):
    d = make()
    d.start()
    disk = make_disk(d)
    id, _, guest, _ = d.begin(with_disk, disk=disk)
    inside(guest).output("echo 1 >a", cwd=HOME)
    for _ in range(2):
        assert disks(d) == {disk: wire.IN_USE}
        refused(lambda: d.ask("disk-drop", id=disk), -errno.EBUSY, disk)
        refused(lambda: d.begin(with_disk, disk=disk), -errno.EBUSY, disk)
        other = make_disk(d)
        refused(lambda: d.begin(with_disk, disk=other, layers=[disk]), -errno.EBUSY, disk)  # pylint: disable=W0640
        refused(lambda: d.ask("disk-clone", id=disk, target=new_id()), -errno.EBUSY)
        d.ask("disk-drop", id=other)
        d.kill()  # a successor knows as much
        d.start()
    d.stop(id)
    d.ask("disk-drop", id=disk)


def test_layers_and_clones(warden, with_disk, inside):
    first = make_disk(warden)
    write(warden, with_disk, first, "echo base >a; echo base >b", inside)
    top, other = make_disk(warden), make_disk(warden)
    write(warden, with_disk, top, "echo changed >a; rm b; echo new >c", inside, layers=[first])
    assert write(warden, with_disk, other, "cat a b", inside, layers=[first]) == "base\nbase\n"
    assert write(warden, with_disk, other, "ls; cat a", inside, layers=[first]).split() == ["a", "b", "base"]
    refused(lambda: warden.begin(with_disk, disk=other, layers=[first, first]), -1001, "twice")
    copy = new_id()
    warden.ask("disk-clone", id=top, target=copy)
    assert write(warden, with_disk, copy, "cat a; ls", inside, layers=[first]).split() == ["changed", "a", "c"]
    id, _, guest, _ = warden.begin(with_disk, disk=top, layers=[first])
    assert disks(warden)[first] == wire.IN_USE | wire.READONLY
    refused(lambda: warden.ask("disk-drop", id=first), -errno.EBUSY)
    c = inside(guest)
    c.output("echo live >d", cwd=HOME)
    warden.ask("freeze", id=id)
    frozen = new_id()
    warden.ask("disk-clone", wire.FROZEN, id=top, target=frozen)
    warden.ask("thaw", id=id)
    warden.stop(id, wire.ABANDON)
    assert write(warden, with_disk, frozen, "cat d", inside, layers=[first]) == "live\n"


def test_sizes(warden, low):
    refused(lambda: make_disk(warden, size=1 << 50), -1001, "ceiling")
    refused(lambda: make_disk(warden, inodes=1 << 40), -1001, "ceiling")
    refused(lambda: make_disk(warden, size=0), -1001)
    refused(lambda: warden.begin(low, disk=make_disk(warden)), -1001, "does not have")
    id = make_disk(warden)
    refused(lambda: warden.ask("disk-make", id=id, size=SIZE, inodes=INODES), -errno.EEXIST)
    refused(lambda: warden.ask("disk-space", id=new_id()), -errno.ENOENT)
    refused(lambda: warden.ask("disk-clone", id=new_id(), target=new_id()), -errno.ENOENT)


def test_a_plan_with_a_disk_needs_one(warden, with_disk):
    refused(lambda: warden.begin(with_disk), -1001, "none is named")
    refused(lambda: warden.begin(with_disk, disk=new_id()), -errno.ENODATA)
    refused(lambda: warden.begin(with_disk, disk=make_disk(warden), image=new_id()), -1001, "image")


def test_the_pool(warden):
    warden.ask("pool", size=SIZE, inodes=INODES, numbers_0=3)
    for _ in range(4):
        make_disk(warden)
    assert len(disks(warden)) == 4


def pump(d, kind, source=None, **values):
    """A request with a pipe; returns (answer, what came out)."""
    r, w = os.pipe()
    if source is None:
        got = []
        serial = d.send(kind, fds=[w], **values)
        os.close(w)
        reader = threading.Thread(target=lambda: got.append(os.fdopen(r, "rb").read()))
        reader.start()
        answer, _ = d.answer(serial)
        reader.join(60)
        return answer, got[0]
    serial = d.send(kind, fds=[r], **values)
    os.close(r)

    def feed():
        with os.fdopen(w, "wb") as out:
            try:
                out.write(source)
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        return d.answer(serial)[0], None
    finally:
        writer.join(60)


def test_diff_export_import_flatten(warden, with_disk, inside):
    first, second = make_disk(warden), make_disk(warden)
    write(warden, with_disk, first, "echo 1 >same; echo 1 >changed; echo 1 >removed", inside)
    write(warden, with_disk, second, "echo 22 >changed; rm removed; echo 3 >added", inside, layers=[first])
    _, out = pump(warden, "diff", split=1, layers=[first, second, first])
    changes = {(c["change"], c["path"].strip("/")) for c in map(json.loads, out.decode().splitlines())}
    assert {("changed", "changed"), ("removed", "removed"), ("added", "added")} <= changes, changes
    assert not [c for c in changes if c[1] == "same"]
    _, out = pump(warden, "diff", split=0, layers=[first])
    assert {json.loads(line)["change"] for line in out.decode().splitlines()} <= {"added", "changed"}

    answer, packed = pump(warden, "export", layers=[second, first])
    assert answer.numbers[1] >= 3 and packed[:4] == b"\x28\xb5\x2f\xfd"
    if shutil.which("zstd"):
        names = tarfile.open(fileobj=io.BytesIO(subprocess.run(["zstd", "-dc"], input=packed, check=True,
                                                               stdout=subprocess.PIPE).stdout)).getnames()
        assert {n.lstrip("./") for n in names} >= {"same", "changed", "added"}

    third = new_id()
    pump(warden, "import", packed, id=third, size=SIZE, inodes=INODES)
    assert write(warden, with_disk, third, "cat same changed added; stat -c %u same", inside).split() == [
        "1", "22", "3", "1000"]

    flat = new_id()
    warden.ask("flatten", target=flat, size=SIZE, inodes=INODES, layers=[second, first])
    assert write(warden, with_disk, flat, "ls; cat changed", inside).split() == ["added", "changed", "same", "22"]


def read(d, question, **values):
    """(answer, bytes) to a question about what layers show."""
    (r, w), (ours, theirs), got = os.pipe(), os.pipe(), []
    os.write(w, question)
    os.close(w)
    serial = d.send("read", fds=[r, theirs], **values)
    os.close(r)
    os.close(theirs)
    reader = threading.Thread(target=lambda: got.append(os.fdopen(ours, "rb").read()))
    reader.start()
    try:
        return d.answer(serial)[0], reader.join(60) or got[0]
    finally:
        reader.join(60)


def test_read(warden, with_disk, inside):
    """One entry of what layers show. Questions that make no sense get no answer, and nothing outside is reached."""
    first, second = make_disk(warden), make_disk(warden)
    write(warden, with_disk, first, "mkdir d; echo old >d/f; ln -s /etc out; ln -s d way", inside)
    write(warden, with_disk, second, "echo new >d/f; echo x >g", inside, layers=[first])
    both = [second, first]
    assert read(warden, b"read 0 0 100\nd/f", layers=both)[1] == b"new\n"
    assert read(warden, b"read 0 0 100\nd/f", layers=[first])[1] == b"old\n"
    assert read(warden, b"read 5 1 2\n/home/d/f", layers=[first])[1] == b"ld"
    entries = [json.loads(line) for line in read(warden, b"list 0\n/", layers=both)[1].splitlines()]
    assert {"d", "g", "out", "way"} <= {e["name"] for e in entries}
    assert json.loads(read(warden, b"stat 0\nout", layers=both)[1])["target"] == "/etc"
    for path, error in ((b"none", -errno.ENOENT), (b"out", -errno.ELOOP), (b"out/passwd", -errno.ELOOP), (b"way/f", -errno.ELOOP),
                        (b"d", -errno.EISDIR), (b"../../etc/passwd", None), (b"d/../../x", None), (b"//etc/passwd", None)):
        refused(lambda: read(warden, b"read 0 0 100\n" + path, layers=both), error)
    for question in (b"", b"\n", b"read", b"read 0 0\nd/f", b"stat x\nd", b"stat 9\nd", b"write 0\nd", b"list 0\nd\0x", b"stat 0\n" + b"x" * 9000):
        refused(lambda: read(warden, question, layers=both), None)
    folder, (r, w) = os.open("/", os.O_RDONLY), os.pipe()
    refused(lambda: warden.ask("read", fds=[folder, w], layers=both), -1001, "stream")
    refused(lambda: warden.ask("read", fds=[r, folder], layers=both), -1001, "stream")
    for fd in (folder, r, w):
        os.close(fd)


def test_a_bad_archive_leaves_nothing(warden):
    id = new_id()
    refused(lambda: pump(warden, "import", b"this is no archive" * 100, id=id, size=SIZE, inodes=INODES), None)
    assert disks(warden) == {}
    refused(lambda: pump(warden, "image", b"nor is this" * 100, id=id, size=SIZE, inodes=INODES, text="x"), None)
    assert [m for m in warden.list() if m.item == wire.IMAGE] == []
    folder = os.open("/", os.O_RDONLY)
    refused(lambda: warden.ask("import", fds=[folder], id=id, size=SIZE, inodes=INODES), -1001, "stream")
    os.close(folder)


def archive(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if content is None:
                info.type = tarfile.DIRTYPE
                t.addfile(info)
            else:
                info.size = len(content)
                t.addfile(info, io.BytesIO(content))
    return out.getvalue()


def small_image():
    """A tree with a shell and what the shell needs."""
    needed = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", "/bin/dash"], check=True, text=True,
                                                       stdout=subprocess.PIPE).stdout)
    folders = sorted({str(p) for n in needed for p in pathlib.PurePath(n[1:]).parents if str(p) != "."} | {"bin", "etc"})
    files = [(n[1:], pathlib.Path(n).read_bytes()) for n in needed]
    return archive(*((f, None) for f in folders), ("bin/sh", pathlib.Path("/bin/dash").read_bytes()),
                   ("etc/hello", b"from it\n"), *files)


def image_plan():
    """The disk over an image is the root."""
    p = plans.compile_plan(profile="medium")
    keep = []
    for s in p.steps:
        if s.op == "OP_ROOT_TMPFS":
            keep.append(plans.Step("OP_ROOT_DISK", 0, SIZE, INODES))
            keep += [plans.Step("OP_TMPFS", plans.STEP_NOEXEC, "/dev", 4 << 20, 64, 0o755),
                     plans.Step("OP_TMPFS", 0, "/run", 4 << 20, 64, 0o755)]
        elif s.op in ("OP_FILE", "OP_COPY", "OP_LIKE_HOST") or (s.op == "OP_BIND" and s.values[0].startswith(
                ("/etc", "/usr")) and s.values[1] != "/run/stockade/guest") or (
                s.op == "OP_LINK" and s.values[0].startswith("/etc")) or (s.op == "OP_READONLY"):
            continue
        else:
            keep.append(s)
    p.steps = keep
    for s in p.steps:
        if s.op == "OP_LANDLOCK_RULE" and s.values[0] == "/":
            s.values[1] = (1 << 16) - 1
    return p


def test_images(warden, inside):
    image = new_id()
    answer, _ = pump(warden, "image", small_image(), id=image, size=SIZE, inodes=INODES, text="test.tar")
    assert answer.numbers[1] >= 5
    assert [(m.id, m.flags) for m in warden.list() if m.item == wire.IMAGE] == [(image, 0)]
    p = image_plan()
    disk = make_disk(warden)
    id, _, guest, _ = warden.begin(p, disk=disk, image=image)
    refused(lambda: warden.ask("image-drop", id=image), -errno.EBUSY, image)
    c = inside(guest)
    said, _ = c.output("read x </etc/hello; echo $x; echo new >/home/agent/new; read y </home/agent/new; echo $y; id")
    assert said.startswith("from it\nnew\n"), said
    warden.stop(id)
    other = make_disk(warden)
    id, _, guest, _ = warden.begin(p, disk=other, image=image)
    assert "from it" in inside(guest).output("read x </etc/hello; echo $x")[0]  # the image itself is as it was
    warden.stop(id)
    warden.ask("image-drop", id=image)


def test_a_disk_that_is_written_is_not_copied(warden, with_disk, inside):
    """Who asks says that its sandbox is frozen; the warden looks. It stays so for as long as the copy takes."""
    disk = make_disk(warden)
    id, _, guest, _ = warden.begin(with_disk, disk=disk)
    assert inside(guest).output("head -c 30m /dev/urandom >big; sync big", cwd=HOME)[1] == 0
    refused(lambda: warden.ask("disk-clone", wire.FROZEN, id=disk, target=new_id()), -errno.EBUSY, "not frozen")
    refused(lambda: warden.ask("disk-clone", id=disk, target=new_id()), -errno.EBUSY, "not frozen")
    warden.ask("freeze", id=id)
    copies = [new_id() for _ in range(8)]
    asked = [warden.send("disk-clone", wire.FROZEN, id=disk, target=c) for c in copies]
    refused(lambda: warden.ask("thaw", id=id), -errno.EBUSY, "copied")
    refused(lambda: warden.ask("disk-clone", id=copies[7], target=new_id()), -errno.EBUSY, "being made")
    refused(lambda: warden.begin(with_disk, disk=copies[7]), -errno.EBUSY, copies[7])
    refused(lambda: warden.ask("disk-make", id=copies[7], size=SIZE, inodes=INODES, owner=1), -errno.EEXIST)
    for serial in asked:
        warden.answer(serial)
    refused(lambda: warden.ask("disk-clone", wire.FROZEN, id=disk, target=copies[0]), -errno.EEXIST)
    warden.ask("thaw", id=id)
    warden.ask("freeze", id=id)
    lost = [new_id() for _ in range(8)]
    asked = [warden.send("disk-clone", wire.FROZEN, id=disk, target=c) for c in lost]
    warden.stop(id)  # what they copy changes now: none of them is whole
    for serial in asked:
        refused(lambda serial=serial: warden.answer(serial), -errno.ECANCELED)
    assert set(disks(warden)) == {disk, *copies}
    until(lambda: {p.name for p in (warden.folder / "disks").iterdir()} == {disk, *copies})
    asked = [warden.send("disk-clone", id=disk, target=new_id()) for _ in range(2)]  # of a disk that nobody has
    refused(lambda: warden.begin(with_disk, disk=disk), -errno.EBUSY, disk)
    for serial in asked:
        warden.answer(serial)
    assert "30M" in write(warden, with_disk, copies[3], "ls -lh big", inside)


def test_a_copy_ends_with_who_asked(make, with_disk, inside):
    """Its successor can let the sandbox go on at once."""
    d = make()
    d.start()
    disk = make_disk(d)
    id, _, guest, _ = d.begin(with_disk, disk=disk)
    assert inside(guest).output("head -c 40m /dev/urandom >big; sync big", cwd=HOME)[1] == 0
    d.ask("freeze", id=id)
    for _ in range(8):
        d.send("disk-clone", wire.FROZEN, id=disk, target=new_id())
    os.kill(d.operator, signal.SIGKILL)
    d.link.close()
    d.connect()
    d.hello()
    d.ask("thaw", id=id)
    guest = socket.socket(fileno=d.ask("connect", id=id)[1][0])
    assert inside(guest).output("echo on", number=9)[0] == "on\n"
    d.stop(id)


def test_who_does_not_read_holds_nobody_up(warden, with_disk, inside):
    """As many exports as there are slots, and more, whose readers sleep: copies, blank disks and new sizes go on."""
    disk = make_disk(warden)
    write(warden, with_disk, disk, "head -c 2m /dev/urandom >data", inside)
    pipes = [os.pipe() for _ in range(6)]
    asked = []
    for _, w in pipes:
        asked.append(warden.send("export", fds=[w], layers=[disk]))
        os.close(w)
    copy = new_id()
    warden.ask("disk-clone", id=disk, target=copy)
    warden.ask("pool", size=SIZE, inodes=INODES, numbers_0=2)
    make_disk(warden, SIZE + (3 << 20), INODES + 7)
    warden.ask("disk-drop", id=copy)
    for r, _ in pipes:
        threading.Thread(target=lambda r=r: shutil.copyfileobj(open(r, "rb"), open(os.devnull, "wb"))).start()
    for serial in asked:
        assert warden.answer(serial)[0].numbers[0] >= 2 << 20


def test_a_new_size_is_made_aside(warden):
    """mke2fs takes its time; who asks for something else meanwhile does not wait for it."""
    asked = [warden.send("disk-make", id=new_id(), size=(1 << 30) + (i << 20), inodes=10000 + i, owner=1)
             for i in range(4)]
    began = time.monotonic()
    warden.ask("list")
    took = time.monotonic() - began
    for serial in asked:
        warden.answer(serial)
    assert took < max(0.05, (time.monotonic() - began) / 2), took
    assert len(disks(warden)) == 4


def test_a_disk_is_free_when_its_sandbox_is(warden, with_disk, inside):
    disk = make_disk(warden)
    for i in range(4):
        id, _, guest, _ = warden.begin(with_disk, disk=disk)
        assert inside(guest).output(f"head -c 20m /dev/urandom >big{i % 2}", cwd=HOME)[1] == 0
        warden.stop(id)


def options_of(disk):
    """How the kernel has it mounted."""
    for p in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if disk in p.read_text():
                return pathlib.Path(f"/proc/fs/ext4/{p.parts[3]}/options").read_text().split()
        except OSError:
            pass
    return []


def test_order_comes_soon(warden, with_disk):
    """From then on what a program has put on its disk is on the host's."""
    disk = make_disk(warden)
    id, _, _, _ = warden.begin(with_disk, disk=disk)
    assert "nobarrier" in options_of(disk)
    until(lambda: "nobarrier" not in options_of(disk))
    warden.stop(id)
