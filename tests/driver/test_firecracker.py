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

import fc_install
import plans
import pytest
import vm
import wire
from daemon import Refused, alive, cgroups, until
from every_box import test_adoption, test_pauses  # noqa: F401  pylint: disable=unused-import
from test_box import _answers, below, status
from test_disks import with_disk  # noqa: F401, pylint: disable=unused-import
from test_microvm import (  # noqa: F401, pylint: disable=unused-import
    part, test_a_list_of_programs_is_kept, test_disk, test_more_files_than_its_server_has_descriptors,
    test_more_memory_than_allowed_ends_the_run_alone,
    test_much_goes_both_ways, test_places_are_of_the_size_asked_for, test_processes_are_counted_inside,
    test_terminal, test_the_user_inside_has_no_rights, test_what_was_written_is_not_executed,
    test_without_a_network_there_is_only_loopback)
from test_network import DENIALS, DNS, MEMORY, reach

fc_install.install()

FIRECRACKER = 4
PROGRAM = vm.DRIVER / "stockade-box-firecracker"

@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "microvm").mkdir()
    made = vm.make_image(folder / "microvm")
    assert made.returncode == 0, made.stderr
    for name in (PROGRAM, vm.DRIVER / "stockade-vm-files"):
        shutil.copy(name, folder)
    return folder


@pytest.fixture
def start(make, programs):
    def one(conf=""):
        d = make(conf=f"drivers = native firecracker\n{conf}")
        d.args, d.driver = ("--boxes", str(programs)), FIRECRACKER
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
    for pid in below(keeper):  # where its limits are, whoever started it
        assert pathlib.Path(f"/proc/{pid}/cgroup").read_text() == pathlib.Path(f"/proc/{keeper}/cgroup").read_text()


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


@pytest.fixture
def moods():
    path = fc_install.PLACE / "moods"
    yield lambda said: path.write_text(json.dumps(said))
    path.unlink()


@pytest.mark.parametrize("question, mood, sentence", [
    ("jailer", "die", "ended before it could be asked anything (there is no room for another machine)"),
    ("GET /", "no JSON", "is not JSON"),
    ("GET /", "die", "before"),
    ("PUT /machine-config", "hang", "could not size the machine: Firecracker did not answer within"),
    ("PUT /boot-source", "cut", "closed the connection before the answer was whole"),
    ("PUT /vsock", "nonsense", "could not give the machine its line: Firecracker: the answer is not HTTP"),
    ("PUT /entropy", "huge", "the answer is larger than"),
    ("PUT /network-interfaces/link", "refuse", "could not give the machine a link: Firecracker says (400) 'no \\x1broom'"),
    ("PUT /actions", "die", "could not start the machine"),
    ("boot", "die", "the machine ended before its kernel had booted"),
    ("boot", "hang", "the machine's kernel did not boot"),
])
def test_what_goes_wrong_is_said_and_leaves_nothing(boxes, networked, moods, question, mood, sentence):
    moods({question: mood})
    before = set(below(boxes.process.pid))
    with pytest.raises(Refused) as refused:
        boxes.begin(networked.limit("limits.memory", 256 << 20), driver=FIRECRACKER)
    assert sentence in str(refused.value)
    assert boxes.running() == set()
    until(lambda: set(below(boxes.process.pid)) <= before)


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


def probe(programs):
    return json.loads(subprocess.run([programs / PROGRAM.name, "probe"], check=True, stdout=subprocess.PIPE, timeout=100).stdout)


def test_probe_boots_a_machine(programs):
    said = probe(programs)
    assert said["offered"] is True and said["version"].startswith("1.16."), said
    assert set(said["guarantees"].values()) == {"kept"} and "stand-in" in said["note"]


def test_probe_quotes_who_does_not_start(programs, moods):
    moods({"jailer": "die"})
    said = probe(programs)
    assert said["offered"] is False and "(there is no room for another machine)" in said["why"] and said["fix"], said


@pytest.mark.parametrize("name", ["firecracker", "jailer"])
def test_probe_says_what_to_install(programs, name):
    program = fc_install.PLACE / name
    text = program.read_text()
    program.unlink()
    try:
        said = probe(programs)
    finally:
        program.write_text(text)
        program.chmod(0o755)
    assert said["driver"] == "firecracker" and said["offered"] is False
    assert f"'{name}' is not installed" in said["why"] and "jailer" in said["fix"] and "1.16" in said["fix"]
