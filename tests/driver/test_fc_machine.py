"""A machine as Firecracker would have it, with a stand-in for Firecracker that boots it in QEMU: its jail, its API, its
streams, and its files over FUSE. Without a warden."""
import os
import shutil
import subprocess
import tempfile

import pytest

import fc_install
import needed
import vm
from frames import OUT
from vm import plans

if why := fc_install.missing():
    needed.missing(why)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    made = vm.make_image(folder)
    assert made.returncode == 0, made.stderr
    os.chmod(folder, 0o755)
    return folder


@pytest.fixture(scope="module")
def place():
    folder = tempfile.mkdtemp(prefix="stockade-fc-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def machine(image, place):
    fc_install.write_programs(place)
    plan = plans.compile_plan(profile="medium").limit("limits.memory", 256 << 20).limit("limits.processes", 40)
    programs = [f"{place}/jailer", f"{place}/firecracker", vm.DRIVER / "stockade-vm-files"]
    with vm.Machine(place, image, plan, more=programs) as m:
        yield m


@pytest.fixture
def connection(machine):
    with machine.connect() as c:
        yield c


NUMBERS = iter(range(1, 1000))


def sh(connection, script):
    run = connection.end(connection.sh(script, number=next(NUMBERS)))
    return run.code, run.out.decode(), run.err.decode()


def test_it_is_a_machine_with_the_plan(connection):
    code, out, err = sh(connection, "id -u; uname -r; cat /proc/self/status; echo $PWD")
    assert code == 0, err
    assert out.split()[:2] == ["1000", vm.release()]
    assert "CapBnd:\t0000000000000000" in out and "NoNewPrivs:\t1" in out and "Seccomp:\t2" in out


def test_host_files_come_over_the_stream(connection):
    code, out, err = sh(connection, "grep ' / ' /proc/mounts; sha256sum < /usr/bin/env; /usr/bin/python3 -c 'print(6 * 7)'")
    assert code == 0, err
    ours = subprocess.run("sha256sum < /usr/bin/env", shell=True, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert ours.split()[0] in out and out.split()[-1] == "42"


@pytest.mark.parametrize("attempt", ["touch /usr/x", "touch /x", "ls /dev/fuse", "ls /dev/vport0p1", "ls /dev/vport0p2",
                                     "python3 -c 'import socket; socket.socket(40, 1)'", "cat /dev/mem"])
def test_what_nobody_can_do_inside(connection, attempt):
    code, out, err = sh(connection, attempt)
    assert code != 0, (out, err)


def test_much_goes_through(connection):
    run = connection.sh("head -c 10000000 /dev/zero", number=next(NUMBERS))
    run.keep = False
    assert connection.end(run).code == 0 and run.next(OUT) == 10000000


def test_its_file_server_has_little(machine):
    with open(f"/proc/{machine.files}/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["Uid"].split() == [str(vm.ID_BASE)] * 4
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0b11011111  # chown … setuid, without kill
    assert int(status["CapBnd"], 16) == 0
