"""TLS that the gate opens: real clients trust the sandbox's own authority without being told, and nobody else does."""
import json
import shutil
import subprocess

import pytest

import harness
from world import by_root
from test_gate_clients import fetch_class, need, package, repositories, wheel  # pylint: disable=unused-import

pytestmark = by_root
RULES = """secrets: [API_TOKEN]
network: {allow: [{host: api.example.test, secret: API_TOKEN}]}
files:
  workspace: {path: /home/agent, size: 1GiB, inodes: 200k}
"""
VALUE = "s3cr3t-VALUE-0123456789abcdefXYZ"


@pytest.fixture
def opened(net):
    def call(script, *more, **kw):
        result = net.sh(f'echo "$API_TOKEN"; {script}', *net.profile(RULES), "--secret", "API_TOKEN", *more,
                        env={"API_TOKEN": VALUE}, **kw)
        result.ok()
        assert VALUE not in result.text + result.errors
        return result
    return call


def carried(net):
    return any(VALUE in e["headers"].get("authorization", "") or VALUE in str(e["headers"]) for e in net.seen.requests())


URL, HEADER = "https://api.example.test/", 'Authorization: Bearer $API_TOKEN'
RAW = r'printf "GET / HTTP/1.1\r\nHost: api.example.test\r\nAuthorization: Bearer $API_TOKEN\r\nConnection: close\r\n\r\n" |'
COMMANDS = {
    "curl": f'curl -sS -m 30 -H "{HEADER}" {URL}',
    "curl-direct": f'curl --noproxy "*" -sS -m 30 -H "{HEADER}" {URL}',
    "curl-http2": f'curl --http2 -sS -m 30 -H "{HEADER}" {URL}',
    "wget": f'wget -q -T 6 -t 1 -O - --header "{HEADER}" {URL}',
    "openssl": f"{RAW} openssl s_client -quiet -verify_return_error -ign_eof -connect api.example.test:443"
               " -servername api.example.test 2>/dev/null",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_fetch(net, opened, name):
    need(name.split("-", maxsplit=1)[0])
    assert "hello from internet" in opened(COMMANDS[name]).text and carried(net)


PYTHON = {
    "urllib": "import urllib.request as u; print(u.urlopen(u.Request(URL, headers=HEADERS), timeout=20).read().decode())",
    "requests": "import requests; print(requests.get(URL, headers=HEADERS, timeout=20).text)",
    "aiohttp": """import aiohttp, asyncio
async def fetch():
    async with aiohttp.ClientSession() as session:
        async with session.get(URL, headers=HEADERS) as response: print(await response.text())
asyncio.run(fetch())""",
}


@pytest.mark.parametrize("name", PYTHON)
def test_python(net, opened, name):
    begin = f'import os\nURL, HEADERS = "{URL}", {{"Authorization": "Bearer " + os.environ["API_TOKEN"]}}\n'
    (folder := net.who.folder()).joinpath("script").write_text(begin + PYTHON[name])
    assert "hello from internet" in opened(f"{harness.PYTHON} {folder}/script", "--ro", folder).text and carried(net)


def test_node(net, opened):
    need("node")
    script = f"""fetch("{URL}", {{headers: {{authorization: "Bearer " + process.env.API_TOKEN}}}})
    .then(answer => answer.text()).then(console.log).catch(error => {{ console.error(error); process.exit(1) }})"""
    (folder := net.who.folder()).joinpath("script.js").write_text(script)
    assert "hello from internet" in opened(f"node {folder}/script.js", "--ro", folder).text and carried(net)


def test_git(net, opened, repositories):
    net.world.web.git = repositories
    result = opened('cd /tmp && git -c http.extraHeader="Authorization: Bearer $API_TOKEN" clone -q '
                    'https://api.example.test/git/demo.git && wc -l < demo/file;'
                    'git clone -q "https://user:$API_TOKEN@api.example.test/git/demo.git" two && wc -l < two/file')
    assert result.text.split()[1:] == ["1000", "1000"] and carried(net)


def test_pip(net, opened):
    page = b'<html><body><a href="/files/demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a></body></html>'
    net.world.web.files = {"/simple/demo/": ("text/html", page),
                           "/files/demo-1.0-py3-none-any.whl": ("application/zip", wheel())}
    opened('/usr/bin/pip3 install -q --no-cache-dir --disable-pip-version-check --retries 0 --timeout 6 --target /tmp/t '
           '--index-url "https://user:$API_TOKEN@api.example.test/simple" demo')
    assert {"/simple/demo/", "/files/demo-1.0-py3-none-any.whl"} <= {e["path"] for e in net.seen.requests()}


def test_npm(net, opened):
    need("npm")
    import hashlib
    tarball = package()
    meta = {"name": "demo-package", "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": {"name": "demo-package", "version": "1.0.0", "dist": {
        "tarball": "https://api.example.test/demo-package/-/demo-package-1.0.0.tgz", "shasum": hashlib.sha1(tarball).hexdigest()}}}}
    net.world.web.files = {"/demo-package": ("application/json", json.dumps(meta).encode()),
                           "/demo-package/-/demo-package-1.0.0.tgz": ("application/octet-stream", tarball)}
    opened('mkdir /tmp/p && cd /tmp/p && echo "//api.example.test/:_authToken=$API_TOKEN" > .npmrc && npm install --cache '
           '/tmp/c --no-audit --no-fund --no-update-notifier'
           ' --fetch-retries=0 --fetch-timeout=6000 --registry https://api.example.test/ demo-package >&2')
    assert carried(net)


def test_java(net, opened, fetch_class):
    result = opened(f"java -Xmx200m -cp {fetch_class} Fetch https://api.example.test/", "--ro", fetch_class)
    assert "hello from internet" in result.text


def certificate(host):
    """A command that prints whose certificate a server shows."""
    return (f"openssl s_client -connect {host}:443 -servername {host} </dev/null 2>/dev/null |"
            " openssl x509 -noout -issuer -fingerprint -ext subjectAltName")


def test_each_sandbox_has_an_authority_of_its_own(net):
    script = "cat $SSL_CERT_FILE $CURL_CA_BUNDLE /etc/ssl/certs/ca-certificates.crt 2>/dev/null | md5sum;" + certificate("api.example.test")
    options = [*net.profile(RULES), "--secret", "API_TOKEN"]
    first, second = (net.sh(script, *options, env={"API_TOKEN": VALUE}).ok() for _ in range(2))
    assert "DNS:api.example.test" in first and "test-world-authority" not in first
    assert first.splitlines()[0] != second.splitlines()[0]


def test_what_is_not_opened_is_the_servers_own(net):
    """Without a rule that opens TLS the client talks to the server itself, end to end."""
    assert "test-world-authority" in net.sh(certificate("example.test"), "--allow", "example.test").ok()


def test_the_key_is_not_inside(net):
    """Code inside cannot sign for its own authority: no private key anywhere."""
    result = net.sh("grep -rlI 'PRIVATE KEY' /run /etc /tmp /home 2>/dev/null; ls /run/stockade; true", *net.profile(RULES),
                    "--secret", "API_TOKEN", env={"API_TOKEN": VALUE})
    assert "key" not in result.ok(), result.text


def test_hosts_store_is_unchanged(net):
    """The authority is trusted inside and nowhere else."""
    bundle = net.world.folder / "etc/ssl/certs/ca-certificates.crt"
    before = bundle.read_bytes()
    net.sh("curl -sS -m 30 https://api.example.test/", *net.profile(RULES), "--secret", "API_TOKEN",
           env={"API_TOKEN": VALUE}).ok()
    assert bundle.read_bytes() == before
    assert not list(net.world.folder.glob("etc/ssl/**/*stockade*")) and shutil.which("openssl")
    assert subprocess.run(["grep", "-ril", "stockade", net.world.folder / "etc/ssl"], capture_output=True,
                          check=False).stdout == b""
