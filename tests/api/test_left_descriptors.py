"""Connections leave descriptors to sandboxes and files, also where one becomes several: over TLS, and as a WebSocket."""
import os
import re
import shutil
import socket
import ssl
from pathlib import Path

import pytest

import ground
import harness
import secure
from conftest import RATES, Web, address_of, check_log
from wallet import Wallet

LIMIT, KEPT = 380, 256  # of descriptors; of these, not for connections
MANY = 80               # connections that are there before any of them becomes more


def highest(daemon):
    return max(int(number) for number in os.listdir(f"/proc/{daemon.operator}/fd"))


@pytest.fixture(params=["plain", "tls"])
def house(request, suite):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    tls = secure.settings() if request.param == "tls" else ""
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\npool = 0\n{tls}{RATES}")
    folder = daemon.state.parent / "bin"
    shutil.copytree(suite.programs.folder, folder)
    (folder / "real").mkdir(mode=0o755)
    operator = (folder / "stockade-operator").rename(folder / "real/stockade-operator")
    (folder / "stockade-operator").write_text(f"#!/bin/dash\nulimit -n {LIMIT}\nexec '{operator}'\n")
    (folder / "stockade-operator").chmod(0o755)
    daemon.programs = ground.Programs(folder)
    daemon.start()
    assert re.search(rf"Max open files +{LIMIT} ", Path(f"/proc/{daemon.operator}/limits").read_text())
    yield daemon, bool(tls)
    daemon.end()
    check_log(daemon)


def come(address, i):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60 * harness.SLOW, source_address=(f"127.0.0.{2 + i // 20}", 0))


def goes_on(daemon):
    """Whoever is refused is refused; the rest has what it needs."""
    assert highest(daemon) <= LIMIT - KEPT + 2, sorted(Path(f"/proc/{daemon.operator}/fd").iterdir())
    box = daemon.client.create(profile="low", memory_only=True)["id"]
    assert daemon.client.sh(box, "echo well")["out"] == b"well\n"
    daemon.client.delete(sandbox=box, force=True)


def open_all(daemon, tls, head):
    """All of them first, then all handshakes, then all requests: (sockets that were answered, how many were not)."""
    address = address_of(daemon)
    bare = [come(address, i) for i in range(MANY)]
    good, refused = [], 0
    for s in bare:
        try:
            link = secure.context().wrap_socket(s, server_hostname="127.0.0.1") if tls else s
            link.sendall(head.encode())
            if link.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 101"):
                good.append(link)
            else:
                refused += 1
        except (ssl.SSLError, OSError):
            refused += 1
    return good, refused, bare


def test_many_connections(house):
    daemon, tls = house
    good, refused, bare = open_all(daemon, tls, f"GET /health HTTP/1.1\r\nHost: {address_of(daemon)}\r\n\r\n")
    assert good and (refused or not tls), (len(good), refused)
    goes_on(daemon)
    for s in [*good, *bare]:
        s.close()
    assert harness.until(lambda: len(os.listdir(f"/proc/{daemon.operator}/fd")) < MANY), "they stay"


def test_many_websockets(house, monkeypatch):
    """Those for whom there is no second descriptor are closed behind their head."""
    daemon, tls = house
    monkeypatch.setattr(secure, "ON", tls)
    web = Web(address_of(daemon))
    token = web.sign_in(Wallet("alice")).token
    head = (f"GET /api/local HTTP/1.1\r\nHost: {web.address}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: stockade.local.1\r\n\r\n")
    good, refused, bare = open_all(daemon, tls, head)
    assert good and (refused or not tls), (len(good), refused)
    goes_on(daemon)
    for s in [*good, *bare]:
        s.close()
    assert harness.until(lambda: len(os.listdir(f"/proc/{daemon.operator}/fd")) < MANY), "they stay"
