"""What is there inside, what can be changed, and what the host sees of it."""
import os
import shutil
import stat
import subprocess

import pytest

import harness

HOST_ONLY = ["/root", "/home", "/var", "/srv", "/mnt", "/media", "/opt", "/boot", "/sys", "/etc/shadow", "/etc/ssh",
             "/etc/sudoers", "/run/docker.sock", "/dev/vda", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net"]


def test_root_folder(sh):
    names = set(sh("ls -A /").ok().split())
    assert names <= {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "dev", "proc", "tmp", "run"}
    assert {"bin", "usr", "etc", "dev", "proc", "tmp"} <= names


@pytest.mark.parametrize("path", HOST_ONLY)
def test_not_visible(sh, path):
    assert sh(f"ls -ld {path} 2>&1; cat {path} 2>&1 | head -c 1").text.count("No such file") >= 1


def test_etc_is_made_for_the_sandbox(sh):
    assert sh("cat /etc/passwd").ok().count("\n") <= 4
    assert "root:x:0" not in sh("cat /etc/shadow /etc/gshadow 2>/dev/null; true").ok()
    host = open("/etc/machine-id", encoding="ascii").read() if os.path.exists("/etc/machine-id") else "none"
    assert sh("cat /etc/machine-id").ok().strip() != host.strip()
    assert sh("hostname; uname -n; cat /proc/sys/kernel/hostname").ok().split() == ["stockade"] * 3


def test_programs_find_what_they_need(sh):
    result = sh("id -un; whoami; getent passwd 1000 >/dev/null && echo known; awk 'BEGIN{print 1}'; "
                "date +%Z >/dev/null && echo zone; perl -e 'print \"p\\n\"'; python3 -c 'import ssl; print(\"ssl\")'")
    assert result.ok().split() == ["agent", "agent", "known", "1", "zone", "p", "ssl"]


def test_canary_outside_is_not_found(who, place):
    (place / "canary-5d1f").write_text("secret")
    script = f"""
import os
found = [os.path.join(p, n) for p, d, f in os.walk("/") for n in f + d if n == "canary-5d1f" and not p.startswith("/proc")]
print(found)
for path in ("{place}/canary-5d1f", "/proc/1/root{place}/canary-5d1f", "/proc/self/root{place}/canary-5d1f",
             "/../../../..{place}/canary-5d1f", "/dev/fd/../../..{place}/canary-5d1f"):
    try: print(open(path).read())
    except OSError: pass
"""
    result = harness.run(who, "--", harness.PYTHON, "-ISc", script)
    assert result.ok() == "[]\n"


def test_files_of_other_runs_are_not_there(who):
    first = harness.start(who, "--", "sh", "-c", "echo mine > /tmp/sibling; echo mine > /dev/shm/sibling; echo up; read x")
    try:
        assert first.stdout.readline() == b"up\n"
        result = harness.run(who, "--", "sh", "-c", "ls -A /tmp /dev/shm; ls /proc | grep -c '^[0-9]'")
        assert "\nsibling" not in result.text and int(result.text.split()[-1]) <= 5
    finally:
        harness.stop(first)


def test_nothing_of_the_system_can_be_written(sh):
    for path in ("/usr/bin/x", "/etc/x", "/etc/passwd", "/x", "/bin/x", "/dev/x", "/run/x", "/proc/sys/kernel/hostname",
                 "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/usr/bin/true", "/lib/x", "/run/stockade/x"):
        assert sh(f"(echo x >> {path}) 2>/dev/null && echo wrote").text == "", path


def test_device_nodes(sh):
    names = set(sh("ls /dev").ok().split())
    assert names <= {"null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr", "ptmx", "pts",
                     "shm", "console", "mqueue"}
    assert sh("mknod /tmp/n c 1 3 2>/dev/null || echo refused").text == "refused\n"
    assert sh("chmod 0 /dev/null /dev/zero 2>/dev/null || echo refused; ls -l /dev/null").text.startswith("refused\ncrw-rw-rw-")


def test_ro(who, run, place):
    (place / "data").write_text("hello")
    result = run("--ro", place, "--", "sh", "-c", f"cat {place}/data; echo x > {place}/new; echo x > {place}/data; "
                 f"rm {place}/data; chmod 777 {place}/data; mv {place}/data {place}/b; true")
    assert result.text == "hello" and os.listdir(place) == ["data"] and (place / "data").read_text() == "hello"


def test_ro_single_file_and_destination(run, place):
    (place / "data").write_text("hello")
    (place / "other").write_text("no")
    assert run("--ro", f"{place}/data:/input/file.txt", "--", "sh", "-c", "cat /input/file.txt; ls /input").ok() == \
        "hellofile.txt\n"
    assert run("--ro", f"{place}:/data", "--", "sh", "-c", "ls /data").ok() == "data\nother\n"
    assert run("--ro", f"{place}/data", "--", "sh", "-c", f"ls {place}").ok() == "data\n"


def test_name_with_a_colon(run, place):
    (place / "a:b").mkdir()
    (place / "a:b/file").write_text("x")
    assert run("--ro", f"{place}/a:b", "--", "ls", f"{place}/a:b").ok() == "file\n"


def test_rw(who, run, place):
    (place / "old").write_text("old")
    os.chown(place / "old", who.uid, who.gid)
    run("--rw", place, "--", "sh", "-c", f"cd {place} && echo new > new && echo more >> old && mkdir d && ln -s x l "
        "&& echo s > d/deep && chmod 700 d").ok()
    assert (place / "new").read_text() == "new\n" and (place / "old").read_text() == "oldmore\n"
    for name in ("new", "old", "d", "d/deep", "l"):
        info = os.lstat(place / name)
        assert (info.st_uid, info.st_gid) == (who.uid, who.gid), name
    assert stat.S_IMODE(os.stat(place / "d").st_mode) == 0o700


def test_rw_by_root_for_somebody_else(root, user):
    """Root runs it for a folder of another user: files written belong to that user, not to root or a strange id."""
    folder = user.folder()
    harness.run(root, "--rw", folder, "--", "sh", "-c", f"echo x > {folder}/f; mkdir {folder}/d; echo y > {folder}/d/g; "
                f"id -u; stat -c %u {folder}").ok()
    assert {(os.stat(folder / n).st_uid, os.stat(folder / n).st_gid) for n in ("f", "d", "d/g")} == {(user.uid, user.gid)}


def test_rw_does_not_reach_files_of_others(root, user):
    """In a folder of one user, a file of root stays closed."""
    folder = user.folder()
    (folder / "private").write_text("secret")
    os.chmod(folder / "private", 0o600)
    result = harness.run(root, "--rw", folder, "--", "sh", "-c", f"cat {folder}/private; echo x >> {folder}/private")
    assert "secret" not in result.text and (folder / "private").read_text() == "secret"


def test_no_setuid_from_a_share(who, run, place):
    """A set-id program that comes from inside is none outside, and one from outside is none inside."""
    run("--rw", place, "--", "sh", "-c", f"cp /usr/bin/id {place}/id; chmod 6755 {place}/id; ls -l {place}/id")
    if (place / "id").exists() and who.name == "root":
        info = os.stat(place / "id")
        assert info.st_uid != 0 or not info.st_mode & 0o6000 or os.stat(place).st_uid == 0
    assert "uid=0" not in run("--ro", "/usr/bin", "--", "sh", "-c", "su -c id </dev/null 2>&1; grep NoNewPrivs "
                              "/proc/self/status").text


@pytest.mark.parametrize("how", ["--ro", "--rw"])
def test_link_out_of_its_folder_is_refused(run, place, how):
    (place / "real").mkdir()
    (place / "inner").symlink_to("real")
    (place / "outer").symlink_to("/etc")
    assert run(how, place / "inner", "--", "true").status == 0
    result = run(how, place / "outer", "--", "true")
    assert result.status == 125 and "symbolic link" in result.errors and "/etc" in result.errors


def test_link_inside_a_share_leads_nowhere(run, place):
    (place / "shadow").symlink_to("/etc/shadow")
    (place / "up").symlink_to("../../../../../../../../root")
    result = run("--rw", place, "--", "sh", "-c", f"cat {place}/shadow; ls {place}/up/; echo end")
    assert result.text == "end\n"


@pytest.mark.parametrize("path", ["/", "/proc", "/sys", "/dev", "/dev/null", "/proc/1/root"])
def test_shares_that_are_never_given(run, path):
    assert run("--ro", path, "--", "true").status == 125


@pytest.mark.parametrize("dest", ["/", "/proc", "/proc/1", "/dev", "/dev/x", "/usr", "/etc", "/run/stockade", "relative"])
def test_destinations_that_are_not_free(run, place, dest):
    result = run("--ro", f"{place}:{dest}", "--", "true")
    assert result.status == 125 and result.out == b""


def test_hide(who, run, place):
    (place / "keep").write_text("seen")
    (place / "secret").write_text("hidden")
    (place / "keys").mkdir()
    (place / "keys/id").write_text("hidden")
    profile = place / "p.yaml"
    profile.write_text(f"profile: 1\nextends: low\nfiles:\n  read: [/usr, {place}]\n  hide: [{place}/secret, {place}/keys]\n")
    result = run("--profile", profile, "--", "sh", "-c", f"cat {place}/keep; cat {place}/secret; ls {place}/keys; "
                 f"cat {place}/keys/id; echo x > {place}/keys/id; echo .")
    assert result.text == "seen.\n" and (place / "keys/id").read_text() == "hidden"


def test_unmount_does_not_uncover(sh):
    """Nobody inside can take a mount away to see what is below it."""
    assert sh("for m in $(cut -d' ' -f5 /proc/self/mountinfo); do umount -l $m 2>/dev/null && echo $m; done; "
              "mount -o remount,rw /usr 2>/dev/null && echo rw; true").ok() == ""


def test_no_room_for_more_namespaces(sh):
    """Below the filter there is a second lock: the kernel's own count of nested user namespaces is nought."""
    assert sh("cat /proc/sys/user/max_user_namespaces; unshare -U true 2>/dev/null || echo refused").ok() == "0\nrefused\n"


def test_environment(run):
    result = run("--env", "A=1", "-e", "B=two words", "--env=A=2", "--", "env", env={"SECRET": "x", "LD_PRELOAD": ""})
    lines = result.ok().splitlines()
    assert "A=2" in lines and "B=two words" in lines and "A=1" not in lines
    assert not [line for line in lines if line.startswith(("SECRET", "LD_"))]
    names = {line.split("=")[0] for line in lines}
    assert names <= {"A", "B", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "STOCKADE", "TERM", "TZ", "TMPDIR"}


def test_environment_passed_on(run):
    assert "TOKEN=abc" in run("--env", "TOKEN", "--", "env", env={"TOKEN": "abc"}).ok()
    assert run("--env", "NOT_SET_ANYWHERE", "--", "env").status == 125


def test_working_directory(run, place):
    (place / "sub").mkdir()
    assert run("--", "pwd").ok() == "/tmp\n"
    assert run("--cwd", "/usr/lib", "--", "pwd").ok() == "/usr/lib\n"
    assert run("--ro", place, "--", "pwd", cwd=place / "sub").ok() == f"{place}/sub\n"
    assert run("--cwd", "/no/such", "--", "pwd").status in (0, 125)


@pytest.fixture
def small_root(suite):
    """A root folder with nothing but one static program."""
    folder = suite.folder / "small-root"
    if not folder.exists():
        for name in ("bin", "etc", "proc", "dev", "tmp", "data"):
            (folder / name).mkdir(parents=True)
        static = shutil.which("busybox")
        if not static or b"dynamically" in subprocess.run(["file", "-L", static], capture_output=True).stdout:
            static = harness.compile_c(suite, "small.c", "-static")
        shutil.copy(static, folder / "bin/sh")
        (folder / "etc/motd").write_text("from the image")
    return folder


@pytest.mark.parametrize("profile", ["low", "medium"])
def test_other_root(run, small_root, profile):
    result = run("--profile", profile, "--root", small_root, "--", "/bin/sh", "-c", "echo hello; exit 4")
    assert result.status == 4 and result.text == "hello\n"
    assert os.listdir(small_root / "tmp") == [] and os.listdir(small_root / "dev") == []


def test_other_root_is_read_only(run, small_root):
    result = run("--profile", "medium", "--root", small_root, "--", "/bin/sh", "-c",
                 "echo x > /etc/new; echo x > /tmp/ok && echo wrote")
    assert result.text == "wrote\n" and os.listdir(small_root / "etc") == ["motd"]


def test_the_caller_keeps_its_umask_to_itself(who):
    """A caller whose new files are nobody else's still gets a sandbox that its user can read."""
    for profile in ["low"] if who.rootless else ["low", "high"]:
        result = harness.run(who, "--profile", profile, "--", "sh", "-c", "umask; cat /etc/hosts",
                             first=lambda: os.umask(0o077))
        assert "localhost" in result.ok() and result.text.startswith("0022")
