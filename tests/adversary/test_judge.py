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
        sleeper = host.wait_for_process("sleep 101")
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
            f"host-pidns={host.host_pidns}", "control=yes"]
    process = person.popen(["/bin/sh", "-c", 'exec "$@" 3<>/dev/null', "sh", *argv], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
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


def listed(host, *flags):
    said = subprocess.run([host.probe, "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[1] for line in said.splitlines() if all(flag in line.split()[2:] for flag in flags)]


@pytest.mark.parametrize("kind", ["user", "root"])
def test_nothing_runs_unasked(host, kind):
    """Without the judge's word, or in its pid namespace without control=yes, not even harmless attempts run."""
    person = host.person("rootless" if kind == "user" else "root")
    for facts in ([], ["control=yes"], ["host-pidns="], ["host-pidns=12x", "control=yes"], ["host-pidns=-1", "control=yes"],
                  [f"host-pidns={host.host_pidns}"], [f"host-pidns={host.host_pidns}", "control=no"]):
        for name in ("all-quick", "kill-all", "tcp-v4"):
            process = person.popen([host.probe, name, *facts], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = process.communicate(timeout=60)
            assert process.returncode == 2 and not out and b"nothing is tried here" in err, (name, facts, out, err)


def test_set_user_id_copy_does_nothing(host):
    """Whoever finds the set-user-ID copy cannot have it read root's files."""
    facts = [f"host-pidns={host.host_pidns}", "control=yes", f"canary-root={host.canaries['root']}"]
    process = host.person("rootless").popen([host.setid, "host-root-file", *facts], stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and not out and b"set-user-ID" in err, (out, err)


@pytest.mark.parametrize("kind", ["user", "root"])
def test_guarded_attempts_do_not_run_outside(host, kind):
    person = host.person("rootless" if kind == "user" else "root")
    names = listed(host, "guarded")
    assert len(names) > 30
    first = host.host_pidns == 0xeffffffc  # the machine's first pid namespace is known whatever is said
    for lie in [host.host_pidns, *([1] if first else [])]:
        process = person.popen([host.probe, ",".join(names), f"host-pidns={lie}", "control=yes"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=60)
        lines = judge.Run(process.returncode, out, err, None, 0).lines
        assert set(lines) == set(names), (out, err)
        assert {line["result"] for line in lines.values()} == {"guarded"}, lines


def known_as(uid):
    """The same id under another name."""
    return ["bwrap", "--bind", "/", "/", "--unshare-user", "--uid", str(uid), "--gid", str(uid)]


@pytest.mark.parametrize("around, why", [
    ([], "user namespace"),                                       # the host's root in a pid namespace of its own
    (["unshare", "--user", "--map-root-user"], "host's root"),    # under another name for the same id
    (known_as(65534), "host's root"),                             # and that is how the kernel shows whom it cannot name
    ([*known_as(1000), *known_as(7)], "host's root"),             # two maps, the nearer of which does not show 0
    (["setpriv", "--reuid=4242", "--clear-groups", "--inh-caps=+sys_admin", "--ambient-caps=+sys_admin"],
     "user namespace"),
], ids=["root", "mapped", "overflow", "nested", "capable"])
def test_guard_believes_only_a_sandbox(host, around, why):
    """In a pid namespace where somebody is, or can become, the host's root nothing guarded runs."""
    out = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", *around, host.probe, "kill-all",
                          f"host-pidns={host.host_pidns}"], capture_output=True, text=True, check=False)
    assert '"guarded"' in out.stdout and why in out.stdout, out


@pytest.mark.parametrize("fake", ["mount -t tmpfs none /proc", "mount -t tmpfs none /proc; mkdir -p /proc/self/ns "
                                  "/proc/sys/kernel; touch /proc/self/ns/pid /proc/self/ns/user; "
                                  "echo 65534 >/proc/sys/kernel/overflowuid; echo '0 1000 1' >/proc/self/uid_map"],
                         ids=["absent", "faked"])
def test_guard_needs_a_real_proc(host, fake):
    out = subprocess.run(["unshare", "--pid", "--mount", "--fork", "sh", "-c", f'{fake}; exec "$@"', "sh", host.probe,
                          "kill-all", f"host-pidns={host.host_pidns}"], capture_output=True, text=True, check=False)
    assert out.returncode == 2 and not out.stdout and "cannot tell" in out.stderr, out


def test_weak_sandbox_is_found_out(host):
    """A sandbox that is none, driven through the judge's own verdicts: it must not pass."""
    person = host.person("root")
    argv = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--unshare-pid", "--proc", "/proc"]
    host.forget()
    folder = person.folder()
    facts = [*host.facts(person, "low"), f"folder={folder}", f"share={folder}"]
    process = person.popen([*argv, host.probe, "all-quick", *facts],
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
    check = table.Check("x", "files", "nothing", "EPERM", "user", secrets=["SECRET"])
    line = {"result": "refused", "errno": "EPERM", "evidence": ""}
    assert judge.verdict(check, line) == judge.PROMISED
    assert judge.verdict(check, {**line, "errno": "EIO"}) == judge.OTHERWISE
    assert judge.verdict(check, {**line, "result": "done"}) == OPEN
    assert judge.verdict(check, {**line, "evidence": "SECRET"}) == OPEN
    assert judge.verdict(check, line, ["a listener was reached"]) == OPEN
    assert judge.verdict(check, {**line, "result": "guarded"}) == UNTRIED
    assert judge.verdict(check, None) == UNTRIED
