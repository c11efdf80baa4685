"""Runs inside a sandbox: a server that answers as its path says, well or badly. It answers byte by byte as written here,
so that nothing is made right on the way."""
import base64
import hashlib
import json
import socket
import sys
import threading
import time

BAD = {
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "same-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "length-and-chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "folded": b"HTTP/1.1 200 OK\r\nX-A: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: b\x00c\r\nContent-Length: 0\r\n\r\n",
    "bare-cr": b"HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: evil=1\r\nContent-Length: 0\r\n\r\n",
    "space-colon": b"HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: 0\r\n\r\n",
    "negative": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "plus": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "gzip-coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "http2": b"HTTP/2 200\r\n\r\n",
    "nonsense": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "status": b"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
    "nothing": b"",
    "half-head": b"HTTP/1.1 200 OK\r\nContent-Len",
    "unasked-101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "many-100": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
}
CUT = {
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    "chunk-extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\n\r\n",
    "no-last-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
}


def read_head(c):
    data = b""
    while b"\r\n\r\n" not in data:
        got = c.recv(65536)
        if not got:
            return None, b""
        data += got
    return data.split(b"\r\n\r\n", 1)


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def body(c, head, rest):
    """The whole body, in pieces."""
    length = header(head, b"content-length")
    if length is not None:
        left = int(length)
        while left > 0:
            if not rest:
                rest = c.recv(1 << 20)
                if not rest:
                    return
            yield rest[:left]
            left -= len(rest)
            rest = b""
        return
    if header(head, b"transfer-encoding") != b"chunked":
        return
    f = c.makefile("rb")

    class Both:
        def line(self):
            nonlocal rest
            while b"\n" not in rest:
                got = f.read1(65536)
                if not got:
                    return b""
                rest += got
            found, rest = rest.split(b"\n", 1)
            return found

        def take(self, n):
            nonlocal rest
            while len(rest) < n:
                rest += f.read1(65536)
            found, rest = rest[:n], rest[n:]
            return found
    both = Both()
    while size := int(both.line().strip() or b"0", 16):
        yield both.take(size)
        both.line()
    both.line()


def simple(c, content, extra=b"", status=b"200 OK"):
    c.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n" % len(content) + extra + b"\r\n" + content)


def websocket(c, head, rest):
    accept = base64.b64encode(hashlib.sha1(header(head, b"sec-websocket-key") +
                                           b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Sec-WebSocket-Accept: " + accept + b"\r\nSet-Cookie: evil=1\r\nX-Inside: 1\r\n\r\n\x82\x05hello")
    while True:  # frames of fewer than 126 bytes, given back without their mask
        while len(rest) < 6 or len(rest) < 6 + (rest[1] & 127):
            got = c.recv(65536)
            if not got:
                return
            rest += got
        n = rest[1] & 127
        key, data = rest[2:6], rest[6:6 + n]
        plain = bytes(b ^ key[i & 3] for i, b in enumerate(data))
        c.sendall(bytes([rest[0], n]) + plain)
        if rest[0] & 15 == 8:
            return
        rest = rest[6 + n:]


def serve(c):
    head, rest = read_head(c)
    if head is None:
        return
    line = head.split(b"\r\n")[0].decode("latin-1")
    method, target, _ = line.split(" ")
    path = target.split("?")[0].lstrip("/")
    if path in BAD or path in CUT:
        c.sendall(BAD.get(path, b"") or CUT.get(path, b""))
    elif path == "endless":
        c.sendall(b"HTTP/1.1 200 OK\r\n")
        for i in range(10000000):
            c.sendall(b"X-%d: %s\r\n" % (i, b"y" * 1000))
    elif path == "endless-line":
        c.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            c.sendall(b"y" * 65536)
    elif path == "echo":
        content = b"".join(body(c, head, rest))
        simple(c, json.dumps({"head": head.decode("latin-1"), "body": content.decode("latin-1")}).encode(),
               b"Content-Type: application/json\r\n")
    elif path == "count":
        digest, count = hashlib.sha256(), 0
        for piece in body(c, head, rest):
            digest.update(piece)
            count += len(piece)
        simple(c, json.dumps({"count": count, "sha256": digest.hexdigest()}).encode())
    elif path == "large":
        size, piece = 64 << 20, bytes(range(256)) * 256
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(piece)):
            c.sendall(piece)
    elif path == "chunked":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n")
        for i in range(50):
            piece = b"%d " % i * (i + 1)
            c.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        c.sendall(b"0\r\n\r\n")
        time.sleep(5)  # and does not close
    elif path == "slow":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
        for i in range(3):
            c.sendall(b"9\r\ndata: %d\n\n\r\n" % i)
            time.sleep(0.5)
        c.sendall(b"0\r\n\r\n")
    elif path == "until-close":
        c.sendall(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
    elif path == "interim":
        c.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        simple(c, b"at last")
    elif path == "no-content":
        c.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    elif path == "not-modified":
        c.sendall(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 7\r\n\r\n")
    elif path == "head":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\nX-Inside: 1\r\n\r\n" + (b"" if method == "HEAD" else b"x" * 12345))
    elif path == "cookies":
        simple(c, b"<script>alert(1)</script>", b"Set-Cookie: a=1\r\nset-cookie: b=2; Domain=127.0.0.1\r\n"
               b"Content-Type: text/html\r\nClear-Site-Data: \"*\"\r\nStrict-Transport-Security: max-age=9\r\n"
               b"Access-Control-Allow-Origin: *\r\nConnection: X-Secret\r\nX-Secret: 1\r\nX-Kept: 1\r\n"
               b"Content-Security-Policy: default-src *\r\nService-Worker-Allowed: /\r\nKeep-Alive: timeout=5\r\n"
               b"X-Request-Id: forged\r\n")
    elif path == "says":
        simple(c, b"x", b"Accept-CH: DPR\r\nContent-Security-Policy-Report-Only: default-src *\r\nLink: </x>; rel=preload\r\n"
               b"Refresh: 0; url=/x\r\nSet-Login: logged-in\r\nX-Accel-Redirect: /etc/passwd\r\nX-Sendfile: /etc/passwd\r\n"
               b"Speculation-Rules: \"/x\"\r\nSourceMap: /x\r\nX-Kept: 1\r\nETag: \"e\"\r\n")
    elif path == "status-600":
        simple(c, b"x", status=b"600 Nothing")
    elif path == "redirect":
        simple(c, b"", b"Location: http://169.254.169.254/latest/meta-data\r\n", b"302 Found")
    elif path == "redirect-path":
        simple(c, b"", b"Location: /other?x=1\r\n", b"301 Moved")
    elif path == "early":
        simple(c, b"no thanks", status=b"413 Too Large")
    elif path == "ws":
        websocket(c, head, rest)
    elif path == "silent":
        time.sleep(600)
    else:
        simple(c, f"{method} {target}".encode())


def handle(c):
    try:
        serve(c)
    except OSError:
        pass
    finally:
        c.close()


if __name__ == "__main__":
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen(64)
    print("listening", flush=True)
    while True:
        threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()
