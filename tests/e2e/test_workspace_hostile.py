"""--workspace against code that wants more than to change files: conflicts, set-id bits, hooks, links, names."""
import os
import stat
import tarfile
import time

import pytest

import harness
from pseudo import Terminal

RISKY = [".git/config", ".git/hooks/post-checkout", ".envrc", ".vscode/tasks.json", "sub/.git/config"]


@pytest.fixture
def work(who):
    folder = who.folder("work")
    (folder / "file").write_text("one\n")
    (folder / "dir").mkdir()
    (folder / "dir/inner").write_text("inner\n")
    for path, dirs, files in os.walk(folder):
        for name in dirs + files:
            os.chown(os.path.join(path, name), who.uid, who.gid)
    return folder


def meanwhile(who, work, script, change, *options):
    """Runs the script on a view; change() happens on the host before it ends."""
    process = harness.start(who, "--workspace", work, *options, "--", "sh", "-c", script + "\necho ready; read x")
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.02)
    change()
    out, err = process.communicate(b"\n", 60 * harness.SLOW)
    return harness.Result(process.returncode, out, err, None, 0)


def test_file_that_changed_meanwhile(who, work):
    result = meanwhile(who, work, "echo inside >> file; echo n > other", lambda: (work / "file").write_text("outside\n"),
                       "--apply")
    assert result.status == 125 and "file" in result.errors
    assert (work / "file").read_text() == "outside\n"


def test_file_that_appeared_meanwhile(who, work):
    result = meanwhile(who, work, "echo inside > new", lambda: (work / "new").write_text("outside\n"), "--apply")
    assert result.status == 125 and (work / "new").read_text() == "outside\n"


def test_file_that_went_meanwhile(who, work):
    result = meanwhile(who, work, "echo inside >> file", (work / "file").unlink, "--apply")
    assert result.status == 125 and not (work / "file").exists()


def test_removed_file_that_changed_meanwhile(who, work):
    result = meanwhile(who, work, "rm file", lambda: (work / "file").write_text("precious\n"), "--apply")
    assert result.status == 125 and (work / "file").read_text() == "precious\n"


def test_removed_folder_that_got_a_file_meanwhile(who, work):
    result = meanwhile(who, work, "rm -r dir", lambda: (work / "dir/late").write_text("precious\n"), "--apply")
    assert result.status == 125 and (work / "dir/late").read_text() == "precious\n"


def test_folder_swapped_for_a_link_meanwhile(who, work, place):
    """The classic: a path is checked, then its folder becomes a link to somewhere else."""
    def swap():
        os.rename(work / "dir", work / "old-dir")
        os.symlink(place, work / "dir")
    result = meanwhile(who, work, "echo evil > dir/planted; echo more >> dir/inner", swap, "--apply")
    assert result.status == 125 and os.listdir(place) == []


def test_own_link_is_not_followed(run, work, place):
    """The command makes a link out of the folder and writes through it: inside it leads nowhere, outside it is a link."""
    (place / "victim").write_text("safe")
    result = run("--workspace", work, "--apply", "--", "sh", "-c",
                 f"ln -s {place} out; echo evil > out/victim; rm -r dir; ln -s {place} dir; echo evil > dir/victim; true")
    assert (place / "victim").read_text() == "safe" and os.listdir(place) == ["victim"]
    assert result.status in (0, 125)


@pytest.mark.parametrize("mode", ["4755", "2755", "6755"])
def test_set_id_bits_are_refused(run, work, mode):
    result = run("--workspace", work, "--apply", "--", "sh", "-c", f"cp /usr/bin/id tool; chmod {mode} tool; ls -l tool")
    exists = (work / "tool").exists()
    assert not exists or not os.stat(work / "tool").st_mode & 0o6000
    if "s" in result.text.split()[0]:  # the view did take the bit
        assert result.status == 125 and "tool" in result.errors


def test_special_files_are_refused(run, work):
    result = run("--workspace", work, "--apply", "--", "sh", "-c", "mkfifo pipe; mknod null c 1 3; echo x > plain; ls")
    assert not os.path.exists(work / "null")
    if (work / "pipe").exists():
        assert stat.S_ISFIFO(os.stat(work / "pipe").st_mode)
    else:
        assert result.status == 125 and "pipe" in result.errors


def plant(run, work, *options):
    lines = "; ".join(f"mkdir -p {os.path.dirname(p) or '.'}; echo evil > {p}" for p in RISKY)
    return run("--workspace", work, *options, "--", "sh", "-c", f"mkdir -p sub; {lines}; echo fine > plain")


def test_risky_files_are_not_applied(run, work):
    result = plant(run, work, "--apply")
    assert result.status == 125 and "--apply-risky" in result.errors
    for path in RISKY:
        assert not (work / path).exists() and path in result.errors, path
    assert (work / "plain").read_text() == "fine\n"


def test_risky_files_are_applied_when_asked_for(run, work):
    result = plant(run, work, "--apply-risky")
    assert result.status == 0, result.errors
    assert all((work / path).read_text() == "evil\n" for path in RISKY)


def test_existing_config_is_guarded(who, run, work):
    (work / ".git").mkdir()
    (work / ".git/config").write_text("[core]\n")
    for name in (".git", ".git/config"):
        os.chown(work / name, who.uid, who.gid)
    result = run("--workspace", work, "--apply", "--", "sh", "-c", "echo '[alias] x = !evil' >> .git/config; true")
    assert result.status == 125 and (work / ".git/config").read_text() == "[core]\n"


def test_moved_into_place(who, run, work):
    """Not written but renamed: a folder that becomes .git, a file that becomes a hook."""
    (work / "innocent/hooks").mkdir(parents=True)
    (work / "innocent/hooks/pre-commit").write_text("evil\n")
    for name in ("innocent", "innocent/hooks", "innocent/hooks/pre-commit"):
        os.chown(work / name, who.uid, who.gid)
    result = run("--workspace", work, "--apply", "--", "sh", "-c", "mv innocent .git")
    assert not (work / ".git/hooks/pre-commit").exists() and result.status == 125


def test_link_in_place_of_a_hook(run, work):
    result = run("--workspace", work, "--apply", "--", "sh", "-c", "mkdir -p .git; ln -s ../dir .git/hooks; ln -s file .envrc")
    assert result.status == 125 and not os.path.lexists(work / ".envrc") and not os.path.lexists(work / ".git/hooks")


@pytest.mark.parametrize("answer, applied", [("y", True), ("n", False), ("\n", False)])
def test_risky_files_are_asked_for_one_by_one(who, work, answer, applied):
    with Terminal(who, "--workspace", work, "--", "sh", "-c", "echo x > .envrc; echo y > plain") as t:
        t.expect("Apply these changes")
        t.type("y\n")
        t.expect(r"\.envrc.*Apply this one")
        t.type(answer + "\n")
        t.wait()
    assert (work / ".envrc").exists() == applied and (work / "plain").exists()


def test_names_that_are_hard_to_read(run, work):
    """Control characters cannot write to the caller's terminal by way of the list of changes."""
    script = ("import os\n"
              "for n in (b'\\x1b]0;title\\x07', b'new\\nline', b'\\x1b[2J', b'tab\\t', b'\\xff\\xfe', b'-rf', b'--', b' ', "
              "b'\\xe2\\x80\\xae', b'a' * 255, b'quote\\'\"', b'\\\\'):\n"
              "  open(b'./' + n, 'w').write('x')\n")
    result = run("--workspace", work, "--apply", "--", harness.PYTHON, "-ISc", script)
    assert result.status == 0, result.errors
    assert b"\x1b" not in result.err and b"\x07" not in result.err and b"\xff" not in result.err
    assert "\u202e" not in result.errors
    names = os.listdir(os.fsencode(work))
    assert len(names) == 14 and b"\x1b]0;title\x07" in names and b"a" * 255 in names


def test_deep_folders(run, work):
    script = ("import os\n"
              "for i in range(200): os.mkdir('d' * 100); os.chdir('d' * 100)\n"
              "open('bottom', 'w').write('x')")
    result = run("--workspace", work, "--apply", "--", harness.PYTHON, "-ISc", script)
    if result.status == 0:
        depth, where = 0, os.open(work, os.O_RDONLY)
        while "d" * 100 in os.listdir(where):
            below = os.open("d" * 100, os.O_RDONLY, dir_fd=where)
            os.close(where)
            where, depth = below, depth + 1
        bottom = os.listdir(where)
        os.close(where)
        assert depth == 200 and bottom == ["bottom"]
    else:
        assert result.status == 125 and not (work / ("d" * 100)).exists()


def test_many_files(run, work):
    script = "import os\nfor i in range(2000): open('f%d' % i, 'w').write(str(i))\nos.unlink('file')"
    result = run("--workspace", work, "--apply", "--", harness.PYTHON, "-ISc", script)
    assert result.status == 0 and len(os.listdir(work)) == 2001 and (work / "f1999").read_text() == "1999"


def test_archive_does_not_lead_out(run, work, place):
    """What is kept can be unpacked: no absolute names, no dots, no devices, no set-id bits."""
    result = run("--workspace", work, "--keep", place / "k.tar", "--", "sh", "-c",
                 "ln -s /etc/passwd abs; echo x > ok; mkfifo p; cp /usr/bin/id s; chmod 6755 s; rm dir/inner")
    assert (place / "k.tar").exists(), result.errors
    with tarfile.open(place / "k.tar") as archive:
        for member in archive.getmembers():
            assert not member.name.startswith("/") and ".." not in member.name.split("/")
            assert not member.isdev() or member.isfifo()
            assert not member.mode & 0o6000, member.name


@pytest.mark.parametrize("name", ["trusted.overlay.opaque", "user.overlay.opaque", "user.overlay.redirect",
                                  "security.capability", "user.overlay.whiteout"])
def test_forged_attributes(run, work, name):
    """The command plays the overlay's own tricks: no file outside the folder is touched, none is made privileged."""
    script = ("import os\nopen('x', 'w').write('x'); os.mkdir('d')\n"
              "for f in ('x', 'd', 'dir', 'file', '.'):\n"
              f"  try: os.setxattr(f, '{name}', b'y'); print('set', f)\n"
              "  except OSError: pass")
    result = run("--workspace", work, "--apply", "--", harness.PYTHON, "-ISc", script)
    assert result.status in (0, 125), result.errors
    assert (work / "file").read_text() == "one\n" and (work / "dir/inner").read_text() == "inner\n"
    for path in (work / "x", work / "d", work / "file", work / "dir"):
        if path.exists():
            assert "security.capability" not in os.listxattr(path)


@pytest.mark.parametrize("bad", ["/no/such/folder", "/etc/passwd", "/proc/self", "/"])
def test_workspace_that_cannot_be(run, bad):
    result = run("--workspace", bad, "--discard", "--", "true")
    assert result.status == 125 and bad in result.errors


def test_workspace_that_is_a_link_out(run, place):
    (place / "out").symlink_to("/etc")
    result = run("--workspace", place / "out", "--discard", "--", "true")
    assert result.status == 125 and "symbolic link" in result.errors
