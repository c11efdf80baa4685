"""A warden of its own for each test, played by a test as the operator. Afterwards nothing of it may be left: no process,
no cgroup, no loop device."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "guest"))
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "common"))

import client  # pylint: disable=wrong-import-position
import daemon as daemons  # pylint: disable=wrong-import-position
import frames  # pylint: disable=wrong-import-position
import plans  # pylint: disable=wrong-import-position

if os.geteuid() != 0:
    pytest.skip("the warden's tests need root", allow_module_level=True)


class Inside(client.Connection):
    """Speaks to a guest over a connection that the warden handed out."""

    def __init__(self, guest):  # pylint: disable=super-init-not-called
        self.timeout = 60
        self.runs, self.requests, self.listed = {}, {}, []
        self.next_request, self.next_run = 1000, 1
        self.buffer, self.hello = bytearray(), None
        self.socket = guest
        self.socket.setblocking(False)
        self.send(frames.frame("hello", version=frames.VERSION))
        self.wait(lambda: self.hello)

    def output(self, script, **kw):
        """What a shell script says."""
        run = self.end(self.sh(script, **kw))
        return (run.out + run.err).decode(), run.code


def loops_of(folder):
    """Loop devices on files below this folder."""
    return [p for p in pathlib.Path("/sys/block").glob("loop*/loop/backing_file") if str(folder) in _read(p)]


def _read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def _tidy(d):
    pids = set(d.pids)
    token = (d.folder / "token").read_text() if (d.folder / "token").exists() else None
    d.clear()
    daemons.until(lambda: not any(daemons.alive(p) for p in pids))
    if token:
        daemons.until(lambda: not daemons.cgroups(token))
    daemons.until(lambda: not loops_of(d.folder))


@pytest.fixture
def make():
    """make(conf=…): a Daemon that is cleared away at the end."""
    made = []

    def one(**kw):
        made.append(daemons.Daemon(**kw))
        return made[-1]

    yield one
    for d in made:
        _tidy(d)


@pytest.fixture
def warden(make):
    d = make()
    d.start()
    return d


@pytest.fixture(scope="session")
def low():
    return plans.compile_plan()


@pytest.fixture(scope="session")
def medium():
    return plans.compile_plan(profile="medium")


@pytest.fixture(scope="session")
def networked():
    return plans.compile_plan("--allow", "example.com:443", profile="medium")


@pytest.fixture
def inside():
    made = []

    def one(guest):
        made.append(Inside(guest))
        return made[-1]

    yield one
    for c in made:
        c.close()
