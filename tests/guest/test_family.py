"""What a run started, where there are no cgroups for it: told and ended by the guest of a box, here on Linux."""
import errno
import os
import shutil
import signal
import subprocess
import tempfile

import client
import frames
import pytest
import test_dial

SOMEBODY = 60001  # without any capability, as in a box: nobody inside can raise a limit
# each one lives for a moment, and its parent is dead: not a crowd, but four who are gone when one looks
RUNS_AWAY = "f() { f & exit; }; for i in 1 2 3 4; do (f) & done; echo up"
LOWERS = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_RSS)[1]
resource.setrlimit(resource.RLIMIT_RSS, (most - 1, most - 1))  # the number of the run before
if "orphan" in sys.argv and os.fork():
    os._exit(0)
os.setsid() if "orphan" in sys.argv else 0
os.write(1, b"up")
os.execv("/bin/sleep", ["sleep", "2001"])
"""


class Box(test_dial.Box):
    def __init__(self, path):  # pylint: disable=super-init-not-called
        self.path = f"{path}/s"
        self.listen()
        os.chmod(self.path, 0o666)
        somebody = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen([*somebody, "unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child",
                                         "--mount-proc", client.PROGRAM, "dial", self.path, "/"], stdin=subprocess.DEVNULL)


@pytest.fixture
def c():
    folder = tempfile.mkdtemp(prefix="stockade-guest-")
    os.chmod(folder, 0o711)
    made = Box(folder)
    connection = test_dial.Dialled(made.accept())
    yield connection
    connection.close()
    made.close()
    shutil.rmtree(folder)


def living(c):
    request = c.call("processes")
    return sorted(m.text.decode() for m in request.items if m.number != 1 and chr(m.mode) != "Z")


def end_of(c, run, kill=True):
    return c.call("leaf-end", frames.KILL if kill else 0, run=run).end.error


def test_all_that_it_started(c):
    run = c.sh("sleep 1001 & (setsid sh -c 'trap \"\" TERM HUP; sleep 1002 & sleep 1003; true' &) ; "
               "setsid sh -c 'sleep 1004; true' & sh -c 'while :; do sleep 0.01 & sleep 0.01; done' & echo up; wait", number=5)
    other = c.sh("setsid sleep 1006 & echo up; exec sleep 1005", number=6)
    client.until(lambda: {f"sleep {n}" for n in range(1001, 1007)} <= set(living(c)) and b"up" in run.out and b"up" in other.out)
    assert end_of(c, 5) == 0
    assert os.WTERMSIG(c.end(run).exited.number) == signal.SIGKILL
    assert living(c) == ["sleep 1005", "sleep 1006"]


def test_what_it_left_is_known(c):
    c.end(c.sh("true", number=1))
    assert end_of(c, 1, kill=False) == 0
    c.end(c.sh("setsid sleep 1001 </dev/null >/dev/null 2>&1 &", number=2))
    c.end(c.sh("true", number=3))
    client.until(lambda: living(c) == ["sleep 1001"])
    c.forget(c.runs[2])
    assert [end_of(c, n, kill=False) for n in (1, 2, 3)] == [0, -errno.EBUSY, 0]
    assert end_of(c, 3) == 0 and living(c) == ["sleep 1001"]
    assert end_of(c, 2) == 0 and living(c) == []
    assert end_of(c, 2, kill=False) == 0


def test_nobody_outruns_it(c):
    other = c.sh("echo up; exec sleep 1005", number=6)
    runs = c.sh(RUNS_AWAY, number=7)
    client.until(lambda: "sleep 1005" in living(c) and b"up" in runs.out)
    assert end_of(c, 7, kill=False) == -errno.EBUSY
    assert end_of(c, 7) == 0
    assert living(c) == ["sleep 1005"]
    assert c.end(c.sh("echo on", number=8)).out == b"on\n" and not other.exited


def test_a_crowd(c):
    run = c.sh("for i in $(seq 100); do setsid sleep 3000 & done; wait", number=1)
    client.until(lambda: living(c).count("sleep 3000") == 100)
    assert end_of(c, 1) == 0
    c.end(run)
    assert living(c) == []


@pytest.mark.parametrize("orphan", [False, True])
def test_who_lowers_its_limits(c, orphan):
    """With its parent there, it is of its parent's run; alone, of the first that is ended. It is never of the run that it pretends."""
    before = c.sh("echo up; exec sleep 1005", number=4)
    run = c.sh(f"python3 -c '{LOWERS}' {'orphan' if orphan else ''} & echo up; wait; sleep 1006", number=5)
    client.until(lambda: "sleep 2001" in living(c) and run.out.count(b"up") == 2 and b"up" in before.out)
    if not orphan:
        assert end_of(c, 4) == 0  # whose number it has
        assert "sleep 2001" in living(c) and not run.exited
    assert end_of(c, 5, kill=False) == -errno.EBUSY
    assert end_of(c, 5) == 0
    assert "sleep 2001" not in living(c)


def test_nobody_raises_them_again(c):
    script = ("import resource as r\nfor k in (r.RLIMIT_RSS, r.RLIMIT_DATA):\n m = r.getrlimit(k)[1]\n"
              " try: r.setrlimit(k, (m, m + 1)); print('raised')\n except ValueError: print('no')")
    assert c.end(c.exec("/usr/bin/python3", "-c", script, number=3)).out == b"no\nno\n"
