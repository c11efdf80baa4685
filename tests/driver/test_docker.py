"""The driver docker, with a real engine: what is inside, what the kernel says about it from outside, and its end."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import engine as engines
import needed
import plans
import pytest
import wire
from daemon import Refused, alive, cgroups, new_id, until
from test_box import (_answers, test_a_fork_bomb_is_cancelled, test_a_second_connection_takes_over, test_an_image,  # pylint: disable=unused-import
                      test_much_goes_both_ways, test_one_that_does_not_read_holds_up_nobody_else, test_runs_have_leaves)
from test_life import refused
from test_network import DNS, MEMORY, no_way_out, reach, refused_datagrams

NATIVE, DOCKER = 0, 1
ERR_UNENFORCED = -1002
PROGRAM = plans.BUILD / "src/driver/stockade-box-docker"
HOME, SIZE, INODES = "/home/agent", 64 << 20, 4096


@pytest.fixture(scope="session")
def engine():
    lacking = engines.missing()
    if lacking:
        needed.missing(f"there is no {', '.join(lacking)}")
    e = engines.Engine(tempfile.mkdtemp(prefix="stockade-engine-", dir="/var/tmp"))
    e.start()
    yield e
    e.clear()


def conf(e, more=""):
    return f"drivers = native docker\ndocker_socket = {e.socket}\n{more}"


@pytest.fixture
def another():
    """another(*args): an engine with these options."""
    made = []

    def one(*args):
        made.append(engines.Engine(tempfile.mkdtemp(prefix="stockade-engine-", dir="/var/tmp"), args))
        made[-1].start()
        return made[-1]

    yield one
    for e in made:
        e.clear()


@pytest.fixture
def docker(make, engine):
    d = make(conf=conf(engine))
    d.start()
    return d


@pytest.fixture
def boxes(docker):
    """What every box has to do: tests of the frame, with this one."""
    return docker


def nothing_left(d, e, id):
    assert not cgroups(id) and not (d.folder / "run/sandboxes" / id).exists()
    until(lambda: f"/stockade-{id}" not in e.names())
    until(lambda: not e.cgroups())


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def mounts(text):
    """What the kernel enforces of each mount."""
    found = {}
    for line in text.splitlines():
        left, right = line.split(" - ")
        at, options = left.split()[4:6]
        found[at] = (sorted(set(options.split(",")) & {"ro", "nosuid", "nodev", "noexec"}),
                     [o for o in right.split()[2].split(",") if o.startswith(("size=", "nr_inodes=")) and not at.startswith("/proc/")])
    return found


def test_serves_and_stops(docker, engine, low, inside):
    id, answer, guest, fds = docker.begin(low, driver=DOCKER)
    assert not fds and alive(answer.pid)
    said, code = inside(guest).output("echo $((6*7)); id -u; cat /proc/1/comm; touch /usr/x 2>/dev/null || exit 3")
    assert said.split() == ["42", "1000", "guest"] and code == 3
    assert f"/stockade-{id}" in engine.names()
    usage = docker.stop(id).usage
    assert usage["memory_peak"] > 0 and usage["processes_peak"] >= 2 and usage["cpu_us"] > 0
    nothing_left(docker, engine, id)


def test_the_same_one_again(docker, low, inside):
    id = new_id()
    for n in range(5):
        assert inside(docker.begin(low, id=id, driver=DOCKER)[2]).output(f"echo {n}")[0] == f"{n}\n"
        docker.stop(id)


def test_many_at_once(make, another, low, inside):
    """With an engine that does not have the image yet."""
    own = another()
    d = make(conf=conf(own))
    d.start()
    ids = [new_id() for _ in range(6)]
    for serial in [d.send_start(low, id, driver=DOCKER) for id in ids]:
        answer, fds = d.answer(serial)
        d.pids.append(answer.pid)
        assert inside(socket.socket(fileno=fds[0])).output("echo here")[0] == "here\n"
    assert d.running() == set(ids) and len(own.names()) == len(ids)
    for id in ids:
        d.stop(id)
    until(lambda: not own.names() and not own.cgroups())


def test_the_engine_knows_what_it_holds(docker, engine, low):
    id, *_ = docker.begin(low, driver=DOCKER)
    found = engine.inspect(id)
    host = found["HostConfig"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and host["NetworkMode"] == "none" and not host["Privileged"]
    assert "no-new-privileges:true" in host["SecurityOpt"] and not found["Mounts"]
    assert found["Config"]["Labels"] == {"stockade": id}
    docker.stop(id)


def test_the_tree_is_as_natively(docker, medium, inside):
    script = "cat /proc/self/mountinfo"
    native, boxed = (mounts(inside(docker.begin(medium, driver=d)[2]).output(script)[0]) for d in (NATIVE, DOCKER))
    assert boxed.pop("/run/stockade/box") == (["nodev", "noexec", "nosuid", "ro"], ["size=4k", "nr_inodes=4"])
    native.pop("/"), boxed.pop("/")  # natively a prepared root that is on a disk
    assert boxed == native and len(boxed) > 20


def test_no_more_is_allowed_than_natively(docker, low, inside):
    script = """
        grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; id; cat /proc/self/uid_map; umask; hostname
        cat /proc/sys/user/max_user_namespaces; sed 's/.*://' /proc/self/cgroup | sort -u
        for f in /proc/1/environ /proc/kcore /proc/sysrq-trigger /proc/keys; do head -c 1 $f 2>&1 | od -c; done
        unshare -U true 2>&1; unshare -n true 2>&1; mount -t tmpfs x /tmp 2>&1; chroot / true 2>&1
        cp /bin/true /tmp/t; chmod u+s /tmp/t 2>&1; /tmp/t 2>&1; mknod /tmp/n c 1 3 2>&1; echo x 2>&1 >/proc/sys/kernel/hostname
        ls /sys /run/docker.sock /.dockerenv 2>&1; ulimit -a; ls /proc/self/fd | wc -l; env | sort"""
    native, boxed = (inside(docker.begin(low, driver=d)[2]).output(script)[0].splitlines() for d in (NATIVE, DOCKER))
    own = [i for i, line in enumerate(native) if line.split()[:1] == ["0"] and len(line.split()) == 3]  # its own ids
    for lines in (native, boxed):
        for i in own:
            lines[i] = ""
    assert boxed == native


def test_landlock(docker, low, inside):
    """A place that mounts and permissions open, and no rule."""
    plan = low.behind_root(plans.Step("OP_TMPFS", 0, "/mnt", 1 << 20, 100, 0o1777))
    for driver in (NATIVE, DOCKER):
        said, code = inside(docker.begin(plan, driver=driver)[2]).output("touch /mnt/x; touch /tmp/x")
        assert "Permission denied" in said and code == 0, said


def test_what_the_host_sees(docker, engine, low, inside):
    id, answer, guest, _ = docker.begin(low, driver=DOCKER)
    inside(guest)
    s = status(engine.pid(id))
    keeper = int(status(answer.pid)["Uid"].split()[0])
    assert {int(n) for n in s["Uid"].split()} == {keeper + 1000} and keeper >= 0x40000000
    assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2" and int(s["Seccomp_filters"]) >= 2
    for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(s[key], 16) == 0
    init = f"/proc/{engine.pid(id)}"
    assert not [n for n in os.listdir(f"{init}/fd") if os.readlink(f"{init}/fd/{n}").startswith("/var/tmp")]
    private = sum(int(line.split()[1]) for line in pathlib.Path(f"/proc/{answer.pid}/smaps_rollup").read_text().splitlines()
                  if line.startswith("Private_Dirty"))
    assert private < 300, private


def limit_files(pid):
    """Limits of the cgroups that this process is in, as the kernel has them."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for folder in (pathlib.Path("/sys/fs/cgroup") / (controllers or "unified"), pathlib.Path("/sys/fs/cgroup")):
            for name in ("memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max"):
                file = folder / path.lstrip("/") / name
                if file.exists():
                    found[name] = file.read_text().split()[0]
    return found


def test_limits_are_the_sandboxs(docker, engine, low, inside):
    id, answer, guest, _ = docker.begin(low, driver=DOCKER)
    native, other, *_ = docker.begin(low)
    assert limit_files(engine.pid(id)) == limit_files(other.pid) and len(limit_files(other.pid)) >= 3
    assert cgroups(id) and pathlib.Path(f"/proc/{engine.pid(id)}/cgroup").read_text().count(f"stockade-{id}") >= 3
    said, _ = inside(guest).output("i=0; while [ $i -lt 2000 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done 2>&1 | grep -c -i fork; true")
    docker.stop(native)
    usage = docker.stop(id).usage
    assert usage["fork_refusals"] > 0, said
    nothing_left(docker, engine, id)


def test_memory_ends_where_the_limit_is(docker, low, inside):
    id, _, guest, _ = docker.begin(low, driver=DOCKER)
    _, code = inside(guest).output("python3 -c \"b=bytearray(8<<30)\" || head -c 8G /dev/zero | tail")
    assert code != 0
    docker.stop(id)


def test_a_disk_has_the_right_ids(docker, medium, inside):
    plan = plans.with_disk(medium, HOME, SIZE, INODES)
    disk = new_id()
    docker.ask("disk-make", id=disk, size=SIZE, inodes=INODES, owner=1)
    for driver, script, expected in ((DOCKER, "echo kept >file; stat -c %u:%g file .; df --output=itotal . | tail -1", None),
                                     (NATIVE, "cat file; stat -c %u:%g file; echo more >>file", ["kept", "1000:1000"]),
                                     (DOCKER, "cat file; stat -c %u file; head -c 80M /dev/zero >big; echo", None)):
        id, _, guest, _ = docker.begin(plan, disk=disk, driver=driver)
        said, _ = inside(guest).output(script, cwd=HOME)
        docker.stop(id)
        if expected:
            assert said.split() == expected
    assert said.split()[:3] == ["kept", "more", "1000"] and "No space left" in said


def test_copy_on_write(make, engine, inside):
    d = make(conf=conf(engine, "ceiling_whole_tree = yes\n"))
    d.start()
    _, _, guest, _ = d.begin(plans.compile_plan(profile="high"), driver=DOCKER)
    assert inside(guest).output("test -d /usr/bin && echo mine >/tmp/mine && cat /tmp/mine") == ("mine\n", 0)
    assert not pathlib.Path("/tmp/mine").exists()


def test_the_network_is_the_gate(docker, engine, networked, inside):
    id, _, guest, fds = docker.begin(networked, driver=DOCKER)
    assert len(fds) == MEMORY + 1
    c = inside(guest)
    assert reach(c, fds, 5) == b"world\n"
    dns = socket.socket(fileno=os.dup(fds[DNS]))
    run = c.exec("/bin/bash", "-c", "exec 3<>/dev/udp/198.18.0.1/53 && echo question >&3 && head -n 1 <&3", number=6)
    until(lambda: _answers(dns))
    c.end(run)
    assert run.out == b"question\n"
    devices = pathlib.Path(f"/proc/{engine.pid(id)}/net/dev").read_text().splitlines()[2:]
    assert {line.split(":")[0].strip() for line in devices} == {"lo", "eth0"}
    assert c.output("cat /run/stockade/net/denials", number=7)[0] == "nothing was refused yet\n"
    assert refused_datagrams(c, 8)
    dns.close()
    wire.close(fds)
    docker.stop(id)
    nothing_left(docker, engine, id)


def test_a_plan_without_a_network_has_no_link(docker, engine, low, inside):
    id, answer, guest, _ = docker.begin(low, driver=DOCKER)
    for pid in (answer.pid, engine.pid(id)):
        devices = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        assert {line.split(":")[0].strip() for line in devices} <= {"lo"}
    assert no_way_out(inside(guest))


def test_nobody_else_is_taken_for_the_guest(docker, low, inside):
    id, _, guest, _ = docker.begin(low, driver=DOCKER)
    c = inside(guest)
    run = c.sh("exec python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/stockade/box/door'); "
               "s.send(b'x' * 200); print('sent', flush=True); print(s.recv(100))\"", number=5)
    c.wait(lambda: b"sent" in run.out)
    second = inside(socket.socket(fileno=docker.ask("connect", id=id)[1][0]))
    assert second.output("echo still", number=77)[0] == "still\n"
    docker.stop(id)


def test_freeze_and_thaw(docker, engine, low, inside):
    id, _, guest, _ = docker.begin(low, driver=DOCKER)
    c = inside(guest)
    docker.ask("freeze", id=id)
    pid, before = engine.pid(id), pathlib.Path(f"/proc/{engine.pid(id)}/stat").read_text().split()[13:15]
    assert [m for m in docker.list() if m.id == id][0].flags & wire.FROZEN
    run = c.sh("echo on", number=3)
    with pytest.raises(TimeoutError):
        c.wait(lambda: run.out, timeout=1)
    assert pathlib.Path(f"/proc/{pid}/stat").read_text().split()[13:15] == before
    docker.ask("thaw", id=id)
    c.wait(lambda: b"on" in run.out)


def test_adoption(docker, engine, low, inside):
    id, answer, guest, _ = docker.begin(low, driver=DOCKER)
    inside(guest)
    docker.kill()
    docker.start()
    assert [(m.id, m.pid, m.driver) for m in docker.list() if m.item == wire.SANDBOX] == [(id, answer.pid, DOCKER)]
    second = inside(socket.socket(fileno=docker.ask("connect", id=id)[1][0]))
    assert second.output("echo still")[0] == "still\n"
    docker.stop(id)
    nothing_left(docker, engine, id)


def test_killed_keeper(docker, engine, low):
    id, answer, *_ = docker.begin(low, driver=DOCKER)
    first = engine.pid(id)
    os.kill(answer.pid, signal.SIGKILL)
    assert docker.wait_told("gone").id == id
    assert not alive(first)
    nothing_left(docker, engine, id)


def keeper_of(id):
    for p in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = p.read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[0].endswith(b"stockade-box-docker") and words[1:3] == [b"start", id.encode()]:
            return int(p.parent.name)
    return None


def test_a_keeper_that_is_killed_while_it_starts(docker, engine, low, inside):
    for delay in (0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25):
        id = new_id()
        serial = docker.send_start(low, id, driver=DOCKER)
        until(lambda id=id: keeper_of(id))
        time.sleep(delay)
        pid = keeper_of(id)
        if pid:
            os.kill(pid, signal.SIGKILL)
        try:
            docker.answer(serial)
        except Refused:
            pass
        until(lambda: not docker.running())
        assert not cgroups(id)
    until(lambda: not [n for n in engine.names() if n.startswith("/stockade-")])
    until(lambda: not engine.cgroups())


def test_removed_behind_our_back(docker, engine, low):
    id, answer, *_ = docker.begin(low, driver=DOCKER)
    assert engine.remove(id) == 204
    assert docker.wait_told("gone").id == id
    assert not alive(answer.pid)
    nothing_left(docker, engine, id)


def image_of(docker, engine, low):
    """Our image, which the engine has once it has had one of our containers."""
    docker.stop(docker.begin(low, driver=DOCKER)[0])
    return engine.ask("GET", "/images/json")[1][0]["RepoTags"][0]


def test_a_name_that_is_taken(docker, engine, low):
    id = new_id()
    image = image_of(docker, engine, low)
    assert engine.ask("POST", f"/containers/create?name=stockade-{id}", {"Image": image, "Cmd": ["/x"]})[0] == 201
    e = refused(lambda: docker.begin(low, id=id, driver=DOCKER), ERR_UNENFORCED, "not ours")
    assert "docker rm" in e.hint
    assert engine.inspect(id) and engine.remove(id) == 204
    docker.begin(low, id=id, driver=DOCKER)


def test_a_container_that_was_left_is_replaced(docker, engine, low, inside):
    id = new_id()
    image = image_of(docker, engine, low)
    body = {"Image": image, "Cmd": ["/x"], "Labels": {"stockade": id}}
    assert engine.ask("POST", f"/containers/create?name=stockade-{id}", body)[0] == 201
    assert inside(docker.begin(low, id=id, driver=DOCKER)[2]).output("echo new")[0] == "new\n"


def test_an_image_that_is_missing_is_made(docker, engine, low, inside):
    docker.stop(docker.begin(low, driver=DOCKER)[0])
    until(lambda: not engine.names())
    for image in engine.ask("GET", "/images/json")[1]:
        assert engine.ask("DELETE", f"/images/{image['RepoTags'][0]}?force=1")[0] == 200
    assert inside(docker.begin(low, driver=DOCKER)[2]).output("echo back")[0] == "back\n"


def test_an_engine_that_is_not_there(make, low, tmp_path):
    d = make(conf=f"drivers = native docker\ndocker_socket = {tmp_path}/none.sock\n")
    d.start()
    e = refused(lambda: d.begin(low, driver=DOCKER), ERR_UNENFORCED, "does not answer")
    assert "docker_socket" in e.hint
    until(lambda: not list((d.folder / "run/sandboxes").iterdir()))


def test_a_runtime_that_is_not_there(make, engine, low):
    d = make(conf=conf(engine, "docker_runtime = nosuch\n"))
    d.start()
    e = refused(lambda: d.begin(low, driver=DOCKER), ERR_UNENFORCED, "nosuch")
    assert "docker_runtime" in e.hint
    until(lambda: not engine.names())


def test_a_runtime_by_name(make, engine, low, inside):
    d = make(conf=conf(engine, "docker_runtime = runc\n"))
    d.start()
    id, _, guest, _ = d.begin(low, driver=DOCKER)
    assert engine.inspect(id)["HostConfig"]["Runtime"] == "runc"
    assert inside(guest).output("echo here")[0] == "here\n"


LATE = """#!/bin/sh
case " $* " in
*" start "*) (exec 0<&- 1>&- 2>&- 3>&-; sleep 1; runc "$@") & exit 0 ;;
esac
exec runc "$@"
"""


def test_a_runtime_that_says_so_early(make, another, low, inside, tmp_path):
    """The engine says that the container runs, and our program is not executed yet: the tree waits for it."""
    late = tmp_path / "late"
    late.write_text(LATE)
    late.chmod(0o755)
    own = another("--add-runtime", f"late={late}")
    d = make(conf=conf(own, "docker_runtime = late\n"))
    d.start()
    id, _, guest, _ = d.begin(low, driver=DOCKER)
    assert inside(guest).output("echo here")[0] == "here\n"
    d.stop(id)
    nothing_left(d, own, id)


def test_destroy_and_probe(docker, engine, low):
    id, answer, *_ = docker.begin(low, driver=DOCKER)
    for _ in range(2):
        subprocess.run([PROGRAM, "destroy", id, f"socket={engine.socket}"], check=True)
    assert docker.wait_told("gone").id == id and not alive(answer.pid)
    said = json.loads(subprocess.run([PROGRAM, "probe", f"socket={engine.socket}"], check=True, stdout=subprocess.PIPE).stdout)
    assert said["driver"] == "docker" and said["offered"] and said["version"] and set(said["guarantees"].values()) == {"kept"}
    said = json.loads(subprocess.run([PROGRAM, "probe", "socket=/none"], check=True, stdout=subprocess.PIPE).stdout)
    assert not said["offered"] and said["why"] and said["fix"]


def test_an_engine_that_maps_ids(make, another, low, inside):
    own = another("--userns-remap=daemon")
    d = make(conf=conf(own))
    d.start()
    id, _, guest, _ = d.begin(low, driver=DOCKER)
    assert inside(guest).output("id -u; cat /proc/self/uid_map")[0].split()[:2] == ["1000", "0"]
    assert int(status(own.pid(id))["Uid"].split()[0]) >= 0x40000000
    d.stop(id)
    nothing_left(d, own, id)


def test_the_engine_ends(make, another, low):
    own = another()
    d = make(conf=conf(own))
    d.start()
    id, answer, *_ = d.begin(low, driver=DOCKER)
    own.stop()
    assert d.wait_told("gone").id == id and not alive(answer.pid) and not cgroups(id)
    refused(lambda: d.begin(low, driver=DOCKER), ERR_UNENFORCED, "does not answer")
