"""Images: imported from an archive, used by sandboxes, kept while they are used."""
import io
import os
import subprocess
import tarfile

import pytest

from harness import Refused, until


@pytest.fixture(scope="module")
def rootfs():
    """A shell and a few tools, with what they link to, as a tar."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as t:
        files = {"/bin/sh": "/bin/sh"}
        for tool in ("cat", "ls", "echo", "id", "sleep", "rm", "mkdir"):
            files[f"/usr/bin/{tool}"] = f"/usr/bin/{tool}"
        for path in list(files):
            for word in subprocess.run(["ldd", path], capture_output=True, text=True).stdout.split():
                if word.startswith("/"):
                    files[word] = word
        for folder in ("etc", "tmp", "home", "proc", "dev", "run"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            t.addfile(info)
        for path, source in files.items():
            source = os.path.realpath(source)
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size, info.mode = os.path.getsize(source), 0o755
            with open(source, "rb") as f:
                t.addfile(info, f)
        info = tarfile.TarInfo("etc/made-by-me")
        info.size = 5
        t.addfile(info, io.BytesIO(b"mine\n"))
    return made.getvalue()


def load(client, name, data):
    with client.call("image-import", name=name, kind="a test") as c:
        try:
            c.input(data)
        except BrokenPipeError:
            pass
        return c.answer()


def code(call, *args, **fields):
    with pytest.raises(Refused) as e:
        call(*args, **fields)
    assert e.value.message
    return e.value.code


def test_an_image_is_the_root(make_daemon, rootfs):
    daemon = make_daemon(conf="pool = 0\n")
    client = daemon.client
    image = load(client, "tiny", rootfs)
    assert image["name"] == "tiny" and image["entries"] > 10 and image["bytes"] > 100000
    assert code(load, client, "tiny", rootfs) == "conflict"
    box = client.create(profile="medium", image="tiny")
    assert box["image"] == "tiny" and box["persistent"]
    box = box["id"]
    assert client.sh(box, "cat /etc/made-by-me; ls /usr/bin | /usr/bin/cat | while read x; do echo -n \"$x \"; done")["out"].startswith(b"mine\n")
    assert client.sh(box, "python3 -V")["exit_code"] == 127
    # its own tree, copy-on-write: changes stay in the sandbox and outlive a stop
    assert client.sh(box, "rm /etc/made-by-me; echo new >/etc/new; echo home >~/f")["exit_code"] in (0, 1)
    daemon.kill_all()
    client.stop(sandbox=box)
    client.resume(sandbox=box)
    assert client.sh(box, "cat ~/f")["out"] == b"home\n"
    snap = client.snapshot(sandbox=box)["id"]
    # a snapshot of it is the whole tree: what was changed, and what the image has
    assert [s["root"] for s in client.snapshots()["snapshots"]] == ["/"]
    assert {"etc", "home", "usr"} <= {e["name"] for e in client.ask("snapshot-ls", snapshot=snap, path="/")["entries"]}
    for path, content in (("/etc/made-by-me", b"mine\n"), (client.show(sandbox=box)["cwd"] + "/f", b"home\n")):
        with client.call("snapshot-get", snapshot=snap, path=path) as c:
            assert c.answer() == {"bytes": 5} and bytes(c.out) == content
    assert code(client.ask, "snapshot-stat", snapshot=snap, path="/etc/new") == "not_found"
    fork = client.create(snapshot=snap)
    assert fork["image"] == "tiny" and client.sh(fork["id"], "cat ~/f")["out"] == b"home\n"
    other = client.create(profile="medium", image="tiny")["id"]
    assert client.sh(other, "cat /etc/made-by-me")["out"] == b"mine\n"
    assert code(client.image_remove, name="tiny") == "conflict"
    for one in (box, fork["id"], other):
        client.delete(sandbox=one, force=True)
    client.snapshot_delete(snapshot=snap)
    assert until(lambda: not os.listdir(daemon.state / "disks"))
    client.image_remove(name="tiny")
    assert client.images()["images"] == [] and until(lambda: not os.listdir(daemon.state / "images"))


def test_what_is_no_image(make_daemon):
    daemon = make_daemon(conf="pool = 0\n")
    client = daemon.client
    for bad in (b"", b"not an archive", os.urandom(100000)):
        assert code(load, client, "bad", bad) in ("bad_request", "failed", "refused")
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as t:
        info = tarfile.TarInfo("../../escape")
        info.size = 1
        t.addfile(info, io.BytesIO(b"x"))
    assert code(load, client, "evil", evil.getvalue()) in ("bad_request", "refused")
    with client.call("image-import", name="half") as c:
        c.input(b"x" * 100000, end=False)
    assert until(lambda: not os.listdir(daemon.state / "images"))
    assert client.images()["images"] == []
    assert code(client.create, profile="medium", image="none") == "not_found"
    assert code(client.image_remove, name="none") == "not_found"
