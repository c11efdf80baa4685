"""A server that does not keep to the API: it answers whatever it is told to, and remembers what it was asked."""
import base64
import contextlib
import hashlib
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(data):
    """A binary message, as a server sends it."""
    size = len(data)
    return bytes([0x82, size]) + data if size < 126 else bytes([0x82, 127]) + struct.pack(">Q", size) + data


@contextlib.contextmanager
def liar(answer):
    """answer(method, path, body) gives (status, headers, body), or an object for 200; a body is bytes, or an iterator of
    them, which is followed until nobody listens. Frames of a WebSocket are a body, too: status 101."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def handle_it(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.command, self.path, body, dict(self.headers)))
            found = answer(self.command, self.path, body)
            if isinstance(found, dict):
                found = 200, {"Content-Type": "application/json"}, json.dumps(found).encode()
            status, headers, data = found
            self.send_response(status)
            if status == 101:
                key = base64.b64encode(hashlib.sha1(self.headers["sec-websocket-key"].encode() + GUID).digest()).decode()
                headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": key}
            elif isinstance(data, bytes):
                self.send_header("Content-Length", str(len(data)))
            self.close_connection = True
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                for piece in [data] if isinstance(data, bytes) else data:
                    self.wfile.write(piece)

        do_GET = do_POST = do_PUT = do_DELETE = handle_it

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sign_in_text(domain, uri, wallet, nonce="0123456789abcdef", statement="Sign in.", after=""):
    return (f"{domain} wants you to sign in with your Ethereum account:\n{wallet}\n\n{statement}\n\nURI: {uri}\nVersion: 1\n"
            f"Chain ID: 1\nNonce: {nonce}\nIssued At: 2026-01-01T00:00:00Z\nExpiration Time: 2026-01-01T00:05:00Z{after}")
