"""The hall over plain HTTP, where a connection can be half closed and costs next to nothing. With TLS both are the session's, so
conftest.py leaves this file out there."""
import socket

import harness
from conftest import RATES, Web, address_of
from test_load_hall import WAIT, answer, connections, request, web  # noqa: F401  pylint: disable=unused-import


def test_who_has_said_all_and_who_has_not(web):
    """A whole head is answered although nothing more will come; half of one is let go without a word."""
    for said, good in ((request(web), True), (request(web)[:-1], False), (b"GET /hea", False), (b"", False)):
        with web.socket(WAIT * harness.SLOW) as s:
            s.sendall(said)
            s.shutdown(socket.SHUT_WR)
            got = answer(s)
        assert got.startswith(b"HTTP/1.1 200") if good else got == b"", (said, got)


def test_they_cost_little(make_house):
    daemon = make_house("connections_address = 3000\n" + RATES)
    web = Web(address_of(daemon))
    web.get("/metrics")
    before, held = daemon.memory(), []
    for _ in range(800):
        s = web.socket()
        s.sendall(b"GET /")
        held.append(s)
    assert harness.until(lambda: connections(web) >= 800)
    assert daemon.memory() - before < 800 * 2048
    for s in held:
        s.close()
