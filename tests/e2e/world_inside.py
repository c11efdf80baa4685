# Runs inside a sandbox, before a test's own script: small words for rude clients. Standard library only.
import json, os, socket, ssl, struct, sys, threading, time

# the explicit proxy, as the environment tells it
PROXY = (os.environ.get("http_proxy") or os.environ.get("HTTP_PROXY")
         or "http://127.0.0.1:3128").split("//")[-1].rstrip("/").split("@")[-1]
PROXY = (PROXY.rsplit(":", 1)[0].strip("[]"), int(PROXY.rsplit(":", 1)[1]))
# a name server: any address will do
RESOLVER = next((line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")), "8.8.8.8")


def tcp(host, port, timeout=15):
    return socket.create_connection((host, port), timeout)


def proxy(timeout=15):
    return socket.create_connection(PROXY, timeout)


def read(conn, size=1 << 20, timeout=15):
    """All that comes until the end, an error, or silence."""
    conn.settimeout(timeout)
    data = b""
    try:
        while len(data) < size:
            piece = conn.recv(65536)
            if not piece:
                break
            data += piece
    except OSError:
        pass
    return data


def ask(where, data, timeout=15, end=False):
    """Connects, sends, returns all that comes: where is (host, port) or a connection."""
    try:
        conn = socket.create_connection(where, timeout) if isinstance(where, tuple) else where
        conn.sendall(data)
        if end:
            conn.shutdown(socket.SHUT_WR)
        return read(conn, timeout=timeout)
    except OSError as error:
        return b"error: %s" % str(error).encode()


def wire_name(name):
    name = name if isinstance(name, bytes) else name.encode()
    return b"".join(bytes([len(label)]) + label for label in name.split(b".") if label) + b"\0"


def question(name, kind=1, number=7, flags=0x100, extra=b"", counts=(1, 0, 0, 0)):
    body = name if isinstance(name, bytes) else wire_name(name)
    return struct.pack("!HHHHHH", number, flags, *counts) + body + struct.pack("!HH", kind, 1) + extra


def dns(query, server=None, timeout=10, stream=False):
    """The answer's bytes, or b'' for silence."""
    server = server or RESOLVER
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        if stream:
            with socket.create_connection((server, 53), timeout) as conn:
                conn.sendall(struct.pack("!H", len(query)) + query)
                return conn.recv(65535)[2:]
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(timeout)
            sock.connect((server, 53))
            sock.send(query)
            return sock.recv(65535)
    except OSError:
        return b""


def code(answer):
    return answer[3] & 15 if len(answer) >= 12 else -1


def count(answer):
    return struct.unpack_from("!H", answer, 6)[0] if len(answer) >= 12 else 0


def connect_head(target, extra=""):
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{extra}\r\n".encode()


def socks(name, port, kind=3, command=1):
    """Greeting and request at once; name is bytes, or packed address for kinds 1 and 4."""
    name = name.encode() if isinstance(name, str) else name
    return b"\x05\x01\x00" + bytes([5, command, 0, kind]) + (bytes([len(name)])
                                                             if kind == 3 else b"") + name + struct.pack("!H", port)


def hello(name=None, alpn=None, padding=0, extra=b""):
    """A TLS ClientHello; name is text, bytes, a list of them, or None for no server name."""
    extensions = b""
    if name is not None:
        names = name if isinstance(name, list) else [name]
        entries = b"".join(b"\0" + struct.pack("!H", len(n)) + n
                           for n in (n.encode() if isinstance(n, str) else n for n in names))
        extensions += struct.pack("!HHH", 0, len(entries) + 2, len(entries)) + entries
    extensions += struct.pack("!HHBH", 43, 3, 2, 0x0304) + struct.pack("!HHHHH", 10, 6, 4, 0x001D, 0x0017)
    extensions += struct.pack("!HHHHH", 13, 6, 4, 0x0403, 0x0804)
    extensions += struct.pack("!HHHHH", 51, 38, 36, 0x001D, 32) + bytes(range(32))
    if alpn:
        entry = bytes([len(alpn)]) + alpn.encode()
        extensions += struct.pack("!HHH", 16, len(entry) + 2, len(entry)) + entry
    if padding:
        extensions += struct.pack("!HH", 21, padding) + bytes(padding)
    extensions += extra
    body = b"\x03\x03" + bytes(range(32)) + b"\x20" + bytes(32) + struct.pack("!HHHH", 6, 0x1301, 0x1302, 0xC02F) + b"\x01\x00"
    body += struct.pack("!H", len(extensions)) + extensions
    return b"\x01" + struct.pack("!I", len(body))[1:] + body


def records(handshake, size=16384):
    """The handshake in TLS records of at most size bytes."""
    return [b"\x16\x03\x01" + struct.pack("!H", len(handshake[i:i + size])) + handshake[i:i + size]
            for i in range(0, len(handshake), size)]


def tls(conn, name, verify=True):
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(conn, server_hostname=name)


def get(path="/", host="example.test", extra="", method="GET", version="1.1"):
    return f"{method} {path} HTTP/{version}\r\nHost: {host}\r\n{extra}\r\n".encode()


def status(answer):
    """The HTTP status of an answer, or 0."""
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.") else 0


def say(**facts):
    print(json.dumps(facts, default=lambda b: b.decode("latin-1")), flush=True)
