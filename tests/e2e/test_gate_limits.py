"""Caps of one sandbox: connections, lookups, bandwidth, bytes that may leave. Each is kept, counted and named."""
import json

import harness
from world import by_root, explained

pytestmark = by_root


def limited(net, text, extra=""):
    return net.profile(f"network: {{allow: [{{host: example.test}}, {{host: files.example.test}}{extra}]}}\n{text}")


def test_connections(net):
    """The fifth of four is refused; when one ends, there is room again."""
    result = net.py(f"""
slow = {harness.SLOW}
def opened():
    data = b""
    try:
        c = tcp("example.test", 80, 20 * slow); c.sendall(get("/", "example.test")); c.settimeout(20 * slow)
        while b"hello" not in data:
            piece = c.recv(4096); data += piece
            if not piece: return None
        return c
    except OSError: return None
held = [opened() for n in range(4)]; assert all(held), held
more = [opened() for n in range(5)]; assert not any(more), more
# the place is free when the server's end has come back: a moment, and then as long as it takes
held.pop().close(); time.sleep(0.3 * slow); end = time.monotonic() + 20 * slow
while not (again := opened()) and time.monotonic() < end: time.sleep(0.05)
assert again
a = ask(PROXY, get("http://example.test/", "example.test"), 2 * slow); assert b"hello" not in a, a
""", *limited(net, "limits: {connections: 4}"))
    result.ok()
    assert net.world.web.most <= 4
    assert any(d["rule"] == "limits.connections" and "limits.connections" in d["how_to_allow"]
               for d in result.record["denials"]), result.record


def test_lookups(net):
    """More questions a second than allowed are refused; after a moment they are answered again."""
    result = net.py("""
def burst(n): return sum(count(dns(question("example.test", number=i), timeout=10)) for i in range(n))
begin = time.monotonic(); first = burst(300); spent = time.monotonic() - begin
time.sleep(1.2); again = burst(5)
say(first=first, spent=spent, again=again)
""", *limited(net, "limits: {lookups: 20}"))
    facts = json.loads(result.ok())
    assert facts["first"] <= 20 * (facts["spent"] + 2) and facts["first"] < 250 and facts["again"] == 5, facts
    assert any(d["rule"] == "limits.lookups" and d["count"] >= 50 for d in result.record["denials"]), result.record["denials"]


def test_bandwidth(net):
    """Both ways, over all connections together, plain and through the proxy."""
    result = net.py("""
def down(n, out): out.append(len(ask(("example.test", 80), get("/bytes/%d" % n, "example.test", "Connection: close\\r\\n"),
                                     30)))
def both():
    out = []; begin = time.monotonic()
    threads = [threading.Thread(target=down, args=(750000, out)) for n in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    spent = time.monotonic() - begin
    begin = time.monotonic()
    a = ask(PROXY, get("http://example.test/upload", "example.test", "Connection: close\\r\\nContent-Length: 2000000\\r\\n",
                       "POST") + bytes(2000000), 30)
    return dict(down=spent, got=out, up=time.monotonic() - begin, answer=a[-80:])
rounds = [both()]
while len(rounds) < 4 and (rounds[-1]["down"] >= 6 or rounds[-1]["up"] >= 5): rounds.append(both())
say(rounds=rounds)
""", *limited(net, "limits: {bandwidth: 1MiB/s}"))
    facts = json.loads(result.ok())
    for one in facts["rounds"]:
        assert all(size > 750000 for size in one["got"]) and "2000000 " in one["answer"], facts
        assert 1.4 < one["down"] and 0.7 < one["up"], facts
    assert one["down"] < 6 and one["up"] < 5, facts  # a limit that is too strict is so in every round


def test_bandwidth_does_not_delay_others(net):
    """A small request beside large transfers is slowed down by its share, not kept out until they are over."""
    result = net.py("""
def transfer():
    large = tcp("example.test", 80, 20); large.sendall(get("/bytes/30000000", "example.test")); large.recv(1)
    def on():
        read(large, 1 << 30, 60); over.append(1)
    threading.Thread(target=on, daemon=True).start()
over = []
for n in range(4): transfer()
spent = []
for n in range(5):
    begin = time.monotonic(); a = ask(("files.example.test", 80), get("/", "files.example.test", "Connection: close\\r\\n"), 20)
    assert b"hello" in a; spent.append(time.monotonic() - begin)
say(spent=spent, over=len(over)); os._exit(0)
""", *limited(net, "limits: {bandwidth: 1MiB/s}"))
    facts = json.loads(result.ok())
    assert facts["over"] == 0 and min(facts["spent"]) < 3, facts


def test_egress(net):
    """What may be sent in all is a number; then nothing more leaves, on old connections and new ones."""
    result = net.py("""
a = ask(("example.test", 80), get("/upload", "example.test", "Connection: close\\r\\nContent-Length: 50000\\r\\n", "POST")
        + bytes(50000)); assert b"50000 " in a, a
a = ask(("example.test", 80), get("/upload", "example.test", "Connection: close\\r\\nContent-Length: 500000\\r\\n", "POST")
        + bytes(500000), 3); assert b"500000 " not in a, a
a = ask(("files.example.test", 80), get("/", "files.example.test"), 3); assert b"hello" not in a, a
a = ask(PROXY, get("http://files.example.test/", "files.example.test"), 3); assert b"hello" not in a, a
say(ok=1)
""", *limited(net, "budget: {egress: 200KiB}"))
    result.ok()
    assert result.record["network"]["sent"] <= 200 * 1024 and not net.seen.requests(host="files.example.test")
    assert any(d["rule"] == "budget.egress" and "budget.egress" in d["how_to_allow"]
               for d in result.record["denials"]), result.record["denials"]
    assert "budget.egress" in result.errors


def test_egress_counts_lookups(net):
    """Names are bytes too: what the gate asks on the sandbox's behalf is bounded by its own cache and limits."""
    result = net.py("for i in range(200): ask(('example.test', 80), get('/', 'example.test', 'Connection: close\\r\\n'))",
                    *limited(net, ""))
    result.ok()
    assert len(net.names.asked()) <= 40, "each connection asks anew"


def test_totals(net):
    """The record counts what passed, by host, and what did not."""
    result = net.py("""
for i in range(3): ask(("example.test", 80), get("/bytes/100000", "example.test", "Connection: close\\r\\n"))
ask(("files.example.test", 80), get("/", "files.example.test",
                                    "Connection: close\\r\\n")); ask(PROXY, connect_head("evil.test:443"))
""", *limited(net, ""))
    result.ok()
    network = result.record["network"]
    hosts = {host["host"]: host for host in network["hosts"]}
    assert set(hosts) == {"example.test",
                          "files.example.test"} and network["connections"] == 4 and network["refused"] >= 1, network
    assert hosts["example.test"]["received"] > 300000 > hosts["files.example.test"]["received"] > 0 and network["received"] > 300000
    assert network["lookups"] >= 4 and 0 < network["sent"] < 10000


def test_limits_are_checked(net):
    for bad in ("limits: {connections: -1}", "limits: {lookups: many}", "limits: {bandwidth: 1MiB}",
                "budget: {egress: 1MiB/s}"):
        result = net.run(*limited(net, bad), "--", "true")
        assert result.status == 125 and "p.yaml" in result.errors, (bad, result)
