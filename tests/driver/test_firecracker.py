"""Sandboxes of the driver firecracker, under a real warden, with a stand-in for the jailer and Firecracker that boots the
machine in QEMU (fc_standin.py). What does not differ from microvm is microvm's test."""
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import fc_standin
import plans
import pytest
import vm
import wire
from daemon import alive, cgroups, until
from test_box import _answers, below, status
from test_disks import with_disk  # noqa: F401, pylint: disable=unused-import
from test_microvm import (  # noqa: F401, pylint: disable=unused-import
    part, test_a_list_of_programs_is_kept, test_disk, test_more_memory_than_allowed_ends_the_run_alone,
    test_much_goes_both_ways, test_pauses, test_places_are_of_the_size_asked_for, test_processes_are_counted_inside,
    test_terminal, test_the_user_inside_has_no_rights, test_what_was_written_is_not_executed,
    test_without_a_network_there_is_only_loopback)
from test_network import DENIALS, DNS, MEMORY, reach

if not os.path.exists(fc_standin.DESCRIPTION):
    pytest.skip("there is no description of Firecracker's API: STOCKADE_FIRECRACKER_API names one", allow_module_level=True)

FIRECRACKER = 4
PROGRAM = vm.DRIVER / "stockade-box-firecracker"
STANDIN = """#!/bin/sh
STOCKADE_FIRECRACKER_API=%s exec /usr/bin/python3 %s "$@"
"""
# the stand-ins are where Firecracker would be, for this daemon alone
DAEMON = """#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs x /usr/local/bin && cp %s/jailer %s/firecracker /usr/local/bin && exec %s "$@"' stockaded "$@"
"""


def write_program(path, text):
    path.write_text(text)
    os.chmod(path, 0o755)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "microvm").mkdir()
    made = vm.make_image(folder / "microvm")
    assert made.returncode == 0, made.stderr
    for name in (PROGRAM, vm.DRIVER / "stockade-vm-files"):
        shutil.copy(name, folder)
    for name in ("jailer", "firecracker"):
        write_program(folder / name, STANDIN % (fc_standin.DESCRIPTION, fc_standin.__file__))
    return folder


@pytest.fixture
def start(make, programs):
    def one(conf=""):
        d = make(conf=f"drivers = native firecracker\n{conf}")
        write_program(d.state / "stockaded", DAEMON % (programs, programs, d.program))
        d.program = str(d.state / "stockaded")
        d.args = ("--boxes", str(programs))
        d.start(args=d.args)
        return d
    return one


@pytest.fixture
def boxes(start):
    return start()


@pytest.fixture
def box(boxes, inside):
    """box(plan): a sandbox's id, its keeper's pid, and a connection to its guest."""
    def one(plan, memory=256 << 20, **kw):
        id, answer, guest, fds = boxes.begin(plan.limit("limits.memory", memory), driver=FIRECRACKER, **kw)
        wire.close(fds)
        return id, answer.pid, inside(guest)
    return one


def test_starts_serves_and_leaves_nothing(boxes, box, low):
    id, keeper, c = box(low)
    said, _ = c.output("uname -r; id -u; cat /proc/1/comm; hostname")
    assert said.split() == [vm.release(), "1000", "guest", "stockade"], said
    assert [(m.id, m.driver) for m in boxes.list() if m.item == wire.SANDBOX] == [(id, FIRECRACKER)]
    processes = below(keeper)
    assert boxes.stop(id).usage["memory_peak"] > 0
    assert not any(alive(p) for p in [keeper, *processes]) and not cgroups(id)
    assert not (boxes.folder / "run/sandboxes" / id).exists()


def test_nothing_of_ours_is_root_on_the_host(box, low):
    _, keeper, _ = box(low)
    base, files = int(status(keeper)["Uid"].split()[0]), part(keeper, "stockade-vm-files")
    assert all(int(status(keeper)[key], 16) == 0 for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert status(part(keeper, "qemu"))["Uid"].split() == [str(base + 1)] * 4  # as whom it would be Firecracker
    assert status(files)["Uid"].split() == [str(base)] * 4
    assert os.readlink(f"/proc/{files}/ns/user") != os.readlink("/proc/self/ns/user")
    for pid in (keeper, files):
        assert status(pid)["NoNewPrivs"] == "1" and status(pid)["Seccomp"] == "2"
    assert not {"etc", "home", "root", "sys"} & set(os.listdir(f"/proc/{files}/root"))


def test_a_shared_folder_is_one(start, inside, low):
    """What is written on one side is soon seen on the other, under the right owner."""
    shared = pathlib.Path(tempfile.mkdtemp(prefix="stockade-share-", dir="/var/tmp"))
    os.chown(shared, 4321, 4321)
    try:
        d = start(f"ceiling_write = {shared}\n")
        plan = low.before("OP_DEVPTS", plans.Step("OP_BIND", plans.STEP_WRITE | plans.STEP_OWNED | plans.STEP_EXACT, str(shared), "/share"))
        plan = plan.before("OP_LANDLOCK_END", plans.Step("OP_LANDLOCK_RULE", 0, "/share", plan.find("OP_LANDLOCK_RULE", "/tmp").values[1]))
        (shared / "file").write_text("one\n")
        numbers = itertools.count(100)
        c = inside(d.begin(plan.limit("limits.memory", 256 << 20), driver=FIRECRACKER)[2])
        assert c.output("cat /share/file; stat -c %u /share; echo inside > /share/new", number=1)[0] == "one\n1000\n"
        assert (shared / "new").read_text() == "inside\n" and (shared / "new").stat().st_uid == 4321
        (shared / "file").write_text("another\n")
        until(lambda: c.output("cat /share/file", number=next(numbers))[0] == "another\n")
    finally:
        shutil.rmtree(shared)


@pytest.mark.parametrize("which", ["keeper", "qemu", "stockade-vm-files"])
def test_killed_parts_take_the_rest_along(boxes, box, low, which):
    id, keeper, _ = box(low)
    processes = below(keeper)
    os.kill(keeper if which == "keeper" else part(keeper, which), signal.SIGKILL)
    assert boxes.wait_told("gone").id == id
    until(lambda: not any(alive(p) for p in [keeper, *processes]))
    assert boxes.running() == set() and not cgroups(id)


def test_the_network_is_the_gate(boxes, networked, inside):
    id, answer, guest, fds = boxes.begin(networked.limit("limits.memory", 256 << 20), driver=FIRECRACKER)
    assert len(fds) == MEMORY + 1
    c = inside(guest)
    assert reach(c, fds, 5) == b"world\n"
    dns = socket.socket(fileno=os.dup(fds[DNS]))
    run = c.exec("/bin/bash", "-c", "exec 3<>/dev/udp/198.18.0.1/53 && echo question >&3 && timeout 20 head -n 1 <&3", number=6)
    until(lambda: _answers(dns))
    c.end(run)
    assert run.out == b"question\n"
    os.pwrite(fds[DENIALS], b"no rule for evil.test\n", 0)
    numbers = itertools.count(100)
    until(lambda: "no rule for evil.test" in c.output("cat /run/stockade/net/denials", number=next(numbers))[0])
    for name in ("qemu", "stockade-vm-files"):  # who has the tap open has no device
        devices = pathlib.Path(f"/proc/{part(answer.pid, name)}/net/dev").read_text().splitlines()[2:]
        assert {line.split(":")[0].strip() for line in devices} <= {"lo"}
    dns.close()
    wire.close(fds)


def test_probe_says_what_to_install(programs):
    if os.path.exists("/usr/local/bin/firecracker") or os.path.exists("/usr/bin/firecracker"):
        pytest.skip("Firecracker is installed")
    said = json.loads(subprocess.run([programs / PROGRAM.name, "probe"], check=True, stdout=subprocess.PIPE, timeout=100).stdout)
    assert said["driver"] == "firecracker" and said["offered"] is False
    assert "'firecracker' is not installed" in said["why"] and "jailer" in said["fix"] and "1.16" in said["fix"]
