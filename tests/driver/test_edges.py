"""Drivers at their edges, through a whole daemon: what is missing, stands still, is damaged or is killed on the way is a
sentence with a next step, before the start's own deadline is over, and nothing of the sandbox is left."""
import importlib.util
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types

import engine as engines
import needed
import pytest
import vm

OPERATOR = pathlib.Path(__file__).resolve().parent.parent / "operator"
sys.path.append(str(OPERATOR))
import harness  # noqa: E402

_spec = importlib.util.spec_from_file_location("operator_conftest", OPERATOR / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
suite, patience, make_daemon = (getattr(_fixtures, name) for name in "suite patience make_daemon".split())

BOX_S, MACHINE_S = 20, 60  # what the warden waits (warden/start.c)
NETWORK = "profile: 1\nextends: low\nnetwork: {allow: [{host: example.org}]}\n"
VIRTIOFSD = "/usr/lib/qemu/virtiofsd"


@pytest.fixture
def image(tmp_path):
    """A folder with what machines boot; damage it at will."""
    if why := vm.missing():
        needed.missing(why)
    folder = tmp_path / "image"
    folder.mkdir()
    for path in (folder, tmp_path):
        path.chmod(0o755)
    made = vm.make_image(folder)
    assert made.returncode == 0, made.stderr
    return folder


def conf(image):
    return f"drivers = native microvm\nmicrovm_image = {image}\npool = 0\n"


def in_other_mounts(daemon, folder, commands):
    """The daemon's host looks different: these commands are run in a mount namespace of its own first."""
    script = pathlib.Path(folder) / "daemon-in-other-mounts"
    words = shlex.join(["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{commands}\nexec "$0" "$@"', str(daemon.programs.stockaded)])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    daemon.programs = types.SimpleNamespace(stockaded=script)
    return daemon.start()


def parts(daemon):
    """What lives below the warden, itself and its operator aside."""
    below = {}
    for pid in harness.pids():
        below.setdefault((harness.stat_of(pid) or (0,))[0], []).append(pid)
    found, todo = [], list(below.get(daemon.warden, []))
    while todo:
        pid = todo.pop()
        todo += below.get(pid, [])
        found.append(pid)
    return {pid: harness.command_of(pid) for pid in found if harness.alive(pid) and harness.command_of(pid) and pid != daemon.operator}


def named(daemon, program):
    return next((pid for pid, text in parts(daemon).items() if os.path.basename(text.split()[0]) == program), None)


def leftovers(daemon):
    """Nothing of any sandbox: no process, cgroup, mount, loop device, folder or row."""
    mounts = pathlib.Path(f"/proc/{daemon.warden}/mountinfo").read_text()
    looks = {"processes": {pid: text for pid, text in parts(daemon).items() if "stockade-box" in text or "qemu" in text or "virtiofsd" in text},
             "cgroups": daemon.cgroups(), "loops": daemon.loops(), "folders": os.listdir(daemon.state / "run/sandboxes"),
             "mounts": [line for line in mounts.splitlines() if f"{daemon.state}/run/sandboxes/" in line],
             "disks": os.listdir(daemon.state / "disks"), "rows": daemon.client.list(all=True)["sandboxes"]}
    return {key: value for key, value in looks.items() if value}


def refused(daemon, within, **how):
    """The refusal, which comes before the deadline, and nothing is left after it."""
    began = time.monotonic()
    with pytest.raises(harness.Refused) as e:
        daemon.client.ask("create", timeout=2 * within, **how)
    took = time.monotonic() - began
    assert took < within * harness.SLOW, (took, str(e.value))
    assert harness.until(lambda: not leftovers(daemon)), leftovers(daemon)
    assert e.value.code == "unenforced" and e.value.hint, str(e.value)
    return e.value


# --- an engine that stands still ---

@pytest.fixture
def engine():
    if lacking := engines.missing():
        needed.missing(f"there is no {', '.join(lacking)}")
    e = engines.Engine(tempfile.mkdtemp(prefix="stockade-engine-", dir="/var/tmp"))
    e.start()
    yield e
    e.process.send_signal(signal.SIGCONT)
    e.clear()


def test_an_engine_that_stands_still(make_daemon, engine):
    daemon = make_daemon(conf=f"drivers = native docker\ndocker_socket = {engine.socket}\npool = 0\n")
    box = daemon.client.create(profile="low", driver="docker")["id"]
    daemon.client.ask("delete", sandbox=box, force=True)
    engine.process.send_signal(signal.SIGSTOP)
    e = refused(daemon, BOX_S, profile="low", driver="docker")
    assert "the engine did not answer within 6 seconds" in e.message and "start Docker" in e.hint, str(e)
    assert daemon.client.create(profile="low", driver="native")["state"] == "running"  # and nobody else waits
    engine.process.send_signal(signal.SIGCONT)
    assert harness.until(lambda: mended(daemon, "docker")), "it works again, and is not believed"


def mended(daemon, driver):
    try:
        return daemon.client.create(profile="low", driver=driver)["driver"] == driver
    except harness.Refused as e:
        assert e.code == "unenforced", str(e)
        return False


def test_an_engine_that_is_started_later(make_daemon, engine):
    """What a newcomer does: asks, is told to start it, starts it, asks again."""
    engine.stop()
    daemon = make_daemon(conf=f"drivers = native docker\ndocker_socket = {engine.socket}\npool = 0\n")
    e = refused(daemon, BOX_S, profile="low", driver="docker")
    assert "does not work on this host: the engine does not answer" in e.message and "systemctl start docker" in e.hint, str(e)
    engine.start()
    assert harness.until(lambda: mended(daemon, "docker"))


# --- machines that do not come up ---

def garbage(image):
    (image / "kernel").write_bytes(b"not a kernel " * 1000)


def half(image):
    whole = (image / "kernel").read_bytes()
    (image / "kernel").write_bytes(whole[:len(whole) // 2])


def other_archive(image):
    (image / "initrd").write_bytes(bytes(100_000))


@pytest.mark.parametrize("damage,says", [(garbage, "qemu"), (half, ""), (other_archive, "")], ids=lambda v: getattr(v, "__name__", ""))
def test_a_damaged_kernel(make_daemon, image, damage, says):
    daemon = make_daemon(conf=conf(image))
    assert harness.until(lambda: offered(daemon, "microvm"))
    damage(image)
    e = refused(daemon, MACHINE_S, profile="low", driver="microvm")
    assert "could not start the sandbox: the machine" in e.message and says in e.message and "stockade image microvm" in e.hint, str(e)
    again = refused(daemon, BOX_S * 2, profile="low", driver="microvm")  # it was looked at again, by a probe that comes to an end
    assert "does not work on this host: the machine" in again.message and "stockade image microvm" in again.hint, str(again)


def offered(daemon, driver):
    """Its probe was heard, and it said yes."""
    try:
        made = daemon.client.create(profile="low", driver=driver)
    except harness.Refused:
        return False
    daemon.client.ask("delete", sandbox=made["id"], force=True)
    return True


def test_a_machine_that_never_says_hello(make_daemon, image):
    daemon = make_daemon(conf=conf(image))
    assert harness.until(lambda: offered(daemon, "microvm"))
    made = vm.make_image(image, init=vm.plans.BUILD / "tests/driver/vm-mute")
    assert made.returncode == 0, made.stderr
    e = refused(daemon, MACHINE_S, profile="low", driver="microvm")
    assert "the machine runs, and does not answer" in e.message and "stockade image microvm" in e.hint, str(e)


@pytest.mark.parametrize("which", ["virtiofsd", "qemu-system-x86_64"])
def test_a_part_that_is_killed_while_it_starts(make_daemon, image, which):
    daemon = make_daemon(conf=conf(image))
    assert harness.until(lambda: offered(daemon, "microvm"))
    made = vm.make_image(image, init=vm.plans.BUILD / "tests/driver/vm-mute")  # it is starting for as long as it lives
    assert made.returncode == 0, made.stderr
    with daemon.client.call("create", profile="low", driver="microvm") as call:
        assert harness.until(lambda: named(daemon, "qemu-system-x86_64"))  # it is the last
        began = time.monotonic()
        os.kill(named(daemon, which), signal.SIGKILL)
        with pytest.raises(harness.Refused) as e:
            call.answer()
    assert time.monotonic() - began < 10 * harness.SLOW
    says = "virtiofsd, which serves the machine's files, was killed by signal 9" if which == "virtiofsd" else "the machine ended before its guest served"
    assert says in e.value.message and e.value.hint, str(e.value)
    assert harness.until(lambda: not leftovers(daemon)), leftovers(daemon)


# --- what a host may lack ---

def test_without_taps(make_daemon, image, tmp_path):
    daemon = in_other_mounts(make_daemon(start=False, conf=conf(image)), tmp_path, "mount -t tmpfs none /dev/net")
    e = refused(daemon, MACHINE_S, profile_text=NETWORK, driver="microvm")
    assert "this kernel has no tap devices (/dev/net/tun)" in e.message and "modprobe tun" in e.hint, str(e)
    assert daemon.client.create(profile="low", driver="microvm")["state"] == "running"  # without a network it needs none


def test_taps_that_may_not_be_used(make_daemon, image, tmp_path):
    daemon = in_other_mounts(make_daemon(start=False, conf=conf(image)), tmp_path,
                             "mount -t tmpfs -o nodev none /dev/net\nmknod /dev/net/tun c 10 200")
    e = refused(daemon, MACHINE_S, profile_text=NETWORK, driver="microvm")
    assert "the daemon may not use /dev/net/tun" in e.message and "nodev" in e.hint, str(e)


def elsewhere(tmp_path, program):
    """virtiofsd is not where Debian 12 has it, but in /usr/libexec, and is this program."""
    folder = tmp_path / "libexec"
    folder.mkdir(mode=0o755)
    shutil.copy(program, folder / "virtiofsd")
    (folder / "virtiofsd").chmod(0o755)
    return f"mount -t tmpfs none {os.path.dirname(VIRTIOFSD)}\nmount --bind {folder} /usr/libexec"


def test_virtiofsd_at_another_place(make_daemon, image, tmp_path):
    daemon = in_other_mounts(make_daemon(start=False, conf=conf(image)), tmp_path, elsewhere(tmp_path, VIRTIOFSD))
    made = daemon.client.create(profile="low", driver="microvm")["id"]
    assert daemon.client.sh(made, "echo here")["out"] == b"here\n"
    assert any(text.startswith("/usr/libexec/virtiofsd ") for text in parts(daemon).values())


def test_another_virtiofsd(make_daemon, image, tmp_path):
    """The one that is not QEMU's says its version in other words."""
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho virtiofsd 1.13.2\n")
    daemon = in_other_mounts(make_daemon(start=False, conf=conf(image)), tmp_path, elsewhere(tmp_path, other))
    e = refused(daemon, MACHINE_S, profile="low", driver="microvm")
    assert "'/usr/libexec/virtiofsd' (virtiofsd 1.13.2) is not the virtiofsd of QEMU 7.2" in e.message, str(e)
    assert "qemu-system-common" in e.hint


def test_no_virtiofsd(make_daemon, image, tmp_path):
    daemon = in_other_mounts(make_daemon(start=False, conf=conf(image)), tmp_path, f"mount -t tmpfs none {os.path.dirname(VIRTIOFSD)}")
    e = refused(daemon, MACHINE_S, profile="low", driver="microvm")
    assert f"'{VIRTIOFSD}' is not installed" in e.message and "apt-get install qemu-system-common" in e.hint, str(e)


def test_the_folder_that_is_configured(make_daemon, image, tmp_path):
    """microvm_image is the only place that is looked at, and where 'stockade image microvm' puts it."""
    chosen = tmp_path / "chosen"
    chosen.mkdir(mode=0o755)
    daemon = make_daemon(conf=conf(chosen))
    e = refused(daemon, MACHINE_S, profile="low", driver="microvm")
    assert f"there is no kernel for microVMs in '{chosen}'" in e.message and "stockade image microvm" in e.hint, str(e)
    etc = tmp_path / "etc"
    (etc / "stockade").mkdir(parents=True, mode=0o755)
    shutil.copy(daemon.config, etc / "stockade/stockade.conf")
    launcher = os.environ.get("STOCKADE", str(harness.SOURCE / "build/src/cli/stockade"))
    subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-ec", f"mount -t overlay -o lowerdir={etc}:/etc none /etc; exec {launcher} image microvm"],
                   check=True, stdout=subprocess.PIPE)
    assert {"kernel", "initrd"} <= set(os.listdir(chosen))
    assert harness.until(lambda: mended(daemon, "microvm"))


# --- the pool ---

def test_the_pool_does_not_insist(make_daemon, engine):
    """A box that cannot be made ahead is tried again when somebody has made one, and not before."""
    daemon = make_daemon(conf=f"drivers = native docker\ndocker_socket = {engine.socket}\npool = 1\npool_drivers = docker\n")
    daemon.client.create(profile="low", driver="docker")
    assert harness.until(lambda: daemon.client.health()["pool"] == 1)
    engine.stop()
    assert harness.until(lambda: "no sandbox could be prepared" in daemon.log.read_text())
    assert harness.until(lambda: daemon.client.ask("pool")["kinds"] == [])
    engine.start()
    assert harness.until(lambda: mended(daemon, "docker"))
    assert harness.until(lambda: daemon.client.health()["pool"] == 1)
    assert daemon.client.create(profile="low", driver="docker")["from_pool"]
