"""The frame that sandboxes with a box share, tested with a box that isolates nothing (tests/driver/box-plain.c): it takes
the place of the drivers' programs."""
import errno
import os
import pathlib
import signal
import socket
import time

import plans
import pytest
import wire
from daemon import alive, cgroups, new_id, until
from test_disks import HOME, INODES, SIZE, image_plan, make_disk, pump, small_image
from test_life import refused
from test_network import DENIALS, DNS, MEMORY, no_way_out, reach, refused_datagrams

NATIVE, DOCKER, GVISOR, MICROVM, FIRECRACKER = range(5)
ERR_UNENFORCED = -1002


def offer(d, *names):
    """A folder with the plain box under the names of these drivers."""
    folder = d.state / "boxes"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"stockade-box-{name}").symlink_to(pathlib.Path(plans.BUILD).resolve() / "tests/driver/box-plain")
    return ("--boxes", str(folder))


@pytest.fixture
def boxes(make):
    d = make(conf="drivers = native docker gvisor\n")
    d.args = offer(d, "docker")
    d.start(args=d.args)
    return d


def wishing(plan, what):
    return plan.before("OP_ENV", plans.Step("OP_ENV", 0, f"BOX_TEST={what}"))


def below(pid):
    """Processes whose parent, or whose parent's parent, is this one."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(p.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += [int(p.parent.name), *below(int(p.parent.name))]
    return found


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_starts_serves_and_stops(boxes, low, inside):
    id, answer, guest, fds = boxes.begin(low, driver=DOCKER)
    assert not fds and alive(answer.pid)
    c = inside(guest)
    said, code = c.output("echo $((6*7)); cat /proc/1/comm; ls -A /run/stockade; echo more >&2; touch /usr/x /x 2>/dev/null || exit 3")
    assert said.split()[:2] == ["42", "stockade-box-do"] and code == 3
    items = [m for m in boxes.list() if m.item == wire.SANDBOX]
    assert [(m.id, m.driver) for m in items] == [(id, DOCKER)]
    assert "driver docker\n" in (boxes.folder / "run/sandboxes" / id / "info").read_text()
    usage = boxes.stop(id).usage
    assert usage["memory_peak"] > 0 and usage["processes_peak"] >= 3
    assert not alive(answer.pid) and not cgroups(id) and not (boxes.folder / "run/sandboxes" / id).exists()


def test_the_keeper_is_nobody(boxes, low):
    _, answer, _, _ = boxes.begin(low, driver=DOCKER)
    s = status(answer.pid)
    guest = status(below(answer.pid)[0])
    assert len(set(s["Uid"].split())) == 1 and int(s["Uid"].split()[0]) + 1000 == int(guest["Uid"].split()[0])
    assert s["Gid"].split() == s["Uid"].split() and not s["Groups"].split()
    for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(s[key], 16) == 0
    assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2"
    private = sum(int(line.split()[1]) for line in pathlib.Path(f"/proc/{answer.pid}/smaps_rollup").read_text().splitlines()
                  if line.startswith("Private_"))
    assert private < 300, private
    names = {os.readlink(f"/proc/{answer.pid}/fd/{n}") for n in os.listdir(f"/proc/{answer.pid}/fd")}
    assert not [n for n in names if n.startswith("/") and n != "/dev/null"], names


def test_the_tree_is_as_natively(boxes, low, inside):
    script = "cd /; find . -maxdepth 2 \\( -path ./proc -o -path ./run/stockade \\) -prune -o -printf '%p %y %m %l\\n' | sort; " \
             "touch /x /etc/x /run/x /dev/x 2>&1; echo hello > /tmp/file && cat /tmp/file; " \
             "sed -n 's/^[^/]*\\/[^ ]* \\([^ ]* [^ ]*\\).* - \\([^ ]*\\) .*/mount \\1 \\2/p' /proc/self/mountinfo | sort"
    said = [inside(boxes.begin(low, driver=driver)[2]).output(script)[0].splitlines() for driver in (NATIVE, DOCKER)]
    own = ("mount / ", "mount /proc", "mount /run/stockade/box ")  # a prepared root is on a disk; the rest is the box's
    said = [[line for line in lines if not line.startswith(own)] for lines in said]
    assert said[0] == said[1] and "hello" in said[1] and len([line for line in said[1] if line.startswith("mount /")]) > 10


def test_a_disk(boxes, medium, inside):
    plan, disk = plans.with_disk(medium, HOME, SIZE, INODES), make_disk(boxes)
    for driver, script, said in ((DOCKER, "echo kept >file; df -i . | tail -1", ""), (NATIVE, "cat file; stat -c %u file", "kept 1000"),
                                 (DOCKER, "cat file; stat -c %u file", "kept")):
        id, _, guest, _ = boxes.begin(plan, disk=disk, driver=driver)
        got, code = inside(guest).output(script, cwd=HOME)
        boxes.stop(id)
        assert code == 0 and " ".join(got.split()).startswith(said), got
    boxes.drop(disk)


def test_an_image(boxes, inside):
    image = new_id()
    pump(boxes, "image", small_image(), id=image, size=SIZE, inodes=INODES, text="test.tar")
    id, _, guest, _ = boxes.begin(image_plan(), disk=make_disk(boxes), image=image, driver=DOCKER)
    said, _ = inside(guest).output("read x </etc/hello; echo $x; echo new >/home/agent/new; read y </home/agent/new; echo $y")
    assert said.startswith("from it\nnew\n"), said
    boxes.stop(id)
    boxes.ask("image-drop", id=image)


def test_copy_on_write(make, low, inside, tmp_path):
    """A folder of the host's, and its whole tree."""
    (tmp_path / "there").write_text("as it was\n")
    d = make(conf=f"drivers = docker\nceiling_write = {tmp_path}\nceiling_whole_tree = yes\n")
    d.start(args=offer(d, "docker"))
    folder = plans.Step("OP_OVERLAY", plans.STEP_EXACT | plans.STEP_OWNED, str(tmp_path), "/mnt", 1 << 20, 100)
    _, _, guest, _ = d.begin(low.behind_root(folder), driver=DOCKER)
    assert inside(guest).output("cat /mnt/there; echo changed >/mnt/there; cat /mnt/there") == ("as it was\nchanged\n", 0)
    assert (tmp_path / "there").read_text() == "as it was\n"
    _, _, guest, _ = d.begin(plans.compile_plan(profile="high"), driver=DOCKER)
    assert inside(guest).output("test -d /usr/bin && test -d /run/stockade/box && echo mine >/tmp/mine && cat /tmp/mine") == ("mine\n", 0)
    assert not pathlib.Path("/tmp/mine").exists()


def test_runs_have_leaves(boxes, low, inside):
    """A box whose processes are this kernel's: the files of a leaf go in with the exec."""
    id, _, guest, _ = boxes.begin(low, driver=DOCKER)
    c = inside(guest)
    before = boxes.ask("usage", id=id)[0].usage["processes_now"]
    files = boxes.ask("leaf", id=id, run=7)[1]
    run = c.sh("setsid sleep 60 & exec sleep 60", number=7, fds=files)
    wire.close(files)
    until(lambda: boxes.ask("usage", id=id, run=7)[0].usage["processes_now"] == 2)
    assert boxes.ask("usage", id=id)[0].usage["processes_now"] == before + 2
    refused(lambda: boxes.ask("leaf-end", id=id, run=7), -errno.EBUSY, "live on")
    assert boxes.ask("leaf-end", wire.KILL, id=id, run=7)[0].usage["cpu_us"] > 0
    c.end(run)
    assert os.WTERMSIG(run.exited.number) == signal.SIGKILL
    until(lambda: boxes.ask("usage", id=id)[0].usage["processes_now"] == before)
    assert not [p for p in cgroups("run-7") if id in p]


def test_a_fork_bomb_is_cancelled(boxes, low, inside):
    id, _, guest, _ = boxes.begin(low.limit("limits.processes", 60), driver=DOCKER)
    c = inside(guest)
    before = boxes.ask("usage", id=id)[0].usage["processes_now"]
    files = boxes.ask("leaf", id=id, run=1)[1]
    run = c.sh("f() { f | f & }; f; sleep 100", number=1, fds=files)
    wire.close(files)
    until(lambda: boxes.ask("usage", id=id)[0].usage["fork_refusals"] > 0)
    boxes.ask("leaf-end", wire.KILL, id=id, run=1)
    until(lambda: boxes.ask("usage", id=id)[0].usage["processes_now"] == before)
    c.end(run)
    assert c.output("echo still here", number=2)[0] == "still here\n"


def test_runs_have_no_leaves(make, low, inside):
    """A box with a kernel of its own."""
    d = make(conf="drivers = gvisor\n")
    d.start(args=offer(d, "gvisor"))
    id, _, guest, _ = d.begin(low, driver=GVISOR)
    c = inside(guest)
    assert d.ask("leaf", id=id, run=7)[1] == []
    run = c.sh("exec sleep 60", number=7)
    assert d.ask("usage", id=id, run=7)[0].usage["processes_now"] == wire.NEVER
    refused(lambda: d.ask("leaf-end", wire.KILL, id=id, run=7), -errno.EOPNOTSUPP)
    c.signal(run, signal.SIGKILL)
    c.end(run)
    assert os.WTERMSIG(run.exited.number) == signal.SIGKILL
    refused(lambda: d.ask("leaf-end", id=id, run=7), -errno.EOPNOTSUPP)  # who asks asks the guest


def test_much_goes_both_ways(boxes, low, inside):
    _, _, guest, _ = boxes.begin(low, driver=DOCKER)
    said, code = inside(guest).output("head -c 20000000 /dev/zero | tr '\\0' x")
    assert code == 0 and len(said) == 20_000_000 and set(said) == {"x"}


def test_a_second_connection_takes_over(boxes, low, inside):
    id, _, guest, _ = boxes.begin(low, driver=DOCKER)
    first = inside(guest)
    run = first.sh("echo begun; read line; echo $line", number=5, stdin=True)
    first.wait(lambda: b"begun" in run.out)
    for n in range(100, 120):
        second = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
        assert second.output("echo again", number=n)[0] == "again\n"
    first.socket.setblocking(True)
    first.socket.settimeout(10)
    while first.socket.recv(65536):
        pass
    assert 5 in second.list_runs()


def test_one_that_does_not_read_holds_up_nobody_else(boxes, low, inside):
    id, answer, guest, _ = boxes.begin(low, driver=DOCKER)
    c = inside(guest)
    c.sh("cat /dev/zero", number=5)  # its window is full soon: nobody gives credit
    time.sleep(0.5)
    second = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
    assert second.output("echo again", number=6)[0] == "again\n"
    before = status(answer.pid)["voluntary_ctxt_switches"]
    time.sleep(0.5)
    assert int(status(answer.pid)["voluntary_ctxt_switches"]) - int(before) < 100  # it waits, and does not turn


def test_its_end_is_the_end(boxes, low):
    id, answer, _, _ = boxes.begin(low, driver=DOCKER)
    children = below(answer.pid)
    assert children
    os.kill(answer.pid, signal.SIGKILL)
    assert boxes.wait_told("gone").id == id
    assert not any(alive(p) for p in [answer.pid, *children])
    assert boxes.running() == set() and not cgroups(id)


def test_the_box_ends(boxes, low):
    id, answer, _, _ = boxes.begin(low, driver=DOCKER)
    os.kill(below(answer.pid)[0], signal.SIGKILL)
    assert boxes.wait_told("gone").id == id
    assert not alive(answer.pid)


def test_freeze_and_thaw(boxes, low, inside):
    id, answer, guest, _ = boxes.begin(low, driver=DOCKER)
    c = inside(guest)
    boxes.ask("freeze", id=id)
    assert [m for m in boxes.list() if m.id == id][0].flags & wire.FROZEN
    boxes.ask("thaw", id=id)
    assert c.output("echo on")[0] == "on\n"


def test_adoption(boxes, low, inside):
    id, answer, guest, _ = boxes.begin(low, driver=DOCKER)
    first = inside(guest)
    run = first.sh("echo begun; sleep 600", number=9)
    first.wait(lambda: b"begun" in run.out)
    boxes.kill()
    boxes.start(args=boxes.args)
    assert [(m.id, m.pid, m.driver) for m in boxes.list() if m.item == wire.SANDBOX] == [(id, answer.pid, DOCKER)]
    second = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
    assert set(second.list_runs()) == {9}
    assert second.output("echo still")[0] == "still\n"
    boxes.stop(id)
    assert not alive(answer.pid) and not cgroups(id)


def test_the_network_is_the_gate(boxes, networked, inside):
    id, answer, guest, fds = boxes.begin(networked, driver=DOCKER)
    assert len(fds) == MEMORY + 1
    c = inside(guest)
    assert reach(c, fds, 5) == b"world\n"
    dns = socket.socket(fileno=os.dup(fds[DNS]))
    run = c.exec("/bin/bash", "-c", "exec 3<>/dev/udp/198.18.0.1/53 && echo question >&3 && head -n 1 <&3", number=6)
    until(lambda: _answers(dns))
    c.end(run)
    assert run.out == b"question\n"
    assert c.output("cat /run/stockade/net/denials", number=7)[0] == "nothing was refused yet\n"
    assert refused_datagrams(c, 8)
    dns.close()
    wire.close(fds)

    boxes.kill()
    boxes.start(args=boxes.args)
    again = boxes.ask("network", id=id)[1]
    assert len(again) == MEMORY + 1
    os.pwrite(again[DENIALS], b"no rule for evil.test\n", 0)
    c = inside(socket.socket(fileno=boxes.ask("connect", id=id)[1][0]))
    assert "no rule for evil.test" in c.output("cat /run/stockade/net/denials", number=9)[0]
    assert reach(c, again, 10) == b"world\n"
    wire.close(again)


def _answers(dns):
    try:
        data, control, _, whom = dns.recvmsg(100, 256)
    except BlockingIOError:
        return False
    # as the gate does: from the address that was asked, over whichever device
    info = [(level, kind, raw[:16] + bytes(4)) for level, kind, raw in control if level == socket.IPPROTO_IPV6]
    dns.sendmsg([data], info, 0, whom)
    return True


def test_a_plan_without_a_network_has_no_link(boxes, low, inside):
    _, answer, guest, _ = boxes.begin(low, driver=DOCKER)
    for pid in (answer.pid, below(answer.pid)[0]):
        devices = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        assert {line.split(":")[0].strip() for line in devices} <= {"lo"}
    assert no_way_out(inside(guest))


def test_what_is_left_elsewhere_is_removed(boxes, low):
    def left(id):
        return pathlib.Path(f"/dev/shm/box-plain-{id}").exists()

    id, _, _, _ = boxes.begin(wishing(low, "leave"), driver=DOCKER)
    assert left(id)
    boxes.stop(id)
    assert not left(id)
    id, answer, _, _ = boxes.begin(wishing(low, "leave"), driver=DOCKER)
    os.kill(answer.pid, signal.SIGKILL)
    assert boxes.wait_told("gone").id == id and not left(id)
    id, answer, _, _ = boxes.begin(wishing(low, "leave"), driver=DOCKER)
    boxes.kill()
    os.kill(answer.pid, signal.SIGKILL)
    assert left(id)
    boxes.start(args=boxes.args)
    assert boxes.wait_told("gone").id == id and not left(id)
    assert boxes.running() == set() and not cgroups(id)


def test_refusals(boxes, low, make):
    e = refused(lambda: boxes.begin(low, driver=MICROVM), ERR_UNENFORCED, "microvm")
    assert "drivers" in e.hint
    e = refused(lambda: boxes.begin(low, driver=GVISOR), ERR_UNENFORCED, "stockade-box-gvisor")
    assert e.hint
    assert boxes.running() == set() and not list((boxes.folder / "run/sandboxes").iterdir())
    other = make(conf="drivers = docker\n")
    other.start(args=offer(other, "docker"))
    refused(lambda: other.begin(low), ERR_UNENFORCED, "native")
    other.begin(low, driver=DOCKER)


def test_native_alone_by_default(warden, low):
    refused(lambda: warden.begin(low, driver=DOCKER), ERR_UNENFORCED, "docker")
    warden.begin(low)


def test_not_without_root(make, low):
    d = make(who=(65534, 65534), conf="drivers = native docker\n")
    d.start(args=offer(d, "docker"))
    refused(lambda: d.begin(low, driver=DOCKER), ERR_UNENFORCED, "needs root")


def test_a_box_that_fails_says_why(boxes, low):
    e = refused(lambda: boxes.begin(wishing(low, "fail"), driver=DOCKER), ERR_UNENFORCED,
                "the driver 'docker' could not start the sandbox: this box never starts?(a test)")
    assert e.hint == "take another one"
    refused(lambda: boxes.begin(wishing(low, "die"), driver=DOCKER), ERR_UNENFORCED, "ended with 3",
            "there is no kernel in this box")
    until(lambda: boxes.running() == set() and not list((boxes.folder / "run/sandboxes").iterdir()))


def test_a_box_that_never_says_hello(boxes, low):
    began = time.monotonic()
    refused(lambda: boxes.begin(wishing(low, "silent"), driver=DOCKER), ERR_UNENFORCED, "20 s")
    assert 19 < time.monotonic() - began < 40
    until(lambda: boxes.running() == set() and not list((boxes.folder / "run/sandboxes").iterdir()))
