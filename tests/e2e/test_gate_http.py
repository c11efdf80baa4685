"""HTTP: one request has one meaning, its host is compared every time, and what could be read in two ways goes nowhere."""
import json

import pytest

from world import allow, by_user, explained

pytestmark = by_user

HOST = "raw.example.test"
MARK = "GET /SMUGGLED HTTP/1.1\\r\\nHost: raw.example.test\\r\\n\\r\\n"
# complete requests that a strict reader refuses; {u} is '/' or, for the proxy, the absolute form
FORMS = {
    "te-cl": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "cl-te": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding: chunked\\r\\nContent-Length: 4\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "cl-cl": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: 0\\r\\nContent-Length: 50\\r\\n\\r\\n" + MARK,
    "cl-same": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: 0\\r\\nContent-Length: 0\\r\\n\\r\\n" + MARK,
    "cl-list": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: 0, 0\\r\\n\\r\\n" + MARK,
    "cl-plus": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: +0\\r\\n\\r\\n" + MARK,
    "cl-hex": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: 0x0\\r\\n\\r\\n" + MARK,
    "cl-minus": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: -1\\r\\n\\r\\n" + MARK,
    "cl-huge": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nContent-Length: 18446744073709551616\\r\\n\\r\\n" + MARK,
    "te-x": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding: xchunked\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "te-list": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding: gzip, chunked\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "te-twice": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding: chunked\\r\\nTransfer-Encoding: identity\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "te-tab": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding:\\tchunked\\x0b\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "te-1.0": "POST {u} HTTP/1.0\\r\\nHost: {h}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "fold": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nX: a\\r\\n b\\r\\n\\r\\n",
    "fold-first": "GET {u} HTTP/1.1\\r\\n Host: {h}\\r\\n\\r\\n",
    "space-colon": "GET {u} HTTP/1.1\\r\\nHost : {h}\\r\\n\\r\\n",
    "te-space-colon": "POST {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding : chunked\\r\\n\\r\\n0\\r\\n\\r\\n" + MARK,
    "bare-lf": "GET {u} HTTP/1.1\\nHost: {h}\\n\\n",
    "bare-lf-one": "GET {u} HTTP/1.1\\r\\nX: a\\nHost: {h}\\r\\n\\r\\n",
    "bare-cr": "GET {u} HTTP/1.1\\r\\nX: a\\rHost: evil.test\\r\\nHost: {h}\\r\\n\\r\\n",
    "nul": "GET {u} HTTP/1.1\\r\\nX: a\\0b\\r\\nHost: {h}\\r\\n\\r\\n",
    "nul-host": "GET {u} HTTP/1.1\\r\\nHost: {h}\\0.evil.test\\r\\n\\r\\n",
    "two-hosts": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nHost: evil.test\\r\\n\\r\\n",
    "two-same-hosts": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nHost: {h}\\r\\n\\r\\n",
    "no-host": "GET {u} HTTP/1.1\\r\\nX: a\\r\\n\\r\\n",
    "empty-host": "GET {u} HTTP/1.1\\r\\nHost:\\r\\n\\r\\n",
    "user-host": "GET {u} HTTP/1.1\\r\\nHost: {h}@evil.test\\r\\n\\r\\n",
    "user-host-2": "GET {u} HTTP/1.1\\r\\nHost: evil.test@{h}\\r\\n\\r\\n",
    "comma-host": "GET {u} HTTP/1.1\\r\\nHost: {h}, evil.test\\r\\n\\r\\n",
    "other-host": "GET {u} HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n",
    "other-port": "GET {u} HTTP/1.1\\r\\nHost: {h}:8080\\r\\n\\r\\n",
    "absolute-other": "GET http://evil.test/ HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "absolute-user": "GET http://{h}@evil.test/ HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "absolute-fragment": "GET http://{h}#@evil.test/ HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "absolute-backslash": "GET http://evil.test\\\\@{h}/ HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "http-2": "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + MARK,
    "http-1.2": "GET {u} HTTP/1.2\\r\\nHost: {h}\\r\\n\\r\\n",
    "http-0.9": "GET {u}\\r\\n",
    "tab-line": "GET\\t{u}\\tHTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "two-spaces": "GET  {u} HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "bad-method": "G(T {u} HTTP/1.1\\r\\nHost: {h}\\r\\n\\r\\n",
    "long-head": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nX: " + "a" * 40000 + "\\r\\n\\r\\n",
    "many-headers": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\n" + "X: a\\r\\n" * 300 + "\\r\\n",
    "connection-auth": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nConnection: Authorization\\r\\nAuthorization: x\\r\\n\\r\\n",
    "connection-host": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nConnection: close, Host\\r\\n\\r\\n",
    "nothing-name": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\n: x\\r\\n\\r\\n",
    "no-colon": "GET {u} HTTP/1.1\\r\\nHost: {h}\\r\\nTransfer-Encoding\\r\\n\\r\\n",
}
TRY = """
results = {}
def one(name, where, text):
    results[name] = ask(where, text.encode("latin-1"), 3, end=name.endswith("http-0.9"))
threads = []
for name, form in FORMS.items():
    threads.append(threading.Thread(target=one, args=("direct " + name, (H, 80), form.replace("{u}", "/").replace("{h}", H))))
    threads.append(threading.Thread(target=one, args=("proxy " + name, PROXY,
                                                      form.replace("{u}", "http://" + H + "/").replace("{h}", H))))
for t in threads: t.start()
for t in threads: t.join()
say(passed={n: a[:200] for n, a in results.items() if status(a) in range(200, 300) or b"\\nraw" in a},
    silent=[n for n, a in results.items() if status(a) not in (400, 403, 421, 431, 501, 505)])
"""


def test_what_can_be_read_in_two_ways(net):
    """400 or 403, and not one byte of it goes upstream."""
    net.names.zone["evil.test"] = ["203.0.113.20"]
    script = f"H = '{HOST}'\nFORMS = {{" + ",".join(f'{name!r}: "{form}"' for name, form in FORMS.items()) + "}\n" + TRY
    result = net.py(script, *allow(HOST), "--processes", "250")
    facts = json.loads(result.ok())
    assert facts["passed"] == {} and net.seen.bytes() == b"", (facts, net.seen.bytes()[:600])
    # what does not look like HTTP at all may be cut off without words
    quiet = {"http-0.9", "tab-line", "two-spaces", "bad-method", "fold-first", "http-2", "bare-lf"}
    assert {name.split()[1] for name in facts["silent"]} <= quiet, facts["silent"]
    explained(result, HOST)


@pytest.mark.parametrize("body", ["5;ext=1\\r\\nhello\\r\\n0\\r\\n\\r\\n", "5\\nhello\\r\\n0\\r\\n\\r\\n",
                                  "0x5\\r\\nhello\\r\\n0\\r\\n\\r\\n", "5\\r\\nhelloX\\r\\n0\\r\\n\\r\\n",
                                  "5\\r\\nhello\\r\\n0\\r\\nHost: evil.test\\r\\n\\r\\n", "fffffffffffffffff\\r\\n",
                                  "-1\\r\\n", "\\r\\n", " 5\\r\\nhello\\r\\n0\\r\\n\\r\\n"])
def test_chunks(net, body):
    """Chunked bodies are read as strictly: what follows a doubtful one is never taken for a request."""
    result = net.py(f"""
head = "POST {{}} HTTP/1.1\\r\\nHost: {HOST}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
for where, u in ((("{HOST}", 80), "/"), (PROXY, "http://{HOST}/")):
    ask(where, (head.format(u) + "{body}" + "{MARK}").encode(), 1)
""", *allow(HOST))
    result.ok()
    assert b"SMUGGLED" not in net.seen.bytes() and b"ext=1" not in net.seen.bytes()


def test_every_request_of_a_connection(net):
    """The second request of a connection is judged as the first: by Host, by absolute form, pipelined or not."""
    result = net.py("""
def two(second, where=("example.test", 80), first=None, wait=True):
    c = tcp(*where); c.settimeout(20); c.sendall(first or get("/", "example.test"))
    data = b""
    if wait:
        while b"hello" not in data:
            piece = c.recv(4096); assert piece, data; data += piece
    c.sendall(second); return data + read(c)
for wait in (True, False):
    a = two(get("/", "evil.test"), wait=wait); assert a.count(b"hello") == 1 and b" 403 " in a, a
    a = two(get("http://evil.test/", "example.test"),
            wait=wait); assert a.count(b"hello") == 1 and (b" 403 " in a or b" 400 " in a), a
    a = two(get("http://evil.test/", "evil.test"), PROXY, get("http://example.test/", "example.test"),
            wait=wait); assert a.count(b"hello") == 1 and b" 403 " in a, a
    a = two(get("/", "example.test", "Connection: close\\r\\n"), wait=wait); assert a.count(b"hello") == 2, a
    a = two(get("http://files.example.test/", "files.example.test", "Connection: close\\r\\n"), PROXY,
            get("http://example.test/", "example.test"), wait=wait)
    assert b"203.0.113.12" in a and a.count(b"hello") == 2, a
""", *allow("example.test", "files.example.test"))
    result.ok()
    assert {e["host"] for e in net.seen.requests()} == {"example.test",
                                                        "files.example.test"} and not net.names.asked("evil.test")
    assert {e["address"] for e in net.seen.requests(host="files.example.test")} == {"203.0.113.12"}
    explained(result, "evil.test")


def test_first_bytes_that_dawdle(net):
    """A request that comes in halves with a pause is judged whole."""
    result = net.py("""
def slowly(pieces, pause, where=("example.test", 80)):
    c = tcp(*where)
    try:
        for piece in pieces: c.sendall(piece); time.sleep(pause)
    except OSError: pass
    return read(c, 65536, 8)
good, bad = get("/", "example.test", "Connection: close\\r\\n"), get("/", "evil.test", "Connection: close\\r\\n")
out = {}
def t(name, *a): out[name] = slowly(*a)
threads = [threading.Thread(target=t, args=a) for a in (("good", [good[:2], good[2:30], good[30:]], 1.2),
                                                        ("bad", [bad[:2], bad[2:20], bad[20:]], 1.2),
    ("bytes", [bytes([b]) for b in bad], 0.03), ("late", [b"", bad],
                                                 3.5), ("one", [bad[:1], bad[1:]],
                                                        3.5), ("proxy",
                                                               [b"G",
                                                                b"ET http://evil.test/ HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"], 2, PROXY))]
for x in threads: x.start()
for x in threads: x.join()
assert b"hello" in out["good"], out
assert not any(b"hello" in out[n] for n in out if n != "good"), out
""", *allow("example.test"))
    result.ok()
    assert {e["host"] for e in net.seen.requests()} == {"example.test"}
    assert not any(b"evil" in e["data"] for e in net.seen.all("raw"))


def test_answers_are_strict_too(net):
    """A server's answer in two lengths, with an unasked 101, or garbage where the gate reads: it ends in an error, not in confusion."""
    from world_servers import talk
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw",
               b"NOT HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"]
    for port, answer in enumerate(answers, 9000):
        net.world.scripted[port] = lambda conn, answer=answer: talk(conn, 3, answer, 1)
    rules = "network: {allow: [{host: files.example.test, ports: [9000, 9001, 9002, 9003], methods: [GET], inspect: true}]}"
    result = net.py("say(codes=[status(ask(('files.example.test', p), get('/', 'files.example.test:%d' % p), 4)) for p in "
                    "range(9000, 9004)])", *net.profile(rules))
    assert json.loads(result.ok())["codes"] == [502] * 4
