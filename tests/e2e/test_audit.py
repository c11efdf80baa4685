"""Landlock's denials from the kernel's audit stream: told where there is a source, never guessed where there is none."""
import contextlib
import os
import socket
import struct

import pytest

import harness

AUDIT_GET, AUDIT_SET, NLM_F_REQUEST, NLM_F_ACK = 1000, 1001, 1, 4


def audit(kind, enabled=None):
    """Asks the kernel whether auditing is on, or switches it."""
    status = struct.pack("=11I", 1, enabled, *[0] * 9) if enabled is not None else b""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as s:
        s.settimeout(5)
        s.send(struct.pack("=IHHII", 16 + len(status), kind, NLM_F_REQUEST | (NLM_F_ACK if status else 0), 1, 0) + status)
        while True:
            answer = s.recv(9000)
            if struct.unpack_from("=IH", answer)[1] == kind:
                return struct.unpack_from("=II", answer, 16)[1]
            if status:
                return struct.unpack_from("=i", answer, 16)[0]


@contextlib.contextmanager
def auditing():
    try:
        before = audit(AUDIT_GET)
        if audit(AUDIT_SET, 1) != 0:
            raise OSError("refused")
    except OSError as error:
        harness.missing(f"auditing cannot be switched on: {error}")
    try:
        yield
    finally:
        audit(AUDIT_SET, before)


@pytest.fixture
def only_python(root):
    path = root.folder() / "only-python.yaml"
    path.write_text("profile: 1\nname: only-python\nextends: low\ntools: {exec: [/usr/bin/python3]}\n")
    return path


TRY = """
import os
try: os.execv("/usr/lib/git-core/git", ["git"])
except OSError as error: print(error.errno)
"""


def landlock_abi():
    import ctypes
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)


def test_landlock_denials_come_from_the_audit_stream(root, only_python):
    if landlock_abi() < 7:  # does not log: the record has to say so
        done = harness.run(root, "-p", only_python, "--", harness.PYTHON, "-c", TRY)
        assert done.ok() == "13\n" and done.record["denials"] == [] and done.record["denial_sources"]["files"] == "none"
        return
    assert os.path.exists("/usr/lib/git-core/git")
    with auditing():
        done = harness.run(root, "-p", only_python, "--", harness.PYTHON, "-c", TRY)
    assert done.ok() == "13\n"
    assert [(d["what"], d["rule"], d["source"]) for d in done.record["denials"]] == [
        ("exec /usr/lib/git-core/git", "tools.exec", "landlock audit")]
    assert "tools.exec" in done.errors and "to allow it" in done.errors


def test_without_a_source_nothing_is_guessed(root, only_python):
    if harness.IS_ROOT and landlock_abi() >= 7 and audit(AUDIT_GET):
        harness.missing("auditing is on here")
    done = harness.run(root, "-p", only_python, "--", harness.PYTHON, "-c", TRY + "\nprint('stockade: files.read: denied')")
    assert done.record["denials"] == [] and done.errors == ""
    assert done.record["denial_sources"]["files"] == "none"
