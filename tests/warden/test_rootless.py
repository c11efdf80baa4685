"""A daemon without root: sandboxes in memory, one id, and what needs root is refused in words."""
import os
import signal

import plans
import pytest
import wire
from daemon import alive, new_id, until
from test_life import refused
from test_network import reach

USER = (4399, 4399)
ACCEPT = [word for key in ("limits.memory", "limits.cpus", "limits.processes", "budget.cpu") for word in ("--accept-missing", key)]


@pytest.fixture
def user(make):
    d = make(who=USER)
    assert d.start().flags & wire.ROOTLESS
    return d


@pytest.fixture(scope="session")
def plain():
    return plans.compile_plan(*ACCEPT, rootless=True)


def test_lives_and_is_adopted(user, plain, inside):
    id, answer, guest, _ = user.begin(plain)
    c = inside(guest)
    assert c.output("id -u")[0] == "1000\n"
    files = user.ask("leaf", id=id, run=5)[1]
    run = c.sh("sleep 1000", number=5, fds=files)
    c.wait(lambda: run.pid)
    wire.close(files)
    user.kill()
    assert alive(answer.pid)
    user.start()
    assert user.running() == {id}
    user.ask("usage", id=id)
    os.kill(answer.pid, signal.SIGKILL)
    assert user.wait_told("gone").id == id
    id, answer, _, _ = user.begin(plain)
    user.stop(id)
    until(lambda: not alive(answer.pid))


def test_limits_that_cannot_be_had_are_refused(user):
    """Unless this host delegated cgroups to the user."""
    plan = plans.compile_plan(rootless=True)
    try:
        id, _, _, _ = user.begin(plan)
        user.stop(id)
    except Exception as e:  # pylint: disable=broad-except
        assert e.error == -1002 and "limits." in e.text and ("stockade setup" in e.hint or "systemd-run" in e.hint), e


def test_disks_need_root(user, plain):
    for kind, values in (("disk-make", dict(size=1 << 26, inodes=1000)), ("disk-drop", {}), ("disk-space", {}),
                         ("image-drop", {})):
        refused(lambda kind=kind, values=values: user.ask(kind, id=new_id(), **values), -1002, "root")
    with_disk = plans.with_disk(plans.compile_plan(*ACCEPT, profile="medium", rootless=True), "/home/agent", 1 << 26, 1000)
    refused(lambda: user.begin(with_disk, disk=new_id()), -1001, "disks need root")
    assert plain


def test_a_network_again(user, inside):
    plan = plans.compile_plan(*ACCEPT, "--allow", "example.com:443", profile="medium", rootless=True)
    id, _, guest, fds = user.begin(plan)
    assert len(fds) == 7
    wire.close(fds)
    c = inside(guest)
    user.kill()
    user.start()
    fds = user.ask("network", id=id)[1]
    assert reach(c, fds, 1) == b"world\n"
    wire.close(fds)
    answer, fds = user.ask("gate", slot=0)
    with open(f"/proc/{answer.pid}/status", encoding="ascii") as f:
        assert f.read().split("Uid:")[1].split()[0] == str(USER[0])
    wire.close(fds)
