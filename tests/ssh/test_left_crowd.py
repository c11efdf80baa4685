"""One owner has so many SSH sessions at a time: others get in all the same, and a place is free when one ends."""
import subprocess

import harness

MOST = 64  # of one owner; the door has 256


def hold(door, sandbox, key, address):
    """A session that says that it is there, and stays. The door also counts by address: they come from several."""
    return door.start("ssh", "-b", address, f"{sandbox}@127.0.0.1", "echo on; exec cat", key=key, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                      stderr=subprocess.DEVNULL)


def is_on(session):
    return session.stdout.readline() == b"on\n"


def test_sessions_of_one_owner(door):
    mine = door.client.create(profile="medium", owner="uid:71003")["id"]
    theirs = door.client.create(profile="medium", owner="uid:71004")["id"]
    door.add(mine, "one")
    door.add(theirs, "two")
    held = []
    try:
        while len(held) < MOST:  # a few at a time: the door has a limit on those who have not shown a key yet
            more = [hold(door, mine, "one", f"127.0.0.{2 + len(held) // 16}") for _ in range(4)]
            held += more
            assert all([is_on(session) for session in more]), f"one of the first {len(held)} was refused"
        refused = door.ssh(mine, "echo on")
        assert refused.returncode == 255 and refused.stdout == b"", refused
        assert all(session.poll() is None for session in held)
        assert door.ssh(theirs, "echo on", key="two").stdout == b"on\n", "others are kept out"
        held.pop().kill()
        assert harness.until(lambda: door.ssh(mine, "echo on").stdout == b"on\n"), "a place that is free again is not given away"
    finally:
        for session in held:
            session.kill()
        for session in held:
            session.wait()
        for sandbox in (mine, theirs):
            door.client.delete(sandbox=sandbox, force=True)
