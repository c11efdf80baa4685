"""Connections to a port inside: both families, both directions, each with its own end."""
import errno
import os
import socket
import struct
import threading

import pytest

from client import ENOUGH
from frames import WINDOW


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request):
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as s:
        s.settimeout(ENOUGH)
        yield s


def dial(conn, server):
    request = conn.ask("connect", port=server.getsockname()[1])
    conn.wait(lambda: request.opened or request.end)
    assert request.opened, request.end
    peer, _ = server.accept()
    peer.settimeout(ENOUGH)
    return request, peer


def test_both_ways(conn, server):
    request, peer = dial(conn, server)
    conn.data(request, b"hello")
    assert peer.recv(100) == b"hello"
    peer.send(b"answer")
    conn.wait(lambda: request.data == b"answer")
    conn.finish(request)
    assert peer.recv(100) == b""
    peer.send(b"more")  # the other way is still open
    conn.wait(lambda: request.data == b"answermore")
    peer.close()
    end = conn.finish_of(request)
    assert end.error == 0 and request.finished


def test_port_ends_first(conn, server):
    request, peer = dial(conn, server)
    peer.shutdown(socket.SHUT_WR)
    conn.wait(lambda: request.finished)
    conn.data(request, b"still")
    assert peer.recv(100) == b"still"
    conn.finish(request)
    assert conn.finish_of(request).error == 0
    assert peer.recv(100) == b""


def test_much_data(conn, server):
    request, peer = dial(conn, server)
    data = os.urandom(1 << 20) * 20

    def echo():
        left = len(data)
        while left:
            piece = peer.recv(1 << 16)
            left -= len(piece)
            peer.sendall(piece)
        peer.close()

    thread = threading.Thread(target=echo)
    thread.start()
    conn.data(request, data)
    conn.finish(request)
    assert conn.finish_of(request, 60).error == 0
    thread.join()
    assert request.data == data


def test_back_pressure_both_ways(guest, conn, server):
    request, peer = dial(conn, server)
    peer.setblocking(False)
    request.hold = True
    sent = 0
    while True:
        try:
            sent += peer.send(bytes(1 << 16))
        except BlockingIOError:
            before = sent
            conn.idle(1)
            try:
                sent += peer.send(bytes(1 << 16))
            except BlockingIOError:
                if before == sent:
                    break
    assert len(request.data) == WINDOW  # the rest waits in the sockets
    conn.timeout = 1
    with pytest.raises(TimeoutError):
        conn.data(request, bytes(50 << 20))
    assert request.sent - request.taken == WINDOW
    guest.stays_below(1000)
    peer.close()


def test_nobody_listens(conn):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    end = conn.call("connect", port=port).end
    assert end.error == -errno.ECONNREFUSED and str(port).encode() in end.text


def test_reset(conn, server):
    request, peer = dial(conn, server)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    assert conn.finish_of(request).error == -errno.ECONNRESET


def test_peer_that_reads_no_more(conn, server):
    request, peer = dial(conn, server)
    peer.close()  # without reading
    conn.wait(lambda: request.finished or request.end)
    conn.data(request, b"x" * 300_000)
    if not request.end:
        conn.finish(request)
    assert conn.finish_of(request).error in (0, -errno.ECONNRESET, -errno.EPIPE)


def test_cancel_closes(conn, server):
    request, peer = dial(conn, server)
    conn.cancel(request)
    assert conn.finish_of(request).error == -errno.ECANCELED
    assert peer.recv(10) == b""


def test_lost_connection_closes(guest, server):
    with guest.connect() as conn:
        _, peer = dial(conn, server)
    assert peer.recv(10) == b""


def test_data_before_it_stands(conn, server):
    request = conn.ask("connect", port=server.getsockname()[1])
    conn.data(request, b"early")
    conn.finish(request)
    peer, _ = server.accept()
    peer.settimeout(ENOUGH)
    got = b""
    while piece := peer.recv(100):
        got += piece
    assert got == b"early"
    peer.close()
    assert conn.finish_of(request).error == 0


def test_many(conn, server):
    pairs = [dial(conn, server) for _ in range(50)]
    for i, (request, peer) in enumerate(pairs):
        conn.data(request, b"%d" % i)
        assert peer.recv(10) == b"%d" % i
    for request, peer in pairs:
        peer.close()
        conn.finish(request)
        conn.finish_of(request)
