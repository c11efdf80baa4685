"""--live: what the profile says about the network applies while the command runs."""
import json
import threading
import time

import pytest

import harness

PROFILE = "profile: 1\nname: live\nextends: medium\nnetwork: {{allow: [{}]}}\n"

# Asks for both hosts again and again, and keeps one connection to the first open all the time.
WATCH = """
kept = None
while True:
    line = []
    for host in ("example.test", "www.example.test"):
        line.append(b"hello" in ask((host, 8080), get("/", host + ":8080", "Connection: close\\r\\n"), 10))
    try:
        kept = kept or socket.create_connection(("example.test", 8080), 10)
        kept.sendall(get("/", "example.test:8080"))
        kept.settimeout(10)
        line.append(bool(kept.recv(65536)))
    except OSError:
        line.append(False)
    if not line[-1] and kept:
        kept.close()
        kept = None
    print(json.dumps(line), flush=True)
    time.sleep(0.1)
"""


def lines(process):
    """What the command says, as it says it."""
    seen = []

    def read():
        for line in process.stdout:
            seen.append(json.loads(line))

    threading.Thread(target=read, daemon=True).start()
    return seen


def wait_for(seen, wanted, seconds=harness.ENOUGH):
    end = time.monotonic() + seconds * harness.SLOW
    while time.monotonic() < end:
        if seen and seen[-1] == wanted:
            return
        time.sleep(0.05)
    raise AssertionError(f"not {wanted} within {seconds} s: {seen[-5:]}")


def test_rules_follow_the_profile(net):
    path = net.who.folder("profile") / "live.yaml"
    first, second = "{host: example.test, ports: [8080]}", "{host: www.example.test, ports: [8080]}"

    def say(*rules):
        path.write_text(PROFILE.format(", ".join(rules)))
        path.chmod(0o644)

    say(first)
    process = net.start("--live", "--profile", str(path), *net.inside(WATCH))
    try:
        seen = lines(process)
        wait_for(seen, [True, False, True])
        say(first, second)
        wait_for(seen, [True, True, True])
        before = len([line for line in seen if not line[2]])
        say(second)
        wait_for(seen, [False, True, False])
        assert before == 0, "the connection that stayed allowed was dropped"
        path.write_text("profile: 1\nname: live\nextends: medium\nnetwork: {alow: []}\n")
        time.sleep(2.5)
        assert seen[-1] == [False, True, False], "a profile that is wrong changed the rules"
        say()
        wait_for(seen, [False, False, False])
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("where", ["itself", "a link to it", "what it extends"])
def test_the_command_cannot_write_its_own_rules(net, where):
    """A profile that is in a folder the command may write would be the command's to change."""
    shared, apart = net.who.folder("shared"), net.who.folder("apart")
    text = PROFILE.format("{host: example.test}")
    (shared / "p.yaml").write_text(text)
    path = shared / "p.yaml"
    if where == "a link to it":
        path = apart / "link.yaml"
        path.symlink_to(shared / "p.yaml")
    elif where == "what it extends":
        path = apart / "child.yaml"
        path.write_text(f"profile: 1\nname: child\nextends: {shared}/p.yaml\n")
    result = net.run("--live", "--profile", path, "--rw", shared, "--", "true")
    assert result.status == 125 and "its own rules" in result.errors, result
    assert net.run("--profile", path, "--rw", shared, "--", "true").status == 0
