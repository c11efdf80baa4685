"""A WebSocket (RFC 6455) as a client needs it: whole messages, pings answered, a limit on what is taken."""
from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import threading
from typing import Optional, Tuple, Union

from .errors import StockadeError, StreamEnded
from .transport import Transport

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEAD_MAX = 64 << 10
_MESSAGE_MAX = 16 << 20
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class WebSocket:
    """One may read while another sends."""

    def __init__(self, transport: Transport, method: str, path: str) -> None:
        raw = socket.create_connection((transport.host, transport.port), timeout=transport.timeout)
        try:
            if transport.context is not None:
                raw = transport.context.wrap_socket(raw, server_hostname=transport.host)
            else:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            raw.close()
            raise
        self._socket, self._rest, self._lock = raw, b"", threading.Lock()
        self.close_code: Optional[int] = None
        try:
            self._shake_hands(transport, method, path)
        except BaseException:
            raw.close()
            raise
        raw.settimeout(None)

    def _shake_hands(self, transport: Transport, method: str, path: str) -> None:
        key = base64.b64encode(os.urandom(16))
        lines = [f"{method} {path} HTTP/1.1", f"Host: {transport.address}", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {key.decode()}", "Sec-WebSocket-Version: 13"]
        if transport.token:
            lines.append(f"Authorization: Bearer {transport.token}")
        self._socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        while b"\r\n\r\n" not in self._rest:
            self._more()
            if len(self._rest) > _HEAD_MAX:
                raise StreamEnded("the answer's head has no end")
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        first, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
        status = int(first.split()[1])
        if status != 101:
            raise self._refusal(status, headers)
        expected = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
        if headers.get("sec-websocket-accept") != expected:
            raise StreamEnded("the other end does not speak WebSocket")

    def _refusal(self, status: int, headers: "dict[str, str]") -> StockadeError:
        if 300 <= status < 400:
            return StockadeError.redirected(status, headers.get("location"))
        size = min(int(headers.get("content-length", "0")), _HEAD_MAX)
        while len(self._rest) < size:
            self._more()
        try:
            body = json.loads(self._rest[:size])
        except ValueError:
            body = None
        return StockadeError.of(status, body, headers.get("x-request-id", ""))

    def _more(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except OSError as e:
            raise StreamEnded(f"the connection broke: {e}") from e
        if not data:
            raise StreamEnded("the connection ended", self.close_code)
        self._rest += data

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _frame(self) -> Tuple[bool, int, bytes]:
        first, second = self._take(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack(">H", self._take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._take(8))
        if second & 128 or first & 0x70 or size > _MESSAGE_MAX:
            raise StreamEnded("the other end does not keep to the protocol")
        return bool(first & 128), first & 15, self._take(size)

    def receive(self) -> Union[str, bytes, None]:
        """The next message, text or binary; None once the other end has closed (close_code says why)."""
        kind, message = _CONTINUED, b""
        while True:
            last, opcode, data = self._frame()
            if opcode == _PING:
                self._send(_PONG, data)
            elif opcode == _CLOSE:
                self.close_code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                try:
                    self._send(_CLOSE, data[:2])
                except OSError:
                    pass
                self._socket.close()
                return None
            elif opcode in (_TEXT, _BINARY, _CONTINUED):
                kind, message = opcode or kind, message + data
                if len(message) > _MESSAGE_MAX:
                    raise StreamEnded("a message is too large")
                if last:
                    return message.decode("utf-8", "replace") if kind == _TEXT else message

    def send(self, message: Union[str, bytes]) -> None:
        if isinstance(message, str):
            self._send(_TEXT, message.encode())
        else:
            self._send(_BINARY, bytes(message))

    def _send(self, opcode: int, data: bytes) -> None:
        size = len(data)
        head = bytes([128 | opcode])
        if size < 126:
            head += bytes([128 | size])
        elif size < 1 << 16:
            head += bytes([128 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([128 | 127]) + struct.pack(">Q", size)
        mask = os.urandom(4)
        spread = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(spread, "big")).to_bytes(size, "big")
        with self._lock:
            self._socket.sendall(head + mask + masked)

    def close(self) -> None:
        try:
            self._send(_CLOSE, struct.pack(">H", 1000))
        except OSError:
            pass
        self._socket.close()
