"""Fixtures: a daemon on a folder of its own, which leaves nothing behind."""
import pathlib
import signal
import sys

import pytest

import harness

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "driver"))


def pytest_configure(config):
    config.addinivalue_line("markers", "leaves: this test looks for leftovers itself")
    config.addinivalue_line("markers", "long: rounds are scaled by STOCKADE_E2E_SCALE")


def pytest_collection_modifyitems(config, items):
    if harness.DRIVER != "native":
        import exceptions
        exceptions.deselect(harness.DRIVER, items, config)


@pytest.fixture(scope="session")
def suite():
    made = harness.Suite()
    yield made
    made.remove()


@pytest.fixture(autouse=True)
def patience(request):
    """A test that waits for something that does not come fails; it does not hold up the rest."""
    def ring(*_):
        raise AssertionError("this test waits for something that does not come")
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, (10 if request.node.get_closest_marker("long") else 4) * harness.ANSWER * harness.SLOW)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def make_daemon(request, suite, patience):
    """make_daemon(conf="…", env={…}): more than one, or one with settings; each must leave nothing."""
    made = []

    def make(start=True, **kw):
        if not harness.IS_ROOT and not kw.get("who"):
            harness.missing("not started by root")
        made.append(suite.daemon(**kw))
        return made[-1].start() if start else made[-1]
    yield make
    left = []
    for daemon in made:
        daemon.end()
        if not request.node.get_closest_marker("leaves"):
            found = daemon.left(disks=True)
            if found:
                left.append(found)
    assert not left, f"left behind: {left}\n{made[0].said()}"


@pytest.fixture
def daemon(make_daemon):
    """One that runs, as root, on defaults."""
    return make_daemon()


@pytest.fixture
def client(daemon):
    return daemon.client
