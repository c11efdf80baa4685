"""`stockade --server` over TLS, and what stays of it: nothing, however it ends."""
import os
import subprocess
import threading
import time

import pytest

import far
from away import client, memory, papers, run, server, stranger, until_quiet  # noqa: F401  pylint: disable=unused-import
from test_exec import ended


@pytest.mark.parametrize("server", ["tls"], indirect=True)
def test_certificates(stranger, server, papers, tmp_path, operator):
    done = stranger.login()
    assert done.status == 125 and "does not hold" in done.errors and "--ca" in done.errors and not server.seen, done
    folder = tmp_path / "other"
    folder.mkdir()
    other = far.certificates(folder, "example.org", "DNS:example.org")
    done = stranger.login("--ca", other[0])
    assert done.status == 125 and "not by those that --ca named" in done.errors and not server.seen, done
    named = far.Server(operator, other)
    done = stranger.run("login", "--key", stranger.key(), "--ca", other[0], "--server", named.url)
    assert done.status == 125 and "does not hold" in done.errors and not named.seen, done
    assert stranger.run("login", "--key", stranger.key(), "--ca", "/none", "--server", named.url).status == 125
    plain = server.url.replace("https", "http")
    assert stranger.run("login", "--key", stranger.key(), "--server", plain).status == 125
    named.close()


@pytest.mark.parametrize("server", ["tls"], indirect=True)
def test_a_certificate_that_changes(client, run, server, tmp_path, operator):
    """The session's token does not go to whoever stands there now."""
    folder = tmp_path / "other"
    folder.mkdir()
    papers = far.certificates(folder)
    server.context.load_cert_chain(papers[1], papers[2])
    operator.answers("list", {"sandboxes": []})
    done = run("list")
    assert done.status == 125 and "does not hold" in done.errors and not server.seen, done


@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_tls_where_there_is_none(stranger, server):
    """Neither where nothing comes back, nor where something else does."""
    server.serve = lambda stream: (stream.recv(10), stream.sendall(b"HTTP/1.1 400 no\r\n\r\n"), stream.close())
    done = stranger.run("login", "--key", stranger.key(), "--server", server.url.replace("http", "https"))
    assert done.status == 125 and "wrong version" in done.errors and server.url in done.errors, done
    del server.serve
    done = stranger.run("login", "--key", stranger.key(), "--server", server.url.replace("http", "https"))
    assert done.status == 125 and "TLS" in done.errors and server.url in done.errors, done


def test_nothing_stays(client, run, operator):
    operator.answers("list", {"sandboxes": []})
    for _ in range(3):
        run("list").ok()
    left = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert client.server.url not in left


def test_output_that_nobody_takes(client, operator, server):
    """It stays with the server: what the helper holds has an end."""
    sent = []

    def flood(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        for _ in range(1000):
            c.send("output", b"z" * 65536)
            sent.append(1)
        c.ok(ended())
    operator.on("exec", flood)
    process = client.popen("exec", "s", "flood")
    assert 0 < until_quiet(lambda: len(sent)) < 600, "everything was taken"
    assert memory(server.url) < 24 << 20
    assert len(process.stdout.read()) == 1000 * 65536
    assert process.wait(60) == 0


def test_input_that_nobody_takes(client, operator, server):
    release = threading.Event()

    def slow(c, q):
        release.wait(60)
        size = 0
        while (got := c.read())[0] != "finish":
            size += len(got[1]) if got[0] == "input" else 0
        c.send("output", str(size).encode())
        c.ok(ended())
    operator.on("exec", slow)
    process = client.popen("exec", "-i", "s", "wc")
    written = [0]

    def pour():
        for _ in range(1000):
            process.stdin.write(b"x" * 65536)
            process.stdin.flush()
            written[0] += 1
        process.stdin.close()
    thread = threading.Thread(target=pour, daemon=True)
    thread.start()
    assert 0 < until_quiet(lambda: written[0]) < 600, "everything was taken"
    assert memory(server.url) < 24 << 20
    release.set()
    thread.join(60)
    assert process.stdout.read() == str(1000 * 65536).encode() and process.wait(60) == 0


def test_a_client_that_is_killed(client, operator, server):
    gone = threading.Event()

    def wait(c, q):
        c.send("event", {"run": 7, "out": 0, "err": 0})
        c.send("output", b"ready\n")
        try:
            c.read()
        except (EOFError, ConnectionError):
            gone.set()
    operator.on("exec", wait)
    process = client.popen("exec", "s", "sleep")
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    process.wait()
    assert gone.wait(20)
