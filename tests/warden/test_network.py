"""Networks: the sockets that lead to a gate, and gates."""
import errno
import os
import signal
import socket
import struct
import time

import plans
import wire
from daemon import alive, memory_file, until
from test_life import refused

TCP, DNS, DNS_TCP, PROXY, TAP, DENIALS, MEMORY, KEY = range(8)
WARD_MEMORY = 1536 * 1024 + 4096


def reach(c, sockets, number):
    """A connection from inside arrives at the socket."""
    run = c.exec("/bin/bash", "-c", "exec 3<>/dev/tcp/192.0.2.7/443 && echo hello >&3 && read line <&3; echo $line",
                 number=number)
    listener = socket.socket(fileno=os.dup(sockets[TCP]))
    listener.settimeout(60)
    until(lambda: _accepts(listener))
    got, _ = reach.got
    assert got.recv(100) == b"hello\n"
    got.sendall(b"world\n")
    c.end(run)
    got.close()
    listener.close()
    return run.out


def no_way_out(c, number=1):
    """A connection from inside gets nowhere: what bash says of it. (/bin/sh cannot ask for one.)"""
    run = c.end(c.exec("/bin/bash", "-c", "exec 3<>/dev/tcp/192.0.2.7/443", number=number))
    return run.code != 0 and (b"Network is unreachable" in run.err or b"Connection refused" in run.err)


def refused_datagrams(c, number):
    """Datagrams to anywhere but the gate are refused."""
    run = c.exec("/bin/bash", "-c", "exec 3<>/dev/udp/9.9.9.9/443; while echo x >&3; do sleep 0.1; done", number=number)
    return b"Connection refused" in c.end(run).err


def _accepts(listener):
    try:
        reach.got = listener.accept()
        reach.got[0].setblocking(True)
        return True
    except (BlockingIOError, TimeoutError):
        return False


def test_sockets_lead_out_and_nowhere_else(warden, networked, inside):
    id, answer, guest, fds = warden.begin(networked)
    assert answer.flags & wire.NETWORKED and len(fds) == MEMORY + 1
    assert os.fstat(fds[MEMORY]).st_size == WARD_MEMORY
    os.write(fds[DENIALS], b"nothing for you\n")
    c = inside(guest)
    assert "nothing for you" in c.output("cat /run/stockade/denials", number=90)[0]
    assert reach(c, fds, 1) == b"world\n"
    assert [m.flags & wire.NETWORKED for m in warden.list() if m.item == wire.SANDBOX] == [wire.NETWORKED]
    again = warden.ask("network", id=id)[1]
    assert len(again) == MEMORY + 1 and os.path.sameopenfile(again[TCP], fds[TCP])
    wire.close(again)
    wire.close(fds)


def test_a_plain_one_has_none(warden, low):
    id, answer, _, fds = warden.begin(low)
    assert not answer.flags & wire.NETWORKED and not fds
    refused(lambda: warden.ask("network", id=id), -errno.ENONET)
    warden.ask("cut", id=id)


def test_cut(make, networked, inside):
    d = make()
    d.start()
    id, _, guest, fds = d.begin(networked)
    wire.close(fds)
    d.ask("cut", id=id)
    refused(lambda: d.ask("network", id=id), -errno.ENONET)
    assert no_way_out(inside(guest))
    d.kill()
    d.start()
    refused(lambda: d.ask("network", id=id), -errno.ENONET)  # it stays cut


def test_again_after_a_kill(make, networked, inside):
    d = make()
    d.start()
    id, _, guest, fds = d.begin(networked)
    c = inside(guest)
    os.pwrite(fds[MEMORY], b"remembered", 100)
    wire.close(fds)
    key = memory_file(b"a private key")
    d.ask("keep-key", fds=[key], id=id)
    os.close(key)
    d.kill()
    d.start()
    answer, fds = d.ask("network", id=id)
    assert answer.flags & wire.AUTHORITY and len(fds) == KEY + 1
    assert os.pread(fds[MEMORY], 10, 100) == b"remembered" and os.read(fds[KEY], 100) == b"a private key"
    assert reach(c, fds, 1) == b"world\n"
    os.write(fds[DENIALS], b"written by a successor\n")
    assert "by a successor" in c.output("cat /run/stockade/denials", number=80)[0]
    assert c.output("echo x >/run/stockade/net/denials", number=81)[1] != 0
    for fd in fds[:PROXY + 1]:
        assert socket.socket(fileno=os.dup(fd)).getsockname()[1] in (15001, 15053, 3128)
    wire.close(fds)


def test_authority(warden, inside, tmp_path):
    profile = tmp_path / "inspected.yaml"
    profile.write_text("profile: 1\nname: inspected\nextends: medium\nnetwork:\n  allow:\n"
                       "    - {host: example.com, inspect: true}\n")
    plan = plans.compile_plan(profile=str(profile))
    refused(lambda: warden.begin(plan), -1001, "authority")
    files = [memory_file(b) for b in (b"PEM", b"BUNDLE", b"JKS")]
    _, _, guest, fds = warden.begin(plan, fds=files, flags=wire.AUTHORITY)
    assert inside(guest).output("cat /run/stockade/net/ca.pem /run/stockade/net/ca-bundle.pem")[0] == "PEMBUNDLE"
    wire.close(fds)
    r, w = os.pipe()
    refused(lambda: warden.begin(plan, fds=[files[0], r, files[2]], flags=wire.AUTHORITY), -1001, "memory file")
    wire.close(files + [r, w])


def test_gates(warden):
    answer, fds = warden.ask("gate", slot=3)
    control = socket.socket(fileno=fds[0])
    control.setblocking(True)
    control.settimeout(60)
    assert struct.unpack_from("<I", control.recv(1000))[0] == 6  # GATE_READY
    status = open(f"/proc/{answer.pid}/status").read()
    uid = int(status.split("Uid:")[1].split()[0])
    assert uid >= 0x60000000 and status.split("CapEff:\t")[1][:16] == "0" * 16
    assert [(m.slot, m.pid) for m in warden.list() if m.item == wire.GATE] == [(3, answer.pid)]
    os.kill(answer.pid, signal.SIGKILL)
    assert warden.wait_told("gate-gone").slot == 3
    first, fds_one = warden.ask("gate", slot=3)
    second, fds_two = warden.ask("gate", slot=3)  # takes its place
    until(lambda: not alive(first.pid))
    other, fds_three = warden.ask("gate", slot=4)
    assert _uid(second.pid) != _uid(other.pid)
    wire.close(fds_three)  # the operator that had it is gone: it ends by itself
    assert warden.wait_told("gate-gone").slot == 4
    wire.close(fds_one + fds_two)
    warden.wait_told("gate-gone")


def _uid(pid):
    for _ in range(3000):
        uid = int(open(f"/proc/{pid}/status").read().split("Uid:")[1].split()[0])
        if uid:
            return uid
        time.sleep(0.01)
    return 0


def test_gates_end_with_the_daemon(make):
    d = make()
    d.start()
    answer, fds = d.ask("gate", slot=0)
    d.down(kill=False)
    until(lambda: not alive(answer.pid))
    wire.close(fds)
