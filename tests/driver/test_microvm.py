"""Sandboxes in microVMs, under a real warden: what code inside can do, and what is left when it is gone."""
import errno
import functools
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import needed
import own_state
import plans
import pytest
import test_disks
import vm
import wire
from daemon import Refused, alive, cgroups, until
from every_box import test_adoption, test_pauses  # noqa: F401  pylint: disable=unused-import
from test_box import _answers, below, status
from test_disks import HOME, make_disk, with_disk  # noqa: F401, pylint: disable=unused-import
from test_network import DENIALS, DNS, MEMORY, reach

if why := vm.missing():
    needed.missing(why)

NATIVE, MICROVM = 0, 3
PROGRAM = vm.DRIVER / "stockade-box-microvm"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with the box's program and an image beside it."""
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "microvm").mkdir()
    made = vm.make_image(folder / "microvm")
    assert made.returncode == 0, made.stderr
    shutil.copy(PROGRAM, folder)
    return folder


@pytest.fixture
def boxes(make, programs):
    d = make(conf="drivers = native microvm\n")
    d.args, d.driver = ("--boxes", str(programs)), MICROVM
    d.start(args=d.args)
    return d


@pytest.fixture
def box(boxes, inside):
    """box(plan): a sandbox's id, its keeper's pid, and a connection to its guest."""
    def one(plan, memory=256 << 20, **kw):
        id, answer, guest, fds = boxes.begin(plan.limit("limits.memory", memory), driver=MICROVM, **kw)
        wire.close(fds)
        return id, answer.pid, inside(guest)
    return one


def python(c, script, **kw):
    run = c.end(c.exec("/usr/bin/python3", "-c", script, **kw))
    return (run.out + run.err).decode()


def part(keeper, name):
    return next(p for p in below(keeper) if name in os.path.basename(pathlib.Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")[0].decode()))


def test_starts_serves_and_leaves_nothing(boxes, box, low):
    id, keeper, c = box(low)
    said, _ = c.output("uname -r; id -u; cat /proc/1/comm; hostname")
    assert said.split() == [vm.release(), "1000", "guest", "stockade"], said
    items = [m for m in boxes.list() if m.item == wire.SANDBOX]
    assert [(m.id, m.driver) for m in items] == [(id, MICROVM)]
    processes = below(keeper)
    assert len(processes) == 2
    usage = boxes.stop(id).usage
    assert usage["memory_peak"] > 0
    assert not any(alive(p) for p in [keeper, *processes]) and not cgroups(id)
    assert not (boxes.folder / "run/sandboxes" / id).exists()


def test_nothing_of_it_is_root_on_the_host(box, low):
    _, keeper, _ = box(low)
    base = int(status(keeper)["Uid"].split()[0])
    for pid, uid in ((keeper, base), (part(keeper, "qemu"), base + 1)):
        s = status(pid)
        assert s["Uid"].split() == [str(uid)] * 4 and s["Gid"].split() == [str(uid)] * 4 and not s["Groups"].split()
        assert all(int(s[key], 16) == 0 for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    files = part(keeper, "virtiofsd")
    assert status(files)["Uid"].split() == [str(base)] * 4
    assert os.readlink(f"/proc/{files}/ns/user") != os.readlink("/proc/self/ns/user")
    for pid in (keeper, part(keeper, "qemu"), files):
        assert status(pid)["NoNewPrivs"] == "1" and status(pid)["Seccomp"] == "2"


def test_the_user_inside_has_no_rights(box, low):
    _, _, c = box(low)
    said, _ = c.output("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; touch /usr/x /etc/x /x /dev/x /proc/x; "
                       "mount -t tmpfs x /tmp; unshare -U true; ls /sys/class /dev/vport0p1 /.live /cgroup; kill -0 2")
    assert said.count("0000000000000000") == 5 and "NoNewPrivs:\t1" in said and "Seccomp:\t2" in said, said
    assert said.count("Read-only file system") + said.count("Permission denied") + said.count("No such file") + \
        said.count("not permitted") + said.count("No such process") + said.count("No such file or directory") >= 10, said


def test_what_was_written_is_not_executed(box, low, medium):
    """tools.exec, as in the profile low: neither by itself, nor through the loader."""
    copy = "cp /bin/echo {0}/mine && chmod 755 {0}/mine && {1} {0}/mine ran"
    numbers = itertools.count(1)
    for plan, places, ran in ((low, ("/tmp", "/dev/shm"), False), (medium, ("/tmp", HOME), True)):
        _, _, c = box(plan)
        for place, before in itertools.product(places, ("", "/lib64/ld-linux-x86-64.so.2")):
            said, code = c.output(copy.format(place, before), number=next(numbers))
            assert (code == 0 and said == "ran\n") == ran, (place, before, said, code)


def test_a_list_of_programs_is_kept(box):
    """The mounts inside are the machine's own: what is noexec outside says nothing in there."""
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
    said, _ = c.output("head -c 100m /dev/zero 2>&1 > /tmp/big; wc -c < /tmp/big; rm /tmp/big")
    full, size = said.splitlines()
    assert "No space left" in full and 60 << 20 < int(size) <= 64 << 20


def test_disk(boxes, box, with_disk, inside):  # noqa: F811
    disk = make_disk(boxes)
    id, _, c = box(with_disk, disk=disk)
    said, code = c.output("echo kept > file && ln -s file link && chmod 640 file && mkdir folder; "
                          "dd if=/dev/zero of=big bs=256k count=400 status=none 2>&1; wc -c < big; rm big", cwd=HOME)
    full, size = said.splitlines()
    assert code == 0 and "No space left" in full and 32 << 20 < int(size) < 64 << 20, said
    boxes.stop(id)
    id, _, guest, _ = boxes.begin(with_disk, disk=disk)  # natively
    said, _ = inside(guest).output("cat link; stat -c '%u %g %a %F' file folder; echo too > native", cwd=HOME)
    assert said.splitlines() == ["kept", "1000 1000 640 regular file", "1000 1000 755 directory"]
    boxes.stop(id)
    _, _, c = box(with_disk, disk=disk)
    assert c.output("echo more >> file && cat file native", cwd=HOME)[0] == "kept\nmore\ntoo\n"


def test_an_image_is_the_root(boxes, inside):
    """The same as natively."""
    boxes.begin = functools.partial(boxes.begin, driver=MICROVM)
    test_disks.test_images(boxes, inside)


def test_a_shared_folder_is_one(make, programs, inside, low):
    """What is written on one side is soon seen on the other, under the right owner."""
    shared = pathlib.Path(tempfile.mkdtemp(prefix="stockade-share-", dir="/var/tmp"))
    os.chown(shared, 4321, 4321)
    try:
        d = make(conf=f"drivers = native microvm\nceiling_write = {shared}\n")
        d.start(args=("--boxes", str(programs)))
        plan = low.before("OP_DEVPTS", plans.Step("OP_BIND", plans.STEP_WRITE | plans.STEP_OWNED | plans.STEP_EXACT, str(shared), "/share"))
        plan = plan.before("OP_LANDLOCK_END", plans.Step("OP_LANDLOCK_RULE", 0, "/share", plan.find("OP_LANDLOCK_RULE", "/tmp").values[1]))
        (shared / "file").write_text("one\n")
        numbers = itertools.count(100)
        c = inside(d.begin(plan.limit("limits.memory", 256 << 20), driver=MICROVM)[2])
        assert c.output("cat /share/file; stat -c %u /share; echo inside > /share/new", number=1)[0] == "one\n1000\n"
        assert (shared / "new").read_text() == "inside\n" and (shared / "new").stat().st_uid == 4321
        (shared / "file").write_text("another\n")
        until(lambda: c.output("cat /share/file", number=next(numbers))[0] == "another\n")
    finally:
        shutil.rmtree(shared)


def test_more_memory_than_allowed_ends_the_run_alone(box, low):
    _, keeper, c = box(low)
    run = c.end(c.exec("/usr/bin/python3", "-c", "x = [bytearray(b'x') * (1 << 20) for i in range(600)]", number=1))
    assert os.WTERMSIG(run.exited.number) == signal.SIGKILL
    assert c.output("echo on", number=2)[0] == "on\n" and alive(keeper)


def test_processes_are_counted_inside(box, low):
    _, keeper, c = box(low.limit("limits.processes", 40))
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


def test_more_files_than_its_server_has_descriptors(boxes, inside, low):
    """What the machine's kernel remembers, and what is served outside, would be full: with all that was read, and for good."""
    resource.prlimit(boxes.process.pid, resource.RLIMIT_NOFILE, (1500, 1500))
    c = inside(boxes.begin(low.limit("limits.memory", 256 << 20), driver=boxes.driver)[2])
    c.timeout = 180  # seconds: every file is asked for, and emulated
    said = python(c, """
import os
seen = 0
for top, _, names in os.walk('/usr/share', onerror=print):
    for name in names:
        path = os.path.join(top, name)
        if os.path.isfile(path) and os.access(path, os.R_OK):
            seen += 1
            with open(path, 'rb') as f: f.read(100)
    if seen > 2500: break
print(seen > 2500)
""", number=1)
    assert said == "True\n", said[-500:]
    assert c.output("/bin/true && echo on", number=2)[0] == "on\n"


def test_terminal(box, low):
    _, _, c = box(low)
    run = c.exec("/bin/sh", "-c", "tty; stty size; read x; echo got $x", tty=(20, 70))
    c.wait(lambda: b"20 70" in run.out)
    c.input(run, b"word\n")
    c.end(run)
    assert b"/dev/pts/" in run.out and b"got word" in run.out


def test_much_goes_both_ways(box, low):
    _, _, c = box(low)
    said, code = c.output("head -c 20000000 /dev/zero | tr '\\0' x")
    assert code == 0 and len(said) == 20_000_000 and set(said) == {"x"}


@pytest.mark.parametrize("which", ["keeper", "qemu", "virtiofsd"])
def test_killed_parts_take_the_rest_along(boxes, box, low, which):
    id, keeper, _ = box(low)
    processes = below(keeper)
    os.kill(keeper if which == "keeper" else part(keeper, which), signal.SIGKILL)
    assert boxes.wait_told("gone").id == id
    until(lambda: not any(alive(p) for p in [keeper, *processes]))
    assert boxes.running() == set() and not cgroups(id)


def test_the_network_is_the_gate(boxes, networked, inside):
    id, answer, guest, fds = boxes.begin(networked.limit("limits.memory", 256 << 20), driver=MICROVM)
    assert len(fds) == MEMORY + 1
    c = inside(guest)
    assert reach(c, fds, 5) == b"world\n"
    dns = socket.socket(fileno=os.dup(fds[DNS]))
    run = c.exec("/bin/bash", "-c", "exec 3<>/dev/udp/198.18.0.1/53 && echo question >&3 && head -n 1 <&3", number=6)
    until(lambda: _answers(dns))
    c.end(run)
    assert run.out == b"question\n"
    assert c.output("cat /run/stockade/net/denials", number=7)[0] == "nothing was refused yet\n"
    os.pwrite(fds[DENIALS], b"no rule for evil.test\n", 0)
    numbers = itertools.count(100)
    until(lambda: "no rule for evil.test" in c.output("cat /run/stockade/net/denials", number=next(numbers))[0])
    said, _ = c.output("cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/if_inet6 | cut -c1-32", number=9)
    assert sorted(said.split()[:2]) == ["eth0", "lo"] and "fe800000000000000000000000000002" in said, said
    for pid in below(answer.pid):
        devices = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        assert {line.split(":")[0].strip() for line in devices} <= {"lo"}
    dns.close()
    wire.close(fds)


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


def test_without_an_image_it_says_so(make, low, tmp_path):
    os.chmod(tmp_path, 0o755)
    shutil.copy(PROGRAM, tmp_path)
    d = make(conf="drivers = native microvm\n")
    d.program = str(own_state.through(d.state / "lib", d.program, "daemon"))  # this host may have an image
    d.start(args=("--boxes", str(tmp_path)))
    with pytest.raises(Refused) as e:
        d.begin(low, driver=MICROVM)
    assert "no kernel for microVMs" in e.value.text and "linux-image-cloud-amd64" in e.value.hint
    assert d.running() == set()


def test_probe(programs):
    said = json.loads(subprocess.run([programs / PROGRAM.name, "probe"], check=True, stdout=subprocess.PIPE, timeout=100).stdout)
    assert said["driver"] == "microvm" and said["offered"] is True and said["version"] and said["why"] == ""
    assert set(said["guarantees"].values()) == {"kept"} and len(said["guarantees"]) == 12
    assert (programs / "microvm/accel").read_text() in ("kvm\n", "tcg\n")
