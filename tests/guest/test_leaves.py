"""The leaves of runs where the guest asks for them (`stockade-guest serve-leaves`): whoever it reports to makes them."""
import errno
import os
import signal
import socket
import struct
import threading

import client
import frames
import pytest

OPEN, END, KILL = 1, 2, 3
NEVER = 2**64 - 1


class Maker(threading.Thread):
    """In the place of the machine's first process. Its leaves are files: what is written to one stands in it."""

    def __init__(self, sock, folder):
        super().__init__(daemon=True)
        self.socket, self.folder, self.asked, self.leaves = sock, folder, [], set()
        self.refuse, self.busy, self.counts = 0, 0, (NEVER,) * 4
        self.socket.settimeout(None)

    def run(self):
        while said := self.socket.recv(64):
            what, run = struct.unpack("<II", said)
            self.asked.append((what, run))
            error, fds = self.do(what, run)
            try:
                socket.send_fds(self.socket, [struct.pack("<iI4Q", error, run, *self.counts)], fds)
            except BrokenPipeError:
                pass  # it is over
            for fd in fds:
                os.close(fd)

    def do(self, what, run):
        if what == OPEN and not self.refuse:
            self.leaves.add(run)
            return 0, [os.open(self.folder / str(run), os.O_WRONLY | os.O_CREAT | os.O_APPEND)]
        if what == OPEN:
            return -self.refuse, []
        if run not in self.leaves:
            return -errno.ENOENT, []
        if self.busy:
            self.busy -= 1
            return -errno.EBUSY, []
        self.leaves.remove(run)
        return 0, []

    def entered(self, run):
        path = self.folder / str(run)
        return path.exists() and path.read_text() == "0"


@pytest.fixture
def leafy(tmp_path):
    with client.Guest(verb="serve-leaves") as guest:
        maker = Maker(guest.report.dup(), tmp_path)
        maker.start()
        with guest.connect() as c:
            yield guest, maker, c
        guest.report.shutdown(socket.SHUT_RDWR)
        maker.join()


def test_each_run_enters_its_leaf(leafy):
    _, maker, c = leafy
    for n in range(1, 6):
        assert c.end(c.sh("ls /proc/self/fd | wc -l", number=n)).out == b"4\n"  # and keeps nothing of it
        assert maker.entered(n)
        assert c.call("leaf-end", run=n).end.error == 0
    client.until(lambda: maker.leaves == {6})
    assert [q for q in maker.asked if q[0] == OPEN] == [(OPEN, n) for n in range(1, 7)]  # one in advance


def test_a_leaf_in_advance_that_is_for_nobody(leafy):
    _, maker, c = leafy
    for n in (1, 2, 50, 51, 7):
        c.end(c.sh("true", number=n))
        assert maker.entered(n)
        c.call("leaf-end", run=n)
    assert not maker.leaves - {8}


def test_many_at_once(leafy):
    _, maker, c = leafy
    runs = [c.sh("echo here", number=n) for n in range(1, 41)]
    assert {c.end(run).out for run in runs} == {b"here\n"}
    assert all(maker.entered(n) for n in range(1, 41)) and maker.leaves == set(range(1, 41))


def test_it_says_what_was_counted(leafy):
    _, maker, c = leafy
    c.end(c.sh("true", number=1))
    maker.counts = (1234, 5678, 1, 2)
    maker.busy = 1
    said = c.call("leaf-end", run=1).end
    assert (said.error, said.bytes, said.bytes_free, said.inodes, said.inodes_free) == (-errno.EBUSY, 1234, 5678, 1, 2)
    assert maker.asked[-1][0] != KILL


def test_killing_goes_on_until_it_is_gone(leafy):
    _, maker, c = leafy
    c.end(c.sh("true", number=1))
    c.forget(c.runs[1])
    maker.busy = 7
    request = c.ask("leaf-end", frames.KILL, run=1)
    other = c.end(c.sh("echo meanwhile", number=2))
    assert other.out == b"meanwhile\n"
    assert c.finish_of(request).error == 0 and maker.asked.count((KILL, 1)) == 8
    assert c.call("leaf-end", frames.KILL, run=1).end.error == -errno.ENOENT


def test_whoever_asked_goes_away(leafy):
    guest, maker, c = leafy
    c.end(c.sh("true", number=1))
    maker.busy = 10**9
    c.ask("leaf-end", frames.KILL, run=1)
    c.wait(lambda: (KILL, 1) in maker.asked)
    with guest.connect() as second:
        assert second.end(second.sh("echo on", number=2)).out == b"on\n"
        count = len(maker.asked)
        assert second.end(second.sh("sleep 0.2; echo on", number=3)).out == b"on\n"
        assert maker.asked[count:].count((KILL, 1)) == 0


def test_no_leaf_no_run(leafy):
    _, maker, c = leafy
    maker.refuse = errno.EAGAIN
    run = c.end(c.sh("touch /tmp/never", number=1))
    assert run.exited.error == -errno.EAGAIN and run.exited.text
    maker.refuse = 0
    assert c.end(c.sh("echo now", number=2)).out == b"now\n" and maker.entered(2)


def test_without_its_maker(leafy):
    guest, _, c = leafy
    running = c.sh("sleep 1000", number=1)
    c.wait(lambda: running.pid)
    guest.report.shutdown(socket.SHUT_RDWR)
    assert c.end(c.sh("true", number=2)).exited.error == -errno.EPIPE
    assert c.end(c.sh("true", number=3)).exited.error == -errno.EPIPE
    assert c.call("leaf-end", run=1).end.error == -errno.EOPNOTSUPP
    c.signal(running, signal.SIGKILL)
    assert os.WTERMSIG(c.end(running).exited.number) == signal.SIGKILL


def test_where_there_are_none(tmp_path):
    with client.Guest() as guest, guest.connect() as c:
        c.end(c.sh("true", number=1))
        assert c.call("leaf-end", run=1).end.error == -errno.EOPNOTSUPP
