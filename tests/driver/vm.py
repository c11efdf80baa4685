"""Machines for tests: an image of the installed kernel, and a microVM on it, with or without a warden."""
import glob
import os
import pathlib
import re
import select
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
for folder in ("guest", "warden", "common"):
    sys.path.append(str(HERE.parent / folder))

import plans  # noqa: E402
from client import Connection  # noqa: E402

DRIVER = plans.BUILD / "src/driver"
ID_BASE = 0x40000000 + 4000 * 65536  # one that nobody else has
BOOT = 120  # seconds: an emulated machine on a busy host


def release():
    found = glob.glob("/boot/vmlinuz-*-cloud-amd64")
    return max(found, key=lambda p: [int(n) for n in re.findall(r"\d+", p)]).removeprefix("/boot/vmlinuz-") if found else None


def missing():
    if not release():
        return "there is no kernel for a microVM: apt-get install linux-image-cloud-amd64"
    for program in ("/usr/bin/qemu-system-x86_64", "/usr/lib/qemu/virtiofsd"):
        if not os.path.exists(program):
            return f"{program} is missing: apt-get install qemu-system-x86"
    return None


def make_image(folder, kernel=None, modules=None, init=None, **kw):
    name = release()
    return subprocess.run([DRIVER / "stockade-vm-image", kernel or f"/boot/vmlinuz-{name}", modules or f"/lib/modules/{name}",
                           init or DRIVER / "stockade-vm-init", folder], stderr=subprocess.PIPE, text=True, **kw)


def make_disk(path, size):
    with open(path, "wb") as f:
        f.truncate(size)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-E", "root_owner=1000:1000", path], check=True)


def on_disk(path, name):
    """What a file holds, read from the image as it lies there: nobody mounts what a machine has written."""
    return subprocess.run(["debugfs", "-R", f"cat {name}", path], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


class Machine:
    """vm-run, from its start to its end."""

    def __init__(self, folder, image, plan, disk=None, more=()):
        self.socket = os.path.join(folder, "guest.sock")
        (pathlib.Path(folder) / "plan").write_bytes(plan.bytes())
        self.log = open(os.path.join(folder, "log"), "wb+")
        words = [str(plans.BUILD / "tests/driver/vm-run"), str(image), f"{folder}/plan", str(ID_BASE), self.socket]
        self.process = subprocess.Popen(words + ([str(disk)] if disk else []) + [str(word) for word in more], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.qemu = int(self.line().removeprefix("qemu "))
        self.files = int(self.line().removeprefix("files "))
        began = time.monotonic()
        assert self.line() == "serving", self.said()
        self.took = time.monotonic() - began

    def line(self):
        assert select.select([self.process.stdout], [], [], BOOT)[0], self.said()
        return self.process.stdout.readline().decode().strip()

    def said(self):
        self.log.seek(0)
        return self.log.read().decode()

    def connect(self, **kw):
        return Connection(self.socket, **kw)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
