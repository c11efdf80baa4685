"""Stand-ins where the jailer and Firecracker would be (fc_standin.py), for this process and what it starts: in a mount
namespace of its own."""
import ctypes
import os
import pathlib
import subprocess

import fc_standin
import needed
import vm

PLACE = pathlib.Path("/usr/local/bin")
PROGRAM = """#!/bin/sh
STOCKADE_FIRECRACKER_API=%s STOCKADE_STANDIN_MOODS=%s exec /usr/bin/python3 %s "$@"
"""


def missing():
    if os.geteuid() != 0:
        return "not started by root"
    if not os.path.exists("/dev/kvm"):
        return "there is no /dev/kvm, without which Firecracker is not asked"
    return vm.missing()


def write_programs(folder):
    for name in ("jailer", "firecracker"):
        path = pathlib.Path(folder) / name
        path.write_text(PROGRAM % (fc_standin.DESCRIPTION or "", path.with_name("moods"), fc_standin.__file__))
        path.chmod(0o755)


def install():
    """Once in a process: what else is in that folder is not seen any more."""
    if why := missing():
        needed.missing(why)
    if os.path.exists(PLACE / "jailer") and fc_standin.__file__ in (PLACE / "jailer").read_text(errors="replace"):
        return
    assert ctypes.CDLL(None, use_errno=True).unshare(0x20000) == 0  # CLONE_NEWNS
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "standin", PLACE], check=True)
    write_programs(PLACE)
