"""TLS that is relayed: the server that the hello names is the one that was connected to, however the hello is cut up."""
import json

import pytest

from world import allow, by_root, explained

pytestmark = by_root

# how a connection to example.test:443 can be had; each gives a connection whose next bytes are the client's
WAYS = """
def direct(): return tcp("example.test", 443)
def tunnel():
    c = proxy(); c.sendall(connect_head("example.test:443")); c.settimeout(20)
    assert b" 200 " in c.recv(4096); return c
def socks5():
    c = proxy(); c.settimeout(20); c.sendall(socks("example.test", 443)); data = b""
    while len(data) < 12: data += c.recv(4096)
    assert data[3] == 0 or data[2:4] == b"\\x05\\x00", data; return c
def pipelined():  # the hello right behind CONNECT, in one packet
    return None
def deliver(way, pieces, pause=0):
    if way == "pipelined":
        c = proxy(); data = ask(c, connect_head("example.test:443") + b"".join(pieces), 3)
        return data.partition(b"\\r\\n\\r\\n")[2]
    c = {"direct": direct, "tunnel": tunnel, "socks": socks5}[way]()
    try:
        for piece in pieces:
            c.sendall(piece)
            if pause: time.sleep(pause)
    except OSError: pass
    return read(c, 4096, 3)
"""
BAD = {
    "another": 'records(hello("evil.test"))',
    "absent": "records(hello())",
    "below": 'records(hello("www.example.test"))',
    "suffix": 'records(hello("example.test.evil.test"))',
    "nul": 'records(hello(b"example.test\\0.evil.test"))',
    "two": 'records(hello(["example.test", "evil.test"]))',
    "twice": 'records(hello("example.test", extra=struct.pack("!HHHBH", 0, 14, 12, 0, 9) + b"evil.test"))',
    "empty": 'records(hello(""))',
    "address": 'records(hello("203.0.113.10"))',
    "space": 'records(hello("example.test "))',
    "records": 'records(hello("evil.test"), 7)',
    "one-byte-records": 'records(hello("evil.test"), 1)',
    "ech": 'records(hello("evil.test", extra=struct.pack("!HH", 0xfe0d, 8) + bytes(8)))',
    "ech-alone": 'records(hello(None, extra=struct.pack("!HH", 0xfe0d, 8) + bytes(8)))',
    "cut": 'records(hello("evil.test")[:60])',
    "http-other": '[get("/", "evil.test")]',
    "sslv2": '[b"\\x80\\x2e\\x01\\x00\\x02\\x00\\x15\\x00\\x00\\x00\\x10" + bytes(40)]',
    "alert": '[b"\\x15\\x03\\x01\\x00\\x02\\x02\\x28" + records(hello("evil.test"))[0]]',
    "zero-record": '[b"\\x16\\x03\\x01\\x00\\x00" + records(hello("evil.test"))[0]]',
    "ccs-first": '[b"\\x14\\x03\\x01\\x00\\x01\\x01" + records(hello("evil.test"))[0]]',
    "huge": 'records(hello("evil.test", padding=60000))',
}
GOOD = {
    "plain": 'records(hello("example.test"))',
    "case": 'records(hello("EXAMPLE.Test"))',
    "records": 'records(hello("example.test"), 50)',
    "ech-outer": 'records(hello("example.test", extra=struct.pack("!HH", 0xfe0d, 8) + bytes(8)))',
    "padded": 'records(hello("example.test", padding=9000))',
}


@pytest.mark.parametrize("way", ["direct", "tunnel", "socks", "pipelined"])
def test_server_name(net, way):
    """None of these gets an answer from a server, and none that names another server reaches one."""
    script = WAYS + f"bad = {{}}; good = {{}}\ndef t(where, name, pieces, pause=0): where[name] = deliver('{way}', pieces, pause)\nthreads = []\n"
    for kind, cases in (("bad", BAD), ("good", GOOD)):
        for name, pieces in cases.items():
            script += f"threads.append(threading.Thread(target=t, args=({kind}, {name!r}, {pieces})))\n"
    whole = 'records(hello("{}"))[0]'
    script += f"threads.append(threading.Thread(target=t, args=(bad, 'bytewise', [bytes([b]) for b in {whole.format('evil.test')}], 0.002)))\n"
    script += f"threads.append(threading.Thread(target=t, args=(good, 'bytewise', [bytes([b]) for b in {whole.format('example.test')}], 0.002)))\n"
    script += """
for x in threads: x.start()
for x in threads: x.join()
say(passed=[n for n, a in bad.items() if a[:1] == b"\\x16" or b"hello" in a],
    failed={n: a[:80] for n, a in good.items() if a[:1] != b"\\x16"},
    alerts=[n for n, a in bad.items() if a[:1] == b"\\x15"])
"""
    result = net.py(script, *allow("example.test"), "--processes", "150")
    facts = json.loads(result.ok())
    assert facts["passed"] == [] and facts["failed"] == {}, facts
    assert {"another", "absent", "below", "records", "bytewise"} <= set(facts["alerts"]), facts
    # anything but None is what a server read from a hello
    assert {e["sni"] for e in net.seen.all("connection")} <= {None, "example.test", "EXAMPLE.Test"}
    assert net.seen.requests() == []
    explained(result, "example.test")


def test_the_other_name_is_told(net):
    result = net.run(*allow("example.test"), "--", "curl", "-sS", "-m", "30", "--noproxy", "*", "--connect-to",
                     "evil.test:443:example.test:443",
                     "https://evil.test/")
    assert result.status == 35 and net.seen.all() == []
    assert "example.test" in explained(result, "evil.test")["what"]


@pytest.mark.parametrize("port", [80, 8080, 9000])
def test_on_other_ports(net, port):
    """A TLS hello is compared wherever it appears, and so is an HTTP request."""
    result = net.py(f"""
for data in records(hello("evil.test")) + [get("/", "evil.test")]:
    answer = ask(("example.test", {port}), data, 3)
    assert answer[:1] != b"\\x16" and b"hello" not in answer, answer
""", *allow(f"example.test:{port}"))
    result.ok()
    assert net.seen.requests() == [] and net.seen.bytes() == b""
    explained(result, "evil.test")


def test_later_handshakes_are_the_servers_business(net):
    """A second hello within the connection is not ours to read; the first one is what the server acts on."""
    result = net.py("""
c = tls(tcp("example.test", 443), "example.test"); c.sendall(get("/", "example.test", "Connection: close\\r\\n"))
assert b"hello" in read(c)
""", *allow("example.test"))
    result.ok()
    assert [e["sni"] for e in net.seen.all("connection")] == ["example.test"]


def test_opened_tls_compares_too(net):
    """Where the gate is the server, another name in the hello ends it as well."""
    options = net.profile("network: {allow: [{host: example.test, inspect: true}]}")
    result = net.py("""
for name in ("evil.test", "www.example.test", None):
    try:
        c = tls(tcp("example.test", 443), name, verify=False)
        a = ask(c, get("/", name or "example.test", "Connection: close\\r\\n"))
        assert b"hello" not in a, (name, a)
    except OSError: pass
c = tls(tcp("example.test", 443), "example.test")
assert b"hello" in ask(c, get("/", "example.test", "Connection: close\\r\\n"))
c = tls(tcp("example.test", 443), "example.test")
a = ask(c, get("/", "example.test") + get("/", "evil.test", "Connection: close\\r\\n"))
assert a.count(b"hello") == 1 and b" 403 " in a, a
""", *options)
    result.ok()
    assert {e["host"] for e in net.seen.requests()} == {"example.test"} and len(net.seen.requests()) == 2
    explained(result, "evil.test")
