"""Servers of the test world that are threads of the tests: web, raw bytes, echo, datagrams. Each notes what it saw."""
import base64
import gzip
import hashlib
import json
import os
import socket
import ssl
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler

RAW = "203.0.113.20"  # whatever comes to this address is kept byte for byte, and every head is answered


def plain(address):
    return address[7:] if address.startswith("::ffff:") else address


class Seen:
    """What arrived anywhere: {"kind": "connection" | "http" | "raw" | "udp", "where", "address", "port", …}."""

    def __init__(self):
        self.events, self.lock = [], threading.Lock()

    def note(self, kind, where, conn, **more):
        address, port = conn.getsockname()[:2]
        event = {"kind": kind, "where": where, "address": plain(address), "port": port, **more}
        with self.lock:
            self.events.append(event)
        return event

    def clear(self):
        with self.lock:
            self.events = []

    def all(self, kind=None, **match):
        with self.lock:
            return [e for e in self.events if kind in (None, e["kind"]) and all(e.get(k) == v for k, v in match.items())]

    def requests(self, **match):
        return self.all("http", **match)

    def bytes(self, **match):
        return b"".join(bytes(e["data"]) for e in self.all("raw", **match))


def serve(listener, handler):
    """A thread per connection: handler(conn), then it is closed."""
    def one(conn):
        with conn:
            try:
                conn.settimeout(25)
                handler(conn)
            except (OSError, ValueError):  # the peer went away, or was refused
                pass

    def loop():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(conn,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


def sink(seen, where):
    """Reads everything, says nothing."""
    def handler(conn):
        event = seen.note("raw", where, conn, data=bytearray())
        while data := conn.recv(65536):
            event["data"] += data
    return handler


def echo(seen, where):
    def handler(conn):
        seen.note("connection", where, conn)
        while data := conn.recv(65536):
            conn.sendall(data)
    return handler


def udp(sock, seen, where):
    def loop():
        while True:
            data, peer = sock.recvfrom(65535)
            seen.note("udp", where, sock, data=data)
            try:
                sock.sendto(data, peer)
            except OSError:
                pass
    threading.Thread(target=loop, daemon=True).start()


class Web:
    def __init__(self, seen):
        self.seen, self.lock = seen, threading.Lock()
        self.reset()

    def reset(self):
        self.files = {}   # path: (type, bytes), for registries
        self.git = None   # a folder with bare repositories
        self.open = 0     # connections now
        self.most = 0     # and at most

    def handler(self, where, context=None):
        def handle(conn):
            event = self.seen.note("connection", where, conn, sni=None, tls=context is not None)
            with self.lock:
                self.open += 1
                self.most = max(self.most, self.open)
            try:
                if context:
                    conn = self.wrap(conn, context, event)
                with conn:
                    if event["address"] == RAW:
                        self.raw(conn, where)
                    else:
                        Requests(conn, self, where, event)
            finally:
                with self.lock:
                    self.open -= 1
        return handle

    @staticmethod
    def wrap(conn, context, event):
        def named(tls, name, _):
            tls.event["sni"] = name
        context.sni_callback = named
        made = context.wrap_socket(conn, server_side=True, do_handshake_on_connect=False)
        made.event = event
        made.do_handshake()
        return made

    def raw(self, conn, where):
        event = self.seen.note("raw", where, conn, data=bytearray())
        while data := conn.recv(65536):
            heads = event["data"].count(b"\r\n\r\n")
            event["data"] += data
            for _ in range(event["data"].count(b"\r\n\r\n") - heads):
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")


class Requests(BaseHTTPRequestHandler):
    """One connection. Paths are what tests need: see `answers`."""
    protocol_version = "HTTP/1.1"

    def __init__(self, conn, web, where, event):  # pylint: disable=super-init-not-called
        self.web, self.where, self.event = web, where, event
        self.request = self.connection = conn
        self.client_address, self.server = ("", 0), None
        self.setup()
        try:
            self.handle()
        finally:
            self.finish()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def note(self, data):
        self.web.seen.note("http", self.where, self.connection, method=self.command, path=self.path,
                           host=self.headers.get("Host"),
                           headers={k.lower(): v for k, v in self.headers.items()}, lines=list(self.headers.items()),
                           body=data[:100000], size=len(data), sni=self.event["sni"], tls=self.event["tls"])

    def any(self):
        data = self.body()
        self.note(data)
        path, _, query = self.path.partition("?")
        word, _, rest = path.lstrip("/").partition("/")
        if path in self.web.files:
            kind, content = self.web.files[path]
            return self.reply(200, content, {"Content-Type": kind})
        answer = {"echo": self.do_echo, "reflect": self.do_reflect, "bytes": self.do_bytes, "slow": self.do_slow,
                  "upload": self.do_upload,
                  "redirect": self.do_redirect, "ws": self.do_ws, "git": self.do_git, "stall": self.do_stall}.get(word)
        if answer:
            return answer(rest, query, data)
        if word not in ("", "v1", "v2", "private"):
            return self.reply(404, b"nothing here\n")
        return self.reply(200, f"hello from {self.where} {self.event['address']} {self.path}\n".encode())

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = any

    def reply(self, status, content, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_echo(self, _rest, _query, data):
        seen = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()),
                "body": data.decode("latin-1")}
        self.reply(200, json.dumps(seen).encode(), {"Content-Type": "application/json"})

    def do_reflect(self, rest, _query, data):
        """Says the credentials that it got, in every way that an answer can."""
        value = self.headers.get("Authorization", "") or self.headers.get("X-Api-Key", "")
        if value.startswith("Basic "):
            value += " " + base64.b64decode(value[6:]).decode()
        text = f"before {value} middle {data.decode('latin-1')} {value.split(' ')[-1]} after\n".encode()
        if rest == "chunked":  # in pieces of three bytes, each in a packet of its own
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(text), 3):
                piece = text[at:at + 3]
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        elif rest == "gzip":
            self.reply(200, gzip.compress(text), {"Content-Encoding": "gzip"})
        elif rest == "base64":
            self.reply(200, base64.b64encode(value.encode()))
        elif rest == "close":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = True
        else:
            self.reply(200, text, {"X-Seen": value, "Set-Cookie": f"token={value.split(' ')[-1]}", "Location": f"/?{value}"})

    def do_bytes(self, rest, _query, _data):
        size, block = int(rest), b"0123456789abcdef" * 4096
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        while size > 0:
            self.wfile.write(block[:size])
            size -= len(block)

    def do_slow(self, rest, _query, _data):
        """A transfer that goes on for a while: count pieces of 1,000 bytes, one every 20 ms."""
        self.send_response(200)
        self.send_header("Content-Length", str(int(rest) * 1000))
        self.end_headers()
        for _ in range(int(rest)):
            self.wfile.write(b"s" * 1000)
            self.wfile.flush()
            threading.Event().wait(0.02)

    def do_stall(self, _rest, _query, _data):
        threading.Event().wait(20)

    def do_upload(self, _rest, _query, data):
        self.reply(200, f"{len(data)} {hashlib.sha256(data).hexdigest()}\n".encode())

    def do_redirect(self, _rest, query, _data):
        self.reply(302, b"", {"Location": urllib.parse.unquote(query)})

    def do_ws(self, *_):
        """After the upgrade, every frame comes back, preceded by the credentials."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.wfile.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        text = self.headers.get("Authorization", "-").encode()
        self.wfile.write(bytes([0x81, len(text)]) + text)
        self.wfile.flush()
        while head := self.rfile.read(6):  # short frames, masked
            text = bytes(byte ^ head[2 + at % 4] for at, byte in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([head[0], len(text)]) + text)
            self.wfile.flush()
        self.close_connection = True

    def do_git(self, rest, query, data):
        env = {**os.environ, "GIT_PROJECT_ROOT": str(self.web.git), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": "/" + rest,
               "QUERY_STRING": query,
               "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "CONTENT_LENGTH": str(len(data)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding",
                                                         ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run(["git", "-c", "safe.directory=*", "http-backend"], input=data, env=env, capture_output=True,
                              check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.reply(int(fields.pop("Status", "200").split()[0]), content, fields)


def talk(conn, *steps):
    """For scripted ports: bytes are sent, numbers are seconds to wait for that much to be read."""
    for step in steps:
        if isinstance(step, bytes):
            conn.sendall(step)
        else:
            conn.settimeout(step)
            try:
                conn.recv(65536)
            except (socket.timeout, ssl.SSLError):
                pass
