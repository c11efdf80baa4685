"""New system calls forced to ENOSYS in turn: the run works with everything it promises, or is refused; never weaker."""
import os

import socket

import pytest

import harness

CALLS = ["openat2", "clone3", "close_range", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
         "landlock_create_ruleset,landlock_add_rule,landlock_restrict_self", "mount_setattr", "open_tree",
         "open_tree_attr", "open_tree_attr,mount_setattr", "move_mount", "fsopen", "fsconfig", "fsmount", "pidfd_open",
         "pidfd_send_signal", "pidfd_getfd", "seccomp", "memfd_create", "pivot_root", "setns", "unshare", "keyctl",
         "statx", "faccessat2", "renameat2", "execveat", "copy_file_range", "splice", "capset", "prlimit64",
         "openat2,close_range,faccessat2,mount_setattr,landlock_create_ruleset"]

# what code inside can do: one line for every guarantee that is broken
PROBE = r"""
import ctypes, errno, fcntl, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def broken(what, call):
    try:
        if call() not in (None, False, -1): print("broken:", what)
    except (OSError, ValueError): pass
def writes(path):
    return lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)) or True
def reads(path):
    return lambda: bool(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
for path in ("/usr/bin/planted", "/etc/planted", "/planted", "/dev/planted", "/run/planted"):
    broken("write " + path, writes(path))
for path in ("/root", "/home", "/var", "/etc/shadow", "/sys/kernel", CANARY, "/proc/1/root" + CANARY):
    broken("read " + path, reads(path))
for path in ("/proc/sys/kernel/hostname", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/core_pattern",
             "/proc/sysrq-trigger"):
    broken("open " + path, lambda: os.close(os.open(path, os.O_WRONLY)) or True)
def executes(path):
    def call():
        import shutil
        shutil.copy("/usr/bin/true", path); os.chmod(path, 0o755)
        pid = os.fork()
        if pid == 0:
            try: os.execv(path, ["true"])
            finally: os._exit(99)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.unlink(path)
        return status == 0
    return call
for path in ("/tmp/t", "/dev/shm/t"): broken("execute " + path, executes(path))
def forked(call):
    def run():
        pid = os.fork()
        if pid == 0:
            r = call()
            os._exit(0 if r == 0 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return run
broken("unshare user", forked(lambda: libc.unshare(0x10000000)))
broken("unshare mount", forked(lambda: libc.unshare(0x20000)))
broken("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
broken("umount", lambda: libc.umount2(b"/proc", 2) == 0)
broken("remount", lambda: libc.mount(None, b"/usr", None, 0x20 | 0x1000, None) == 0)
broken("sethostname", lambda: libc.sethostname(b"x", 1) == 0)
broken("bpf", lambda: libc.syscall(321, 0, 0, 0) >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES))
broken("io_uring", lambda: libc.syscall(425, 8, ctypes.create_string_buffer(256)) >= 0)
broken("ptrace pid 1", lambda: libc.ptrace(16, 1, 0, 0) == 0)
broken("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and True)
broken("netlink audit", lambda: socket.socket(16, socket.SOCK_RAW, 9) and True)
broken("vsock", lambda: socket.socket(40, socket.SOCK_STREAM, 0) and True)
def interfaces(): return len(socket.if_nameindex()) > 1
broken("network interfaces", interfaces)
broken("processes of others", lambda: len([p for p in os.listdir("/proc") if p.isdigit()]) > 3)
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
if status["NoNewPrivs"].strip() != "1": print("broken: new privileges")
if status["Seccomp"].strip() != "2": print("broken: no filter")
for cap in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[cap], 16): print("broken:", cap)
if os.getuid() == 0 or open("/proc/self/uid_map").read().split()[1] == "0": print("broken: root outside")
fds = [fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and os.path.exists("/proc/self/fd/" + fd)]
if [fd for fd in fds if not os.readlink("/proc/self/fd/" + fd).startswith("/proc")]: print("broken: descriptors", fds)
print("probed", os.getpid())
"""


@pytest.fixture
def enosys(suite):
    return harness.compile_c(suite, "enosys.c")


def run_without(person, helper, call, *args, **kw):
    """The launcher in a world without that call, with a descriptor open that must not get in."""
    path = person.home / "record.json"
    held = os.open(person.home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        process = person.popen([helper, call, *person.command(*args, record=path)], stdin=-1, stdout=-1, stderr=-1,
                               pass_fds=[held], **kw)
    finally:
        os.close(held)
    return harness.finish(process, path, b"", 5)


def probe(person):
    canary = person.home / "canary-71aa"
    canary.write_text("secret")
    return PROBE.replace("CANARY", repr(str(canary)))


def judge(result, call):
    """Refused with a sentence, or everything holds. Returns whether it ran."""
    assert result.status in (0, 125), f"{call}: {result}"
    if result.status == 125:
        lines = result.errors.splitlines()
        assert 1 <= len(lines) <= 3 and lines[0].startswith("stockade: "), lines
        assert b"probed" not in result.out
        return False
    assert "broken" not in result.text and "probed" in result.text, f"without {call}: {result.text}"
    return True


def test_probe_itself(who, py):
    """With every call there, nothing is broken; and the probe can tell."""
    assert "broken" not in py(probe(who)).ok()
    if who.rootless:
        bare = harness.finish(who.popen([harness.PYTHON, "-ISc", probe(who)], stdout=-1, stderr=-1)).text
        words = ["/home", "canary", "execute", "new privileges", "no filter", "processes", "root outside"]
        if len(socket.if_nameindex()) > 1:  # a host that has nothing but lo cannot show the difference
            words.append("interfaces")
        for word in words:
            assert word in bare, bare


@pytest.mark.parametrize("call", CALLS)
def test_without(who, enosys, call):
    result = run_without(who, enosys, call, "--", harness.PYTHON, "-ISc", probe(who))
    judge(result, call)


@pytest.mark.parametrize("call", ["openat2", "clone3", "mount_setattr", "landlock_create_ruleset", "close_range", "renameat2",
                                  "copy_file_range", "pidfd_send_signal", "statx"])
def test_workspace_without(who, enosys, call):
    """A workspace is applied wholly, or the run is refused and nothing is changed."""
    folder = who.folder()
    (folder / "file").write_text("old\n")
    os.chown(folder / "file", who.uid, who.gid)
    result = run_without(who, enosys, call, "--workspace", folder, "--apply", "--", "sh", "-c", "echo new > file; echo x > added")
    text, names = (folder / "file").read_text(), sorted(os.listdir(folder))
    assert (result.status, text, names) in ((0, "new\n", ["added", "file"]), (125, "old\n", ["file"])), result


@pytest.mark.parametrize("call", ["openat2", "clone3", "mount_setattr", "landlock_create_ruleset", "pidfd_send_signal",
                                  "close_range"])
def test_limits_without(who, enosys, call):
    """Limits hold or the run is refused."""
    result = run_without(who, enosys, call, "--timeout", "400ms", "--processes", "10", "--", "sh", "-c",
                         "trap '' TERM INT; (setsid sleep 60 &); while :; do sleep 1; done")
    assert result.status in (124, 125), result
    result = run_without(who, enosys, call, "--memory", "40MiB", "--", harness.PYTHON, "-ISc", "x = bytearray(1 << 30)")
    assert result.status in (137, 125) and (result.status == 125 or result.reason == "oom"), result


@pytest.mark.parametrize("call", ["openat2", "clone3", "mount_setattr", "open_tree_attr", "pidfd_send_signal", "pidfd_open"])
@pytest.mark.leaves
def test_killed_without(who, enosys, call):
    """kill -9 leaves nothing on an older kernel either."""
    before = who.suite.digest()
    process = who.popen([enosys, call, *who.command("--", "sh", "-c", "(setsid sleep 60 &); sleep 60")], stdin=-3,
                        stdout=-3, stderr=-3)
    harness.until(lambda: process.poll() is not None, 0.1)
    process.kill()
    process.wait()
    left = who.suite.left_since(before)
    assert not left, left


@pytest.mark.parametrize("call", ["openat2", "clone3", "mount_setattr", "landlock_create_ruleset", "landlock_add_rule",
                                  "landlock_restrict_self", "open_tree", "fsopen", "move_mount", "seccomp"])
def test_refusal_names_the_remedy(who, enosys, call):
    """Somebody with an older kernel is told what is missing and how to get it."""
    result = run_without(who, enosys, call, "--", "true")
    if result.status == 125:
        assert "Linux" in result.errors or "kernel" in result.errors, result.errors
        assert "\n  " in result.errors, f"no next step: {result.errors}"


@pytest.mark.parametrize("call", ["pidfd_send_signal", "pidfd_open", "signalfd4"])
def test_signals_without(who, enosys, call):
    """Signals reach the command, or the run is refused: it does not go deaf."""
    process = who.popen([enosys, call, *who.command("--", "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done")],
                        stdin=-3, stdout=-1, stderr=-1)
    try:
        if process.stdout.readline() == b"up\n":
            process.terminate()
            assert process.wait(harness.ENOUGH * harness.SLOW) == 9
        else:
            assert process.wait(harness.ENOUGH * harness.SLOW) == 125
    finally:
        harness.stop(process)
