"""What a service manager sees of the daemon: how it ends, and what the unit makes of that. There is no systemd here: the
unit is read, with systemd.service(5) in mind. Restart=on-failure starts again after any status but 0 and after any
signal that is not one of the clean ones, of which we handle those that we get."""
import os
import re
import signal

import pytest

from harness import SOURCE, until


def settings():
    """The unit's settings; each is set once, or adds to a list."""
    found = {}
    for line in (SOURCE / "data/stockade.service.in").read_text().splitlines():
        if re.match(r"[A-Z]\w+=", line):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def comes_back(status):
    """Whether systemd would start it again after this result of wait()."""
    unit = settings()
    assert unit["Restart"] == ["on-failure"] and not {"SuccessExitStatus", "RestartForceExitStatus"} & unit.keys()
    return status != 0 and -status not in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)


@pytest.mark.skipif(os.geteuid() != 0, reason="the service is root's")
@pytest.mark.parametrize("stop", [False, True])
def test_down_stays_down(make_daemon, stop):
    d = make_daemon(conf="pool = 0\n")
    d.client.ask("down", stop=stop)
    assert until(lambda: d.process.poll() is not None)
    assert d.process.returncode == 0 and not comes_back(d.process.returncode)


@pytest.mark.skipif(os.geteuid() != 0, reason="the service is root's")
def test_stopped_by_a_signal(make_daemon):
    d = make_daemon(conf="pool = 0\n")
    os.kill(d.warden, signal.SIGTERM)
    assert until(lambda: d.process.poll() is not None)
    assert d.process.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="the service is root's")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_comes_back(make_daemon, number):
    d = make_daemon(conf="pool = 0\n")
    os.kill(d.warden, number)
    assert until(lambda: d.process.poll() is not None)
    assert comes_back(d.process.returncode)


@pytest.mark.skipif(os.geteuid() != 0, reason="the service is root's")
def test_a_start_that_fails_is_a_failure(make_daemon):
    d = make_daemon(start=False, conf="nonsense = 1\n")
    d.start(wait=False)
    assert until(lambda: d.process.poll() is not None)
    assert comes_back(d.process.returncode) and "unknown key 'nonsense'" in d.said()


def test_sandboxes_are_not_the_services():
    unit = settings()
    assert unit["KillMode"] == ["process"] and unit["Delegate"] == ["yes"] and unit["RuntimeDirectoryPreserve"] == ["yes"]
