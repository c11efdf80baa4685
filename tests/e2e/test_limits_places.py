"""Limits of places, output, time and disks, and what happens when a limit cannot be enforced."""
import json
import os
import subprocess

import pytest

import harness

FILL = """
import os, errno
fd = os.open("{path}/fill", os.O_WRONLY | os.O_CREAT)
total = 0
try:
    while True: total += os.write(fd, b"x" * 65536)
except OSError as e:
    print(total, errno.errorcode[e.errno], flush=True)
{end}
"""
INODES = """
import os, errno
count = 0
try:
    while True:
        os.close(os.open("{path}/%d" % count, os.O_WRONLY | os.O_CREAT)); count += 1
except OSError as e:
    print(count, errno.errorcode[e.errno])
"""
DAEMON = """
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: time.sleep(1)
        os._exit(0)
print("up", flush=True)
while True: time.sleep(1)
"""
MIB = 1 << 20


@pytest.mark.parametrize("path, key", [("/tmp", "files.workspace.size"), ("/dev/shm", "shm")])
def test_size_of_places(py, path, key):
    result = py(FILL.format(path=path, end="os._exit(9)"), "--set", f"{key}=8MiB")
    assert result.text == f"{8 * MIB} ENOSPC\n" and result.status == 9
    assert result.reason == "disk_full", result.record
    assert path in result.errors and result.record["limits_hit"] != []


def test_full_place_that_the_command_copes_with(py):
    result = py(FILL.format(path="/tmp", end="os.unlink('/tmp/fill')"), "--size", "4MiB")
    assert result.status == 0 and result.reason == "exited"


@pytest.mark.parametrize("path", ["/tmp", "/dev/shm"])
def test_inodes_of_places(py, path):
    options = ["--inodes", "100"] if path == "/tmp" else []
    count, error = py(INODES.format(path=path), *options).text.split()
    assert error == "ENOSPC" and int(count) <= (100 if path == "/tmp" else 4096)


def test_home_of_medium_is_limited(py):
    result = py(FILL.format(path="/home/agent", end=""), "--profile", "medium", "--size", "6MiB")
    assert result.text == f"{6 * MIB} ENOSPC\n"


def test_no_place_without_a_limit(py):
    """Whatever can be written inside is small: the sum of all writable file systems is what the profile says."""
    script = """
import os
seen = {}
for line in open("/proc/self/mountinfo"):
    f = line.split()
    s = os.statvfs(f[4])
    if not s.f_flag & os.ST_RDONLY and line.split(" - ")[1].split()[0] not in ("proc", "devpts", "mqueue", "devtmpfs"):
        seen[f[2]] = (f[4], s.f_blocks * s.f_frsize, s.f_files)
print(sum(v[1] for v in seen.values()), max(v[2] for v in seen.values()), seen)
"""
    total, inodes = py(script).ok().split()[:2]
    assert int(total) <= (64 + 16 + 4) * MIB and int(inodes) <= 10_000


def test_workspace_changes_are_limited(py, place):
    (place / "small").write_text("x")
    result = py(FILL.format(path=place, end=""), "--workspace", place, "--discard", "--size", "8MiB")
    total, error = result.text.split()
    assert error == "ENOSPC" and int(total) <= 8 * MIB and os.listdir(place) == ["small"]


def test_timeout_of_a_command_that_ignores_everything(py):
    limit = int(3 * max(1, harness.SLOW / 3))  # time to start

    def once():
        result = py(DAEMON, "--timeout", f"{limit}s")
        assert result.text == "up\n" and result.status == 124 and result.reason == "timeout"
    assert harness.quickest(once, limit + 2.5 * harness.SLOW) < limit + 2.5 * harness.SLOW  # nothing is left, as after every test


def test_end_of_a_command_that_leaves_daemons(py):
    def once():
        assert py(DAEMON.replace('while True: time.sleep(1)\n"""', "").rsplit("while", 1)[0]).ok() == "up\n"
    assert harness.quickest(once, 3 * harness.SLOW) < 3 * harness.SLOW


def test_timeout_while_stopped(sh):
    """Frozen processes are ended too."""
    result = sh("kill -STOP $$; echo went on", "--timeout", "300ms")
    assert result.status == 124 and result.out == b""


def test_timeout_while_nobody_reads(who, place):
    """A reader that does not read cannot suspend a time limit: what is left is dropped, and the record says so."""
    record = place / "record.json"
    with harness.start(who, "--timeout", "400ms", "--output", "1GiB", "--", "yes", record=record,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.wait(20 * harness.SLOW) == 124
        made = json.loads(record.read_text())
        assert made["reason"] == "timeout" and made["output_cut"] is True
        process.stdout.close()


def test_output_limit_stops_a_flood(run):
    result = run("--output", "3MiB", "--", "cat", "/dev/zero")
    assert len(result.out) == 3 * MIB and result.reason == "output_limit" and result.status == 137


@pytest.fixture
def disk(suite, root):
    """A file on a loop disk of its own, not in any cache."""
    if not os.path.exists("/dev/loop-control"):
        harness.missing("no loop devices")
    import subprocess
    image, target = suite.folder / "disk.img", suite.folder / "disk"
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    target.mkdir(exist_ok=True)
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", image], check=True)
    loop = subprocess.run(["/sbin/losetup", "--find", "--show", "--direct-io=on", image], capture_output=True, check=False)
    if loop.returncode:
        harness.missing(f"losetup: {loop.stderr.decode()}")
    device = loop.stdout.decode().strip()
    try:
        subprocess.run(["mount", device, target], check=True)
        (target / "data").write_bytes(os.urandom(24 * MIB))
        target.chmod(0o777)
        (target / "data").chmod(0o644)
        os.sync()
        yield target
    finally:
        subprocess.run(["umount", target], check=False)
        subprocess.run(["/sbin/losetup", "--detach", device], check=False)
        image.unlink()


READ = """
import os, mmap, time
buf = mmap.mmap(-1, 1 << 20)
fd = os.open("/data/data", os.O_RDONLY | os.O_DIRECT)
begin = time.monotonic()
total = 0
while n := os.readv(fd, [buf]): total += n
print(total, time.monotonic() - begin)
"""
WRITE = """
import os, mmap, time
buf = mmap.mmap(-1, 1 << 20)
fd = os.open("/data/new", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
begin = time.monotonic()
for i in range(16): os.writev(fd, [buf])
print(16 << 20, time.monotonic() - begin)
"""


def rate(result):
    if result.status == 125:
        harness.missing(result.errors)
    total, seconds = result.ok().split()
    return int(total) / float(seconds) / MIB


@pytest.mark.leaves
def test_disk_read(py, disk):
    fast = rate(py(READ, "--ro", f"{disk}:/data"))
    slow = rate(py(READ, "--ro", f"{disk}:/data", "--disk-read", "20MiB/s"))
    assert slow <= 26 and fast > 1.5 * slow, f"{fast} MiB/s, with the limit {slow}"


@pytest.mark.leaves
def test_disk_write(py, disk):
    if not harness.PURE_V2:  # v1 throttles only what goes past the page cache: that is no limit, and said so
        options = ["--rw", f"{disk}:/data", "--disk-write", "16MiB/s"]
        result = py("print('ran')", *options)
        assert result.status == 125 and "limits.disk_write cannot be enforced" in result.errors
        result = py("print('ran')", *options, "--accept-missing", "limits.disk_write")
        assert result.ok() == "ran\n" and result.record["not_enforced"] == ["limits.disk_write"]
        return
    slow = rate(py(WRITE, "--rw", f"{disk}:/data", "--disk-write", "16MiB/s"))
    assert slow <= 21, f"{slow} MiB/s"


# --- a limit that cannot be enforced


@pytest.fixture
def poor(suite):
    """A user to whom nobody delegated a cgroup."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    person = suite.person("rootless")

    class Poor(harness.Person):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.__dict__.update(person.__dict__)
            self.uid = self.gid = harness.TEST_UID + 1
            self.home = person.home.with_name("poor")
            self.home.mkdir(exist_ok=True)
            os.chown(self.home, self.uid, self.gid)
    return Poor()


@pytest.mark.parametrize("key", ["limits.memory", "limits.processes", "limits.cpus", "budget.cpu"])
def test_unenforceable_limit_is_refused(poor, key):
    others = [w for w in harness.WITHOUT_CGROUPS if w not in (key,)]
    options = []
    for word in others:
        if word.startswith("--"):
            continue
        options += ["--accept-missing", word]
    result = harness.run(poor, *options, "--", "echo", "ran")
    assert result.status == 125 and result.out == b""
    assert key in result.errors and "stockade setup" in result.errors and "--accept-missing" in result.errors


def test_accepted_limits_are_in_the_record(poor):
    result = harness.run(poor, *harness.WITHOUT_CGROUPS, "--", "echo", "ran")
    assert result.ok() == "ran\n"
    assert sorted(result.record["not_enforced"]) == ["budget.cpu", "limits.cpus", "limits.memory", "limits.processes"]


def test_accepted_limit_that_works_is_enforced(run, py):
    """--accept-missing is no switch: what can be enforced is."""
    result = py("x = bytearray(1 << 30)", "--memory", "48MiB", "--accept-missing", "limits.memory")
    assert result.reason == "oom" and result.record["not_enforced"] == []


def test_unenforceable_keys_are_refused(run):
    result = run("--set", "budget.tokens=5", "--", "echo", "ran")
    assert result.status == 125 and result.out == b"" and "budget.tokens" in result.errors
