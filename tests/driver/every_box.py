"""What holds in every box, with the fixtures of whoever imports it: boxes is a warden that knows its driver and the arguments
that it was started with, box makes a sandbox in it."""
import socket
import time

import wire
from daemon import alive, until


def test_pauses(boxes, box, low):
    id, _, c = box(low)
    run = c.sh("i=0; while :; do i=$((i+1)); echo $i; done", number=1)
    c.wait(lambda: len(run.out) > 100)
    boxes.ask("freeze", id=id)
    c.idle(0.2)
    before = boxes.ask("usage", id=id)[0].usage["cpu_us"]
    time.sleep(0.3)
    assert boxes.ask("usage", id=id)[0].usage["cpu_us"] == before
    boxes.ask("thaw", id=id)
    n = len(run.out)
    c.wait(lambda: len(run.out) > n)
    boxes.ask("freeze", id=id)
    boxes.stop(id)


def test_adoption(boxes, box, low, inside):
    id, keeper, c = box(low)
    run = c.sh("echo begun; sleep 600", number=9)
    c.wait(lambda: b"begun" in run.out)
    boxes.kill()
    boxes.start(args=boxes.args)
    assert [(m.id, m.pid, m.driver) for m in boxes.list() if m.item == wire.SANDBOX] == [(id, keeper, boxes.driver)]
    second = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
    assert set(second.list_runs()) == {9} and second.output("echo still", number=10)[0] == "still\n"
    boxes.stop(id)
    until(lambda: not alive(keeper))
