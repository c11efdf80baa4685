"""A WebSocket client that can also misbehave: frames are made by hand."""
import base64
import hashlib
import json
import os
import struct
import time

import harness

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    def __init__(self, status, head, body):
        super().__init__(f"{status} {body[:300]!r}")
        self.status, self.head, self.body = status, head, body


def frame(opcode, payload=b"", fin=True, mask=True, reserved=0, length=None):
    size = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
    bit = 0x80 if mask else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not mask:
        return head + payload
    key = os.urandom(4)
    return head + key + bytes(b ^ key[i & 3] for i, b in enumerate(payload))


class Socket:
    def __init__(self, web, path, headers=None, key=None, drop=(), timeout=40):
        key = key or base64.b64encode(os.urandom(16)).decode()
        head = {"Host": web.address, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
                "Sec-WebSocket-Version": "13"}
        if web.token:
            head["Authorization"] = f"Bearer {web.token}"
        head.update(headers or {})
        self.s = web.socket(timeout * harness.SLOW)
        lines = [f"GET {path} HTTP/1.1"] + [f"{k}: {v}" for k, v in head.items() if k not in drop]
        self.s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            got = self.s.recv(65536)
            if not got:
                raise Refused(0, "", self.rest)
            self.rest += got
        first, self.rest = self.rest.split(b"\r\n\r\n", 1)
        self.head = first.decode()
        status = int(self.head.split()[1])
        if status != 101:
            self.s.settimeout(1)
            try:
                while got := self.s.recv(65536):
                    self.rest += got
            except OSError:
                pass
            raise Refused(status, self.head, self.rest)
        want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.accepted = f"sec-websocket-accept: {want}".lower() in self.head.lower()

    def send(self, data):
        self.s.sendall(frame(TEXT if isinstance(data, str) else BINARY, data.encode() if isinstance(data, str) else data))

    def raw(self, data):
        self.s.sendall(data)

    def take(self, size):
        while len(self.rest) < size:
            got = self.s.recv(65536)
            if not got:
                raise EOFError(self.rest)
            self.rest += got
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def frame(self):
        """(opcode, payload); the server's frames are whole and not masked."""
        first, second = self.take(2)
        assert first & 0xf0 == 0x80 and not second & 0x80, (first, second)
        size = second
        if size == 126:
            size, = struct.unpack(">H", self.take(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.take(8))
        return first & 15, self.take(size)

    def close_code(self):
        """Everything up to the closing frame; its code."""
        while True:
            opcode, data = self.frame()
            if opcode == CLOSE:
                return struct.unpack(">H", data[:2])[0] if data else 0

    def ended(self, within=40):
        """The other end has closed the connection."""
        self.s.settimeout(within)
        try:
            while self.s.recv(65536):
                pass
            return True
        except ConnectionError:
            return True
        except OSError:
            return False

    def until(self, what, within=40):
        """Output until these bytes were seen in it."""
        seen, end = b"", time.monotonic() + within * harness.SLOW
        while what not in seen:
            assert time.monotonic() < end, seen
            opcode, data = self.frame()
            assert opcode in (TEXT, BINARY, PING, PONG), (opcode, data, seen)
            if opcode == BINARY:
                seen += data
        return seen

    def said(self, name):
        """The next text message of this name."""
        while True:
            opcode, data = self.frame()
            assert opcode != CLOSE, data
            if opcode == TEXT and name in json.loads(data):
                return json.loads(data)[name]

    def close(self):
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
