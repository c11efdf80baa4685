"""The pieces of the microvm driver without a warden: the image, the machine, its line, its disk, and where QEMU runs."""
import hashlib
import itertools
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

import pytest

import needed
import vm
from client import Broken, until
from frames import OUT
from vm import plans

if why := vm.missing():
    needed.missing(why)
needed.root()

DISK = 64 << 20


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    made = vm.make_image(folder)
    assert made.returncode == 0, made.stderr
    os.chmod(folder, 0o755)
    return folder


@pytest.fixture(scope="module")
def plan():
    p = plans.compile_plan(profile="medium").limit("limits.memory", 256 << 20).limit("limits.processes", 40)
    return plans.with_disk(p, "/home/agent", DISK, 4096)


@pytest.fixture(scope="module")
def place():
    folder = tempfile.mkdtemp(prefix="stockade-vm-", dir="/dev/shm")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def machine(image, plan, place):
    vm.make_disk(f"{place}/disk", DISK)
    with vm.Machine(place, image, plan, f"{place}/disk") as m:
        yield m


NUMBERS = itertools.count(1)  # of runs: the guest keeps those of earlier connections


@pytest.fixture
def conn(machine):
    with machine.connect(timeout=60) as c:
        yield c


def sh(conn, script):
    run = conn.end(conn.sh(script, number=next(NUMBERS)))
    return run.code, run.out.decode(), run.err.decode()


# --- the image ---

def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_input_gives_the_same_bytes(image, tmp_path):
    time.sleep(1)
    assert vm.make_image(tmp_path).returncode == 0
    for name in ("kernel", "initrd"):
        assert digest(image / name) == digest(tmp_path / name), name


def test_the_archive_has_nothing_else(image):
    names = subprocess.run(["cpio", "-t", "--quiet"], stdin=open(image / "initrd"), stdout=subprocess.PIPE, check=True, text=True)
    assert names.stdout.split()[:2] == ["init", "modules"]
    modules = [n for n in names.stdout.split()[2:] if n != "modules-vsock"]
    assert all(n.startswith(("modules/", "modules-vsock/")) and n.endswith(".ko") for n in modules)


def test_no_privilege_is_needed(tmp_path):
    os.chmod(tmp_path, 0o777)
    folder = tempfile.mkdtemp(prefix="stockade-vm-")
    try:
        os.chown(folder, 65534, 65534)
        made = vm.make_image(folder, user=65534, group=65534, extra_groups=[])
        assert made.returncode == 0, made.stderr
    finally:
        shutil.rmtree(folder)


def kernel_with(change):
    raw = bytearray(pathlib.Path(f"/boot/vmlinuz-{vm.release()}").read_bytes())
    return change(raw) or raw


def payload_of(raw):
    return (raw[0x1f1] + 1) * 512 + struct.unpack_from("<I", raw, 0x248)[0]


def flipped(raw):
    raw[payload_of(raw) + 1000000] ^= 0xff
    raw[payload_of(raw) + 2000000] ^= 0xff


def packed_otherwise(raw):
    raw[payload_of(raw)] ^= 0xff


WRONG = {
    "empty": (lambda raw: bytearray(b"\0"), "no x86 boot image"),
    "a program": (lambda raw: bytearray(pathlib.Path("/bin/true").read_bytes()), "no x86 boot image"),
    "cut short": (lambda raw: raw[:len(raw) // 2], "cut short"),
    "damaged": (flipped, "its checksum is wrong"),
    "packed otherwise": (packed_otherwise, "not packed with LZ4"),
    "nameless": (lambda raw: raw.__setitem__(slice(0x20e, 0x210), b"\xff\xff"), "does not say which kernel"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_named(name, tmp_path):
    change, sentence = WRONG[name]
    (tmp_path / "vmlinuz").write_bytes(kernel_with(change))
    made = vm.make_image(tmp_path, kernel=tmp_path / "vmlinuz")
    assert made.returncode == 1 and "vmlinuz" in made.stderr, made.stderr
    assert sentence in made.stderr, made.stderr
    assert not (tmp_path / "kernel").exists() and not (tmp_path / "initrd").exists()


def test_modules_of_another_kernel(tmp_path):
    modules = tmp_path / "modules"
    for name in ("virtio", "virtio_ring", "virtio_mmio"):
        path = modules / "kernel/drivers/virtio" / f"{name}.ko"
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = pathlib.Path(f"/lib/modules/{vm.release()}/kernel/drivers/virtio/{name}.ko").read_bytes()
        path.write_bytes(raw.replace(b"vermagic=" + vm.release().encode(), b"vermagic=9" + vm.release().encode()[1:]))
    made = vm.make_image(tmp_path, modules=modules)
    assert made.returncode == 1 and "virtio.ko: the module is not one of kernel" in made.stderr


# --- the machine ---

def test_a_command_runs_and_its_file_is_on_the_disk(machine, conn, place):
    code, out, err = sh(conn, "uname -r; echo kept > /home/agent/file; sync; cat /home/agent/file")
    assert (code, out) == (0, f"{vm.release()}\nkept\n"), err
    assert vm.on_disk(f"{place}/disk", "/file") == b"kept\n"


def test_the_plan_is_in_force(conn):
    code, out, err = sh(conn, "id -u; id -g; hostname; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; "
                              "echo $HOME; pwd; ls /proc/1/ns | wc -l")
    assert out.split()[:3] == ["1000", "1000", "stockade"], (out, err)
    assert "CapEff:\t0000000000000000" in out and "CapBnd:\t0000000000000000" in out
    assert "NoNewPrivs:\t1" in out and "Seccomp:\t2" in out


NOT_THERE = ["touch /usr/x", "touch /etc/x", "touch /x", "ls /dev/vda", "ls /dev/vport0p1", "ls /sys/class", "mount -t tmpfs x /tmp",
             "unshare -U true", "cat /guest.sock", "mknod /tmp/x c 1 3", "ls /cgroup", "cat /dev/mem"]


@pytest.mark.parametrize("attempt", NOT_THERE)
def test_what_nobody_can_do_inside(conn, attempt):
    code, out, err = sh(conn, attempt)
    assert code != 0, (out, err)


def test_host_files_are_those_of_the_host(conn):
    code, out, err = sh(conn, "sha256sum < /usr/bin/env; stat -c %s /usr/bin/python3; /usr/bin/python3 -c 'print(6 * 7)'")
    assert code == 0, err
    assert out.split()[0] == hashlib.sha256(pathlib.Path("/usr/bin/env").read_bytes()).hexdigest()
    assert out.split()[-1] == "42"


def test_private_places_are_sized(conn):
    code, out, err = sh(conn, "df -B1 --output=size /home/agent /tmp /dev/shm | tail -n 3; head -c 100000000 /dev/zero > /home/agent/big; "
                              "echo $?; rm -f /home/agent/big")
    disk, tmp, shm, full = map(int, out.split())
    assert disk <= DISK and tmp == 256 << 20 and shm == 64 << 20 and full == 1, (out, err)


def test_memory_is_limited_by_its_own_kernel(conn):
    code, out, err = sh(conn, "/usr/bin/python3 -c 'x = [bytearray(b\"x\") * (1 << 20) for i in range(400)]'; echo $?; free -m")
    assert out.splitlines()[0] == "137", (out, err)
    assert sh(conn, "echo still here")[1] == "still here\n"


def processes(conn):
    """How many there are inside. Counting them starts none."""
    return sh(conn, "n=0; for p in /proc/[0-9]*; do n=$((n + 1)); done; echo $n")[1]


def test_processes_are_limited(conn):
    before = processes(conn)
    code, out, err = sh(conn, "for i in $(seq 80); do sleep 1000 & done")
    assert "Resource temporarily unavailable" in err or "Cannot fork" in err, (code, out, err)
    code, out, err = sh(conn, "kill -9 -1")
    assert code == 0, err
    until(lambda: processes(conn) == before, vm.BOOT)
    code, out, err = sh(conn, "/bin/true && echo still here")
    assert (code, out) == (0, "still here\n"), err


def test_the_clock_is_right(conn):
    begin = time.time()
    code, out, err = sh(conn, "date +%s")
    assert code == 0, err
    assert begin - 5 < int(out) < time.time() + 5
    begin = time.monotonic()
    code, out, err = sh(conn, "cut -d' ' -f1 /proc/uptime; sleep 2; cut -d' ' -f1 /proc/uptime")
    spent = time.monotonic() - begin
    assert code == 0, err
    before, after = map(float, out.split())
    assert 1.9 <= after - before <= spent + 0.1, (before, after, spent)  # it neither stands still nor runs ahead of ours


def test_its_time_is_that_of_its_files(conn):
    """Files have the host's times: a clock of whole seconds would have them made in the future."""
    before = time.time()
    code, out, err = sh(conn, "date +%s.%N")
    after = time.time()
    assert code == 0, err
    assert before - 0.1 < float(out) < after + 0.1, (before, out, after)


# --- connections over a line that has none ---

def test_a_newer_connection_takes_over(machine):
    with machine.connect(timeout=60) as first:
        run = first.sh("echo begun; sleep 1000", number=next(NUMBERS))
        first.wait(lambda: run.out == b"begun\n")
        with machine.connect(timeout=60) as second:
            assert second.end(second.sh("echo two", number=next(NUMBERS))).out == b"two\n"
            with pytest.raises(Broken):
                first.idle(60)
            assert run.number in second.list_runs()


def test_nothing_of_an_earlier_connection_arrives(machine):
    """Somebody who asked for much and does not listen goes; whoever is next finds a stream that begins with hello. (The
    client fails on any byte that is not of its own connection.)"""
    for n in range(4):
        deaf = socket.socket(socket.AF_UNIX)
        deaf.connect(machine.socket)
        with machine.connect(timeout=60) as c:
            loud = c.sh("exec cat /dev/zero", number=next(NUMBERS))
            c.socket.setblocking(True)
            time.sleep(1)  # its window fills, and all that is on the way
        deaf.close()
        with machine.connect(timeout=60) as c:
            assert sh(c, f"echo {n}")[1] == f"{n}\n"
            c.signal(loud, 9)


def test_much_goes_through(conn):
    began = time.monotonic()
    run = conn.sh("head -c 30000000 /dev/zero", number=next(NUMBERS))
    run.keep = False
    assert conn.end(run).code == 0 and run.next(OUT) == 30000000
    print(f"{30 / (time.monotonic() - began):.0f} MB/s")


# --- where its programs run ---

def status(pid, key):
    return next(line.split(":")[1].split() for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                if line.startswith(key + ":"))


@pytest.mark.parametrize("who", ["qemu", "files"])
def test_namespaces_of_its_own(machine, who):
    pid = getattr(machine, who)
    for kind in ("mnt", "net", "ipc", "uts", "pid"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/{machine.process.pid}/ns/{kind}"), kind
    links = pathlib.Path(f"/proc/{pid}/net/dev").read_text()
    assert [line.split(":")[0].strip() for line in links.splitlines()[2:]] == ["lo"]
    assert status(pid, "NoNewPrivs") == ["1"] and status(pid, "Seccomp") == ["2"]


def test_qemu_is_nobody(machine):
    assert status(machine.qemu, "Uid") == [str(vm.ID_BASE + 1)] * 4
    assert status(machine.qemu, "Gid") == [str(vm.ID_BASE + 1)] * 4
    assert status(machine.qemu, "Groups") == []
    for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status(machine.qemu, key)[0], 16) == 0


def test_the_file_server_has_nothing_of_the_hosts(machine):
    assert status(machine.files, "Uid") == [str(vm.ID_BASE)] * 4
    assert os.readlink(f"/proc/{machine.files}/ns/user") != os.readlink("/proc/self/ns/user")


def test_qemu_sees_itself_and_its_image(machine):
    root = pathlib.Path(f"/proc/{machine.qemu}/root")
    assert sorted(os.listdir(root)) == ["bin", "dev", "etc", "image", "lib", "lib64", "usr"]
    assert os.listdir(root / "etc") == ["ld.so.cache"] and os.listdir(root / "dev") == ["null"]
    assert os.listdir(root / "usr/bin") == ["qemu-system-x86_64"] and sorted(os.listdir(root / "image")) == ["initrd", "kernel"]
    for point in pathlib.Path(f"/proc/{machine.qemu}/mountinfo").read_text().splitlines():
        assert "ro" in point.split()[5].split(","), point


def test_qemu_has_no_other_descriptors(machine):
    kinds = {os.readlink(f"/proc/{machine.qemu}/fd/{n}").split(":")[0].split(" ")[0] for n in os.listdir(f"/proc/{machine.qemu}/fd")}
    assert all(k in ("socket", "anon_inode", "/dev/null", "/memfd") or k.endswith(("/disk", "/log")) for k in kinds), kinds


def test_all_goes_with_its_keeper(image, plan, tmp_path):
    vm.make_disk(tmp_path / "disk", DISK)
    with vm.Machine(str(tmp_path), image, plan, tmp_path / "disk") as m:
        m.process.kill()
        m.process.wait()
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in (m.qemu, m.files)))


def test_a_machine_that_cannot_says_why(image, plan, tmp_path):
    subprocess.run(["truncate", "-s", "16M", tmp_path / "disk"], check=True)  # no file system on it
    with pytest.raises(AssertionError, match="in the machine: cannot mount the disk"):
        vm.Machine(str(tmp_path), image, plan, tmp_path / "disk")


def test_without_a_disk_the_place_is_in_the_tree(image, plan, tmp_path):
    with vm.Machine(str(tmp_path), image, plan.without("OP_DISK"), None) as m:
        with m.connect(timeout=60) as c:
            assert sh(c, "cat /proc/self/mounts")[1].count(" virtiofs ") > 0
