"""The hostile guest does what its modes say: a strict reader notices each of them, or is kept waiting, and finds nothing
wrong in the good one."""
import os
import subprocess

import pytest

from client import BUILD, Broken, Guest

HOSTILE = os.path.join(BUILD, "tests/guest/hostile-guest")
MODES = subprocess.run([HOSTILE, "list"], check=True, capture_output=True, text=True).stdout.split()
FINE = {"good", "slow", "exec-escapes", "exec-chatter", "request-names", "request-archive", "request-lies"}  # nothing that breaks the protocol; what they say is hostile all the same


def talk(guest, **kw):
    with guest.connect(**kw) as conn:
        run = conn.exec("true")
        conn.end(run)
        for kind, fields in (("list-runs", {}), ("stat", {"path": "/"}), ("list", {"path": "/"}), ("processes", {}),
                             ("read", {"path": "/x", "offset": 0, "length": 10}), ("tar-out", {"path": "/"})):
            request = conn.call(kind, **fields)
            assert kind != "read" or len(request.data) <= 10
            expected = {"stat": {"entry"}, "list": {"entry"}, "list-runs": {"run"}, "processes": {"process"}}
            assert {m.kind for m in request.items} <= expected.get(kind, set()), request.items
            assert not request.opened and not request.finished
            assert kind in ("read", "tar-out") or not request.data
        conn.idle(0.05)
        return run


@pytest.mark.parametrize("mode", MODES)
def test_mode(mode):
    with Guest(program=HOSTILE, wrapper=["env", f"STOCKADE_HOSTILE={mode}"]) as guest:
        if mode in FINE:
            assert talk(guest).code == 0
        else:
            with pytest.raises((Broken, AssertionError, TimeoutError, OSError)):
                talk(guest, timeout=0.7)
        assert guest.is_alive()


def test_fuzz_is_the_same_for_the_same_seed():
    def first_bytes(seed):
        with Guest(program=HOSTILE, wrapper=["env", f"STOCKADE_HOSTILE=fuzz-{seed}"]) as guest:
            with guest.connect() as conn:
                got = bytearray()
                conn.deal = lambda m: got.extend(repr(vars(m)).encode())
                try:
                    for i in range(20):
                        conn.exec("true")
                    conn.idle(0.2)
                except (AssertionError, Broken):
                    pass
                return bytes(got)
    assert first_bytes(1) == first_bytes(1) != first_bytes(2)
