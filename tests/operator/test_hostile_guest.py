"""A sandbox whose PID 1 has been taken over: whatever it says, the operator goes on, says what was wrong, and serves the
others. The guest of these tests is hostile-guest.c; the first word of a run says what it does."""
import os
import re
import shutil
import time
from pathlib import Path

import pytest

import harness
from harness import Gone, Refused

BREACHES = {
    "garbage": "broke the protocol",
    "zeros": "no frame",
    "beyond-window": "",  # it is confirmed as fast as it comes: no breach is certain
    "gap": "with a gap",
    "wrong-stream": "a stream that was not asked for",
    "other-run": "a run that nobody started",
    "end-twice": "ended a run twice",
    "start-twice": "began a run twice",
    "hello-twice": "said hello twice",
    "our-kind": "'signal'",
    "unasked": "answered what nobody asked",
    "credit": "credit for input that was never sent",
    "huge-frame": "no frame",
    "descriptors": "",
    "many-runs": "more parts than there can be",
    "hang-up": "",
}


@pytest.fixture
def hostile(make_daemon, suite):
    """A daemon whose guests are all of the bad kind."""
    guest = Path(os.environ.get("STOCKADE", harness.SOURCE / "build/src/cli/stockade")).resolve()
    guest = guest.parents[2] / "tests/operator/hostile-guest"
    if not guest.exists():
        harness.missing("there is no hostile-guest beside the build")
    daemon = make_daemon(start=False, conf="pool = 0\n")
    daemon.programs = harness.Programs(daemon.state.parent)
    shutil.copy(guest, daemon.programs.folder / "stockade-guest")
    return daemon.start()


def try_run(daemon, box, word, timeout=3):
    """Whatever comes of it; the connection is ours to end."""
    try:
        with daemon.client.call("exec", sandbox=box, argv=[word], timeout=timeout) as c:
            return c.answer()
    except (Refused, Gone, TimeoutError) as e:
        return e


def serves(daemon, box):
    """The sandbox can be used again, after the operator has made a new connection."""
    def works():
        try:
            with daemon.client.call("exec", sandbox=box, argv=["fine"], timeout=5) as c:
                c.answer()
                return bytes(c.out) == b"fine\n"
        except (Refused, Gone, TimeoutError):
            return False
    return harness.until(works)


def test_behaves(hostile):
    box = hostile.client.create(profile="low")["id"]
    assert hostile.client.run(box, "hello")["out"] == b"hello\n"


@pytest.mark.parametrize("way", BREACHES)
def test_breach(hostile, way):
    box, other = (hostile.client.create(profile="low")["id"] for _ in range(2))
    operator = hostile.operator
    try_run(hostile, box, way, timeout=1.5)
    assert hostile.client.run(other, "hello")["out"] == b"hello\n"
    assert serves(hostile, box)
    assert hostile.operator == operator, f"the operator died: {hostile.said()}"
    if BREACHES[way]:
        assert harness.until(lambda: re.search(BREACHES[way], hostile.said())), hostile.said()


def test_storms(hostile):
    """Many small frames, and news that nobody wants: others are served meanwhile."""
    box, other = (hostile.client.create(profile="low")["id"] for _ in range(2))
    served_by = hostile.operator, hostile.warden, hostile.guest(other)
    with hostile.client.call("exec", sandbox=box, argv=["storm"]) as c:
        times = []
        for _ in range(20):
            watch = harness.Stopwatch(*served_by)
            assert hostile.client.run(other, "hello")["out"] == b"hello\n"
            times.append(watch.seconds)
        result = c.answer()
    assert result["exit_code"] == 0 and bytes(c.out) == b"x" * 32768
    assert max(times) < 0.5 * harness.SLOW, times
    assert hostile.client.run(box, "news-of-nobody")["out"] == b"news\n"


@pytest.mark.parametrize("way", ["silent", "half-frame"])
def test_silence(hostile, way):
    """One that says nothing any more holds up nobody but itself, and can be stopped."""
    box, other = (hostile.client.create(profile="low")["id"] for _ in range(2))
    try_run(hostile, box, way, timeout=1)
    assert hostile.client.run(other, "hello")["out"] == b"hello\n"
    hostile.client.delete(sandbox=box, force=True)
    with pytest.raises(Refused):
        hostile.client.show(sandbox=box)


def test_refuses(hostile):
    """One that closes every connection at once is asked again, but not in a busy loop."""
    box = hostile.client.create(profile="low")["id"]
    try_run(hostile, box, "refuse", timeout=1)
    pid = hostile.operator

    def used(process):
        return sum(int(word) for word in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13])
    before = used(pid), used(hostile.warden)
    time.sleep(2)
    ticks = os.sysconf("SC_CLK_TCK")
    assert (used(pid) - before[0]) / ticks < 0.4 * harness.SLOW and (used(hostile.warden) - before[1]) / ticks < 0.4 * harness.SLOW
    assert hostile.operator == pid and hostile.answers()
    hostile.client.delete(sandbox=box, force=True)


@pytest.mark.long
def test_fuzz(hostile):
    """Random frames, some of them damaged, again and again."""
    boxes = [hostile.client.create(profile="low")["id"] for _ in range(4)]
    operator = hostile.operator
    begin = time.monotonic()
    for i in range(harness.rounds(200)):
        try_run(hostile, boxes[i % 4], "fuzz", timeout=0.2)
        assert hostile.operator == operator, f"round {i}: {hostile.said()}"
        if time.monotonic() - begin > 120 * harness.SLOW:
            break
    assert hostile.answers()
    for box in boxes:
        hostile.client.delete(sandbox=box, force=True)
    assert hostile.operator == operator
