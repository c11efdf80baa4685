"""Bad input from inside and from servers: bounded time and memory, and everybody else's connections go on."""
import json
import os
import re
from pathlib import Path

import harness
from world import allow, by_user, explained, gate_of
from world_servers import talk

pytestmark = by_user

FETCH = """
def fetch(timeout=15): return ask(("example.test", 80), get("/", "example.test", "Connection: close\\r\\n"), timeout)
def once(count):
    times = []
    for _ in range(count):
        begin = time.monotonic(); answer = fetch(); times.append(time.monotonic() - begin)
        assert b"hello" in answer, answer
    return max(times)
def timed(count=10):  # what holds others up does so in every round; a machine that is busy, in some
    worst = once(count)
    for _ in range(5):
        if worst < 0.5: break
        worst = min(worst, once(count))
    return worst
"""


def memory(pid):
    """Resident bytes of a process."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


class Hostile:
    """A script inside that says "up" before it begins and "done" while everything it opened is still open."""

    def __init__(self, net, script, *options):
        self.net = net
        words = [*allow("example.test"), *options, "--processes", "400", "--files", "4096"]
        begin = 'fetch(); print("up", flush=True); sys.stdin.readline()\n'
        whole = FETCH + begin + script + "\nsay(worst=timed()); sys.stdin.readline()"
        self.record = net.who.folder() / "record.json"
        self.process = net.start(*words, *net.inside(whole), record=self.record)

    def play(self, growth=16 << 20):
        """Lets it run; returns (what it said, record). The gate is the same one all along and stays small."""
        try:
            line = self.process.stdout.readline()
            assert line == b"up\n", (line, self.process.stderr.read(3000))
            gate = gate_of(self.process)
            before = memory(gate)
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
            text = self.process.stdout.readline()
            assert text, self.process.stderr.read(3000)
            after = memory(gate)
            assert gate_of(self.process) == gate, "the gate fell over"
            result = harness.finish(self.process, self.record, b"\n")
            assert result.status == 0, result
        finally:
            harness.stop(self.process)
        assert after - before < growth, f"grew from {before} to {after} bytes"
        facts = json.loads(text)
        assert facts["worst"] < 1.0 * harness.SLOW, facts
        return facts, result


def test_malformed_dns(net):
    _, result = Hostile(net, """
import random
random.seed(4); good = question("example.test")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("8.8.8.8", 53)); s.setblocking(False)
def send(data):
    try: s.send(data)
    except OSError: pass
for n in range(6000):
    data = bytearray(good)
    for _ in range(random.randrange(1, 6)): data[random.randrange(len(data))] = random.randrange(256)
    send(bytes(data[:random.randrange(len(data) + 1)]))
for data in (b"", b"\\0", bytes(11), bytes(12), good[:12], good + good, good[:12] + b"\\xc0\\x0c" + b"\\0\\1\\0\\1", good[:12]
             + b"\\x3f" * 60000, good + b"\\0" * 60000,
             question(wire_name(b"a" * 63 + b"." + b"b" * 63 + b"." + b"c" * 63 + b"." + b"d" * 63 + b"."
                                + b"e" * 63)), question("example.test", counts=(2, 0, 0, 0)),
             question("example.test", counts=(65535, 65535, 65535,
                                              65535)), question("example.test",
                                                                flags=0x8180), question("example.test", flags=0x2800),
             question(b"\\0"), question(b"\\x40" + b"a" * 64 + b"\\0"), question(b"\\7exa\\0ple\\4test\\0")): send(data)
for n in range(300):
    try:
        c = tcp("8.8.8.8", 53, 2); c.sendall(random.randbytes(random.randrange(1, 400))); c.close()
    except OSError: pass
end = time.monotonic() + 20  # there is a limit on questions a second, and it was passed
while not (count(dns(good)) == 1 and count(dns(good, stream=True)) == 1): assert time.monotonic() < end; time.sleep(0.1)
""").play()
    assert {q.name for q in net.names.asked()} == {"example.test"}


def test_dns_over_tcp_that_dawdles(net):
    """Half a length, half a question, 65,535 bytes that never come, many at once."""
    Hostile(net, """
held = []
for n in range(150):
    c = tcp("8.8.8.8", 53, 3); c.sendall([b"", b"\\0", b"\\xff\\xff", b"\\xff\\xff" + bytes(3000), b"\\0\\x1e"
                                          + question("example.test")[:9]][n % 5]); held.append(c)
c = tcp("8.8.8.8", 53, 3)
try: c.sendall(b"\\xff\\xff" + bytes(65535))
except OSError: pass
assert count(dns(question("example.test"))) == 1
for c in held: c.close()
end = time.monotonic() + 20
while not count(dns(question("example.test"), stream=True)): assert time.monotonic() < end; time.sleep(0.05)
""").play()


def test_half_open(net):
    """Hundreds of connections that say nothing, or the beginning of something."""
    Hostile(net, """
held = []
starts = [b"", b"G", b"GET / HTTP/1.1\\r\\nHost: exa", records(hello("example.test"))[0][:20], b"\\x16",
          b"\\x16\\x03\\x01\\xff\\xff", b"\\x05", b"\\x05\\x01\\x00\\x05\\x01"]
for n in range(240):
    c = proxy() if n % 3 == 0 else tcp("example.test", 443 if n % 2 else 80, 3)
    c.sendall(starts[n % len(starts)]); held.append(c)
""").play(growth=24 << 20)


def test_one_byte_at_a_time(net):
    """Drips on forty connections while others work."""
    Hostile(net, """
stop = []
def drip(data, where):
    c = tcp(*where)
    try:
        for b in data:
            c.sendall(bytes([b])); time.sleep(0.2)
            if stop: return
    except OSError: pass
threads = [threading.Thread(target=drip, args=(d, w), daemon=True) for d,
           w in [(get("/", "example.test"), ("example.test", 80)), (records(hello("example.test"))[0], ("example.test", 443)),
           (connect_head("example.test:443"), PROXY), (socks("example.test", 80), PROXY)] * 10]
for t in threads: t.start()
worst = timed(40); assert worst < 1, worst
stop.append(1)
""").play()


def test_long_names_and_hellos(net):
    """65,535-byte names, a hello of 64 KiB, heads without end: each is cut off."""
    _, result = Hostile(net, """
long = "a" * 65535
answers = [ask(PROXY, connect_head(long + ":443"), 2), ask(PROXY, get("http://%s/" % long, "x"), 2),
           ask(("example.test", 80), get("/", long), 2), ask(("example.test", 80), get("/" + long), 2)]
assert all(b"hello" not in a and status(a) != 200 for a in answers), answers
for name in (b"a" * 16000, b"a" * 60000):
    a = ask(("example.test", 443), b"".join(records(hello(name))), 2); assert a[:1] != b"\\x16", a
for pad in (64000, 65000):
    try: a = ask(("example.test", 443), b"".join(records(hello("example.test", padding=pad), 1000)), 2)
    except struct.error: pass
c = tcp("example.test", 443)
try:
    for i in range(200): c.sendall(b"\\x16\\x03\\x01\\x40\\x00" + b"\\x01\\xff\\xff\\xff" + bytes(16380))
    a = read(c)
except OSError: a = b""
assert a[:1] != b"\\x16"
c = tcp("example.test", 80)
try:
    c.sendall(b"GET / HTTP/1.1\\r\\n")
    for i in range(3000): c.sendall(b"X-%d: " % i + b"y" * 1000 + b"\\r\\n")
    a = read(c)
except OSError: a = b""
assert status(a) != 200
""").play(growth=24 << 20)
    explained(result, "example.test")


def test_servers_that_do_not_answer(net):
    """A server that takes the connection and is silent, one that is not there: other names are not held up."""
    net.names.zone["mute.example.test"] = ["203.0.113.12"]
    _, result = Hostile(net, """
held = []
def hold(host, port):
    try: c = tcp(host, port, 6); c.sendall(get("/", "%s:%d" % (host, port))); held.append(c); c.recv(1)
    except OSError: pass
threads = [threading.Thread(target=hold, args=(("mute.example.test", 9000) if n % 2 else ("silent.example.test", 80)),
                            daemon=True) for n in range(60)]
for t in threads: t.start()
end = time.monotonic() + 20
while len(held) < 60: assert time.monotonic() < end, len(held); time.sleep(0.05)
worst = timed(30); assert worst < 1, worst
""", *allow("mute.example.test:9000", "silent.example.test")).play()
    assert harness.until(lambda: len(net.seen.all("raw", port=9000)) >= 30) and len(net.seen.all("raw", port=9000)) == 30


def test_dial_that_fails_is_told(net):
    """Nobody there: an answer within the time that a client waits, and an event."""
    curl = "curl -sS -m 25 -w '%{http_code}\\n' -o /dev/null"
    result = net.sh(f"{curl} http://silent.example.test/ & {curl} http://closed.example.test:9111/; wait",
                    *allow("silent.example.test", "closed.example.test:9111"))
    assert set(result.text.split()) <= {"502", "504"} and len(result.text.split()) == 2, result
    explained(result, "silent.example.test")
    explained(result, "closed.example.test")


def test_servers_that_flood(net):
    """An answer without end to a client that does not read: held back, not kept."""
    net.world.scripted[9000] = lambda conn: talk(conn, *[b"x" * 65536] * 3000)
    Hostile(net, """
held = []
for n in range(20):
    c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                      4096); c.connect(("example.test", 9000)); c.sendall(b"go"); held.append(c)
time.sleep(0.5)
""", *allow("example.test:9000")).play(growth=32 << 20)


def test_clients_that_flood(net):
    """The same the other way: a server that does not read."""
    import threading
    stop = threading.Event()
    net.world.scripted[9001] = lambda conn: stop.wait(15)
    try:
        Hostile(net, """
held = []
for n in range(20):
    c = tcp("example.test", 9001); c.setblocking(False); held.append(c)
    try:
        for i in range(200): c.send(b"y" * 65536)
    except OSError: pass
time.sleep(0.3)
for c in held:
    try: c.send(b"y" * 65536)
    except OSError: pass
""", *allow("example.test:9001")).play(growth=32 << 20)
    finally:
        stop.set()


def test_servers_with_bad_manners(net):
    """Heads without end, byte by byte, garbage: where the gate reads answers, it gives up on them in time."""
    def endless(conn):
        conn.recv(1000)
        conn.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(100000):
            conn.sendall(b"X-%d: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" % number)
    net.world.scripted.update({9000: endless, 9001: lambda conn: talk(conn, 2, os.urandom(100000), 1),
                               9002: lambda conn: talk(conn, 2, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")})
    _, result = Hostile(net, """
codes = [status(ask(("files.example.test", p), get("/", "files.example.test:%d" % p), 5)) for p in (9000, 9001)]
assert codes == [502, 502], codes
a = ask(("files.example.test", 9002), get("/", "files.example.test:9002"), 5); assert len(a) < 2000, a
""", *net.profile("network: {allow: [{host: files.example.test, ports: [9000, 9001, 9002], methods: [GET]}]}")).play()


def test_many_short_connections(net):
    """A thousand connections one after another: no descriptor and no memory stays behind."""
    Hostile(net, """
for i in range(500):
    c = tcp("example.test", 80); c.close()
    c = socket.socket(); c.connect(("198.18.200.1", 80)); c.close()
""").play(growth=8 << 20)
