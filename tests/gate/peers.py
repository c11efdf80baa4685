"""Servers and small words for clients, for the tests of the gate by itself."""
import contextlib
import socket
import ssl
import struct
import time

import ward



def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def greet(connection):
    """A server that speaks first."""
    connection.sendall(b"220 hello\r\n")
    echo(connection)


class Http:
    """Answers every request with its own head, and remembers the heads."""

    def __init__(self):
        self.heads = []

    def __call__(self, connection):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head, data = data.split(b"\r\n\r\n", 1)
            self.heads.append(head.decode())
            body = b"served " + head.split(b" ")[1]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def mirror(connection):
    """Answers a request with its own body, slowly."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, body = data.split(b"\r\n\r\n", 1)
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        if len(body) < 400000:
            time.sleep(0.01)
        body += connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size + body)


def web_socket(connection):
    """Grants an upgrade, then mirrors bytes."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       b"Sec-WebSocket-Accept: x\r\n\r\nfirst")
    echo(connection)



def get(s, path="/", host="a.test", method="GET"):
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return s.recv(65536).decode()


def hello(name):
    """The bytes of a TLS hello that names this server, or none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def closed(s):
    """How the other side ended it: 'reset' or 'end', and what it said before."""
    data = b""
    try:
        while part := s.recv(65536):
            data += part
        return "end", data
    except TimeoutError:
        return "open", data
    except OSError:
        return "reset", data


def reasons(gate):
    return [(e["reason"], e["host"], e["port"]) for e in gate.refusals()]


def proxy(g):
    return g.connect(ward.OWN_V4, ward.PROXY_PORT)


def socks(s, host, port, command=1):
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    try:
        address = b"\x01" + socket.inet_aton(host)
    except OSError:
        address = b"\x03" + bytes([len(host)]) + host.encode()
    s.sendall(b"\x05" + bytes([command]) + b"\x00" + address + struct.pack(">H", port))
    return s.recv(10)[1]
