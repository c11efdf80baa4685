"""The control: without a sandbox everything in the test world can be reached. What the other tests find missing,
a gate took away."""
import json
import time

import pytest

import harness
from world import HOST_V4, PUBLIC, SPECIAL, World


@pytest.fixture
def outside(world):
    """outside(script): the same helpers, in the host itself."""
    world.reset()

    def call(script):
        done = world.on_host([harness.PYTHON, "-ISc", f"exec(open('{world.helpers}').read())\n{script}"])
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()
    return call


def test_set_up_is_quick(suite):
    class Another:  # a second world beside the first: nothing in it has a name that could clash
        folder, cgroups = suite.folder / "second", []
    Another.folder.mkdir()
    start = time.process_time() + harness.processor_time()
    made = World(Another)
    assert time.process_time() + harness.processor_time() - start < 2 * harness.SLOW
    made.remove()


def test_every_address_answers(world, outside):
    outside(f"""
for host in {PUBLIC + SPECIAL + [HOST_V4, "127.0.0.1", "::1"]}:
    answer = ask((host, 80), get("/", "x", "Connection: close\\r\\n"),
                 0.5); assert b"hello" in answer or b"raw" in answer, host
""")
    assert {e["address"] for e in world.seen.all("connection")} >= set(PUBLIC + SPECIAL)
    assert {e["address"] for e in world.seen.requests(where="host")} == {HOST_V4, "127.0.0.1", "::1"}


def test_datagrams_arrive(world, outside):
    outside("""
for host in ("203.0.113.10", "2001:db8::10", "8.8.8.8", "172.31.0.2"):
    for port in (9999, 443, 123, 5353):
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", (host, port))
""")
    assert harness.until(lambda: len(world.seen.all("udp")) == 16)


def test_questions_are_counted(world, outside):
    outside("""
for server in ("203.0.113.53", "2001:db8::53", "8.8.8.8"):
    for stream in (False, True):
        for kind in (1, 28, 16): assert len(dns(question("data.evil.test", kind), server, 2, stream)) > 12
assert count(dns(question("example.test"), "203.0.113.53")) == 1 and code(dns(question("nothing.test"), "203.0.113.53")) == 3
socket.getaddrinfo("www.example.test", 80)
""")
    assert len(world.names.asked("evil.test")) == 18 and world.names.asked("www.example.test")
    assert {q.type for q in world.names.asked("evil.test")} == {"A", "AAAA",
                                                                "TXT"} and {q.transport for q in world.names.asked()} == {"udp", "tcp"}


def test_answers_can_be_scripted(world, outside):
    world.names.zone.update({"turn.test": lambda before, kind: ["203.0.113.10"] if before == 0 else ["127.0.0.1"],
                             "alias.test": ["cname:inner.example.test"],
                             "gone.test": "silence", "broken.test": "SERVFAIL"})
    text = outside("""
say(turn=[dns(question("turn.test"), "203.0.113.53")[-4:].hex() for _ in range(2)],
    alias=count(dns(question("alias.test"), "203.0.113.53")),
    gone=code(dns(question("gone.test"), "203.0.113.53", 0.2)), broken=code(dns(question("broken.test"), "203.0.113.53")))
""")
    assert json.loads(text) == {"turn": ["cb00710a", "7f000001"], "alias": 2, "gone": -1, "broken": 2}


def test_a_lie_about_the_server_would_work(world, outside):
    """Servers here answer to any name: fronting, wrong Host and smuggled requests all succeed unless somebody stops them."""
    outside("""
assert b"hello" in ask(("203.0.113.10", 80), get("/", "evil.test", "Connection: close\\r\\n"))
assert ask(("203.0.113.10", 443), b"".join(records(hello("evil.test"), 7)), 0.5)[:1] == b"\\x16"
assert ask(("203.0.113.10", 443), records(hello())[0], 0.5)[:1] == b"\\x16"
a = ask(("203.0.113.20", 80),
        b"POST / HTTP/1.1\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /SMUGGLED HTTP/1.1\\r\\n\\r\\n", 1)
assert a.count(b"raw") >= 2
""")
    assert "evil.test" in {e["sni"] for e in world.seen.all("connection")} and b"SMUGGLED" in world.seen.bytes()


def test_the_authority_is_trusted_here(world):
    assert b"hello" in world.on_host(["curl", "-sS", "-m", "30", "https://example.test/"]).stdout
    assert world.on_host(["curl", "-sS", "-m", "30", "https://badcert.example.test:4443/"]).returncode == 60
    assert world.on_host(["curl", "-sS", "-m", "1", "http://silent.example.test/"]).returncode == 28
