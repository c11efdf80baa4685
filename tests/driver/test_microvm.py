"""The microvm driver under a real warden: sandboxes in machines are sandboxes like all others."""
import os
import pathlib
import signal
import time

import pytest

import plans
import vm
import wire
from daemon import alive, cgroups, until

if why := vm.missing():
    if os.environ.get("STOCKADE_MUST_WORK") == "1":
        pytest.fail(why)
    pytest.skip(why, allow_module_level=True)

MICROVM = 3


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    made = vm.make_image(folder)
    assert made.returncode == 0, made.stderr
    os.chmod(folder, 0o755)
    return folder


@pytest.fixture
def boxes(make, image):
    """A warden whose programs of boxes are in a folder with an image beside them."""
    d = make(conf="drivers = native microvm\n")
    folder = d.state / "boxes"
    folder.mkdir()
    os.link(vm.DRIVER / "stockade-box-microvm", folder / "stockade-box-microvm")
    (folder / "microvm").symlink_to(image)
    d.args = ("--boxes", str(folder))
    d.start(args=d.args)
    return d


def small(plan):
    return plan.limit("limits.memory", 256 << 20)


def test_starts_serves_and_stops(boxes, low, inside):
    id, answer, guest, fds = boxes.begin(small(low), driver=MICROVM)
    c = inside(guest)
    said, code = c.output("uname -r; id -u; cat /proc/1/comm; grep -c . /proc/mounts")
    assert said.split()[:3] == [vm.release(), "1000", "guest"], said
    boxes.stop(id)
    assert not alive(answer.pid) and not cgroups(id)
