"""What is said when something goes wrong: the step that failed, the limit that was hit; and nothing where all is well."""
import json

import pytest

import harness
from harness import Refused, until

pytestmark = pytest.mark.skipif(not harness.IS_ROOT, reason="not started by root")


def events(client, kind):
    with client.call("events") as c:
        c.answer()
        return [e for e in c.events if e["kind"] == kind]


def warnings(daemon):
    lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
    return [line["message"] for line in lines if line["level"] in ("warning", "error")]


def test_a_folder_that_is_not_there_is_no_missing_program(make_daemon):
    client = make_daemon(conf="pool = 0\n").client
    box = client.create(profile="low")["id"]
    missing, nowhere = client.run(box, "/no/such/program"), client.run(box, "/bin/true", cwd="/no/such/folder")
    assert missing["exit_code"] == 127 and b"cannot execute '/no/such/program'" in missing["err"], missing
    assert nowhere["exit_code"] == 126 and b"no such folder: '/no/such/folder'" in nowhere["err"], nowhere
    assert nowhere["err_bytes"] == len(nowhere["err"]) and nowhere["reason"] == "exited"
    terminal = client.run(box, "/bin/true", cwd="/no/such/folder", tty=True)
    assert terminal["exit_code"] == 126 and b"no such folder" in terminal["out"], terminal


@pytest.mark.parametrize("memory_only", [False, True])
def test_a_full_workspace_has_one_word(make_daemon, memory_only):
    """In memory or on a disk: the reason and the limit are those of `stockade run`."""
    client = make_daemon(conf="pool = 0\n").client
    box = client.create(profile="low", memory_only=memory_only, set={"files.workspace.size": "1MiB"})["id"]
    assert client.sh(box, "exit 3")["reason"] == "exited"
    full = client.sh(box, "head -c 4000000 /dev/zero > data")
    assert full["reason"] == "disk_full" and full["exit_code"] != 0, full
    assert client.sh(box, "true")["reason"] == "exited"
    assert until(lambda: [e["data"]["limit"] for e in events(client, "limit.hit")] == ["files.write"], 5), events(client, "limit.hit")
    assert client.sh(box, "rm data; exit 3")["reason"] == "exited"


def test_ends_that_we_asked_for_are_no_news(make_daemon):
    daemon = make_daemon(conf="pool = 3\n")
    client = daemon.client
    boxes = [client.create(profile="low", memory_only=True)["id"] for _ in range(4)]
    assert until(lambda: client.health()["pool"] >= 2, 20), client.health()
    client.delete(sandbox=boxes[0], force=True)
    client.stop(sandbox=boxes[1])
    daemon.down()
    assert warnings(daemon) == [], warnings(daemon)


def test_a_refusal_leaves_no_event_without_a_reason(make_daemon):
    """One that was taken from the pool for somebody who may not have it is nobody's: nothing is told of it."""
    client = make_daemon(conf="pool = 2\nowner_sandboxes = 1\n").client
    client.create(profile="low", memory_only=True)
    assert until(lambda: client.health()["pool"] >= 1, 20)
    with pytest.raises(Refused) as e:
        client.create(profile="low", memory_only=True)
    assert e.value.code == "limit" and e.value.hint
    with pytest.raises(Refused) as e:
        client.create(profile="low", memory_only=True, set={"limits.memory": "900GiB"})
    assert e.value.hint
    failed = events(client, "sandbox.fail")
    assert all(one["data"]["why"] for one in failed), failed
