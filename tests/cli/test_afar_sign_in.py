"""`stockade login` and `logout` against a server of our own: keys, signers, links, and what is kept of them."""
import hashlib
import json
import os
import pathlib
import resource
import signal
import stat
import subprocess
import sys

import pytest

import far
from away import ALICE, client, papers, run, server, stranger  # noqa: F401  pylint: disable=unused-import
from conftest import SOURCE
from test_exec import Terminal
from wallet import G, N, Wallet, add, keccak256, times


def test_login(stranger, papers, server):
    done = stranger.login("--ca", papers[0])
    assert done.status == 0 and server.url in done.text and "eth:0x1111" in done.text, done
    assert stat.S_IMODE(stranger.session.stat().st_mode) == 0o600
    kept = json.loads(stranger.session.read_text())
    assert kept["token"] == far.TOKEN and kept["server"] == server.url and kept["ca"] == pathlib.Path(papers[0]).read_text()
    (_, _, _, challenge), (_, _, _, session) = server.seen
    assert challenge == {"address": ALICE.address} and session["signature"] == Signed(session["message"])
    assert json.loads(stranger.run("login", "--json", "--key", stranger.key(), "--ca", papers[0]).ok())["server"] == server.url


class Signed:
    """Equal to every signature of Alice's for this message: wallet.py takes other random numbers than libsecp256k1."""

    def __init__(self, message):
        data = message.encode()
        self.digest = int.from_bytes(keccak256(b"\x19Ethereum Signed Message:\n" + str(len(data)).encode() + data), "big")

    def __eq__(self, text):
        r, s = int(text[2:66], 16), int(text[66:130], 16)
        inverse, public = pow(s, -1, N), times(ALICE.key, G)
        point = add(times(self.digest * inverse % N, G), times(r * inverse % N, public))
        return s <= N // 2 and point[0] % N == r


def test_logout(client, server, operator, run):
    done = run("logout")
    assert done.status == 0 and not client.session.exists(), done
    assert server.seen[-1][:2] == ("DELETE", "/api/auth/session") and server.seen[-1][2]["authorization"] == f"Bearer {far.TOKEN}"
    done = run("list")
    assert done.status == 125 and f"stockade login --server {server.url}" in done.errors, done
    assert json.loads(run("list", "--json").err)["error"]["code"] == "no_session"


def test_a_file_that_others_can_read(client, run, server):
    client.session.chmod(0o640)
    done = run("list")
    assert done.status == 125 and "can be read or changed by others" in done.errors and not server.seen, done
    client.session.chmod(0o600)
    key = client.key(mode=0o644)
    done = run("login", "--key", key)
    assert done.status == 125 and "can be read or changed by others" in done.errors and not server.seen, done


def test_a_link_is_no_file(client, run, server):
    client.session.rename(client.private / "elsewhere")
    client.session.symlink_to(client.private / "elsewhere")
    assert run("list").status == 125 and not server.seen


def test_expired(stranger, server, papers):
    server.on_session = lambda peer, body: peer.answer(200, server.session(-10))
    stranger.login("--ca", papers[0]).ok()
    server.seen.clear()
    done = stranger.run("list")
    assert done.status == 125 and "expired" in done.errors and "stockade login" in done.errors and not server.seen, done


def test_revoked_there(client, run, server):
    server.on_local = lambda peer, headers: peer.answer(401, {"error": "no", "code": "BAD_TOKEN", "hint": "sign in"})
    done = run("list")
    assert done.status == 125 and "has ended" in done.errors and "stockade login --server" in done.errors, done


def test_a_new_key(stranger, server, papers):
    done = stranger.run("login", "--new-key", "--ca", papers[0])
    address = done.ok().split("address is ")[1].split()[0]
    assert server.seen[0][3]["address"] == address
    assert stat.S_IMODE((stranger.kept / "key").stat().st_mode) == 0o600
    done = stranger.run("login", "--new-key", "--ca", papers[0])
    assert done.status == 125 and "already" in done.errors
    stranger.run("login", "--ca", papers[0]).ok()
    assert server.seen[-2][3]["address"] == address


def test_a_signer(stranger, server, papers):
    program = stranger.private / "signer"
    program.write_text(f"#!/usr/bin/python3\nimport sys\nsys.path.insert(0, {str(SOURCE / 'tests/api')!r})\nfrom wallet import Wallet\n"
                       "open('env', 'w').write(open('/proc/self/environ').read())\n"
                       "print(Wallet(sys.argv[1]).sign(sys.stdin.read()))\n")
    program.chmod(0o755)
    ca = ("--ca", papers[0])
    stranger.run("login", "--signer", f"{program} alice", "--address", ALICE.address, *ca).ok()
    assert server.seen[-1][3]["signature"] == Signed(server.seen[-1][3]["message"])
    done = stranger.run("login", "--signer", f"{program} bob", "--address", ALICE.address, *ca)
    assert done.status == 125 and "another wallet" in done.errors, done
    for word, said in (("/bin/false", "failed"), ("/none/signer", "was not found"), ("/etc/passwd", "cannot be executed")):
        done = stranger.run("login", "--signer", word, "--address", ALICE.address, *ca)
        assert done.status == 125 and said in done.errors and "sudo" in done.errors, done
    assert stranger.run("login", "--signer", "/bin/echo x", "--address", ALICE.address, *ca).status == 125
    assert stranger.run("login", "--signer", program, *ca).status == 125


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_a_keystore(stranger, server, papers, kdf):
    salt, iv, word = os.urandom(32), os.urandom(16), b"a passphrase"
    if kdf == "scrypt":
        derived, parameters = hashlib.scrypt(word, salt=salt, n=4096, r=8, p=1, dklen=32), {"n": 4096, "r": 8, "p": 1}
    else:
        derived, parameters = hashlib.pbkdf2_hmac("sha256", word, salt, 1000, 32), {"c": 1000, "prf": "hmac-sha256"}
    sealed = subprocess.run(["openssl", "enc", "-aes-128-ctr", "-K", derived[:16].hex(), "-iv", iv.hex()], check=True, stdout=subprocess.PIPE,
                            input=ALICE.key.to_bytes(32, "big")).stdout
    store = {"version": 3, "id": "x", "address": ALICE.raw,
             "crypto": {"cipher": "aes-128-ctr", "cipherparams": {"iv": iv.hex()}, "ciphertext": sealed.hex(), "kdf": kdf,
                        "kdfparams": {"dklen": 32, "salt": salt.hex(), **parameters}, "mac": keccak256(derived[16:] + sealed).hex()}}
    key, right, wrong = stranger.key(json.dumps(store)), stranger.key("a passphrase\n", "right"), stranger.key("another\n", "wrong")
    stranger.run("login", "--key", key, "--passphrase-file", right, "--ca", papers[0]).ok()
    assert server.seen[0][3]["address"] == ALICE.address
    done = stranger.run("login", "--key", key, "--passphrase-file", wrong, "--ca", papers[0])
    assert done.status == 125 and "passphrase" in done.errors, done
    done = stranger.run("login", "--key", key, "--ca", papers[0], start_new_session=True)
    assert done.status == 125 and "no terminal" in done.errors, done


@pytest.mark.parametrize("text", ["", "0x12", "g" * 64, "0" * 64, "{", "{}", "f" * 64])
def test_keys_that_are_none(stranger, server, text):
    done = stranger.run("login", "--key", stranger.key(text))
    assert done.status == 125 and "hint" not in done.errors.split("\n")[0] and not server.seen, done
    assert text == "" or len(text) < 10 or text not in done.errors


def test_a_link(stranger, server, papers):
    link = f"{server.url}/#link=thelink".encode()
    stranger.run("login", "--link", "--ca", papers[0], input=link + b"\n").ok()
    assert server.seen[0][3] == {"link": "thelink"} and stranger.session.exists()
    for wrong in (b"", b"x", b"http://example.org/#link=", link.replace(b"127.0.0.1", b"127.0.0.2")):
        server.seen.clear()
        done = stranger.run("login", "--link", "--ca", papers[0], input=wrong)
        assert done.status == 125 and not server.seen and b"thelink" not in done.err, done


def test_a_link_at_the_terminal(stranger, server, papers):
    """It is not seen there, and the terminal is as it was, also after Ctrl-C."""
    for keys, status in ((f"x\x7f{server.url}/#link=thelink\r".encode(), 0), (b"thelink\x03", 125)):
        server.seen.clear()
        t = Terminal(stranger, "login", "--link", "--ca", papers[0])
        t.expect(rb"the link: ", 20)
        before = t.seen
        t.type(keys)
        assert t.end() == status and b"thelink" not in before + t.seen
        assert [seen[3] for seen in server.seen] == ([{"link": "thelink"}] if status == 0 else [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_while_it_asks(stranger, number):
    """The terminal is as it was."""
    t = Terminal(stranger, "login", "--link")
    t.expect(rb"the link: ", 20)
    assert t.raw()
    t.process.send_signal(number)
    assert t.end() == -number


def test_half_a_key(stranger):
    """The disk is full: the next try does not find what is left of the first."""
    done = stranger.run("login", "--new-key", env={"STOCKADE_SERVER": ""}, restore_signals=False,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)))
    assert done.status != 0 and not (stranger.kept / "key").exists(), done
    assert "address is" in stranger.run("login", "--new-key", env={"STOCKADE_SERVER": ""}).ok()


def test_what_was_trusted_is_trusted_again(stranger, server, papers, tmp_path):
    """The certificates are kept, not their place; other ones replace them."""
    copy = tmp_path / "copy.pem"
    copy.write_bytes(pathlib.Path(papers[0]).read_bytes())
    stranger.login("--ca", copy).ok()
    copy.unlink()
    stranger.login().ok()
    assert server.seen[-1][:2] == ("POST", "/api/auth/session")
    assert json.loads(stranger.session.read_text())["ca"] == pathlib.Path(papers[0]).read_text()
    copy.write_text("no certificate")
    done = stranger.login("--ca", copy)
    assert done.status == 125 and "PEM" in done.errors, done


def test_a_name_that_means_everybody(stranger, server, papers):
    server.on_challenge = lambda peer, body: peer.answer(200, {"message": far.sign_in_text("https://0.0.0.0:7070", body["address"])})
    done = stranger.login("--ca", papers[0])
    assert done.status == 125 and f"set url = {server.url} in its stockade.conf" in done.errors and len(server.seen) == 1, done
