"""What outlives a run: nothing, whatever the code inside tried and however the launcher ended."""
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import judge
from judge import PROBE

pytestmark = pytest.mark.usefixtures("unchanged")


def test_next_run_finds_nothing(host, person, profile):
    left = person.probe(profile, "leave")
    assert left.only["result"] == "done", left
    found = person.probe(profile, "find")
    assert found.only["result"] == "refused", f"OPEN: {found.only}"


def test_same_run_finds_it(host, person, profile):
    """Control: before the end of the run it is all there, but for what may not be made at all."""
    facts = " ".join(host.facts(person, profile))
    run = person.run(profile, ["/bin/sh", "-c", f"{PROBE} leave {facts}; {PROBE} find {facts}"])
    said = run.lines["find"]
    assert said["result"] == "done" and "/tmp/" in said["evidence"] and "shared memory" in said["evidence"], said


def test_sibling_finds_nothing(host, person, profile):
    """The same at the same time, in another sandbox of the same person."""
    facts = " ".join(host.facts(person, profile))
    first = person.start(profile, ["/bin/sh", "-c", f"{PROBE} leave {facts}; echo ready; exec sleep 1000"],
                         stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    while first.stdout.readline() not in (b"ready\n", b""):
        pass
    found = person.probe(profile, "find")
    first.kill()
    first.communicate()
    assert found.only["result"] == "refused", f"OPEN: {found.only}"


def test_daemon_dies(host, person, profile):
    """Two forks, a session of its own, deaf to signals: gone a second after the command."""
    def once():
        run = person.probe(profile, "daemonise")
        assert run.only["result"] == "done", run
        begin = time.monotonic()
        assert judge.until(lambda: not host.marked_processes()), f"OPEN: {host.marked_processes()}"
        after.append(time.monotonic() - begin)
        return max(run.wall, 5 * after[-1])
    after = []
    assert judge.quickest(once, 5) < 5, after


@pytest.mark.parametrize("when", ["starting", "running"])
def test_launcher_killed(host, person, profile, when):
    """kill -9 of the launcher at a random moment of the start, or while processes run: nothing stays."""
    for _ in range(6 if when == "starting" else 1):
        process = person.start(profile, [PROBE, "stay", *host.facts(person, profile)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        if when == "running":
            assert process.stdout.readline() == b"here\n"
            assert len(host.marked_processes()) >= 5  # control: there is something that could stay
        else:
            time.sleep(random.random() * 0.03)
        process.kill()
        process.communicate()
        assert judge.until(lambda: not host.marked_processes()), f"OPEN: {host.marked_processes()}"


def test_launcher_told_to_end(host, person, profile):
    """A launcher that is asked to go takes everything with it, even what ignores signals."""
    process = person.start(profile, [PROBE, "stubborn", *host.facts(person, profile)], ["--timeout", "3s"],
                           stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    judge.until(lambda: len(host.marked_processes()) >= 3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert judge.until(lambda: not host.marked_processes()), f"OPEN: {host.marked_processes()}"


def test_secret_stays_nowhere(host, person, profile):
    """A value given by --env is in no record, cache or state afterwards; the caller's own environment never is inside."""
    secret = host.token("given")
    record = person.home / "kept.json"
    process = person.start(profile, ["/bin/sh", "-c", "echo $GIVEN; kill -SEGV $$"], ["--env", f"GIVEN={secret}"], record,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    out, err = process.communicate(timeout=60)
    assert secret in out.decode()  # control: inside it was there
    assert secret not in err.decode() and secret not in record.read_text()
    places = [Path("/var/cache/stockade"), Path("/var/lib/stockade"), Path("/run/stockade"), person.home]
    for place in places:
        for path in place.rglob("*"):
            if path.is_file() and path.stat().st_size < 10_000_000:
                assert secret.encode() not in path.read_bytes(), f"OPEN: {path}"
                assert host.token("environment").encode() not in path.read_bytes(), f"OPEN: {path}"
    assert not list(person.home.glob("core*")), "OPEN: a core dump"


def test_share_is_clean_afterwards(host, person, profile):
    """A shared folder has no mount points, dotfiles or masks of ours in it."""
    share = person.folder()
    run = person.run(profile, ["/bin/sh", "-c", "echo x >/mnt/share/file"], ["--rw", f"{share}:/mnt/share"])
    assert run.status == 0, run
    assert os.listdir(share) == ["file"]
    assert (share / "file").stat().st_uid == person.uid, "what was made belongs to somebody else"


def test_hostname_and_clock(host, person, profile):
    run = person.run(profile, ["/bin/sh", "-c", "hostname evil; date -s 2001-01-01; hostname; date +%Y"])
    name, year = run.text.split()[-2:]
    assert name == "stockade" and int(year) > 2020, run
    assert os.uname().nodename != "evil" and time.localtime().tm_year > 2020
