"""Of files and archives that are read, more may be under way than of other streams, if the peer says that it knows."""
import socket
import struct

import pytest

from client import ENOUGH
from frames import frame

DATA, END, READ_CHANNEL, STAT_CHANNEL = 2, 72, 1000, 1001


def next_frame(stream):
    """(kind, channel, payload)"""
    size, kind, _, channel, _ = struct.unpack("<IHHII", stream.read(16))
    return kind, channel, stream.read(size)


def data_until_end_of(stream, channel):
    """Bytes of the other request that come before this one has its end."""
    count = 0
    while True:
        kind, of, payload = next_frame(stream)
        if (kind, of) == (END, channel):
            return count
        count += len(payload) if kind == DATA else 0


@pytest.mark.parametrize("verb", ["read", "tar-out"])
@pytest.mark.parametrize("version, window", [(1, 65536), (2, 262144), (9, 262144)])
def test_window(guest, folder, verb, version, window):
    (folder / "f").write_bytes(bytes(1_000_000))
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(guest.path)
        s.settimeout(ENOUGH)
        fields = {"path": str(folder / "f"), "offset": 0, "length": 2**64 - 1} if verb == "read" else {"path": str(folder)}
        s.sendall(frame("hello", version=version) + frame(verb, READ_CHANNEL, **fields))
        with s.makefile("rb") as stream:
            count = 0
            while count < window:
                kind, _, payload = next_frame(stream)
                count += len(payload) if kind == DATA else 0
            assert count == window
            for _ in range(3):  # each answer is behind all that the guest would have sent by then
                s.sendall(frame("stat", STAT_CHANNEL, path="/"))
                assert data_until_end_of(stream, STAT_CHANNEL) == 0
            s.sendall(frame("credit", READ_CHANNEL, stream=4, offset=65536))
            while count < window + 65536:
                kind, _, payload = next_frame(stream)
                count += len(payload) if kind == DATA else 0
            assert count == window + 65536
