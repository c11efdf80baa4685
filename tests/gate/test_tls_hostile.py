"""Peers that hold on to TLS, answers that give a secret back in another form, and rules that change under way: the
real gate, real sockets. Needs root."""
import base64
import contextlib
import ctypes
import ctypes.util
import os
import ssl
import subprocess
import threading
import time

import pytest

import ward
from ward import Gate, World, rule

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ward.gate_program(), reason="needs root and a built gate")

VALUE = b"Sk-Live-0123456789AbCdEfGhIjKl"
HOLDER = "stk_aaaabbbbccccddddeeeeffff00001111"


class Tls:
    """A peer by OpenSSL itself: Python's own cannot ask for new keys."""

    def __init__(self, sock, files=None):
        self.lib = ctypes.CDLL(ctypes.util.find_library("ssl"))
        for name in ("SSL_CTX_new", "SSL_new", "TLS_client_method", "TLS_server_method"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        method = self.lib.TLS_server_method() if files else self.lib.TLS_client_method()
        self.context = ctypes.c_void_p(self.lib.SSL_CTX_new(ctypes.c_void_p(method)))
        if files:
            for call, path in zip((self.lib.SSL_CTX_use_certificate_file, self.lib.SSL_CTX_use_PrivateKey_file), files):
                assert call(self.context, str(path).encode(), 1) == 1
        self.ssl = ctypes.c_void_p(self.lib.SSL_new(self.context))
        sock.settimeout(None)
        self.sock = sock
        assert self.lib.SSL_set_fd(self.ssl, sock.fileno()) == 1
        if not files:
            self.lib.SSL_ctrl(self.ssl, 55, 0, ctypes.c_char_p(b"a.test"))  # the name in the hello
        assert (self.lib.SSL_accept if files else self.lib.SSL_connect)(self.ssl) == 1

    def new_keys(self, until):
        """Asks for new keys, and for an answer to each, until the peer has enough. Returns how often."""
        count = 0
        while time.monotonic() < until and self.lib.SSL_key_update(self.ssl, 1) == 1 and \
                self.lib.SSL_do_handshake(self.ssl) == 1:
            count += 1
        return count


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World("hostile") as w:
        w.names.table["a.test"] = [w.SERVER_V4]
        w.names.table["inner.test"] = [w.PRIVATE_V4]
        folder = tmp_path_factory.mktemp("tls")
        w.files = folder / "cert.pem", folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test",
                        "-keyout", w.files[1], "-out", w.files[0]], check=True, capture_output=True)
        for f in (folder, *w.files):
            os.chmod(f, 0o755)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*w.files)
        w.heads, w.answer = [], None

        def web(connection):
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    part = connection.recv(65536)
                    if not part:
                        return
                    data += part
                head, data = data.split(b"\r\n\r\n", 1)
                w.heads.append(head.decode())
                w.answer(connection, head)

        def https(connection):
            with context.wrap_socket(connection, server_side=True) as s:
                web(s)

        def floods(connection):
            peer = Tls(connection, w.files)
            w.flooded.append(peer.new_keys(time.monotonic() + 8))

        w.flooded = []
        w.serve(https, 443)
        w.serve(web, 80)
        w.serve(web, 80, w.PRIVATE_V4)
        w.serve(floods, 4443)
        yield w


def gate(world, *rules):
    return Gate(world, rules, tls=True, environment={"SSL_CERT_FILE": str(world.files[0])})


def dial_tls(g, port=443):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(g.dial("a.test", port), server_hostname="a.test")


def receive(s, timeout=15.0, enough=lambda data: False):
    """Until the end, or until that is enough, or until nothing has come for a while; whether it ended."""
    s.settimeout(timeout)
    data = b""
    try:
        while part := s.recv(65536):
            data += part
            if enough(data):
                return data, False
    except TimeoutError:
        return data, False
    except OSError:
        pass
    return data, True


def request(s, path="/", headers="", timeout=15.0):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n".encode())
    data = b""
    s.settimeout(timeout)
    while b"\r\n\r\n" not in data:
        part = s.recv(65536)
        if not part:
            break
        data += part
    return data


# --- new keys without end ---

def test_client_asks_for_new_keys(world):
    """Two connections inside ask for new keys over and over; everyone else is served as before."""
    with gate(world, rule("a.test", inspect=True)) as g:
        address, counts, spent = g.address("a.test"), [], []
        end = time.monotonic() + 60

        def flood(s):
            watch = g.stopwatch()
            with contextlib.suppress(AssertionError):
                counts.append(Tls(s, None).new_keys(end))
            spent.append(watch.seconds)

        sockets = [g.connect(address, 443) for _ in range(2)]
        threads = [threading.Thread(target=flood, args=(s,), daemon=True) for s in sockets]
        for t in threads:
            t.start()
        time.sleep(0.5)
        times = []
        for i in range(10):
            watch = g.stopwatch()
            g.lookup(f"n{i}.a.test")
            times.append(watch.seconds)
        watch = g.stopwatch()
        g.rules(wait=False)
        g.expect(ward.APPLIED)
        assert watch.seconds < 2 and max(times) < 2, (watch.wall, times)
        for t in threads:
            t.join(61)
        # ended by the gate long before they would have ended themselves
        assert len(counts) == 2 and time.monotonic() < end and max(spent) < 8, spent
        reasons = [(e["reason"], e["detail"]) for e in g.refusals()]
        assert any(r == "bad-protocol" and "over and over" in d for r, d in reasons), reasons
        for s in sockets:
            s.close()


def test_server_asks_for_new_keys(world):
    with gate(world, rule("a.test", ports=(4443,), inspect=True)) as g:
        with dial_tls(g, 4443) as s:
            watch = g.stopwatch()
            _, ended = receive(s, ward.ENOUGH)
            assert ended and watch.seconds < 6, watch.wall
        assert ward.until(lambda: world.flooded)


# --- secrets that come back in other words ---

@contextlib.contextmanager
def with_secret(world, *rules):
    with gate(world, *(rules or [rule("a.test", secret="KEY")])) as g:
        g.secret("KEY", HOLDER, VALUE)
        yield g


FORMS = {
    "as it is": lambda v: v,
    "lower case": bytes.lower,
    "base64": lambda v: base64.b64encode(b"user:" + v),
    "base64 for addresses": lambda v: base64.urlsafe_b64encode(b"x" + v + b"y"),
    "hexadecimal": lambda v: v.hex().upper().encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_form_comes_back(world, form):
    def answer(connection, head):
        told = FORMS[form](head.split(b"Bearer ")[1].split(b"\r\n")[0])
        body = b"<" + told + b">"
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Told: %s\r\nContent-Length: %d\r\n\r\n%s" % (told, len(body), body))

    world.answer = answer
    world.heads.clear()
    with with_secret(world) as g, dial_tls(g) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {HOLDER}\r\n\r\n".encode())
        data, _ = receive(s, enough=lambda data: data.endswith(b">"))
        assert VALUE.decode() in world.heads[0]  # it did go out
        told = FORMS[form](VALUE)
        assert data.startswith(b"HTTP/1.1 200") and data.count(b"*" * (len(told) - 9)) >= 2
        assert not any(told[i:i + 8] in data for i in range(8, len(told) - 16))


def socket_open(g, path="/ws", extra=f"X-Key: {HOLDER}\r\n"):
    s = dial_tls(g)
    head = request(s, path, f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n{extra}")
    return s, head


def grants(frames):
    def answer(connection, head):
        value = head.split(b"X-Key: ")[1].split(b"\r\n")[0] if b"X-Key: " in head else b""
        connection.sendall(b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        connection.sendall(frames(value))
        while data := connection.recv(65536):
            connection.sendall(data)

    return answer


def test_fragments(world):
    """The value in two fragments of one message."""
    world.answer = grants(lambda v: b"\x01\x0a" + v[:10] + b"\x80" + bytes([len(v) - 10]) + v[10:])
    with with_secret(world) as g:
        s, data = socket_open(g)
        data += receive(s, enough=lambda more: (data + more).count(b"*") >= len(VALUE))[0]
        payload = data.split(b"\r\n\r\n", 1)[1]
        assert payload.count(b"*") == len(VALUE) and b"Sk-L" not in payload and b"IjKl" not in payload
        s.close()


def test_not_frames(world):
    """What cannot be searched does not pass."""
    world.answer = grants(lambda v: b"\xc1" + bytes([len(v)]) + v)
    with with_secret(world) as g:
        s, data = socket_open(g)
        data += receive(s, 2)[0]
        assert data.endswith(b"\r\n\r\n") and b"Sk-" not in data
        s.close()


def test_key_of_a_web_socket_stays(world):
    """Its answer is a sum of it, by which guesses could be tried."""
    world.answer = grants(lambda v: b"")
    world.heads.clear()
    with with_secret(world) as g:
        s, _ = socket_open(g, extra=f"Sec-WebSocket-Protocol: {HOLDER}\r\n")
        assert HOLDER in world.heads[0] and VALUE.decode() not in world.heads[0]
        s.close()


# --- in the clear ---

@pytest.mark.parametrize("name,goes", [("a.test", False), ("inner.test", True)])
def test_secret_in_the_clear(world, name, goes):
    """The rule says private, and the address is public: then it does not go out unencrypted."""
    world.answer = lambda c, h: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    world.heads.clear()
    with with_secret(world, rule(name, secret="KEY", private=True)) as g:
        with g.dial(name, 80) as s:
            s.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nX-Key: {HOLDER}\r\n\r\n".encode())
            assert s.recv(65536).startswith(b"HTTP/1.1 200")
        assert (VALUE.decode() in world.heads[0]) == goes and (HOLDER in world.heads[0]) != goes


# --- new rules ---

def streams(connection, head):
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100):
            connection.sendall(b"more\n")
            time.sleep(0.05)


CHANGES = {
    "same": (dict(paths=("/ws",)), True),
    "path": (dict(paths=("/other",)), False),
    "method": (dict(paths=("/ws",), methods=("POST",)), False),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["answer", "socket"])
def test_rules_change_under_way(world, kind, change):
    new, goes_on = CHANGES[change]
    world.answer = streams if kind == "answer" else grants(lambda v: b"")
    with gate(world, rule("a.test", paths=("/ws",))) as g:
        if kind == "answer":
            s = dial_tls(g)
            assert request(s, "/ws").startswith(b"HTTP/1.1 200")
        else:
            s, head = socket_open(g, extra="")
            assert head.startswith(b"HTTP/1.1 101")
        applied = g.rules(rule("a.test", **new), token=2)
        assert applied["closed"] == (0 if goes_on else 1)
        if kind == "socket" and goes_on:
            s.sendall(b"\x81\x02hi")
        data, ended = receive(s, enough=lambda data: goes_on and data) if not goes_on or kind == "socket" else (s.recv(100), False)
        assert ended != goes_on and (not goes_on or data)
        if not goes_on:
            assert "revoked" in [e["reason"] for e in g.refusals()]
        s.close()
