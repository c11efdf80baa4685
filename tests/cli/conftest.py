"""The client against an operator of our own (fake.py): framing, streams, what a hostile answer can do.

STOCKADE   the program to test (default: build/src/cli/stockade)
"""
import os
import pathlib
import subprocess

import pytest

from fake import Operator

SOURCE = pathlib.Path(__file__).resolve().parents[2]
STOCKADE = os.environ.get("STOCKADE") or str(SOURCE / "build/src/cli/stockade")


class Client:
    program, uid = STOCKADE, os.geteuid()

    def __init__(self, socket, cwd):
        self.socket, self.cwd = socket, cwd

    def become(self):
        """In the child: whoever this is."""

    def environment(self, extra=None):
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.cwd), "TERM": "xterm", "LANG": "C.UTF-8",
                "STOCKADE_SOCKET": self.socket, **(extra or {})}

    def popen(self, *args, env=None, **kw):
        for stream in ("stdin", "stdout", "stderr"):
            kw.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen([self.program, *map(str, args)], env=self.environment(env), cwd=self.cwd, **kw)

    def run(self, *args, input=b"", timeout=60, env=None, **kw):
        process = self.popen(*args, env=env, **kw)
        try:
            out, err = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return Done(process.returncode, out, err)


class Done:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def text(self):
        return self.out.decode()

    @property
    def errors(self):
        return self.err.decode()

    def ok(self):
        assert self.status == 0, self
        return self.text

    def __repr__(self):
        return f"<{self.status} out={self.out[-500:]!r} err={self.err[-1000:]!r}>"


@pytest.fixture
def operator(tmp_path):
    made = Operator(tmp_path)
    yield made
    made.close()
    assert not made.failures, made.failures


@pytest.fixture
def client(operator, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Client(operator.path, home)


@pytest.fixture
def run(client):
    return client.run
