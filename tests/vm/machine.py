"""The guest as a process: QEMU, its one stream to us, and the promise that it never outlives the run.

Nothing here has a name in the file system: the stream is a socket pair, the initramfs and the checkout are unnamed
files, QEMU's write layer is a file that QEMU unlinks. QEMU runs without network and gets SIGKILL when we die.
"""

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from boot import kernel_image, program
from rootimage import VmError, output_of

PR_SET_PDEATHSIG = 1
TIMED_OUT = 124

CMDLINE = ("quiet loglevel=0 panic=-1 reboot=t mitigations=off cryptomgr.notests audit=0 lsm=landlock "
           "rcupdate.rcu_expedited=1 8250.nr_uarts=0 no_timer_check cgroup_no_v1=all psi=1 tsc=reliable")
TALKATIVE = ("loglevel=7 panic=-1 reboot=t mitigations=off cryptomgr.notests audit=0 lsm=landlock console=ttyS0 "
             "earlyprintk=ttyS0 rcupdate.rcu_expedited=1 no_timer_check cgroup_no_v1=all psi=1 tsc=reliable")


def qemu_command(cache, release, options, root, files):
    """`files` has the descriptors: stream, initrd, checkout."""
    khz = output_of(program(cache, "tsc")).strip()
    serial = "on" if options.console else "off"
    line = f"{TALKATIVE if options.console else CMDLINE} tsc_early_khz={khz}"
    return ["qemu-system-x86_64", "-M", f"microvm,acpi=on,pit=off,pic=off,rtc=on,isa-serial={serial}",
            "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(options.cpus), "-m", options.memory,
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none",
            "-kernel", kernel_image(cache, release), "-initrd", f"/proc/self/fd/{files['initrd']}", "-append", line,
            "-drive", f"id=root,file={root},format=raw,if=none,snapshot=on,cache=unsafe",
            "-device", "virtio-blk-device,drive=root",
            "-drive", f"id=tree,file=/proc/self/fd/{files['checkout']},format=raw,if=none,readonly=on,cache=unsafe",
            "-device", "virtio-blk-device,drive=tree",
            "-device", "virtio-rng-device", "-device", "virtio-serial-device",
            "-chardev", f"socket,id=stream,fd={files['stream']}",
            "-device", "virtserialport,nr=1,chardev=stream,name=stockade.check"] + (
            ["-chardev", "file,id=log,path=/dev/stderr", "-serial", "chardev:log"] if options.console else [])


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class Frames:
    """Cuts the guest's bytes into frames of kind, length and data."""

    def __init__(self):
        self.waiting = b""

    def feed(self, data):
        self.waiting += data
        while len(self.waiting) >= 5:
            kind, size = struct.unpack_from("<cI", self.waiting)
            if len(self.waiting) < 5 + size:
                return
            yield kind, self.waiting[5:5 + size]
            self.waiting = self.waiting[5 + size:]


def write_out(data):
    while data:
        data = data[os.write(1, data):]


def follow(stream, deadline, say, started):
    """Passes the command's output on until its exit status comes; returns the status."""
    frames = Frames()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            say("the guest did not finish in time and was stopped; give it more with --timeout SECONDS")
            return TIMED_OUT
        if not select.select([stream], [], [], min(left, 60))[0]:
            continue
        data = stream.recv(65536)
        if not data:
            raise VmError("the guest stopped without an exit status; see its kernel's messages with --console")
        for kind, body in frames.feed(data):
            if kind == b"o":
                write_out(body)
            elif kind == b"x":
                return int(body)
            elif body == b"ready\n":
                say(f"guest ready after {time.monotonic() - started:.1f} s")
            else:
                say("guest: " + body.decode(errors="replace").strip())


def run_machine(cache, release, options, root, initrd, checkout, say):
    """Starts the guest, follows it to its end; the exit status of its command."""
    ours, theirs = socket.socketpair()
    files = {"stream": theirs.fileno(), "initrd": initrd.fileno(), "checkout": checkout.fileno()}
    command = qemu_command(cache, release, options, root, files)
    started = time.monotonic()
    try:
        qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=tuple(files.values()),
                                preexec_fn=die_with_parent)
    except FileNotFoundError:
        raise VmError("qemu-system-x86_64 is missing: apt-get install qemu-system-x86") from None
    theirs.close()
    try:
        return follow(ours, started + options.timeout, say, started)
    finally:
        qemu.kill()
        qemu.wait()
        ours.close()
