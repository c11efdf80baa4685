"""A tab that is open on a port ends with the right to sign in of the wallet that opened it."""
import pytest

import harness
from conftest import RATES, TLS, Web, address_of, check_log
from test_port import DOMAIN, Tab
from wallet import Wallet

SERVER = "import socket; s = socket.create_server(('127.0.0.1', 3000))\nwhile True:\n c, _ = s.accept(); c.recv(9999); " \
         "c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok'); c.close()"


@pytest.fixture
def house(suite):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    alice, bob = Wallet("alice"), Wallet("bob")
    daemon = suite.daemon(conf="listen = 127.0.0.1:0\n")

    def welcome(*wallets):
        daemon.config.write_text(f"listen = 127.0.0.1:0\nlocal_group = *\nports_domain = {DOMAIN}\npool = 0\n{TLS}{RATES}"
                                 f"wallets = {' '.join(wallet.address for wallet in wallets)}\n")
    welcome(alice, bob)
    daemon.start()
    yield daemon, welcome, alice, bob
    daemon.end()
    check_log(daemon)


def test_a_wallet_that_may_not_sign_in_any_more(house):
    daemon, welcome, alice, bob = house
    web = Web(address_of(daemon)).sign_in(alice)
    box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    assert web.post(f"/api/sandboxes/{box}/exec", {"argv": ["python3", "-c", SERVER], "background": True}).status == 202
    tab = Tab(web, box)
    tab.enter(web)
    assert harness.until(lambda: tab.get("/").status == 200), tab.get("/")
    daemon.kill_operator()
    assert address_of(daemon) == web.address and tab.get("/").status == 200  # a restart alone ends no tab
    welcome(bob)
    daemon.kill_operator()
    assert address_of(daemon) == web.address
    assert tab.get("/").status == 401 and web.get("/api/auth/whoami").status == 401
    welcome(alice)  # and nobody took it from the wallet
    daemon.kill_operator()
    assert tab.get("/").status == 200
    assert web.delete(f"/api/sandboxes/{box}?force=true").status == 200
