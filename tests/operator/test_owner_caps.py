"""What one owner may have, and that whoever takes all of his takes nothing from another."""
import contextlib
import grp
import io
import os
import socket
import stat
import subprocess
import tarfile

import pytest

from harness import Call, Gone, Refused, until

ONE, OTHER = 4301, 4302
MIB = 1 << 20

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users' clients need root")


@pytest.fixture(name="make_daemon")
def for_others(make_daemon):
    """Others get as far as the socket, as they do where the daemon made its folder itself."""
    def make(**kw):
        daemon = make_daemon(**kw)
        daemon.state.chmod(0o711)
        return daemon
    return make


@contextlib.contextmanager
def user(uid, groups=()):
    """Connections that are made inside are this user's."""
    before = os.getgroups()
    os.setgroups(list(groups))
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


def call(daemon, uid, verb, **fields):
    with user(uid):
        return Call(daemon.socket, {"verb": verb, **fields})


def ask(daemon, uid, verb, data=None, **fields):
    with call(daemon, uid, verb, **fields) as c:
        if data is not None:
            c.input(data)
        return c.answer()


def limited(daemon, uid, setting, verb, **fields):
    """It is refused, and the hint names the key of stockade.conf."""
    with pytest.raises(Refused) as e:
        ask(daemon, uid, verb, **fields)
    assert e.value.code == "limit" and f"{setting} in stockade.conf" in e.value.hint, e.value


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("usr", "usr/bin"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
    return out.getvalue()


def test_snapshots(make_daemon):
    d = make_daemon(conf="owner_snapshots = 2\npool = 0\n")
    boxes = {uid: ask(d, uid, "create", profile="medium")["id"] for uid in (ONE, OTHER)}
    made = [ask(d, ONE, "snapshot", sandbox=boxes[ONE])["id"] for _ in range(2)]
    limited(d, ONE, "owner_snapshots", "snapshot", sandbox=boxes[ONE])
    limited(d, ONE, "owner_snapshots", "import", name="more", data=b"")
    assert ask(d, OTHER, "snapshot", sandbox=boxes[OTHER])["id"]
    d.kill_operator()  # they are counted again at the start
    limited(d, ONE, "owner_snapshots", "snapshot", sandbox=boxes[ONE])
    ask(d, ONE, "snapshot-delete", snapshot=made[0])
    assert ask(d, ONE, "snapshot", sandbox=boxes[ONE])["id"]


def test_images(make_daemon):
    d = make_daemon(conf="owner_images = 2\nowner_disk = 1GiB\npool = 0\n")
    for name in ("a", "b"):
        ask(d, ONE, "image-import", name=name, data=archive())
    limited(d, ONE, "owner_images", "image-import", name="c", data=archive())
    assert ask(d, OTHER, "image-import", name="c", data=archive())["name"] == "c"
    ask(d, ONE, "image-remove", name="a")
    assert ask(d, ONE, "image-import", name="c", data=archive())["name"] == "c"


def test_an_image_that_is_being_made_has_its_room(make_daemon):
    """Two at once cannot pass a limit together."""
    d = make_daemon(conf="owner_disk = 64MiB\npool = 0\n")
    with call(d, ONE, "image-import", name="a") as slow:
        slow.send("I", archive()[:512])
        assert until(lambda: d.client.health()["used"]["disk"] == 64 * MIB)
        limited(d, ONE, "owner_disk", "image-import", name="b", data=archive())
        assert ask(d, OTHER, "image-import", name="b", data=archive())["name"] == "b"
        slow.input(archive()[512:])
        assert slow.answer()["name"] == "a"
    assert d.client.health()["used"]["disk"] < 2 * MIB


def test_an_image_larger_than_the_share(make_daemon):
    d = make_daemon(conf="owner_disk = 2MiB\npool = 0\n")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        file = tarfile.TarInfo("big")
        file.size = 8 * MIB
        tar.addfile(file, io.BytesIO(os.urandom(8 * MIB)))
    with pytest.raises(Refused):
        ask(d, ONE, "image-import", name="a", data=out.getvalue())
    assert until(lambda: d.client.health()["used"]["disk"] == 0)
    assert not d.client.images()["images"]


def test_connections(make_daemon):
    d = make_daemon(conf="owner_clients = 8\npool = 0\n")
    with contextlib.ExitStack() as held:
        for _ in range(8):
            held.enter_context(call(d, ONE, "events", follow=True))
        assert until(lambda: d.client.ping()["health"] == "ok")
        for _ in range(40):
            with user(ONE), socket.socket(socket.AF_UNIX) as s:  # told before it has asked
                s.connect(str(d.socket))
                told = s.makefile("rb").read().decode(errors="replace")
            assert '"code":"limit"' in told and "owner_clients in stockade.conf" in told
        assert "owner_clients" in cli(d, ONE, "list")
        for _ in range(8):
            assert ask(d, OTHER, "ping")["owner"] == f"uid:{OTHER}"
    assert until(lambda: answers(d, ONE))


def cli(daemon, uid, *words):
    """What the command line says on its second stream."""
    return subprocess.run([daemon.programs.stockade, *words, "--socket", daemon.socket], user=uid, group=uid,
                          extra_groups=[], capture_output=True, text=True, check=False).stderr


def answers(daemon, uid):
    try:
        return ask(daemon, uid, "ping")["owner"] == f"uid:{uid}"
    except (Refused, Gone):
        return False


def test_keys(make_daemon):
    d = make_daemon(conf="owner_keys = 3\npool = 0\n")
    box = ask(d, ONE, "create", profile="low", key="k1")["id"]
    for i in (2, 3):
        ask(d, ONE, "exec", sandbox=box, argv=["true"], key=f"k{i}")
    limited(d, ONE, "owner_keys", "exec", sandbox=box, argv=["true"], key="k4")
    assert ask(d, ONE, "create", profile="low", key="k1")["id"] == box, "what it has is still answered"
    assert ask(d, ONE, "exec", sandbox=box, argv=["true"])["exit_code"] == 0, "without a key it goes on"
    assert ask(d, OTHER, "create", profile="low", key="k1")["id"] != box
    d.kill_operator()
    limited(d, ONE, "owner_keys", "exec", sandbox=box, argv=["true"], key="k4")


def test_a_refused_request_leaves_no_key(make_daemon):
    d = make_daemon(conf="owner_keys = 2\npool = 0\n")
    for i in range(5):
        with pytest.raises(Refused) as e:
            ask(d, ONE, "create", profile="nothing-like-it", key=f"k{i}")
        assert e.value.code != "limit"


def test_watchers(make_daemon):
    d = make_daemon(conf="owner_watchers = 3\npool = 0\n")
    boxes = {uid: ask(d, uid, "create", profile="low")["id"] for uid in (ONE, OTHER)}
    with contextlib.ExitStack() as held:
        held.enter_context(call(d, ONE, "events", follow=True))
        for _ in range(2):
            w = held.enter_context(call(d, ONE, "watch", sandbox=boxes[ONE], path="/tmp"))
            assert w.event() == {"opened": True}
        assert until(lambda: refused(d, ONE, "events", follow=True))
        limited(d, ONE, "owner_watchers", "watch", sandbox=boxes[ONE], path="/tmp")
        limited(d, ONE, "owner_watchers", "events")
        w = held.enter_context(call(d, OTHER, "watch", sandbox=boxes[OTHER], path="/tmp"))
        assert w.event() == {"opened": True}
        assert ask(d, OTHER, "events")["next"] > 0
    assert until(lambda: not refused(d, ONE, "events"))


def refused(daemon, uid, verb, **fields):
    with call(daemon, uid, verb, **fields) as c:
        c.socket.settimeout(0.3)
        try:
            c.answer()
        except Refused as e:
            return e.code == "limit"
        except TimeoutError:
            pass
        return False


# --- output of runs

def write(daemon, uid, box, mib, letter="x"):
    script = f"head -c {mib}M /dev/zero | tr '\\0' {letter}"
    return ask(daemon, uid, "exec", sandbox=box, argv=["/bin/sh", "-c", script])["run"]


def logged(daemon, uid, box, run):
    with call(daemon, uid, "logs", sandbox=box, run=run) as c:
        c.answer()
        return bytes(c.out)


def logs_on_disk(daemon, box):
    folder = daemon.state / "operator/logs" / box
    return sum(f.stat().st_blocks * 512 for f in folder.iterdir()) if folder.is_dir() else 0


def test_output_is_counted_and_the_oldest_goes(make_daemon):
    d = make_daemon(conf="owner_logs = 8MiB\npool = 0\n")
    mine, his = (ask(d, uid, "create", profile="low")["id"] for uid in (ONE, OTHER))
    second = ask(d, ONE, "create", profile="low")["id"]
    kept = write(d, OTHER, his, 2)
    first = write(d, ONE, mine, 3, "a")
    used = d.client.health()["used"]["disk"]
    assert 5 * MIB <= used <= 6 * MIB
    last = [write(d, ONE, box, 3, "b") for box in (second, mine)]
    assert logged(d, ONE, mine, first) == b"", "the oldest went"
    assert logged(d, ONE, second, last[0]) in (b"", b"b" * (3 * MIB)), "whole or not at all"
    assert logged(d, ONE, mine, last[1]) == b"b" * (3 * MIB), "the newest is whole"
    assert logs_on_disk(d, mine) + logs_on_disk(d, second) <= 8 * MIB + 65536
    assert len(logged(d, OTHER, his, kept)) == 2 * MIB, "another owner loses nothing"
    d.kill_operator()
    again = write(d, ONE, second, 6, "c")
    assert logged(d, ONE, second, again) == b"c" * (6 * MIB)
    assert logs_on_disk(d, mine) + logs_on_disk(d, second) <= 8 * MIB + 65536, "counted again after a restart"
    assert len(logged(d, OTHER, his, kept)) == 2 * MIB
    for uid, box in ((ONE, mine), (ONE, second), (OTHER, his)):
        ask(d, uid, "delete", sandbox=box, force=True)
    assert until(lambda: d.client.health()["used"]["disk"] == 0), "nothing is counted that is gone"


def test_a_run_that_writes_without_end_keeps_its_newest(make_daemon):
    """Alone above the limit: it goes on, with less of it kept; one that is silent meanwhile keeps its file."""
    d = make_daemon(conf="owner_logs = 4MiB\npool = 0\n")
    box = ask(d, ONE, "create", profile="low", set={"limits.output": "1GiB"})["id"]
    with call(d, ONE, "exec", sandbox=box, argv=["/bin/sh", "-c", "head -c 1M /dev/zero; cat; echo end"], stdin=True) as c:
        run = c.event()["run"]
        assert until(lambda: logs_on_disk(d, box) >= MIB)
        other = write(d, ONE, box, 40, "y")
        tail = logged(d, ONE, box, other)
        assert tail and set(tail) == {ord("y")} and len(tail) <= 4 * MIB
        assert logs_on_disk(d, box) <= 5 * MIB
        c.send("F")
        c.answer()
    assert logged(d, ONE, box, run).endswith(b"end\n")


# --- who may come in

def mode_of(daemon):
    st = daemon.socket.stat()
    return stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid


def test_a_group_is_let_in(make_daemon):
    group = grp.getgrnam("daemon")
    d = make_daemon(conf="local_group = daemon\npool = 0\n")
    assert mode_of(d) == (0o660, 0, group.gr_gid)
    with user(ONE), pytest.raises(Gone):
        Call(d.socket, {"verb": "ping"})
    with user(ONE, [group.gr_gid]), Call(d.socket, {"verb": "ping"}) as c:
        assert c.answer()["owner"] == f"uid:{ONE}"


def test_a_group_that_is_not_there(make_daemon):
    d = make_daemon(conf="local_group = no-such-group\npool = 0\n")
    assert mode_of(d)[0] == 0o600 and d.client.ping()["admin"]
    with user(ONE), pytest.raises(Gone):
        Call(d.socket, {"verb": "ping"})
    assert "there is no group 'no-such-group'" in d.said()


def test_everybody_is_let_in(make_daemon):
    d = make_daemon(conf="local_group = *\npool = 0\n")
    assert mode_of(d)[0] == 0o666 and ask(d, ONE, "ping")["owner"] == f"uid:{ONE}"


def test_without_root_nobody_else_is(make_daemon):
    d = make_daemon(conf="local_group = *\npool = 0\n", who=ONE)
    assert mode_of(d)[:2] == (0o600, ONE)
