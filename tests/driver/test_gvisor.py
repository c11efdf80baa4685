import pytest
import wire
from daemon import alive, cgroups, until

GVISOR = 2


@pytest.fixture
def boxes(make):
    d = make(conf="drivers = native gvisor\n")
    d.start()
    return d


def test_starts_serves_and_stops(boxes, low, inside):
    id, answer, guest, fds = boxes.begin(low.limit("limits.processes", 600), driver=GVISOR)
    c = inside(guest)
    said, code = c.output("id; echo $((6*7)); cat /proc/1/comm; cat /proc/version; cat /proc/mounts; echo *;pwd; env; cat /proc/self/status")
    print(said)
    boxes.stop(id)
    assert not alive(answer.pid) and not cgroups(id)
