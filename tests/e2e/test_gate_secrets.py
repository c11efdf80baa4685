"""Secrets: inside there is a placeholder; the value is put in outside, for the hosts that its rule names, and seen nowhere else."""
import base64
import json
import os
from pathlib import Path

import pytest

import harness
from world import by_root, by_user, explained

VALUE = "s3cr3t-VALUE-0123456789abcdefXYZ"
ENV = {"API_TOKEN": VALUE}
RULES = """secrets: [API_TOKEN]
network:
  allow:
    - {host: api.example.test, methods: [GET, HEAD, POST], paths: ["/v1/*", "/echo", "/reflect*", "/ws"], secret: API_TOKEN}
    - {host: www.example.test, inspect: true}
    - {host: files.example.test}
"""


@pytest.fixture
def secret(net):
    """secret(script): a shell script inside, with the secret; the value must not be in anything that comes out."""
    options = [*net.profile(RULES), "--secret", "API_TOKEN"]

    def call(script, *more, python=False, **kw):
        kw.setdefault("env", ENV)
        result = (net.py if python else net.sh)(script, *options, *more, **kw)
        for where in (result.text, result.errors, json.dumps(result.record)):
            for form in forms(VALUE):
                assert form not in where, f"the value came out: {where[-600:]}"
        return result
    return call


def forms(value):
    """The value, and its middle in base64 at every alignment."""
    return [value] + [base64.b64encode(b"x" * pad + value.encode()).decode()[4:-4] for pad in range(3)]


def authorization(net, host="api.example.test"):
    return [e["headers"].get("authorization") for e in net.seen.requests() if e["host"].split(":")[0] == host]


def test_bearer_and_basic(net, secret):
    result = secret('echo "[$API_TOKEN]"; curl -sS -m 30 -H "Authorization: Bearer $API_TOKEN" https://api.example.test/v1/a;'
                    'curl -sS -m 30 -u "user:$API_TOKEN" https://api.example.test/v1/b;'
                    'curl -sS -m 30 -u "$API_TOKEN:" https://api.example.test/v1/c;'
                    'curl -sS -m 30 -H "X-Api-Key: $API_TOKEN" https://api.example.test/v1/d')
    assert result.ok().count("hello from internet") == 4
    placeholder = result.text.splitlines()[0].strip("[]")
    assert len(placeholder) >= 16 and placeholder not in VALUE
    basic = [base64.b64encode(pair.encode()).decode() for pair in (f"user:{VALUE}", f"{VALUE}:")]
    assert authorization(net) == [f"Bearer {VALUE}", f"Basic {basic[0]}", f"Basic {basic[1]}", None]
    assert net.seen.requests(path="/v1/d")[0]["headers"]["x-api-key"] == VALUE
    assert result.record["denials"] == []


@by_root
def test_from_a_file(net):
    (folder := net.who.folder()).joinpath("token").write_text(VALUE + "\n")
    os.chown(folder / "token", net.who.uid, net.who.gid)
    result = net.sh('curl -sS -m 30 -H "Authorization: Bearer $API_TOKEN" https://api.example.test/v1/a', *net.profile(RULES),
                    "--secret", f"API_TOKEN=@{folder}/token")
    (folder / "token").unlink()
    assert "hello" in result.ok() and authorization(net) == [f"Bearer {VALUE}"]
    assert VALUE not in result.errors + json.dumps(result.record)


@by_user
@pytest.mark.parametrize("words, env", [
    ([], {}), (["--secret", "API_TOKEN"], {}), (["--secret", "API_TOKEN=@/nonexistent"], {}), (["--secret", "OTHER"], {"OTHER": "x" * 20}),
    (["--secret", "API_TOKEN"], {"API_TOKEN": ""}), (["--secret", "API_TOKEN"], {"API_TOKEN": "two\nlines-in-a-value"}),
])
def test_no_value(net, words, env):
    """A secret that a rule needs and nobody gave, one that nothing asks for,
    one that cannot be in a header: said before anything runs."""
    result = net.run(*net.profile(RULES), *words, "--", "true", env=env)
    assert result.status == 125 and ("API_TOKEN" in result.errors
                                     or "OTHER" in result.errors) and "lines-in" not in result.errors, result


@by_root
@pytest.mark.parametrize("how", ["", "/chunked", "/close", "/gzip"])
def test_answers_are_redacted(net, secret, how):
    """A server that says back what it was told: in headers, in the body, across pieces of three bytes."""
    script = f'curl -sSi -m 30 --compressed -H "Authorization: Bearer $API_TOKEN" https://api.example.test/reflect{how}'
    script += f'; curl -sSi -m 30 -u "u:$API_TOKEN" https://api.example.test/reflect{how}'
    script += f'; curl -sS -m 30 -d "x" -H "X-Api-Key: $API_TOKEN" https://api.example.test/reflect{how}'
    result = secret(script)
    if how == "/gzip":  # it was asked not to: what cannot be searched does not pass
        assert "gzip" not in net.seen.requests()[0]["headers"].get("accept-encoding",
                                                                   "") and result.ok().count("Content-Encoding") == 3 * 2
    else:
        assert result.ok().count("after") == 3, result.text


@by_user
def test_large_answers_are_redacted_and_whole(secret, net):
    """What is not the value is not touched."""
    net.world.web.files["/v1/big"] = ("text/plain", (b"qwertyuiop" * 5000 + VALUE.encode()) * 20)
    result = secret('curl -sS -m 10 -H "Authorization: Bearer $API_TOKEN" https://api.example.test/v1/big | tr -d "\\n" | '
                    'sed "s/qwertyuiop//g" | head -c 3000')
    assert 0 < len(result.ok()) < 3000


@by_root
def test_other_hosts_get_the_placeholder(net, secret):
    """Where the rule does not name the host, the placeholder goes out as it is: opened TLS, relayed TLS, plain HTTP."""
    result = secret('for u in https://www.example.test/echo https://files.example.test/echo http://files.example.test/echo '
                    'http://www.example.test/echo;'
                    'do curl -sS -m 30 -H "Authorization: Bearer $API_TOKEN" -u-:- -H "X-Api-Key: $API_TOKEN" $u >/dev/null; done; echo $API_TOKEN')
    placeholder = result.ok().strip()
    assert [e["headers"]["x-api-key"] for e in net.seen.requests()] == [placeholder] * 4
    assert VALUE not in repr(net.seen.all())


@by_user
def test_not_on_plain_http(net, secret):
    """The value does not go over a wire that anybody can read."""
    secret('curl -sS -m 30 -H "Authorization: Bearer $API_TOKEN" http://api.example.test/v1/a; true').ok()
    assert VALUE not in repr(net.seen.all())


@by_user
@pytest.mark.parametrize("method, path", [("DELETE", "/v1/a"), ("PUT", "/v1/a"), ("GET", "/v2/a"), ("GET", "/v1/../v2/a"),
                                          ("GET", "/v1/%2e%2e/v2"), ("GET", "/"), ("TRACE", "/v1/a"),
                                          ("OPTIONS", "*"), ("GET", "/private")])
def test_wrong_request(net, secret, method, path):
    result = secret(f'curl -sS -m 30 --path-as-is --request-target "{path}" -X {method} -H "Authorization: Bearer '
                    f'$API_TOKEN" https://api.example.test/')
    body = json.loads(result.ok())
    assert body["host"] == "api.example.test" and body["method"] == method and body["hint"] and net.seen.requests() == []
    explained(result, "api.example.test")


@by_user
def test_fronting_does_not_get_it(net, secret):
    """The value goes to the server that was verified for the name, whatever the request's Host says."""
    result = secret("""
c = tls(tcp("api.example.test", 443), "api.example.test")
a = ask(c, get("/v1/a", "www.example.test",
               "Authorization: Bearer %s\\r\\nConnection: close\\r\\n" % os.environ["API_TOKEN"]))
assert status(a) in (400, 403, 421), a
c = tls(tcp("www.example.test", 443), "www.example.test")
a = ask(c, get("/v1/a", "api.example.test",
               "Authorization: Bearer %s\\r\\nConnection: close\\r\\n" % os.environ["API_TOKEN"]))
assert status(a) in (400, 403, 421), a
c = tls(tcp("api.example.test", 443), "api.example.test")
one = get("/v1/a", "api.example.test", "Authorization: Bearer %s\\r\\n" % os.environ["API_TOKEN"])
a = ask(c, one + get("/v1/b", "evil.test", "Authorization: Bearer %s\\r\\nConnection: close\\r\\n" % os.environ["API_TOKEN"]))
assert a.count(b"hello") == 1, a
""", python=True)
    result.ok()
    assert {(e["host"], e["path"]) for e in net.seen.requests()} == {("api.example.test", "/v1/a")}


@by_user
def test_placeholder_in_other_places(net, secret):
    """Headers only: not in the path, the query or the body, which servers log and keep."""
    result = secret('curl -sS -m 30 -d "body $API_TOKEN" -H "Authorization: Bearer $API_TOKEN" '
                    '"https://api.example.test/echo?q=$API_TOKEN"; echo; echo $API_TOKEN')
    placeholder = result.ok().splitlines()[-1]
    seen = net.seen.requests()[0]
    assert placeholder in seen["path"] and placeholder.encode() in seen["body"] and seen["headers"]["authorization"] == f"Bearer {VALUE}"


@by_user
def test_headers_that_only_carry(net, secret):
    """The value is not put where a proxy or cache would take it away or keep it."""
    secret('curl -sS -m 30 -H "Host: api.example.test" -H "Connection: Authorization" -H "Authorization: Bearer $API_TOKEN" '
           'https://api.example.test/v1/a; true').ok()
    assert net.seen.requests() == []


SEARCH = """
value = bytes(b ^ 0x55 for b in bytes.fromhex(HEX))
needles = [value, value[4:20]]
found = []
def look(name, data):
    if any(n in data for n in needles): found.append(name)
for pid in [p for p in os.listdir("/proc") if p.isdigit()] + ["self"]:
    for file in ("environ", "cmdline", "maps", "status", "mountinfo"):
        try: look("/proc/%s/%s" % (pid, file), open("/proc/%s/%s" % (pid, file), "rb").read())
        except OSError: pass
    if pid not in ("self", str(os.getpid())):
        try: open("/proc/%s/mem" % pid, "rb"); found.append("mem of " + pid) if pid != str(os.getppid()) else None
        except OSError: pass
for top in ("/run", "/etc", "/tmp", "/home", "/dev", "/var"):
    for folder, _, files in os.walk(top):
        for file in files:
            path = os.path.join(folder, file)
            try:
                if os.path.isfile(path): look(path, open(path, "rb").read(1 << 22))
            except OSError: pass
look("environment", repr(os.environ).encode())
say(found=found)
"""


def test_nowhere_inside(secret):
    """Environments, command lines, files."""
    hexadecimal = bytes(b ^ 0x55 for b in VALUE.encode()).hex()
    script = f'HEX = "{hexadecimal}"\n' + SEARCH
    begin = "os.system('curl -sS -m 30 -H \"Authorization: Bearer $API_TOKEN\" https://api.example.test/v1/a > /tmp/answer')\n"
    result = secret(begin
                    + "os.system('curl -sS -m 30 -H \"Authorization: Bearer $API_TOKEN\" -X DELETE https://api.example.test/v1/a > /tmp/no')\n" + script, python=True)
    assert '"found": []' in result.ok()


def test_nowhere_outside(net):
    """Not on a command line, not in the gate's environment, not in anything that is kept."""
    import subprocess
    from world import gate_of
    process = net.start(*net.profile(RULES), "--secret", "API_TOKEN", "--", "sh", "-c", "echo up; read x", env=ENV)
    try:
        assert process.stdout.readline() == b"up\n"
        gate = gate_of(process)
        for file in ("environ", "cmdline"):
            assert VALUE.encode() not in Path(f"/proc/{gate}/{file}").read_bytes()
        assert VALUE.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        limits = Path(f"/proc/{gate}/limits").read_text()
        core = [line.split() for line in limits.splitlines() if line.startswith("Max core")][0]
        assert int(core[4]) <= 1 and int(core[5]) <= 1, "no core dump of the gate"
        process.communicate(b"\n", harness.ENOUGH * harness.SLOW)
    finally:
        harness.stop(process)
    folders = [str(net.who.home), "/run/stockade", "/var/cache/stockade"]
    assert subprocess.run(["grep", "-rlF", VALUE, *[f for f in folders if os.path.exists(f)]], capture_output=True,
                          check=False).stdout == b""


@by_root
def test_websocket(net, secret):
    """An upgrade passes with the value put in, frames go both ways, and the value does not come back."""
    result = secret("""
c = tls(tcp("api.example.test", 443), "api.example.test"); c.settimeout(20)
c.sendall(get("/ws", "api.example.test",
              "Connection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n"
                                         "Authorization: Bearer %s\\r\\n" % os.environ["API_TOKEN"]))
data = b""
while b"\\x81" not in data: data += c.recv(4096)
head = data.partition(b"\\r\\n\\r\\n")[0]
assert b" 101 " in head and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, data
c.sendall(b"\\x81\\x85\\x01\\x02\\x03\\x04" + bytes(a ^ b for a, b in zip(b"hello", b"\\x01\\x02\\x03\\x04\\x01")))
while not data.endswith(b"\\x81\\x05hello"):
    piece = c.recv(4096); assert piece; data += piece
print(data.decode("latin-1"))
""", python=True)
    result.ok()
    assert authorization(net) == [f"Bearer {VALUE}"]


@by_user
def test_expect_and_streams(net, secret):
    """Large uploads with Expect, chunked uploads, HEAD, keep-alive: all under a secret's rule."""
    result = secret('echo $API_TOKEN; head -c 3000000 /dev/zero > /tmp/f; H="Authorization: Bearer $API_TOKEN"; '
                    'U=https://api.example.test/v1;'
                    'curl -sS -m 30 -H "$H" -H "Expect: 100-continue" --data-binary @/tmp/f $U/a $U/b;'
                    'curl -sS -m 30 -H "$H" -H "Transfer-Encoding: chunked" --data-binary @/tmp/f $U/c;'
                    'curl -sSI -m 30 -H "$H" $U/d | head -1')
    assert result.ok().count("hello") == 3 and "200" in result.text
    assert {(e["path"], e["size"]) for e in net.seen.requests()} == {("/v1/a", 3000000), ("/v1/b", 3000000),
                                                                     ("/v1/c", 3000000), ("/v1/d", 0)}
    assert set(authorization(net)) == {f"Bearer {VALUE}"}


@by_root
def test_two_secrets(net):
    rules = """secrets: [ONE, TWO]
network:
  allow:
    - {host: api.example.test, secret: ONE}
    - {host: www.example.test, secret: TWO}
"""
    env = {"ONE": "first-value-aaaaaaaaaaaa", "TWO": "second-value-bbbbbbbbbb"}
    result = net.sh('for h in api www; do curl -sS -m 30 -H "X-One: $ONE" -H "X-Two: $TWO" https://$h.example.test/; done; '
                    'echo $ONE $TWO', *net.profile(rules),
                    "--secret", "ONE", "--secret", "TWO", env=env)
    one, two = result.ok().splitlines()[-1].split()
    api, www = net.seen.requests(host="api.example.test")[0]["headers"], net.seen.requests(host="www.example.test")[0]["headers"]
    assert one not in env.values() and two not in env.values() and not any(value in result.text + result.errors for value in env.values())
    assert (api["x-one"], api["x-two"]) == (env["ONE"], two) and (www["x-one"],
                                                                  www["x-two"]) == (one, env["TWO"]) and one != two


def test_not_in_what_the_host_shows_of_us(net):
    """The value is neither in the environment that /proc shows of the launcher and its children, nor could it be dumped."""
    process = net.start(*net.profile(RULES), "--secret", "API_TOKEN", "--", "sleep", "5", env=ENV)
    try:
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert harness.until(lambda: len(started.read_text().split()) >= 3)  # keeper, gate, sandbox
        for pid in [process.pid, *started.read_text().split()]:
            try:
                environ, limits = Path(f"/proc/{pid}/environ").read_bytes(), Path(f"/proc/{pid}/limits").read_text()
            except ProcessLookupError:
                continue  # a helper that lives for an instant
            assert VALUE.encode() not in environ, pid
            assert int(next(line for line in limits.splitlines() if "core file" in line).split()[4]) <= 1, pid
    finally:
        process.kill()
        process.wait()
