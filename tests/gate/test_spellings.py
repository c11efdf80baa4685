"""Thousands of ways to spell a host, put to the gate's decisions and to a slow checker that can be read at a glance.

The checker here and the code in the gate were written apart: this one splits names into labels and leaves addresses to
Python's ipaddress module, and it writes the rules' bytes itself. The two must agree on every case: on what the bytes
are, on their canonical form, on whether the name would be answered, on the verdict, and on the rule that it names.

STOCKADE_BUILD   the build folder (default: build)
"""
import collections
import functools
import ipaddress
import itertools
import os
import random
import re
import string
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
DRIVER = Path(os.environ.get("STOCKADE_BUILD", SOURCE / "build")) / "tests/gate/decide-driver"
PRIVATE, INSPECT, ANY_PORT = 1, 2, 4
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 53, "example"])
assert len(LONG) == 253

Rule = collections.namedtuple("Rule", "where ports private", defaults=((80, 443), False))

RULES = {
    "list": [
        Rule("allowed.example"),
        Rule("*.wild.example"),
        Rule("xn--bcher-kva.example", (443,)),
        Rule("db.example", (5432,), True),
        Rule("any.example", ()),
        Rule("*.allowed.example", (8443,)),
        Rule("allowed.example", (22,)),
        Rule(ipaddress.ip_network("203.0.113.0/24")),
        Rule(ipaddress.ip_network("10.0.0.0/8"), (443,), True),
        Rule(ipaddress.ip_network("2001:db8::/32"), (443,)),
        Rule(ipaddress.ip_network("fd00::/8"), (443,), True),
        Rule(ipaddress.ip_network("0.0.0.0/0"), (53,)),
        Rule(ipaddress.ip_network("::/0"), (53,)),
        Rule(LONG, (443,)),
        Rule("_srv._tcp.example"),
    ],
    "any name": [Rule("*")],
    "any IPv6 address": [Rule(ipaddress.ip_network("::/0"), (), True)],
    "any IPv4 address": [Rule(ipaddress.ip_network("0.0.0.0/0"), (), True)],
    "nothing": [],
}


# The slow, obvious checker.

LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
SPECIAL4 = [ipaddress.ip_network(n) for n in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4")]
PUBLIC6 = ipaddress.ip_network("2000::/3")
SPECIAL6 = [ipaddress.ip_network(n) for n in ("2001::/23", "2002::/16")]


@functools.cache
def as_address(host):
    """The address that these bytes are in exact text form, IPv4 in its own form; or None."""
    if not re.fullmatch(rb"[0-9a-fA-F.:]+", host):
        return None
    try:
        address = ipaddress.ip_address(host.decode())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@functools.cache
def as_name(host):
    """The labels of the name that these bytes are, or None."""
    if any(byte > 127 for byte in host):
        return None
    text = host.decode("ascii").translate(str.maketrans(string.ascii_uppercase, string.ascii_lowercase))
    if text.endswith("."):
        text = text[:-1]
    labels = text.split(".")
    if len(text) > 253 or not all(len(label) <= 63 and LABEL.fullmatch(label) for label in labels):
        return None
    if labels[-1].isdigit() or labels[-1].startswith("0x"):
        return None
    return labels


@functools.cache
def is_special(address):
    if address.version == 4:
        return any(address in block for block in SPECIAL4)
    if address not in PUBLIC6 or any(address in block for block in SPECIAL6):
        return True
    low = int(address) & (2**64 - 1)
    carries = low >> 32 in (0x5efe, 0x1005efe, 0x2005efe, 0x3005efe)  # ISATAP
    return carries and is_special(ipaddress.ip_address(low & 0xffffffff))


def host_matches(pattern, labels):
    want = pattern.split(".")
    if pattern == "*":
        return True
    if want[0] == "*":
        return len(labels) > len(want) - 1 and labels[-(len(want) - 1):] == want[1:]
    return labels == want


def expected(rules, host, port):
    address = as_address(host)
    labels = None if address else as_name(host)
    if address is None and labels is None:
        return ("bad", "", "no", "", "-1", "")
    about, by_host = [], []
    for i, rule in enumerate(rules):
        if isinstance(rule.where, str):
            if labels is not None and host_matches(rule.where, labels):
                about.append(i)
                by_host.append(str(i))
        elif address is not None and address.version == rule.where.version and address in rule.where:
            about.append(i)
    on_port = [i for i in about if port in rules[i].ports or (not rules[i].ports and port)]
    good = [i for i in on_port if not (address and is_special(address)) or rules[i].private]
    if good:
        reason, rule = "used", good[0]
    elif on_port:
        reason, rule = "private", on_port[0]
    elif about:
        reason, rule = "no-port", about[0]
    else:
        reason, rule = "no-rule", -1
    if address and is_special(address) and not good:
        reason = "private"  # whatever else is missing
    if address is not None:
        # how an address is printed is not at stake here: compared as an address
        return ("address", address, "no", reason, str(rule), "")
    return ("name", ".".join(labels), "yes" if about else "no", reason, str(rule), ",".join(by_host))


# The cases.

GOOD = [b"allowed.example", b"a.wild.example", b"a.b.c.wild.example", b"xn--bcher-kva.example", b"db.example",
        b"any.example", b"sub.allowed.example", b"_srv._tcp.example", LONG.encode()]
HOSTILE = ["allowed.example.evil.test", "evil.test.allowed.example", "allowed.exampleevil.test", "evilallowed.example",
           "evil-allowed.example", "allowed.example-evil.test", "wild.example", "evilwild.example", "a.b.evil.com",
           "wild.example.evil.test", "evil.test", "*.wild.example", "*", "*.*", "*.example", "a.*.wild.example",
           "*.allowed.example", "*allowed.example", "allowed.*", "allowed", "example", "localhost", "", ".", "..", "...",
           "-", "_", "a", "-allowed.example", "allowed-.example", "allowed.example-", "xn--.example", "xn--bcher-kva",
           "XN--BCHER-KVA.EXAMPLE", "xn--bcher-kvb.example", "xn--a.example", "xn--llowed-2nf.example"]
NUMBERS = ["127.1", "127.0.1", "0x7f.1", "0x7f.0.0.1", "0X7F.1", "017700000001", "0177.0.0.1", "2130706433", "0x7f000001",
           "127.0.0.1", "127.0.0.1.", "127.0.0.01", "127.000.000.001", "1.2.3.4.5", "256.256.256.256", "10.1.2.3",
           "10.1.2.3.", "0012.1.2.3", "10.66051", "0", "0.0.0.0", "00", "0x", "0x0", "1e9", "1.0x7f", "a.0x7f", "a.7",
           "203.0.113.5", "203.0.113.05", "203.0.113", "203.0.113.5.", "203.000.113.5", "3405803781", "169.254.169.254",
           "0xa9fea9fe", "2852039166", "169.254.43518", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4\n", "1.2.3.4/24", "+1.2.3.4",
           "1.2.3.4:80", "1,2,3,4", "１２７.0.0.1", "127。0。0。1", "127．0．0．1", "①②⑦.0.0.1", "٣.٣.٣.٣", "1٫2٫3٫4",
           "99999999999999999999", "-1", "127.0.0.1x", "x127.0.0.1", "127.0.0.1.example", "0x7f.allowed.example"]
SIX = ["::1", "[::1]", "[::1", "::1]", "::1%lo", "fe80::1%25eth0", "[fe80::1%eth0]", "::ffff:127.0.0.1", "::ffff:7f00:1",
       "::ffff:203.0.113.5", "::FFFF:CB00:7105", "::203.0.113.5", "64:ff9b::203.0.113.5", "64:ff9b:1::10.1.2.3",
       "2002:cb00:7105::1", "2001:0:cb00:7105::1", "2001:db8::1", "2001:DB8::1", "2001:0db8:0:0:0:0:0:1",
       "2001:db8::00001", "2001:db8:::1", "2001:db8::1::2", "2001:db8:1:2:3:4:5:6:7", "2001:db8:1:2:3:4:5:6",
       "2001:db8:1:2:3:4:5::", "::", ":", ":::", "1::", "::1.2.3", "::1.2.3.4.5", "::01.2.3.4", "::0x1.2.3.4", "fd00::1",
       "fd00:ec2::254", "2001:db8::1.2.3.4", "2600::5efe:10.1.2.3", "2600::200:5efe:127.0.0.1", "2600::5efe:8.8.8.8",
       "::ffff:0:127.0.0.1", "fe80::a9fe:a9fe", "ff02::1", "3fff::1", "4000::1", "2001:db8::1/128", "2001-db8--1",
       "0:0:0:0:0:ffff:203.0.113.5", "0::ffff:203.0.113.5", "::ffff:203.0.113.005", "::ffff:203.0.113.5.", "::1."]
LOOKALIKES = {"a": "аａᴀ𝐚ɑα", "e": "еｅ𝐞ҽ", "l": "ⅼｌӏ1І𝐥", "o": "оｏ0ο𝐨", "w": "ԝｗ𝐰ѡ", "d": "ԁｄⅾ𝐝", "x": "хｘ𝐱ⅹ",
              "m": "ⅿｍ𝐦", "p": "рｐ𝐩ρ", ".": "。．｡․·‧", "-": "‐‑–－"}
INVISIBLE = ["\u200b", "\u200d", "\u00ad", "\ufeff", "\u2060", "\u202e", "\u0301", "\u00a0", "\u3000", "\u2028", "\ufe0f"]
AROUND = ["{}:443", "{}:80", "{}:", ":443.{}", "{}@evil.test", "evil.test@{}", "user:pw@{}", "{}#evil.test", "evil.test#{}",
          "evil.test#.{}", "{}?evil.test", "evil.test?{}", "evil.test?.{}", "{}/", "/{}", "//{}", "evil.test/{}",
          "evil.test/.{}", "evil.test\\{}", "evil.test\\.{}", "{}\\evil.test", "http://{}", "https://{}/", "{};evil.test",
          "evil.test;{}", "{},evil.test", "evil.test,{}", "{} evil.test", "evil.test {}", "[{}]", "({})", "<{}>", '"{}"',
          "'{}'", "{}%00.evil.test", "evil.test%00.{}", "evil.test%2f.{}", "{}%2eevil.test", "%61{}", "{}%", "{}&a=b",
          "evil.test&.{}", "{}|", "`{}`", "$({})", "${{{}}}", "{}\r\nHost: evil.test", "evil.test\r\nHost: {}",
          "{}\nevil.test", "{}\tevil.test", "{}\x00.evil.test", "evil.test\x00.{}", "{}\x00", "\x00{}", "{}.", "{}..",
          "{}...", ".{}", "..{}", "{}. ", "{} .", "{}.evil.test", "evil.test.{}", "evil.test..{}", "{}%lo", "{}.1",
          "{}.0x1", "{}.example", "x{}", "{}x", "-{}", "{}-", "_{}", "{}_", "*.{}", "*{}", "{}.*", "1.{}", "0x7f.{}",
          "a.{}", "a.b.c.d.e.{}", "127.0.0.1.{}", "{}.127.0.0.1", "xn--{}", "evil.test{{{}}}", "{}^", "{}~", "{}=", "={}"]


@functools.cache
def cases():
    """Every case once, the same ones in every run."""
    rng = random.Random(20)
    out = [text.encode() for text in HOSTILE + NUMBERS + SIX] + GOOD
    for good in GOOD:
        text = good.decode()
        out += [form.format(text).encode() for form in AROUND]
        out += [form.format(text.upper()).encode() for form in AROUND]
        # single bytes: each one put in, and each one in place of another
        for byte, at in itertools.product(range(256), sorted({0, 1, len(good) // 2, good.index(b"."), len(good)})):
            out.append(good[:at] + bytes([byte]) + good[at:])
            out.append(good[:at] + bytes([byte]) + good[at + 1:])
        for at in range(min(len(good), 40)):
            out.append(good[:at] + good[at + 1:])  # one byte less
            out += [(text[:at] + mark + text[at:]).encode() for mark in INVISIBLE]
            out += [(text[:at] + other + text[at + 1:]).encode() for other in LOOKALIKES.get(text[at], "")]
            out.append(good[:at] + b"%%%02x" % good[at] + good[at + 1:])
        for _ in range(40):
            out.append(bytes(rng.choice((c, ord(chr(c).upper()))) for c in good) + rng.choice((b"", b"", b".", b"..")))
    # what IDNA makes of lookalikes, and what it makes of wide letters (which is the plain name: not ours to repair)
    for at, letter in enumerate("allowed"):
        for other in LOOKALIKES.get(letter, ""):
            name = "allowed"[:at] + other + "allowed"[at + 1:] + ".example"
            out.append(name.encode())
            try:
                out.append(name.encode("idna"))
            except UnicodeError:
                pass
    out += ["bücher.example".encode(), "bücher.example".encode("latin-1"), "BÜCHER.example".encode(),
            "bu\u0308cher.example".encode(), "bücher.example".encode("idna"), "allowed.example".encode("utf-16-le")]
    # lengths: labels around 63, names around 253
    for n in (0, 1, 2, 62, 63, 64, 65, 127, 128, 255, 256):
        out += [b"a" * n + b".wild.example", b"x." + b"a" * n + b".wild.example", b"a" * n, b"wild." + b"a" * n]
    for total in range(248, 262):
        for tail in (b".wild.example", b".wild.example.", b".wild.example.."):
            front = b"a." * 200
            out.append(front[:total - len(tail)].rstrip(b".") + tail)
            out.append((b"y" * 50 + b".") * 3 + b"z" * max(0, total - 153 - len(tail)) + tail)
    out += [LONG.encode() + b".", b"a" + LONG.encode(), b"a." + LONG.encode(), LONG.encode()[1:], b"a" * 3000,
            b"a." * 1500, b"." * 300]
    # names made of likely parts, good and bad
    parts = ["allowed", "example", "wild", "evil", "test", "xn--bcher-kva", "*", "", "-", "a-b", "a_b", "_tcp", "_srv", "any",
             "db", "127", "0x7f", "1", "A", "ü", "%2e", "@", "x" * 63, "x" * 64]
    for _ in range(3000):
        out.append(".".join(rng.choice(parts) for _ in range(rng.randint(1, 5))).encode())
    # addresses: anywhere, near the borders of every block, and IPv4 inside IPv6
    borders = [b for block in SPECIAL4 for b in (int(block[0]) - 1, int(block[0]), int(block[-1]), int(block[-1]) + 1)]
    fours = [b % 2**32 for b in borders] + [rng.getrandbits(32) for _ in range(400)]
    for four in fours:
        text = str(ipaddress.IPv4Address(four))
        hexed = f"{four >> 16:x}:{four & 0xffff:x}"
        teredo = f"{four >> 16 ^ 0xffff:x}:{four & 0xffff ^ 0xffff:x}"
        out += [form.encode() for form in (
            text, f"::ffff:{text}", f"::{text}", f"::ffff:0:{text}", f"64:ff9b::{hexed}", f"64:ff9b:1::{text}",
            f"2002:{hexed}::1", f"2001:0:808:808::{teredo}", f"2600::5efe:{text}", f"2600::200:5efe:{hexed}",
            str(four), hex(four), f"{four >> 24}.{four & 0xffffff}", ".".join(f"{b:#o}" for b in four.to_bytes(4, "big")))]
    for _ in range(600):
        value = rng.getrandbits(128) >> rng.choice((0, 0, 0, 64, 96))
        if rng.random() < 0.5:
            value = value % 2**112 | rng.choice((0x2001, 0x2002, 0x2600, 0xfd00, 0xfe80, 0x0064, 0x3fff, 0xff02)) << 112
        out += [str(ipaddress.IPv6Address(value)).encode(), ipaddress.IPv6Address(value).exploded.upper().encode()]
    return list(dict.fromkeys(out))


# Putting the one against the other.

def rules_bytes(rules):
    def text(value):
        return struct.pack("<I", len(value)) + value.encode() + b"\0"

    out = b"STOCKR01"
    for i, rule in enumerate(rules):
        flags = PRIVATE * rule.private | (0 if rule.ports else ANY_PORT)
        out += struct.pack("<HH", i, flags)
        if isinstance(rule.where, str):
            out += text(rule.where)
        else:
            four = rule.where.version == 4
            block = rule.where.network_address.packed
            out += text("") + (bytes(10) + b"\xff\xff" + block if four else block)
            out += struct.pack("<H", rule.where.prefixlen + (96 if four else 0))
        out += struct.pack(f"<{len(rule.ports) + 1}H", len(rule.ports), *rule.ports)
        out += struct.pack("<HH", 0, 0) + text("")
    return out


def verdicts(tmp_path, rules, questions):
    path = tmp_path / "rules"
    path.write_bytes(rules_bytes(rules))
    text = "".join(f"{port} {host.hex()}\n" for host, port in questions)
    done = subprocess.run([DRIVER, path], input=text.encode(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(questions)
    result = []
    for line in lines:
        what, form, *rest = line.split("\t")
        result.append((what, ipaddress.ip_address(form) if what == "address" else form, *rest))
    return result


def test_there_are_enough_cases_of_every_kind():
    questions = [(host, port) for host in cases() for port in (443, 53)]
    assert len(questions) >= 10000 and len({host for host, _ in questions}) >= 5000
    seen = collections.Counter()
    for host, port in questions:
        what, _, _, reason, rule, _ = expected(RULES["list"], host, port)
        seen[what, reason] += 1
        seen[rule] += 1
    for pair in itertools.product(("name",), ("used", "no-rule", "no-port")):
        assert seen[pair] >= 100, pair
    for pair in itertools.product(("address",), ("used", "no-rule", "no-port", "private")):
        assert seen[pair] >= 20 or pair == ("address", "no-rule"), pair
    assert seen["bad", ""] >= 2000


@pytest.mark.parametrize("rules", RULES)
def test_gate_and_checker_agree(tmp_path, rules):
    questions = [(host, port) for host in cases() for port in (443, 53, 5432, 22, 0)]
    differ = [(host, port, got, want)
              for (host, port), got in zip(questions, verdicts(tmp_path, RULES[rules], questions))
              if got != (want := expected(RULES[rules], host, port))]
    shown = "\n".join(f"{host!r} port {port}: gate {got}, checker {want}" for host, port, got, want in differ[:20])
    assert not differ, f"{len(differ)} of {len(questions)} differ:\n{shown}"


def test_only_plain_spellings_pass(tmp_path):
    """No checker at all: whatever passes as a name is one of the allowed ones but for case and one dot at the end."""
    questions = [(host, 443) for host in cases()]
    for (host, _), (what, _, answered, reason, _, _) in zip(questions, verdicts(tmp_path, RULES["list"], questions)):
        plain = host.lower()[:-1] if host.endswith(b".") else host.lower()
        if what == "name" and reason == "used":
            assert plain in GOOD or plain.endswith(b".wild.example"), host
            assert not re.search(rb"[^a-z0-9._-]|\.\.|^\.", plain), host
        if answered == "yes":
            assert what == "name" and plain.endswith(b".example"), host


@pytest.mark.parametrize("host", ["allowed.example", "ALLOWED.example.", "a.wild.example", "any.example", "203.0.113.5",
                                  "::ffff:203.0.113.5", "10.1.2.3", "2001:db8::1", "xn--bcher-kva.example", LONG])
def test_what_must_pass(tmp_path, host):
    assert verdicts(tmp_path, RULES["list"], [(host.encode(), 443)])[0][3] == "used"


@pytest.mark.parametrize("host", ["allowed.example.evil.test", "evil.test#.allowed.example", "allowed.example\0.evil.test",
                                  "evil.test@allowed.example", "allowed.example:443", "wild.example", "0x7f.1", "127.1",
                                  "2130706433", "allowed.example..", "*.wild.example", "аllowed.example", "127.0.0.1",
                                  "[2001:db8::1]", "2001:db8::1%lo", "２０３.0.113.5", "203.0.113.05", "", "."])
def test_what_must_not_pass(tmp_path, host):
    assert verdicts(tmp_path, RULES["list"], [(host.encode(), 443)])[0][3] != "used"
