"""A sandbox whose guest says nothing is left alone after a while: that one, and nothing else."""
import concurrent.futures
import os
import signal
from pathlib import Path

import harness

FAILURES = 5


def guest_of(box):
    """The host's number of the first process inside."""
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or box not in (entry / "cgroup").read_text():
                continue
            if (entry / "status").read_text().partition("NSpid:")[2].split("\n")[0].split()[1:] == ["1"]:
                return int(entry.name)
        except OSError:
            continue
    return None


def test_the_broken_one_is_left_alone(alice, box):
    broken = alice.post("/api/sandboxes", {"profile": "low"}).json["id"]
    path = f"/api/sandboxes/{broken}"
    stat = f"{path}/files/stat?path=/tmp"
    assert alice.get(stat).status == 200
    guest = guest_of(broken)
    os.kill(guest, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(FAILURES) as crowd:
            answers = list(crowd.map(lambda _: alice.get(stat, timeout=90), range(FAILURES)))
        assert [a.json["code"] for a in answers] == ["TIMEOUT"] * FAILURES
        refused = alice.get(stat)
        assert refused.status == 503 and refused.json["code"] == "CIRCUIT_OPEN" and "timeout" in refused.json["error"], refused
        assert 1 <= int(refused.headers["retry-after"]) <= 10 and refused.json["hint"]
        # what does not need its guest, and others, are as they were
        assert alice.get(path).status == 200
        assert alice.get(f"/api/sandboxes/{box}/files/stat?path=/tmp").status == 200
    finally:
        os.kill(guest, signal.SIGCONT)
    # it answers again, and is asked again
    assert harness.until(lambda: alice.get(stat).status == 200)
    assert alice.get(stat).status == 200
    assert alice.delete(f"{path}?force=true").status == 200
