"""Fixtures. Most tests run twice, as root and as an ordinary user, and each one fails if it leaves something behind."""
import functools
import signal

import pytest

import harness
from suite import Suite
from world import Net, World

PEOPLE = ["root", "rootless"]


def pytest_configure(config):
    config.addinivalue_line("markers", "leaves: this test looks for leftovers itself")
    config.addinivalue_line("markers", "long: rounds are scaled by STOCKADE_E2E_SCALE")


@pytest.fixture(scope="session")
def suite():
    made = Suite()
    for name in PEOPLE if harness.IS_ROOT else ["rootless"]:
        # the first run of each may make what is kept for later ones: caches, the file of id locks
        result = harness.run(made.person(name), "--", "true")
        if result.status:
            pytest.exit(f"nothing works: stockade run -- true as {name}: {result}", 4)
    harness.until(lambda: not made.processes())
    return made


@pytest.fixture(params=PEOPLE)
def who(request, suite):
    return suite.person(request.param)


@pytest.fixture
def root(suite):
    return suite.person("root")


@pytest.fixture
def user(suite):
    return suite.person("rootless")


@pytest.fixture
def run(who):
    """run(*args, input=, timeout=, …): `stockade run` as this test's person."""
    return functools.partial(harness.run, who)


@pytest.fixture
def sh(who):
    """sh(script, *options): a shell script inside."""
    def call(script, *options, **kw):
        return harness.run(who, *options, "--", "/bin/sh", "-c", script, **kw)
    return call


@pytest.fixture
def py(who):
    """py(script, *options): a Python script inside."""
    def call(script, *options, **kw):
        return harness.run(who, *options, "--", harness.PYTHON, "-ISc", script, **kw)
    return call


@pytest.fixture
def place(who):
    """A folder on the host that belongs to this test's person."""
    return who.folder()


@pytest.fixture(scope="session")
def world(suite):
    """Network namespaces with a host and an internet; see world.py."""
    if not harness.IS_ROOT:
        harness.missing("network namespaces of our own need root")
    return World(suite)


@pytest.fixture
def net(world, who):
    """net.run(…), net.sh(…), net.py(…): `stockade run` in that host, as this test's person."""
    world.reset()
    before = set(world.mountinfo())
    yield Net(world, who)
    assert harness.until(lambda: set(world.mountinfo()) <= before), "mounts are left behind"


@pytest.fixture(autouse=True)
def patience(request):
    """A test that waits for something that does not come fails; it does not hold up the rest."""
    def ring(*_):
        raise AssertionError("this test waits for something that does not come")
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, (400 if request.node.get_closest_marker("long") else 120) * harness.SLOW)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture(autouse=True)
def nothing_left(request, suite, patience):
    before = suite.digest()
    yield
    left = {} if request.node.get_closest_marker("leaves") else suite.left_since(before)
    suite.clear()
    assert not left, f"left behind: {left}"
