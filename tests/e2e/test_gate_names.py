"""Names: what they resolve to is judged after resolution, and the address that was judged is the one that is dialled."""
import pytest

from world import allow, by_root, explained

pytestmark = by_root

NAME = "rebind.example.test"
SPECIAL = ["10.0.0.5", "10.1.2.3", "172.16.0.9", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.170.2",
           "100.100.100.200", "192.0.0.192",
           "127.0.0.1", "127.7.7.7", "0.0.0.0", "172.31.0.2", "198.18.0.99", "198.18.0.1", "240.0.0.1", "255.255.255.255",
           "224.0.0.251",
           "::1", "::", "fd00:99::5", "fd00:77::2", "fd00:ec2::254", "fe80::1", "fec0::5", "ff02::1", "::ffff:127.0.0.1",
           "::ffff:10.0.0.5",
           "::ffff:169.254.169.254", "::10.0.0.5", "::127.0.0.1", "64:ff9b::a00:5", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:5",
           "2002:a00:5::1",
           "2002:7f00:1::1", "2001::a00:5", "fd53:746f:636b::1", "fe80::5efe:a00:5"]
TRY_ALL = """
def one(name):
    results[name] = [ask((name, 80), get("/", name), 6), ask(PROXY, get("http://%s/" % name, name), 6),
                     ask(PROXY, socks(name, 80), 6)]
results, names = {}, sys.argv[1:]
threads = [threading.Thread(target=one, args=(name,)) for name in names]
for t in threads: t.start()
for t in threads: t.join()
say(reached=[n for n in names if any(b"hello" in r or status(r) == 200 for r in results[n])],
    wrong=[(n, results[n]) for n in names if status(results[n][1]) not in (403, 502, 504)])
"""


def test_special_addresses(net):
    """Every kind of address that is not public, as the answer for an allowed name."""
    zone = {f"s{i}.example.test": [address] for i, address in enumerate(SPECIAL)}
    net.names.zone.update(zone)
    result = net.run(*allow("*.example.test"), *net.inside(TRY_ALL), *zone)
    assert '"reached": []' in result.ok() and net.seen.all() == []
    assert '"wrong": []' in result.text
    explained(result, "example.test", "private")


@pytest.mark.parametrize("address", ["10.0.0.5", "fd00:99::5"])
def test_private_when_the_rule_says_so(net, address):
    net.names.zone[NAME] = [address]
    options = net.profile(f"network: {{allow: [{{host: {NAME}, private: true}}]}}")
    assert f"hello from internet {address}" in net.run(*options, "--", "curl", "-sS", "-m", "5", f"http://{NAME}/").ok()


def test_private_is_not_for_other_rules(net):
    """private: true opens its own name and port, not those of the rules beside it."""
    net.names.zone[NAME] = ["10.0.0.5"]
    options = net.profile(f"network: {{allow: [{{host: inner.example.test, private: true}}, {{host: {NAME}}}, {{host: "
                          f"{NAME}, ports: [8080], private: true}}]}}")
    result = net.sh(f"! curl -sS -m 5 http://{NAME}/ -f && curl -sS -m 5 http://inner.example.test/ && curl -sS -m 5 "
                    f"http://{NAME}:8080/", *options)
    assert result.ok().count("hello from internet 10.0.0.5") == 2
    assert {e["port"] for e in net.seen.requests(host=NAME)} == set()
    explained(result, NAME, "private")


def test_rebinding(net):
    """First a public address, then loopback; no time to live. Whatever is dialled was judged."""
    net.names.ttl = 0
    net.names.zone[NAME] = lambda before, kind: [] if kind == "AAAA" else ["203.0.113.10"] if before % 2 == 0 else ["127.0.0.1"]
    result = net.py(f"""
answers = [ask(("{NAME}", 80), get("/", "{NAME}", "Connection: close\\r\\n"), 6) for _ in range(12)]
answers += [ask(PROXY, get("http://{NAME}/", "{NAME}", "Connection: close\\r\\n"), 6) for _ in range(12)]
say(public=sum(b"203.0.113.10" in a for a in answers), host=sum(b"from host" in a for a in answers))
""", *allow(NAME))
    assert '"host": 0' in result.ok() and '"public": 0' not in result.text
    assert {e["address"] for e in net.seen.all()} == {"203.0.113.10"}


def test_one_lookup_one_dial(net):
    """A name whose every answer is different: the server that is dialled is the one of the answer that was judged."""
    net.names.ttl = 0
    net.names.zone[NAME] = lambda before, kind: [] if kind == "AAAA" else ["203.0.113.10"] if before == 0 else ["10.0.0.5"]
    result = net.run(*allow(NAME), "--", "curl", "-sS", "-m", "6", f"http://{NAME}/")
    assert "203.0.113.10" in result.ok() and {e["address"] for e in net.seen.all()} == {"203.0.113.10"}


@pytest.mark.parametrize("answers", [["203.0.113.10", "10.0.0.5"], ["10.0.0.5", "203.0.113.10"],
                                     ["127.0.0.1", "203.0.113.10", "169.254.169.254"],
                                     ["2001:db8::10", "::1", "203.0.113.10", "127.0.0.1"]])
def test_mixed_answers(net, answers):
    """Public and private in one answer: only public ones are ever dialled, or none."""
    net.names.zone[NAME] = answers
    result = net.sh(f"for i in 1 2 3 4; do curl -sS -m 6 http://{NAME}/; curl --noproxy '*' -sS -m 6 http://{NAME}/; done; "
                    f"true", *allow(NAME))
    result.ok()
    assert {e["address"] for e in net.seen.all()} <= {"203.0.113.10", "2001:db8::10"}
    assert net.seen.all(where="host") == []


@pytest.mark.parametrize("entry", [["cname:inner.example.test"], ["cname:metadata.example.test"], ["cname:localhost"]])
def test_alias_of_something_private(net, entry):
    net.names.zone[NAME] = entry
    net.names.zone["localhost"] = ["127.0.0.1"]
    result = net.run(*allow(NAME), "--", "curl", "-sS", "-f", "-m", "6", f"http://{NAME}/")
    assert result.status == 22 and net.seen.all() == []
    explained(result, NAME)


def test_alias(net):
    """An alias of a name that no rule allows is the owner's business: the asked name is allowed."""
    net.names.zone[NAME] = ["cname:files.example.test"]
    assert "203.0.113.12" in net.run(*allow(NAME), "--", "curl", "-sS", "-m", "6", f"http://{NAME}/").ok()


def test_long_answers(net):
    """An answer that does not fit into a datagram is asked for over TCP, and judged whole."""
    net.names.zone[NAME] = ["tcp", "10.0.0.5", *["203.0.113.99"] * 3, "203.0.113.10", "203.0.113.11"]
    net.names.zone["many.example.test"] = ["tcp", "203.0.113.10", *[f"10.1.{n // 250}.{n % 250}" for n in range(500)]]
    result = net.sh("curl -sS -m 20 http://many.example.test/; true", *allow(NAME, "many.example.test"))
    assert {e["address"]
            for e in net.seen.all()} <= {"203.0.113.10"} and "tcp" in {q.transport for q in net.names.asked()}, result


def test_aliases_without_end(net):
    """An alias of itself, and a chain of twenty: the wait is bounded."""
    net.names.zone["loop.example.test"] = ["cname:loop.example.test"]
    net.names.zone.update({f"c{n}.example.test": [f"cname:c{n + 1}.example.test"] for n in range(20)})
    result = net.sh("for h in loop c0; do curl -sS -m 12 -w '%{http_code} ' -o /dev/null http://$h.example.test/; done",
                    *allow("*.example.test"))
    assert set(result.text.split()) <= {"502", "504", "403"} and net.seen.all() == []


@pytest.mark.parametrize("entry", ["NXDOMAIN", "SERVFAIL", "REFUSED", "garbage", []], ids=str)
def test_name_that_does_not_resolve(net, entry):
    net.names.zone[NAME] = entry
    result = net.run(*allow(NAME), "--", "curl", "-sS", "-m", "15", "-w", "%{http_code}", f"http://{NAME}/")
    assert result.text.endswith(("502", "504", "403")), result
    explained(result, NAME)
    assert net.seen.all() == []


def test_resolver_that_is_silent(net):
    """Others are not held up, and the wait ends."""
    net.names.zone[NAME] = "silence"
    import json
    tried = []
    while len(tried) < 5:  # what is held up is so every time
        result = net.py(f"""
start = time.monotonic(); slow = []
t = threading.Thread(target=lambda: slow.append(ask(PROXY, get("http://{NAME}/", "{NAME}"), 60))); t.start()
times = []
while t.is_alive() and len(times) < 10:
    begin = time.monotonic()
    answer = ask(("example.test", 80), get("/", "example.test", "Connection: close\\r\\n"), 30)
    assert b"hello" in answer, answer
    times.append(time.monotonic() - begin)
t.join()
say(done=len(times), worst=max(times), code=status(slow[0]), wait=time.monotonic() - start)
""", *allow(NAME, "example.test"))
        tried.append(json.loads(result.ok()))
        assert tried[-1]["code"] in (502, 504), tried
        explained(result, NAME)
        if tried[-1]["done"] == 10 and tried[-1]["worst"] < 1 and tried[-1]["wait"] < 21:
            return
    assert False, tried


def test_only_six(net):
    """A name with IPv6 alone works for a client that speaks IPv4 alone: the gate stands between."""
    result = net.run(*allow("six.example.test"), "--", "curl", "-4", "--noproxy", "*", "-sS", "-m", "6",
                     "https://six.example.test/")
    assert "2001:db8::20" in result.ok()


def test_hosts_file_of_the_host(net):
    """The host's /etc/hosts may name loopback: refused as any private answer, and no question asked that a rule did not allow."""
    result = net.run(*allow("trap.example.test"), "--", "curl", "-sS", "-f", "-m", "6", "http://trap.example.test/")
    assert result.status == 22 and net.seen.all() == []


def test_addresses_are_stable(net):
    """The same name has the same address for the sandbox's life; different names different ones."""
    result = net.py("""
first = {n: dns(question(n + ".example.test"))[-4:] for n in ("a", "b", "c")}
for i in range(300): dns(question("n%d.example.test" % i))
again = {n: dns(question(n.upper() + ".EXAMPLE.test"))[-4:] for n in ("a", "b", "c")}
assert first == again and len(set(first.values())) == 3, (first, again)
assert dns(question("a.example.test"),
           "2001:db8::53")[-4:] == first["a"] and dns(question("a.example.test"), stream=True)[-4:] == first["a"]
assert dns(question("a.example.test", 28))[-16:-12] == bytes.fromhex("fd53746f")
""", *allow("*.example.test"))
    result.ok()
    assert net.names.asked() == []


def test_an_unknown_synthetic_address(net):
    """An address of the block that stands for no name leads nowhere."""
    result = net.py("""
for host in ("198.18.3.77", "198.19.255.254", "fd53:746f:636b::ffff", "198.18.0.0", "198.18.0.2"):
    assert b"hello" not in ask((host, 80), get("/", "example.test"), 2), host
""", *allow("example.test"))
    result.ok()
    assert net.seen.all() == []


def test_high_profile(net):
    """Any public name and address through the gate, and nothing else."""
    result = net.py("""
for host, good in (("example.test", True), ("203.0.113.10", True), ("2001:db8::10", True), ("inner.example.test", False),
                   ("169.254.169.254", False), ("172.31.0.2", False), ("trap.example.test", False)):
    name = "[%s]" % host if ":" in host else host
    for where, target in (((host, 80), "/"), (PROXY, "http://%s/" % name)):
        assert (b"hello" in ask(where, get(target, name, "Connection: close\\r\\n"))) == good, (host, where)
""", "--profile", "high")
    result.ok()
    assert net.seen.all(where="host") == [] and not net.seen.all(address="169.254.169.254")
