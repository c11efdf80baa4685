"""A person at a terminal: the launcher on a pseudo-terminal, with what it shows and what is typed."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import harness

TIOCSWINSZ = termios.TIOCSWINSZ


class Terminal:
    def __init__(self, person, *args, rows=24, columns=80, argv=None, env=None, cwd=None, stderr=True, new_session=True):
        self.master, slave = pty.openpty()
        self.slave_name = os.ttyname(slave)
        if harness.IS_ROOT:
            os.chown(self.slave_name, person.uid, person.gid)
        self.resize(rows, columns)
        self.settings = termios.tcgetattr(slave)
        self.record = person.home / "record.json"
        argv = argv or person.command(*args, record=self.record)
        prepare = (lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if new_session else None
        self.process = person.popen(argv, env=env, cwd=cwd or person.home, stdin=slave, stdout=slave,
                                    stderr=slave if stderr else subprocess.DEVNULL,
                                    start_new_session=new_session, first=prepare)
        self.slave = slave  # kept open, so that settings can be looked at afterwards
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data):
        os.write(self.master, data.encode() if isinstance(data, str) else data)

    def read_some(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.seen += os.read(self.master, 65536)
            return True
        return False

    def expect(self, pattern, seconds=harness.ENOUGH):
        """Waits until the pattern is shown; what is before it and the pattern itself are forgotten."""
        pattern = re.compile(pattern.encode() if isinstance(pattern, str) else pattern)
        end = time.monotonic() + seconds * harness.SLOW
        while True:
            found = pattern.search(self.seen)
            if found:
                self.seen = self.seen[found.end():]
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{pattern.pattern!r} not shown, but {self.seen[-1500:]!r}")
            self.read_some(0.05)

    def now(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.now()[3] & termios.ICANON

    def wait(self, seconds=harness.ENOUGH):
        """Waits for the launcher, showing what comes; returns its status."""
        end = time.monotonic() + seconds * harness.SLOW
        while self.process.poll() is None:
            assert time.monotonic() < end, f"still running; shown: {self.seen[-1500:]!r}"
            self.read_some(0.02)
        while self.read_some(0.02):
            pass
        return self.process.returncode

    def close(self):
        harness.stop(self.process)
        os.close(self.slave)
        os.close(self.master)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
