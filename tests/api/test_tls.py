"""TLS of the API, with clients that we did not write: curl, openssl s_client, Python's ssl."""
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

import harness
import secure
from conftest import RATES, Web
from wallet import Wallet

HERE = Path(__file__).resolve().parent
ENOUGH = 60 * harness.SLOW


@pytest.fixture
def files(tmp_path):
    """A certificate and its key, at places where others can be put."""
    pair = secure.make(tmp_path)
    places = tmp_path / "used.pem", tmp_path / "used.key"
    for source, place in zip(pair, places):
        shutil.copy(source, place)
    return places


class House:
    """A daemon whose API speaks TLS, or should."""

    def __init__(self, suite, files, conf=""):
        self.files = files
        self.daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{secure.settings(files)}{conf}").start()

    @property
    def api(self):
        return self.daemon.client.health()["api"]

    @property
    def address(self):
        return self.api["listen"][0]

    def socket(self, certificate=None, timeout=30, **kw):
        host, port = self.address.rsplit(":", 1)
        context = secure.context(certificate or self.files[0])
        for name, value in kw.items():
            setattr(context, name, value)
        return context.wrap_socket(socket.create_connection((host, int(port)), timeout=timeout), server_hostname=host)

    def curl(self, path, *args, certificate=None):
        done = subprocess.run(["curl", "-sS", "-m", "60", "--cacert", certificate or self.files[0], *args,
                               f"https://{self.address}{path}"], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def put(self, certificate, key):
        """Others in their places, as a program that renews certificates does it."""
        for source, place in zip((certificate, key), self.files):
            copy = place.with_suffix(".new")
            shutil.copy(source, copy)
            copy.chmod(0o600)
            copy.rename(place)


@pytest.fixture
def make(suite, files):
    made = []

    def new(conf="", pair=None):
        made.append(House(suite, pair or files, conf))
        return made[-1]
    yield new
    for one in made:
        one.daemon.end()
        assert "AddressSanitizer" not in one.daemon.said() and "ended by signal" not in one.daemon.said()


def names_of(address, certificate):
    """What the certificate that is shown at this moment calls itself."""
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context(cafile=str(certificate))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection((host, int(port)), timeout=30)) as s:
        der = s.getpeercert(True)
    said = subprocess.run(["openssl", "x509", "-inform", "DER", "-noout", "-subject"], input=der, capture_output=True).stdout
    return said.decode()


def test_only_tls_and_only_what_is_safe(make):
    house = make(RATES)
    assert house.api["url"] == f"https://{house.address}" and house.api["certificate"]["error"] is None
    code, body, said = house.curl("/health", "-D", "/dev/stderr")
    assert code == 0 and '"ok"' in body and "HTTP/1.1 200" in said, said
    assert "strict-transport-security" not in said.lower()  # this name is an address: others live on it
    for version in ("--tlsv1.2", "--tlsv1.3"):
        assert house.curl("/health", version, "--tls-max", version[6:])[0] == 0
    for old in ("-tls1", "-tls1_1"):
        said = subprocess.run(["openssl", "s_client", old, "-cipher", "ALL:@SECLEVEL=0", "-connect", house.address],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert said.returncode != 0 and "Cipher is (NONE)" in said.stdout, said
    for weak in ("AES128-SHA", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256", "NULL"):
        said = subprocess.run(["openssl", "s_client", "-tls1_2", "-cipher", f"{weak}:@SECLEVEL=0", "-connect", house.address],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert said.returncode != 0, (weak, said)
    # words in the clear get no word back
    with socket.create_connection(house.address.rsplit(":", 1), timeout=30) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        said = b""
        try:
            while piece := s.recv(4096):
                said += piece
        except ConnectionResetError:
            pass
        assert b"HTTP/" not in said
    assert house.curl("/health")[0] == 0


def test_named_host_is_strict(make):
    house = make(f"url = https://api.example.org\n{RATES}")
    at = house.address.rsplit(":", 1)[1]
    head = house.curl("/health", "-k", "-D", "-", "-H", "Host: api.example.org")[1].lower()
    assert "strict-transport-security: max-age=31536000" in head
    assert "strict-transport-security" not in house.curl("/health", "-D", "-")[1].lower(), at


def test_a_new_certificate_cuts_nobody(make, tmp_path):
    house = make(RATES)
    old = house.files[0].read_bytes()
    (tmp_path / "old.pem").write_bytes(old)
    with house.socket() as open_before:
        house.put(*secure.make(tmp_path, "renewed"))
        assert harness.until(lambda: "CN = renewed" in names_of(house.address, house.files[0]), ENOUGH)
        assert house.curl("/health")[0] == 0
        open_before.sendall(f"GET /health HTTP/1.1\r\nHost: {house.address}\r\n\r\n".encode())
        assert b"200 OK" in open_before.recv(4096)
    assert house.curl("/health", certificate=tmp_path / "old.pem")[0] == 60
    # one that is broken is not taken up, and said so
    house.put(tmp_path / "renewed.pem", tmp_path / "own.key")
    assert harness.until(lambda: house.api["certificate"]["error"], ENOUGH)
    assert "do not belong together" in house.api["certificate"]["error"] and house.api["open"]
    assert "CN = renewed" in names_of(house.address, house.files[0])


@pytest.mark.parametrize("what, text", [
    ("mismatch", "do not belong together"), ("certificate", "certificate cannot be read"), ("key", "key cannot be read"),
    ("empty", "certificate cannot be read"), ("missing", "cannot open"), ("open to all", "others could read"),
    ("weak", "too weak"), ("passphrase", "key cannot be read"), ("large", "more than 65536 bytes"), ("folder", "refused")])
def test_a_broken_pair_shuts_the_door_and_nothing_else(make, files, tmp_path, what, text):
    certificate, key = files
    if what == "mismatch":
        shutil.copy(secure.make(tmp_path, "other")[1], key)
    elif what == "certificate":
        certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    elif what == "key":
        key.write_bytes(os.urandom(2000))
    elif what == "empty":
        certificate.write_text("")
    elif what == "missing":
        key.unlink()
    elif what == "open to all":
        key.chmod(0o644)
    elif what == "weak":
        for source, place in zip(secure.make(tmp_path, "weak", ("rsa:1024",)), files):
            shutil.copy(source, place)
    elif what == "passphrase":
        subprocess.run(["openssl", "pkey", "-in", tmp_path / "own.key", "-aes256", "-passout", "pass:x", "-out", key], check=True)
    elif what == "large":
        certificate.write_bytes(certificate.read_bytes() + b"\n" * 70000)
    elif what == "folder":
        key.unlink()
        key.mkdir()
    house = make(RATES)
    assert house.api["open"] is False and text in house.api["error"], house.api
    assert house.api["hint"]
    box = house.daemon.client.ask("create", profile="low")["id"]  # the daemon goes on
    house.daemon.client.ask("delete", sandbox=box, force=True)
    key.rmdir() if what == "folder" else None
    house.put(tmp_path / "own.pem", tmp_path / "own.key")
    assert harness.until(lambda: house.api["open"], ENOUGH), house.api
    assert house.curl("/health")[0] == 0 and house.api["error"] is None


def test_whoever_comes_to_a_shut_door_is_sent_away(make, files):
    files[1].write_text("")
    house = make(RATES)
    listening = [int(line.split()[1].split(":")[1], 16) for line in
                 Path(f"/proc/{house.daemon.warden}/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
    inodes = {os.readlink(f"/proc/{house.daemon.operator}/fd/{n}") for n in os.listdir(f"/proc/{house.daemon.operator}/fd")}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        word = line.split()
        if word[3] == "0A" and f"socket:[{word[9]}]" in inodes:
            port = int(word[1].split(":")[1], 16)
    assert port in listening
    with socket.create_connection(("127.0.0.1", port), timeout=ENOUGH) as s:
        assert s.recv(100) == b""


def test_handshakes_are_few_and_short(make):
    house = make(RATES)
    host, port = house.address.rsplit(":", 1)
    silent = [socket.create_connection((host, int(port)), timeout=ENOUGH) for _ in range(60)]
    gone = set()

    def look():
        for i, s in enumerate(silent):
            s.setblocking(False)
            try:
                if i not in gone and s.recv(1) == b"":
                    gone.add(i)
            except BlockingIOError:
                pass
            except OSError:
                gone.add(i)
        return len(gone)
    assert harness.until(lambda: look() >= 60 - 32, ENOUGH)  # above the share of one address: at once
    assert harness.until(lambda: look() == 60, ENOUGH)       # the others soon after
    assert house.curl("/health")[0] == 0
    fds = Path(f"/proc/{house.daemon.operator}/fd")
    assert harness.until(lambda: len(os.listdir(fds)) < 60, ENOUGH)
    for s in silent:
        s.close()


def come_from(address, house):
    host, port = house.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=ENOUGH, source_address=(address, 0))


def test_silent_ones_keep_nobody_out(make):
    """More than there are places, from many addresses: whoever comes then gets in."""
    house = make(RATES)
    for _ in range(3):
        silent = [come_from(f"127.0.0.{2 + i // 30}", house) for i in range(300)]
        assert house.curl("/health")[0] == 0
        for s in silent:
            s.close()


def test_who_speaks_has_longer(make):
    house = make(RATES)
    silent, slow = come_from("127.0.0.2", house), come_from("127.0.0.2", house)
    slow.sendall(b"\x16")
    ended, looked, pause = {}, time.monotonic(), 0
    while len(ended) < 2:
        ready, _, _ = select.select([s for s in (silent, slow) if s not in ended], [], [], ENOUGH)
        assert ready, "neither is cut"
        now = time.monotonic()
        ended.update(dict.fromkeys(ready, now))
        pause, looked = max(pause, now - looked), now
    assert ended[silent] < ended[slow] or pause > 8, (ended, pause)
    silent.close(), slow.close()


def test_handshakes_of_one_address(make):
    """So many in a minute; others do not notice."""
    house = make()

    def is_sent_away():
        with come_from("127.0.0.2", house) as s:
            s.settimeout(0.5)
            try:
                return s.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True
    for _ in range(20):
        for _ in range(500):
            come_from("127.0.0.2", house).close()
        if is_sent_away():
            break
    else:
        pytest.fail("as many as anybody likes")
    assert house.curl("/health")[0] == 0


def test_hostile_handshakes(make):
    """Bytes at random, records that are cut, a hello that goes on for ever: nothing of them stays."""
    house = make(RATES)
    host, port = house.address.rsplit(":", 1)
    good = bytearray()
    sample = ssl.MemoryBIO()
    client = secure.context(house.files[0]).wrap_bio(ssl.MemoryBIO(), sample, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    good += sample.read()
    for i in range(150):
        s = socket.create_connection((host, int(port)), timeout=ENOUGH)
        bad = bytearray(good)
        if i % 3 == 0:
            bad = bytearray(os.urandom(200))
        elif i % 3 == 1:
            bad[os.urandom(1)[0] % len(bad)] ^= 1 << i % 8
        else:
            bad = bad[:i * 3 % len(bad)]
        try:
            s.sendall(bad)
        except OSError:
            pass
        s.close()
    s = socket.create_connection((host, int(port)), timeout=ENOUGH)
    try:
        while True:  # a hello of sixteen megabytes
            s.sendall(b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16380))
    except OSError:
        pass
    s.close()
    assert house.curl("/health")[0] == 0
    fds = Path(f"/proc/{house.daemon.operator}/fd")
    assert harness.until(lambda: len(os.listdir(fds)) < 60, ENOUGH)


def test_the_client_may_close_as_it_likes(make):
    house = make(RATES)
    fds = Path(f"/proc/{house.daemon.operator}/fd")
    request = f"GET /health HTTP/1.1\r\nHost: {house.address}\r\n\r\n".encode()
    assert house.curl("/health")[0] == 0
    for i in range(60):
        s = house.socket()
        if i % 4 != 3:
            s.sendall(request)
        if i % 4 == 1:
            s.recv(4096)
            s.unwrap()
        elif i % 4 == 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
    assert harness.until(lambda: len(os.listdir(fds)) < 60, ENOUGH)
    # the end of what it asks, and the whole answer after that
    with house.socket() as s:
        s.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        said = b""
        while piece := s.recv(4096):
            said += piece
        assert said.startswith(b"HTTP/1.1 200") and b'"status":"ok"' in said


def test_the_key_stays_where_it_belongs(make, files):
    """No path, no copy on a disk, no descriptor left with the operator, nothing in the log."""
    house = make(RATES)
    assert house.curl("/health")[0] == 0
    fds = Path(f"/proc/{house.daemon.operator}/fd")
    open_now = [os.readlink(fds / n) for n in os.listdir(fds)]
    assert not [name for name in open_now if "certificate" in name or name.endswith((".key", ".pem"))], open_now
    secret = "".join(files[1].read_text().splitlines()[1:3])[:40]
    assert secret not in house.daemon.log.read_text()
    environment = Path(f"/proc/{house.daemon.operator}/environ").read_bytes()
    assert b"BEGIN" not in environment


def test_much_goes_through_whole(make):
    house = make(RATES)
    web = Web(house.address)
    web.connect = lambda timeout=30: __import__("http.client").client.HTTPSConnection(
        web.host, web.port, timeout=timeout * harness.SLOW, context=secure.context(house.files[0]))
    challenge = web.post("/api/auth/challenge", {"address": Wallet("tls").address}).json
    web.token = web.post("/api/auth/session", {"nonce": challenge["nonce"],
                                               "signature": Wallet("tls").sign(challenge["message"])}).json["token"]
    box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    data = os.urandom(5 << 20)
    assert web.put(f"/api/sandboxes/{box}/files?path=/tmp/much", data).status in (200, 201)
    got = web.get(f"/api/sandboxes/{box}/files?path=/tmp/much")
    assert got.status == 200 and got.body == data
    assert web.delete(f"/api/sandboxes/{box}?force=true").status == 200


@pytest.mark.parametrize("what", ["test_websocket.py", "test_terminal.py", "test_port.py", "test_tunnel.py", "test_wire.py"])
def test_the_others_through_tls(what):
    """What holds over plain HTTP holds over TLS."""
    if secure.ON:
        pytest.skip("it is on already")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HERE / what],
                          env={**os.environ, "STOCKADE_API_TLS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
