"""The web app in the operator: what is served where, with which head; and, in a build without the app, the small page."""
import gzip
import re

import pytest

from conftest import Web, address_of
from test_doors import check_error, check_head

PAGES = ["/", "/sign-in", "/create", "/sandboxes", "/sandboxes/0123456789abcdef", "/sandboxes/0123456789abcdef/files", "/operator", "/operator/audit"]


@pytest.fixture(scope="module")
def has_app(nobody):
    return nobody.get("/api/capabilities").json["features"]["web"]


def policy_of(answer):
    return dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))


@pytest.mark.parametrize("path", PAGES)
def test_pages(nobody, has_app, path):
    one, two = nobody.get(path), nobody.get(path + "?from=elsewhere&from=again")
    policies = [policy_of(one), policy_of(two)]
    for answer, policy in zip((one, two), policies):
        assert answer.status == 200 and answer.headers["content-type"] == "text/html; charset=utf-8", answer
        assert answer.headers["cache-control"] == "no-store" and answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
        assert policy["connect-src"] == "'self'" and "unsafe" not in answer.headers["content-security-policy"]
        assert "http:" not in answer.headers["content-security-policy"] and b"@NONCE@" not in answer.body
        nonce = re.search(r"'nonce-([0-9a-f]{32})'", policy["style-src"])[1]
        assert nonce.encode() in answer.body
        if has_app:
            assert policy["script-src"] == f"'nonce-{nonce}' 'strict-dynamic'" and policy["require-trusted-types-for"] == "'script'"
            assert policy["trusted-types"] == "'none'"
            assert policy["img-src"] == "'self' data: blob:" and policy["style-src"] == f"'nonce-{nonce}'"
            assert not re.search(rb"<script(?![^>]*\ssrc=)", answer.body) and b" onload=" not in answer.body
        else:
            assert policy["script-src"] == policy["style-src"] == f"'nonce-{nonce}'"
    assert policies[0]["style-src"] != policies[1]["style-src"]


@pytest.mark.parametrize("path", [*PAGES, "/assets/x.js"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_pages_are_only_read(nobody, path, method):
    answer = nobody.ask(method, path, b"{}")
    check_error(answer, 405, "BAD_METHOD")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize("path", PAGES)
def test_heads(nobody, path):
    answer = nobody.head(path)
    assert answer.status == 200 and answer.body == b"" and int(answer.headers["content-length"]) > 100


@pytest.mark.parametrize("path", ["/assets", "/assets/", "/assets/none.js", "/assets/index.html", "/assets/none/none.css", "/assets//index.html"])
def test_no_such_file(nobody, path):
    check_error(nobody.get(path), 404, "NO_ROUTE")


@pytest.mark.parametrize("path", ["/assets/../index.html", "/assets/%2e%2e/index.html", "/assets/a%2fb.js", "/assets/%00", "/sandboxes/..", "/operator/%2E"])
def test_malformed(nobody, path):
    check_error(nobody.get(path), 400, "BAD_REQUEST")


@pytest.mark.parametrize("path", ["/index.html", "/favicon.ico", "/signin", "/create/x", "/sign-in/", "/sandboxesx", "/Operator"])
def test_no_other_paths(nobody, path):
    check_error(nobody.get(path), 404, "NO_ROUTE")


def files_of(nobody):
    """Every file of the app that its document, or a file of it, names."""
    found, new = {}, set(re.findall(r"/assets/[\w.-]+", nobody.get("/").body.decode()))
    while new:
        path = new.pop()
        found[path] = nobody.get(path)
        assert found[path].status == 200, path
        if path.endswith((".js", ".css")):
            new |= {"/assets/" + name for name in re.findall(r"[\w-]+-[\w-]{8}\.(?:js|css|svg|png|woff2)", found[path].body.decode())} - set(found)
    return found


def test_files(nobody, has_app):
    files = files_of(nobody) if has_app else {}
    assert bool(files) == has_app
    kinds = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml", "png": "image/png",
             "woff2": "font/woff2"}
    for path, plain in files.items():
        assert plain.headers["content-type"] == kinds[path.rsplit(".", 1)[1]], path
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable" and plain.headers["x-content-type-options"] == "nosniff"
        assert "content-encoding" not in plain.headers and plain.headers["vary"] == "Accept-Encoding"
        packed = nobody.get(path, headers={"Accept-Encoding": "br, gzip;q=0.9"})
        if packed.headers.get("content-encoding") == "gzip":
            assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body)
            assert packed.headers["etag"] != plain.headers["etag"]
        else:
            assert packed.body == plain.body and packed.headers["etag"] == plain.headers["etag"]
        for answer, accept in ((plain, "identity"), (packed, "gzip")):
            again = nobody.get(path, headers={"Accept-Encoding": accept, "If-None-Match": f'"other", {answer.headers["etag"]}'})
            assert again.status == 304 and again.body == b"" and again.headers["etag"] == answer.headers["etag"]
            assert "content-encoding" not in again.headers
        assert nobody.get(path, headers={"If-None-Match": '"other"'}).body == plain.body
        head = nobody.head(path)
        assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) == len(plain.body)


def test_frames(make_house):
    """Who may show it in a frame is the same as for every other answer."""
    web = Web(address_of(make_house("frames = https://one.example https://two.example\n")))
    page = web.get("/")
    assert policy_of(page)["frame-ancestors"] == "https://one.example https://two.example" and "x-frame-options" not in page.headers


def test_many_at_once_are_not_held_up(make_house):
    """Loading a page does not use up what one may ask in a minute."""
    web = Web(address_of(make_house("rate_read = 5\n")))
    assert {web.get(path).status for _ in range(4) for path in PAGES} == {200}
    answer = web.get("/api/capabilities")
    assert answer.status == 200
    check_head(answer)
