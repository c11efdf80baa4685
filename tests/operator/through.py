#!/usr/bin/python3
"""Takes the place of `stockade` for the judge, so that every check of `stockade verify` is made in sandboxes that live.

    through.py WAY FOLDER run OPTION… -- COMMAND…    what the judge calls: the options of `stockade run`
    through.py WAY FOLDER profile …                  passed on to `stockade`
    through.py WAY FOLDER down                       ends the daemon and everything of it, whatever state it is in

WAY says how the sandbox of a run comes to be, in which the command is then executed by `stockade exec`:
    exec   it was made when it was asked for, and has been used before
    pool   it waited in the pool, ready, before anybody asked for it
    fork   it is a fork of a snapshot of one that was used
Standard input is descriptor 9: Python itself refuses to start with some that have to be tried (a folder).
FOLDER has `stockade` (a link or a copy with its other programs beside it), state and log of the daemon, and what has to
be known from one call to the next. The judge lives in namespaces of its own; the daemon is started by the first call, in
that world, with that environment, and so is attacked through what is planted there.

A run has a sandbox to itself, which is deleted after it, also if this program is killed. What the judge calls a record
is made of the run as the daemon tells it, of the ledger, and of the kernel's own count of processes.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

WAY, FOLDER, VERB, WORDS = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
STOCKADE, STATE = FOLDER / "stockade", FOLDER / "state"
ENVIRONMENT = {**os.environ, "STOCKADE_SOCKET": str(STATE / "run/operator.sock")}
FAILED, STDIN = 125, 9
# options of `stockade run` that are a key of the profile
KEYS = {"--memory": "limits.memory", "--cpus": "limits.cpus", "--processes": "limits.processes", "--files": "limits.files",
        "--size": "files.workspace.size", "--inodes": "files.workspace.inodes", "--output": "limits.output",
        "--cpu-time": "budget.cpu", "--disk-write": "limits.disk_write"}
# what a run's end says of the limit that ended it
ENDS = {"timeout": "time.run", "oom": "limits.memory", "output_limit": "limits.output", "budget": "budget.cpu",
        "disk_full": "files.write"}
RULES = {"connections": "limits.connections", "lookups": "limits.lookups", "egress": "budget.egress"}
PLACES = ("/mnt/share", "/mnt/other", "/mnt/disk")  # folders that are asked for only to have another one that is writable


def refuse(text):
    print(f"stockade: {text}", file=sys.stderr)
    sys.exit(FAILED)


def ask(*words):
    """What `stockade` says, as JSON; its own refusal is ours."""
    done = subprocess.run([STOCKADE, *words, "--json"], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        try:
            error = json.loads(done.stderr)["error"]
            refuse(f"{error['message']}\n  hint: {error['hint']}")
        except (ValueError, LookupError, TypeError):
            refuse(f"{words[0]}: status {done.returncode}: {done.stderr or done.stdout}")
    return json.loads(done.stdout)


# --- the daemon

def answers():
    return subprocess.run([STOCKADE, "health"], capture_output=True, env=ENVIRONMENT).returncode == 0


def up(shown):
    """The daemon of this world, which may show the files that the judge shows."""
    if (FOLDER / "pid").exists():
        return
    usual = subprocess.run([STOCKADE, "up", "--print-config"], capture_output=True, text=True, env=ENVIRONMENT).stdout
    usual = re.search("^ceiling_read = (.*)$", usual, re.MULTILINE).group(1)
    (FOLDER / "conf").write_text(f"listen = none\ndrivers = {os.environ.get('STOCKADE_DRIVER', 'native')}\npool = {1 if WAY == 'pool' else 0}\nceiling_read = {usual} {' '.join(shown)}\n")
    with open(FOLDER / "log", "ab") as log:
        process = subprocess.Popen([STOCKADE, "up", "--state", STATE, "--config", FOLDER / "conf"], stdout=log, stderr=log,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
    (FOLDER / "pid").write_text(str(process.pid))
    for _ in range(1200):
        if answers():
            return
        time.sleep(0.05)
    refuse("the daemon does not come up: " + (FOLDER / "log").read_text(errors="replace")[-500:])


def down():
    if not (FOLDER / "pid").exists():
        return
    pid = int((FOLDER / "pid").read_text())
    subprocess.run([STOCKADE, "down", "--stop-sandboxes"], capture_output=True, env=ENVIRONMENT, timeout=60)
    for _ in range(1200):
        try:
            if str(STATE) not in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                return
        except OSError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    sys.exit("through: the daemon does not end")


# --- what is asked for

def seen(path):
    """A file that the operator's user can look up: the judge keeps some in a folder that is closed to others."""
    if not pathlib.Path(path).parent.stat().st_mode & 1:
        copy = FOLDER / "shown" / pathlib.Path(path).name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(path, copy)
            copy.chmod(pathlib.Path(path).stat().st_mode & 0o7777)
        return str(copy)
    return path


class Wish:
    """One command line of the judge's."""

    def __init__(self, words):
        self.create, self.execute, self.shown, self.record, self.profile = [], [], {}, None, "low"
        self.tty, self.own, self.written = False, "", []
        words = iter(words)
        for word in words:
            if word == "--":
                break
            self.take(word, words)
        self.command = list(words)
        self.move()

    def take(self, word, words):
        if word in KEYS:
            self.set(KEYS[word], next(words))
        elif word in ("--tty", "--no-tty"):
            self.tty = word == "--tty"
        elif word == "--quiet":
            pass
        elif word == "--profile":
            self.profile = next(words)
        elif word == "--ro":
            path, _, place = next(words).partition(":")
            self.shown[place] = seen(path)
        elif word == "--rw":
            _, _, place = next(words).partition(":")
            if place not in PLACES:
                refuse("a sandbox of the daemon gets no folder of its host to write to")
            self.written.append(place)
        elif word == "--record":
            self.record = pathlib.Path(next(words))
        elif word in ("--set", "--allow", "--secret"):
            self.create += [word, next(words)]
        elif word in ("--env", "--timeout", "--cwd"):
            self.execute += [word, next(words)]
        else:
            refuse(f"a sandbox of the daemon has no {word}")

    def set(self, key, value):
        self.create += ["--set", f"{key}={value}"]

    def move(self):
        """A path of the host is shown at its own place, and nowhere else."""
        def moved(word):
            key, is_fact, path = word.partition("=")
            return key + is_fact + self.shown[path] if path in self.shown else self.shown.get(word, word)
        # where nothing is shared, attempts on a shared folder are made where the sandbox may write
        self.command = [moved(word) for word in self.command if not re.fullmatch("share=/mnt/share", word)]
        read = ["/usr", *self.shown.values()]
        self.set("files.read", ",".join(read))
        policy = json.loads(subprocess.run([STOCKADE, "profile", "show", "--json", self.profile], capture_output=True).stdout)
        policy = policy["policy"]
        if policy.get("tools", {}).get("exec"):
            self.set("tools.exec", ",".join(read))
        others = [place for place in self.written if place != "/mnt/share"]
        if others:
            self.set("files.write", ",".join([*self.places(policy), *others]))
        self.create += ["--profile", self.profile]

    @staticmethod
    def places(policy):
        return [entry if isinstance(entry, str) else entry["path"] for entry in policy["files"]["write"]]

    def kind(self):
        """The same for wishes that get the same sandbox, whatever the file of its profile is called."""
        text = pathlib.Path(self.profile).read_text() if "/" in self.profile else self.profile
        return hashlib.sha256(json.dumps([text, self.create]).encode()).hexdigest()[:16]


# --- sandboxes

NAME = f"through-{os.getpid()}"  # what is made is found by it, even if whoever asked was killed before the answer


def remove(sandbox):
    return subprocess.run([STOCKADE, "delete", "--force", sandbox], capture_output=True, env=ENVIRONMENT).returncode == 0


def used(wish):
    """One that is asked for, made, and used."""
    sandbox = ask("create", "--name", NAME, *wish.create)["id"]
    subprocess.run([STOCKADE, "exec", sandbox, "true"], stdin=subprocess.DEVNULL, capture_output=True, env=ENVIRONMENT)
    return sandbox


def pooled(wish):
    """One that was ready. The first of a kind is made, and those that follow wait in the pool. What has an authority of
    its own to open TLS is never pooled."""
    for turn in range(12):
        sandbox = ask("create", "--name", NAME, *wish.create)
        if sandbox["from_pool"] or turn == 11:
            return sandbox["id"]
        remove(sandbox["id"])
        time.sleep(0.05 * turn)  # where all is slow, it is filled later


def forked(wish):
    """Its snapshot is taken once for each kind."""
    kept = FOLDER / f"snapshot-{wish.kind()}"
    if not kept.exists():
        first = used(wish)
        snapshot = ask("snapshot", first)
        remove(first)
        kept.write_text(snapshot["id"])
    secrets = [word for at, word in enumerate(wish.create) if word == "--secret" or wish.create[at - 1:at] == ["--secret"]]
    return ask("fork", "--name", NAME, kept.read_text(), *secrets)["id"]


def note(sandbox):
    """How it came to be, for whoever asks whether the judge judged what it was to judge."""
    shown = ask("show", sandbox)
    with open(FOLDER / "made", "a") as made:
        print(json.dumps({key: shown[key] for key in ("id", "profile", "from_pool", "origin", "persistent")}), file=made)


# --- the record

def processes_of(sandbox):
    """How many processes there were at most, as the kernel counts; None where it does not."""
    for top in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        for folder, names, _ in os.walk(top):  # others' come and go meanwhile
            if f"stockade-{sandbox}" not in names:
                continue
            try:
                return int(pathlib.Path(folder, f"stockade-{sandbox}", "pids.peak").read_text())
            except OSError:
                continue
    return None


def events_of(sandbox):
    """The limits that were hit and what the gate refused, as the ledger has it."""
    hits, denials = set(), []
    for line in subprocess.run([STOCKADE, "events", "--json", sandbox], capture_output=True, text=True,
                               env=ENVIRONMENT).stdout.splitlines():
        event = json.loads(line)
        if event["kind"] == "limit.hit":
            hits.add(event["data"]["limit"])
        elif event["kind"] == "budget.hit":
            hits.add(event["data"]["budget"])
        elif event["kind"] in ("net.deny", "dns.deny"):
            denials.append({**event["data"], "rule": RULES.get(event["data"]["reason"], "network.allow")})
    return hits, denials


def write_record(wish, sandbox):
    shown = ask("show", sandbox)  # asks the kernel, and so comes after what the kernel counted of the run
    run = shown["runs"][0]
    hits, denials = events_of(sandbox)
    if run["reason"] in ENDS:
        hits.add(ENDS[run["reason"]])
    peak = processes_of(sandbox)
    record = {"reason": run["reason"], "status": run["exit_code"], "limits_hit": sorted(hits), "denials": denials,
              "workspace": "disk" if shown["persistent"] else "memory",
              "usage": {"memory_peak": run["memory_peak"], **({"processes_peak": peak} if peak is not None else {})},
              "run": run}
    wish.record.write_text(json.dumps(record))


# --- a run

def keeper():
    """Deletes the sandbox when this program has ended, however it did. It is told by a pipe that nobody else has. What was
    asked for is made even if nobody waits for it, so it is looked for a little longer; not as long as the judge waits (5 s),
    to whom this process is one of the sandbox's."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(theirs)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        null = os.open("/dev/null", os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        end = time.monotonic() + (0.3 if os.read(ours, 1) else 3)
        while not remove(NAME) and time.monotonic() < end:
            time.sleep(0.02)
        os._exit(0)
    os.close(ours)
    return theirs


def run():
    wish = Wish(WORDS)
    up(sorted({*wish.shown.values()}))
    held = keeper()
    sandbox = {"exec": used, "pool": pooled, "fork": forked}[WAY](wish)
    note(sandbox)
    streams = ["--interactive", *(["--tty"] if wish.tty else [])]
    child = subprocess.Popen([STOCKADE, "exec", *streams, *wish.execute, sandbox, *wish.command], env=ENVIRONMENT, stdin=STDIN)
    os.close(STDIN)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda n, _: child.send_signal(n))
    status = child.wait()
    if wish.record:
        write_record(wish, sandbox)
    os.write(held, b"x")
    sys.exit(status if status >= 0 else 128 - status)


if VERB == "run":
    try:
        run()
    except Exception as e:  # the judge must not take our own trouble for the command's
        refuse(f"through.py: {type(e).__name__}: {e}")
elif VERB == "down":
    down()
else:
    os.execve(STOCKADE, [STOCKADE, VERB, *WORDS], ENVIRONMENT)
