"""What a test puts under a daemon: file systems that are small, that stop answering, that lose their power (mounted in a
mount namespace of the test's own, so that none outlives it), and a libc that says that the disk fails."""
import ctypes
import fcntl
import os
import struct
import shutil
import subprocess
from pathlib import Path

import harness

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
FREEZE, THAW, SHUTDOWN = 0xC0045877, 0xC0045878, 0x8004587D
NO_FLUSH = 2
_own = []


def own_mounts():
    """From here on mounts of this process are its own."""
    if _own:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no mount namespace of our own")
    _own.append(True)


class Ground:
    """mount() at path, end() at last."""

    def __init__(self, path):
        own_mounts()
        self.path, self.mounted = Path(path), False

    def __enter__(self):
        return self.mount()

    def __exit__(self, *_):
        self.end()

    def umount(self):
        subprocess.run(["umount", str(self.path)], check=True)
        self.mounted = False

    def end(self):
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=True)
        self.mounted = False

    def fill(self, leave=0):
        """Takes all that is left of it, but for so many bytes; a second time, what has become free since."""
        with open(self.path / "ballast", "ab", buffering=0) as f:
            for size in (1 << 16, 1 << 12, 1 << 10):
                while True:
                    space = os.statvfs(self.path)
                    if space.f_bavail * space.f_frsize < leave + size:
                        break
                    try:
                        f.write(bytes(size))
                    except OSError:
                        break

    def make_room(self):
        (self.path / "ballast").unlink(missing_ok=True)


class Memory(Ground):
    def __init__(self, path, size):
        super().__init__(path)
        self.size = size

    def mount(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size},mode=700", "none", str(self.path)], check=True)
        self.mounted = True
        return self


class Disk(Ground):
    """An ext4 in a file beside the daemon's folder, with a name by which `stockade verify`, which may run meanwhile, takes it
    for the disk of a sandbox and not for a change of the host."""

    def __init__(self, path, size):
        super().__init__(path)
        self.image = self.path.parent / "disks/00000000000000aa/disk.img"
        self.image.parent.mkdir(parents=True, exist_ok=True)
        with open(self.image, "wb") as f:
            f.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-E", "root_owner=0:0", str(self.image)], check=True)

    def mount(self):
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.path)], check=True)
        self.mounted = True
        lost = self.path / "lost+found"
        if lost.exists():
            lost.rmdir()
        self.path.chmod(0o700)
        return self

    def control(self, what, argument=None):
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, what, argument if argument is not None else 0)
        finally:
            os.close(fd)

    def freeze(self):
        """Whoever writes waits, and not even kill -9 ends it."""
        self.control(FREEZE)

    def thaw(self):
        self.control(THAW)

    def cut(self):
        """The power goes: what is not on the disk by now never gets there."""
        self.control(SHUTDOWN, struct.pack("I", NO_FLUSH))

    def end(self):
        if self.mounted:
            try:
                self.thaw()
            except OSError:
                pass
        super().end()
        self.image.unlink(missing_ok=True)


class Programs:
    """Ours, with another operator in front of the real one."""

    def __init__(self, folder):
        self.folder = folder

    def __getattr__(self, name):
        return self.folder / name.replace("_", "-")


def faulty(daemon, suite, name="", limit=0):
    """Starts a daemon whose operator has tests/records/faults.c before its libc, for files with `name` in their names:
    daemon.fault("s") says what fails from then on. limit: of descriptors."""
    build = Path(os.environ.get("STOCKADE", harness.SOURCE / "build/src/cli/stockade")).resolve().parents[2]
    preload, folder = build / "tests/records/faults.so", daemon.state.parent / "bin"
    if not preload.exists():
        harness.missing(f"'{preload}' is not built")
    shutil.copytree(suite.programs.folder, folder)
    shutil.copy(preload, folder)
    (folder / "faults.so").chmod(0o755)
    fault = folder / "fault"
    fault.write_text("0")
    fault.chmod(0o644)
    wrapper = folder / "stockade-operator"
    wrapper.rename(folder / "operator-itself")
    wrapper.write_text("\n".join(filter(None, [
        "#!/bin/bash", limit and f"ulimit -n {limit}", f"export FAULTS='{fault}' LD_PRELOAD='{folder}/faults.so'",
        name and f"export FAULTS_NAME='{name}'", f"exec -a stockade-operator '{folder}/operator-itself'", ""])))
    wrapper.chmod(0o755)
    daemon.programs = Programs(folder)

    def set_fault(letter):  # in place: it is in the operator's memory, too
        with open(fault, "r+b", buffering=0) as f:
            f.write(letter.encode())
    daemon.fault = set_fault
    return daemon.start()
