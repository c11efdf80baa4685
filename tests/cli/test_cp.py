"""Copying: what goes in is what was there, and what comes out of a hostile sandbox stays in its folder."""
import io
import os
import stat
import tarfile
import threading

import pytest


class Files:
    """The sandbox's side: answers by what it was given, keeps what it gets."""

    def __init__(self, operator):
        self.kinds, self.got, self.contents, self.archives = {}, {}, {}, {}
        operator.on("stat", self.stat)
        operator.on("put", self.put)
        operator.on("get", self.get)
        operator.on("mkdir", self.mkdir)
        operator.on("tar-in", self.put)
        operator.on("tar-out", self.tar_out)

    def stat(self, c, q):
        if q["path"] in self.kinds:
            c.ok({"name": q["path"], "kind": self.kinds[q["path"]]})
        else:
            c.refuse("not_found")

    def put(self, c, q):
        self.got[q["path"]] = (q, c.everything())
        c.ok({"bytes": len(self.got[q["path"]][1])})

    def mkdir(self, c, q):
        self.kinds[q["path"]] = "folder"
        c.ok()

    def get(self, c, q):
        for start in range(0, len(self.contents[q["path"]]), 50000):
            c.send("output", self.contents[q["path"]][start:start + 50000])
        c.ok({"bytes": len(self.contents[q["path"]])})

    def tar_out(self, c, q):
        data = self.archives[q["path"]]
        for start in range(0, len(data), 700):
            c.send("output", data[start:start + 700])
        c.ok({"bytes": len(data)})


@pytest.fixture
def files(operator):
    return Files(operator)


def archive(*members, end=True, format=tarfile.PAX_FORMAT):
    """members: (name, kind, contents or target, mode)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, kind, value, *mode in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = kind, mode[0] if mode else 0o644, 1700000000
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = value
                tar.addfile(info)
            else:
                info.size = len(value)
                tar.addfile(info, io.BytesIO(value))
    data = out.getvalue()
    return data if end else data.rstrip(b"\0")


FILE, DIR, LINK, TWIN, FIFO, DEVICE = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
                                      tarfile.CHRTYPE)


# --- in ---

def test_a_file_in(files, run, client):
    data = bytes(range(256)) * 2000
    (client.cwd / "data").write_bytes(data)
    os.chmod(client.cwd / "data", 0o640)
    run("cp", "data", "s:/tmp/x").ok()
    request, got = files.got["/tmp/x"]
    assert got == data and request == {"verb": "put", "sandbox": "s", "path": "/tmp/x", "mode": 0o640}
    files.kinds["/tmp"] = "folder"
    run("cp", "data", "s:/tmp").ok()
    assert files.got["/tmp/data"][1] == data
    run("cp", "-", "s:/tmp/from-stdin", input=b"typed").ok()
    assert files.got["/tmp/from-stdin"][1] == b"typed"


def test_a_folder_in(files, run, client):
    tree = client.cwd / "tree"
    (tree / "sub/deeper").mkdir(parents=True)
    (tree / "a").write_bytes(b"A" * 100000)
    (tree / "sub/b").write_text("b")
    os.chmod(tree / "sub/b", 0o4755)
    (tree / "sub/link").symlink_to("../a")
    os.link(tree / "a", tree / "sub/twin")
    os.mkfifo(tree / "pipe")
    (tree / ("n" * 200)).write_text("long")
    done = run("cp", "tree", "s:/desk")
    assert done.status == 0 and "left out 1 devices, sockets or pipes" in done.errors
    assert files.kinds["/desk"] == "folder"
    with tarfile.open(fileobj=io.BytesIO(files.got["/desk"][1])) as tar:
        members = {member.name.removeprefix("./"): member for member in tar}
        assert set(members) == {".", "a", "sub", "sub/b", "sub/deeper", "sub/link", "sub/twin", "n" * 200}
        assert tar.extractfile(members["a"]).read() == b"A" * 100000
        assert members["sub/link"].linkname == "../a" and members["sub/twin"].islnk()
        assert members["sub/b"].mode == 0o755 and members["a"].uid == 0
    files.kinds["/desk/tree"] = "folder"
    run("cp", "tree", "s:/desk").ok()
    assert "/desk/tree" in files.got


def test_an_early_answer_ends_the_sending(operator, run, client):
    (client.cwd / "large").write_bytes(b"x" * (8 << 20))
    done = threading.Event()

    def put(c, q):
        c.read()
        c.refuse("full", "the disk is full", "remove something")
        done.wait(5)
    operator.on("put", put)
    operator.on("stat", lambda c, q: c.refuse())
    result = run("cp", "large", "s:/x")
    done.set()
    assert result.status == 125 and "the disk is full" in result.errors


def test_wrong_words(files, run, client):
    (client.cwd / "a").write_text("a")
    for words in (["a", "b"], ["s:/a", "t:/b"], ["none", "s:/x"], ["a"], []):
        done = run("cp", *words)
        assert done.status == 125 and done.errors.startswith("stockade: "), done
    (client.cwd / "x:y").write_text("colon")
    run("cp", "./x:y", "s:/x").ok()
    assert files.got["/x"][1] == b"colon"


def test_a_path_below_where_commands_begin(operator, files, run, client):
    operator.answers("show", {"id": "s", "cwd": "/home/agent"})
    operator.answers("ls", {"entries": []})
    (client.cwd / "a").write_text("a")
    run("cp", "a", "s:sub/x").ok()
    assert files.got["/home/agent/sub/x"][1] == b"a"
    files.kinds["/home/agent"] = "folder"
    run("cp", "a", "s:").ok()
    assert files.got["/home/agent/a"][1] == b"a"
    files.contents["/home/agent/a"] = b"back"
    run("cp", "s:a", "b").ok()
    assert (client.cwd / "b").read_bytes() == b"back"
    for words, path in ((["s"], "/home/agent"), (["s:x"], "/home/agent/x"), (["s:/"], "/")):
        run("ls", *words).ok()
        assert operator.requests[-1]["path"] == path


# --- out ---

def test_a_file_out(files, run, client):
    files.contents["/etc/x"] = os.urandom(300000)
    run("cp", "s:/etc/x", ".").ok()
    assert (client.cwd / "x").read_bytes() == files.contents["/etc/x"]
    done = run("cp", "s:/etc/x", "x")
    assert done.status == 125 and "--force" in done.errors
    files.contents["/etc/x"] = b"new"
    run("cp", "-f", "s:/etc/x", "x").ok()
    assert (client.cwd / "x").read_bytes() == b"new"
    assert run("cp", "s:/etc/x", "-").ok() == "new"
    assert sorted(os.listdir(client.cwd)) == ["x"]


def test_a_file_that_breaks_off_is_not_there(operator, run, client):
    def get(c, q):
        c.send("output", b"half")
    operator.on("stat", lambda c, q: c.ok({"kind": "file"}))
    operator.on("get", get)
    assert run("cp", "s:/x", "x").status == 125
    operator.on("get", lambda c, q: (c.send("output", b"half"), c.refuse("failed", "the guest is gone", "")))
    assert run("cp", "s:/x", "x").status == 125
    assert os.listdir(client.cwd) == []


def test_a_file_never_goes_through_a_link(files, run, client):
    victim = client.cwd / "victim"
    victim.write_text("before")
    (client.cwd / "x").symlink_to(victim)
    files.contents["/x"] = b"evil"
    assert run("cp", "-f", "s:/x", "x").status == 125
    assert victim.read_text() == "before"


def test_a_folder_out(files, run, client):
    files.kinds["/w"] = "folder"
    files.archives["/w"] = archive(("./", DIR, b"", 0o755), ("./a", FILE, b"A" * 5000, 0o600), ("./d/", DIR, b"", 0o500),
                                   ("./d/b", FILE, b"b", 0o755), ("./d/l", LINK, "../a"), ("./t", TWIN, "./a"),
                                   ("no/parent/c", FILE, b"c"))
    run("cp", "s:/w", "out").ok()
    out = client.cwd / "out"
    assert (out / "a").read_bytes() == b"A" * 5000 and (out / "d/b").read_bytes() == b"b"
    assert os.readlink(out / "d/l") == "../a" and (out / "t").samefile(out / "a") and (out / "no/parent/c").read_text() == "c"
    assert stat.S_IMODE((out / "d").stat().st_mode) == 0o500 and stat.S_IMODE((out / "d/b").stat().st_mode) == 0o755
    assert int((out / "a").stat().st_mtime) == 1700000000
    os.chmod(out / "d", 0o700)
    run("cp", "s:/w", "out").ok()  # into it, under its own name
    assert (out / "w/a").exists()
    os.chmod(out / "w/d", 0o700)


def hostile(*members, **kw):
    return archive(("./ok", FILE, b"fine"), *members, **kw)


@pytest.mark.parametrize("members,words", [
    ([("../evil", FILE, b"x")], "leads out of its folder"),
    ([("/tmp/evil", FILE, b"x")], "leads out of its folder"),
    ([("a/../../evil", FILE, b"x")], "leads out of its folder"),
    ([("..", DIR, b"")], "leads out of its folder"),
    ([("l", LINK, "/tmp"), ("l/evil", FILE, b"x")], ""),           # the link is left out; l becomes a folder
    ([("l", LINK, "."), ("l/evil", FILE, b"x")], "could not"),     # a link of its own is not followed
    ([("d", DIR, b""), ("d/l", LINK, ".."), ("d/l/evil", FILE, b"x")], "could not"),
    ([("t", TWIN, "../outside")], "could not"),
    ([("t", TWIN, "/etc/passwd")], "could not"),
    ([("t", TWIN, "none")], "could not"),
    ([("l", LINK, "ok"), ("t", TWIN, "l")], "could not"),
    ([("d", DIR, b""), ("d", FILE, b"x")], "could not"),
    ([("ok", DIR, b"")], "could not"),
    ([("x" * 300, FILE, b"x")], "could not"),
])
def test_hostile_archives(files, run, client, members, words):
    inside = client.cwd / "inside"
    inside.mkdir()
    (client.cwd / "outside").write_text("outside")
    before = sorted(os.listdir(client.cwd))
    files.kinds["/w"] = "folder"
    files.archives["/w"] = hostile(*members)
    done = run("cp", "s:/w", "inside/new")
    assert done.status == (125 if words else 0) and words in done.errors, done
    assert sorted(os.listdir(client.cwd)) == before and (client.cwd / "outside").read_text() == "outside"
    assert not os.path.exists("/tmp/evil") and os.listdir(inside) == ["new"]
    assert (inside / "new/ok").is_file()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "..", "a/../../x", "l/..", "d/../..", ""])
def test_links_that_lead_out_are_left_out(files, run, client, target):
    files.kinds["/w"] = "folder"
    if target:
        files.archives["/w"] = hostile(("d", DIR, b""), ("d/l", LINK, target))
        done = run("cp", "s:/w", "new")
        assert done.status == 0
        inside = target == ".."
        assert os.path.lexists(client.cwd / "new/d/l") == inside and ("left out 1 links" in done.errors) != inside
        if not inside:
            run("cp", "--keep-links", "s:/w", "other").ok()
            assert os.readlink(client.cwd / "other/d/l") == target


def test_no_set_id_no_devices(files, run, client):
    files.kinds["/w"] = "folder"
    files.archives["/w"] = hostile(("s", FILE, b"x", 0o6777), ("d", DIR, b"", 0o7777), ("p", FIFO, b""), ("c", DEVICE, b""))
    done = run("cp", "s:/w", "new")
    assert done.status == 0 and "left out 2 devices" in done.errors
    assert sorted(os.listdir(client.cwd / "new")) == ["d", "ok", "s"]
    for name in ("s", "d"):
        assert (client.cwd / "new" / name).stat().st_mode & 0o7000 == 0
    assert (client.cwd / "new/s").stat().st_uid == os.geteuid()


def test_what_was_there_is_not_written_through(files, run, client):
    """A target with links and second names in it: new files take their place, what they led to stays as it was."""
    new = client.cwd / "new"
    (new / "w").mkdir(parents=True)
    victim = client.cwd / "victim"
    victim.write_text("before")
    (new / "w/l").symlink_to(victim)
    os.link(victim, new / "w/t")
    (client.cwd / "elsewhere").mkdir()
    (new / "w/d").symlink_to(client.cwd / "elsewhere")
    files.kinds["/w"] = "folder"
    files.archives["/w"] = archive(("l", FILE, b"evil"), ("t", FILE, b"evil"))
    done = run("cp", "s:/w", "new")
    assert done.status == 125 and "--force" in done.errors and os.readlink(new / "w/l") == str(victim)
    assert (new / "w/t").read_text() == victim.read_text() == "before"
    run("cp", "--force", "s:/w", "new").ok()
    assert victim.read_text() == "before" and (new / "w/l").read_text() == (new / "w/t").read_text() == "evil"
    files.archives["/w"] = archive(("d/x", FILE, b"evil"))
    assert run("cp", "--force", "s:/w", "new").status == 125
    assert os.listdir(client.cwd / "elsewhere") == []


def test_cut_and_broken_archives(files, run, client):
    files.kinds["/w"] = "folder"
    whole = archive(("a", FILE, b"A" * 3000), ("b", FILE, b"B"))
    for data, words in ((b"", "was cut"), (whole[:1500], "was cut"), (whole[:4096], "was cut"), (b"x" * 2000, "no archive"),
                        (whole[:600] + b"Z" + whole[601:], None), (whole[:4608] + b"\xff" * 600, "no archive")):
        files.archives["/w"] = data
        done = run("cp", "--force", "s:/w", "new")
        if words:
            assert done.status == 125 and words in done.errors, (len(data), done)


def test_a_file_larger_than_the_limit(files, run, client):
    files.contents["/x"] = b"x" * 500001
    done = run("cp", "--limit", "500kB", "s:/x", "x")
    assert done.status == 125 and "--limit" in done.errors and os.listdir(client.cwd) == []
    files.contents["/x"] = b"x" * 500000
    run("cp", "--limit", "500kB", "s:/x", "x").ok()


def test_limits(files, run, client):
    files.kinds["/w"] = "folder"
    files.archives["/w"] = archive(*((f"f{n}", FILE, b"x" * 10000) for n in range(100)))
    done = run("cp", "--limit", "500kB", "s:/w", "new")
    assert done.status == 125 and "--limit" in done.errors
    assert sum(entry.stat().st_size for entry in os.scandir(client.cwd / "new")) <= 500000
    run("cp", "--limit", "1MiB", "s:/w", "other").ok()


def test_a_member_that_claims_too_much(files, run, client):
    files.kinds["/w"] = "folder"
    info = tarfile.TarInfo("huge")
    info.size = 1 << 50
    files.archives["/w"] = info.tobuf(tarfile.GNU_FORMAT) + b"x" * 512
    done = run("cp", "s:/w", "new")
    assert done.status == 125 and "limit" in done.errors


# --- snapshots and images ---

def test_export_and_import(operator, run, client):
    data = os.urandom(200000)
    got = {}

    def export(c, q):
        for start in range(0, len(data), 65536):
            c.send("output", data[start:start + 65536])
        c.ok({"bytes": len(data)})

    def take(c, q):
        got[q["verb"]] = (q, c.everything())
        c.ok({"id": "a" * 16, "name": q.get("name", "")})
    operator.on("export", export)
    operator.on("import", take)
    operator.on("image-import", take)
    run("export", "snap", "-o", "file").ok()
    assert (client.cwd / "file").read_bytes() == data
    assert run("export", "snap", "-o", "file").status == 125
    assert run("export", "snap").out == data
    assert run("import", "file", "--name", "n", "--size", "1GiB").ok() == "a" * 16 + "\n"
    assert got["import"] == ({"verb": "import", "name": "n", "size": 1 << 30}, data)
    assert run("image", "import", "debian", "file").ok() == "a" * 16 + "\n"
    assert got["image-import"] == ({"verb": "image-import", "name": "debian"}, data)
    root = client.cwd / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/su").write_text("su")
    os.chmod(root / "bin/su", 0o4755)
    run("image", "import", "-", "debian", "root")
    run("image", "import", "debian", "root").ok()
    with tarfile.open(fileobj=io.BytesIO(got["image-import"][1])) as tar:
        member = tar.getmember("./bin/su")
        assert member.mode == 0o4755 and member.uid == os.geteuid()
    assert run("image", "nonsense").status == 125
