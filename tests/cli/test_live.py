"""The verbs with a real daemon, from `stockade up` to `stockade down`."""
import fcntl
import io
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from conftest import SOURCE, Client
from test_exec import Terminal

sys.path.insert(0, str(SOURCE / "tests/operator"))
import harness  # noqa: E402  what a daemon's tests need: tests/operator

USER, UID = "stockade-cli-0", 4290


@pytest.fixture(scope="module")
def suite():
    made = harness.Suite()
    yield made
    made.remove()


class Person:
    """Somebody with a state folder of their own, and the programs."""

    def __init__(self, suite, folder, uid):
        self.folder = self.cwd = folder
        self.uid, self.programs, self.program = uid, suite.programs, str(suite.programs.stockade)
        folder.mkdir(mode=0o755)
        os.chown(folder, uid, uid)
        self.state = folder / "state"

    def become(self):
        if self.uid == 0:
            return
        shell = Path(f"/sys/fs/cgroup/stockade/{UID}/shell/cgroup.procs")
        if Path("/sys/fs/cgroup/cgroup.controllers").exists() and shell.exists():
            shell.write_text("0")
        os.setgroups([])
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)

    def environment(self, extra=None):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), "TERM": "xterm", "LANG": "C.UTF-8",
                "STOCKADE_STATE": str(self.state), **(extra or {})}

    def popen(self, *args, env=None, **kw):
        for stream in ("stdin", "stdout", "stderr"):
            kw.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen([self.program, *map(str, args)], env=self.environment(env), cwd=self.folder,
                                preexec_fn=self.become, **kw)

    run = Client.run

    def left(self):
        """Processes of this state folder."""
        return [pid for pid in harness.pids() if str(self.state) in harness.command_of(pid) and harness.alive(pid)]

    def end(self):
        self.run("down", "--stop-sandboxes", timeout=60)
        assert harness.until(lambda: not self.left()), [harness.command_of(pid) for pid in self.left()]


@pytest.fixture(scope="module")
def user(suite):
    """An ordinary user whom root has set up once."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["/usr/sbin/useradd", "--uid", str(UID), "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
                        "--shell", "/bin/sh", USER], check=True)
    subprocess.run([suite.programs.stockade, "setup", "--user", USER], check=True, stdout=subprocess.DEVNULL)
    yield UID
    subprocess.run([suite.programs.stockade, "setup", "--user", USER, "--remove"], check=False, stdout=subprocess.DEVNULL)
    subprocess.run(["/usr/sbin/userdel", USER], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture(params=["root", "rootless"])
def who(request, suite, user):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    suite.count += 1
    person = Person(suite, suite.folder / f"person-{suite.count}", 0 if request.param == "root" else user)
    yield person
    person.end()


@pytest.fixture
def up(who):
    """Somebody whose daemon runs."""
    who.run("up", "--detach", timeout=60).ok()
    return who


@pytest.fixture(scope="module")
def box(suite):
    """Root's daemon with one sandbox, for what needs no daemon of its own."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    suite.count += 1
    person = Person(suite, suite.folder / f"person-{suite.count}", 0)
    person.run("up", "--detach", timeout=60).ok()
    person.run("create", "--name", "box", "--profile", "medium").ok()
    yield person
    person.end()


# --- up and down ---

def test_up_and_down(who):
    done = who.run("up", "--detach", timeout=60)
    assert done.status == 0 and "stockade is up" in done.text and "stockade down" in done.text and "stockade create" in done.text
    link = re.search(r"web: +(http://127\.0\.0\.1:[0-9]+)/#link=", done.text)
    assert link, done.text  # no configuration: the web app is there all the same, on this machine alone
    assert urllib.request.urlopen(link[1] + "/", timeout=30).status == 200
    assert f"listen = {link[1][7:]}" in (who.state / "stockade.conf").read_text()
    again = who.run("up", "--detach").ok()
    assert "is up already" in again and link[1] in again
    assert who.run("health").ok().endswith("all is well\n")
    sandbox = who.run("create", "--name", "first").ok().strip()
    assert re.fullmatch("[0-9a-f]{16}", sandbox)
    assert who.run("exec", "first", "echo", "hello").ok() == "hello\n"
    marked = who.popen("exec", "first", "sleep", "7777.5")
    assert harness.until(lambda: any("sleep 7777.5" == harness.command_of(pid) for pid in harness.pids()))
    assert who.run("down").ok() == "stockade is down\n"
    assert who.run("list").status == 125
    assert any("sleep 7777.5" == harness.command_of(pid) for pid in harness.pids()), "the sandbox ended with the daemon"
    assert "1 sandboxes were there already" in who.run("up", "--detach", timeout=60).ok()
    marked.kill()
    marked.communicate()
    assert who.run("list", "-q").ok() == sandbox + "\n"
    assert who.run("exec", "first", "echo", "again").ok() == "again\n"
    who.run("delete", "--force", "first").ok()
    assert who.run("down", "--stop-sandboxes", timeout=60).ok() == "stockade is down\n"
    assert who.run("down").ok() == "no daemon is running\n"
    assert not any("sleep 7777.5" == harness.command_of(pid) for pid in harness.pids())


def test_a_folder_that_others_can_write_to_gets_no_configuration(who, tmp_path):
    """They could put a link there, and root would write through it."""
    who.state.mkdir()
    os.chown(who.state, who.uid, who.uid)
    who.state.chmod(0o777)
    done = who.run("up", "--detach", timeout=60)
    assert done.status == 125 and b"not ours alone" in done.err and not list(who.state.iterdir())


def test_a_port_that_is_taken(who):
    """Another daemon has the usual port, or anybody: the next free one is taken, and kept."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 7070))
            taken.listen()
        except OSError:
            pass  # then somebody else has it
        assert "web: " in who.run("up", "--detach", timeout=60).ok()
    config = (who.state / "stockade.conf").read_text()
    assert re.search("^listen = 127.0.0.1:(?!7070$)[0-9]+$", config, re.MULTILINE), config
    who.run("down").ok()
    assert "web: " in who.run("up", "--detach", timeout=60).ok()
    assert (who.state / "stockade.conf").read_text() == config


def test_a_named_configuration_is_left_alone(who):
    config = who.folder / "mine.conf"
    config.write_text("pool = 0\n")
    os.chown(config, who.uid, who.uid)
    assert "web: " not in who.run("up", "--detach", "--config", config, timeout=60).ok()
    assert not (who.state / "stockade.conf").exists() and config.read_text() == "pool = 0\n"


def test_the_usual_configuration_is_not_forgotten(suite, user):
    """A folder that was named has none of its own: what holds for all of this user's daemons holds for this one."""
    suite.count += 1
    person = Person(suite, suite.folder / f"person-{suite.count}", user)
    usual = person.folder / ".config/stockade/stockade.conf"
    usual.parent.mkdir(parents=True)
    usual.write_text("pool = 0\n")
    subprocess.run(["chown", "-R", str(user), person.folder / ".config"], check=True)
    try:
        assert "web: " not in person.run("up", "--detach", timeout=60).ok()
        assert not (person.state / "stockade.conf").exists()
        person.run("down").ok()
        own = person.state / "stockade.conf"
        own.write_text("listen = 127.0.0.1:0\n")
        os.chown(own, user, user)
        assert "web: " in person.run("up", "--detach", timeout=60).ok()  # its own comes first
    finally:
        person.end()


def test_a_door_that_stays_shut_is_named(who):
    """The port of the configuration has gone to somebody else meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        who.state.mkdir(mode=0o700)
        (who.state / "stockade.conf").write_text(f"listen = 127.0.0.1:{taken.getsockname()[1]}\n")
        for path in (who.state, who.state / "stockade.conf"):
            os.chown(path, who.uid, who.uid)
        assert "web:    not open: the log says why" in who.run("up", "--detach", timeout=60).ok()


def test_one_that_does_not_answer_is_ended(who):
    who.run("up", "--detach", timeout=60).ok()
    (who.state / "run/operator.sock").unlink()
    assert who.run("down", timeout=60).ok() == "stockade is down\n"
    assert harness.until(lambda: not who.left())


@pytest.mark.parametrize("what", ["stranger", "pipe", "ours"])
def test_down_believes_nobody(suite, tmp_path, what):
    """A folder of somebody else, with a lock that names a process which he wants to see ended by root."""
    run = tmp_path / ".stockade/run"
    run.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as victim, open(run / "lock", "w+") as lock:
        if what == "pipe":
            (run / "lock").unlink()
            os.mkfifo(run / "lock")
        lock.write(str(victim.pid))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in (run, run / "lock"):
            os.chmod(path, 0o700)
            if what == "stranger":
                os.chown(path, UID, UID)
        done = subprocess.run([suite.programs.stockade, "down"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, timeout=20, check=False)
        assert victim.poll() is None, "root ended a process for a stranger"
        if what != "pipe":
            assert done.returncode == 125 and b"not certain who" in done.stderr, done
        victim.kill()


def test_the_ledger_of_the_daemon_that_is_named(who):
    who.run("up", "--detach", timeout=60).ok()
    socket_path = str(who.state / "run/operator.sock")
    done = who.run("ledger", "verify", env={"STOCKADE_STATE": "", "STOCKADE_SOCKET": socket_path})
    assert done.status == 0 and f"{who.state}/operator/ledger" in done.text, done
    who.run("down").ok()


def test_in_the_foreground(who):
    process = who.popen("up")
    lines = [process.stdout.readline()]
    while b"end:" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    assert who.run("health").status == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert who.run("health").status == 125


def test_a_second_one_refuses(who):
    process = who.popen("up")
    while b"end:" not in process.stdout.readline():
        pass
    # not by its socket, which a second one would find, but by the folder
    second = subprocess.run([who.programs.stockaded, "--state", who.state, "--run", who.state / "run"], env=who.environment(),
                            cwd=who.folder, preexec_fn=who.become, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False)
    assert second.returncode != 0 and b"another daemon" in second.stdout
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0


def test_wrong_configuration(who):
    config = who.folder / "bad.conf"
    config.write_text("pool = 1\nprofil = low\n")
    os.chown(config, who.uid, who.uid)
    done = who.run("up", "--detach", "-c", config)
    assert done.status == 125 and "bad.conf:2: unknown key 'profil'" in done.errors and "did you mean 'profile'" in done.errors
    config.write_text("pool = 7\n")
    assert "\npool = 7\n" in who.run("up", "--print-config", "-c", config).ok()
    os.chmod(config, 0o666)
    assert "somebody else could have written it" in who.run("up", "--detach", "-c", config).errors


# --- rootless: what cannot be had is said ---

def test_what_needs_a_disk(up):
    up.run("create", "--name", "first").ok()
    done = up.run("snapshot", "first")
    assert done.status == 125 and "has no disk" in done.errors and "hint:" in done.errors, done
    if up.uid:
        assert up.run("image", "import", "x", "-", input=b"").status == 125


# --- working ---

def test_streams(box):
    every = bytes(range(256)) * 8192
    done = box.run("exec", "-i", "box", "--", "cat", input=every)
    assert done.status == 0 and done.out == every and done.err == b""
    done = box.run("exec", "-i", "box", "--", "sh", "-c", "cat >&2; exit 9", input=every)
    assert done.status == 9 and done.err == every
    assert box.run("exec", "box", "sh", "-c", "kill -TERM $$").status == 143
    assert box.run("exec", "box", "no-such-program").status == 127
    assert box.run("exec", "-w", "/tmp", "-e", "A=b c", "box", "sh", "-c", "pwd; echo $A").ok() == "/tmp\nb c\n"
    done = box.run("exec", "-w", "/none", "box", "pwd")
    assert done.status in (125, 126, 127) and b"no such folder" in done.err


def test_a_shell_without_a_terminal(box):
    """It reads commands, as shells do, and ends with them."""
    done = box.run("shell", "box", input=b"echo one; tty; exit 4\n")
    assert done.status == 4 and done.out == b"one\nnot a tty\n", (done.out, done.err)
    assert box.run("shell", "box", input=b"").status == 0


def test_a_reader_that_leaves(box):
    process = box.popen("exec", "box", "yes")
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    assert process.wait(60) == 141


def test_signals(box):
    process = box.popen("exec", "box", "sh", "-c", "trap 'echo got; exit 5' INT; echo ready; while :; do sleep 0.05; done")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == b"got\n" and process.wait(60) == 5


def test_detach_logs_cancel(box):
    number = box.run("exec", "-d", "box", "sh", "-c", "echo out; echo err >&2; sleep 60").ok().strip()
    follower = box.popen("logs", "-f", "box", number)
    assert follower.stdout.readline() == b"out\n"
    assert "cancelled" in box.run("cancel", "box", number).ok()
    assert follower.wait(60) == 0 and b"err\n" in follower.stderr.read()
    assert re.search(rf"^ *{number} +ended +cancelled ", box.run("runs", "box").ok(), re.MULTILINE)


def test_files(box):
    tree = box.folder / "tree"
    (tree / "deep/er").mkdir(parents=True)
    data = os.urandom(3 << 20)
    (tree / "deep/data").write_bytes(data)
    (tree / "link").symlink_to("deep/data")
    os.chmod(tree / "deep/er", 0o700)
    box.run("cp", "tree", "box:/home/agent/").ok()
    assert "deep" in box.run("ls", "box:/home/agent/tree").ok()
    box.run("exec", "box", "sh", "-c", "cd /home/agent/tree; ln -s /etc/passwd out; mkfifo pipe; chmod 755 deep/data; ln deep/data twin").ok()
    done = box.run("cp", "box:/home/agent/tree", "back")
    assert done.status == 0 and "left out 1 links" in done.errors
    back = box.folder / "back"
    assert (back / "deep/data").read_bytes() == data and (back / "twin").read_bytes() == data
    assert (back / "deep/data").stat().st_mode & 0o7777 == 0o755 and os.readlink(back / "link") == "deep/data"
    assert not os.path.lexists(back / "out") and not os.path.lexists(back / "pipe")
    assert box.run("cp", "box:/home/agent/tree/deep/data", "-").out == data
    box.run("cp", "-", "box:/tmp/typed", input=b"typed").ok()
    assert box.run("exec", "box", "cat", "/tmp/typed").ok() == "typed"
    assert box.run("cp", "box:/none", "x").status == 125 and not (box.folder / "x").exists()


def test_snapshot_fork_rollback(box):
    box.run("create", "--name", "origin", "--profile", "medium").ok()
    box.run("exec", "origin", "sh", "-c", "echo one > /home/agent/a; sync").ok()
    snapshot = box.run("snapshot", "origin", "--name", "before").ok().strip()
    box.run("exec", "origin", "sh", "-c", "echo two > /home/agent/a; echo new > /home/agent/b").ok()
    assert snapshot in box.run("snapshots", "origin").ok()
    box.run("fork", "before", "--name", "other").ok()
    assert box.run("exec", "other", "sh", "-c", "cat /home/agent/a; ls /home/agent").ok() == "one\na\n"
    box.run("stop", "origin").ok()
    done = box.run("diff", "before", "origin")
    assert done.status == 1 and sorted(line.split("  ")[0] for line in done.text.splitlines()) == ["+ b", "~ a"], done
    box.run("rollback", "origin", "before").ok()
    assert box.run("exec", "origin", "cat", "/home/agent/a").ok() == "one\n"
    box.run("export", "before", "-o", "before.tar.zst").ok()
    moved = box.run("import", "before.tar.zst", "--name", "moved").ok().strip()
    box.run("fork", moved, "--name", "again").ok()
    assert box.run("exec", "again", "cat", "/home/agent/a").ok() == "one\n"
    box.run("delete", "--force", "origin", "other", "again").ok()
    box.run("snapshot", "--delete", "before").ok()
    box.run("snapshot", "--delete", "moved").ok()


def test_lifecycle(box):
    box.run("create", "--name", "moody").ok()
    for verb, state in (("pause", "paused"), ("unpause", "running"), ("stop", "stopped"), ("resume", "running")):
        assert box.run(verb, "moody").ok().split()[-1] == state
        assert json.loads(box.run("show", "moody", "--json").ok())["state"] == state
    done = box.run("quarantine", "moody", "--reason", "a test")
    assert done.status == 0 and "quarantined" in done.text
    assert box.run("exec", "moody", "true").status == 125
    box.run("delete", "--force", "moody").ok()
    assert "moody" not in box.run("list").ok()
    kinds = re.findall(r"(sandbox\.\w+)", box.run("events").ok())
    assert {"sandbox.create", "sandbox.pause", "sandbox.stop", "sandbox.quarantine", "sandbox.delete"} <= set(kinds)


def test_image(box):
    root = box.folder / "image"
    (root / "bin").mkdir(parents=True)
    (root / "tmp").mkdir()
    busybox = "/bin/busybox"
    if not os.path.exists(busybox):
        harness.missing("no static busybox for an image")
    (root / "bin/busybox").write_bytes(Path(busybox).read_bytes())
    os.chmod(root / "bin/busybox", 0o755)
    (root / "mark").write_text("of the image")
    image = box.run("image", "import", "small", "image").ok().strip()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(root, ".")
    box.run("image", "import", "packed", "-", input=archive.getvalue()).ok()
    listed = box.run("image", "list").ok()
    assert image in listed and "packed" in listed
    for name in ("small", "packed"):
        box.run("create", "--image", name, "--name", "in-" + name, "--profile", "medium").ok()
        assert box.run("exec", "in-" + name, "/bin/busybox", "cat", "/mark").ok() == "of the image"
        box.run("delete", "--force", "in-" + name).ok()
        box.run("image", "remove", name).ok()
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../../escape"))
    assert box.run("image", "import", "evil", "-", input=evil.getvalue()).status == 125
    assert "evil" not in box.run("image", "list").ok()


def test_forward(box):
    number = box.run("exec", "-d", "box", "python3", "-c",
                     "import socket\ns = socket.create_server(('127.0.0.1', 8123))\nprint('ready', flush=True)\n"
                     "while True:\n c, _ = s.accept()\n d = b''\n while True:\n  p = c.recv(65536)\n  if not p: break\n  d += p\n"
                     " c.sendall(d[::-1]); c.close()").ok().strip()
    assert harness.until(lambda: "ready" in box.run("logs", "box", number).text)
    process = box.popen("forward", "box", "8123:0")
    port = int(re.search(rb"127\.0\.0\.1:(\d+)", process.stdout.readline())[1])
    import socket
    for size in (1, 100000, 3000000):
        data = os.urandom(size)
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.settimeout(20)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while part := s.recv(1 << 20):
                got += part
        assert got == data[::-1]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    box.run("cancel", "box", number).ok()


def test_top_and_events_while_they_happen(box):
    watcher, seen = box.popen("events", "-f", "--json"), []

    def read():
        for line in iter(watcher.stdout.readline, b""):
            seen.append(json.loads(line))
    reader = threading.Thread(target=read)
    reader.start()

    def listens():
        box.run("exec", "box", "true").ok()
        return harness.until(lambda: seen, 1)
    assert harness.until(listens)
    number = int(box.run("exec", "-d", "box", "true").ok())

    def told():
        return [e["kind"] for e in list(seen) if e["kind"].startswith("run.") and e["data"]["run"] == number]
    assert harness.until(lambda: "run.end" in told())
    watcher.kill()
    reader.join()
    watcher.communicate()
    assert told() == ["run.start", "run.end"]
    assert "box" in box.run("top", "--once").ok()


# --- nothing is lost ---

def parts(person):
    """The pids of warden and operator."""
    warden = int((person.state / "run/lock").read_text().split()[0])
    return warden, [pid for pid in harness.pids() if (harness.stat_of(pid) or (0,))[0] == warden
                    and "stockade-operator" in harness.command_of(pid)]


def test_a_shell_outlives_the_operator(up):
    up.run("create", "--name", "first").ok()
    t = Terminal(up, "shell", "first")
    t.type(b"PS1='$ '; cd /tmp; x=kept\r")
    t.expect(rb"\$ $")
    t.type(b"echo $x-$((1+1))\r")
    t.expect(rb"kept-2\r\n")
    for round in range(3):
        _, operators = parts(up)
        os.kill(operators[0], signal.SIGKILL)
        time.sleep(0.2)
        t.seen = b""
        t.type(b"\r")  # may be lost with the connection
        assert harness.until(lambda: parts(up)[1] not in ([], operators))
        for turn in range(20):  # what is typed before it has come back may be lost with the connection
            t.type(f"echo $x-$((10+{round}))\r".encode())
            try:
                t.expect(rb"kept-1%d\r\n" % round, 2)
                break
            except AssertionError:
                assert turn < 19
    t.type(b"exit 3\r")
    assert t.end() == 3


def test_everything_is_killed(up):
    """A detached command, a shell, and a follower of events: all daemons die, and start again."""
    up.run("create", "--name", "first").ok()
    number = up.run("exec", "-d", "first", "sh", "-c", "for i in $(seq 1 60); do echo $i; sleep 0.1; done").ok().strip()
    watcher = up.popen("logs", "-f", "first", number)
    running = up.popen("exec", "first", "sh", "-c", "for i in $(seq 1 40); do echo line $i; sleep 0.1; done; exit 4")
    assert running.stdout.readline() == b"line 1\n"
    warden, operators = parts(up)
    for pid in [warden, *operators]:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    up.run("up", "--detach", timeout=60).ok()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 4 and out == b"".join(b"line %d\n" % n for n in range(2, 41)), (running.returncode, out[-200:], err)
    watcher.kill()
    watcher.communicate()
    assert harness.until(lambda: up.run("logs", "first", number).out == b"".join(b"%d\n" % n for n in range(1, 61)))
