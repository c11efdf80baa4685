"""An operator that says what a test tells it to: for what a real one would never send, or not when a test needs it.

Speaks docs/protocol/local.md on a Unix socket. A test gives a function for each verb; it gets the connection and the
request, and sends what it likes.
"""
import json
import os
import socket
import struct
import threading

KINDS = {"request": b"Q", "answer": b"A", "event": b"E", "input": b"I", "finish": b"F", "output": b"O", "errors": b"R",
         "control": b"C"}
NAMES = {value[0]: key for key, value in KINDS.items()}


def frame(kind, payload=b""):
    if isinstance(payload, (dict, list)):
        payload = json.dumps(payload).encode()
    return struct.pack("<I", len(payload)) + KINDS[kind] + b"\0\0\0" + payload


class Connection:
    def __init__(self, stream):
        self.stream = stream

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.stream.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def read(self):
        """The next frame: its kind, and its payload as bytes or as JSON."""
        head = self.exactly(8)
        assert head[5:] == b"\0\0\0", head
        kind, payload = NAMES[head[4]], self.exactly(struct.unpack("<I", head[:4])[0])
        return kind, json.loads(payload) if kind in ("request", "control") else payload

    def send(self, kind, payload=b""):
        self.stream.sendall(frame(kind, payload))

    def raw(self, data):
        self.stream.sendall(data)

    def ok(self, result=None):
        self.send("answer", {"ok": True, "result": {} if result is None else result})

    def refuse(self, code="not_found", message="there is no such thing", hint="look again"):
        self.send("answer", {"ok": False, "error": {"code": code, "message": message, "hint": hint}})

    def everything(self):
        """Input up to its end."""
        data = b""
        while True:
            kind, payload = self.read()
            if kind == "finish":
                return data
            if kind == "input":
                data += payload


class Operator:
    def __init__(self, folder):
        self.path = str(folder / "operator.sock")
        self.verbs, self.requests, self.failures = {}, [], []
        self.listener = None
        self.listen()

    def listen(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(64)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        with stream:
            connection = Connection(stream)
            try:
                kind, request = connection.read()
                assert kind == "request"
                self.requests.append(request)
                self.verbs[request["verb"]](connection, request)
            except (EOFError, ConnectionError):
                pass
            except Exception as trouble:  # a test must hear of it
                self.failures.append(trouble)

    def on(self, verb, function):
        self.verbs[verb] = function

    def answers(self, verb, result=None):
        self.verbs[verb] = lambda connection, request: connection.ok(result)

    def close(self):
        """As one that was killed: nobody listens, the socket stays."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
