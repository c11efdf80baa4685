"""The kinds of sandboxes of the soak, the kills, and how one run is carried out."""
import collections
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

Plan = collections.namedtuple("Plan", "number who kind kill delay slot")
Kind = collections.namedtuple("Kind", "weight options command status")

FETCH = ("exec 3<>/dev/tcp/example.test/80; "
         "printf 'GET / HTTP/1.1\\r\\nHost: example.test\\r\\nConnection: close\\r\\n\\r\\n' >&3; grep -q hello <&3")
STRANGER = "! (exec 3<>/dev/tcp/evil.test/80) 2>/dev/null"
FORKS = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (setsid sleep 30 &); (trap '' TERM HUP; sleep 30) & done; sleep 0.01"
KINDS = {
    "plain": Kind(20, [], ["true"], [0]),
    "medium": Kind(10, ["--profile", "medium"], ["sh", "-c", "echo x > ~/file; cat ~/file"], [0]),
    "status": Kind(5, [], ["sh", "-c", "cat; exit 7"], [7]),
    "terminal": Kind(10, ["--tty"], ["sh", "-c", "tty; stty size"], [0]),
    "apply": Kind(10, ["--workspace", "{slot}", "--apply"], ["sh", "-c", "echo new > file; echo x > added"], [0]),
    "discard": Kind(5, ["--workspace", "{slot}", "--discard"], ["sh", "-c", "rm file; mkdir -p a/b; echo y > a/b/c"], [0]),
    "network": Kind(10, ["--profile", "{network}"], ["bash", "-c", FETCH], [0]),
    "refused": Kind(5, ["--profile", "{network}"], ["bash", "-c", STRANGER], [0]),
    "timeout": Kind(5, ["--timeout", "60ms"], ["sleep", "30"], [124]),
    "memory": Kind(5, ["--memory", "16MiB"], ["sh", "-c", "x=$(head -c 50000000 /dev/zero | tr '\\0' a); echo $x"], [137]),
    "forks": Kind(10, ["--processes", "64"], ["sh", "-c", FORKS], [0]),
    "output": Kind(3, ["--output", "64KiB"], ["sh", "-c", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxx; done"], [137]),
}
VICTIMS = {"launcher": 10, "keeper": 4, "gate": 3, "guest": 4, "all": 5, "group": 2}
ROOTLESS_SHARE, KILL_SHARE = 0.33, 0.4
LONGEST = 60.0  # a run that takes longer is a surprise


def moment(draw):
    """Seconds: most while the sandbox is being made or taken apart, some while it runs."""
    return draw.choice([draw.uniform(0, 0.004), draw.uniform(0, 0.01), draw.uniform(0, 0.02), draw.uniform(0, 0.06)])


def make_plans(draw, count):
    names, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
    plans = []
    for number in range(count):
        who = "rootless" if draw.random() < ROOTLESS_SHARE else "root"
        kind = draw.choices(names, weights)[0]
        kill = draw.choices(list(VICTIMS), list(VICTIMS.values()))[0] if draw.random() < KILL_SHARE else None
        if kill == "gate" and kind not in ("network", "refused"):
            kill = "launcher"  # there is none
        plans.append(Plan(number, who, kind, kill, moment(draw), None))
    return plans


def each_kind(slots):
    return [Plan(-1, who, kind, None, 0, slot) for slot in range(slots) for who in ("root", "rootless") for kind in KINDS]


def command(host, who, words):
    """Who runs it. Where there is only cgroup v2, in the group where a login shell of that user would be."""
    uid, home = host.people[who]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm"}
    argv = [str(host.launcher), "run", "--quiet", *words]
    shell = Path(f"/sys/fs/cgroup/stockade/{uid}/shell/cgroup.procs")
    if uid and shell.exists():
        become = f'echo 0 > {shell}; exec setpriv --reuid={uid} --regid={uid} --clear-groups -- "$@"'
        return {"args": ["sh", "-c", become, "sh", *argv], "env": environment, "cwd": home}
    return {"args": argv, "env": environment, "cwd": home, "user": uid, "group": uid, "extra_groups": []}


def run(host, who, words):
    return subprocess.run(**command(host, who, words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=LONGEST, check=False)


def place(host, who, slot):
    """The workspace of one of the parallel runs."""
    uid, home = host.people[who]
    path = home / f"slot-{slot}"
    if not path.exists():
        path.mkdir()
        os.chown(path, uid, uid)
        write_old(path, uid)
    return path


def write_old(path, uid):
    (path / "file").write_text("old\n")
    os.chown(path / "file", uid, uid)


OLD, NEW = {"file": "old\n"}, {"added": "x\n", "file": "new\n"}
# what the command had written when PID 1 was killed: that is applied as it is
CUT = ({"file": ""}, {"file": "new\n"}, {"added": "", "file": "new\n"})


def restore(host, who, path, cut=False):
    """After anything: the next run with this workspace finishes or undoes what was cut short; then it is wholly old or
    wholly new, and is made old again. Returns what is wrong with it."""
    done = run(host, who, ["--workspace", str(path), "--apply", "--", "true"])
    found = {name: (path / name).read_text() if (path / name).is_file() else None for name in sorted(os.listdir(path))}
    wrong = None
    if done.returncode:
        wrong = f"the next apply ended with {done.returncode}: {done.stderr.decode()[:300]}"
    elif found not in (OLD, NEW, *(CUT if cut else ())):
        wrong = f"the workspace is neither old nor new: {found}"
    (path / "added").unlink(missing_ok=True)
    write_old(path, host.people[who][0])
    return wrong


# --- kills

def tree(pid):
    """The processes below pid as (pid, name)."""
    found, waiting = [], [pid]
    while waiting:
        try:
            with open(f"/proc/{waiting[0]}/task/{waiting[0]}/children", encoding="ascii") as file:
                below = [int(word) for word in file.read().split()]
        except (OSError, ValueError):
            below = []
        for child in below:
            try:
                with open(f"/proc/{child}/comm", encoding="utf-8", errors="replace") as file:
                    found.append((child, file.read().strip()))
            except OSError:
                pass
        waiting = waiting[1:] + below
    return found


def strike(process, victim, delay):
    """After a while, SIGKILL for those who are meant; one that is named by its name is waited for first. True if anybody
    was there."""
    named = "guest" if victim == "guest" else f"stockade-{victim}"
    end = time.monotonic() + 0.2  # nobody reads its output meanwhile: it may have to wait for us
    while victim in ("keeper", "gate", "guest") and process.poll() is None and time.monotonic() < end:
        if any(name == named for _, name in tree(process.pid)):
            delay /= 4
            break
        time.sleep(0.0005)
    time.sleep(delay)
    below = tree(process.pid)
    if victim == "launcher":
        targets = [process.pid]
    elif victim == "all":
        targets = [process.pid] + [pid for pid, _ in below]
    elif victim == "group":
        try:
            os.killpg(process.pid, signal.SIGKILL)
            return True
        except OSError:
            return False
    else:
        targets = [pid for pid, name in below if name == named]
    hit = False
    for pid in targets:
        if pid == process.pid and process.poll() is not None:
            continue  # its number may be somebody else's by now
        try:
            os.kill(pid, signal.SIGKILL)
            hit = True
        except OSError:
            pass
    return hit


def finish(process, ours):
    """Waits, and reads what it says, to the end of its streams: nobody may hold them longer. None: it did not end."""
    end = time.monotonic() + LONGEST
    if ours is None:
        try:
            process.said = process.communicate(timeout=LONGEST)[1][-300:].decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            process.kill()
            process.said = process.communicate()[1][-300:].decode(errors="replace").strip()
            return None
    while process.poll() is None:
        if time.monotonic() > end:
            process.kill()
            process.wait()
            return None
        if select.select([ours], [], [], 0.02)[0]:
            try:
                os.read(ours, 65536)
            except OSError:  # the other end is closed
                time.sleep(0.002)
    return process.returncode


def carry_out(host, plan, slot):
    """One run. Returns whether something was killed, and what was not as it should be."""
    kind = KINDS[plan.kind]
    path = place(host, plan.who, slot)
    words = [word.format(slot=path, network=host.network) for word in kind.options] + ["--", *kind.command]
    ours, theirs = pty.openpty() if plan.kind == "terminal" else (None, subprocess.DEVNULL)
    out = theirs if ours is not None else subprocess.PIPE
    try:
        process = subprocess.Popen(**command(host, plan.who, words), stdin=theirs, stdout=out, stderr=out,
                                   start_new_session=True)
        if ours is not None:
            os.close(theirs)
            theirs = None
        killed = False
        if plan.kill:
            killed = strike(process, plan.kill, plan.delay)
        status = finish(process, ours)
    finally:
        if ours is not None:
            os.close(ours)
            if theirs is not None:
                os.close(theirs)
    wrong = None
    if status is None:
        wrong = f"still running after {LONGEST:.0f} s"
    elif not killed and status not in kind.status:
        wrong = f"ended with {status}, not {kind.status}"
    elif plan.kill in ("keeper", "gate") and status not in (*kind.status, 125, 1, 2):  # 1, 2: its connection broke
        wrong = f"ended with {status} although only its {plan.kill} was killed"
    if wrong and ours is None and process.said:
        wrong += f": {process.said}"
    if plan.kind == "apply":
        wrong = restore(host, plan.who, path, cut=plan.kill == "guest") or wrong
    return killed, wrong
