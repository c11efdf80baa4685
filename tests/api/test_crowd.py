"""Thousands who say nothing: they are looked after in pieces, and whoever must be seen to soon is, wherever they stand."""
import http.client
import socket
import time

from conftest import Web, address_of
from wallet import Wallet

CROWD = 1500  # several pieces of a sweep


def crowd(web, count):
    return [socket.create_connection((web.host, web.port), timeout=60) for _ in range(count)]


def ends(response):
    try:
        response.read()
    except (http.client.HTTPException, ConnectionError):
        pass  # cut in the middle, which is as good


def is_open(s):
    s.setblocking(False)
    try:
        return s.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True


def test_revocation_reaches_the_last_of_many(make_house):
    daemon = make_house(f"connections_address = {CROWD + 100}\n")
    nobody = Web(address_of(daemon))
    alice, bob = nobody.sign_in(Wallet("alice")), nobody.sign_in(Wallet("bob"))
    path = "/api/events?follow=true"
    # on either side of the crowd in the list of connections; and somebody else's
    opened = time.monotonic()
    first, idle, last, other = alice.open(path), crowd(nobody, CROWD), alice.open(path), bob.open(path)
    try:
        assert [response.status for _, response in (first, last, other)] == [200, 200, 200]
        watch = daemon.stopwatch()
        assert alice.delete("/api/auth/session").json == {"revoked": True}
        ends(first[1])
        ends(last[1])
        assert watch.seconds < 1.5, watch.wall
        assert is_open(other[0].sock)
        assert all(is_open(s) for s in idle) or time.monotonic() - opened > 25  # who says nothing has half a minute
    finally:
        for c, _ in (first, last, other):
            c.close()
        for s in idle:
            s.close()


def test_those_who_leave_while_they_are_looked_after(make_house):
    """Connections come and go while a sweep is in the middle of the list."""
    daemon = make_house(f"connections_address = {CROWD + 100}\n")
    nobody = Web(address_of(daemon))
    alice = nobody.sign_in(Wallet("alice"))
    pid = daemon.operator
    for _ in range(6):
        idle = crowd(nobody, CROWD // 2)
        for s in idle[::2]:
            s.close()
        more = crowd(nobody, CROWD // 4)
        assert alice.get("/api/sandboxes").status == 200
        for s in idle[1::2] + more:
            s.close()
    assert daemon.operator == pid and nobody.get("/health").status == 200
