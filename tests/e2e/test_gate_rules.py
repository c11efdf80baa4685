"""Rules of a profile and of the command line: names, wildcards, ports, blocks of addresses, methods, paths."""
import json

import pytest

from world import allow, by_user, explained

pytestmark = by_user

FETCH = """
out = {}
for url in sys.argv[1:]:
    scheme, rest = url.split("://"); host, _, path = rest.partition("/"); name, _, port = host.partition(":"); port = int(port or 80)
    out[url] = [b"hello" in ask((name, port), get("/" + path, host, "Connection: close\\r\\n"), 5),
                b"hello" in ask(PROXY, get(url, host, "Connection: close\\r\\n"), 5)]
    assert out[url][0] == out[url][1], (url, out[url])
    out[url] = out[url][0]
say(**out)
"""


def reached(net, options, *urls):
    """Which of these plain URLs can be fetched: directly and through the proxy alike."""
    result = net.run(*options, *net.inside(FETCH), *urls)
    facts = json.loads(result.ok())
    return {url for url, good in facts.items() if good}, result


def test_wildcard(net):
    """By label, every depth below, never the name itself and never another's."""
    good = {"http://www.example.test/", "http://deep.www.example.test/"}
    bad = ["http://example.test/", "http://evil.test/", "http://www.example.test.evil.test/", "http://notexample.test/"]
    net.names.zone.update({"notexample.test": ["203.0.113.30"], "www.example.test.evil.test": ["203.0.113.30"]})
    found, result = reached(net, allow("*.example.test"), *good, *bad)
    assert found == good and not [q for q in net.names.asked() if not q.name.endswith("www.example.test")]
    explained(result, "notexample.test")


def test_star(net):
    """Any name; still no address, and still nothing private."""
    found, _ = reached(net, net.profile('network: {allow: [{host: "*"}]}'), "http://example.test/", "http://evil.test/",
                       "http://inner.example.test/",
                       "http://203.0.113.10/", "http://metadata.example.test/", "http://localhost/")
    assert found == {"http://example.test/", "http://evil.test/"}
    assert not net.seen.all(where="host")


@pytest.mark.parametrize("spelling", ["bücher.example.test", "xn--bcher-kva.example.test", "BÜCHER.example.test",
                                      "XN--BCHER-KVA.Example.Test."])
def test_idna(net, spelling):
    result = net.sh("curl -sS -m 30 https://bücher.example.test/ && curl -sS -m 30 --noproxy '*' "
                    "http://xn--bcher-kva.example.test/", *allow(spelling))
    assert result.ok().count("203.0.113.12") == 2


@pytest.mark.parametrize("spelling", ["bu\u0308cher.example.test", "b\u00fccher.example.test\u3002",
                                      "xn--bcher-kva.example.test"])
def test_idna_has_one_form(net, spelling):
    """Composed or not, ideographic full stop or not: refused on the command line, or the same name."""
    result = net.run(*allow(spelling), "--", "curl", "-sS", "-m", "30", "http://xn--bcher-kva.example.test/")
    assert result.status == 125 or "203.0.113.12" in result.ok()


@pytest.mark.parametrize("bad", ["", ".", "..", "exa mple.test", "example.test/path", "http://example.test",
                                 "user@example.test", "example..test", "*.*.test",
                                 "ex*mple.test", "example.test:0", "example.test:65536", "example.test:http", "-a.test",
                                 "a" * 64 + ".test",
                                 "x\x01.test", "example.test:", "*example.test", "example.test:443:443", "127.0.0.1/33"])
def test_bad_allow(net, bad):
    """What is not a host is refused before anything is run."""
    result = net.run("--allow", bad, "--", "true")
    assert result.status == 125 and result.errors.strip() and net.names.asked() == []


def test_ports(net):
    found, result = reached(net, allow("example.test:8080"), "http://example.test:8080/", "http://example.test/",
                            "http://www.example.test:8080/")
    assert found == {"http://example.test:8080/"}
    explained(result, "example.test")
    result = net.sh("curl -sS -m 30 https://example.test:8443/ && ! curl -sS -m 30 https://example.test/",
                    *allow("example.test:8443"))
    assert "hello" in result.ok() and not net.seen.all(port=443)


def test_ports_add_up(net):
    found, _ = reached(net, allow("example.test:8080", "example.test"), "http://example.test:8080/", "http://example.test/")
    assert len(found) == 2


def test_any_port(net):
    found, _ = reached(net, net.profile("network: {allow: [{host: example.test, ports: any}]}"), "http://example.test:8080/",
                       "http://example.test/")
    assert len(found) == 2


def test_cidr(net):
    """Literal addresses pass where a block allows them; names do not become reachable by it."""
    options = net.profile('network: {allow: [{cidr: 203.0.113.8/29}, {cidr: "2001:db8::10/128", ports: [8080]}]}')
    result = net.py("""
assert b"hello" in ask(("203.0.113.10", 80), get("/", "203.0.113.10", "Connection: close\\r\\n"))
assert b"hello" in ask(PROXY, get("http://203.0.113.11/", "203.0.113.11", "Connection: close\\r\\n"))
assert b"hello" in ask(("2001:db8::10", 8080), get("/", "[2001:db8::10]:8080", "Connection: close\\r\\n"))
assert b"\\x05\\x00\\x00" in ask(PROXY, socks(socket.inet_aton("203.0.113.12"), 80, 1), 1)
for bad in (("203.0.113.30", 80), ("203.0.113.10", 8080), ("2001:db8::10", 80), ("2001:db8::11", 8080), ("10.0.0.5", 80)):
    assert b"hello" not in ask(bad, get("/", "x", "Connection: close\\r\\n")), bad
assert code(dns(question("example.test"))) == 5
""", *options)
    result.ok()
    assert net.names.asked() == [] and {e["address"]
                                        for e in net.seen.all()} == {"203.0.113.10", "203.0.113.11", "203.0.113.12",
                                                                     "2001:db8::10"}
    explained(result, "203.0.113.30")


def test_every_address_is_not_every_address(net):
    """0.0.0.0/0 does not open what is not public; only private: true does, for its own block."""
    options = net.profile('network: {allow: [{cidr: 0.0.0.0/0}, {cidr: "::/0"}, {cidr: 10.0.0.0/24, private: true}]}')
    result = net.py("""
for good in ("203.0.113.10", "8.8.8.8", "2001:db8::10", "10.0.0.5"):
    assert b"hello" in ask((good, 80), get("/", "[%s]" % good if ":" in good else good, "Connection: close\\r\\n")), good
for bad in ("169.254.169.254", "172.31.0.2", "10.1.2.3", "192.168.1.1", "100.64.0.1", "fd00:77::2", "fd00:99::5",
            "64:ff9b::a00:5", "::ffff:172.31.0.2",
            "2002:a00:5::1", "198.18.0.99"):
    assert b"hello" not in ask((bad, 80), get("/", "[%s]" % bad if ":" in bad else bad, "Connection: close\\r\\n"), 2), bad
for bad in ("127.0.0.1", "[::1]", "172.31.0.2", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1",
            "127.1", "0177.0.0.1"):
    assert status(ask(PROXY, connect_head(bad + ":80"), 2)) != 200, bad
""", *options)
    result.ok()
    assert net.seen.all(where="host") == [] and {e["address"]
                                                 for e in net.seen.all()} == {"203.0.113.10", "8.8.8.8", "2001:db8::10", "10.0.0.5"}


def test_set(net):
    """--set lays a value over the profile's."""
    options = ["--set", "network.allow=files.example.test,203.0.113.10/32"]
    found, _ = reached(net, options, "http://files.example.test/", "http://203.0.113.10/", "http://example.test/",
                       "http://203.0.113.11/")
    assert found == {"http://files.example.test/", "http://203.0.113.10/"}


def test_allow_adds_to_a_profile(net):
    options = net.profile("network: {allow: [{host: example.test}]}")
    found, _ = reached(net, [*options, "--allow", "files.example.test"], "http://example.test/", "http://files.example.test/",
                       "http://evil.test/")
    assert found == {"http://example.test/", "http://files.example.test/"}


def test_sealed(net):
    """A sealed profile's network can be narrowed on the command line, not widened."""
    options = net.profile('sealed: true\nnetwork: {allow: [{host: "*.example.test"}]}')
    result = net.run(*options, "--allow", "evil.test", "--", "true")
    assert result.status == 125 and "network.allow" in result.errors


METHODS = """network:
  allow:
    - {host: api.example.test, methods: [GET, HEAD], paths: ["/v1/*", "/exact"]}
    - {host: api.example.test, methods: [POST], paths: ["/upload"]}
"""


def test_methods_and_paths(net):
    """Judged on plain HTTP and within TLS alike; 403 says which."""
    result = net.py("""
def codes(base):
    seen = []
    for method, path in (("GET", "/v1/x"), ("HEAD", "/v1/x"), ("GET", "/v1/x?q=1"), ("POST", "/upload"), ("POST", "/v1/x"),
                         ("GET", "/upload"),
                         ("DELETE", "/v1/x"), ("GET", "/v2/x"), ("GET",
                                                                 "/v1"), ("GET", "/exact/more"), ("GET", "/v1/../private"),
                                                                 ("GET", "/v1/%2e%2e/private"),
                         ("GET", "/v1/..%2fprivate"), ("GET",
                                                       "/v1//x"), ("GET", "/v1/.%5cx"), ("get", "/v1/x"), ("GET", "//v1/x")):
        conn = base()
        answer = ask(conn, get(path, "api.example.test", "Connection: close\\r\\nContent-Length: 0\\r\\n", method))
        seen.append(status(answer))
    return seen
want = [200, 200, 200, 200] + [403] * 13
got = codes(lambda: tcp("api.example.test", 80))
assert got == want, got
got = codes(lambda: tls(tcp("api.example.test", 443), "api.example.test"))
assert got == want, got
""", *net.profile(METHODS))
    result.ok()
    assert {(e["method"], e["path"].split("?")[0])
            for e in net.seen.requests()} == {("GET", "/v1/x"), ("HEAD", "/v1/x"), ("POST", "/upload")}
    explained(result, "api.example.test")


def test_403_within_tls(net):
    result = net.run(*net.profile(METHODS), "--", "curl", "-sS", "-m", "30", "-X", "DELETE",
                     "https://api.example.test/v1/x?token=abc")
    body = json.loads(result.ok())
    assert (body["host"], body["method"], body["path"],
            body["port"]) == ("api.example.test", "DELETE", "/v1/x", 443) and body["rule"] == 0 and body["hint"]
    assert "abc" not in json.dumps(result.record["denials"]) + json.dumps(result.record["network"]) + result.errors
    explained(result, "DELETE")


def test_inspect(net):
    """inspect: true closes fronting: the request's Host is compared within TLS."""
    options = net.profile("network: {allow: [{host: www.example.test, inspect: true}]}")
    result = net.sh("curl -sS -m 30 https://www.example.test/; curl -sS -m 30 -w '%{http_code}' -o /dev/null -H 'Host: "
                    "evil.test' https://www.example.test/", *options)
    assert "hello" in result.text and not result.text.endswith("200")
    assert {e["host"] for e in net.seen.requests()} == {"www.example.test"}
    explained(result, "evil.test")


def test_upstream_certificate(net):
    """What the gate opens, it verifies: a server with another's certificate is not talked to."""
    options = net.profile("network: {allow: [{host: badcert.example.test, inspect: true, ports: [4443]}, {host: "
                          "example.test, inspect: true, ports: [4443]}]}")
    result = net.sh("for h in badcert.example.test example.test; do curl -sSk -m 30 -w '%{http_code}' https://$h:4443/; "
                    "done; true", *options)
    result.ok()
    assert net.seen.requests() == [] and "hello" not in result.text
    explained(result, "badcert.example.test")


def test_public_only_by_default_with_inspect(net):
    options = net.profile("network: {allow: [{host: inner.example.test, inspect: true}]}")
    result = net.run(*options, "--", "curl", "-sSf", "-m", "30", "https://inner.example.test/")
    assert result.status and net.seen.all() == []
