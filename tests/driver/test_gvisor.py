"""Sandboxes in boxes of gVisor's, with a real runsc: what code inside can do, and what is left when it is gone."""
import contextlib
import errno
import functools
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import time

import needed
import plans
import pytest
import test_disks
import wire
from daemon import Refused, alive, cgroups, new_id, until
from every_box import test_adoption, test_pauses  # noqa: F401  pylint: disable=unused-import
from test_box import _answers as answers
from test_box import below, status
from test_disks import HOME, make_disk, with_disk  # noqa: F401, pylint: disable=unused-import
from test_life import refused
from test_network import DENIALS, DNS, MEMORY, TCP, reach

NATIVE, GVISOR = 0, 2
ERR_UNENFORCED = -1002
PROGRAM = plans.BUILD / "src/driver/stockade-box-gvisor"

if not shutil.which("runsc"):
    needed.missing("runsc is not installed")


@pytest.fixture
def boxes(make):
    d = make(conf="drivers = native gvisor\n")
    d.args, d.driver = (), GVISOR
    d.start()
    return d


@pytest.fixture
def box(boxes, inside):
    """box(plan): a sandbox's id, its keeper's pid, and a connection to its guest."""
    def one(plan, **kw):
        id, answer, guest, _ = boxes.begin(plan, driver=GVISOR, **kw)
        return id, answer.pid, inside(guest)
    return one


def python(c, script, **kw):
    run = c.end(c.exec("/usr/bin/python3", "-c", script, **kw))
    return (run.out + run.err).decode()


def name(pid):
    """Of its program, "" when it has ended: the sentry's processes for those inside come and go."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def part(keeper, which):
    """The process of a box that is its sentry ("runsc-sandbox") or its gofer."""
    return next(p for p in below(keeper) if name(p) == which)


def test_starts_serves_and_leaves_nothing(boxes, box, low):
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    id, keeper, c = box(low)
    said, code = c.output("id -u; cat /proc/version; pwd; echo $HOME; exit 3", cwd="/tmp", env=("HOME=/tmp",))
    assert said.split()[:2] == ["1000", "Linux"] and "4.4.0" in said and "/tmp\n/tmp\n" in said and code == 3
    processes = below(keeper)
    assert {"runsc-sandbox", "runsc-gofer"} <= {name(p) for p in processes} and "runsc" not in {name(p) for p in processes}
    usage = boxes.stop(id).usage
    assert usage["memory_peak"] > 0 and usage["cpu_us"] > 0
    until(lambda: not any(alive(p) for p in [keeper, *processes]))
    assert not cgroups(id) and not (boxes.folder / "run/sandboxes" / id).exists()
    assert pathlib.Path("/proc/self/mountinfo").read_text() == mounts
    assert not pathlib.Path("/run/state").exists() and not pathlib.Path("/var/run/runsc").exists()


GOFER_CAPS = sum(1 << n for n in (0, 1, 2, 3, 4, 18))  # chown, dac_override, dac_read_search, fowner, fsetid, sys_chroot


def is_by_parts(keeper):
    """Was it started by our own hand (src/driver/runsc-parts.c), and not by `runsc run`?"""
    return os.path.exists(f"/proc/{keeper}/root/run/state/control")


def test_a_runsc_that_is_not_known_starts_its_boxes_itself(make, inside, low, networked, tmp_path):
    source = pathlib.Path(__file__).parents[2].joinpath("src/driver/runsc-parts.c").read_text()
    build = source.split("#define BUILD ", 1)[1].split('"')[1].encode()
    program = pathlib.Path(shutil.which("runsc")).read_bytes()
    assert build in program[:8192], "another runsc than the one that runsc-parts.c was written for: see there"
    other = tmp_path / "runsc"
    other.write_bytes(program.replace(build, build[::-1], 1))
    other.chmod(0o755)
    d = make(conf="drivers = native gvisor\n")
    wrapper = tmp_path / "stockaded"
    wrapper.write_text(f"#!/bin/sh\nexec unshare -m sh -c 'mount --bind {other} {shutil.which('runsc')} && exec \"$@\"' sh "
                       f"{d.program} \"$@\"\n")
    wrapper.chmod(0o755)
    d.program = wrapper
    d.start()
    for plan in (low, networked):
        _, answer, guest, fds = d.begin(plan, driver=GVISOR)
        c = inside(guest)
        assert c.output("echo yes")[0] == "yes\n" and not is_by_parts(answer.pid)
        assert not fds or reach(c, fds, 5) == b"world\n"
        wire.close(fds)


@pytest.mark.parametrize("connected", [False, True])
def test_nothing_of_it_is_root_on_the_host(boxes, inside, low, networked, connected):
    _, answer, guest, fds = boxes.begin(networked if connected else low, driver=GVISOR)
    wire.close(fds)
    keeper, c = answer.pid, inside(guest)
    memory = dict(line.split()[:2] for line in pathlib.Path(f"/proc/{keeper}/smaps_rollup").read_text().splitlines()[1:])
    assert int(memory["Private_Dirty:"]) < 256  # the rest is the program, which all boxes share
    files = {os.readlink(f"/proc/{keeper}/fd/{n}") for n in os.listdir(f"/proc/{keeper}/fd")}
    assert not [f for f in files if f.startswith("/") and f != "/dev/null"], files
    c.sh("sleep 60")
    until(lambda: len(below(keeper)) > 4)
    base = int(status(keeper)["Uid"].split()[0])
    for pid in filter(alive, below(keeper)):
        s = status(pid)
        assert all(base <= int(n) < base + 65536 for n in s["Uid"].split() + s["Gid"].split() + s["Groups"].split()), s
        assert s["Seccomp"] == "2" and s["NoNewPrivs"] == "1", (name(pid), s)
        assert not os.path.samefile(f"/proc/{pid}/ns/user", "/proc/self/ns/user")
        assert not os.path.samefile(f"/proc/{pid}/ns/net", "/proc/self/ns/net")
        assert not os.path.samefile(f"/proc/{pid}/ns/net", f"/proc/{keeper}/ns/net")
    sentry, gofer = part(keeper, "runsc-sandbox"), part(keeper, "runsc-gofer")
    for pid, most in ((sentry, 0), (gofer, GOFER_CAPS)):
        s = status(pid)
        assert int(s["CapEff"], 16) == int(s["CapPrm"], 16) == most and int(s["CapAmb"], 16) & ~most == 0, s
        assert not os.path.samefile(f"/proc/{pid}/ns/mnt", f"/proc/{keeper}/ns/mnt")
        assert not [f for f in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{f}").startswith("/usr")]
    assert status(sentry)["Uid"].split() == [str(base + 65534)] * 4
    root = pathlib.Path(f"/proc/{sentry}/root")
    assert {p.name for p in root.iterdir()} <= {"proc", "etc"} and not list((root / "proc").iterdir())
    assert "usr" in {p.name for p in pathlib.Path(f"/proc/{gofer}/root").iterdir()}
    assert not [f for f in os.listdir(f"/proc/{gofer}/fd") if "input" in os.readlink(f"/proc/{gofer}/fd/{f}")]
    assert is_by_parts(keeper)
    at = next(line.split() for line in pathlib.Path(f"/proc/{gofer}/mountinfo").read_text().splitlines() if line.split()[4] == "/")
    assert {"ro", "nosuid", "nodev"} <= set(at[5].split(",")), at


def test_the_user_inside_has_no_rights(box, low):
    _, _, c = box(low)
    said, _ = c.output("cat /proc/self/status")
    s = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert s["Uid"].split() == ["1000"] * 4 and not s["Groups"].split()
    assert all(int(s[k], 16) == 0 for k in ("CapPrm", "CapEff", "CapBnd")) and s["Seccomp"] == "2"
    for script in ("touch /usr/x", "touch /x", "touch /etc/x", "touch /dev/x", "touch /run/stockade/box/x", "cat /etc/shadow",
                   "mount -t tmpfs x /tmp", "unshare -U true", "echo 1 > /proc/sys/kernel/hostname"):
        assert c.output(script, number=new_number())[1] != 0, script
    tried = python(c, """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, call in (("memfd", lambda: libc.memfd_create(b"x", 0)), ("ptrace", lambda: libc.ptrace(0, 0, 0, 0)),
                   ("userns", lambda: libc.unshare(0x10000000)), ("setid", lambda: libc.chmod(b"/tmp", 0o4777)),
                   ("key", lambda: libc.syscall(250, 0, 0))):
    ctypes.set_errno(0)
    print(name, call(), ctypes.get_errno() != 0)
""", number=new_number())
    for line in tried.splitlines():
        assert line.split()[1:] == ["-1", "True"], tried


def test_devices_that_no_plan_has_cannot_be_opened(box, low, medium):
    for plan in (low, medium):
        _, _, c = box(plan)
        said = python(c, """
import os
for path in ("/dev/net/tun", "/dev/fuse"):
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            os.open(path, flags)
            print(path, flags, "was opened")
        except OSError as e:
            print(e.errno)
""", number=new_number())
        assert said.split() == [str(errno.EACCES)] * 4, said


_number = iter(range(1000, 1 << 20))


def new_number():
    return next(_number)


def test_what_was_written_is_not_executed(box, low, medium):
    """tools.exec, as in the profile low: neither by itself, nor through the loader."""
    copy = "cp /bin/echo {0}/mine && chmod 755 {0}/mine && {1} {0}/mine ran"
    for plan, place, ran in ((low, "/tmp", False), (low, "/dev/shm", False), (medium, "/tmp", True), (medium, HOME, True)):
        _, _, c = box(plan)
        for before in ("", "/lib64/ld-linux-x86-64.so.2"):
            said, code = c.output(copy.format(place, before), number=new_number())
            assert (code == 0 and said == "ran\n") == ran, (place, before, said, code)
        # only the sentry can refuse this one: the host executes nothing
        said, code = c.output(f"printf '#!/bin/sh\necho ran' > {place}/script; chmod 755 {place}/script; {place}/script",
                              number=new_number())
        assert (said == "ran\n") == ran and (code == 126) == (not ran), (place, said, code)


def test_programs_look_at_files(make, inside, low, medium):
    """Those of newer systems name AT_NO_AUTOMOUNT, which the kernel of an older runsc refuses."""
    d = make(conf="drivers = native gvisor\nceiling_whole_tree = yes\n")
    d.start()
    for plan in (low, medium, plans.compile_plan(profile="high")):
        _, _, guest, fds = d.begin(plan, driver=GVISOR)
        wire.close(fds)
        c = inside(guest)
        for script in ("ls -la / /usr/bin", "stat / /etc/passwd", "env -i /bin/ls -l /", "du -s /etc/alternatives", "find /etc/alternatives -ls",
                       "ls -l /nowhere; test $? = 2"):
            said, code = c.output(script, number=new_number())
            assert code == 0 and "Invalid argument" not in said and "ERROR" not in said, (script, said)
    assert not os.path.exists("/etc/ld.so.preload")


def test_what_a_tree_loads_into_its_programs_stays(boxes, inside):
    """And a disk keeps nothing of the box's but an empty file."""
    image, disk, show = new_id(), make_disk(boxes), "while read -r line; do echo $line; done </etc/ld.so.preload"
    tree = tarfile.open(fileobj=io.BytesIO(test_disks.small_image()))
    files = [(m.name, tree.extractfile(m).read() if m.isfile() else None) for m in tree]
    for old in (b"", b"/lib/mine.so\n"):
        test_disks.pump(boxes, "image", test_disks.archive(*files, *([("etc/ld.so.preload", old)] if old else [])), id=image,
                        size=test_disks.SIZE, inodes=test_disks.INODES, text="test.tar")
        for driver, ours in ((GVISOR, "/run/stockade/box/preload.so\n"), (NATIVE, "")):
            id, _, guest, _ = boxes.begin(test_disks.image_plan(), disk=disk, image=image, driver=driver)
            said, code = inside(guest).output(show)
            assert code == 0 and "".join(line + "\n" for line in said.splitlines() if line.endswith("/mine.so") or "box" in line
                                         ) == ours + old.decode(), said
            boxes.stop(id)
        image, disk = new_id(), make_disk(boxes)


def test_a_list_of_programs_is_kept(box, low, make):
    profile = pathlib.Path("/tmp") / f"stockade-exec-{os.getpid()}.yaml"
    profile.write_text("profile: 1\nextends: low\ntools: {exec: [/usr/bin/dash, /usr/bin/cat, /usr/bin/echo]}\n")
    try:
        plan = plans.compile_plan(profile=str(profile))
    finally:
        profile.unlink()
    _, _, c = box(plan)
    assert c.end(c.exec("/usr/bin/dash", "-c", "/usr/bin/echo yes", number=1)).out == b"yes\n"
    for n, script in enumerate(("/usr/bin/id", "/usr/bin/python3 -V", "/lib64/ld-linux-x86-64.so.2 /usr/bin/id",
                                "/usr/bin/cat /usr/bin/id > /tmp/id; /lib64/ld-linux-x86-64.so.2 /tmp/id")):
        run = c.end(c.exec("/usr/bin/dash", "-c", script, number=10 + n))
        assert run.code != 0 and b"uid=" not in run.out, (script, run.out, run.err)


def test_places_are_of_the_size_asked_for(box, low):
    _, _, c = box(low)
    said, _ = c.output("head -c 100m /dev/zero 2>&1 > /tmp/big; wc -c < /tmp/big; rm /tmp/big; "
                       "i=0; while echo > /tmp/f$i; do i=$((i+1)); done 2>/dev/null; echo $i")
    full, bytes, files = said.splitlines()
    assert "No space left" in full and 60 << 20 < int(bytes) <= 64 << 20
    assert 7900 < int(files) < 8000


def test_disk(boxes, box, with_disk, inside):  # noqa: F811
    disk = make_disk(boxes)
    id, keeper, c = box(with_disk, disk=disk)
    said, code = c.output("echo kept > file && ln -s file link && chmod 640 file && mkdir folder; "
                          "head -c 100m /dev/zero 2>&1 > big; wc -c < big; rm big", cwd=HOME)
    full, bytes = said.splitlines()
    assert code == 0 and "No space left" in full and 32 << 20 < int(bytes) < 64 << 20
    run = c.sh("while date +%N > tick; do echo ticked; done", cwd=HOME)
    c.wait(lambda: run.out)
    boxes.ask("freeze", id=id)  # as for a snapshot: what was written is on the disk, not only in the sentry
    gofer = pathlib.Path(f"/proc/{part(keeper, 'runsc-gofer')}/root{HOME}")
    assert (gofer / "file").read_text() == "kept\n" and (gofer / "tick").exists()
    boxes.ask("thaw", id=id)
    c.signal(run, signal.SIGKILL)
    boxes.stop(id)
    id, _, guest, _ = boxes.begin(with_disk, disk=disk)  # natively
    said, _ = inside(guest).output("cat link; stat -c '%u %g %a %F' file folder; echo too > native", cwd=HOME)
    assert said.splitlines() == ["kept", "1000 1000 640 regular file", "1000 1000 755 directory"]
    boxes.stop(id)
    _, _, c = box(with_disk, disk=disk)
    assert c.output("echo more >> file && cat file native", cwd=HOME)[0] == "kept\nmore\ntoo\n"


def test_an_image_is_the_root(boxes, inside):
    """The same as natively."""
    boxes.begin = functools.partial(boxes.begin, driver=GVISOR)
    test_disks.test_images(boxes, inside)


def test_more_memory_than_allowed_ends_this_sandbox_alone(boxes, box, low):
    _, other, d = box(low)
    id, keeper, c = box(low.limit("limits.memory", 128 << 20))
    c.exec("/usr/bin/python3", "-c", "x = b'x' * (400 << 20); print(len(x))")
    gone = boxes.wait_told("gone")
    assert gone.id == id and gone.usage["oom_kills"] >= 1
    assert not alive(keeper) and alive(other) and d.output("echo alive")[0] == "alive\n"


def test_processes_are_counted_inside(boxes, box, low):
    id, keeper, c = box(low.limit("limits.processes", 40))
    said = python(c, """
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except OSError as e:
    print(n, e.errno, flush=True)
os.kill(0, 9)
""", number=1)
    assert said.split() == ["38", str(errno.EAGAIN)], said  # the guest and python itself are the others
    assert c.output("echo on", number=2)[0] == "on\n" and alive(keeper)


def test_a_fork_bomb_harms_nobody_else(boxes, box, low):
    """It may end its own sandbox, when its kernel cannot have another process."""
    _, other, d = box(low)
    id, keeper, c = box(low)
    c.sh("f() { f | f & }; f; sleep 100")
    d.idle(3)
    assert alive(other) and d.output("echo alive")[0] == "alive\n"
    boxes.stop(id)
    until(lambda: not alive(keeper))
    assert not cgroups(id)


def test_terminal(box, low):
    _, _, c = box(low)
    run = c.exec("/bin/sh", "-c", "test -t 0 && stty size; read line; echo got $line", tty=(30, 100))
    c.wait(lambda: b"30 100" in run.out)
    c.input(run, b"words\n")
    c.end(run)
    assert b"got words" in run.out and run.code == 0


def test_files(box, low):
    _, _, c = box(low)
    data = os.urandom(3 << 20)
    c.put("/tmp/data", data)
    assert c.get("/tmp/data") == data
    assert c.output("wc -c < /tmp/data")[0] == f"{len(data)}\n"


def test_much_goes_both_ways(box, low):
    _, _, c = box(low)
    said, code = c.output("head -c 20000000 /dev/zero | tr '\\0' x")
    assert code == 0 and len(said) == 20_000_000


def test_only_the_guest_is_taken_for_it(boxes, box, low, inside):
    """Whoever runs inside can dial the keeper too."""
    id, _, c = box(low)
    run = c.exec("/usr/bin/python3", "-c", """
import select, socket, time
held = []
while True:
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect("/run/stockade/box/door")
        s.send(bytes(16))
        held.append(s)
        print("dialed", flush=True)
    except OSError:
        pass
    for h in select.select(held, [], [], 0.01)[0]:
        said = h.recv(100)
        if said:
            print("heard", said, flush=True)
        held.remove(h)
    time.sleep(0.02)
""", number=7)
    c.wait(lambda: b"dialed" in run.out)
    for n in range(5):
        c = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
        assert 7 in c.list_runs() and c.output("echo yes", number=20 + n)[0] == "yes\n"
    heard = c.attach(c.list_runs()[7], {})
    c.wait(lambda: heard.out)
    assert b"heard" not in heard.out
    mine = "import os; print(os.readlink('/proc/1/fd/0') if os.access('/proc/1/fd', os.R_OK) else 'no'); open('/proc/1/mem', 'rb').read(1)"
    assert "Error" in python(c, mine, number=30)


@pytest.mark.parametrize("which", ["keeper", "runsc-sandbox", "runsc-gofer"])
def test_killed_parts_take_the_rest_along(boxes, box, low, which):
    id, keeper, _ = box(low)
    processes = below(keeper)
    os.kill(keeper if which == "keeper" else part(keeper, which), signal.SIGKILL)
    assert boxes.wait_told("gone").id == id
    until(lambda: not any(alive(p) for p in [keeper, *processes]))
    assert boxes.running() == set() and not cgroups(id)


def keeper_of(d, id):
    """The keeper of a sandbox that starts, and everything below it, if it is written down already."""
    with contextlib.suppress(OSError):
        for line in (d.folder / "run/sandboxes" / id / "info").read_text().splitlines():
            if line.startswith("pid "):
                pid = int(line.split()[1])
                return [pid, *below(pid)]
    return []


def is_gone(d, id, processes):
    return not any(alive(p) for p in processes) and not cgroups(id) and not (d.folder / "run/sandboxes" / id).exists()


@pytest.mark.parametrize("ms", range(10, 190, 15))
def test_killed_while_it_starts(boxes, low, ms):
    """Whichever part it is: either it serves or the start fails with a sentence, and it can be stopped without a trace."""
    id = new_id()
    serial = boxes.send_start(low, id, driver=GVISOR)
    time.sleep(ms / 1000)
    processes = keeper_of(boxes, id)
    if processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(processes[ms % len(processes)], signal.SIGKILL)
    try:
        wire.close(boxes.answer(serial)[1])
    except Refused as e:
        assert "could not start the sandbox: runsc" in e.text or "ended" in e.text, e
    boxes.stop(id)
    until(lambda: is_gone(boxes, id, processes))


@pytest.mark.parametrize("ms", (20, 80, 140))
def test_a_warden_that_is_killed_while_one_starts(boxes, low, ms):
    id = new_id()
    boxes.send_start(low, id, driver=GVISOR)
    time.sleep(ms / 1000)
    boxes.kill()
    processes = keeper_of(boxes, id)
    boxes.start()
    boxes.stop(id)
    until(lambda: is_gone(boxes, id, processes))


def test_without_a_network_there_is_only_loopback(box, low):
    _, _, c = box(low)
    said = python(c, """
import socket
print(*(name for _, name in socket.if_nameindex()))
listener = socket.create_server(("127.0.0.1", 8000))
print(socket.create_connection(("127.0.0.1", 8000)).getpeername())
for address in ("192.0.2.7", "198.18.0.1"):
    try:
        socket.create_connection((address, 80), 5)
    except OSError as e:
        print("refused")
""")
    assert said.split("\n")[:4] == ["lo", "('127.0.0.1', 8000)", "refused", "refused"], said


def test_the_network_is_the_gate(boxes, networked, inside):
    id, answer, guest, fds = boxes.begin(networked, driver=GVISOR)
    assert len(fds) == MEMORY + 1
    c = inside(guest)
    assert reach(c, fds, 5) == b"world\n"
    dns = socket.socket(fileno=os.dup(fds[DNS]))
    for n, server in enumerate(("198.18.0.1", "9.9.9.9")):
        run = c.exec("/bin/bash", "-c", f"exec 3<>/dev/udp/{server}/53 && echo question >&3 && head -n 1 <&3",
                     number=60 + n)
        until(lambda: answers(dns))
        c.end(run)
        assert run.out == b"question\n", server
    assert c.output("cat /run/stockade/net/denials", number=7)[0] == "nothing was refused yet\n"
    dns.close()
    wire.close(fds)

    boxes.kill()
    boxes.start()
    again = boxes.ask("network", id=id)[1]
    os.pwrite(again[DENIALS], b"no rule for evil.test\n", 0)
    c = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
    assert "no rule for evil.test" in c.output("cat /run/stockade/net/denials", number=9)[0]
    assert reach(c, again, 10) == b"world\n"
    wire.close(again)
    assert alive(answer.pid)


def test_the_original_destination_is_known(boxes, networked, inside):
    _, _, guest, fds = boxes.begin(networked, driver=GVISOR)
    c = inside(guest)
    for n, address in enumerate(("192.0.2.7", "2001:db8::7")):
        run = c.exec("/usr/bin/python3", "-c", f"import socket; s = socket.create_connection(('{address}', 4433), 20); s.recv(1)",
                     number=n + 1)
        listener = socket.socket(fileno=os.dup(fds[TCP]))
        listener.settimeout(30)
        got, _ = listener.accept()
        local = got.getsockname()
        raw = got.getsockopt(socket.IPPROTO_IPV6, 80, 28) if ":" in address else got.getsockopt(socket.IPPROTO_IP, 80, 16)
        port = int.from_bytes(raw[2:4], "big")
        asked = socket.inet_ntop(socket.AF_INET6, raw[8:24]) if ":" in address else socket.inet_ntop(socket.AF_INET, raw[4:8])
        assert (asked, port) == (address, 4433), local
        got.close()
        listener.close()
        c.end(run)
    wire.close(fds)


def test_nothing_answers_without_a_gate(boxes, networked, inside):
    """Nobody takes what comes to the gate's sockets: no connection gets an answer, and no other port is open."""
    _, _, guest, fds = boxes.begin(networked, driver=GVISOR)
    said = python(inside(guest), """
import socket
for address, port in (("198.18.0.3", 22), ("198.18.0.3", 15001), ("198.18.0.1", 8080), ("fd53:746f:636b::3", 22)):
    try:
        s = socket.create_connection((address, port), 3)
        s.settimeout(1)
        print(len(s.recv(1)))
    except OSError:
        print("nothing")
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
except OSError:
    print("nothing")
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 1)
except OSError:
    print("nothing")
""")
    assert said.split() == ["nothing"] * 6, said
    wire.close(fds)


def test_the_whole_tree_as_natively(make, inside):
    """The profile high: the host's tree, copy-on-write, and a network."""
    d = make(conf="drivers = native gvisor\nceiling_whole_tree = yes\n")
    d.start()
    script = ("id; echo hi > /tmp/x && cat /tmp/x; cat /root/.bashrc /etc/shadow || echo not; echo /root/* /var/lib/stockade/*; "
              "for p in /root/x /usr/x /run/x /dev/x /etc/x; do touch $p || echo not $p; done; "
              "echo w > /var/tmp/hello-box && cat /var/tmp/hello-box; cat /etc/resolv.conf; cat /etc/passwd | tail -n 3")
    said = []
    for driver in (NATIVE, GVISOR):
        _, _, guest, fds = d.begin(plans.compile_plan(profile="high"), driver=driver)
        run = inside(guest)
        said.append(run.end(run.sh(script)).out)
        wire.close(fds)
    assert said[0] == said[1] and b"\nhi\nnot\n/root/* /var/lib/stockade/*\n" in said[0]
    assert not os.path.exists("/var/tmp/hello-box")


def test_what_a_box_cannot_do_is_refused(make, low, tmp_path):
    os.chmod(tmp_path, 0o755)
    os.chown(tmp_path, 4321, 4321)
    d = make(conf=f"drivers = native gvisor\nceiling_write = {tmp_path}\nceiling_devices = /dev/ptmx\n")
    d.start()
    share = plans.Step("OP_BIND", plans.STEP_WRITE | plans.STEP_OWNED | plans.STEP_EXACT, str(tmp_path), "/mnt")
    device = plans.Step("OP_BIND", plans.STEP_DEVICE | plans.STEP_NOEXEC, "/dev/ptmx", "/dev/other")
    for step, word in ((share, "files: "), (device, "devices: ")):
        e = refused(lambda step=step: d.begin(low.behind_root(step), driver=GVISOR), ERR_UNENFORCED, word)
        assert "native" in e.hint
    assert d.running() == set() and not list((d.folder / "run/sandboxes").iterdir())


def test_less_memory_than_its_kernel_needs_is_refused(boxes, box, low):
    e = refused(lambda: box(low.limit("limits.memory", (24 << 20) - 1)), ERR_UNENFORCED, "limits.memory: ")
    assert "24 MiB" in e.text and "24MiB" in e.hint and "runsc" not in e.text
    assert boxes.running() == set() and not list((boxes.folder / "run/sandboxes").iterdir())
    _, _, c = box(low.limit("limits.memory", 24 << 20))
    assert c.output("ls / > /dev/null && echo yes")[0] == "yes\n"


def test_probe():
    said = json.loads(subprocess.run([PROGRAM, "probe"], check=True, stdout=subprocess.PIPE, timeout=20).stdout)
    assert said["driver"] == "gvisor" and said["offered"] is True and said["version"] and said["why"] == ""
    assert set(said["guarantees"].values()) == {"kept"} and len(said["guarantees"]) == 12
    assert "checkpoint: not used" in said["note"]


def test_probe_says_what_is_missing():
    """Without runsc, and without root."""
    covered = ["unshare", "-m", "sh", "-c", "for p in /usr/bin/runsc /usr/local/bin/runsc; do "
               "[ -e $p ] && mount --bind /etc/passwd $p; done; exec \"$0\" probe", str(PROGRAM)]
    said = json.loads(subprocess.run(covered, check=True, stdout=subprocess.PIPE, timeout=20).stdout)
    assert said["offered"] is False and "not installed" in said["why"] and "apt-get install runsc" in said["fix"]
    said = json.loads(subprocess.run([PROGRAM, "probe"], check=True, stdout=subprocess.PIPE, timeout=20, user=65534).stdout)
    assert said["offered"] is False and "root" in said["why"] and said["fix"]
