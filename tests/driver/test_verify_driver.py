"""`stockade verify --driver D` as it is: nothing is open, what was not tried is listed here, and nothing is left.

The judge starts a daemon of its own; the programs are in one folder, as they are when they are installed."""
import fcntl
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import engine
import fc_install
import needed
import vm

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STOCKADE_BUILD") or SOURCE / "build")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
               "STOCKADE_PROFILES": str(SOURCE / "profiles")}
SECONDS = 1200
LONG = bool(os.environ.get("STOCKADE_LONG"))
DRIVERS = ["gvisor", "docker", "microvm", "firecracker"]
# a machine of firecracker's is microvm's, in a stand-in: its self-test is enough where time is short
WHOLE = DRIVERS if LONG else DRIVERS[:-1]


@pytest.fixture(scope="module")
def programs():
    """One folder that every user can reach, and not below /tmp, which is a workspace inside."""
    needed.root()
    folder = pathlib.Path(f"/var/tmp/stockade-test-verify-{os.getpid()}")
    folder.mkdir(mode=0o755)
    for file in (BUILD / "src").glob("*/stockade*"):
        if file.is_file() and os.access(file, os.X_OK):
            shutil.copy(file, folder / file.name)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def place():
    """A folder to start the judge in: a daemon's configuration is looked for in .stockade there."""
    folder = pathlib.Path(f"/var/tmp/stockade-test-place-{os.getpid()}")
    (folder / ".stockade").mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def running(programs):
    """An engine for the driver docker."""
    if engine.missing():
        needed.missing(f"not installed: {engine.missing()}")
    (programs / "engine").mkdir()
    made = engine.Engine(programs / "engine")
    try:
        made.start()
        yield made
    finally:
        made.clear()


@pytest.fixture(scope="module")
def driver(request, programs, place):
    words = []
    if request.param == "docker":
        socket = request.getfixturevalue("running").socket
        (place / ".stockade/stockade.conf").write_text(f"docker_socket = {socket}\n")
        words = [f"socket={socket}", "runtime="]
    if request.param == "firecracker":
        fc_install.install()  # from here on: the last of them
    if request.param in ("microvm", "firecracker"):
        (programs / "microvm").mkdir(exist_ok=True)
        made = vm.make_image(programs / "microvm")
        if made.returncode:
            needed.missing(made.stderr)
    probe = subprocess.run([programs / f"stockade-box-{request.param}", "probe", *words], capture_output=True, text=True, timeout=vm.BOOT)
    said = json.loads(probe.stdout)
    if not said["offered"]:
        needed.missing(said["why"])
    return request.param


@pytest.fixture
def verify(programs, place):
    def verify(*options):
        return subprocess.run([programs / "stockade", "verify", *options], env=ENVIRONMENT, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS, cwd=place)
    return verify


def left(programs):
    """Processes of these programs."""
    found = []
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(path).startswith(str(programs)):
                found.append(pathlib.Path(path).parent.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def abandoned():
    """Folders of judges that are no more: nobody holds the lock."""
    found = []
    for path in glob.glob("/var/tmp/stockade-verify-0-*"):
        try:
            with open(f"{path}/manifest", "rb") as manifest:
                fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(path)
        except (BlockingIOError, FileNotFoundError):
            continue
    return found


def of(report, *verdicts):
    return {c["name"]: f"{c['why'] or ''} {c['seen'] or ''} {c['said'] or ''}"[:400]
            for g in report["groups"] for c in g["checks"] if c["verdict"] in verdicts}


@pytest.mark.parametrize("driver", WHOLE, indirect=True)
def test_all_of_it(programs, driver, verify):
    # all of it takes a quarter of an hour where machines are emulated: `make check-microvm` does it
    quick = ["--quick"] if driver in ("microvm", "firecracker") and not LONG else []
    done = verify("--driver", driver, "--json", *quick)
    report = json.loads(done.stdout)
    assert of(report, "open") == {}
    assert of(report, "untried", "pending") == {}
    exempt = {row["name"]: row["why"] for row in report["not_tested"]["inapplicable"]}
    assert set(exempt) == set(of(report, "inapplicable")) and all(exempt.values())
    tally = report["tally"]
    assert tally["inapplicable"] == len(exempt) < 60 and tally["promised"] > (180 if quick else 240), tally
    assert done.returncode == 0 and report["good"], report["headline"]
    assert left(programs) == [] and abandoned() == []


@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_self_test(programs, driver, verify):
    done = verify("--driver", driver, "--self-test", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and of(report, "open", "untried", "pending") == {}, done.stdout + done.stderr
    assert report["tally"]["checks"] > 25
    assert left(programs) == []


@pytest.mark.parametrize("driver", WHOLE, indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_nothing_goes_on_without_it(programs, place, driver, number):
    process = subprocess.Popen([programs / "stockade", "verify", "--driver", driver, "--quick"], env=ENVIRONMENT, cwd=place,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    end = time.monotonic() + 60
    while not any("stockade run --driver" in line for line in left(programs)) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1)
    os.kill(process.pid, number)
    process.wait(60)
    end = time.monotonic() + 60
    while (left(programs) or abandoned()) and time.monotonic() < end:
        time.sleep(0.1)
    assert left(programs) == [] and abandoned() == []


def test_wrong_use(programs, verify):
    done = verify("--driver", "cardboard")
    assert done.returncode == 125 and "no driver 'cardboard'" in done.stderr and "microvm" in done.stderr
    done = verify("--driver", "gvisor", "--against", "true")
    assert done.returncode == 125 and "--against" in done.stderr
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", programs / "stockade", "verify", "--driver", "gvisor"]
    done = subprocess.run(nobody, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 125 and "need a daemon that is root" in done.stderr
