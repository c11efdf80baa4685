"""Watching: what is told of changes below a path, and that nothing is missed in silence."""
import errno
import os
import shutil
import stat
import time

from frames import ATTRIBUTES, CHANGED, LOST, MADE, MOVED, RECURSIVE, REMOVED


def watch(conn, path, flags=0):
    request = conn.ask("watch", flags, path=str(path))
    conn.wait(lambda: request.opened or request.end)
    return request


def changes(request):
    return [(m.number, m.path, m.target) for m in request.items]


def test_what_is_told(conn, folder):
    w = watch(conn, folder)
    (folder / "a").write_bytes(b"1")
    conn.wait(lambda: (CHANGED, b"a", b"") in changes(w))
    assert changes(w)[0] == (MADE, b"a", b"")
    w.items.clear()
    (folder / "a").chmod(0o600)
    conn.wait(lambda: (ATTRIBUTES, b"a", b"") in changes(w))
    (folder / "a").rename(folder / "b")
    conn.wait(lambda: (MOVED, b"a", b"b") in changes(w))
    (folder / "b").unlink()
    conn.wait(lambda: (REMOVED, b"b", b"") in changes(w))
    (folder / "d").mkdir()
    conn.wait(lambda: (MADE, b"d", b"") in changes(w))
    assert stat.S_ISDIR(w.items[-1].mode)
    w.items.clear()
    (folder / "d" / "deep").touch()  # not below this one watch
    conn.idle(0.2)
    assert all(m.path == b"d" or m.path == b"" for m in w.items)
    conn.cancel(w)
    assert conn.finish_of(w).error == -errno.ECANCELED


def test_reading_is_not_told(conn, folder):
    (folder / "f").write_bytes(b"x")
    w = watch(conn, folder, RECURSIVE)
    (folder / "f").read_bytes()
    os.listdir(folder)
    conn.idle(0.2)
    assert w.items == []


def test_moved_in_and_out(conn, folder):
    (folder / "in").mkdir()
    (folder / "x").touch()
    w = watch(conn, folder / "in")
    (folder / "x").rename(folder / "in" / "x")
    conn.wait(lambda: (MADE, b"x", b"") in changes(w))
    (folder / "in" / "x").rename(folder / "y")
    conn.wait(lambda: (REMOVED, b"x", b"") in changes(w))


def test_recursive(conn, folder):
    (folder / "a" / "b").mkdir(parents=True)
    w = watch(conn, folder, RECURSIVE)
    (folder / "a" / "b" / "f").touch()
    conn.wait(lambda: (MADE, b"a/b/f", b"") in changes(w))
    (folder / "new" / "er" / "est").mkdir(parents=True)
    conn.wait(lambda: (MADE, b"new/er/est", b"") in changes(w))
    (folder / "new" / "er" / "est" / "f").touch()
    conn.wait(lambda: (MADE, b"new/er/est/f", b"") in changes(w))
    (folder / "new").rename(folder / "other")
    conn.wait(lambda: (MOVED, b"new", b"other") in changes(w))
    (folder / "other" / "er" / "est" / "g").touch()
    conn.wait(lambda: (MADE, b"other/er/est/g", b"") in changes(w))
    w.items.clear()
    shutil.rmtree(folder / "other")
    conn.wait(lambda: (REMOVED, b"other", b"") in changes(w))
    assert {(REMOVED, b"other/er/est/f", b""), (REMOVED, b"other/er", b"")} <= set(changes(w))


def test_folder_moved_out_is_not_watched_any_more(conn, folder):
    (folder / "in" / "d").mkdir(parents=True)
    w = watch(conn, folder / "in", RECURSIVE)
    (folder / "in" / "d").rename(folder / "d")
    conn.wait(lambda: (REMOVED, b"d", b"") in changes(w))
    w.items.clear()
    (folder / "d" / "f").touch()
    conn.idle(0.2)
    assert w.items == []


def test_links_are_not_followed(conn, folder):
    (folder / "outside").mkdir()
    (folder / "in").mkdir()
    (folder / "in" / "link").symlink_to(folder / "outside")
    w = watch(conn, folder / "in", RECURSIVE)
    (folder / "outside" / "f").touch()
    conn.idle(0.2)
    assert w.items == []


def test_a_storm_of_folders(conn, folder):
    """Trees that are made faster than they can be watched: every folder is told, or LOST is."""
    w = watch(conn, folder, RECURSIVE)
    for i in range(40):
        (folder / f"t{i}" / "x" / "y").mkdir(parents=True)
        (folder / f"t{i}" / "x" / "y" / "f").touch()
    paths = {b"t%d/x/y/f" % i for i in range(40)}
    conn.wait(lambda: any(m.number == LOST for m in w.items) or paths <= {m.path for m in w.items})
    (folder / "t7" / "x" / "y" / "late").touch()
    conn.wait(lambda: any(m.path == b"t7/x/y/late" or m.number == LOST for m in w.items))


def test_too_slow_a_reader_is_told_so(conn, folder):
    w = watch(conn, folder)
    run = conn.exec("python3", "-c", f"""
import os
for i in range(30000):
    p = '{folder}/' + ('%d' % i).ljust(200, 'x')
    os.close(os.open(p, os.O_CREAT | os.O_WRONLY))
    os.unlink(p)
""")
    time.sleep(2)  # not reading at all
    conn.end(run)
    assert run.code == 0

    def told():
        return sum(m.number in (MADE, REMOVED) for m in w.items) == 60000 or any(m.number == LOST for m in w.items)
    conn.wait(told)


def test_a_file(conn, folder):
    path = folder / "f"
    path.touch()
    w = watch(conn, path)
    path.write_bytes(b"x")
    conn.wait(lambda: (CHANGED, b"", b"") in changes(w))
    path.unlink()
    assert conn.finish_of(w).error == -errno.ENOENT


def test_start_goes_away(conn, folder):
    (folder / "d").mkdir()
    w = watch(conn, folder / "d", RECURSIVE)
    (folder / "d").rmdir()
    assert conn.finish_of(w).error == -errno.ENOENT
    assert (REMOVED, b"", b"") in changes(w)


def test_more_folders_than_can_be_watched(conn, folder):
    for i in range(90):
        for j in range(92):
            (folder / f"{i}" / f"{j}").mkdir(parents=True)
    w = watch(conn, folder, RECURSIVE)
    assert w.end.error == -errno.ENOSPC and not w.opened


def test_long_paths(conn, folder):
    w = watch(conn, folder, RECURSIVE)
    deep = folder
    for _ in range(12):
        deep = deep / ("p" * 250)
        deep.mkdir()
        conn.idle(0.02)
    (deep / "f").touch()
    expected = os.fsencode((deep / "f").relative_to(folder))
    conn.wait(lambda: any(m.path == expected or m.number == LOST for m in w.items))
