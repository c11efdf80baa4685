"""The explicit proxy and its relatives: CONNECT, SOCKS5, the gate's own sockets. The same decisions, by whatever door."""
import json

import pytest

from world import allow, by_user, explained

pytestmark = by_user

SPELLINGS = """
names = ["evil.test", "EVIL.test", "evil.test.", "example.test.evil.test", "evil.test#example.test", "evil.test?example.test",
         "evil.test/example.test", "evil.test\\\\example.test",
         "example.test@evil.test", "example.test:80@evil.test", "example.test:443.evil.test", "evil.test%00.example.test",
         "evil.test%2eexample.test", "evil.test .example.test",
         "example.test evil.test", "example.test,evil.test", "*.example.test", "*", "example", ".example.test",
         "example..test", "example.test..", "-example.test", "ex\\xe4mple.test",
         "exa\\u200bmple.test", "\\uff45xample.test", "ex\\u0430mple.test", "example\\u3002test", "xn--example-.test",
         "[example.test]", "example.test%lo", "127.0.0.1", "127.1", "0x7f.1", "2130706433",
         "0177.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::1%25lo]", "::1", "0", "0.0.0.0", "[::]", "localhost",
         "localhost.", "LOCALHOST", "ip6-localhost", "203.0.113.30",
         "[2001:db8::20]", "169.254.169.254", "[fd00:ec2::254]", "198.18.0.1", "[fd53:746f:636b::1]",
         "metadata.google.internal", "", "a" * 64 + ".test", "a." * 130 + "test", "evil.test:443",
         "evil.test\\ttab", "evil.test\\x0b", "example.test\\x7f", "example.test\\x00", "\\x00example.test",
         "example.test\\x00.evil.test", "evil.test\\x00.example.test", "example.test\\r\\nHost: evil.test"]
"""


def test_host_confusion(net):
    """Every spelling, by every door: no answer, no connection, no question outside."""
    result = net.py(SPELLINGS + """
passed = []
def one(name):
    raw = name.encode("utf-8")
    for port in (80, 443, 8080):
        target = raw + b":%d" % port
        a = ask(PROXY, b"CONNECT " + target + b" HTTP/1.1\\r\\nHost: " + target + b"\\r\\n\\r\\n", 1.5)
        if status(a) == 200: passed.append(("connect", name, a))
        a = ask(PROXY, b"GET http://" + target + b"/ HTTP/1.1\\r\\nHost: " + target + b"\\r\\nConnection: close\\r\\n\\r\\n",
                1.5)
        if status(a) == 200: passed.append(("get", name, a))
        a = ask(PROXY, socks(raw[:255], port), 1.5)
        if b"\\x05\\x00\\x00\\x01" in a or a[2:4] == b"\\x05\\x00": passed.append(("socks", name, a))
    a = ask(("example.test", 80), b"GET / HTTP/1.1\\r\\nHost: " + raw + b"\\r\\nConnection: close\\r\\n\\r\\n", 1.5)
    if status(a) == 200: passed.append(("host", name, a))
    if name.strip(".").lower().replace("..", ".") in ("example.test",
                                                      "localhost"): return  # the same on the wire; the sandbox's own
    try: a = dns(question(wire_name(raw)), timeout=1.5)
    except ValueError: return
    if count(a): passed.append(("dns", name, a))
threads = [threading.Thread(target=one, args=(n,)) for n in names]
for t in threads: t.start()
for t in threads: t.join()
say(passed=passed)
""", *allow("example.test"), "--processes", "150")
    facts = json.loads(result.ok())
    assert facts["passed"] == [], facts
    # a connection to the allowed name may be made before its first request was read; nothing is said on it
    assert net.seen.requests() == [] and {e["address"] for e in net.seen.all()} <= {"203.0.113.10", "2001:db8::10"}
    assert {q.name for q in net.names.asked()} <= {"example.test"}


def test_good_spellings(net):
    """One canonical form: case and a final dot do not matter."""
    result = net.py("""
for name in ("example.test", "EXAMPLE.test", "example.test.", "Example.TEST."):
    assert status(ask(PROXY, connect_head(name + ":80") + get("/", name, "Connection: close\\r\\n"))) == 200, name
    assert b"hello" in ask(PROXY, get("http://%s/" % name, name, "Connection: close\\r\\n")), name
    assert b"hello" in ask(PROXY, socks(name, 80) + get("/", name, "Connection: close\\r\\n")), name
    assert b"hello" in ask(("example.test", 80), get("/", name, "Connection: close\\r\\n")), name
""", *allow("example.test"))
    result.ok()


def test_connect(net):
    result = net.py("""
def codes(*heads): return [status(ask(PROXY, h, 3)) for h in heads]
assert codes(connect_head("evil.test:443"), connect_head("example.test:22"), connect_head("example.test:25"),
             connect_head("203.0.113.10:443")) == [403] * 4
bad = codes(b"CONNECT example.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n",
            b"CONNECT example.test HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n",
            b"CONNECT / HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n",
            b"CONNECT http://example.test:443/ HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n",
            b"CONNECT example.test:0 HTTP/1.1\\r\\nHost: example.test:0\\r\\n\\r\\n",
            b"CONNECT example.test:99999 HTTP/1.1\\r\\nHost: example.test:99999\\r\\n\\r\\n",
            b"CONNECT example.test:+443 HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n",
            b"CONNECT example.test:443 HTTP/1.1\\r\\nHost: example.test:443\\r\\nContent-Length: 5\\r\\n\\r\\nhello",
            b"GET / HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n",
            b"GET ftp://example.test/ HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n",
            b"OPTIONS * HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n", b"CONNECT example.test:443\\r\\n\\r\\n")
assert all(c in (400, 403, 405, 421, 501, 505) for c in bad), bad
# what is within a tunnel is judged as well
a = ask(PROXY, connect_head("example.test:80") + get("/", "evil.test",
                                                     "Connection: close\\r\\n")); assert b"hello" not in a, a
a = ask(PROXY, connect_head("example.test:443") + get("/", "evil.test",
                                                      "Connection: close\\r\\n")); assert b"hello" not in a, a
a = ask(PROXY, connect_head("example.test:80") + connect_head("evil.test:80")); assert a.count(b" 200 ") <= 1, a
# bytes behind a CONNECT that is refused go nowhere
a = ask(PROXY, connect_head("evil.test:80") + get("http://example.test/",
                                                  "example.test")); assert b"hello" not in a and status(a) == 403, a
a = ask(PROXY, connect_head("example.test:80") + get("/", "example.test", "Connection: close\\r\\n")); assert b"hello" in a, a
# https in absolute form is not sent in the clear
a = ask(PROXY, get("https://example.test/", "example.test", "Connection: close\\r\\n")); assert b"hello" not in a, a
# headers for the proxy do not go on
a = ask(PROXY, get("http://example.test/echo", "example.test",
                   "Proxy-Authorization: Basic eDp5\\r\\nProxy-Connection: keep-alive\\r\\nConnection: close\\r\\n")); assert b"Proxy-" not in a and status(a) == 200, a
""", *allow("example.test"))
    result.ok()
    assert {e["host"] for e in net.seen.requests()} <= {"example.test"} and not net.names.asked("evil.test")
    explained(result, "evil.test", "--allow evil.test")


def test_socks(net):
    result = net.py("""
def reply(data, timeout=2): return ask(PROXY, data, timeout)
def granted(a): return a[2:4] == b"\\x05\\x00"
assert granted(reply(socks("example.test", 80), 6))
v4, v6, request = socket.inet_aton, lambda a: socket.inet_pton(socket.AF_INET6, a), socks("example.test", 80)
for bad in (socks(b"example.test\\0.evil.test", 80), socks(b"evil.test\\0.example.test", 80), socks(b"example.test\\0", 80), socks(b"", 80),
            socks("evil.test", 80), socks("example.test", 22), socks("example.test", 0), socks("a" * 255, 80),
            socks(v4("203.0.113.10"), 80, 1), socks(v4("127.0.0.1"), 80, 1), socks(v6("::1"), 80, 4), socks(v6("::ffff:127.0.0.1"), 80, 4),
            socks("203.0.113.10", 80), socks("127.0.0.1", 80), socks("::1", 80),
            socks("example.test", 80, command=2), socks("example.test", 80, command=3), socks("example.test", 80, command=9),
            socks("example.test", 80, kind=9), b"\\x05\\x01\\x02" + request[3:], b"\\x05\\x00" + request[3:], b"\\x05\\x01\\x00\\x04" + request[4:],
            b"\\x04\\x01\\x00\\x50\\x00\\x00\\x00\\x01x\\x00example.test\\x00", b"\\x04\\x01\\x00\\x50\\xcb\\x00\\x71\\x0ax\\x00",
            b"\\x05\\x01\\x00\\x05\\x01\\x01\\x03\\x0cexample.test\\x00\\x50", b"\\x05\\xff"):
    a = reply(bad, 0.6); assert not granted(a) and a[:2] != b"\\x00\\x5a", (bad, a)
# byte by byte
c = proxy()
for b in socks("example.test", 80): c.sendall(bytes([b])); time.sleep(0.002)
time.sleep(0.1); c.sendall(get("/", "example.test", "Connection: close\\r\\n")); assert b"hello" in read(c)
# within: the same comparisons
a = reply(socks("example.test", 80) + get("/", "evil.test")); assert b"hello" not in a, a
""", *allow("example.test"))
    result.ok()
    assert {e["host"]
            for e in net.seen.requests()} == {"example.test"} and {q.name for q in net.names.asked()} == {"example.test"}
    explained(result, "evil.test")


def test_own_sockets(net):
    """The sockets that everything leads to, asked directly, lead nowhere, and do not fall over."""
    result = net.py("""
import itertools
listening = set()
for file in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in open(file).readlines()[1:]:
        fields = line.split()
        if fields[3] == "0A": listening.add(int(fields[1].split(":")[1], 16))
for port in sorted(listening | {15001, 15053, 3128, 15353}):
    for host in ("127.0.0.1", "::1", "198.18.0.1", "fd53:746f:636b::1", "198.18.0.2", "8.8.8.8", "0.0.0.0"):
        if (host, port) == PROXY: continue
        for data in (get("/", "example.test"), get("http://evil.test/", "evil.test"), records(hello("example.test"))[0],
                     connect_head("evil.test:80")):
            a = ask((host, port), data, 0.5)
            assert b"hello" not in a and status(a) != 200, (host, port, a)
for target in ("198.18.0.1:3128", "127.0.0.1:3128", "localhost:3128", "198.18.0.1:15001", "[::1]:15001", "127.0.0.1:15001",
               "%s:%d" % PROXY):
    assert status(ask(PROXY, connect_head(target), 2)) != 200, target
    assert status(ask(PROXY, get("http://%s/" % target, target), 2)) != 200, target
assert b"hello" in ask(("example.test", 80), get("/", "example.test", "Connection: close\\r\\n"))
""", *allow("example.test"))
    result.ok()
    assert len(net.seen.requests()) == 1


def test_loops_end(net):
    """A name that resolves to the gate's own addresses does not make it talk to itself."""
    net.names.zone["loop.example.test"] = ["198.18.0.1", "127.0.0.1", "fd53:746f:636b::1"]
    result = net.py("""
for port in (3128, 15001, 80):
    a = ask(PROXY, connect_head("loop.example.test:%d" % port), 3); assert status(a) in (403, 502), a
""", *net.profile("network: {allow: [{host: loop.example.test, ports: any}]}"))
    result.ok()
    assert net.seen.all() == []


def test_relay_inside(net):
    """One process inside that proxies for another has no more rights than either."""
    result = net.py("""
s = socket.create_server(("127.0.0.1", 9999))
def serve():
    while True:
        c, _ = s.accept(); host = c.recv(100).decode(); c.sendall(ask((host, 80), get("/", host, "Connection: "
            "close\\r\\n"), 3)); c.close()
threading.Thread(target=serve, daemon=True).start()
assert b"hello" in ask(("127.0.0.1", 9999), b"example.test")
for bad in (b"evil.test", b"203.0.113.10", b"172.31.0.2"): assert b"hello" not in ask(("127.0.0.1", 9999), bad)
""", *allow("example.test"))
    result.ok()
    assert {e["host"] for e in net.seen.requests()} == {"example.test"}


def test_inbound(net):
    """What listens inside cannot be reached from the host, nor from a sibling."""
    import harness
    process = net.start(*allow("example.test"), *net.inside("""
held = [socket.create_server(("0.0.0.0", 7777)), socket.create_server(("::", 7778), family=socket.AF_INET6)]
print("up", flush=True); sys.stdin.readline()
"""))
    try:
        assert process.stdout.readline() == b"up\n", process.stderr.read(2000)
        probe = """
import socket, sys
for host in ("127.0.0.1", "172.31.0.2", "198.18.0.1", "::1", "fd53:746f:636b::1"):
    for port in (7777, 7778):
        try: socket.create_connection((host, port), 0.3)
        except OSError: continue
        sys.exit("reached")
"""
        assert net.world.on_host([harness.PYTHON, "-c", probe]).returncode == 0
        sibling = net.py("""
for host in ("198.18.0.1", "198.18.0.2", "127.0.0.1", "fd53:746f:636b::1", "172.31.0.2"):
    for port in (7777, 7778):
        try: c = tcp(host, port, 2); c.sendall(b"x"); assert not c.recv(1)
        except OSError: pass
""", *allow("example.test"))
        sibling.ok()
    finally:
        harness.stop(process)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"])
def test_variables(net, name):
    result = net.sh(f'printf "%s %s" "${name}" "${name.lower()}"', *allow("example.test"))
    upper, lower = (result.ok() + " ").split(" ")[:2]
    assert upper and upper == lower and ("127.0.0.1" in upper if name == "NO_PROXY" else "://" in upper)
