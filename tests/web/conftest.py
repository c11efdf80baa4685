"""Fixtures: a daemon that serves the web app, and real browsers (Debian's chromium, driven by playwright-core) that use it.

A flow is a script beside this file; browse("flow.mjs") runs it. While it runs it can ask for things that only we can do
("kill the operator"): see harness.mjs, tell().

STOCKADE            the launcher to test (default: build/src/cli/stockade)
STOCKADE_BUILD      a folder for packages, and for pictures of what failed (default: build)
STOCKADE_WEB_DIST   a folder with a built app that is shown in place of the one in the daemon, while somebody works on it
STOCKADE_MUST_WORK  1: a browser or packages that are missing are a failure, not a skip
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("STOCKADE_BUILD", ROOT / "build")).resolve()
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/operator")]
import harness  # noqa: E402

BROWSER = shutil.which("chromium")
RATES = "".join(f"rate_{name} = unlimited\n" for name in ("auth", "write", "sandbox", "read", "owner"))
PATIENCE = 240  # seconds that a flow may take on a machine with other work


@pytest.fixture(scope="session")
def suite():
    made = harness.Suite()
    yield made
    made.remove()


def url_of(daemon):
    found = daemon.client.health()["api"]
    assert found["open"], daemon.said()
    return f"http://{found['listen'][0]}"


def check_log(daemon):
    said = daemon.log.read_text(errors="replace")
    for word in ("runtime error", "AddressSanitizer", "was ended by signal 6", "was ended by signal 11"):
        assert word not in said, said[-5000:]


@pytest.fixture(scope="session")
def house(suite):
    """One daemon for all flows that do it no harm."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nports_domain = ports.localhost\n{RATES}").start(seconds=60)
    yield daemon
    daemon.end()
    left = daemon.left(disks=True)
    assert not left, f"left behind: {left}\n{daemon.said()}"
    check_log(daemon)


@pytest.fixture
def make_house(suite):
    """make_house("rate_read = 5\\n"): one with settings of its own."""
    made = []

    def make(conf=RATES):
        made.append(suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{conf}").start(seconds=60))
        return made[-1]
    yield make
    for daemon in made:
        daemon.end()
        check_log(daemon)


@pytest.fixture(scope="session")
def packages():
    """A folder with node_modules: what web/package-lock.json names, installed once."""
    if not shutil.which("npm"):
        harness.missing("there is no npm")
    lock = hashlib.sha256((ROOT / "web/package-lock.json").read_bytes()).hexdigest()
    folder = BUILD / "tests/web/packages"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != lock:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / "web" / name, folder)
        r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], cwd=folder,
                           capture_output=True, text=True, timeout=300 * harness.SLOW, check=False)
        if r.returncode != 0:
            harness.missing("npm cannot install the packages: " + r.stderr[-500:])
        stamp.write_text(lock)
    return folder


class Flow:
    """A script that runs in node, and answers to what it asks."""

    def __init__(self, words, env, answers):
        self.answers, self.errors = answers, []
        # a group of its own: when it is over, no browser of it goes on
        self.process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, start_new_session=True)
        self.listener = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.listener.start()

    def run(self, seconds):
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        said = []
        try:
            for line in self.process.stdout:
                said.append(line)
                if line.startswith("@"):
                    name, _, rest = line[1:].strip().partition(" ")
                    self.process.stdin.write(json.dumps(self.answers[name](**json.loads(rest or "{}"))) + "\n")
                    self.process.stdin.flush()
            code = self.process.wait()
        finally:
            timer.cancel()
            self.kill()
            self.listener.join(5)
        assert code == 0, "".join(said[-40:]) + "".join(self.errors[-60:])
        return "".join(line for line in said if not line.startswith("@"))

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


@pytest.fixture
def browse(packages, tmp_path, request):
    """browse("list.mjs", house, count=3): runs the flow against the daemon; keywords are for the script (`given`)."""
    if not BROWSER:
        harness.missing("there is no chromium")

    def run(script, daemon, answers=None, seconds=PATIENCE, **given):
        url = url_of(daemon)
        pictures = BUILD / "tests/web/failed"
        pictures.mkdir(parents=True, exist_ok=True)
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(tmp_path), "WEB_URL": url, "WEB_BROWSER": BROWSER,
               "WEB_PACKAGES": str(packages), "WEB_FAILED": str(pictures / f"{request.node.name}.png"), "WEB_GIVEN": json.dumps(given),
               "WEB_SLOW": str(harness.SLOW), "WEB_DIST": os.environ.get("STOCKADE_WEB_DIST", "")}
        offered = {
            "link": lambda operator=False: daemon.client.sign_in(operator=operator)["url"],
            "kill_operator": daemon.kill_operator,
            "local": lambda verb, **fields: daemon.client.ask(verb, **fields),
            **(answers or {}),
        }
        return Flow([shutil.which("node"), str(HERE / script)], env, offered).run(seconds * harness.SLOW)
    return run
