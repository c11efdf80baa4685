"""OpenSSH's sftp and scp: trees in and out, by the new protocol and the old one."""
import hashlib
import os
import stat
import subprocess

import harness
import pytest


def digest(root):
    """Everything below a folder: path → mode and contents."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        found[str(path.relative_to(root))] = "folder" if path.is_dir() else (mode, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "a/b c").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a/small").write_text("small\n")
    (root / "a/b c/large").write_bytes(os.urandom(5 << 20))
    (root / "a/zero").write_bytes(b"")
    (root / "run me").write_text("#!/bin/sh\necho run\n")
    (root / "run me").chmod(0o755)
    (root / "ümläut").write_text("x")
    return root


def sftp(door, box, *lines, **kw):
    return door.run("sftp", "-b", "-", f"{box}@127.0.0.1", data="\n".join(lines).encode() + b"\n", **kw)


def test_a_tree_by_sftp(door, box, tree, tmp_path):
    done = sftp(door, box, "mkdir /tmp/there", f"put -r {tree} /tmp/there/", "ls -l /tmp/there/tree", "ls -l /tmp/there/tree/a",
                "ls -l \"/tmp/there/tree/a/b c\"",
                "get -r /tmp/there/tree " + str(tmp_path / "back"), timeout=60)
    assert done.returncode == 0, done
    assert digest(tmp_path / "back") == digest(tree)
    assert b"small" in done.stdout and b"b c" in done.stdout and b"5242880" in done.stdout
    assert door.client.sh(box, "'/tmp/there/tree/run me'")["out"] == b"run\n"


def test_names(door, box, tree):
    done = sftp(door, box, f"put {tree}/a/small /tmp/one", "rename /tmp/one /tmp/two", "ls /tmp/two", "-ls /tmp/one",
                f"put {tree}/a/small /tmp/three", "rename /tmp/three /tmp/two", "rm /tmp/two", "-rm /tmp/two", "mkdir /tmp/d",
                "-rm /tmp/d", "rmdir /tmp/d", "-ls /tmp/d", "pwd", "-symlink /tmp/a /tmp/b", "cd /", "cd /no-such-folder")
    assert done.returncode == 1, "the last command fails"
    text = done.stdout + done.stderr
    assert b"/tmp/one\" not found" in text and b"/tmp/d\" not found" in text and b"symlink" in text
    assert door.client.sh(box, "ls -A /tmp/one /tmp/two /tmp/three /tmp/d")["out"] == b""


def test_modes_and_times(door, box, tree, tmp_path):
    os.utime(tree / "a/small", (1000000000, 1000000000))
    (tree / "a/small").chmod(0o640)
    done = sftp(door, box, f"put -p {tree}/a/small /tmp/kept", "chmod 600 /tmp/kept", f"get -p /tmp/kept {tmp_path}/kept")
    assert done.returncode == 0, done
    found = (tmp_path / "kept").stat()
    assert int(found.st_mtime) == 1000000000 and stat.S_IMODE(found.st_mode) == 0o600


def test_links_are_followed_when_read(door, box, tmp_path):
    door.client.sh(box, "echo there > /tmp/real; ln -s real /tmp/link; ln -s /tmp/loop /tmp/loop")
    done = sftp(door, box, f"get /tmp/link {tmp_path}/got", f"-get /tmp/loop {tmp_path}/no")
    assert (tmp_path / "got").read_text() == "there\n", done
    assert not (tmp_path / "no").exists()


def test_a_file_appears_whole_or_not_at_all(door, box, tmp_path):
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 30)
    running = door.start("sftp", "-l", "20000", "-b", "-", f"{box}@127.0.0.1", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    running.stdin.write(f"put {tmp_path}/large /tmp/endless\n".encode())
    running.stdin.flush()
    assert not harness.until(lambda: running.poll() is not None, 1)
    running.kill()
    running.wait()
    running.stdin.close()
    assert door.client.sh(box, "test -e /tmp/endless")["exit_code"] == 1


@pytest.mark.parametrize("old", [False, True])
def test_scp(door, box, tree, tmp_path, old):
    if old and door.ssh(box, "command -v scp").returncode:
        harness.missing("no scp inside")
    words = ["-O"] if old else []
    done = door.run("scp", *words, "-r", str(tree), f"{box}@127.0.0.1:/tmp/copy", timeout=60)
    assert done.returncode == 0, done
    done = door.run("scp", *words, "-r", f"{box}@127.0.0.1:/tmp/copy", str(tmp_path / "back"), timeout=60)
    assert done.returncode == 0, done
    assert digest(tmp_path / "back") == digest(tree)


def test_nothing_outside(door, box, tmp_path):
    """`..` does not lead out of the sandbox, and the host's files are not there."""
    secret = door.daemon.state / "ssh-host-key"
    done = sftp(door, box, f"get /../../..{secret} {tmp_path}/x")
    assert done.returncode == 1 and not (tmp_path / "x").exists()


def test_the_ledger_has_files_too(door, box, tree):
    assert sftp(door, box, f"put {tree}/a/small /tmp/noted").returncode == 0
    assert harness.until(lambda: any(e["sandbox"] == box for e in door.events("session.end")))
    uses = [e for e in door.events("session.use") if e["sandbox"] == box]
    assert [e["data"]["what"] for e in uses] == ["sftp"]
    writes = [e for e in door.events("file.write") if e["sandbox"] == box]
    assert writes and writes[0]["actor"].startswith("ssh:SHA256:")
