"""Fixtures: a daemon with an open API and an SSH door, wallets, npm's packages, and both clients ready to use.

STOCKADE            the launcher to test (default: build/src/cli/stockade)
STOCKADE_BUILD      a folder for what is installed and compiled here (default: build)
STOCKADE_MUST_WORK  1: packages that cannot be installed are a failure, not a skip
"""
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("STOCKADE_BUILD", ROOT / "build")).resolve()
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/api"), str(ROOT / "tests/operator"), str(ROOT / "clients/python")]
import harness  # noqa: E402
from wallet import Wallet  # noqa: E402

DOMAIN = "ports.localhost"
RATES = "".join(f"rate_{name} = unlimited\n" for name in ("auth", "write", "sandbox", "read", "owner"))


@pytest.fixture(autouse=True)
def patience():
    """A test that waits for something that does not come fails; it does not hold up the rest."""
    def ring(*_):
        raise AssertionError("this test waits for something that does not come")
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 400 * harness.SLOW)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture(scope="session")
def suite():
    made = harness.Suite()
    yield made
    made.remove()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def conf(**more):
    keys = {"listen": "127.0.0.1:0", "wallets": "*", "ports_domain": DOMAIN, "ssh_listen": f"127.0.0.1:{free_port()}", **more}
    return "".join(f"{key} = {value}\n" for key, value in keys.items()) + RATES


@pytest.fixture(scope="session")
def house(suite):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = suite.daemon(conf=conf(operators=Wallet("operator").address)).start(seconds=60)
    yield daemon
    daemon.end()
    left = daemon.left(disks=True)
    assert not left, f"left behind: {left}\n{daemon.said()}"
    for word in ("runtime error", "AddressSanitizer", "was ended by signal 6", "was ended by signal 11"):
        assert word not in daemon.log.read_text(errors="replace"), daemon.said()


@pytest.fixture(scope="session")
def address(house):
    found = house.client.health()["api"]
    assert found["open"], house.said()
    return found["listen"][0]


@pytest.fixture(scope="session")
def url(address):
    return f"http://{address}"


def npm(folder, what):
    """Packages of a lock file, installed once."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (what / "package-lock.json").read_bytes()
    stamp, wanted = folder / "installed", hashlib.sha256(lock).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(what / name, folder)
        r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], cwd=folder,
                           capture_output=True, text=True, timeout=200 * harness.SLOW)
        if r.returncode != 0:
            harness.missing("npm cannot install the packages: " + r.stderr[-500:])
        stamp.write_text(wanted)
    return folder


@pytest.fixture(scope="session")
def packages():
    """A folder with node_modules: ethers, paseto-ts, typescript."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            harness.missing(f"there is no {program}")
    return npm(BUILD / "tests/clients/packages", HERE)


def run(words, cwd, timeout=200, **kw):
    return subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=timeout * harness.SLOW, **kw)


@pytest.fixture(scope="session")
def workshop(packages):
    """packages with the client in it, compiled, as if npm had installed it."""
    place = packages / "node_modules/stockade-client"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "clients/typescript", place, ignore=shutil.ignore_patterns("node_modules", "dist"))
    r = run(["node", packages / "node_modules/typescript/bin/tsc", "-p", "."], place)
    assert r.returncode == 0, r.stdout
    return packages
