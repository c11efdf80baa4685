"""What a captured stockade-ssh could do: its own processes, before and after authentication, are made to try."""
import errno
import importlib.util
import os
import subprocess
from pathlib import Path

import harness

_spec = importlib.util.spec_from_file_location("operator_confined", Path(harness.__file__).with_name("test_confined.py"))
_others = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_others)

FOREIGN = [
    ("read a file", 'open("/etc/passwd", 0)'),
    ("make a file", 'open("/tmp/made-by-ssh", 0101, 0600)'),
    ("reach the network", "socket(2, 1, 0)"),
    ("reach other daemons", "socket(1, 1, 0)"),
    ("make another pair of sockets", "socketpair(2, 1, 0, $sp - 64)"),
    ("connect what it has", 'connect(3, "\\1\\0/run/x", 9)'),
    ("bind", 'bind(3, "\\1\\0x", 4)'),
    ("execute", 'execve("/bin/true", 0, 0)'),
    ("make namespaces", "unshare(0x10000000)"),
    ("trace its parent", "ptrace(16, {parent}, 0, 0)"),
    ("kill its parent", "kill({parent}, 9)"),
    ("become root", "setuid(0)"),
    ("make memory executable", "(long)mmap(0, 4096, 7, 0x22, -1, 0)"),
    ("use io_uring", "syscall(425, 8, $sp - 256)"),
    ("use bpf", "syscall(321, 0, 0, 0)"),
]


def try_all(pid, parent):
    calls = [call.replace("{parent}", str(parent)) for _, call in FOREIGN]
    for (name, call), (result, error) in zip(FOREIGN, _others.attempts(pid, calls)):
        assert result == -1 and error in (errno.EPERM, errno.EACCES), f"{name}: {call} gave {result}, {error}"
    assert not os.path.exists("/tmp/made-by-ssh")


def test_the_listener(door):
    try_all(door.process, door.daemon.warden)


def test_a_connection(door, box):
    running = door.start("ssh", f"{box}@127.0.0.1", "echo on; sleep 1000.75", stdout=subprocess.PIPE)
    try:
        assert running.stdout.readline() == b"on\n"
        mine = [pid for pid in harness.pids() if (harness.stat_of(pid) or (0,))[0] == door.process]
        assert len(mine) == 1
        try_all(mine[0], door.daemon.warden)
        ((result, error),) = _others.attempts(mine[0], ["accept4(5, 0, 0, 0)"])
        assert result == -1 and error in (errno.EPERM, errno.EBADF)
        held = [os.readlink(fd) for fd in Path(f"/proc/{mine[0]}/fd").iterdir()]
        assert all(target.startswith(("socket:", "pipe:")) or target in ("/dev/null", str(door.daemon.log)) for target in held), held
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
