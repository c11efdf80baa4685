"""The file server of machines without virtiofs, mounted on this host by the same code that mounts it in a machine: what
programs see through it is what is there."""
import hashlib
import os
import subprocess
import sys
import textwrap

import needed
import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), "../warden"))
import plans  # noqa: E402

needed.root()
if not os.path.exists("/dev/fuse"):
    needed.missing("this kernel has no FUSE: modprobe fuse")

MOUNT, SERVER = plans.BUILD / "tests/driver/fuse-mount", plans.BUILD / "src/driver/stockade-vm-files"


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tree"
    (top / "folder").mkdir(parents=True)
    (top / "file").write_bytes(b"hello\n")
    (top / "big").write_bytes(os.urandom(3 << 20))
    (top / "up").symlink_to("../outside")
    (top / "in").symlink_to("file")
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "at").mkdir()
    return top


def mounted(tree, *command, **kw):
    return subprocess.run([MOUNT, SERVER, tree, tree.parent / "at", *command], cwd="/", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, **kw)


def inside(tree, script, code=0):
    done = mounted(tree, "/usr/bin/python3", "-c", "import os, sys\nos.chdir(sys.argv[1])\n" + textwrap.dedent(script),
                   tree.parent / "at")
    assert done.returncode == code, done.stderr
    return done.stdout


def test_reads(tree):
    said = mounted(tree, "sh", "-c", f"cd {tree.parent}/at && cat file && cat in && sha256sum < big && ls -a && readlink up")
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[:2] == ["hello", "hello"]
    assert lines[2].split()[0] == hashlib.sha256((tree / "big").read_bytes()).hexdigest()
    assert lines[3:] == [".", "..", "big", "file", "folder", "in", "up", "../outside"]


def test_programs_run_from_it(tree):
    (tree / "env").write_bytes(open("/usr/bin/env", "rb").read())
    os.chmod(tree / "env", 0o755)
    assert mounted(tree, tree.parent / "at/env", "echo", "ran").stdout == "ran\n"


def test_writes(tree):
    inside(tree, """
        with open('new', 'w') as f: f.write('abc'); f.flush(); os.fsync(f.fileno())
        with open('new', 'a') as f: f.write('def')
        os.makedirs('a/b/c'); os.rename('new', 'a/b/c/moved'); os.link('a/b/c/moved', 'twice')
        os.symlink('nowhere', 'dangling'); os.chmod('twice', 0o600); os.truncate('twice', 4); os.utime('twice', (1, 2))
        os.mkfifo('fifo'); os.unlink('file'); os.rmdir('folder'); os.chown('a', 1000, 1001)
        assert os.path.samefile('twice', 'a/b/c/moved') and os.stat('twice').st_nlink == 2
        fd = os.open('sparse', os.O_RDWR | os.O_CREAT); os.posix_fallocate(fd, 0, 100000); os.pwrite(fd, b'x', 1 << 20)
        big = os.urandom(2 << 20); open('much', 'wb').write(big); assert open('much', 'rb').read() == big
        assert os.statvfs('.').f_blocks > 0 and len(os.listdir('.')) == 9
    """)
    assert (tree / "a/b/c/moved").read_text() == "abcd" and not (tree / "file").exists()
    assert (tree / "twice").stat().st_mode & 0o777 == 0o600 and (tree / "twice").stat().st_mtime == 2
    assert os.readlink(tree / "dangling") == "nowhere" and (tree / "a").stat().st_uid == 1000
    assert (tree / "sparse").stat().st_size == (1 << 20) + 1


def test_many_names(tree):
    inside(tree, """
        for i in range(3000): open(f'folder/{i:06}' + 'x' * 100, 'w').close()
        assert len(os.listdir('folder')) == 3000
        for name in os.listdir('folder'): os.unlink('folder/' + name)
        os.rmdir('folder')
    """)
    assert not (tree / "folder").exists()


def test_a_mapping_of_who_appends(tree):
    """What is written to the mapping stays where it was written."""
    inside(tree, """
        import mmap
        with open('file', 'a+b') as f, mmap.mmap(f.fileno(), 6) as m:
            m[0:1] = b'J'; m.flush(); f.write(b'there\\n'); f.flush()
            assert open('file', 'rb').read() == b'Jello\\nthere\\n'
    """)
    assert (tree / "file").read_bytes() == b"Jello\nthere\n"


def test_one_file_is_opened_often(tree):
    """As a library is by every process that uses it."""
    inside(tree, """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (10000, 10000))
        held = [os.open('file', os.O_RDONLY) for _ in range(9000)]
        assert all(os.pread(fd, 5, 0) == b'hello' for fd in held[::1000])
    """)


def test_whose_files_they_are(tree):
    os.chmod(tree / "folder", 0o777)
    inside(tree, """
        os.setgroups([]); os.setresgid(1234, 1234, 1234); os.setresuid(1234, 1234, 1234)
        open('folder/mine', 'w').write('x'); os.mkdir('folder/too')
        for attempt in (lambda: open('file', 'a'), lambda: open('not', 'w'), lambda: os.unlink('file'), lambda: os.chmod('file', 0o777)):
            try: attempt()
            except PermissionError: continue
            raise SystemExit(9)
    """)
    assert (tree / "folder/mine").stat().st_uid == 1234 and (tree / "folder/too").stat().st_gid == 1234


def test_what_is_not_there(tree):
    inside(tree, """
        import errno
        def fails(why, what, *args):
            try: what(*args)
            except OSError as e: assert e.errno == why, e
            else: raise SystemExit(9)
        fails(errno.ENOENT, os.stat, 'none'); fails(errno.ENAMETOOLONG, os.stat, 'a' * 256); fails(errno.ENAMETOOLONG, os.mkdir, 'a' * 1000)
        fails(errno.EEXIST, os.mkdir, 'folder'); fails(errno.ENOTDIR, os.stat, 'file/x')
        fails(errno.EPERM, os.mknod, 'device', 0o20666, os.makedev(1, 3)); fails(errno.EISDIR, os.unlink, 'folder')
        fails(errno.EOPNOTSUPP, os.setxattr, 'file', 'user.x', b'1')
    """)


def test_a_read_only_mount_stays_so(tree):
    """Flags of the tree's own mounts hold, whatever the machine's kernel believes."""
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount --bind {tree}/folder {tree}/folder && mount -o remount,bind,ro {tree}/folder && "
                           f"exec {MOUNT} {SERVER} {tree} {tree.parent}/at touch {tree.parent}/at/folder/x"],
                          stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "Read-only file system" in done.stderr
