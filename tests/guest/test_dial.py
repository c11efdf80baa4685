"""`stockade-guest dial`: the guest of a box, which connects instead of being connected to."""
import os
import signal
import socket
import subprocess
import time

import client
import frames
import pytest


class Dialled(client.Connection):
    """A connection that the guest made."""

    def __init__(self, sock):  # pylint: disable=super-init-not-called
        self.timeout = client.ENOUGH
        self.runs, self.requests, self.listed = {}, {}, []
        self.next_request, self.next_run = 1000, 1
        self.buffer, self.hello = bytearray(), None
        self.socket = sock
        self.socket.setblocking(False)
        self.send(frames.frame("hello", version=frames.VERSION))
        self.wait(lambda: self.hello)


class Box:
    """A guest as PID 1 of a pid namespace, with nothing inherited but its standard streams."""

    def __init__(self, path):
        self.path = str(path / "s")
        wrapper = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork",
                   "--kill-child", "--mount-proc"]
        self.process = subprocess.Popen([*wrapper, client.PROGRAM, "dial", self.path, "/"], stdin=subprocess.DEVNULL)
        self.listener = None

    def listen(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.listener.settimeout(client.ENOUGH)

    def accept(self):
        return self.listener.accept()[0]

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.listener:
            self.listener.close()


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    made.close()


def test_it_waits_for_its_peer(box):
    time.sleep(0.3)
    assert box.process.poll() is None
    box.listen()
    c = Dialled(box.accept())
    run = c.end(c.sh("echo here; ls /proc/self/fd | wc -l"))
    assert run.out.split()[0] == b"here"
    c.close()


def test_it_dials_again(box):
    box.listen()
    c = Dialled(box.accept())
    run = c.sh("echo begun; sleep 600", number=7)
    c.wait(lambda: b"begun" in run.out)
    for n in range(20):
        c.close()
        began = time.monotonic()
        c = Dialled(box.accept())
        assert time.monotonic() - began < 5
        assert set(c.list_runs()) >= {7}
        assert c.end(c.sh("echo again", number=100 + n)).out == b"again\n"
    c.close()


def test_a_peer_that_says_nothing_is_not_pressed(box):
    """Connections that end before a hello come less and less often."""
    box.listen()
    end, count = time.monotonic() + 1, 0
    while time.monotonic() < end:
        box.accept().close()
        count += 1
    assert 3 <= count <= 12
    c = Dialled(box.accept())
    c.close()
    began = time.monotonic()
    box.accept()
    assert time.monotonic() - began < 0.5  # somebody had spoken


def test_descriptors_cannot_come_along(box):
    """Who says that they do breaks the protocol; the guest goes on."""
    box.listen()
    c = Dialled(box.accept())
    c.send(frames.frame("exec", 5, fds=1, path="/", words=(["true"], [])))
    with pytest.raises(client.Broken):
        c.wait(lambda: False)
    c.socket.close()
    c = Dialled(box.accept())
    assert c.end(c.sh("echo on", number=6)).out == b"on\n"
    c.close()
