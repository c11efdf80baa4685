"""An upgrade under running sandboxes: guests of another build go on working with today's operator.

old-guest.c is the protocol's first version, frozen; the same program built to say a later version stands for a downgrade."""
import os
import shutil
import time
from pathlib import Path

import pytest

import harness  # tests/operator

LAUNCHER = Path(os.environ.get("STOCKADE", harness.SOURCE / "build/src/cli/stockade")).resolve()


@pytest.fixture(params=["old-guest", "new-guest"])
def installed(request, make_daemon):
    """A daemon of the other build, as far as guests are concerned, with programs of its own; and how to upgrade it."""
    guest = LAUNCHER.parents[2] / "tests/upgrade" / request.param
    if not guest.exists():
        harness.missing(f"there is no {request.param} beside the build")
    made = make_daemon(start=False, conf="pool = 0\n")
    made.programs = harness.Programs(made.state.parent)
    todays = made.programs.folder / "stockade-guest"
    kept = made.programs.folder / "kept"
    todays.rename(kept)
    shutil.copy(guest, todays)

    def upgrade():
        made.down(stop=False)
        shutil.copy(kept, todays.with_suffix(".new"))
        todays.with_suffix(".new").rename(todays)  # as package managers do: running guests keep their file
        made.start()
    made.upgrade, made.older = upgrade, request.param == "old-guest"
    return made.start()


def test_todays_operator_works_with_it(installed):
    client = installed.client
    box = client.create(profile="low")["id"]
    assert client.sh(box, "echo hello; echo bad >&2; exit 3")["exit_code"] == 3
    done = client.run(box, "cat", data=b"typed" * 1000)
    assert done["out"] == b"typed" * 1000 and done["exit_code"] == 0
    assert client.run(box, "no-such-program")["exit_code"] == 127
    assert len(client.sh(box, "head -c 500000 /dev/zero")["out"]) == 500000  # beyond a window
    with pytest.raises(harness.Refused) as refusal:
        client.ls(sandbox=box, path="/")
    assert refusal.value.message
    if installed.older:  # one that cannot look at what it replaces is not asked to
        with pytest.raises(harness.Refused) as refusal, client.call("put", sandbox=box, path="/tmp/f", if_match="1-1-1") as c:
            c.input(b"x")
            c.answer()
        assert refusal.value.code == "conflict" and "older version" in refusal.value.message
    assert client.sh(box, "ls /tmp; echo still here")["out"] == b"still here\n"
    for verb, state in (("pause", "paused"), ("unpause", "running"), ("stop", "stopped"), ("resume", "running")):
        assert client.ask(verb, sandbox=box)["state"] == state
    assert client.sh(box, "echo again")["out"] == b"again\n"


def test_upgrade(installed):
    """Sandboxes and runs of the old build go on; new sandboxes have the new guest."""
    client = installed.client
    old = client.create(profile="low", name="old")["id"]
    client.sh(old, "echo kept > /tmp/file")
    run = client.exec(sandbox=old, argv=["sh", "-c", "for i in $(seq 1 40); do echo $i; sleep 0.1; done; exit 9"], detach=True)["run"]
    time.sleep(0.5)
    installed.upgrade()
    assert client.show(sandbox=old)["state"] == "running"
    assert client.sh(old, "cat /tmp/file")["out"] == b"kept\n"
    new = client.create(profile="low", name="new")["id"]
    assert client.ls(sandbox=new, path="/")["entries"], "the new one has the new guest"
    with pytest.raises(harness.Refused):
        client.ls(sandbox=old, path="/")
    with client.call("attach", sandbox=old, run=run, out=0, err=0) as call:
        assert call.answer()["exit_code"] == 9
    with client.call("logs", sandbox=old, run=run) as call:
        call.answer()
        assert bytes(call.out) == b"".join(b"%d\n" % n for n in range(1, 41))
    # a stop and a resume bring the new guest
    client.stop(sandbox=old)
    client.resume(sandbox=old)
    assert client.ls(sandbox=old, path="/")["entries"]


def test_every_part_is_killed(installed):
    client = installed.client
    box = client.create(profile="low")["id"]
    run = client.exec(sandbox=box, argv=["sh", "-c", "for i in $(seq 1 30); do echo $i; sleep 0.1; done"], detach=True)["run"]
    for kill in (installed.kill_operator, installed.kill_warden, installed.kill_all):
        kill()
        assert client.sh(box, "echo fine")["out"] == b"fine\n"
    with client.call("attach", sandbox=box, run=run, out=0, err=0) as call:
        assert call.answer()["exit_code"] == 0
