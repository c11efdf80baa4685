"""--learn: it allows nothing, it notes what was refused, and what it writes is a profile that a person can read and that
works. What is inside is hostile: it chooses the paths, how many, and when they change."""
import os
import re
import socket
import struct
import subprocess
import time

import pytest

import harness

CANARY = "the canary that nobody inside may read"


@pytest.fixture
def learn(who, place):
    """learn(*args): the run with --learn, and the text of the profile, or None."""
    def call(*args, file=None, **kw):
        file = file or place / "learned.yaml"
        result = harness.run(who, f"--learn={file}", *args, **kw)
        return result, file.read_text(errors="surrogateescape") if file.exists() else None
    return call


@pytest.fixture
def checked(who):
    """The lines that allow something, and those that do not; after `profile check` took the file."""
    def call(place, name="learned.yaml"):
        done = harness.verb(who, "profile", "check", str(place / name))
        assert done.status == 0, done
        text = (place / name).read_text()
        return ([line.split("#")[0].strip() for line in text.splitlines() if line.strip().startswith("- ")],
                [line for line in text.splitlines() if line.startswith("#")])
    return call


def text_of(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


def notes(files=(), hosts=()):
    """What the launcher hands to `stockade-policy learn`: files as (kind, flags, count, path), hosts as (reason, port, count,
    host)."""
    data = b"stklrn1\n" + struct.pack("<I", len(files))
    for kind, flags, count, path in files:
        data += struct.pack("<HHQ", kind, flags, count) + text_of(path) + text_of("")
    data += struct.pack("<I", len(hosts))
    for reason, port, count, host in hosts:
        data += struct.pack("<HHQ", reason, port, count) + text_of(host) + text_of("PUT") + text_of("/x")
    return data + struct.pack("<QQQI", 0, 0, 0, 0)


def write(who, data, *options):
    """`stockade-policy learn` alone."""
    return subprocess.run([who.suite.launcher.with_name("stockade-policy"), "learn", "--profile", "low", *options], input=data,
                          capture_output=True, timeout=60, check=False)


def python(script):
    return ["--", harness.PYTHON, "-ISc", script]


def outside(who, name, text=CANARY, mode=0o644):
    """A file of the host that the profile low does not show."""
    folder = who.folder()
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    os.chown(path, who.uid, who.gid)
    return path


def test_nothing_refused_nothing_written(learn):
    result, text = learn("--", "true")
    assert result.ok() == "" and result.err == b"" and text is None
    assert result.record["learned"] == {"files": 0, "programs": 0, "hosts": 0, "not_listed": 0, "unread": 0,
                                        "profile": None}


def test_without_it_there_is_nothing(run):
    assert run("--", "true").record["learned"] is None


def test_the_learned_profile_is_enough(who, run, learn, place, checked):
    """Reads, writes and programs: refused at first, the same as without --learn; then the profile lets them pass."""
    data, target = outside(who, "data.txt", "seven\n"), who.folder()
    program = outside(who, "prog", "#!/bin/sh\necho ran\n", 0o755)
    command = ["--", "/bin/sh", "-c", f"cat {data}; echo x > {target}/made && cat {target}/made; {program}"]
    plain = run(*command)
    result, text = learn(*command)
    assert (result.status, result.out) == (plain.status, plain.out) and result.status != 0
    assert plain.errors in result.errors
    assert list(target.iterdir()) == [], "it wrote to the host"
    assert re.search(r"stockade: 3? ?\d files?.* refused; a profile that allows .*learned\.yaml\n", result.errors), result
    allowed, _ = checked(place)
    for path in (data, target, program):
        assert f"- {path}" in allowed, text
    assert "extends: low" in text and "opened once" in text
    again = run("--profile", place / "learned.yaml", *command)
    assert again.ok() == "seven\nx\nran\n"
    assert list(target.iterdir()) == [], "a private place reached the host"


def test_programs_that_are_not_listed(run, learn, place, checked):
    options = ["--set", "tools.exec=/usr/bin/sh,/usr/bin/dash,/usr/bin/bash"]
    command = ["--", "/bin/sh", "-c", "id -u; /usr/bin/env true; echo done"]
    plain = run(*options, *command)
    result, text = learn(*options, *command)
    assert result.out == plain.out == b"done\n" and result.record["learned"]["programs"] >= 2
    allowed, _ = checked(place)
    assert "- /usr/bin/id" in allowed and "- /usr/bin/dash" in allowed and "--set tools.exec=" in text
    assert run("--profile", place / "learned.yaml", *command).ok() == "1000\ndone\n"


def test_the_command_itself(run, learn, place, checked):
    result, _ = learn("--set", "tools.exec=/usr/bin/true", "--", "/usr/bin/id", "-u")
    assert result.status == 126
    assert "- /usr/bin/id" in checked(place)[0]
    assert run("--profile", place / "learned.yaml", "--", "/usr/bin/id", "-u").ok() == "1000\n"


def test_interpreter_of_a_script(run, who, learn, place, checked):
    script = outside(who, "script", "#!/usr/bin/env -S echo by\n", 0o755)
    learn("--set", f"files.read=/usr,{script}", "--set", f"tools.exec=/usr/bin/sh,/usr/bin/dash,{script}", "--", "/bin/sh", "-c",
          f"{script}")
    assert "- /usr/bin/env" in checked(place)[0]


def test_it_allows_nothing(who, learn):
    """Whatever is tried, nothing of the host's comes in or changes."""
    canary = outside(who, "canary")
    result, _ = learn(*python(f"""
import os
for name, act in {{"open": lambda p: os.open(p, os.O_RDONLY), "write": lambda p: os.open(p, os.O_RDWR | os.O_TRUNC),
                  "stat": os.stat, "unlink": os.unlink, "rename": lambda p: os.rename(p, "/tmp/x"), "link": lambda p: os.link(p, "/tmp/x"),
                  "chmod": lambda p: os.chmod(p, 0o777), "readlink": os.readlink, "truncate": lambda p: os.truncate(p, 0),
                  "exec": lambda p: os.execv(p, [p]), "listdir": lambda p: os.listdir(os.path.dirname(p))}}.items():
    try:
        act("{canary}")
        print("WORKED", name)
    except OSError:
        pass
"""))
    assert "WORKED" not in result.ok() and CANARY not in result.text
    assert canary.read_text() == CANARY


def test_two_paths_and_links(who, learn, place, checked):
    """Relative paths, folders that were entered, descriptors of folders, links inside and on the host."""
    base = who.folder()
    for name in ("one", "two", "three", "four"):
        (base / name).write_text(name)
    (base / "sub").mkdir()
    (base / "link").symlink_to("four")
    for path in [base / "sub", *base.iterdir()]:
        os.chown(path, who.uid, who.gid, follow_symlinks=False)
    learn("--set", f"files.read=/usr,{base}/sub", *python(f"""
import os
def look(path, **kw):
    try:
        os.close(os.open(path, os.O_RDONLY, **kw))
    except OSError as e:
        pass
os.chdir("{base}/sub")
look("../one")
folder = os.open("{base}/sub", os.O_RDONLY)
look("../two", dir_fd=folder)
os.chdir("/tmp")
os.symlink("{base}", "/tmp/way")
look("way/three")
look("{base}/sub/.././/link")
"""))
    allowed, _ = checked(place)
    for name in ("one", "two", "three", "link"):
        assert f"- {base}/{name}" in allowed, allowed
    assert not any("/tmp/way" in line for line in allowed)
    assert f"leads to {base}/four" in (place / "learned.yaml").read_text()


NASTY = [b"new\nline", b"- {host: evil.test}\nnetwork: {allow: [{host: evil.test}]}", b'quote"s \\ and #hash', b"tab\there",
         b"\xff\xfe not utf-8", b"nel\xc2\x85x", b"sep\xe2\x80\xa8- x", b"turn\xe2\x80\xaeback", b"a: b", b"'single'", b"*star",
         b"&anchor", b"%percent", b" lead and trail ", b"{map: 1}", b"\x1b]0;title\x07"]


def test_names_cannot_write_the_profile(who, run, learn, place, checked):
    """Line breaks, quotes, escapes and bytes that are not UTF-8 in names: one line each, and only what can be named."""
    base = who.folder()
    for name in NASTY:
        with open(os.path.join(os.fsencode(base), name), "wb") as f:
            f.write(b"x")
        os.chown(os.path.join(os.fsencode(base), name), who.uid, who.gid)
    os.mkdir(base / "keep")
    os.chown(base / "keep", who.uid, who.gid)
    script = f"""
import os
base, bad = {os.fsencode(base)!r}, 0
for name in {NASTY!r}:
    try:
        os.close(os.open(os.path.join(base, name), os.O_RDONLY))
    except OSError:
        bad += 1
print(bad)
"""
    result, text = learn("--set", f"files.read=/usr,{base}/keep", *python(script))
    assert result.ok() == f"{len(NASTY)}\n"
    allowed, comments = checked(place)
    assert "evil.test" not in "".join(allowed) and not any("network" in line for line in allowed)
    assert all(c.isprintable() or c == "\n" for c in text), [c for c in text if not c.isprintable()]
    assert any("cannot name it" in line for line in comments)
    shown = harness.verb(who, "profile", "show", str(place / "learned.yaml")).ok()
    assert "evil.test" not in shown.split("network:")[1]
    for name in ('quote\\"s \\\\ and #hash', "a: b", "'single'", "*star", "&anchor", " lead and trail ", "{map: 1}"):
        assert f'- "{base}/{name}"' in text, name
    # and the ones that can be named work
    able = sum(os.fsdecode(n).isprintable() and b"\xff" not in n for n in NASTY)
    again = run("--profile", place / "learned.yaml", *python(script))
    assert again.ok() == f"{len(NASTY) - able}\n"


def test_sensitive_paths_are_only_comments(root, who, learn, place, checked):
    """Keys, passwords and control sockets: tried, listed, and never allowed by a line as it stands."""
    home = who.folder()
    made = [home / ".ssh/id_ed25519", home / ".aws/credentials", home / "project/.env", home / "server.key", home / ".config/stockade/x",
            home / ".kube/config"]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CANARY)
    (home / "innocent").symlink_to(".ssh/id_ed25519")
    os.mkdir(home / "run")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "run/docker.sock"))
        listener.listen()
        tried = [*made, home / "innocent", "/etc/shadow", "/etc/gshadow", "/root", "/home", "/etc", "/var/lib"]
        result, text = learn(*python(f"""
import os, socket
for path in {[str(p) for p in tried]!r}:
    try:
        print(open(path).read())
    except OSError:
        pass
for path in ("/root", "/home", "/var"):
    try:
        os.listdir(path)
    except OSError:
        pass
try:
    socket.socket(socket.AF_UNIX).connect("{home}/run/docker.sock")
except OSError:
    pass
"""))
    assert CANARY not in result.text
    allowed, comments = checked(place)
    for path in [*made, home / "innocent", "/etc/shadow", home / "run/docker.sock"]:
        assert not any(str(path) in line for line in allowed), allowed
        assert any(str(path) in line for line in comments), text
    assert sum("WARNING" in line for line in comments) >= len(made) + 2
    for broad in ("/", "/root", "/home", "/etc", "/var", str(who.home)):
        assert f"- {broad}" not in allowed


def test_stockade_itself_is_not_offered(who, learn, place, checked):
    own = who.folder()
    (own / "mine.yaml").write_text("profile: 1\n")
    learn(*python(f"""
try:
    open("{own}/mine.yaml")
except OSError:
    pass
"""), env={"STOCKADE_PROFILES": str(own)})
    allowed, comments = checked(place)
    assert not any("mine.yaml" in line for line in allowed) and any("Stockade's own files" in line for line in comments)


def test_permissions_that_no_profile_changes(root, learn, who, place, checked):
    """A sandbox of root's has ids of its own: what only root may read stays unreadable whatever is listed."""
    closed = outside(root, "closed", CANARY, 0o600)
    learn("--", "cat", closed)
    allowed, comments = checked(place)
    assert f"- {closed}" not in allowed and any("permissions would refuse it" in line for line in comments)


def test_there_and_back(learn, place):
    """A path through a folder that is missing inside does not make the host's own passwd wanted."""
    _, text = learn(*python("""
try:
    open("/var/lib/../../etc/passwd")
except OSError:
    pass
"""))
    assert not text or "/etc/passwd" not in "".join(line for line in text.splitlines() if not line.startswith("#"))


def test_many_files_become_their_folder(who, run, learn, place, checked):
    base = who.folder()
    (base / "set").mkdir()
    for i in range(12):
        (base / "set" / f"part{i}").write_text(f"{i} ")
    (base / "single").write_text("s")
    script = f"""
for i in range(12):
    try:
        print(end=open("{base}/set/part%d" % i).read())
    except OSError:
        pass
try:
    open("{base}/single")
except OSError:
    pass
"""
    _, text = learn(*python(script))
    allowed, _ = checked(place)
    assert f"- {base}/set" in allowed and f"- {base}/single" in allowed and f"- {base}" not in allowed
    assert not any("part3" in line for line in allowed) and "for 12: part0, part1" in text
    assert run("--profile", place / "learned.yaml", *python(script)).ok().split() == [str(i) for i in range(12)]


def test_a_folder_on_the_way_is_not_wanted(who, learn, place, checked):
    base = who.folder()
    (base / "deep/er").mkdir(parents=True)
    (base / "deep/er/file").write_text("x")
    learn(*python(f"""
import os
for path in ("{base}", "{base}/deep", "{base}/deep/er", "{base}/deep/er/file"):
    try:
        os.lstat(path)
    except OSError:
        pass
"""))
    allowed, _ = checked(place)
    assert f"- {base}/deep/er/file" in allowed and f"- {base}/deep" not in allowed and f"- {base}" not in allowed


def test_what_a_profile_cannot_say(who, learn, place, checked):
    """Changes to the host's own files, and folders that a private place would cover, are told with the options that do it."""
    mine = outside(who, "mine", CANARY)
    learn(*python(f"""
import os
for act in (lambda: open("{mine}", "r+"), lambda: open("/usr/share/new", "w"), lambda: os.unlink("/usr/bin/id")):
    try:
        act()
    except OSError:
        pass
"""))
    allowed, comments = checked(place)
    assert mine.read_text() == CANARY
    assert allowed == [] or all("mine" not in line and "/usr/" not in line for line in allowed)
    text = "\n".join(comments)
    assert str(mine) in text and "--rw" in text and "/usr/share" in text and "/usr/bin/id" in text


def test_sealed_profile(who, learn, place, checked):
    (place / "sealed.yaml").write_text("profile: 1\nname: shut\nextends: low\nsealed: true\n")
    data = outside(who, "data.txt")
    result, text = learn("--profile", place / "sealed.yaml", "--", "cat", data)
    assert result.status == 1 and f"extends: {place}/sealed.yaml" in text
    allowed, comments = checked(place)
    assert allowed == [] and any("sealed" in line for line in comments)


def test_a_profile_by_path_and_lists_of_its_own(who, run, learn, place, checked):
    """Lists replace a parent's, so the parent's entries are said again: nothing is lost."""
    (place / "base.yaml").write_text("profile: 1\nname: base\nextends: low\nfiles:\n  read: [/usr, /etc/debian_version]\n"
                                     "  write: [/tmp, {path: /work-here, size: 1MiB, inodes: 100}]\n")
    data, target = outside(who, "data.txt", "d"), who.folder()
    command = ["--", "/bin/sh", "-c", f"cat {data} /etc/debian_version; echo y > /work-here/y; echo x > {target}/x"]
    learn("--profile", place / "base.yaml", *command)
    allowed, _ = checked(place)
    assert {"- /usr", "- /etc/debian_version", "- /tmp", f"- {data}", f"- {target}"} <= set(allowed)
    assert any("/work-here" in line and "1MiB" in line for line in allowed)
    assert run("--profile", place / "learned.yaml", *command).status == 0


def test_flood(who, learn, place, checked):
    """More different files than are kept: the table is bounded, output still comes, the profile is whole."""
    base = who.folder()
    for k in range(50):
        (base / f"f{k}").mkdir()
        for i in range(100):
            (base / f"f{k}" / f"x{i}").write_text("")
    result, text = learn(*python(f"""
import os
for k in range(50):
    for i in range(100):
        try:
            os.stat("{base}/f%d/x%d" % (k, i))
        except OSError:
            pass
print("z" * 100000)
"""))
    assert len(result.ok()) == 100001
    assert result.record["learned"]["files"] <= 4096 and result.record["learned"]["not_listed"] >= 900
    checked(place)
    assert "more refusals are not listed" in text and len(text) < 256 * 1024


def test_limits_hold_in_a_flood(who, learn):
    result, _ = learn("--timeout", "700ms", *python("""
import os
while True:
    try:
        os.stat("/etc/shadow")
    except OSError:
        pass
"""))
    assert result.status == 124 and result.wall < 5 * harness.SLOW


def test_a_path_that_changes(who, learn, place, checked):
    """A second thread rewrites the path while the call is being looked at: the notes may be wrong, the refusal is not."""
    canary = outside(who, "canary")
    result, _ = learn("--timeout", "10s", *python(f"""
import ctypes, os, sys, threading, time
sys.setswitchinterval(1e-5)
libc = ctypes.CDLL(None)
good, bad = b"/usr/bin/env\\0", b"{canary}\\0"
text = ctypes.create_string_buffer(bad, len(bad))
stop = False
def flip():
    while not stop:
        ctypes.memmove(text, good, len(good))
        ctypes.memmove(text, bad, len(bad))
threading.Thread(target=flip).start()
end, seen = time.monotonic() + 1.5, 0
while time.monotonic() < end:
    fd = libc.open(text, os.O_RDONLY)
    if fd >= 0:
        seen += b"canary" in os.read(fd, 100)
        os.close(fd)
stop = True
print("canary seen", seen)
"""))
    assert result.ok() == "canary seen 0\n" and canary.read_text() == CANARY
    if (place / "learned.yaml").exists():
        checked(place)


def test_bad_pointers_and_long_paths(learn):
    """Paths that end nowhere, cross the end of what is mapped, or are not there at all."""
    result, _ = learn(*python("""
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
m = mmap.mmap(-1, 2 * mmap.PAGESIZE)
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
libc.mprotect(ctypes.c_void_p(at + mmap.PAGESIZE), mmap.PAGESIZE, 0)
m[mmap.PAGESIZE - 12:mmap.PAGESIZE] = b"/etc/shadow\\0"
def code(pointer):
    return libc.open(pointer, 0) if isinstance(pointer, bytes) else libc.open(ctypes.c_void_p(pointer), 0), ctypes.get_errno()
print(code(at + mmap.PAGESIZE - 12), code(at + mmap.PAGESIZE - 4)[0], code(0)[1], code(1 << 62)[1], code(at + mmap.PAGESIZE)[1],
      code(b"/" + b"a" * 5000)[1], code(b"")[1])
"""))
    out = result.ok()
    assert out.endswith(" 14 14 14 36 2\n") and out.startswith("(-1, 2) "), out


def test_processes_and_threads(who, learn, place, checked):
    """Children, their children and threads are watched as well; those that are killed in the middle do no harm."""
    data = outside(who, "data.txt")
    result, _ = learn(*python(f"""
import os, signal, subprocess, threading
def look():
    for _ in range(30):
        try:
            os.stat("{data}")
        except OSError:
            pass
threads = [threading.Thread(target=look) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
children = [subprocess.Popen(["/bin/sh", "-c", "while :; do cat {data} 2>/dev/null; done"]) for _ in range(4)]
import time; time.sleep({0.3 * harness.SLOW})
[(c.kill(), c.wait()) for c in children]
print("end")
"""))
    assert result.ok() == "end\n"
    text = (place / "learned.yaml").read_text()
    count = re.search(rf"- {data}  # opened (\d+) times", text)
    assert count and int(count[1]) >= 241, text
    checked(place)


def test_the_file(who, run, place):
    """It is not written over; without a name it gets a free one; it has to be possible before the command runs."""
    data = outside(who, "data.txt")
    taken = place / "taken.yaml"
    taken.write_text("mine")
    result = run(f"--learn={taken}", "--", "/bin/sh", "-c", f"echo ran; cat {data}")
    assert result.status == 125 and "taken.yaml" in result.errors and taken.read_text() == "mine" and result.out == b""
    result = run(f"--learn={place}/no/such/folder/x.yaml", "--", "echo", "ran")
    assert result.status == 125 and result.out == b""
    for name in ("stockade-learned.yaml", "stockade-learned-2.yaml"):
        assert run("--learn", "--", "cat", data, cwd=place).status == 1
        assert (place / name).exists()
    assert run("--learn", "--profile", "./stockade-learned.yaml", "--", "cat", data, cwd=place).ok() == CANARY
    assert not (place / "stockade-learned-3.yaml").exists()
    assert os.stat(place / "stockade-learned.yaml").st_uid == who.uid


def test_quiet_and_json(learn, place, who):
    data = outside(who, "data.txt")
    result, text = learn("--quiet", "--", "cat", data)
    assert b"stockade:" not in result.err and text
    result, text = learn("--json", "--", "cat", data, file=place / "second.yaml")
    assert re.search(rb'"learned":\{"files":[12],', result.err) and b"\nstockade:" not in result.err and text


def test_status_and_streams_are_the_commands(learn):
    result, _ = learn("--", "/bin/sh", "-c", "cat; exit 7", input=b"in\n")
    assert (result.status, result.out) == (7, b"in\n")


@pytest.mark.leaves
def test_kill(who, suite, place):
    """The watcher ends with the launcher, and the sandbox with both."""
    before = suite.digest()
    process = harness.start(who, f"--learn={place}/x.yaml", "--", "/bin/sh", "-c", "echo up; while :; do cat /etc/shadow; done 2>/dev/null")
    try:
        assert process.stdout.readline() == b"up\n"
        time.sleep(0.1)
        process.kill()
        process.wait()
        assert suite.left_since(before) == {}
    finally:
        harness.stop(process)


def watcher_of(launcher):
    """The child that holds the listener of the filter."""
    for pid in open(f"/proc/{launcher}/task/{launcher}/children", encoding="ascii").read().split():
        try:
            if any("seccomp" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")):
                return int(pid)
        except OSError:
            pass
    return None


def test_without_the_watcher_calls_fail(who, place):
    """If it is killed, calls that name files are refused, whatever they name; nothing becomes open."""
    canary = outside(who, "canary")
    process = harness.start(who, f"--learn={place}/x.yaml", "--", harness.PYTHON, "-ISc", f"""
import os, sys
print("up", flush=True)
sys.stdin.readline()
for path in ("/usr/bin/env", "/tmp/new", "{canary}"):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
        print("opened", path)
    except OSError as e:
        print(e.errno, flush=True)
""")
    try:
        assert process.stdout.readline() == b"up\n"
        assert harness.until(lambda: watcher_of(process.pid))
        os.kill(watcher_of(process.pid), 9)
        out, _ = process.communicate(b"go\n")
        assert out == b"38\n38\n38\n" and canary.read_text() == CANARY  # ENOSYS
    finally:
        harness.stop(process)


def test_terminal_keys_do_not_end_the_watcher(who, place):
    """A signal to the whole process group is the command's."""
    process = harness.start(who, f"--learn={place}/x.yaml", "--", "/bin/sh", "-c",
                            "trap 'echo caught' INT; echo up; sleep 1; ls /usr/bin/id; cat /etc/shadow; exit 3", start_new_session=True)
    try:
        assert process.stdout.readline() == b"up\n"
        os.killpg(process.pid, 2)
        out, _ = process.communicate(timeout=harness.ENOUGH)
        assert process.returncode == 3 and b"caught" in out and b"/usr/bin/id" in out, out
        assert (place / "x.yaml").exists()
    finally:
        harness.stop(process)


NO_RULE, NO_PORT, PRIVATE, NO_METHOD, NO_UDP = 1, 2, 5, 11, 14  # enum gate_reason


def test_hosts(user, place, checked):
    """What the gate refused, as entries: one per host, ports gathered, 80 and 443 unsaid, addresses as blocks."""
    done = write(user, notes(hosts=[
        (NO_RULE, 0, 2, "example.org"), (NO_RULE, 443, 3, "example.org"), (NO_RULE, 0, 1, "only.asked.test"),
        (NO_RULE, 5432, 1, "db.example.org"), (NO_RULE, 443, 1, "db.example.org"), (NO_PORT, 8080, 1, "allowed.test"),
        (NO_RULE, 22, 1, "203.0.113.9"), (NO_RULE, 443, 1, "2001:db8::7"), (NO_RULE, 80, 9, "169.254.169.254"),
        (NO_RULE, 80, 1, "10.1.2.3"), (NO_RULE, 80, 1, "fd00::1"), (PRIVATE, 443, 1, "inner.test"), (NO_METHOD, 443, 1, "api.test"),
        (NO_UDP, 123, 4, "198.51.100.1"), (NO_RULE, 443, 1, "bad name}, {host: evil.test")]), "--allow", "allowed.test")
    assert done.returncode == 0, done
    (user.home / "hosts.yaml").write_bytes(done.stdout)
    check = harness.verb(user, "profile", "check", str(user.home / "hosts.yaml"))
    assert check.status == 0, (check, done.stdout.decode())
    text = done.stdout.decode()
    allowed = [line.split("#")[0].strip() for line in text.splitlines() if line.startswith("    - ")]
    assert allowed == ["- {host: allowed.test}", "- {host: example.org}", "- {host: only.asked.test}",
                       "- {host: db.example.org, ports: [443, 5432]}", "- {host: allowed.test, ports: [8080]}",
                       '- {cidr: "203.0.113.9/32", ports: [22]}', '- {cidr: "2001:db8::7/128"}'], text
    assert "tried 3 times" in text and "asked for once" in text
    for host in ("169.254.169.254", "10.1.2.3", "fd00::1", "inner.test"):
        assert re.search(rf"^#   network.allow: .*{host}.*private: true.*\n#     WARNING", text, re.MULTILINE), text
    assert re.search(r"^#   network.allow: api.test: PUT /x", text, re.MULTILINE) and "198.51.100.1, port 123" in text
    (user.home / "hosts.yaml").unlink()


def test_notes_that_are_not_ours(user):
    """The writer takes whole notes or none."""
    good = notes([(1, 0, 1, "/srv/x")])
    assert write(user, good).returncode == 0
    for data in (b"", b"x", good[:-1], good + b"x", good[:20], b"stklrn1\n" + b"\xff" * 40, notes([(9, 0, 1, "/srv/x")]),
                 notes([(1, 0, 1, "relative")])):
        done = write(user, data)
        assert done.returncode == 125 and done.stdout == b"" and b"stockade:" in done.stderr, data


def test_a_list_that_is_full(user, place):
    """More than a list can hold: the rest stays in comments."""
    done = write(user, notes([(1, 128, 1, f"/srv/{i}/file") for i in range(400)]))
    text = done.stdout.decode()
    assert text.count("\n    - /srv/") == 255 and "the list is full" in text
    done = write(user, notes([(1, 128, 1, f"/srv/{i}/" + "x" * 3900) for i in range(200)]))
    assert done.returncode == 0 and len(done.stdout) < 256 * 1024 and b"too large" in done.stdout


def test_hosts_of_a_run(net, who, place, checked):
    """With --learn no question and no byte leaves the host; with the profile that it wrote, the same command works."""
    command = ["--", "curl", "-sS", "--max-time", "8", "https://example.test/"]
    result = net.run(f"--learn={place}/learned.yaml", *command)
    assert result.status != 0 and b"hello" not in result.out
    assert net.names.asked() == [] and net.seen.all("connection") == []
    assert result.record["learned"]["hosts"] == 1 and "1 host" in result.errors
    allowed, _ = checked(place)
    assert "- {host: example.test}" in allowed
    again = net.run("--profile", place / "learned.yaml", *command)
    assert "hello from internet" in again.ok()


def test_ports_of_a_run(net, place, checked):
    result = net.run(f"--learn={place}/learned.yaml", "--", harness.PYTHON, "-ISc", """
import socket
for host, port in (("raw.example.test", 7), ("203.0.113.20", 7777), ("169.254.169.254", 80)):
    try:
        s = socket.create_connection((host, port), 5)
        s.sendall(b"x")
        s.recv(1)
    except OSError:
        pass
""")
    assert result.status == 0 and net.seen.all("connection") == []
    allowed, comments = checked(place)
    assert "- {host: raw.example.test, ports: [7]}" in allowed and '- {cidr: "203.0.113.20/32", ports: [7777]}' in allowed
    assert not any("169.254" in line for line in allowed) and any("169.254.169.254" in line for line in comments)
