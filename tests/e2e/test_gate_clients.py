"""Real clients, as they come from Debian: what is allowed works as if nothing stood between, the rest fails cleanly."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile

import pytest

import harness
from world import allow, by_root, by_user, explained


def need(program):
    found = shutil.which(program)
    if not found:
        harness.missing(f"{program} is not installed")
    return found


def both(net, script, *options, good="example.test", bad="evil.test", **kw):
    """Runs a shell script with $HOST for an allowed name and one that is not; returns both results."""
    yes = net.sh(f"HOST={good}; {script}", *options, *allow(good), **kw)
    yes.ok()
    assert yes.record["denials"] == [], yes.record["denials"]
    before = len(net.seen.all())
    no = net.sh(f"HOST={bad}; {script}", *options, *allow(good), **kw)
    assert no.status not in (0, 124, 125), no
    assert len(net.seen.all()) == before and not net.names.asked(bad)
    explained(no, bad, f"--allow {bad}")
    return yes, no


@pytest.mark.parametrize("command", ["curl -sS -m 30 https://$HOST/", "curl -sSf -m 30 http://$HOST/",
                                     "curl -sS -m 30 --noproxy '*' https://$HOST/",
                                     "wget -q -T 6 -t 1 -O - https://$HOST/", "wget -q -T 6 -t 1 -O - http://$HOST/",
                                     "wget --no-proxy -q -T 6 -t 1 -O - https://$HOST/"])
def test_fetch(net, command):
    need(command.split()[0])
    yes, _ = both(net, command)
    assert "hello from internet" in yes.text


@by_root
def test_large_transfers(net):
    """50 MB down and 10 MB up, byte for byte."""
    script = ("curl -sS -m 20 https://$HOST/bytes/50000000 | sha256sum; head -c 10000000 /dev/zero > /tmp/f; sha256sum < /tmp/f;"
              "curl -sS -m 20 --data-binary @/tmp/f https://$HOST/upload; curl -sS -m 20 -T /tmp/f http://$HOST/upload")
    result = net.sh(f"HOST=example.test; {script}", *allow("example.test"))
    down, up, *answers = result.ok().splitlines()
    assert down.split()[0] == hashlib.sha256((b"0123456789abcdef" * 3125000)).hexdigest()
    assert len(answers) == 2 and all(answer == f"10000000 {up.split()[0]}" for answer in answers), result
    assert result.record["network"]["received"] > 50000000 and result.record["network"]["sent"] > 20000000


HTTP2 = """
const h = require('http2'), fs = require('fs');
h.createSecureServer({key: fs.readFileSync(process.argv[1]), cert: fs.readFileSync(process.argv[2]), allowHTTP1: false})
 .on('stream', (s, head) => { s.respond({':status': 200}); s.end('two for ' + head[':authority']
                                                                 + '\\n'); }).listen(9443, '203.0.113.13');
"""


@by_root
def test_http2(net):
    """HTTP/2 passes where nothing is opened."""
    node, folder = need("node"), net.world.folder / "tls"
    server = net.world.start([node, "-e", HTTP2, folder / "good.key", folder / "good.pem"], ready=9443)
    try:
        result = net.run(*allow("db.example.test:9443"), "--", "curl", "-sS", "--http2", "-m", "30", "-w", "%{http_version}",
                         "https://db.example.test:9443/")
        assert result.ok() == "two for db.example.test:9443\n2"
    finally:
        net.world.stop(server)


@pytest.fixture(scope="module")
def repositories(suite):
    folder = suite.folder / "git"
    if folder.exists():
        return folder
    env = {**os.environ, "HOME": str(suite.folder), "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "init", "-q", "-b", "main", folder / "work"], check=True, env=env)
    (folder / "work/file").write_text("in the repository\n" * 1000)
    for words in (["add", "."], ["-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", folder / "work", *words], check=True, env=env)
    subprocess.run(["git", "clone", "-q", "--bare", folder / "work", folder / "demo.git"], check=True, env=env)
    return folder


@by_root
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_git(net, repositories, scheme):
    need("git")
    net.world.web.git = repositories
    yes, _ = both(net, f"cd /tmp && git clone -q {scheme}://$HOST/git/demo.git && wc -l < demo/file")
    assert yes.text.strip() == "1000"


def wheel():
    data, info = io.BytesIO(), "demo-1.0.dist-info"
    files = {"demo.py": "word = 'installed'\n", f"{info}/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


@by_root
def test_pip(net):
    need("/usr/bin/pip3")
    page = b'<html><body><a href="/files/demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a></body></html>'
    net.world.web.files = {"/simple/demo/": ("text/html", page),
                           "/files/demo-1.0-py3-none-any.whl": ("application/zip", wheel())}
    script = ("/usr/bin/pip3 install -q --no-cache-dir --disable-pip-version-check --retries 0 --timeout 6 --target /tmp/t "
              "--index-url https://$HOST/simple demo"
              "&& PYTHONPATH=/tmp/t /usr/bin/python3 -c 'import demo; print(demo.word)'")
    yes, _ = both(net, script, "--profile", "medium")
    assert yes.text.strip().endswith("installed")


def package():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in {"package/package.json": '{"name": "demo-package", "version": "1.0.0"}',
                           "package/index.js": "module.exports = 'installed'"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


@by_user
def test_npm(net):
    need("npm")
    tarball = package()
    sha = hashlib.sha1(tarball).hexdigest()
    for host in ("example.test",):
        meta = {"name": "demo-package", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "demo-package", "version": "1.0.0",
            "dist": {"tarball": f"https://{host}/demo-package/-/demo-package-1.0.0.tgz", "shasum": sha}}}}
        net.world.web.files.update({"/demo-package": ("application/json", json.dumps(meta).encode()),
                                    "/demo-package/-/demo-package-1.0.0.tgz": ("application/octet-stream", tarball)})
    script = ("mkdir /tmp/p && cd /tmp/p && npm install --cache /tmp/c --no-audit --no-fund --no-update-notifier "
              "--fetch-retries=0 --fetch-timeout=6000"
              " --registry https://$HOST/ demo-package >&2 && node -p 'require(\"demo-package\")'")
    yes, _ = both(net, script, "--profile", "medium")
    assert yes.text.strip().endswith("installed")


PROGRAMS = {
    "urllib": (harness.PYTHON,
               "import urllib.request,sys; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"),
    "requests": (harness.PYTHON,
                 "import requests,sys; r = requests.get(sys.argv[1], timeout=20); r.raise_for_status(); print(r.text)"),
    "requests-direct": (harness.PYTHON,
                        "import requests,sys; s = requests.Session(); s.trust_env = False; r = s.get(sys.argv[1], timeout=20); print(r.text)"),
    "aiohttp": (harness.PYTHON,
                "import aiohttp,asyncio,sys\nasync def f():\n async with aiohttp.ClientSession() as s:\n  async with s.get(sys.argv[1]) as r: "
                                "print(await r.text())\nasyncio.run(f())"),
    "aiohttp-proxy": (harness.PYTHON,
                      "import aiohttp,asyncio,sys\nasync def f():\n async with aiohttp.ClientSession(trust_env=True) as s:\n  "
                                      "async with s.get(sys.argv[1]) as r: print(await r.text())\nasyncio.run(f())"),
    "node-fetch": ("node",
                   "fetch(process.argv[1]).then(r => r.text()).then(console.log).catch(e => { console.error(e); process.exit(1) })"),
    "perl": ("perl",
             "use IO::Socket::INET; my ($h) = $ARGV[0] =~ m{//([^/]+)}; my $s = IO::Socket::INET->new(PeerAddr => $h, PeerPort => 80, Timeout => 6) or die;"
                     "print $s \"GET / HTTP/1.0\\r\\nHost: $h\\r\\n\\r\\n\"; my @a = <$s>; die unless \"@a\" =~ /hello/; print @a"),
}


@by_user
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(net, name):
    program, script = PROGRAMS[name]
    need(program)
    if name.startswith(("requests", "aiohttp")) and subprocess.run([harness.PYTHON, "-c", f"import {name.split('-')[0]}"],
                                                                   check=False).returncode:
        harness.missing(f"python3-{name.split('-')[0]} is not installed")
    (folder := net.who.folder()).joinpath("script").write_text(script)
    flag = {"node": "-e", "perl": "-e"}.get(program, "-c")
    command = f'{program} {flag} "$(cat {folder}/script)" https://$HOST/'
    # node has a store of its own, which does not know the world's authority
    yes, _ = both(net, command, "--profile", "medium", "--ro", folder, "--env",
                  "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt")
    assert "hello from internet" in yes.text


JAVA = """
import java.net.*; import java.net.http.*;
public class Fetch { public static void main(String[] a) throws Exception {
  System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(),
                                                     HttpResponse.BodyHandlers.ofString()).body()); System.exit(0); } }
"""


@pytest.fixture(scope="module")
def fetch_class(suite):
    if not shutil.which("java") or not shutil.which("javac"):
        pytest.skip("no Java here")  # too large to ask for
    folder = suite.folder / "java"
    if folder.exists():
        return folder
    folder.mkdir()
    (folder / "Fetch.java").write_text(JAVA)
    subprocess.run(["javac", "-d", folder, folder / "Fetch.java"], check=True)
    folder.chmod(0o755)
    return folder


@by_user
def test_java(net, fetch_class):
    """Plain HTTP: Java has a store of its own, which knows the world's authority only when the gate opens TLS."""
    yes, _ = both(net, f"java -Xmx200m -Xshare:auto -cp {fetch_class} Fetch http://$HOST/ | grep hello", "--profile",
                  "medium", "--ro", fetch_class)
    assert "hello from internet" in yes.text


@by_root
def test_redirects_are_judged(net):
    """Each hop anew: to metadata, to another name, to loopback, to another port."""
    targets = ["http://169.254.169.254/", "http://evil.test/", "http://127.0.0.1:8080/", "http://example.test:8080/",
               "http://inner.example.test/", "https://203.0.113.10/",
               "http://[::ffff:169.254.169.254]/", "http://172.31.0.2/"]
    script = "".join(f"curl -gsSL -m 30 'https://example.test/redirect?{t}'; curl -gsSL -m 30 --noproxy '*' "
                     f"'https://example.test/redirect?{t}';" for t in targets)
    result = net.sh(script + "true", *allow("example.test"))
    assert "hello" not in result.ok() and {e["address"] for e in net.seen.all()} <= {"203.0.113.10", "2001:db8::10"}
    assert {e["path"].split("?")[0] for e in net.seen.requests()} == {"/redirect"}
    explained(result, "169.254.169.254")


@by_user
def test_many_at_once(net):
    """A hundred clients together, directly and through the proxy."""
    result = net.py("""
good = []
def one(i):
    answer = ask(("example.test", 80), get("/bytes/100000", "example.test", "Connection: close\\r\\n")) if i % 2 else \
             ask(PROXY, get("http://example.test/bytes/100000", "example.test", "Connection: close\\r\\n"))
    good.append(len(answer) > 100000)
threads = [threading.Thread(target=one, args=(i,)) for i in range(100)]
for t in threads: t.start()
for t in threads: t.join()
say(good=sum(good))
""", *allow("example.test"), "--processes", "200")
    assert '"good": 100' in result.ok() and result.record["network"]["connections"] >= 100
