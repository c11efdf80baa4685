"""Runs inside a sandbox, beside a guest that it starts: everything that a guest does has to work under the sandbox's own
filter and rules. Prints "all good" at the end."""
import errno
import io
import os
import socket
import sys
import tarfile
import threading

import client
from frames import MADE, NO_REPLACE, OUT, PARENTS, RECURSIVE, TTY

HERE = "/tmp/guest-test"


def runs(guest, conn):
    run = conn.sh("cat; echo e >&2; exit 4", stdin=True)
    conn.input(run, b"in" * 100_000)
    conn.input_end(run)
    conn.end(run)
    assert (run.out, run.err, run.code) == (b"in" * 100_000, b"e\n", 4)
    sleeper = conn.exec("sleep", "1000")
    conn.wait(lambda: sleeper.pid)
    conn.signal(sleeper, 15)
    assert conn.end(sleeper).code == -15
    assert conn.end(conn.exec("no-such")).exited.error == -errno.ENOENT


def leaves(guest, conn):
    path = HERE + "/leaf"
    open(path, "w").close()
    fd = os.open(path, os.O_WRONLY)
    assert conn.end(conn.exec("cat", path, fds=[fd])).out == b"0"
    os.close(fd)


def terminals(guest, conn):
    run = conn.sh("tty; stty size; read x; stty size; echo got $x; read y; exit 6", tty=(30, 90))
    conn.wait(lambda: b"30 90" in run.out)
    assert run.out.startswith(b"/dev/pts/"), run.out
    conn.resize(run, 40, 100)
    conn.input(run, b"hello\n")
    conn.wait(lambda: b"40 100\r\ngot hello" in run.out)
    conn.close()
    with guest.connect() as other:
        again = other.attach(other.list_runs()[run.number], {TTY: 5})
        other.wait(lambda: b"got hello" in again.out)
        assert again.out == run.out[5:]
        again.sent, again.taken = run.sent, run.taken
        other.input(again, b"x\n")
        assert other.end(again).code == 6


def files(guest, conn):
    data = os.urandom(300_000)
    path = HERE + "/a/b/file"
    assert conn.put(path, data, mode=0o640, flags=PARENTS).error == 0
    assert conn.put(path, b"", flags=NO_REPLACE).error == -errno.EEXIST
    assert conn.get(path, 1000, 5000) == data[1000:6000]
    assert conn.call("stat", path=path).items[0].size == len(data)
    assert [m.path for m in conn.call("list", path=HERE + "/a").items] == [b"b"]
    assert conn.call("mkdir", path=HERE + "/new", mode=0o755).end.error == 0
    assert conn.call("move", path=path, target=HERE + "/new/moved").end.error == 0
    assert conn.call("move", NO_REPLACE, path=HERE + "/new/moved", target=HERE + "/moved").end.error == 0
    assert conn.call("remove", RECURSIVE, path=HERE + "/a").end.error == 0
    assert conn.put(HERE + "/setid", b"x", mode=0o4755).error == -errno.EPERM  # the filter says so
    assert sorted(os.listdir(HERE)) == ["moved", "new"]
    usage = conn.call("usage", path=HERE).end
    assert usage.bytes >= usage.bytes_free > 0


def archives(guest, conn):
    os.makedirs(HERE + "/in/sub")
    for i in range(20):
        with open(f"{HERE}/in/sub/f{i}", "wb") as f:
            f.write(os.urandom(5000))
    os.symlink("sub/f1", HERE + "/in/link")
    request = conn.pack(HERE + "/in")
    assert request.end.error == 0, request.end
    with tarfile.open(fileobj=io.BytesIO(request.data)) as t:
        assert len(t.getnames()) == 22
    os.mkdir(HERE + "/out")
    assert conn.unpack(HERE + "/out", bytes(request.data)).error == 0
    with open(HERE + "/out/sub/f7", "rb") as a, open(HERE + "/in/sub/f7", "rb") as b:
        assert a.read() == b.read()


def watches(guest, conn):
    os.makedirs(HERE + "/w/sub")
    w = conn.ask("watch", RECURSIVE, path=HERE + "/w")
    conn.wait(lambda: w.opened or w.end)
    assert w.opened, w.end
    open(HERE + "/w/sub/f", "w").close()
    conn.wait(lambda: any(m.number == MADE and m.path == b"sub/f" for m in w.items))


def ports(guest, conn):
    for address, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        try:
            server = socket.create_server((address, 0), family=family)
        except OSError as e:
            print(f"no {address} here: {e}")
            continue

        def echo():
            peer, _ = server.accept()
            peer.sendall(peer.recv(100))
            peer.close()

        thread = threading.Thread(target=echo)
        thread.start()
        request = conn.ask("connect", port=server.getsockname()[1])
        conn.data(request, b"ping")
        conn.finish(request)
        end = conn.finish_of(request)
        assert end.error == 0 and request.data == b"ping", end
        thread.join()
        server.close()


def processes(guest, conn):
    found = conn.call("processes").items
    assert any(m.number == guest.pid for m in found) and any(m.number == os.getpid() for m in found)


guest = client.Guest(program=sys.argv[1], wrapper=[])
for test in (runs, leaves, terminals, files, archives, watches, ports, processes):
    os.system(f"rm -rf {HERE}")
    os.mkdir(HERE)
    with guest.connect() as c:
        for m in c.list_runs().values():
            c.send(client.frames.frame("forget", m.run))
        c.next_run = 1
        test(guest, c)
    print(test.__name__, "good", flush=True)
assert guest.is_alive()
guest.close()
print("all good")
