"""Keys for SSH, provisioned and revoked by HTTP, and OpenSSH that comes in with them."""
import shutil
import socket
import subprocess

import pytest

import harness
from conftest import RATES, Web, address_of, check_log
from test_doors import check_error
from wallet import Wallet


def make_key(folder, name="one", kind="ed25519"):
    if not shutil.which("ssh-keygen"):
        harness.missing("there is no ssh-keygen")
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"{name}@test", "-f", str(path)], check=True)
    return path, path.with_suffix(".pub").read_text().strip()


def test_keys_come_and_go(alice, box, tmp_path):
    path, (_, public) = f"/api/sandboxes/{box}/ssh", make_key(tmp_path)
    assert alice.get(path).json == {"keys": []}
    made = alice.post(path, {"public_key": public, "username": "laptop"})
    assert made.status == 200 and made.json["success"] is True and made.json["username"] == box, made
    key = made.json["result"]
    assert key["type"] == "ssh-ed25519" and key["username"] == "laptop" and key["comment"] == "one@test"
    assert alice.post(path, {"public_key": public, "username": "laptop"}).status == 200  # the same again is fine
    assert [k["fingerprint"] for k in alice.get(path).json["keys"]] == [key["fingerprint"]]
    gone = alice.delete(path, {"public_key": public, "username": "laptop"})
    assert gone.status == 200 and gone.json == {"success": True, "username": box, "result": {}}, gone
    assert alice.get(path).json == {"keys": []}
    check_error(alice.delete(path, {"public_key": public}), 404, "NOT_FOUND")
    print_ = alice.post(path, {"public_key": public}).json["result"]["fingerprint"]
    assert alice.delete(path, {"fingerprint": print_}).status == 200 and alice.get(path).json == {"keys": []}


def test_by_name(alice):
    made = alice.post("/api/sandboxes", {"profile": "low", "name": "by-name"}).json["id"]
    try:
        assert alice.get("/api/sandboxes/by-name/ssh/user").json == {"success": True, "username": made, "listen": []}
    finally:
        alice.delete(f"/api/sandboxes/{made}?force=true")


@pytest.mark.parametrize("body", [{}, {"public_key": ""}, {"public_key": 7}, {"public_key": "ssh-dss AAAA"}, {"public_key": "ssh-ed25519 AAAA"},
                                  {"public_key": "x" * 17000}, {"public_key": "ssh-ed25519 " + "A" * 200}, {"username": "x"},
                                  {"public_key": "ssh-rsa AAAA", "sandbox": "x"}, {"public_key": "ssh-rsa AAAA", "username": "a b"},
                                  {"public_key": "ssh-rsa AAAA", "username": "x" * 33}, {"public_key": None}])
def test_keys_that_are_none(alice, box, body):
    check_error(alice.post(f"/api/sandboxes/{box}/ssh", body), 400, "BAD_REQUEST")
    assert alice.get(f"/api/sandboxes/{box}/ssh").json == {"keys": []}


def test_two_lines_are_no_key(alice, box, tmp_path):
    _, one = make_key(tmp_path, "one")
    _, two = make_key(tmp_path, "two")
    check_error(alice.post(f"/api/sandboxes/{box}/ssh", {"public_key": f"{one}\n{two}"}), 400)
    check_error(alice.post(f"/api/sandboxes/{box}/ssh", {"public_key": "x" * 40000}), 413, "TOO_LARGE")
    check_error(alice.delete(f"/api/sandboxes/{box}/ssh", {"what": 1}), 400)
    check_error(alice.delete(f"/api/sandboxes/{box}/ssh", {}), 400)


def test_capability_for_keys(alice, box, tmp_path):
    _, public = make_key(tmp_path)
    token = alice.post("/api/capabilities/tokens", {"verbs": ["ssh-keys"], "resources": [f"sandbox/{box}"], "expires_in": 60}).json["token"]
    machine = Web(alice.address, token)
    assert machine.get(f"/api/sandboxes/{box}/ssh").status == 200 and machine.get(f"/api/sandboxes/{box}/ssh/user").status == 200
    check_error(machine.post(f"/api/sandboxes/{box}/ssh", {"public_key": public}), 403, "NOT_PERMITTED")
    check_error(machine.delete(f"/api/sandboxes/{box}/ssh", {"public_key": public}), 403, "NOT_PERMITTED")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_openssh_comes_in(suite, tmp_path):
    if not harness.IS_ROOT or not shutil.which("ssh"):
        harness.missing("root and OpenSSH's client are needed")
    port = free_port()
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\nssh_listen = 127.0.0.1:{port}\n{RATES}").start()
    try:
        nobody = Web(address_of(daemon))
        assert nobody.get("/health").json["ssh"] == [f"127.0.0.1:{port}"]
        assert daemon.client.health()["ssh"] == {"open": True, "listen": [f"127.0.0.1:{port}"]}
        web = nobody.sign_in(Wallet("ssh"))
        box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
        key, public = make_key(tmp_path)
        user = web.get(f"/api/sandboxes/{box}/ssh/user").json
        assert user["listen"] == [f"127.0.0.1:{port}"]

        def ssh():
            return subprocess.run(["ssh", "-F", "none", "-i", str(key), "-p", str(port), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
                                   "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known", "-o", "LogLevel=ERROR",
                                   f"{user['username']}@127.0.0.1", "echo", "inside"], capture_output=True, text=True,
                                  timeout=60 * harness.SLOW, check=False, stdin=subprocess.DEVNULL)
        assert ssh().returncode == 255
        assert web.post(f"/api/sandboxes/{box}/ssh", {"public_key": public}).status == 200
        done = ssh()
        assert (done.returncode, done.stdout) == (0, "inside\n"), done
        assert web.delete(f"/api/sandboxes/{box}/ssh", {"public_key": public}).status == 200
        assert ssh().returncode == 255
        assert web.delete(f"/api/sandboxes/{box}?force=true").status == 200
    finally:
        daemon.end()
    check_log(daemon)
