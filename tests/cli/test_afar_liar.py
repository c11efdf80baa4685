"""`stockade --server` against a server that lies: nothing else is signed, nothing is believed, and nobody waits for ever."""
import threading
import time

import pytest

import far
from away import ALICE, client, helpers, memory, papers, run, server, stranger, until_quiet, wait_for  # noqa: F401  pylint: disable=unused-import
from fake import frame
from wallet import Wallet


@pytest.mark.parametrize("change", [
    lambda text, url: text.replace(url.split("://")[1], "wallet.example", 1),
    lambda text, url: text.replace(f"URI: {url}", "URI: https://wallet.example"),
    lambda text, url: text.replace(ALICE.address, Wallet("bob").address),
    lambda text, url: "Send all my money to Bob",
    lambda text, url: text + "\nResources:", lambda text, url: text + "\nResources:\n- https://wallet.example/everything",
    lambda text, url: text + "\nRequest ID: x", lambda text, url: "ftp://" + text,
    lambda text, url: text + "\nmore", lambda text, url: "", lambda text, url: text * 200,
])
def test_nothing_else_is_signed(stranger, server, papers, change):
    server.on_challenge = lambda peer, body: peer.answer(200, {"nonce": "x", "message": change(far.sign_in_text(server.url, body["address"]),
                                                                                               server.url)})
    done = stranger.login("--ca", papers[0])
    assert done.status == 125 and len(server.seen) == 1 and not stranger.session.exists(), done


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(client, run, server, status, operator):
    other = far.Server(operator)
    server.on_local = lambda peer, headers: peer.answer(status, {}, f"Location: {other.url}/api/local\r\n")
    server.on_session = server.on_challenge = lambda peer, body: peer.answer(status, {}, f"Location: {other.url}\r\n")
    done = run("list")
    assert done.status == 125 and other.url in done.errors and far.TOKEN not in done.errors, done
    assert client.login().status == 125
    time.sleep(0.2)
    assert not other.seen
    other.close()


def upgraded(then):
    def local(peer, headers):
        peer.upgrade(headers)
        then(peer)
    return local


def floods(peer):
    while True:
        peer.send(b"\0" * 100000)


@pytest.mark.parametrize("local", [
    lambda peer, headers: peer.upgrade(headers, protocol="chat"),
    lambda peer, headers: peer.upgrade(headers, accept="AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    lambda peer, headers: peer.answer(200, {"ok": True}),
    lambda peer, headers: peer.answer(500, {"error": "\x1b[2J" + "x" * 1000, "hint": "\x1b[31m"}),
    lambda peer, headers: peer.stream.sendall(b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 5000 + b"\r\n"),
    lambda peer, headers: peer.stream.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 100000000000\r\n\r\n" + b"x" * 1000000),
    lambda peer, headers: peer.stream.sendall(b"SSH-2.0-OpenSSH\r\n"),
    lambda peer, headers: None,
    upgraded(lambda peer: None),
    upgraded(lambda peer: peer.send(b"text", 1)),
    upgraded(lambda peer: peer.send(b"\xff" * 100)),
    upgraded(lambda peer: peer.send(frame("request", {"verb": "down"}))),
    upgraded(lambda peer: peer.send(frame("answer", b"{" * 1000))),
    upgraded(lambda peer: peer.stream.sendall(b"\x82\x7f" + b"\x7f" + b"\xff" * 7)),
    upgraded(lambda peer: peer.stream.sendall(b"\xf2\x05hello")),
    upgraded(lambda peer: peer.stream.sendall(b"\x82\x85abcdhello")),
    upgraded(floods),
])
def test_what_is_no_server_of_ours(client, run, server, local):
    server.on_local = local
    done = run("list", timeout=60)
    assert done.status == 125 and done.err.startswith(b"stockade: ") and b"\x1b" not in done.err and len(done.err) < 2000, done


@pytest.mark.parametrize("count,good", [(8, True), (9, False)])
def test_one_that_says_go_on(client, run, server, operator, count, good):
    operator.answers("list", {"sandboxes": []})
    server.on_local = lambda peer, headers: (peer.stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * count), server.bridge(peer, headers))
    done = run("list")
    assert (done.status == 0) if good else (done.status == 125 and "does not speak HTTP" in done.errors), done


def test_pings_whose_answers_nobody_reads(client, server):
    """The answers wait here: at some point no more is read."""
    sent, over = [], threading.Event()

    def flood(peer, headers):
        peer.upgrade(headers)
        for _ in range(1000):
            peer.stream.sendall((b"\x89\x7d" + b"p" * 125) * 1000)
            sent.append(1)
            if over.is_set():
                return
    server.on_local = flood
    process = client.popen("list")
    try:
        assert 0 < until_quiet(lambda: len(sent)) < 1000, "everything was taken"
        assert memory(server.url) < 24 << 20
    finally:
        process.kill()
        process.communicate(timeout=60)
        over.set()


def test_nobody_waits_for_a_server_that_never_answers(client, server):
    """Whoever asked is gone: so is the helper, long before a time limit."""
    held = threading.Event()
    server.on_local = lambda peer, headers: held.wait(120)
    process = client.popen("list")
    assert wait_for(lambda: server.seen) and helpers(server.url)
    process.kill()
    process.communicate(timeout=20)
    try:
        assert wait_for(lambda: not helpers(server.url), 20)
    finally:
        held.set()
