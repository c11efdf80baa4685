"""The second part of tools/demo: sandboxes that live. A daemon of its own, on a folder that is gone afterwards.

Every line is what was seen: by the commands that a person would type, and by looking at the host's own processes.
"""
import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import time


class Lives:
    def __init__(self, show, stockade, folder):
        self.show, self.stockade = show, stockade
        self.state = folder / "state"
        self.mark = f"demo-{secrets.token_hex(4)}"

    def run(self, *words, check=True, input=None):
        done = subprocess.run([self.stockade, *words], input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              env={**os.environ, "STOCKADE_STATE": str(self.state)})
        if check and done.returncode:
            raise OSError(f"stockade {' '.join(words)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode(errors="replace").strip()

    def processes(self):
        """The daemon's own, by the folder that they were given."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = entry.joinpath("cmdline").read_bytes().split(b"\0")
                    if words[0].endswith(b"stockaded") and str(self.state).encode() in words:
                        found[int(entry.name)] = "stockaded"
        for pid in list(found):
            with contextlib.suppress(OSError):
                for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                    program = os.path.basename(pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0])
                    if program in (b"stockade-operator", b"stockade-gate"):
                        found[int(child)] = program.decode()
        return found

    def outlives(self):
        self.show.title("Killing every process of ours while a command runs in a sandbox")
        run = self.run("exec", "-d", "demo", "sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done; : {self.mark}")
        time.sleep(0.5)
        victims = self.processes()
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.show.line(bool(victims), "host", f"kill -9 of {' and '.join(sorted(victims.values()))}")
        time.sleep(0.3)
        self.run("up", "--detach")
        end = time.monotonic() + 10
        while (state := self.state_of(run)) != "ended" and time.monotonic() < end:
            time.sleep(0.1)
        counted = self.run("logs", "demo", run).split()
        good = counted == [str(n) for n in range(1, 9)] and state == "ended"
        self.show.line(good, "inside", f"it counted {' '.join(counted)}, and ended",
                       "the sandbox is nobody's child; its terminal and output are kept inside until somebody asks")

    def state_of(self, run):
        runs = json.loads(self.run("runs", "demo", "--json"))["runs"]
        return next((r["state"] for r in runs if str(r["run"]) == run), None)

    def back_and_forth(self):
        self.show.title("Undoing what an agent did, and trying two ways from one point")
        if os.geteuid() != 0:
            self.show.line(True, "host", "not shown: disks and snapshots need root")
            return
        self.run("exec", "demo", "sh", "-c", "echo precious > ~/work; sync")
        start = time.monotonic()
        self.run("snapshot", "demo", "--name", "good")
        took = time.monotonic() - start
        self.run("exec", "demo", "sh", "-c", "rm -f ~/work; echo broken > ~/mess")
        self.show.line(not self.read("demo", "work"), "inside", "the agent removed its work and left a mess")
        start = time.monotonic()
        self.run("rollback", "demo", "good")
        back = time.monotonic() - start
        good = self.read("demo", "work") == "precious" and not self.read("demo", "mess")
        self.show.line(good, "host", f"rolled back in {back * 1000:.0f} ms: the work is there, the mess is not",
                       f"the snapshot of the running sandbox took {took * 1000:.0f} ms; what a rollback costs does not depend on the disk")
        self.run("fork", "good", "--name", "other")
        self.run("exec", "other", "sh", "-c", "echo another way > ~/work")
        good = self.read("other", "work") == "another way" and self.read("demo", "work") == "precious"
        self.show.line(good, "host", "a fork went another way, and the first did not notice")

    def read(self, sandbox, name):
        return self.run("exec", sandbox, "sh", "-c", f"cat ~/{name} 2>/dev/null; :")

    def record(self):
        self.show.title("What is on record")
        self.run("ledger", "verify", "--state", str(self.state))  # raises unless every event fits
        kinds = [json.loads(line)["kind"] for line in self.run("events", "--json").splitlines()]
        good = "run.start" in kinds and "sandbox.create" in kinds
        self.show.line(good, "ledger", f"{len(kinds)} events, chained by hashes and signed: verified",
                       "out of every sandbox's reach: stockade ledger verify")

    def present(self):
        print("\nAnd sandboxes that live: a daemon (" + str(self.state) + ") keeps them until they are deleted.")
        try:
            self.run("up", "--detach")
            self.run("create", "--name", "demo", "--profile", "medium" if os.geteuid() == 0 else "low")
            for act in (self.outlives, self.back_and_forth, self.record):
                try:
                    act()
                except (OSError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as error:
                    self.show.line(False, "demo", f"could not be shown: {type(error).__name__}: {str(error)[:300]}")
        except OSError as error:
            self.show.line(False, "demo", f"could not be shown: {str(error)[:500]}")
        finally:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                for sandbox in self.run("list", "-q", check=False).split():
                    self.run("delete", "--force", sandbox, check=False)
                self.run("down", "--stop-sandboxes", check=False)
            left = self.processes()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if left:
                self.show.line(False, "after", f"processes were left, and are ended now: {sorted(left)}")
