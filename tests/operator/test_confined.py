"""What an operator could do that somebody else has taken over: its own process is made to try, by a debugger."""
import errno
import os
import re
import subprocess
from pathlib import Path

import pytest

import harness

# name, what it calls, what it may return. The calls are the C library's, in the operator's own process.
FOREIGN = [
    ("write a foreign file", 'open("/etc/passwd", 1)', {errno.EACCES}),
    ("read a foreign file", 'open("/etc/passwd", 0)', {errno.EACCES}),
    ("list a foreign folder", 'open("/", 0200000)', {errno.EACCES}),
    ("make a file elsewhere", 'open("/tmp/made-by-operator", 0101, 0600)', {errno.EACCES}),
    ("go up from its own folder", 'open("../run", 0200000)', {errno.EACCES}),
    ("make a device", 'mknod("device", 0020600, 0x101)', {errno.EPERM, errno.EACCES}),
    ("make a link out", 'symlink("/etc/passwd", "out")', {errno.EPERM, errno.EACCES}),
    ("mount", 'mount("none", "/tmp", "tmpfs", 0, 0)', {errno.EPERM}),
    ("reach the network", "socket(2, 1, 0)", {errno.EPERM}),
    ("reach the network by IPv6", "socket(10, 1, 0)", {errno.EPERM}),
    ("send datagrams", "socket(2, 2, 0)", {errno.EPERM}),
    ("reach other daemons", "socket(1, 1, 0)", {errno.EPERM}),
    ("make a pair of sockets that is not of this host", "socketpair(2, 1, 0, $sp - 64)", {errno.EPERM}),
    ("listen to the kernel", "socket(16, 3, 0)", {errno.EPERM}),
    ("talk to the hypervisor", "socket(40, 1, 0)", {errno.EPERM}),
    ("connect what it has", 'connect(4, "\\1\\0/run/x", 9)', {errno.EPERM}),
    ("listen anew", "listen(4, 1)", {errno.EPERM}),
    ("execute", 'execve("/bin/true", 0, 0)', {errno.EPERM, errno.EACCES}),
    ("fork", "fork()", {errno.EPERM, errno.ENOSYS}),
    ("make namespaces", "unshare(0x10000000)", {errno.EPERM}),
    ("trace its parent", "ptrace(16, {parent}, 0, 0)", {errno.EPERM}),
    ("read its parent's memory", "process_vm_readv({parent}, $sp, 1, $sp, 1, 0)", {errno.EPERM}),
    ("signal its parent", "kill({parent}, 0)", {errno.EPERM}),
    ("become root", "setuid(0)", {errno.EPERM}),
    ("make memory executable", "(long)mmap(0, 4096, 7, 0x22, -1, 0)", {errno.EPERM}),
    ("make its own code writable", "mprotect((long)$pc & ~4095, 4096, 7)", {errno.EPERM}),
    ("load a module", 'syscall(175, "x", 1, "")', {errno.EPERM}),
    ("use io_uring", "syscall(425, 8, $sp - 256)", {errno.EPERM}),
    ("use bpf", "syscall(321, 0, 0, 0)", {errno.EPERM}),
    ("use keys", 'syscall(248, "user", "x", "y", 1, -3)', {errno.EPERM}),
    ("open by handle", "syscall(304, 5, $sp, 0)", {errno.EPERM}),
    ("raise its priority", "setpriority(0, 0, -20)", {errno.EPERM}),
    ("change the clock", "syscall(227, 0, $sp)", {errno.EPERM}),
]
# what it needs, so that the others do not fail for another reason
OWN = [
    ("read its own folder", 'open(".", 0200000)'),
    ("write its own folder", 'open("tried", 0102, 0600)'),
    ("remove from it", 'unlink("tried")'),
    ("make a pipe", "pipe2($sp - 64, 02000000)"),
]


def attempts(pid, calls):
    """Each call's (result, errno), made inside that process."""
    lines = ["set confirm off", "set pagination off", "set unwindonsignal on"]
    for number, call in enumerate(calls):
        name, arguments = re.match(r"(?:\(long\))?(\w+)\((.*)\)$", call).groups()
        lines += ["set var *((int *(*)(void))__errno_location)() = 0",
                  "set $r = -12345", f"set $r = ((long (*)()){name})({arguments})",
                  f'printf "tried %d: %d %d\\n", {number}, (int)$r, *((int *(*)(void))__errno_location)()']
    lines.append("detach")
    done = subprocess.run(["gdb", "-batch", "-nx", "-p", str(pid), *[word for line in lines for word in ("-ex", line)]],
                          capture_output=True, text=True, timeout=50 * harness.SLOW, check=False)
    found = {int(n): (int(r), int(e)) for n, r, e in re.findall(r"^tried (\d+): (-?\d+) (\d+)$", done.stdout, re.M)}
    assert len(found) == len(calls), f"{done.stdout}\n{done.stderr}"
    return [found[number] for number in range(len(calls))]


@pytest.fixture(params=["root", "rootless"])
def still(request, make_daemon):
    return make_daemon(conf="pool = 0\n", who=4299 if request.param == "rootless" else None)


def test_captured_operator(still):
    calls = [call.replace("{parent}", str(still.warden)) for _, call, _ in FOREIGN]
    for (name, call, expected), (result, error) in zip(FOREIGN, attempts(still.operator, calls)):
        assert result == -1 and error in expected, f"{name}: {call} gave {result}, {errno.errorcode.get(error, error)}"
    assert still.answers() and not os.path.exists("/tmp/made-by-operator")


def test_what_it_needs(still):
    for (name, _), (result, error) in zip(OWN, attempts(still.operator, [call for _, call in OWN])):
        assert result >= 0, f"{name}: {errno.errorcode.get(error, error)}"
    assert still.answers()


def test_process(still):
    pid = still.operator
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):  # a user cannot empty a bounding set
        assert int(status[kind], 16) == 0 or (kind == "CapBnd" and still.who), kind
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert set(status["Uid"].split()) == {status["Uid"].split()[0]} and status["Uid"].split()[0] != "0"
    assert set(status["Gid"].split()) == {status["Gid"].split()[0]} and status["Gid"].split()[0] != "0"
    assert status["Groups"].strip() == ""
    assert os.stat(f"/proc/{pid}/environ").st_uid == 0  # not dumpable: its files belong to root
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert re.search(r"^Max core file size\s+[01]\s", limits, re.M), limits


def test_descriptors(still):
    """What it holds: its folder and what is in it, sockets and the kernel's counters, and what the warden read for it.
    Nothing of anybody else's."""
    given = {f"/memfd:{name} (deleted)" for name in ("session-secrets", "certificate")}
    own = str(still.state / "operator")
    for fd in Path(f"/proc/{still.operator}/fd").iterdir():
        target = os.readlink(fd)
        fine = (target == own or target.startswith(own + "/") or target.startswith(("socket:", "anon_inode:"))
                or target == "/dev/null" or target in given or (int(fd.name) <= 2 and target == str(still.log)))
        assert fine, f"descriptor {fd.name} is {target}"


def test_not_as_root(suite):
    """Started with everything it needs, but by root: it does not start."""
    import socket  # pylint: disable=import-outside-toplevel
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(suite.folder, os.O_RDONLY | os.O_DIRECTORY)
    null = os.open("/dev/null", os.O_RDONLY)
    wanted = [b.fileno(), listener.fileno(), folder, null]

    def place():
        moved = [os.dup2(fd, 100 + i) for i, fd in enumerate(wanted)]
        for i, fd in enumerate(moved):
            os.dup2(fd, 3 + i)
    done = subprocess.run([suite.programs.stockade_operator], preexec_fn=place, close_fds=False, capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1 and "be another user than root" in done.stderr, done.stderr
    for fd in (folder, null):
        os.close(fd)
    a.close()
    b.close()
    listener.close()


def test_without_descriptors(suite):
    done = subprocess.run([suite.programs.stockade_operator], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "descriptor 3 is missing" in done.stderr and "stockade up" in done.stderr


def test_memory_of_daemons(still):
    assert still.answers()
    assert still.memory() < 24 << 20
