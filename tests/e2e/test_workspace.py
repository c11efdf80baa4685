"""--workspace: a copy-on-write view, the list of changes, and what becomes of them."""
import os
import stat
import tarfile

import pytest

import harness
from pseudo import Terminal


def tree(folder):
    """Everything below a folder: names, kinds, modes, contents."""
    found = {}
    for path, dirs, files in os.walk(folder):
        for name in dirs + files:
            full = os.path.join(path, name)
            info = os.lstat(full)
            what = os.readlink(full) if stat.S_ISLNK(info.st_mode) else \
                open(full, "rb").read() if stat.S_ISREG(info.st_mode) else None
            found[os.path.relpath(full, folder)] = (stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), what)
    return found


@pytest.fixture
def work(who):
    folder = who.folder("work")
    (folder / "keep.txt").write_text("keep\n")
    (folder / "change.txt").write_text("before\n")
    (folder / "remove.txt").write_text("gone soon\n")
    (folder / "rename.txt").write_text("moves\n")
    (folder / "mode.sh").write_text("#!/bin/sh\n")
    (folder / "dir/sub").mkdir(parents=True)
    (folder / "dir/sub/leaf").write_text("leaf\n")
    (folder / "dir/other").write_text("other\n")
    (folder / "link").symlink_to("keep.txt")
    for path, dirs, files in os.walk(folder):
        for name in ["."] + dirs + files:
            os.chown(os.path.join(path, name), who.uid, who.gid, follow_symlinks=False)
    return folder


EDIT = """
echo new > added.txt; echo after >> change.txt; rm remove.txt; mv rename.txt renamed.txt; chmod 755 mode.sh
mkdir -p fresh/deep; echo x > fresh/deep/file; ln -s ../keep.txt fresh/link; rm -r dir/sub; ln -sf change.txt link
mv dir moved-dir
"""
EDITED = {"keep.txt": b"keep\n", "added.txt": b"new\n", "change.txt": b"before\nafter\n", "renamed.txt": b"moves\n",
          "mode.sh": b"#!/bin/sh\n", "fresh": None, "fresh/deep": None, "fresh/deep/file": b"x\n",
          "fresh/link": "../keep.txt", "moved-dir": None, "moved-dir/other": b"other\n", "link": "change.txt"}


def contents(folder):
    return {name: what for name, (_, _, what) in tree(folder).items()}


def edit(run, work, *options, script=EDIT, **kw):
    return run("--workspace", work, *options, "--", "sh", "-ec", script, **kw)


def test_view_shows_what_is_there(run, work):
    result = run("--workspace", work, "--discard", "--", "sh", "-c", "pwd; ls; cat change.txt dir/sub/leaf link")
    assert result.ok().split() == [str(work), "change.txt", "dir", "keep.txt", "link", "mode.sh", "remove.txt",
                                   "rename.txt", "before", "leaf", "keep"]


def test_nothing_changes_while_it_runs(who, work):
    before = tree(work)
    process = harness.start(who, "--workspace", work, "--discard", "--", "sh", "-ec", EDIT + "echo done; read x")
    try:
        assert process.stdout.readline() == b"done\n"
        assert tree(work) == before
    finally:
        process.communicate(b"\n", harness.ENOUGH * harness.SLOW)
    assert tree(work) == before


def test_discard(run, work):
    before = tree(work)
    result = edit(run, work, "--discard")
    assert result.status == 0 and tree(work) == before
    for word in ("added.txt", "change.txt", "remove.txt", "renamed.txt"):
        assert word in result.errors


def test_apply(who, run, work):
    result = edit(run, work, "--apply")
    assert result.status == 0, result.errors
    assert contents(work) == EDITED
    assert stat.S_IMODE(os.stat(work / "mode.sh").st_mode) == 0o755
    owners = {(os.lstat(os.path.join(p, n)).st_uid, os.lstat(os.path.join(p, n)).st_gid)
              for p, d, f in os.walk(work) for n in d + f}
    assert owners == {(who.uid, who.gid)}


def test_apply_after_failure_of_the_command(run, work):
    """The changes are the command's, whatever its status: it is passed on."""
    result = edit(run, work, "--apply", script="echo x > added.txt; exit 7")
    assert result.status == 7 and (work / "added.txt").exists()


def test_keep(run, work, place):
    before = tree(work)
    result = edit(run, work, "--keep", place / "changes.tar")
    assert result.status == 0 and tree(work) == before
    with tarfile.open(place / "changes.tar") as archive:
        names = {member.name.removeprefix("./").rstrip("/"): member for member in archive.getmembers()}
        assert archive.extractfile(names["added.txt"]).read() == b"new\n"
        assert archive.extractfile(names["change.txt"]).read() == b"before\nafter\n"
        assert names["fresh/link"].issym() and names["fresh/link"].linkname == "../keep.txt"
        assert names["mode.sh"].mode & 0o777 == 0o755
        assert "keep.txt" not in names


def test_keep_does_not_overwrite(run, work, place):
    (place / "changes.tar").write_text("precious")
    result = edit(run, work, "--keep", place / "changes.tar")
    assert result.status == 125 and (place / "changes.tar").read_text() == "precious"


def test_no_changes(run, work):
    before = tree(work)
    assert run("--workspace", work, "--apply", "--", "cat", "keep.txt").ok() == "keep\n"
    assert tree(work) == before


def test_without_a_choice_and_terminal(run, work):
    result = run("--workspace", work, "--", "sh", "-c", "echo ran; echo x > added.txt")
    assert result.status == 125 and result.out == b"" and "--apply" in result.errors
    assert not (work / "added.txt").exists()


def test_two_choices(run, work):
    assert run("--workspace", work, "--apply", "--discard", "--", "true").status == 125


def test_choice_without_workspace(run):
    assert run("--apply", "--", "true").status == 125


@pytest.mark.parametrize("key, expected", [("y", True), ("n", False), ("k", False), ("", False)])
def test_question_at_a_terminal(who, work, key, expected):
    with Terminal(who, "--workspace", work, "--", "sh", "-c", "echo new > added.txt; echo more >> change.txt",
                  cwd=who.home) as t:
        t.expect("added.txt")
        t.expect(r"\?")
        if key:
            t.type(key + "\n")
        else:
            t.type(b"\x04")
        assert t.wait() == 0
        assert t.now() == t.settings
    assert (work / "added.txt").exists() == expected
    kept = list(who.home.glob("stockade-*.tar"))
    assert len(kept) == (key == "k")
    for path in kept:
        with tarfile.open(path) as archive:
            assert {"added.txt", "change.txt"} <= {m.name.removeprefix("./") for m in archive.getmembers()}
        path.unlink()


def test_question_again_after_nonsense(who, work):
    with Terminal(who, "--workspace", work, "--", "sh", "-c", "echo new > added.txt") as t:
        t.expect("Apply these changes")
        t.type("maybe\n")
        t.expect("Apply these changes")
        t.type("n\n")
        assert t.wait() == 0
    assert not (work / "added.txt").exists()


def test_typed_ahead_is_not_an_answer(who, work):
    """What the command did not read is not taken as consent."""
    with Terminal(who, "--workspace", work, "--", "sh", "-c", "echo new > added.txt; echo up; sleep 0.3") as t:
        t.expect("up")
        t.type("y\n")
        t.expect("Apply these changes")
        t.type("n\n")
        t.wait()
    assert not (work / "added.txt").exists()


def test_the_command_cannot_answer_for_the_person(who, work):
    """Bytes that the command writes to its terminal are output, not an answer."""
    with Terminal(who, "--workspace", work, "--", "sh", "-c",
                  "echo new > added.txt; printf 'y\\ny\\n'; printf 'y\\n' > /dev/tty") as t:
        t.expect("Apply these changes")
        t.type("n\n")
        t.wait()
    assert not (work / "added.txt").exists()


def test_record_with_a_workspace(run, work):
    assert edit(run, work, "--apply").record["status"] == 0


def test_workspace_by_root_of_somebody_else(root, user):
    """Root works on a user's folder: new files are that user's."""
    folder = user.folder()
    (folder / "mine").write_text("x")
    os.chown(folder / "mine", user.uid, user.gid)
    result = harness.run(root, "--workspace", folder, "--apply", "--", "sh", "-c",
                         "echo y >> mine; echo z > new; mkdir d; echo w > d/e")
    assert result.status == 0, result.errors
    assert (folder / "mine").read_text() == "xy\n"
    for name in ("mine", "new", "d", "d/e"):
        assert os.stat(folder / name).st_uid == user.uid, name
