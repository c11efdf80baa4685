"""The judge judged: the same attempts where nothing, or little, stands in their way. A check that never says OPEN proves
nothing, so every row names a place where it does, and this file goes there.

Nothing destructive runs here: the probe refuses what is guarded outside a sandbox of the judge's, which is tested
first."""
import os
import subprocess

import pytest

import judge
import table
from judge import OPEN, UNTRIED

WEAK = {}


def weak(host, kind):
    """Runs all quick attempts without a sandbox: as an ordinary user, or as root in a mount namespace."""
    if kind in WEAK:
        return WEAK[kind]
    root = host.person("root")
    person = host.person("rootless") if kind == "user" else root
    share = person.folder(0o700)
    victim = judge.Victim(person, person.home / f"signals-weak-{kind}")
    sibling = root.start("low", ["/bin/sh", "-c", f"echo {host.token('sibling-file')} >/tmp/sibling; echo ready; "
                                 "exec sleep 101"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    leak = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    terminal = os.openpty()
    try:
        sibling.stdout.readline()
        sleeper = next(pid for pid, words in host.marked_processes().items() if words.startswith("sleep 101"))
        host.forget()
        facts = [word for word in host.facts(person, "low") if not word.startswith("setid=")]
        argv = [host.probe, "all-quick", *facts, f"setid={host.setid}", f"share={share}", f"folder={share}",
                f"host-pid={victim.pid}", "sibling-file=/tmp/sibling", f"sibling-pid={sleeper}"]
        if kind == "root":
            argv = ["unshare", "--mount", "--propagation", "private", *argv]
        process = person.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               pass_fds=(leak,))
        out, err = process.communicate(timeout=120)
        run = judge.Run(process.returncode, out, err, None, 0)
        run.heard = {name: host.heard(name) for name in table.BY_NAME}
        run.victim = victim.changed()
    finally:
        for fd in (leak, *terminal):
            os.close(fd)
        sibling.kill()
        sibling.communicate()
        victim.process.kill()
        victim.process.wait()
    WEAK[kind] = run
    return run


def seen(run, name):
    return run.heard[name] + (run.victim if name in ("kill-host", "pidfd-host", "priority-user") else [])


@pytest.mark.parametrize("name", [check.name for check in table.CHECKS if check.control == "init"])
def test_opens_with_an_ordinary_init(host, name):
    """PID 1 is the probe itself, with a descriptor 3, in namespaces of a user's own."""
    check, person = table.BY_NAME[name], host.person("rootless")
    argv = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", host.probe, name,
            f"host-pidns={host.host_pidns}"]
    process = person.popen(["/bin/sh", "-c", 'exec "$@" 3<>/dev/null', "sh", *argv], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=20)
    run = judge.Run(process.returncode, out, err, None, 0)
    found = judge.verdict(check, run.lines.get(name))
    assert found == OPEN, f"{found}: {run}: this check would not notice a missing {check.mechanism}"


@pytest.mark.parametrize("name", [check.name for check in table.CHECKS if check.control in ("user", "root")])
def test_opens_without_a_sandbox(host, name):
    check = table.BY_NAME[name]
    run = weak(host, check.control)
    found = judge.verdict(check, run.lines.get(name), seen(run, name))
    assert found == OPEN, f"{found}: {run.lines.get(name)}: this check would not notice a missing {check.mechanism}"


def test_host_is_whole_afterwards(host):
    """Even as the host's root the quick attempts change nothing."""
    before = host.digest()
    WEAK.pop("root", None)
    run = weak(host, "root")
    assert run.status == 0
    assert not host.changes_since(before)
    assert oct(os.stat("/dev/null").st_mode) == "0o20666"


@pytest.mark.parametrize("kind", ["user", "root"])
def test_guarded_attempts_do_not_run_outside(host, kind):
    said = subprocess.run([host.probe, "list"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[1] for line in said.splitlines() if line.startswith("exhaustion")]
    person = host.person("rootless" if kind == "user" else "root")
    for name in [*names, "kill-all", "kill-init", "writable-sweep", "leave", "daemonise", "stay", "proc-rest"]:
        for facts in ([], [f"host-pidns={host.host_pidns}"], ["host-pidns=1"]):
            if kind == "user" and facts == ["host-pidns=1"]:
                continue  # a user's own lie: it maps nobody to id 0, and could run a bomb without us just as well
            process = person.popen([host.probe, name, *facts], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = process.communicate(timeout=20)
            assert b'"guarded"' in out, (name, facts, out, err)


def test_guard_believes_only_a_sandbox(host):
    """In a pid namespace whose root is the host's root, too, nothing guarded runs."""
    out = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", host.probe, "kill-all",
                          f"host-pidns={host.host_pidns}"], capture_output=True, text=True, check=True).stdout
    assert '"guarded"' in out and "id 0 of the host" in out, out


def test_weak_sandbox_is_found_out(host):
    """A sandbox that is none, driven through the judge's own verdicts: it must not pass."""
    person = host.person("root")
    argv = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--unshare-pid", "--proc", "/proc"]
    host.forget()
    process = person.popen([*argv, host.probe, "all-quick", *host.facts(person, "low"), f"folder={person.folder()}"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=120)
    lines = judge.Run(process.returncode, out, err, None, 0).lines
    verdicts = {name: judge.verdict(check, lines.get(name), host.heard(name)) for name, check in table.BY_NAME.items()}
    found = [name for name, said in verdicts.items() if said == OPEN]
    for name in ("host-home-file", "host-root-file", "proc-sys", "tcp-v4", "unix-abstract", "vsock", "interfaces",
                 "setid-chmod", "unshare-user", "call-userfaultfd", "sysv-shared", "key-read", "symlink-out"):
        assert name in found, (name, lines.get(name))
    assert len(found) >= 40, found


def test_verdicts():
    check = table.Check("x", "files", "nothing", "EPERM", "user", ["SECRET"])
    line = {"result": "refused", "errno": "EPERM", "evidence": ""}
    assert judge.verdict(check, line) == judge.PROMISED
    assert judge.verdict(check, {**line, "errno": "EIO"}) == judge.OTHERWISE
    assert judge.verdict(check, {**line, "result": "done"}) == OPEN
    assert judge.verdict(check, {**line, "evidence": "SECRET"}) == OPEN
    assert judge.verdict(check, line, ["a listener was reached"]) == OPEN
    assert judge.verdict(check, {**line, "result": "guarded"}) == UNTRIED
    assert judge.verdict(check, None) == UNTRIED
