"""A host to throw away: PID 1 of namespaces of its own, in which one judge runs.

With layers off a sandbox is weaker than it looks, so the judge's "host" is never the machine: its own pid, mount,
network, ipc, uts and (as root) cgroup namespaces, a copy-on-write view of the machine's tree, and its own /tmp,
/dev/shm and folder of records. What a run leaves behind goes with them; only cgroups are the machine's; the next
ordinary run sweeps them up.

    unshare … python3 throwaway.py (root|rootless) BUILD WORD…

runs `stockade WORD…` of a build folder as this caller, waits until everything that it started is gone, and ends as it
did. STOCKADE_KNOCKOUT is handed on.
"""
import contextlib
import ctypes
import os
import pwd
import secrets
import stat
import subprocess
import sys
import time
from pathlib import Path

USER, UID = "stockade-matrix", 4243  # nobody else's: a launcher sweeps up after others of its user
BIN = Path("/tmp/stockade-matrix")
PROGRAMS = ("cli/stockade", "cli/stockade-guest", "cli/stockade-policy", "gate/stockade-gate",
            "gate/stockade-gate-tls.so", "probe/stockade-probe", "verify/stockade-verify")
CGROUP = Path("/sys/fs/cgroup")
AGENT = Path("/home/agent")
GROUPS, INNER = "stockade.matrix", "judge"
NAMESPACES = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--ipc", "--uts",
              "--propagation", "private"]
LINGER = 2  # seconds for keepers to end; what stays longer ends with PID 1


def run(caller, build, words, off="", timeout=120):
    """Runs `stockade WORDS` on a host to throw away. Raises TimeoutExpired."""
    name = secrets.token_hex(6)
    command = [*NAMESPACES, sys.executable, "-B", __file__, caller, str(build), *words]
    try:
        return subprocess.run(command, capture_output=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
                              env={**os.environ, "STOCKADE_KNOCKOUT": off, "MATRIX_ID": name})
    finally:
        remove_cgroups(name)


def prepare(build):
    """What every throw-away host shares with the machine: a user for rootless runs. As root."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["/usr/sbin/useradd", "--uid", str(UID), "--user-group", "--no-create-home", "--home-dir",
                        "/nonexistent", "--shell", "/bin/sh", USER], check=True)
    subprocess.run([build / "src/cli/stockade", "setup", "--user", USER], check=True, capture_output=True)
    for _, _, _, groups in hierarchies():
        groups.mkdir(exist_ok=True)


def copy_devices(target):
    """Nodes of our own for the machine's devices: their modes and owners can be changed without harm."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", target], check=True)
    for entry in os.scandir("/dev"):
        info, copy = entry.stat(follow_symlinks=False), target / entry.name
        if entry.is_symlink():
            copy.symlink_to(os.readlink(entry.path))
        elif stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
            os.mknod(copy, info.st_mode, info.st_rdev)
            os.chown(copy, info.st_uid, info.st_gid)
            copy.chmod(stat.S_IMODE(info.st_mode))
        elif entry.is_dir() and entry.name in ("pts", "shm", "mqueue", "net"):
            copy.mkdir()
            subprocess.run(["mount", "--rbind", entry.path, copy], check=True)


def cover_tree():
    """A root of our own: the machine's, copy-on-write. What is written with layers off stays here; only kernel file
    systems and what is mounted below them are the machine's."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/mnt"], check=True)
    root, upper, work = (Path("/mnt", name) for name in ("root", "upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir()
    options = f"lowerdir=/,upperdir={upper},workdir={work},index=on,nfs_export=on"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", root], check=True)
    for place in ("proc", "sys"):
        subprocess.run(["mount", "--rbind", f"/{place}", root / place], check=True)
    copy_devices(root / "dev")
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chroot(".")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True)


def furnish(programs):
    for place in ("/tmp", "/dev/shm", "/var/lib/stockade"):
        if not Path(place).is_dir():
            continue
        mode = "0755" if place.startswith("/var") else "1777"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", place], check=True)
    BIN.mkdir()
    for name, content in programs.items():  # an ordinary user may not be able to read the build's folder
        (BIN / Path(name).name).write_bytes(content)
        (BIN / Path(name).name).chmod(0o755)
    home = BIN / "home"
    home.mkdir()
    if not AGENT.exists():  # a profile's workspace, for sandboxes that see the host's tree; one mount with /tmp
        AGENT.symlink_to("/tmp")
    return home


def hierarchies():
    """Every cgroup hierarchy: where it is mounted, its kind and options, and the folder for groups of roots' hosts."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        kind, _, words = right.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        place = Path(left.split()[4])
        names = [word for word in words.split(",") if word not in ("rw", "ro")]
        group = next((path for name, path in own.items() if (name in names if kind == "cgroup" else name == "")), None)
        if group is None or "cpuset" in names:
            continue
        yield place, kind, ",".join(names) if kind == "cgroup" else "", place / group.lstrip("/") / GROUPS


def own_cgroups():
    """Groups of our own in every hierarchy, which are the roots of what is seen here: other sandboxes of the machine
    come and go, and the judge would wait for them. Whoever made us removes them: remove_cgroups."""
    mounts = list(hierarchies())
    for _, _, _, groups in mounts:
        folder = groups / f"matrix-{os.environ['MATRIX_ID']}"
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text("0")
    if ctypes.CDLL(None, use_errno=True).unshare(0x02000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for place, kind, names, _ in mounts:
        subprocess.run(["umount", place], check=True)
        subprocess.run(["mount", "-t", kind, *(["-o", names] if names else []), kind, place], check=True)
        (place / INNER).mkdir()  # not at the root: from there a sandbox that sees the host's path would see nothing
        (place / INNER / "cgroup.procs").write_text("0")


def hide_cgroups():
    """An ordinary user's judge works in the machine's own hierarchies: those of roots' hosts beside it are hidden."""
    for _, _, _, groups in hierarchies():
        if groups.is_dir():
            subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", groups], check=True)


def remove_cgroups(name):
    """From outside, when everything in them is gone; the deepest first."""
    found = [Path(folder) for folder, _, _ in os.walk(CGROUP) if f"/matrix-{name}" in folder]
    for folder in sorted(found, key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()


def tidy():
    """When no host is left: the folders that all of them shared."""
    for _, _, _, groups in hierarchies():
        with contextlib.suppress(OSError):
            groups.rmdir()


def become_ordinary():
    """With cgroup v2 alone, where a login shell of this user would be; then its ids."""
    shell = CGROUP / f"stockade/{UID}/shell/cgroup.procs"
    if (CGROUP / "cgroup.controllers").exists() and shell.exists():
        shell.write_text("0")
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)


def reap_all(child):
    """As PID 1: everything that is orphaned comes here."""
    status = None
    end = None
    while end is None or time.monotonic() < end:
        try:
            pid, how = os.waitpid(-1, 0 if status is None else os.WNOHANG)
        except ChildProcessError:
            break
        if pid == child:
            status = os.waitstatus_to_exitcode(how)
            end = time.monotonic() + LINGER
        elif pid == 0:
            time.sleep(0.02)
    return status


def main(caller, build, *words):
    (own_cgroups if caller == "root" else hide_cgroups)()
    programs = {name: (Path(build) / "src" / name).read_bytes() for name in PROGRAMS}
    cover_tree()
    home = furnish(programs)
    if caller == "rootless":
        os.chown(home, UID, UID)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), "LANG": "C.UTF-8"}
    if os.environ.get("STOCKADE_KNOCKOUT"):
        environment["STOCKADE_KNOCKOUT"] = os.environ["STOCKADE_KNOCKOUT"]
    child = os.fork()
    if child == 0:
        if caller == "rootless":
            become_ordinary()
        os.chdir(home)
        os.execve(BIN / "stockade", ["stockade", *words], environment)
    status = reap_all(child)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
