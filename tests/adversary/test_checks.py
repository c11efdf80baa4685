"""Every row of the table, as root and as an ordinary user, in low and in medium, without and with a terminal; and the
attempts that need a scene of their own."""
import os
import re
import socket
import stat
import subprocess
from pathlib import Path

import pytest

import judge
import table
from judge import PROBE, PROMISED

RUNS = {}


class Scene:
    """A sandbox under attack: a sibling beside it, a victim on the host, and all quick attempts made once."""

    def __init__(self, host, person, profile, on_terminal):
        share = person.folder()
        victim = judge.Victim(person, person.home / f"signals-{profile}-{on_terminal}")
        sibling = person.start(profile, ["/bin/sh", "-c", f"echo {host.token('sibling-file')} >/tmp/sibling; "
                                         "echo ready; exec sleep 100"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               env={"SIBLING": "1"})
        self.leak = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            assert sibling.stdout.readline() == b"ready\n"
            sleeper = host.wait_for_process("sleep 100")  # the shell says "ready" before it becomes it
            host.forget()
            before = host.digest()
            streams = {} if on_terminal else {"pass_fds": (self.leak,)}
            self.run = person.probe(profile, "all-quick", ["--rw", f"{share}:/mnt/share"], on_terminal=on_terminal,
                                    facts=["share=/mnt/share", f"host-pid={victim.pid}", "sibling-file=/tmp/sibling",
                                           f"sibling-pid={sleeper}", *(["use-stdin=1"] if on_terminal else [])],
                                    timeout=60, **streams)
            self.heard = {check.name: host.heard(check.name) for check in table.CHECKS}
            self.victim = victim.changed()
            self.setid = {path.name: oct(path.stat().st_mode) for path in share.iterdir()
                          if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)}
            self.changes = host.changes_since(before)
        finally:
            os.close(self.leak)
            sibling.kill()
            sibling.communicate()
            victim.process.kill()
            victim.process.wait()

    def seen(self, name):
        """What the host noticed of one attempt."""
        found = list(self.heard.get(name, ()))
        if name in ("kill-host", "pidfd-host", "owner-signal", "priority-user", "adjust-host"):
            found += self.victim
        if name in self.setid:
            found.append(self.setid[name])
        return found


def scene(host, person, profile, on_terminal):
    key = (person.name, profile, on_terminal)
    if key not in RUNS:
        RUNS[key] = Scene(host, person, profile, on_terminal)
    return RUNS[key]


@pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])
def test_host_unchanged(host, person, profile, on_terminal):
    made = scene(host, person, profile, on_terminal)
    assert made.run.status == 0, made.run
    assert not made.changes
    assert not made.victim
    assert not made.setid
    leaked = [name for name, secret in host.tokens.items() if secret in made.run.text]
    assert not leaked, "these secrets got out"


@pytest.mark.parametrize("name", table.BY_NAME)
def test_check(host, person, profile, name):
    check = table.BY_NAME[name]
    for on_terminal in (False, True):
        made = scene(host, person, profile, on_terminal)
        line = made.run.lines.get(name)
        found = judge.verdict(check, line, made.seen(name), profile)
        judge.note(check, line, person.name, profile, "allowed" if check.allowed(profile) else found)
        if check.allowed(profile):
            assert line["result"] == "done", f"should be allowed: {line}"
        else:
            assert found == PROMISED, f"{found}: must be stopped by {check.mechanism}: {line} {made.seen(name)}"


def test_table_is_complete(host):
    """The table and the probe know the same attempts: those of the common run, and each of the others in some scene."""
    said = subprocess.run([host.probe, "list"], capture_output=True, text=True, check=True).stdout
    flags = {line.split()[1]: line.split()[2:] for line in said.splitlines()}
    assert {name for name, flag in flags.items() if "quick" in flag} == set(table.BY_NAME)
    sources = "".join(path.read_text() for path in Path(judge.SOURCE, "src/verify").glob("*.c"))
    unused = {name for name in flags if name not in table.BY_NAME and f'"{name}' not in sources and name not in sources}
    assert not unused, "nobody uses these attempts"
    assert len(table.CHECKS) >= 150


# --- streams

@pytest.mark.parametrize("attempt", ["reopen-stdin", "reopen-stdout", "stream-attributes", "stream-truncate"])
def test_stream(host, person, profile, attempt):
    """Files of the host as streams: bytes may flow, nothing else."""
    folder = person.folder()
    source, target = folder / "in", folder / "out"
    source.write_text("standard input\n")
    target.write_text("earlier\n")
    for file in (source, target):
        os.chown(file, person.uid, person.gid)
        file.chmod(0o600)
    with open(source, "rb") as given, open(target, "ab") as taken:
        run = person.run(profile, [PROBE, attempt, *host.facts(person, profile), "stream-token=REACHED"], stdin=given,
                         stdout=taken)
    said = target.read_text()
    assert run.status == 0, run
    assert said.startswith("earlier\n") and said.count("{") == 1, f"OPEN: what was written before is gone: {said}"
    assert source.read_text() == "standard input\n", "OPEN: standard input was written to"
    assert '"result":"refused"' in said, f"OPEN: {said}"
    for file in (source, target):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, f"OPEN: mode of {file.name} changed"
        assert not os.listxattr(file), f"OPEN: attributes of {file.name} changed"


def test_stream_allowed(person, profile):
    """Control: what a stream is for works on the same files."""
    folder = person.folder()
    (folder / "in").write_text("standard input\n")
    with open(folder / "in", "rb") as given, open(folder / "out", "wb") as taken:
        run = person.run(profile, ["cat"], stdin=given, stdout=taken)
    assert run.status == 0 and (folder / "out").read_text() == "standard input\n", run


def test_stream_directory(host, person, profile):
    """A folder as standard input would be a way out: refused, or useless."""
    with Folder("/") as fd:
        run = person.run(profile, [PROBE, "stream-directory", *host.facts(person, profile)], stdin=fd)
    assert run.status == 125 or run.only["result"] == "refused", f"OPEN: {run}"


def test_stream_socket(host, person, profile):
    """A socket as standard input is not passed in: no descriptor can come through, and no handle to its peer."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        facts = host.facts(person, profile)
        control = subprocess.run([host.probe, "peer-pidfd", *facts], stdin=theirs, capture_output=True, text=True,
                                 check=True)
        run = person.run(profile, [PROBE, "peer-pidfd", *facts], stdin=theirs)
    assert '"done"' in control.stdout or "ENOPROTOOPT" in control.stdout, "control: a peer's handle can be had"
    assert run.only["result"] == "refused" and run.only["errno"] == "ENOTSOCK", f"OPEN: {run}"


class Folder:
    """An open folder."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        return self.fd

    def __exit__(self, *_):
        os.close(self.fd)


# --- scenes of their own

def test_writable_sweep(host, person, profile, unchanged):
    """The whole tree: nothing can be written but what the profile names."""
    share = person.folder()
    run = person.probe(profile, "writable-sweep", ["--rw", f"{share}:/mnt/share"], timeout=60)
    assert run.only["result"] == "refused", f"OPEN: {run.only}"
    looked = int(re.search(r"(\d+) looked at", run.only["evidence"])[1])
    assert looked > 1000, run.only


def test_writable_sweep_sees(host, person, profile):
    """Control: a share that it was not told of is found."""
    share = person.folder()
    run = person.probe(profile, "writable-sweep", ["--rw", f"{share}:/mnt/other"], timeout=60)
    assert run.only["result"] == "done" and "/mnt/other takes new files" in run.only["evidence"], run.only


@pytest.mark.parametrize("attempt", ["kill-init", "kill-all"])
def test_kill(host, person, profile, attempt, unchanged):
    victim = judge.Victim(person, person.home / f"signals-{attempt}-{profile}")
    try:
        run = person.probe(profile, attempt)
        assert run.status == 0 and run.only["result"] == "refused", run
        assert not victim.changed(), f"OPEN: {victim.changed()}"
    finally:
        victim.process.kill()
        victim.process.wait()


def test_inbound(host, person, profile):
    """A port that is listened on inside is not there outside."""
    port = 20000 + os.getpid() % 20000
    facts = [*host.facts(person, profile), f"listen-port={port}"]
    process = person.start(profile, [PROBE, "inbound", *facts, "wait-ms=700"], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"listening\n"
    reached = []
    for address in ("127.0.0.1", "::1", "198.51.100.1"):
        try:
            socket.create_connection((address, port), 0.3).close()
            reached.append(address)
        except OSError:
            pass
    out, _ = process.communicate(timeout=60)
    assert not reached, f"OPEN: reached at {reached}"
    assert b'"refused"' in out, out
    # control: without a sandbox it is
    process = person.popen([host.probe, "inbound", *facts, "wait-ms=3000"], stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
    except ConnectionResetError:  # it has seen enough and went
        pass
    assert b'"done"' in process.communicate(timeout=60)[0]


def test_terminal_is_its_own(host, person, profile):
    """With a terminal, what the sandbox has is not the caller's: another device, of its own devpts."""
    script = "import os,sys; print('HAS', os.ttyname(0), os.fstat(0).st_dev, sorted(os.listdir('/dev/pts')))"
    run = person.run_on_terminal(profile, ["python3", "-ISc", script])
    name, device = run.text.split("HAS ")[1].split()[:2]
    assert name == "/dev/pts/0"
    assert int(device) != os.stat("/dev/pts").st_dev, "OPEN: the caller's terminal is inside"


def test_symlink_in_workspace(host, person, profile, unchanged):
    """A folder of the workspace that becomes a link out: what is brought back does not follow it."""
    work, outside = person.folder(), person.folder(0o777)
    (work / "sub").mkdir()
    (work / "sub/file").write_text("mine\n")
    (outside / "file").write_text("theirs\n")
    for path in (work / "sub", work / "sub/file", outside / "file"):
        os.chown(path, person.uid, person.gid)
    script = f"rm -r sub && ln -s {outside} sub && ln -s {outside}/file direct; echo x >new; ls -l"
    run = person.run(profile, ["/bin/sh", "-c", script], ["--workspace", str(work), "--apply", "--cwd", str(work)])
    assert (outside / "file").read_text() == "theirs\n", f"OPEN: {run}"
    assert sorted(os.listdir(outside)) == ["file"], f"OPEN: {run}"


def test_hostile_files_in_workspace(host, person, profile, unchanged):
    """Set-id bits, devices and fifos do not come back; hooks only when asked for."""
    work = person.folder()
    script = ("import os\n"
              "for n,m in (('a',0o4755),('b',0o2755)):\n"
              "    open(n,'w').close()\n"
              "    try: os.chmod(n,m)\n"
              "    except PermissionError: pass\n"
              "os.mkfifo('fifo')\n"
              "os.makedirs('.git/hooks'); open('.git/hooks/pre-commit','w').write('#!/bin/sh\\ntouch /tmp/owned\\n')\n"
              "open('good','w').write('good')\n")
    person.run(profile, ["python3", "-ISc", script], ["--workspace", str(work), "--apply", "--cwd", str(work)])
    for path in work.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), f"OPEN: {path} is special"
        assert not mode & (stat.S_ISUID | stat.S_ISGID), f"OPEN: {path} has mode {mode:o}"
    assert not (work / ".git/hooks/pre-commit").exists(), "OPEN: a hook came back without being asked for"


@pytest.mark.parametrize("which", ["configuration", "cache", "state", "named profiles", "programs"])
def test_own_folders_are_not_shared(host, person, which):
    """What the next launcher obeys or executes cannot be shared as writable."""
    folder = person.folder()
    environment = {"XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder,
                   "STOCKADE_PROFILES": folder}
    key = {"configuration": "XDG_CONFIG_HOME", "cache": "XDG_CACHE_HOME", "state": "XDG_STATE_HOME",
           "named profiles": "STOCKADE_PROFILES"}.get(which)
    if key is None:
        folder = host.launcher.parent
    elif person.name == "root" and which in ("cache", "state"):
        key, folder = None, Path("/var/cache" if which == "cache" else "/var/lib")
    run = person.run("low", ["true"], ["--rw", f"{folder}:/mnt/share"], env={key: str(environment[key])} if key else {})
    assert run.status == 125 and b"own" in run.err, f"OPEN: {run}"
