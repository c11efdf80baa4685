"""OpenSSH's ssh through the door: who comes in, commands with their streams and ends, terminals, ports."""
import fcntl
import hashlib
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import harness
import pytest


# --- who comes in

def test_a_key_opens_its_sandbox_and_nothing_else(door, box):
    other = door.client.create(profile="medium")["id"]
    try:
        assert door.ssh(box, "echo in").stdout == b"in\n"
        assert door.ssh(other, "echo in").returncode == 255
        assert door.ssh(box, "echo in", key="two").returncode == 255
        assert door.ssh("0" * 16, "echo in").returncode == 255
        assert door.ssh("nobody", "echo in").returncode == 255
    finally:
        door.client.delete(sandbox=other, force=True)


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_other_kinds_of_keys(door, box, kind):
    assert door.ssh(box, "echo in", key=door.key(kind, kind).name).returncode == 255
    door.add(box, kind)
    assert door.ssh(box, "echo in", key=kind).stdout == b"in\n"


def test_no_passwords(door, box):
    done = subprocess.run(["ssh", "-v", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o",
                           "UserKnownHostsFile=/dev/null", "-o", "PubkeyAuthentication=no", "-p", str(door.port),
                           f"{box}@127.0.0.1", "true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)
    assert done.returncode == 255 and b"Authentications that can continue: publickey\r\n" in done.stderr


def test_names_belong_to_owners(door):
    """Two owners use one name: the key says whose is meant; one that both let in opens neither by name."""
    mine = door.client.create(profile="medium", name="same", owner="uid:71001")["id"]
    theirs = door.client.create(profile="medium", name="same", owner="uid:71002")["id"]
    try:
        door.add(mine, "one")
        door.add(theirs, "two")
        for sandbox, key in ((mine, "one"), (theirs, "two")):
            assert door.ssh("same", "hostname; echo $$ > /tmp/mark", key=key).returncode == 0
            assert door.client.sh(sandbox, "test -e /tmp/mark")["exit_code"] == 0
        assert door.ssh(mine, "true", key="two").returncode == 255
        door.add(theirs, "one")
        assert door.ssh("same", "true", key="one").returncode == 255
        assert door.ssh(mine, "true", key="one").returncode == 0
        assert door.ssh(theirs, "true", key="one").returncode == 0
    finally:
        for sandbox in (mine, theirs):
            door.client.delete(sandbox=sandbox, force=True)


def test_a_wallet_that_may_not_sign_in_has_no_way_in(suite, tmp_path):
    from conftest import Door, free_port
    one, two, three = ("0x" + digit * 40 for digit in "abc")
    port = free_port()
    daemon = suite.daemon(conf=f"ssh_listen = 127.0.0.1:{port}\nwallets = {one}\noperators = {two}\n")
    try:
        daemon.start()
        door = Door(daemon, tmp_path, port)
        for wallet in (one, two, three):
            made = door.client.create(profile="medium", owner=f"eth:{wallet}")["id"]
            door.add(made)
            done = door.ssh(made, "echo in")
            assert done.stdout == (b"" if wallet == three else b"in\n") and (done.returncode != 0) == (wallet == three), (wallet, done)
            door.client.delete(sandbox=made, force=True)
    finally:
        daemon.end()


def test_a_revoked_key_is_out_at_once(door, box):
    running = door.start("ssh", f"{box}@127.0.0.1", "echo on; sleep 1000.25", stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"on\n"
    watch = door.daemon.stopwatch(door.process, *door.sessions(), running.pid)
    door.client.ask("ssh-key-remove", sandbox=box, public_key=door.public("one"))
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)  # still there to be asked how long it waited
    assert watch.seconds < 1 * harness.SLOW, watch.wall
    assert running.wait(harness.ENOUGH) == 255
    assert door.ssh(box, "true").returncode == 255
    assert harness.until(lambda: "sleep 1000.25" not in str(door.client.processes(sandbox=box))), "it left something running"
    assert door.events("session.end")[-1]["data"]["reason"] == "revoked"
    with pytest.raises(harness.Refused) as no:
        door.client.ask("ssh-key-remove", sandbox=box, public_key=door.public("one"))
    assert no.value.code == "not_found"


def test_a_key_that_was_taken_out_does_not_come_back(suite, tmp_path):
    """Let in a second time, and taken out before that was written down."""
    daemon = suite.daemon(conf="", env={"STOCKADE_SLOW_FSYNC": "700"}).start()
    try:
        client, key = daemon.client, tmp_path / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        public = key.with_suffix(".pub").read_text().strip()
        box = client.create(profile="low")["id"]
        client.ask("ssh-key-add", sandbox=box, public_key=public)
        for _ in range(3):
            with client.call("ssh-key-add", sandbox=box, public_key=public) as again:
                client.ask("ping")  # the operator has heard of it
                client.ask("ssh-key-remove", sandbox=box, public_key=public)
                with pytest.raises(harness.Refused) as no:
                    again.answer()
            assert no.value.code == "conflict"
            assert client.ask("ssh-keys", sandbox=box)["keys"] == []
            client.ask("ssh-key-add", sandbox=box, public_key=public)
            assert len(client.ask("ssh-keys", sandbox=box)["keys"]) == 1
        client.delete(sandbox=box, force=True)
    finally:
        daemon.end()


def test_a_deleted_sandbox_ends_its_sessions(door):
    made = door.client.create(profile="medium")["id"]
    door.add(made)
    running = door.start("ssh", "-N", f"{made}@127.0.0.1")
    assert harness.until(lambda: any(e["sandbox"] == made for e in door.events("session.begin")))
    door.client.delete(sandbox=made, force=True)
    assert running.wait(harness.ENOUGH) == 255


def test_keys_are_checked(door, box):
    good = door.public("one")
    bad = ["x", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-dss " + good.split()[1], "ssh-rsa " + good.split()[1], good + "\n" + good,
           "ssh-ed25519 " + good.split()[1][:-4] + "!!!!", "ssh-ed25519 " + "A" * 20000]
    for text in bad:
        with pytest.raises(harness.Refused) as no:
            door.client.ask("ssh-key-add", sandbox=box, public_key=text)
        assert no.value.code in ("bad_request", "too_large"), (text, no.value)
    with pytest.raises(harness.Refused):
        door.client.ask("ssh-key-add", sandbox=box, public_key=good, username="-rf /")
    told = door.client.ask("ssh-keys", sandbox=box)["keys"]
    printed = subprocess.run(["ssh-keygen", "-lf", str(door.key("one"))], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert [key["fingerprint"] for key in told] == [printed.split()[1]]


def test_the_door_verb_is_for_the_door(door, box):
    with pytest.raises(harness.Refused) as no:
        door.client.ask("ssh-check", user=box, public_key=door.public("one").split()[1], open=True)
    assert no.value.code == "bad_request"


def test_the_command_line(door, box):
    def stockade(*words, **kw):
        return subprocess.run([str(door.daemon.programs.stockade), *words, "--socket", str(door.daemon.socket)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **kw)
    public = door.key("cli").with_suffix(".pub")
    added = stockade("ssh-key", "add", box, str(public))
    assert added.returncode == 0 and added.stdout.startswith(b"SHA256:")
    assert added.stdout.strip() in stockade("ssh-key", "list", box).stdout
    assert door.ssh(box, "true", key="cli").returncode == 0
    assert stockade("ssh-key", "remove", box, added.stdout.decode().strip()).returncode == 0
    assert door.ssh(box, "true", key="cli").returncode == 255
    private = stockade("ssh-key", "add", box, str(door.key("cli")))
    assert private.returncode == 125 and b"private key" in private.stderr


# --- commands

def test_how_commands_end(door, box):
    assert door.ssh(box, "true").returncode == 0
    assert door.ssh(box, "exit 3").returncode == 3
    killed = door.ssh(box, "kill -TERM $$")
    assert killed.returncode == 255, "ssh says 255 when it is told of a signal"
    assert door.ssh(box, "no-such-program").returncode == 127


def test_streams_are_separate(door, box):
    done = door.ssh(box, "echo out; echo err >&2; cat", data=b"in")
    assert (done.stdout, done.stderr) == (b"out\nin", b"err\n")


def test_input_ends_while_output_goes_on(door, box):
    done = door.ssh(box, "wc -c; sleep 0.3; echo later", data=b"x" * 1000)
    assert done.stdout.split() == [b"1000", b"later"]


def test_much_in_both_directions(door, box):
    data = os.urandom(24 << 20)
    done = door.ssh(box, "sha256sum", data=data, timeout=60)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    done = door.ssh(box, "cat", data=data, timeout=60)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_who_does_not_read_holds_up_nobody(door, box):
    slow = door.start("ssh", f"{box}@127.0.0.1", "yes", stdout=subprocess.PIPE)
    try:
        time.sleep(1)
        assert door.ssh(box, "echo quick").stdout == b"quick\n"
    finally:
        slow.kill()
        slow.wait()
        slow.stdout.close()


def test_the_environment(door, box):
    env = {**os.environ, "LANG": "de_DE.UTF-8", "LC_TIME": "C", "EVIL": "x", "LD_PRELOAD": ""}
    words = door.words("ssh", "-o", "SendEnv=LANG LC_TIME EVIL", f"{box}@127.0.0.1", "env")
    told = subprocess.run(words, env=env, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    assert "LANG=de_DE.UTF-8" in told and "LC_TIME=C" in told and not any(line.startswith("EVIL") for line in told)


def test_what_is_lost_hears_of_it(door, box):
    running = door.start("ssh", f"{box}@127.0.0.1", "echo on; sleep 1000.5", stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"on\n"
    running.kill()
    running.wait()
    assert harness.until(lambda: "sleep 1000.5" not in str(door.client.processes(sandbox=box)))


# --- terminals

class Terminal:
    def __init__(self, words, rows, cols):
        self.master, slave = pty.openpty()
        self.resize(rows, cols)
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen = b""

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def until(self, text, seconds=harness.ENOUGH):
        end = time.monotonic() + seconds * harness.SLOW
        while text not in self.seen:
            assert time.monotonic() < end, self.seen[-500:]
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    break
        assert text in self.seen, self.seen[-500:]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def test_a_shell_with_a_terminal(door, box):
    t = Terminal(door.words("ssh", f"{box}@127.0.0.1"), 31, 97)
    try:
        t.type("stty size; echo ter''m=$TERM\n")
        t.until(b"31 97")
        t.until(b"term=")
        t.resize(40, 120)
        t.type("until stty size | grep '40 1''20'; do sleep 0.1; done\n")  # keys and the new size come by different ways
        t.until(b"40 120")
        t.type("sleep 100\n")
        for turn in range(20):  # a shell that is about to start it takes the first one for itself
            t.type("\x03")
            time.sleep(0.3)  # what is typed at once may go with what the interrupt discards
            t.type("echo inter''rupted\n")
            try:
                t.until(b"interrupted", 2)
                break
            except AssertionError:
                assert turn < 19
        t.type("exit 7\n")
        assert t.process.wait(harness.ENOUGH) == 7
    finally:
        t.close()


# --- ports

def test_a_port_inside(door, box):
    serve = ("import http.server,sys;"
             "http.server.test(http.server.SimpleHTTPRequestHandler,port=8123,bind='127.0.0.1')")
    if door.ssh(box, "command -v python3").returncode:
        harness.missing("no python3 inside")
    door.client.exec(sandbox=box, argv=["python3", "-c", serve], detach=True, cwd="/usr/share")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        here = s.getsockname()[1]
    through = door.start("ssh", "-N", "-L", f"127.0.0.1:{here}:localhost:8123", "-L", f"127.0.0.1:{here + 1}:example.com:80",
                         f"{box}@127.0.0.1", stderr=subprocess.PIPE)
    try:
        def ask(port=here):
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as s:
                    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    told = b""
                    while part := s.recv(65536):
                        told += part
                    return told
            except OSError:
                return b""
        assert harness.until(lambda: b"200 OK" in ask())
        for _ in range(5):
            assert b"200 OK" in ask()
        assert ask(here + 1) == b"", "another host than the sandbox was reached"
    finally:
        through.kill()
        through.wait()
        through.stderr.close()


def test_remote_forwarding_is_refused(door, box):
    done = door.run("ssh", "-o", "ExitOnForwardFailure=yes", "-R", "0:localhost:1", f"{box}@127.0.0.1", "true")
    assert done.returncode == 255
    assert door.run("ssh", "-A", f"{box}@127.0.0.1", "echo ${SSH_AUTH_SOCK-none}").stdout == b"none\n"


# --- hostile clients

def test_strangers_are_cut_off(door, box):
    """Those who connect and say nothing neither stop others nor stay."""
    held = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(20)]
    took = []

    def until_cut():
        watch = harness.Stopwatch(door.process, *door.sessions())
        for s in held:
            s.settimeout(60 * harness.SLOW)
            try:
                while s.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        took.append(watch.seconds)
    others = threading.Thread(target=until_cut)
    others.start()
    try:
        assert door.ssh(box, "echo in").stdout == b"in\n"
        noise = socket.create_connection(("127.0.0.1", door.port))
        noise.sendall(os.urandom(1 << 16))
        noise.settimeout(harness.ENOUGH)
        try:
            while noise.recv(65536):
                pass
        except ConnectionResetError:
            pass
        noise.close()
        assert door.ssh(box, "echo in").stdout == b"in\n"
        others.join()
        assert took and took[0] < 25 * harness.SLOW, took
    finally:
        others.join()
        for s in held:
            s.close()


def test_one_address_has_a_limit(door, box):
    listener = door.process
    held = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(40)]
    watch = harness.Stopwatch(listener)
    try:
        def left():
            """Those who were not sent away."""
            count = 0
            for s in held:
                s.setblocking(False)
                try:
                    while data := s.recv(4096):
                        assert data.startswith(b"SSH-")
                except BlockingIOError:
                    count += 1
                except OSError:
                    pass
            return count

        def counted():
            return sum(1 for pid in harness.pids() if (harness.stat_of(pid) or (0,))[0] == listener)
        assert harness.until(lambda: left() <= 8 and counted() <= 8, harness.ENOUGH)
        assert watch.seconds < 15 * harness.SLOW, "not before their time to sign in was over"
        assert door.ssh(box, "echo in").stdout == b"in\n"  # also from there
    finally:
        for s in held:
            s.close()
    assert harness.until(lambda: door.ssh(box, "echo in").stdout == b"in\n")


def test_a_connection_has_so_many_channels(door, box, tmp_path):
    path = str(tmp_path / "shared")
    first = door.start("ssh", "-M", "-N", "-S", path, f"{box}@127.0.0.1", stderr=subprocess.DEVNULL)
    try:
        assert harness.until(lambda: os.path.exists(path))
        many = [subprocess.Popen(["ssh", "-F", "none", "-S", path, "-o", "ControlMaster=no", "-o", "ProxyCommand=false", "x@y",
                                  "until [ -e /tmp/go ]; do sleep 0.1; done; echo ok"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                for _ in range(20)]
        # none that has a channel ends before the last has asked for one
        harness.until(lambda: sum(p.poll() is not None for p in many) >= 4)
        assert door.client.sh(box, "touch /tmp/go")["exit_code"] == 0
        assert [p.communicate()[0] for p in many].count(b"ok\n") == 16
    finally:
        first.kill()  # SIGTERM between its look at signals and its poll() is seen a keepalive later
        first.wait()


@pytest.mark.parametrize("rekey", ["default", "2M"])
def test_much_output_beside_channels_that_wait(door, box, tmp_path, rekey):
    """The client's word that it takes more may be read while another channel is looked after: it counts all the same."""
    path, size = str(tmp_path / "shared"), 50_000_000
    first = door.start("ssh", "-M", "-N", "-S", path, "-o", f"RekeyLimit={rekey}", f"{box}@127.0.0.1", stderr=subprocess.DEVNULL)
    channels = []

    def channel(command):
        made = subprocess.Popen(["ssh", "-F", "none", "-S", path, "-o", "ControlMaster=no", "-o", "ProxyCommand=false", "x@y",
                                 f"echo on; {command}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        channels.append(made)
        assert made.stdout.readline() == b"on\n"
        return made
    try:
        assert harness.until(lambda: os.path.exists(path))
        much = channel(f"read go; head -c {size} /dev/zero")
        others = [channel("exec cat") for _ in range(15)]
        watch = harness.Stopwatch(door.daemon.operator, *door.sessions(), first.pid, much.pid)
        much.stdin.write(b"go\n")
        much.stdin.flush()
        assert len(much.stdout.read(size)) == size
        assert watch.seconds < 50, watch.wall  # whoever is forgotten waits for 60 s, each time
        assert all(one.poll() is None for one in others)
    finally:
        for process in (*channels, first):
            process.kill()
            process.communicate()


def test_its_process_can_do_nothing(door, box):
    pid = door.process
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["1744830465"] * 4 and status["Gid"].split() == ["1744830465"] * 4
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")} == {"0" * 16}
    key = door.daemon.state / "ssh-host-key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_uid == 0
    assert not any("ssh-host-key" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


# --- restarts

def test_it_is_started_again_with_the_same_key(door, box):
    assert door.ssh(box, "true").returncode == 0
    old = door.process
    os.kill(old, signal.SIGKILL)
    assert harness.until(lambda: door.process not in (None, old))
    done = door.ssh(box, "echo again", known="yes")
    assert done.stdout == b"again\n", done.stderr


def test_the_operator_is_started_again(door, box):
    door.daemon.kill_operator()
    assert door.ssh(box, "echo again", known="yes").stdout == b"again\n"


def test_the_warden_is_started_again(door, box):
    door.daemon.kill_warden()
    assert harness.until(lambda: door.process is not None)
    assert harness.until(lambda: door.ssh(box, "echo again", known="yes").stdout == b"again\n")


# --- the ledger

def test_the_ledger_has_it(door, box):
    assert door.ssh(box, "echo $((40+2)) marked").returncode == 0
    assert harness.until(lambda: any(e["sandbox"] == box for e in door.events("session.end")))
    mine = {kind: [e for e in door.events(kind) if e["sandbox"] == box]
            for kind in ("grant.give", "session.begin", "session.use", "session.end", "run.start")}
    print_ = door.client.ask("ssh-keys", sandbox=box)["keys"][0]["fingerprint"]
    assert [len(found) for found in mine.values()] == [1] * 5, mine
    assert mine["grant.give"][0]["data"]["key"] == print_
    begin, use, end = (mine[kind][0] for kind in ("session.begin", "session.use", "session.end"))
    assert begin["actor"] == use["actor"] == end["actor"] == mine["run.start"][0]["actor"] == f"ssh:{print_}"
    assert begin["data"]["key"] == print_ and begin["data"]["from"].startswith("127.0.0.1:")
    assert use["data"]["what"] == "exec" and use["data"]["command"] == "echo $((40+2)) marked"
    assert end["data"]["reason"] == "closed" and end["data"]["session"] == begin["data"]["session"]
    door.ssh(box, "true", key="two")
    assert harness.until(lambda: door.events("auth.refused"))


# --- without root

def test_a_daemon_without_root(suite, door, tmp_path):
    from conftest import Door, free_port
    port = free_port()
    daemon = suite.daemon(conf=f"ssh_listen = 127.0.0.1:{port}\n", who=4299).start()
    try:
        there = Door(daemon, door.folder, port)
        there.known = tmp_path / "known"
        assert harness.until(lambda: there.process is not None)
        told = there.ssh("0" * 16, "true")
        assert told.returncode == 255 and b"Permission denied (publickey)" in told.stderr
        status = open(f"/proc/{there.process}/status").read()
        assert "Uid:\t4299\t4299\t4299\t4299\n" in status and "Seccomp:\t2\n" in status
        assert (daemon.state / "ssh-host-key").stat().st_uid == 4299
    finally:
        daemon.end()
