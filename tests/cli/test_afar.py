"""`stockade --server` against a server of our own (far.py): every test of streams, terminals, answers and copying again, over
http and over TLS; then which server is meant, and who else listens there."""
import json
import os
import signal
import socket
import threading
import time

import pytest

import far
from away import ALICE, client, papers, run, server, stranger  # noqa: F401  pylint: disable=unused-import
# the same tests, with the fixtures of this file
from test_answers import (test_create_sends_what_was_asked_for, test_diff, test_events_come_back, test_frames_in_every_piece,  # noqa: F401
                          test_list, test_long_lists, test_refusals_are_told, test_secret, test_too_large)
from test_cp import files, test_a_file_in, test_a_file_out, test_a_folder_in, test_a_folder_out, test_an_early_answer_ends_the_sending, test_export_and_import  # noqa: F401,E501
from test_exec import (Terminal, ended, test_a_shell_comes_back, test_a_window_that_is_closed_leaves_it_running, test_attach, test_comes_back_where_it_was,  # noqa: F401,E501
                       test_detached, test_leaving, test_logs,
                       test_signals_are_passed_on, test_statuses, test_streams_are_exact,
                       test_terminal)


def test_which_server(client, run, operator, server):
    operator.answers("list", {"sandboxes": []})
    for words in (("--server", server.url, "list"), (f"--server={server.url}", "list"), ("list", "--server", server.url + "/")):
        run(*words, env={"STOCKADE_SERVER": "https://nowhere.invalid", "STOCKADE_SOCKET": "/none"}).ok()
    run("list", "--socket", operator.path, env={"STOCKADE_SERVER": "https://nowhere.invalid"}).ok()
    assert run("list", "--socket", operator.path, "--server", server.url).status == 125
    for verb in ("run", "up", "doctor", "completion"):
        done = run("--server", server.url, verb, "x")
        assert done.status == 125 and "about this host" in done.errors, done
    assert run("--server", server.url).status == 125 and run("--server").status == 125
    for wrong in ("x", "ftp://a", "http://", "https://a/b", "https://user@a"):
        done = run("--server", wrong, "list")
        assert done.status == 125 and "is not a server" in done.errors, done


def test_http_is_for_this_host(stranger):
    """Addresses that mean nobody: nothing may be sent there."""
    for url in ("http://192.0.2.1:9", "http://[2001:db8::1]:9"):
        done = stranger.run("login", "--key", stranger.key(), "--server", url)
        assert done.status == 125 and "http could be read" in done.errors and "--insecure-http" in done.errors, done


class Stranger:
    """A user who listens on this host, and notes what is said to him."""

    def __init__(self, uid, port=0, address="127.0.0.1"):
        read, write = os.pipe()
        self.heard, written = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                listener = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
                os.write(write, str(listener.getsockname()[1]).encode())
                while True:
                    stream, _ = listener.accept()
                    os.write(written, stream.recv(1000))
                    stream.close()
            finally:
                os._exit(1)
        os.close(write)
        os.close(written)
        self.port = int(os.read(read, 100))
        os.close(read)

    def end(self):
        """Everything that he heard."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        with os.fdopen(self.heard, "rb") as heard:
            return heard.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="somebody else is needed")
@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_somebody_else_listens(client, run, server):
    """The daemon is down, and another user of this host has its port: he gets neither the token nor a signature."""
    server.close()
    other = Stranger(65534, server.port)
    try:
        for words in (("list",), ("login", "--key", client.key()), ("logout",)):
            done = run(*words)
            assert done.status == 125 and "neither root's nor yours, but of user 65534" in done.errors, done
        done = run("login", "--link", input=f"{server.url}/#link=thelink".encode())
        assert done.status == 125 and "of user 65534" in done.errors, done
    finally:
        assert other.end() == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="somebody else is needed")
@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_localhost_is_the_usual_address_first(stranger, server, operator):
    """Not what somebody else has at the same port of the other one."""
    if not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("there is no IPv6 here")
    operator.answers("list", {"sandboxes": []})
    named = f"http://localhost:{server.port}"
    server.on_challenge = lambda peer, body: peer.answer(200, {"message": far.sign_in_text(named, body["address"])})
    other, hosts = Stranger(65534, server.port, "::1"), stranger.private / "hosts"
    hosts.write_text("::1 localhost\n127.0.0.1 localhost\n")
    stranger.program, real = "/usr/bin/unshare", stranger.program
    inside = ("-m", "/bin/sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, real)
    try:
        stranger.run(*inside, "login", "--server", named, "--key", stranger.key()).ok()
        stranger.run(*inside, "--server", named, "list").ok()
    finally:
        assert other.end() == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="somebody else is needed")
@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_somebody_else_who_is_trusted(stranger, server):
    """With --insecure-http, and as long as it is he."""
    one = Stranger(65534)
    url = f"http://127.0.0.1:{one.port}"
    done = stranger.run("login", "--insecure-http", "--server", url, "--key", stranger.key())
    assert done.status == 125 and "neither" not in done.errors, done
    assert b"POST /api/auth/challenge" in one.end()
    kept = {"server": url, "owner": "x", "expires_at_ms": int(time.time() * 1000) + 3600000, "insecure_http": True,
            "listener": 65534, "token": far.TOKEN}
    session = stranger.kept / f"http-127.0.0.1-{one.port}.json"
    stranger.key(json.dumps(kept), "kept").rename(session)
    for uid, goes in ((65534, True), (65533, False)):
        now = Stranger(uid, one.port)
        done = stranger.run("--server", url, "list")
        heard = now.end()
        assert done.status == 125 and (b"GET /api/local" in heard) == goes and ("neither root's" in done.errors) != goes, done


def test_no_secret_is_seen(client, server, operator):
    """Neither in the arguments nor in the variables of what runs, nor in what is printed."""
    seen, go = threading.Event(), threading.Event()

    def wait(c, q):
        seen.set()
        go.wait(60)
        c.ok({"sandboxes": []})
    operator.on("list", wait)
    process = client.popen("list")
    assert seen.wait(20)
    text = b""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as e, open(f"/proc/{pid}/cmdline", "rb") as c:
                text += e.read() + c.read()
        except OSError:
            pass
    go.set()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and b"stockade-remote\0connect\0" in text
    for secret in (far.TOKEN, f"{ALICE.key:064x}"):
        assert secret.encode() not in text + out + err
