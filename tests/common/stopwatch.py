"""How long something took those who did it, on a machine that has other work too.

A program that is ready to run waits until a processor is free. The kernel counts that for each thread (/proc/…/schedstat, the
second number), and Stopwatch takes it off: what is left was spent by the program itself, by working, by sleeping, or by waiting
for somebody who was not named. A bound on that is kept or broken by the program alone, so it needs no room for a busy machine."""
import os
import threading
import time
from pathlib import Path


def waited(task):
    """Seconds that this thread was ready to run and had no processor."""
    try:
        return int(Path(f"/proc/{task}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # it has ended, or this kernel does not count
        return 0


class Stopwatch:
    """Runs from where it is made. pids: who has a part in it, besides this thread; all threads of each count."""

    def __init__(self, *pids):
        self.pids, self.own = pids, f"self/task/{threading.get_native_id()}"
        self.before = {task: waited(task) for task in self.tasks()}
        self.begin = time.monotonic()

    def tasks(self):
        found = [self.own]
        for pid in self.pids:
            try:
                found += [f"{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task")]
            except OSError:
                pass
        return found

    @property
    def wall(self):
        return time.monotonic() - self.begin

    @property
    def seconds(self):
        wall = self.wall
        return wall - sum(max(0, waited(task) - self.before.get(task, 0)) for task in self.tasks())


def quickest(act, below, tries=6):
    """For what is done by processes that come and go. Seconds by the clock that act() took, or that it says it took, in as many
    tries as it needs to be below that: what the program holds up is held up each time, what the machine does is not."""
    took = []
    while not took or (took[-1] >= below and len(took) < tries):
        begin = time.monotonic()
        said = act()
        took.append(time.monotonic() - begin if said is None else said)
    return took[-1]
