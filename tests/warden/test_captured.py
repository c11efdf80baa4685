"""A captured operator: it has the warden's socket and all of its own cleverness, and wants to be root. Everything that it
tries is refused with a word about why, and the warden goes on."""
import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import threading
import time

import pytest
import wire
from daemon import Daemon, Refused, alive, cgroups, memory_file, new_id, until
from plans import STEP_DEVICE, STEP_EXACT, STEP_OWNED, STEP_WRITE, Step
from test_life import refused

REFUSED, CORRUPT, LIMIT = -1001, -1004, -1005
ALLOW_ALL = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
RLIMIT_CORE = 4
OPERATOR = 0x68000000  # the uid that it has on a host


def bind(source, target="/mnt", flags=0):
    return Step("OP_BIND", flags, source, target)


def moved(plan, op, behind):
    """The same steps with one of them moved behind the first of another kind."""
    p = plan.copy()
    step = p.steps.pop(p.index(op))
    p.steps.insert(p.index(behind) + 1, step)
    return p


def changed(plan, op, index, value, *having):
    p = plan.copy()
    p.find(op, *having).values[index] = value
    return p


def flagged(plan, op, flags, *having):
    p = plan.copy()
    p.find(op, *having).flags |= flags
    return p


PLANS = {
    # files of the host
    "shadow": lambda p: p.behind_root(bind("/etc/shadow")),
    "shadow owned": lambda p: p.behind_root(bind("/etc/shadow", flags=STEP_WRITE | STEP_OWNED | STEP_EXACT)),
    "root": lambda p: p.behind_root(bind("/")),
    "root folder": lambda p: p.behind_root(bind("/root")),
    "writable usr": lambda p: p.behind_root(bind("/usr", flags=STEP_WRITE)),
    "writable usr, properly": lambda p: p.behind_root(bind("/usr", flags=STEP_WRITE | STEP_OWNED | STEP_EXACT)),
    "owned usr": lambda p: p.behind_root(bind("/usr", flags=STEP_OWNED)),
    "etc": lambda p: p.behind_root(bind("/etc")),
    "a name that begins like one": lambda p: p.behind_root(bind("/usr2")),
    "proc": lambda p: p.behind_root(bind("/proc")),
    "sys": lambda p: p.behind_root(bind("/sys")),
    "cgroups": lambda p: p.behind_root(bind("/sys/fs/cgroup")),
    "var": lambda p: p.behind_root(bind("/var/lib")),
    "copy": lambda p: p.behind_root(Step("OP_COPY", 0, "/etc/shadow")),
    "like host": lambda p: p.behind_root(Step("OP_LIKE_HOST", 0, "/root")),
    "many copies": lambda p: p.behind_root(*[Step("OP_COPY", 0, f"/usr/x{i}") for i in range(40)]),
    "program": lambda p: p.behind_root(Step("OP_PROGRAM", 0, "/root/x")),
    "overlay": lambda p: p.behind_root(Step("OP_OVERLAY", STEP_EXACT | STEP_OWNED, "/etc", "/mnt", 1 << 20, 100)),
    "whole tree": lambda p: changed_root(p, "OP_ROOT_OVERLAY", "/", 1 << 24, 1000),
    "another tree": lambda p: changed_root(p, "OP_ROOT_OVERLAY", "/etc", 1 << 24, 1000),
    "bound root": lambda p: changed_root(p, "OP_ROOT_BIND", "/"),
    # devices
    "disk device": lambda p: p.behind_root(bind("/dev/vda", "/dev/vda", STEP_DEVICE)),
    "memory device": lambda p: p.behind_root(bind("/dev/mem", "/dev/null2", STEP_DEVICE)),
    "kmsg": lambda p: p.behind_root(bind("/dev/kmsg", "/dev/kmsg", STEP_DEVICE)),
    "writable device": lambda p: flagged(p, "OP_BIND", STEP_WRITE, "/dev/null"),
    "devices as files": lambda p: p.behind_root(bind("/dev")),
    # who it is
    "uid 0": lambda p: changed(changed(p, "OP_USER", 0, 0), "OP_IDS", 0, 0),
    "gid 0": lambda p: changed(changed(p, "OP_USER", 1, 0), "OP_IDS", 1, 0),
    "another uid": lambda p: changed(p, "OP_IDS", 0, 1001),
    "uid 0 in the end": lambda p: changed(p, "OP_IDS", 0, 0),
    "an id of the host": lambda p: changed(changed(p, "OP_USER", 0, 65536), "OP_IDS", 0, 65536),
    "a huge id": lambda p: changed(changed(p, "OP_USER", 0, (1 << 32) + 1000), "OP_IDS", 0, (1 << 32) + 1000),
    # steps that are not there
    **{f"no {op}": (lambda p, op=op: p.without(op)) for op in (
        "OP_USER", "OP_PIVOT", "OP_SESSION", "OP_IDS", "OP_CAPS", "OP_NO_NEW_PRIVS", "OP_SECCOMP", "OP_EXEC", "OP_PROC",
        "OP_DEVPTS", "OP_NO_NESTING", "OP_LOOPBACK", "OP_READONLY", "OP_HOSTNAME", "OP_CWD", "OP_RLIMIT", "OP_ROOT_TMPFS")},
    "no landlock": lambda p: p.without("OP_LANDLOCK").without("OP_LANDLOCK_RULE").without("OP_LANDLOCK_END"),
    "no end of landlock": lambda p: p.without("OP_LANDLOCK_END"),
    "landlock that handles nothing": lambda p: changed(p, "OP_LANDLOCK", 0, 0),
    "a mask less": lambda p: p.without("OP_MASK", "/proc/kallsyms"),
    "masks before proc": lambda p: masks_first(p),
    "proc elsewhere": lambda p: changed(p, "OP_PROC", 0, "/proc2"),
    "no memory limit": lambda p: p.without("OP_LIMIT", "limits.memory"),
    "no cpu limit": lambda p: p.without("OP_LIMIT", "limits.cpus"),
    "no process limit": lambda p: p.without("OP_LIMIT", "limits.processes"),
    "accepts no memory limit": lambda p: p.before("OP_ENV", Step("OP_ACCEPT", 0, "limits.memory")),
    "accepts no landlock": lambda p: p.before("OP_ENV", Step("OP_ACCEPT", 0, "landlock")),
    "core files": lambda p: changed(p, "OP_RLIMIT", 1, 1 << 30, RLIMIT_CORE),
    # order
    "seccomp before the rest": lambda p: moved(p, "OP_LANDLOCK", "OP_SECCOMP"),
    "caps before ids": lambda p: moved(p, "OP_IDS", "OP_CAPS"),
    "session before pivot": lambda p: moved(p, "OP_PIVOT", "OP_SESSION"),
    "no-new-privs last": lambda p: moved(p, "OP_NO_NEW_PRIVS", "OP_SECCOMP"),
    "two execs": lambda p: p.before("OP_EXEC", Step("OP_EXEC", 0)),
    "two seccomps": lambda p: p.before("OP_EXEC", Step("OP_SECCOMP", 0, ALLOW_ALL)),
    "a mount after the pivot": lambda p: p.before("OP_SESSION", bind("/usr")),
    # the guest
    "another guest": lambda p: changed(p, "OP_BIND", 0, "/bin/sh", "/run/stockade/guest"),
    "no guest": lambda p: p.without("OP_BIND", "/run/stockade/guest"),
    "a cover over the guest": lambda p: p.before("OP_LOOPBACK", bind("/usr", "/run/stockade")),
    "a writable guest": lambda p: flagged(p, "OP_BIND", STEP_WRITE, "/run/stockade/guest"),
    # sizes
    "huge memory": lambda p: p.limit("limits.memory", 1 << 50),
    "no memory": lambda p: p.limit("limits.memory", 0),
    "endless memory": lambda p: p.limit("limits.memory", (1 << 64) - 1),
    "huge cpus": lambda p: p.limit("limits.cpus", 1 << 40),
    "huge processes": lambda p: p.limit("limits.processes", 1 << 40),
    "huge tmpfs": lambda p: p.behind_root(Step("OP_TMPFS", 0, "/mnt", 1 << 60, 1000, 0o755)),
    "endless inodes": lambda p: p.behind_root(Step("OP_TMPFS", 0, "/mnt", 1 << 20, 0, 0o755)),
    "set-id mode": lambda p: p.behind_root(Step("OP_TMPFS", 0, "/mnt", 1 << 20, 100, 0o6777)),
    "set-id folder": lambda p: p.behind_root(Step("OP_DIR", 0, "/x", 0o6777)),
    "huge root": lambda p: changed(p, "OP_ROOT_TMPFS", 0, 1 << 60),
    "a program that is none": lambda p: changed(p, "OP_SECCOMP", 0, b"xyz"),
    "no program": lambda p: changed(p, "OP_SECCOMP", 0, b""),
    "a long host name": lambda p: changed(p, "OP_HOSTNAME", 0, "x" * 300),
    "a disk": lambda p: p.behind_root(Step("OP_DISK", 0, "/mnt", 1 << 24, 1000)),
    # bytes
    "dots": lambda p: p.behind_root(bind("/usr/../etc/shadow")),
    "relative": lambda p: p.behind_root(bind("usr")),
    "an unknown flag": lambda p: flagged(p, "OP_BIND", 1 << 15, "/dev/null"),
    "an unknown operation": lambda p: p.behind_root(Step(999, 0)),
    "no steps": lambda p: empty(p),
}


def changed_root(plan, op, *values):
    p = plan.copy()
    p.steps[p.index("OP_ROOT_TMPFS")] = Step(op, 0, *values)
    return p


def masks_first(plan):
    p = plan.copy()
    proc = p.steps.pop(p.index("OP_PROC"))
    last = max(i for i, s in enumerate(p.steps) if s.op == "OP_MASK")
    p.steps.insert(last + 1, proc)
    return p


def empty(plan):
    p = plan.copy()
    p.steps = []
    return p


def unharmed(d, low, inside, id=None):
    """It refuses, and does its work as before."""
    if id:
        assert not cgroups(id) and not (d.folder / "run/sandboxes" / id).exists()
    one, _, guest, _ = d.begin(low)
    c = inside(guest)
    assert c.output("echo fine")[0] == "fine\n"
    c.close()
    d.stop(one)
    assert d.process.poll() is None


@pytest.fixture(scope="module")
def shared():
    """One warden for all of them: what one attack leaves would meet the next."""
    d = Daemon()
    d.start()
    yield d
    d.clear()


@pytest.mark.parametrize("name", PLANS)
def test_plans(shared, low, name):
    id = new_id()
    with pytest.raises(Refused) as e:
        shared.begin(PLANS[name](low), id)
    assert e.value.error in (REFUSED, CORRUPT), e.value
    assert len(e.value.text) > 10, "no word about why"
    assert not cgroups(id) and not (shared.folder / "run/sandboxes" / id).exists()


def test_and_it_still_works(shared, low, inside):
    unharmed(shared, low, inside)
    assert "gone" not in [m.kind for m, _ in shared.told]


def test_a_filter_that_allows_everything(warden, low, inside):
    """It is loaded, and gains nothing: the warden's own is below it."""
    p = changed(low, "OP_SECCOMP", 0, ALLOW_ALL)
    _, _, guest, _ = warden.begin(p)
    c = inside(guest)
    assert c.output("grep -c . /proc/self/status; grep Seccomp_filters /proc/self/status")[0].split()[-1] == "2"
    for i, script in enumerate(("unshare -U true", "unshare -m true", "chmod 4755 /tmp/x", "mount -t proc p /tmp"), 10):
        assert c.output(f"touch /tmp/x; {script}", number=i)[1] != 0, script


def test_rules_that_allow_everything(warden, low, inside):
    p = low.before("OP_LANDLOCK_END", Step("OP_LANDLOCK_RULE", 0, "/", (1 << 16) - 1))
    _, _, guest, _ = warden.begin(p)
    c = inside(guest)
    for i, script in enumerate(("touch /usr/x", "mknod /tmp/d c 1 3", "echo 1 >/proc/sys/kernel/core_pattern"), 10):
        assert c.output(script, number=i)[1] != 0, script


def test_a_link_that_leads_out(make, low, tmp_path):
    """The path is within the ceiling, and where it leads is not."""
    os.chmod(tmp_path, 0o755)
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "link").symlink_to("/etc/shadow")
    (shown / "folder").symlink_to("/root")
    (shown / "file").write_text("fine")
    d = make(conf=f"ceiling_read = /usr /bin /sbin /lib /lib32 /lib64 /libx32 {shown}\n"
             f"ceiling_write = {shown}\n")
    d.start()
    refused(lambda: d.begin(narrow(low).behind_root(bind(str(shown / "link")))), REFUSED, "link")
    refused(lambda: d.begin(narrow(low).behind_root(bind(str(shown / "folder")))), REFUSED, "folder")
    refused(lambda: d.begin(narrow(low).behind_root(
        bind(str(shown / "folder"), flags=STEP_WRITE | STEP_OWNED | STEP_EXACT))), None)
    d.begin(narrow(low).behind_root(bind(str(shown / "file"))))


def narrow(plan):
    """Without what is outside of a smaller ceiling."""
    p = plan.copy()
    p.steps = [s for s in p.steps if not (s.op in ("OP_COPY", "OP_BIND", "OP_LIKE_HOST") and s.values[0].startswith("/etc"))]
    return p


def test_a_link_that_is_put_there_meanwhile(make, low, tmp_path):
    """It is exchanged with a good file, all the time: never is the other one seen."""
    os.chmod(tmp_path, 0o755)
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "a").write_text("good")
    (shown / "b").symlink_to("/etc/shadow")
    d = make(conf=f"ceiling_read = /usr /bin /sbin /lib /lib32 /lib64 /libx32 {shown}\n")
    d.start()
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            exchange_names(shown / "a", shown / "b")

    worker = threading.Thread(target=exchange)
    worker.start()
    good = bad = 0
    plan = narrow(low).behind_root(bind(str(shown / "a"), "/shown"))
    try:
        for _ in range(40):
            try:
                id, answer, guest, _ = d.begin(plan)
                with open(f"/proc/{answer.pid}/root/shown", encoding="ascii") as f:
                    assert f.read() == "good"
                guest.close()
                d.stop(id)
                good += 1
            except Refused:
                bad += 1
    finally:
        stop.set()
        worker.join()
    print(f"{good} times the good one, {bad} times refused")


def exchange_names(a, b):
    ctypes.CDLL(None).renameat2(-100, str(a).encode(), -100, str(b).encode(), 2)


def test_writable_shares_are_not_written_by_us(make, low, tmp_path):
    """In a folder that may be shared, nothing appears that root made."""
    os.chmod(tmp_path, 0o755)
    share = tmp_path / "share"
    share.mkdir()
    os.chown(share, 4321, 4321)
    d = make(conf=f"ceiling_write = {share}\n")
    d.start()
    shared = low.behind_root(bind(str(share), "/share", STEP_WRITE | STEP_OWNED | STEP_EXACT))
    d.stop(d.begin(shared)[0])

    def behind_share(*steps):
        p = shared.copy()
        at = p.index("OP_BIND", "/share")
        p.steps[at + 1:at + 1] = list(steps)
        return p

    for step in (Step("OP_FILE", 0, "/share/x", b"#!/bin/sh"), Step("OP_DIR", 0, "/share/d", 0o777),
                 Step("OP_LINK", 0, "/share/l", "/etc/shadow"), Step("OP_TMPFS", 0, "/share/t", 1 << 20, 10, 0o755),
                 bind("/usr", "/share/usr"), Step("OP_HIDE", 0, "/share/h")):
        refused(lambda step=step: d.begin(behind_share(step)), REFUSED, "share")
    assert list(share.iterdir()) == []
    refused(lambda: d.begin(low.behind_root(bind(str(d.folder), "/x", STEP_WRITE | STEP_OWNED | STEP_EXACT))), REFUSED)
    wide = make(conf="ceiling_write = /tmp\nceiling_read = /usr /bin /sbin /lib /lib64 /etc /tmp\n")
    wide.start()
    for path in (wide.folder, wide.folder / "disks", wide.state, wide.folder / "run/sandboxes", wide.folder / "operator"):
        refused(lambda path=path: wide.begin(
            low.behind_root(bind(str(path), "/x", STEP_WRITE | STEP_OWNED | STEP_EXACT))), REFUSED)
    refused(lambda: wide.begin(low.behind_root(bind(str(wide.folder / "operator"), "/x"))), REFUSED)


# --- descriptors ---

def start_with(d, fds, flags=0, **values):
    return d.answer(d.send("start", flags, fds, **{"id": new_id(), **values}))


def test_plans_that_are_no_memory(warden, low, inside, tmp_path):
    file = tmp_path / "plan"
    file.write_bytes(low.bytes())
    r, w = os.pipe()
    opened = [os.open("/", os.O_RDONLY), os.open(file, os.O_RDWR), os.open("/dev/zero", os.O_RDONLY), r,
              os.open("/proc/self/mem", os.O_RDWR), os.open("/proc/self/environ", os.O_RDONLY),
              os.open("/etc/passwd", os.O_PATH), socket.socket().detach(), os.memfd_create("plain"),
              memory_file(low.bytes(), seals=0), memory_file(low.bytes(), seals=fcntl.F_SEAL_WRITE),
              memory_file(low.bytes(), seals=fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)]
    for fd in opened:
        refused(lambda fd=fd: start_with(warden, [fd]), REFUSED, "sealed")
    for size in (0, 1, 11, 43, 44, 300):
        fd = memory_file(low.bytes()[:size])
        refused(lambda fd=fd: start_with(warden, [fd]), None)
        os.close(fd)
    fd = memory_file(b"x" * (256 * 1024 + 1))
    refused(lambda: start_with(warden, [fd]), LIMIT)
    wire.close(opened + [w, fd])
    unharmed(warden, low, inside)


def test_a_plan_that_is_changed_after_the_look(warden, low, inside):
    """A sealed file cannot be; and one that is not sealed is not looked at."""
    fd = os.memfd_create("plan", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, low.bytes())
    view = mmap.mmap(fd, 0)
    with pytest.raises(OSError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    refused(lambda: start_with(warden, [fd]), REFUSED, "sealed")
    view.close()
    os.close(fd)
    unharmed(warden, low, inside)


def test_keys_that_are_none(warden, networked):
    id, _, _, fds = warden.begin(networked)
    wire.close(fds)
    for fd in (os.open("/etc/shadow", os.O_RDONLY), os.open("/", os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY)):
        refused(lambda fd=fd: warden.ask("keep-key", fds=[fd], id=id), REFUSED)
        os.close(fd)
    fd = memory_file(b"k" * (1 << 20))
    refused(lambda: warden.ask("keep-key", fds=[fd], id=id), REFUSED)
    os.close(fd)


# --- bytes ---

def raw(d, data, fds=()):
    wire.send(d.link, data, fds)


def test_messages_that_are_none(warden, low, inside):
    null = os.open("/dev/null", os.O_RDWR)
    good = wire.pack("stop", 77, id=new_id())
    bad = [wire.pack("stop", 77, id="../../../../etc/"), wire.pack("stop", 77, id="0" * 15 + "/"), good[:-1], good + b"x",
           wire.pack("stop", 77, flags=1 << 20, id=new_id()), struct.pack("<III", 999, 77, 0),
           struct.pack("<III", 100, 77, 0), wire.pack("gate", 77, slot=70000), wire.pack("leaf", 77, id=new_id(), run=0),
           wire.pack("start", 77, id=new_id(), layers=[new_id()] * 65), b"\xff" * 3000,
           struct.pack("<III", 3, 77, 0) + wire.text(new_id()) + wire.text("") + wire.text("") + b"\xff\xff\xff\xff"]
    for data in bad:
        raw(warden, data)
        if data[4:8] == struct.pack("<I", 77):
            refused(lambda: warden.answer(77), -errno.EBADMSG, "malformed")
    raw(warden, good, [null] * 3)  # descriptors that it has no use for
    refused(lambda: warden.answer(77), -errno.EBADMSG)
    raw(warden, wire.pack("start", 77, id=new_id()))  # and none where one belongs
    refused(lambda: warden.answer(77), -errno.EBADMSG)
    raw(warden, b"x" * 100000, [null] * 10)
    raw(warden, wire.pack("answer", 77))  # not for an operator to say
    refused(lambda: warden.answer(77), -errno.EBADMSG)
    os.close(null)
    time.sleep(0.2)
    warden.told = []
    while True:  # whatever else it said about them
        try:
            warden.read(0.2)
        except AssertionError:
            break
    unharmed(warden, low, inside)
    before = len(os.listdir(f"/proc/{warden.process.pid}/fd"))
    for _ in range(50):
        r, w = os.pipe()
        raw(warden, good, [r, w])
        wire.close([r, w])
    for _ in range(50):
        refused(lambda: warden.answer(77), -errno.EBADMSG)
    # none of the hundred is left; of the sandbox that was stopped before, some may have gone meanwhile
    assert len(os.listdir(f"/proc/{warden.process.pid}/fd")) <= before


def test_without_hello(make, low):
    d = make()
    d.start(wait=False)
    d.connect()
    refused(lambda: d.begin(low), -errno.EPROTO, "hello")
    refused(lambda: d.ask("down"), -errno.EPROTO)
    refused(lambda: d.ask("hello", version=99), None, "version")
    d.hello()


def test_a_flood(warden, low, inside):
    """Requests as fast as they go in, answers never read: its memory stays as it was."""
    status = f"/proc/{warden.process.pid}/status"

    def rss():
        return int(open(status, encoding="ascii").read().split("VmRSS:")[1].split()[0])

    before, sent = rss(), 0
    warden.link.setblocking(False)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            wire.send(warden.link, wire.pack("list", sent + 1000))
            sent += 1
        except BlockingIOError:
            time.sleep(0.01)
    with open(warden.program, "rb") as f:
        assert b"__asan_init" in f.read() or rss() < before + 2048, (before, rss(), sent)
    warden.link.setblocking(True)
    for _ in range(sent):
        warden.read()
    unharmed(warden, low, inside)


def test_a_flood_of_starts(warden, low):
    """More than it will have."""
    ids = [new_id() for _ in range(60)]
    serials = []
    for id in ids:
        serials.append(warden.send_start(low.limit("limits.memory", 32 << 20), id))
    for id in ids:
        serials.append(warden.send("stop", id=id))
    for serial in serials:
        try:
            answer, fds = warden.answer(serial)
            wire.close(fds)
        except Refused as e:
            assert e.error in (-errno.EALREADY, -errno.ECANCELED), e
    assert warden.running() == set()


def test_leaves_have_an_end(warden, low):
    id, _, _, _ = warden.begin(low)
    with pytest.raises(Refused) as e:
        for run in range(1, 400):
            wire.close(warden.ask("leaf", id=id, run=run)[1])
    assert e.value.error == LIMIT and run == 257
    warden.stop(id)
    assert not cgroups(id)


def test_leaf_files_are_only_for_this_sandbox(warden, low, inside):
    """Whoever holds the files of a leaf can put its own processes there, and nobody else's."""
    id, answer, guest, _ = warden.begin(low)
    files = warden.ask("leaf", id=id, run=1)[1]
    c = inside(guest)
    victim = subprocess.Popen(["sleep", "100"])
    run = c.exec("/bin/sh", "-c", f"echo {victim.pid} >&0; echo $?", number=1, fds=files)
    c.end(run)
    with open(f"/proc/{victim.pid}/cgroup", encoding="ascii") as f:
        assert id not in f.read()
    victim.kill()
    victim.wait()
    wire.close(files)
    assert alive(answer.pid)


def written_as(uid, files, text):
    """What became of it in each file: a process without privileges writes it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        for fd in files:
            try:
                os.write(fd, text.encode())
                os.write(w, b"0 ")
            except OSError as e:
                os.write(w, f"{e.errno} ".encode())
        os._exit(0)
    os.close(w)
    with open(r, encoding="ascii") as f:
        said = f.read()
    os.waitpid(pid, 0)
    return [int(n) for n in said.split()]


def groups_of(pid):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        return f.read()


def test_the_operator_puts_nobody_into_a_leaf(warden, low, inside):
    """It has the files of a leaf, and sees every number of the host: no process that it may not kill goes in by them, and
    none dies with the leaf."""
    id, answer, guest, _ = warden.begin(low)
    other, neighbour, _, _ = warden.begin(low)
    victim = subprocess.Popen(["sleep", "100"])
    stranger = subprocess.Popen(["sleep", "100"], user=4242, group=4242, extra_groups=[])
    files = warden.ask("leaf", id=id, run=7)[1]
    assert files
    for pid in (victim.pid, stranger.pid, warden.process.pid, neighbour.pid, os.getpid()):
        before = groups_of(pid)
        said = written_as(OPERATOR, files, str(pid))
        assert len(said) == len(files) and all(said), (pid, said)
        assert groups_of(pid) == before, "it was moved"
    c = inside(guest)  # those that it is for do enter
    run = c.exec("/bin/sleep", "100", number=7, fds=files)
    c.wait(lambda: run.pid)
    assert warden.ask("usage", id=id, run=7)[0].usage["processes_now"] == 1
    wire.close(files)
    assert warden.ask("leaf-end", wire.KILL, id=id, run=7)[0].error == 0
    c.end(run)
    assert victim.poll() is None and stranger.poll() is None and warden.process.poll() is None and alive(neighbour.pid)
    warden.stop(id)
    warden.stop(other)
    assert victim.poll() is None and stranger.poll() is None
    for p in (victim, stranger):
        p.kill()
        p.wait()
    assert not cgroups(id) and not alive(answer.pid)


@pytest.mark.parametrize("end", ("leaf", "sandbox"))
def test_strangers_in_a_leaf_are_not_killed(warden, low, end):
    """However they came there: root puts one in."""
    id, _, _, _ = warden.begin(low)
    wire.close(warden.ask("leaf", id=id, run=7)[1])
    victim = subprocess.Popen(["sleep", "100"])
    for leaf in cgroups("run-7"):
        if id in leaf:
            with open(f"{leaf}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(victim.pid))
    assert id in groups_of(victim.pid)
    if end == "leaf":
        assert warden.ask("leaf-end", wire.KILL, id=id, run=7)[0].error == 0
    else:
        warden.stop(id)
    until(lambda: id not in groups_of(victim.pid) and "no process of" in warden.said())
    assert victim.poll() is None
    victim.kill()
    victim.wait()
    if end == "leaf":
        warden.stop(id)
    assert not cgroups(id)
