"""Trees of sandboxes: packed and unpacked again, compared, flattened; and what stockade-pack itself can do meanwhile."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import DRIVER, ENVIRONMENT, MIB, PACK, Tar

EVERYTHING = r"""
mkdir -p a/b/c empty 'sp ace' && echo one > a/one && echo two > a/b/two && ln a/one a/b/same && ln -s ../one a/b/link && ln -s /nowhere dangling
mkfifo fifo && chmod 0600 fifo && printf 'x' > "$(printf 'new\nline')" && printf 'y' > "$(printf 'bad\377\376byte')" && touch 'ünï' && echo > -- -dash
truncate -s 30M sparse && printf 'middle' | dd of=sparse bs=1 seek=10000000 conv=notrunc status=none && printf 'end' >> sparse
truncate -s 50M hole && head -c 3000000 /dev/urandom > random && touch -d '2001-02-03 04:05:06.123456789' a/one && chmod 0700 empty && chmod 04755 a/b/two
python3 -c "
import os
os.setxattr('a/one','user.note',b'\x00binary\xff'); os.setxattr('empty','user.d',b'dir')
os.makedirs('deep/'+'/'.join(['n'*100]*20)); open('deep/'+'/'.join(['n'*100]*20)+'/'+'f'*200,'w').write('deep')
import socket; s=socket.socket(socket.AF_UNIX); s.bind('sock')
"
touch -d '2003-04-05 06:07:08.5' a/b a .
"""

LIST = r"""find . ! -name sock -printf '%y %m %U:%G %s %T@ %n %p -> %l\0' | sort -z | tr '\0' '\n' | grep -v '^d.* \./sock'; \
find . -type f -exec sha256sum {} + | LC_ALL=C sort; python3 -c "
import os
for d,ds,fs in sorted(os.walk(b'.')):
    for f in [b'.']+sorted(fs):
        p=os.path.join(d,f)
        if not os.path.islink(p) and not os.path.basename(p)==b'sock': print(p,[(x,os.getxattr(p,x)) for x in os.listxattr(p)])
" """


def listing(state, view):
    """Sizes of folders and the number of their names are the file system's own business."""
    lines = state.shell(view, LIST, "look").split("\n")
    return [" ".join(w for i, w in enumerate(line.split(" ")) if i not in (3, 5)) if line.startswith("d ") else line for line in lines]


def without_setid(lines):
    return sorted(line.replace("f 4755 ", "f 755 ") for line in lines)


@pytest.fixture(scope="module")
def full(state):
    disk = state.disk(inodes=2000)
    state.shell(disk, EVERYTHING)
    return disk


def packed(state, view, path):
    r = state.run("pack", view, path)
    assert r.returncode == 0, r.stdout
    return r.stdout.decode()


def test_there_and_back(state, full, tmp_path):
    said = packed(state, full, tmp_path / "a.tar.zst")
    assert said.split()[3] == "1"  # the socket
    other = state.disk(inodes=2000)
    assert state.unpack(other, tmp_path / "a.tar.zst").ok
    before = without_setid(listing(state, full))
    assert sorted(listing(state, other)) == before
    # what is a hole stays one, and archives of equal trees are equal
    assert int(state.shell(other, "stat -c %b sparse hole | paste -sd+ | bc || stat -c %b hole", "look").split()[0]) < 100
    packed(state, other, tmp_path / "b.tar.zst")
    packed(state, other, tmp_path / "c.tar.zst")
    assert (tmp_path / "b.tar.zst").read_bytes() == (tmp_path / "c.tar.zst").read_bytes()
    assert (tmp_path / "a.tar.zst").stat().st_size < 4 * MIB


def test_others_read_it(state, full, tmp_path):
    """tar(1) and Python understand what we write."""
    packed(state, full, tmp_path / "a.tar.zst")
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["tar", "--zstd", "-xf", tmp_path / "a.tar.zst", "-C", out], check=True, capture_output=True)
    assert (out / "a/one").read_text() == "one\n" and (out / "a/one").stat().st_nlink == 2
    assert (out / "sparse").stat().st_size == 30 * MIB + 3 and (out / "sparse").stat().st_blocks < 100
    assert os.path.exists(bytes(out) + b"/bad\xff\xfebyte")
    assert (out / "a/b/two").stat().st_mode & 0o7777 == 0o755


def test_no_difference(state, full, tmp_path):
    packed(state, full, tmp_path / "a.tar.zst")
    other = state.disk(inodes=2000)
    state.unpack(other, tmp_path / "a.tar.zst")
    state.shell(other, "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; touch a/one random")
    r = state.run("diff", full, other, tmp_path / "d")
    assert r.returncode == 0 and (tmp_path / "d").read_text() == "", (tmp_path / "d").read_text()


def changes(state, old, new, tmp_path):
    r = state.run("diff", old, new, tmp_path / "d")
    assert r.returncode == 0, r.stdout
    lines = [json.loads(line) for line in (tmp_path / "d").read_bytes().split(b"\n") if line]
    return {(c["change"], c["path"]): c for c in lines}, lines


def inside(archive):
    """What zstd(1) takes out of it; None if it refuses."""
    r = subprocess.run(["zstd", "-dcq", archive], capture_output=True)
    return r.stdout if r.returncode == 0 else None


def test_changed_on_its_way(state, full, tmp_path):
    """Everything that is in an archive is under a checksum. A bit in three hundred, here and there, means nothing to zstd: with
    such a one the same comes out, and that is taken."""
    packed(state, full, tmp_path / "a.tar.zst")
    data = bytearray((tmp_path / "a.tar.zst").read_bytes())
    refused = 0
    for at in (20, len(data) // 3, len(data) // 2, len(data) - 1000, len(data) - 2):
        broken = bytearray(data)
        broken[at] ^= 0x20
        (tmp_path / "b.tar.zst").write_bytes(broken)
        r = state.unpack(state.disk(inodes=2000), tmp_path / "b.tar.zst")
        assert r.ok == (inside(tmp_path / "b.tar.zst") == inside(tmp_path / "a.tar.zst")), (at, r.line)
        assert r.ok or r.error == -1003, (at, r.line)
        refused += not r.ok
    assert refused >= 3
    (tmp_path / "b.tar.zst").write_bytes(data[:-1])
    assert not state.unpack(state.disk(inodes=2000), tmp_path / "b.tar.zst").ok


def test_nowhere_to_write(state, full):
    """/dev/full, and a reader that goes away."""
    r = state.run("pack", full, "/dev/full")
    assert r.returncode == 1 and b"error 28" in r.stdout, r.stdout
    r = state.run("diff", f"-,{full}", state.disk(), "/dev/full")
    assert r.returncode == 1 and b"error 28" in r.stdout, r.stdout


def test_differences(state, tmp_path):
    bottom, top = state.disk(), state.disk()
    state.shell(bottom, "mkdir d e x; for i in 1 2 3; do echo $i > d/$i; echo $i > x/$i; done; echo same > s; echo mode > m; ln -s a l; echo t > t; echo big > b; chmod 600 m")
    state.shell(f"{top},{bottom}", """rm -r x; echo changed > d/1; rm d/2; echo new > d/4; chmod 644 m; ln -sfn b l; rm t; mkdir t; echo in > t/in
        mkdir -p n/m; printf 'bad' > "$(printf 'n/b\\377d')"; touch s; cp -p b b2; mv b2 b; mv e f""")
    got, lines = changes(state, f"-,{bottom}", f"{top},{bottom}", tmp_path)
    assert set(got) == {("changed", "d/1"), ("removed", "d/2"), ("added", "d/4"), ("changed", "m"), ("changed", "l"), ("changed", "t"),
                        ("added", "t/in"), ("removed", "x"), ("removed", "x/1"), ("removed", "x/2"), ("removed", "x/3"), ("added", "n"),
                        ("added", "n/m"), ("added", "n/b\ufffdd"), ("removed", "e"), ("added", "f")}
    assert got["changed", "d/1"] == {"change": "changed", "path": "d/1", "kind": "file", "size": 8}
    assert got["changed", "t"]["kind"] == "folder" and got["removed", "x/1"]["size"] == 2
    assert got["added", "n/b\ufffdd"]["bytes"] == b"n/b\xffd".hex()
    # a folder stands before what is in it
    order = [c["path"] for c in lines]
    assert order.index("n") < order.index("n/m") and order.index("x") < order.index("x/1") and order.index("t") < order.index("t/in")
    back, _ = changes(state, f"{top},{bottom}", f"-,{bottom}", tmp_path)
    assert ("added", "x/1") in back and ("removed", "d/4") in back
    # contents that lie about their time: same size, same mtime
    forged = state.disk()
    state.shell(f"{forged},{bottom}", "echo 9 > d/3.new; touch -r d/3 d/3.new; mv d/3.new d/3")
    got, _ = changes(state, f"-,{bottom}", f"{forged},{bottom}", tmp_path)
    assert set(got) == {("changed", "d/3")}


def test_flatten(state, full, tmp_path):
    """A chain of three becomes one disk with the same contents."""
    second, third, flat, top = state.disk(), state.disk(), state.disk(inodes=4000), state.disk()
    state.shell(f"{second},{full}", "rm -r a/b/c; mv 'sp ace' moved; echo more >> random; rm fifo; mkdir fifo; touch fifo/x")
    state.shell(f"{third},{second},{full}", "mv a z; rm -r empty; mkdir empty; echo only > empty/only; chmod 0711 .; touch -d @1000000000 .")
    chain = f"-,{third},{second},{full}"
    before = without_setid(listing(state, chain))
    r = state.run("flatten", chain, flat)
    assert r.returncode == 0, r.stdout
    assert sorted(listing(state, f"-,{flat}")) == before
    got, _ = changes(state, chain, f"-,{flat}", tmp_path)
    assert set(got) == {("removed", "sock")}
    state.shell(f"{top},{flat}", "test $(cat empty/only) = only && echo x >> z/one && test $(stat -c %a .) = 711")


def test_flatten_over_an_image(state, tmp_path):
    """What is as in the image stays there; what was removed stays removed."""
    t = Tar().folder("etc").add("etc/keep", b"k" * 100000).add("etc/gone", b"g").add("etc/changed", b"c").folder("lib").add("lib/a", b"a").add("lib/b", b"b")
    t.folder("home", uid=1000, gid=1000)
    _, r, image = state.image(t.bytes())
    assert r.ok
    first, second, flat, top = (state.disk(size=4 * MIB) for _ in range(4))
    state.shell(f"{first}@{image}", "rm etc/gone; echo new > etc/changed; rm -r lib; mkdir lib; echo mine > lib/own", "root")
    state.shell(f"{second},{first}@{image}", "mv etc conf; mkdir etc; echo x > etc/x; touch -r conf/keep conf/keep", "root")
    chain = f"-,{second},{first}@{image}"
    before = listing(state, chain)
    r = state.run("flatten", chain, f"{flat}@{image}")
    assert r.returncode == 0, r.stdout
    assert listing(state, f"-,{flat}@{image}") == before
    assert state.shell(f"{top},{flat}@{image}", "ls etc lib conf | tr '\\n' ' '", "root") == "conf: changed keep  etc: x  lib: own "
    # an untouched image costs nothing
    bare, flat2 = state.disk(size=4 * MIB), state.disk(size=MIB)
    state.shell(f"{bare}@{image}", "echo only > home/this")
    r = state.run("flatten", f"-,{bare}@{image}", f"{flat2}@{image}")
    assert r.returncode == 0 and int(r.stdout.split()[2]) <= 3, r.stdout


def test_flatten_into_a_small_disk_says_so(state, full):
    small = state.disk(size=MIB)
    r = state.run("flatten", f"-,{full}", small)
    assert r.returncode == 1 and b"error 28" in r.stdout


def test_deep_trees(state, tmp_path):
    """Deeper than a path can be long: packed without it, flattened with it."""
    disk, flat = state.disk(), state.disk()
    state.shell(disk, """python3 -c "
import os
for i in range(100): os.mkdir('d'*100); os.chdir('d'*100)
open('bottom','w').write('x')
" """)
    r = state.run("pack", disk, tmp_path / "a.tar.zst")
    assert r.returncode == 0 and int(r.stdout.split()[3]) == 1
    assert state.run("flatten", f"-,{disk}", flat).returncode == 0
    got, _ = changes(state, f"-,{disk}", f"-,{flat}", tmp_path)
    assert got == {}
    got, lines = changes(state, f"-,{state.disk()}", f"-,{disk}", tmp_path)
    assert len(lines) == 101


@pytest.fixture
def at_work(state):
    """stockade-pack in the middle of a job: it waits for more of an archive."""
    read, write = os.pipe()
    name = state.new()
    driver = subprocess.Popen([DRIVER, state.path, "unpack", state.disk(), "-", "0", "0"], stdin=read, stdout=subprocess.PIPE,
                              env=ENVIRONMENT)
    os.close(read)
    os.write(write, Tar().add("first", b"x" * 100000).bytes()[:70000])
    pid = None
    for _ in range(3000):
        children = pathlib.Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
        if children and "Seccomp:\t2" in pathlib.Path(f"/proc/{children[0]}/status").read_text():
            pid = int(children[0])
            break
        time.sleep(0.02)
    assert pid
    yield driver, pid, write
    os.close(write)
    driver.wait(60)


def test_it_is_confined(at_work):
    driver, pid, write = at_work
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().strip().split("\n") if ":\t" in line)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert int(status["Uid"].split()[0]) >= 0x40000000 and status["Groups"].strip() == ""
    assert int(status["CapEff"], 16) == (1 << 0) | (1 << 1) | (1 << 3)  # chown, dac_override, fowner, in its own namespace
    assert int(status["CapBnd"], 16) == 0 and int(status["CapInh"], 16) == 0
    assert os.listdir(f"/proc/{pid}/root") == []
    for kind in ("user", "mnt", "net", "ipc", "uts"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    fds = {int(f): os.readlink(f"/proc/{pid}/fd/{f}") for f in os.listdir(f"/proc/{pid}/fd")}
    assert {3, 4, 6} <= set(fds) and len(fds) <= 8 and not any("user:" in f for f in fds.values()), fds


def test_it_goes_with_its_starter(at_work):
    driver, pid, write = at_work
    driver.kill()
    driver.wait()
    for _ in range(3000):
        try:
            if "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]:
                return
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail("it lives on")


def test_killed_in_the_middle_is_an_error(at_work):
    driver, pid, write = at_work
    os.kill(pid, signal.SIGKILL)
    out, _ = driver.communicate(timeout=60)
    assert b"error 1004" in out and b"without a word" in out


def test_without_root_it_packs_what_the_user_sees(tmp_path):
    """For `stockade image import FOLDER`: the client packs its folder itself, with its own rights."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    os.chown(folder, 65534, 65534)
    os.chown(folder / "mine", 65534, 65534)
    out = tmp_path / "out.tar.zst"
    fd, to = os.open(folder, os.O_RDONLY), os.open(out, os.O_WRONLY | os.O_CREAT)

    def numbers():
        os.dup2(fd, 3, True) if fd != 3 else os.set_inheritable(3, True)
        os.dup2(to, 4, True) if to != 4 else os.set_inheritable(4, True)

    run = lambda: subprocess.run([PACK, "pack", "0", "0"], preexec_fn=numbers, close_fds=False, user=65534, group=65534,
                                 extra_groups=[], capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"})
    r = run()
    assert r.returncode == 0 and r.stdout.startswith("ok 4 2 0"), (r.stdout, r.stderr)
    (folder / "secret").write_text("root's")
    (folder / "secret").chmod(0o600)
    r = run()
    assert r.returncode == 1 and "secret" in r.stdout
    r = subprocess.run([PACK, "pack", "0", "0"], capture_output=True, text=True)
    assert r.returncode == 1 and "user namespace" in r.stdout  # as root it does nothing by itself
    assert subprocess.run([PACK, "nonsense"], capture_output=True).returncode == 2
