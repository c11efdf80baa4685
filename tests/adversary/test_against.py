"""`stockade verify --against`: the judge finds what a sandbox of another maker, or none at all, leaves open.

This is a test of the judge: one that is green for everybody would be green for us, too. Where there is no sandbox nearly
everything is open, and nothing that could harm the machine is tried. bubblewrap, as a caller uses it who gives it no
more than a tree of its own, is known to refuse some things and to leave others: both must be seen.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from judge import SOURCE, TEST_UID

LAUNCHER = Path(os.environ.get("STOCKADE", SOURCE / "build/src/cli/stockade")).resolve()
BUILT = LAUNCHER.parents[1]
PROGRAMS = ("cli/stockade", "cli/stockade-guest", "cli/stockade-policy", "verify/stockade-verify", "probe/stockade-probe")
NOTHING = "env -- SHARE={share}"  # no sandbox at all; the folder is where it is
BWRAP = ("bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
         "--symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --ro-bind {probe} /probe "
         "--bind {share} {share} --")
REFUSED, OPEN = {"promised", "otherwise"}, {"open"}


class Caller:
    """Somebody who runs the judge: this user, or, started by root, an ordinary one."""

    def __init__(self, folder, ordinary):
        self.before, self.home = [], str(Path.home())
        if ordinary and os.geteuid() == 0:
            self.before = ["setpriv", f"--reuid={TEST_UID}", f"--regid={TEST_UID}", "--clear-groups"]
            self.home = str(folder / "home")
        self.launcher = folder / "stockade"

    def verify(self, *options):
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home}
        return subprocess.run([*self.before, self.launcher, "verify", *options], capture_output=True, text=True,
                              env=environment, cwd="/", stdin=subprocess.DEVNULL, timeout=170)

    def judge(self, against, *options):
        done = self.verify("--json", "--against", against, *options)
        assert done.returncode == 1, f"status {done.returncode}: {done.stderr[-500:]}"
        report = json.loads(done.stdout)
        report["by_name"] = {c["name"]: c for group in report["groups"] for c in group["checks"]}
        return report


@pytest.fixture(scope="module")
def folder():
    path = Path(tempfile.mkdtemp(prefix="against-", dir="/tmp"))
    for name in PROGRAMS:
        shutil.copy(BUILT / name, path)
    (path / "home").mkdir()
    if os.geteuid() == 0:
        os.chown(path / "home", TEST_UID, TEST_UID)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module", params=["as it is", "ordinary"] if os.geteuid() == 0 else ["as it is"])
def caller(request, folder):
    return Caller(folder, request.param == "ordinary")


@pytest.fixture(scope="module")
def unguarded(caller):
    return caller.judge(NOTHING, "--quick")


@pytest.fixture(scope="module")
def wrapped(caller):
    return caller.judge(BWRAP, "--quick", "--probe-at", "/probe")


def guarded_names(folder):
    """What the probe itself says could harm a machine."""
    lines = subprocess.run([folder / "stockade-probe", "list"], capture_output=True, text=True).stdout.splitlines()
    return {line.split()[1] for line in lines if "guarded" in line.split()[2:]}


def verdicts(report, names):
    return {name: report["by_name"][name]["verdict"] for name in names}


def leftovers(report):
    """Processes and files that carry the word by which the judge marks everything that is its."""
    nonce = re.search(r"stockade-verify-([0-9a-f]{16})", json.dumps(report)).group(1)
    left = [str(p) for place in ("/tmp", "/home", "/root", "/dev/shm") for p in Path(place).glob(f"*{nonce}*")]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if nonce.encode() in entry.read_bytes():
                left.append(entry.read_bytes().replace(b"\0", b" ")[:200].decode(errors="replace"))
        except OSError:
            pass
    return left


def nothing_left(report):
    end = time.monotonic() + 30
    while leftovers(report) and time.monotonic() < end:
        time.sleep(0.1)
    assert leftovers(report) == []


def test_no_sandbox_is_wide_open(unguarded):
    assert unguarded["tally"]["open"] >= 60
    names = ("host-tmp-file", "host-home-file", "environment", "fd-leak", "setid-chmod", "tcp-host", "unix-path",
             "sysv-shared", "posix-queue", "kill-host", "call-aio", "seen-namespaces")
    found = verdicts(unguarded, names)
    assert set(found.values()) == OPEN, found


def test_no_sandbox_means_nothing_destructive(unguarded, folder):
    guarded = guarded_names(folder)
    assert {"fork-bomb", "memory-bomb", "kill-all"} <= guarded
    tried = {name: c["verdict"] for name, c in unguarded["by_name"].items()
             if name in guarded and c["verdict"] != "untried"}
    assert tried == {}


def test_open_is_what_the_host_saw(unguarded):
    assert "secret of the host" in unguarded["by_name"]["host-tmp-file"]["seen"]
    assert "listener outside was reached" in unguarded["by_name"]["tcp-host"]["seen"]
    assert "mode 4755" in unguarded["by_name"]["setid-chmod"]["seen"]


def test_bwrap_leaves_open(wrapped):
    names = ("fd-leak", "environment", "call-aio", "key-read", "unshare-user", "setid-chmod", "seen-seccomp",
             "core-dump", "own-memory")
    found = verdicts(wrapped, names)
    assert set(found.values()) == OPEN, found


def test_bwrap_refuses(wrapped):
    names = ("host-root-file", "host-home-file", "host-tmp-file", "shadow", "sibling-file", "tcp-host", "tcp-other",
             "unix-path", "unix-abstract", "sysv-shared", "posix-queue", "kill-host", "pidfd-host", "call-modules",
             "seen-root", "seen-namespaces")
    found = verdicts(wrapped, names)
    assert set(found.values()) <= REFUSED, found


def test_nothing_is_left(unguarded, wrapped):
    nothing_left(unguarded)
    nothing_left(wrapped)


def test_without_a_share(caller):
    """Set-id bits on a file that the host never sees are nobody's concern."""
    against = BWRAP.replace("--bind {share} {share} ", "")
    report = caller.judge(against, "--probe-at", "/probe", "--only", "setid-chmod,fd-leak,host-tmp-file")
    check = report["by_name"]["setid-chmod"]
    assert check["verdict"] == "untried" and "{share}" in check["why"]
    nothing_left(report)


def test_sandbox_that_outlives_its_launcher(caller):
    """Without --die-with-parent its processes stay when it is killed: the judge says so, and clears them away."""
    against = BWRAP.replace("--die-with-parent ", "")
    report = caller.judge(against, "--probe-at", "/probe", "--only", "killed-running,fd-leak,host-tmp-file")
    assert report["by_name"]["killed-running"]["verdict"] == "open"
    nothing_left(report)


@pytest.mark.parametrize("against, sentence", [
    ("no-such-program-here --", "'no-such-program-here': cannot execute it: No such file or directory"),
    ("bwrap 'x --", "a ' without its end in 'bwrap 'x --'"),
    ('bwrap "x --', "a \" without its end in 'bwrap \"x --'"),
    ("   ", "'   ' is not a command"),
    ("", "--against needs a value"),
    ("false --", "the sandbox does not start (status 1)"),
    ("true --", "the sandbox does not run the command that is put behind it"),
])
def test_wrong_use(caller, against, sentence):
    done = caller.verify("--quick", "--json", "--against", against)
    assert done.returncode == 125 and sentence in done.stderr and done.stdout == "", done.stderr
