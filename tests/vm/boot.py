"""What the guest boots: Debian's cloud kernel, unpacked, and an initramfs with our first process and the drivers.

A packed kernel would unpack itself inside the guest, which is slow without KVM; unpacked, it is an ELF file that QEMU's
microvm starts directly. The initramfs also carries /config, the host's wishes for this one run.
"""

import glob
import io
import os
import re
import stat
import struct
import subprocess
import time

from rootimage import HERE, VmError, output_of

# In this order, each with what it depends on. The rest is in the guest's /lib/modules, for modprobe.
MODULES = ("virtio_mmio", "virtio_blk", "virtio_console", "virtio-rng", "overlay", "loop")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root",
               "LOGNAME": "root", "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "dumb"}
COMPILE = ("musl-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-static")


def kernel_release():
    found = glob.glob("/boot/vmlinuz-6.1.*-cloud-amd64")
    if not found:
        raise VmError("no kernel for the guest in /boot: apt-get install linux-image-cloud-amd64")
    newest = max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path)])
    return newest.removeprefix("/boot/vmlinuz-")


def newer(target, *sources):
    """Whether `target` exists and is younger than what it is made of."""
    return os.path.exists(target) and all(os.stat(target).st_mtime > os.stat(s).st_mtime for s in sources)


def kernel_image(cache, release):
    """The ELF inside vmlinuz. The boot protocol's header says where it is; the last four bytes are only its size."""
    packed, target = f"/boot/vmlinuz-{release}", os.path.join(cache, f"vmlinux-{release}")
    if newer(target, packed):
        return target
    with open(packed, "rb") as file:
        image = file.read()
    if image[0x202:0x206] != b"HdrS":
        raise VmError(f"{packed} is not a Linux boot image: reinstall its package")
    start = (image[0x1F1] + 1) * 512 + struct.unpack_from("<I", image, 0x248)[0]
    payload = image[start:start + struct.unpack_from("<I", image, 0x24C)[0] - 4]
    tools = {b"\x02\x21\x4c\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd\x37\x7a\x58": "xz"}
    tool = tools.get(payload[:4], "gzip")
    done = subprocess.run([tool, "-dc"], input=payload, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.stdout[:4] != b"\x7fELF":
        raise VmError(f"cannot unpack {packed} with {tool}: {done.stderr.decode(errors='replace').strip()}")
    write_beside(target, done.stdout)
    return target


def write_beside(target, data):
    with open(target + ".new", "wb") as file:
        file.write(data)
    os.rename(target + ".new", target)


def program(cache, name):
    """A static program built from NAME.c in this folder."""
    source, target = os.path.join(HERE, name + ".c"), os.path.join(cache, name)
    if not newer(target, source):
        try:
            output_of(*COMPILE, "-o", target + ".new", source)
        except FileNotFoundError:
            raise VmError("musl-gcc is missing: apt-get install musl-tools") from None
        os.rename(target + ".new", target)
    return target


def modules(release):
    """Paths of the drivers in an order in which they load, from the kernel's own list of dependencies."""
    folder, depends, order = f"/usr/lib/modules/{release}", {}, []
    with open(f"{folder}/modules.dep", encoding="utf-8") as file:
        for line in file:
            path, _, rest = line.partition(":")
            depends[os.path.basename(path).removesuffix(".ko")] = [path] + rest.split()
    for name in MODULES:
        if name not in depends:
            raise VmError(f"kernel {release} has no module {name}: reinstall its package")
        for path in reversed(depends[name]):
            if f"{folder}/{path}" not in order:
                order.append(f"{folder}/{path}")
    return order


def cpio_entry(name, data=b"", mode=stat.S_IFREG | 0o644):
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def initramfs(cache, release, cwd, env, argv):
    """The archive as bytes: made anew for each run, because it carries the command."""
    drivers = modules(release)
    names = ["/" + os.path.basename(path) for path in drivers]
    wishes = [f"module={name}" for name in names]
    wishes += [f"now={int(time.time())}", f"cwd={cwd}"]
    wishes += [f"env={key}={value}" for key, value in {**ENVIRONMENT, **env}.items()]
    wishes += [f"arg={arg}" for arg in argv]
    config = b"".join(os.fsencode(wish) + b"\0" for wish in wishes)
    if len(config) > 65536 or len(argv) > 512 or len(env) > 500:
        raise VmError("the command and its environment are too long for the guest (64 KiB)")
    out = io.BytesIO()
    with open(program(cache, "init"), "rb") as file:
        out.write(cpio_entry("init", file.read(), stat.S_IFREG | 0o755))
    for name, path in zip(names, drivers):
        with open(path, "rb") as file:
            out.write(cpio_entry(name[1:], file.read()))
    for folder in ("dev", "root"):
        out.write(cpio_entry(folder, mode=stat.S_IFDIR | 0o755))
    out.write(cpio_entry("config", config) + cpio_entry("TRAILER!!!"))
    return out.getvalue()
