"""A server elsewhere that says what a test tells it to: enough HTTP and WebSocket for `stockade --server`, with or without TLS,
in front of the operator of fake.py. Real servers are in test_remote.py too; this one can lie.
"""
import base64
import hashlib
import json
import socket
import ssl
import struct
import subprocess
import threading
import time

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TOKEN = "v4.local." + "A" * 80


def certificates(folder, name="127.0.0.1", alternative="IP:127.0.0.1,DNS:localhost"):
    """An authority of our own and a server's certificate by it: (ca, certificate, key)."""
    ca, ca_key, cert, key, request, more = (str(folder / n) for n in ("ca.pem", "ca.key", "cert.pem", "key.pem", "request", "more"))

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", ca_key, "-out", ca,
            "-days", "2", "-subj", "/CN=a test")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", request,
            "-subj", f"/CN={name}")
    with open(more, "w") as out:
        out.write(f"subjectAltName={alternative}\n")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-out", cert, "-extfile", more)
    return ca, cert, key


def sign_in_text(url, address, nonce="abcdefgh12345678"):
    issued = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return (f"{url.split('://')[1]} wants you to sign in with your Ethereum account:\n{address}\n\nSign in.\n\nURI: {url}\n"
            f"Version: 1\nChain ID: 1\nNonce: {nonce}\nIssued At: {issued}")


class Peer:
    """One connection, as the server sees it."""

    def __init__(self, stream):
        self.stream, self.rest = stream, b""

    def take(self, size):
        while len(self.rest) < size:
            more = self.stream.recv(65536)
            if not more:
                raise EOFError
            self.rest += more
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def head(self):
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += self.take(1)
        lines = data.decode().split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
        body = self.take(int(headers.get("content-length", 0)))
        return method, path, headers, json.loads(body) if body else None

    def answer(self, status, body, headers=""):
        data = json.dumps(body).encode()
        self.stream.sendall(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
                            f"Connection: close\r\n{headers}\r\n".encode() + data)

    def upgrade(self, headers, protocol="stockade.local.1", accept=None):
        right = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + GUID).encode()).digest()).decode()
        self.stream.sendall(("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             f"Sec-WebSocket-Accept: {accept or right}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n").encode())

    def frame(self):
        first, second = self.take(2)
        size = second & 127
        if size == 126:
            size, = struct.unpack(">H", self.take(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.take(8))
        assert second & 128, "a client masks"
        key, data = self.take(4), self.take(size)
        whole = (key * (len(data) // 4 + 1))[:len(data)]
        return first & 15, (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big") if data else b""

    def send(self, data, opcode=2):
        size = len(data)
        head = bytes([0x80 | opcode]) + (bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 65536
                                         else b"\x7f" + struct.pack(">Q", size))
        self.stream.sendall(head + data)


class Server:
    def __init__(self, operator=None, tls=None):
        self.operator, self.failures, self.seen, self.tunnels = operator, [], [], 0
        self.on_local = self.bridge
        self.on_challenge = lambda peer, body: peer.answer(200, {"nonce": "abcdefgh12345678", "message": sign_in_text(self.url, body["address"])})
        self.on_session = lambda peer, body: peer.answer(200, self.session())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.context = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(tls[1], tls[2])
        threading.Thread(target=self.accept, daemon=True).start()

    def session(self, seconds=3600):
        return {"token": TOKEN, "owner": "eth:0x" + "1" * 40, "expires_at_ms": int((time.time() + seconds) * 1000)}

    def accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        try:
            with self.context.wrap_socket(stream, server_side=True) if self.context else stream as wrapped:
                peer = Peer(wrapped)
                method, path, headers, body = peer.head()
                self.seen.append((method, path, headers, body))
                {("POST", "/api/auth/challenge"): lambda: self.on_challenge(peer, body),
                 ("POST", "/api/auth/session"): lambda: self.on_session(peer, body),
                 ("DELETE", "/api/auth/session"): lambda: peer.answer(200, {"revoked": True}),
                 ("GET", "/api/local"): lambda: self.on_local(peer, headers)}[method, path]()
        except (EOFError, OSError):
            pass
        except Exception as trouble:
            self.failures.append(trouble)

    def bridge(self, peer, headers):
        """As a server of ours: the frames of the WebSocket are bytes of the operator's socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as local:
            try:
                local.connect(self.operator.path)
            except OSError:
                peer.answer(503, {"error": "nobody is there", "code": "UNAVAILABLE"})
                return
            peer.upgrade(headers)
            self.tunnels += 1
            lock = threading.Lock()  # one writer at a time, also inside TLS

            def back():
                try:
                    while data := local.recv(20000):
                        with lock:
                            peer.send(data)
                    with lock:
                        peer.send(struct.pack(">H", 1000), 8)
                except OSError:  # it broke: so does this
                    try:
                        peer.stream.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
            threading.Thread(target=back, daemon=True).start()
            try:
                while True:
                    opcode, data = peer.frame()
                    if opcode == 8:
                        break
                    if opcode == 9:
                        with lock:
                            peer.send(data, 10)
                    if opcode == 2:
                        local.sendall(data)
            finally:
                try:
                    local.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
