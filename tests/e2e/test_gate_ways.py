"""Ways out that nobody takes by accident: other protocols, odd socket options, upgrades. What counts is what the outside saw."""
import json

from world import allow, by_user, explained

pytestmark = by_user


def test_odd_sockets(net):
    """Data in the first packet, multipath, light datagrams, source routes, foreign source addresses, mapped addresses."""
    result = net.py("""
MSG_FASTOPEN, IPPROTO_MPTCP, UDPLITE, DCCP, SCTP = 0x20000000, 262, 136, 33, 132
reached, tried = [], 0
def attempt(name, function):
    global tried
    tried += 1
    try:
        if b"hello" in function(): reached.append(name)
    except OSError: pass
def fastopen(host, family=socket.AF_INET, protocol=0):
    s = socket.socket(family, socket.SOCK_STREAM, protocol); s.settimeout(2)
    s.sendto(get("/", "example.test", "Connection: close\\r\\n"), MSG_FASTOPEN, (host, 80)); return read(s, timeout=2)
def stream(host, family=socket.AF_INET, protocol=0, prepare=None):
    s = socket.socket(family, socket.SOCK_STREAM, protocol); s.settimeout(2)
    if prepare: prepare(s)
    s.connect((host, 80)); return ask(s, get("/", "example.test", "Connection: close\\r\\n"), 2)
for host in ("203.0.113.10", "203.0.113.30", "172.31.0.2", "169.254.169.254"):
    attempt("fastopen " + host, lambda: fastopen(host))
    attempt("fastopen mapped " + host, lambda: fastopen("::ffff:" + host, socket.AF_INET6))
    attempt("multipath " + host, lambda: stream(host, protocol=IPPROTO_MPTCP))
    attempt("mapped " + host, lambda: stream("::ffff:" + host, socket.AF_INET6))
    attempt("source route " + host, lambda: stream(host,
                                                   prepare=lambda s: s.setsockopt(socket.IPPROTO_IP, 4, b"\\x83\\x07\\x04" + socket.inet_aton(host) + b"\\0")))
    attempt("foreign source " + host, lambda: stream(host, prepare=lambda s: s.bind(("203.0.113.77", 0))))
    attempt("loopback source " + host, lambda: stream(host, prepare=lambda s: s.bind(("127.0.0.1", 0))))
    attempt("transparent " + host, lambda: stream(host, prepare=lambda s: s.setsockopt(socket.IPPROTO_IP, 19, 1)))
    attempt("mark " + host, lambda: stream(host, prepare=lambda s: s.setsockopt(socket.SOL_SOCKET, 36, 1)))
    attempt("device " + host, lambda: stream(host, prepare=lambda s: s.setsockopt(socket.SOL_SOCKET, 25, b"lo\\0")))
    for kind, protocol in ((socket.SOCK_DGRAM, UDPLITE), (6, DCCP), (socket.SOCK_SEQPACKET, SCTP), (socket.SOCK_RAW, 17),
                           (socket.SOCK_DGRAM, 1), (socket.SOCK_RAW, 255)):
        def odd():
            s = socket.socket(socket.AF_INET, kind,
                              protocol); s.settimeout(0.3); s.connect((host, 9999)); s.send(b"secret"); return s.recv(100)
        attempt("odd %d/%d %s" % (kind, protocol, host), odd)
for host in ("2001:db8::10", "fd00:77::2"):
    attempt("fastopen " + host, lambda: fastopen(host, socket.AF_INET6))
    attempt("multipath " + host, lambda: stream(host, socket.AF_INET6, IPPROTO_MPTCP))
say(reached=reached, tried=tried)
""", *allow("example.test"))
    facts = json.loads(result.ok())
    assert facts["reached"] == [] and facts["tried"] == 68, facts
    assert net.seen.all() == [] and net.names.asked() == []


def test_what_is_allowed_works_in_odd_ways(net):
    """The same tricks towards an allowed name are judged as any connection."""
    result = net.py("""
v4 = socket.getaddrinfo("example.test", 80, socket.AF_INET)[0][4][0]
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM); s.settimeout(3)
try:
    s.sendto(get("/", "evil.test", "Connection: close\\r\\n"), 0x20000000, (v4, 80)); a = read(s)
except OSError: a = b""
assert b"hello" not in a, a
a = ask(("::ffff:" + v4, 80), get("/", "example.test", "Connection: close\\r\\n")); assert b"hello" in a, a
a = ask(("::ffff:" + v4, 80), get("/", "evil.test", "Connection: close\\r\\n")); assert b"hello" not in a, a
""", *allow("example.test"))
    result.ok()
    assert {e["host"] for e in net.seen.requests()} == {"example.test"}


def test_upgrades(net):
    """A request cannot leave HTTP/1.1 for something that is not compared: h2c, TLS, lists. Ordinary WebSockets pass."""
    result = net.py("""
def upgrade(words, host="raw.example.test"): return ask((host, 80), get("/", host, words), 1.2)
forms = ["Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\\r\\n",
         "Connection: Upgrade\\r\\nUpgrade: TLS/1.0\\r\\n", "Connection: Upgrade\\r\\nUpgrade: h2c, websocket\\r\\n",
         "Connection: Upgrade\\r\\nUpgrade: foo\\r\\n"]
threads = [threading.Thread(target=upgrade, args=(form,)) for form in forms]
for t in threads: t.start()
for t in threads: t.join()
c = tcp("files.example.test", 80); c.settimeout(20)
c.sendall(get("/ws", "files.example.test", "Connection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\n"
                                           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n"))
data = b""
while b"\\x81\\x01-" not in data: data += c.recv(4096)
c.sendall(b"\\x81\\x85\\0\\0\\0\\0hello")
while b"\\x81\\x05hello" not in data: data += c.recv(4096)
""", *allow("raw.example.test", "files.example.test"))
    result.ok()
    sent = net.seen.bytes().lower()
    assert b"h2c" not in sent and b"http2-settings" not in sent and b"tls/1.0" not in sent and b"upgrade: foo" not in sent


def test_a_server_cannot_change_the_protocol(net):
    """A 101 or a 200 to something that was not asked: what follows is not relayed as if it had been."""
    from world_servers import talk
    net.world.scripted[9000] = lambda conn: talk(conn, 3,
                                                 b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nfree", 2)
    result = net.py("""
c = tcp("files.example.test", 9000); c.sendall(get("/", "files.example.test:9000")); time.sleep(0.3)
try: c.sendall(get("/", "evil.test"))
except OSError: pass
a = read(c, timeout=2); assert b"free" not in a, a
""", *allow("files.example.test:9000"))
    result.ok()
    assert not any(b"evil" in bytes(e["data"]) for e in net.seen.all("raw"))
    explained(result, "files.example.test")


def test_dns_socket_is_not_a_way_out(net):
    """Whatever is sent to port 53, of whatever address, stays here: junk, updates, transfers, answers, multicast."""
    result = net.py("""
import random
for host in ("203.0.113.53", "8.8.8.8", "2001:db8::53", "224.0.0.251", "255.255.255.255", "172.31.0.2"):
    for data in (b"secret data", question("example.test", flags=0x2800), question("example.test", flags=0x8400),
                 question("example.test", 252),
                 question("secret.evil.test", 10), question("example.test",
                                                            extra=b"\\0\\0\\x29\\x10\\0\\0\\0\\0\\0\\0\\x0a\\xfd\\xe9\\0\\x06secret", counts=(1, 0, 0, 1))):
        dns(data, host, 0.05)
        dns(data, host, 0.05, stream=True)
""", *allow("example.test"))
    result.ok()
    assert net.names.asked() == [] and net.seen.all() == []


def test_two_sandboxes(net):
    """Each has its own rules, names and counters, at the same time."""
    import harness
    first = net.start(*allow("files.example.test"), *net.inside("""
print("up", flush=True); sys.stdin.readline()
assert b"hello" in ask(("files.example.test", 80), get("/", "files.example.test", "Connection: close\\r\\n"))
assert b"hello" not in ask(PROXY, get("http://example.test/", "example.test", "Connection: close\\r\\n"))
"""))
    try:
        assert first.stdout.readline() == b"up\n"
        second = net.py("""
assert b"hello" in ask(("example.test", 80), get("/", "example.test", "Connection: close\\r\\n"))
assert b"hello" not in ask(PROXY, get("http://files.example.test/", "files.example.test", "Connection: close\\r\\n"))
assert code(dns(question("files.example.test"))) == 5
""", *allow("example.test"))
        second.ok()
        out, err = first.communicate(b"\n", harness.ENOUGH * harness.SLOW)
        assert first.returncode == 0, (out, err)
    finally:
        harness.stop(first)
    assert {e["host"] for e in net.seen.requests()} == {"example.test",
                                                        "files.example.test"} and len(net.seen.requests()) == 2
