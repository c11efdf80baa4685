"""Both clients against servers that lie: nothing is signed, sent or written that should not be, and memory has an end."""
import io
import itertools
import os
import shutil
import tarfile

import pytest
from conftest import ROOT, run
from liar import frame, liar, sign_in_text
from stockade import Client, StockadeError, StreamEnded
from stockade.sandbox import Sandbox
from stockade.signin import check_text
from stockade.sse import events
from stockade.transport import Transport

WALLET = "0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B"
OTHER = "0x00000000219ab540356cBB839Cbe05303d7705Fa"
NONCE = "0123456789abcdef"
PLAIN = f"Sign this message to authenticate with Tangle Sandbox.\n\nNonce: {NONCE}\nExpires: 1767225600"
SESSION = {"token": "a-token", "owner": "eth:0x", "address": "0x", "expires_at_ms": 1}


def refused(call, *args, **kw):
    with pytest.raises(StockadeError) as found:
        call(*args, **kw)
    return found.value


def box_at(url, token="a-token"):
    transport = Transport(url, 30, None)
    transport.token = token
    return Sandbox(transport, {"id": "0123"})


# --- what is signed

def sign_in(make, **options):
    """What was signed by a client whose server sends such a text, and what came of it."""
    signed = []

    def answer(_, path, __):
        if path.endswith("/challenge"):
            return {"nonce": NONCE, "message": make(server["url"]), "expires_at": 1, "expires_at_ms": 1}
        return SESSION
    server = {}
    with liar(answer) as (url, asked):
        server["url"] = url
        try:
            Client(url).sign_in(WALLET, lambda text: signed.append(text) or "0x00", **options)
            return signed, None
        except StockadeError as e:
            assert [path for _, path, _, _ in asked] == ["/api/auth/challenge"]
            return signed, e


def host(url):
    return url.split("://")[1]


@pytest.mark.parametrize("make", [
    lambda url: sign_in_text(host(url), url, WALLET),
    lambda url: sign_in_text(host(url), url, WALLET.lower()),
    lambda url: sign_in_text(host(url), url, WALLET).replace("Sign in.\n", ""),
    lambda url: sign_in_text(host(url), url, WALLET, after="\nNot Before: 2026-01-01T00:00:00Z\nRequest ID: x"),
])
def test_a_text_for_us_is_signed(make):
    signed, error = sign_in(make)
    assert error is None and len(signed) == 1


@pytest.mark.parametrize("make, why", [
    (lambda url: sign_in_text("bank.example", "https://bank.example", WALLET), "bank.example"),
    (lambda url: sign_in_text("bank.example", url, WALLET), "bank.example"),
    (lambda url: sign_in_text(host(url), "https://bank.example", WALLET), "URI"),
    (lambda url: sign_in_text(host(url), url + "/", WALLET), "URI"),
    (lambda url: sign_in_text(url, url, WALLET), "the text is for"),
    (lambda url: sign_in_text(host(url) + ":80", url, WALLET), "the text is for"),
    (lambda url: sign_in_text("x@" + host(url), url, WALLET), "the text is for"),
    (lambda url: sign_in_text(" " + host(url), url, WALLET), "the text is for"),
    (lambda url: sign_in_text(host(url), url, OTHER), "another wallet"),
    (lambda url: sign_in_text(host(url), url, WALLET, statement="URI: https://bank.example"), "URI"),
    (lambda url: sign_in_text(host(url), url, WALLET, after="\nResources:\n- https://bank.example/all"), "resources"),
    (lambda url: sign_in_text(host(url), url, WALLET, after="\nResources:"), "resources"),
    (lambda url: sign_in_text(host(url), url, WALLET, nonce="fedcba9876543210"), "another challenge"),
    (lambda url: sign_in_text(host(url), url, WALLET, after="\nI owe you a million"), "EIP-4361"),
    (lambda url: sign_in_text(host(url), url, WALLET, after="\n"), "EIP-4361"),
    (lambda url: sign_in_text(host(url), url, WALLET, statement="one\ntwo"), "EIP-4361"),
    (lambda url: sign_in_text(host(url), url, WALLET).replace("\n", "\r\n"), "something else"),
    (lambda url: "I owe you a million\n" + sign_in_text(host(url), url, WALLET), "something else"),
    (lambda url: "I owe you a million", "something else"),
    (lambda url: "x" * 5000, "no text"),
    (lambda url: ["a list"], "no text"),
    (lambda url: PLAIN, "names no server"),
])
def test_no_other_text_is_signed(make, why):
    signed, error = sign_in(make)
    assert signed == [] and error.code == "BAD_CHALLENGE" and why in error.message


def test_the_plain_text_is_signed_by_whoever_says_so():
    assert sign_in(lambda url: PLAIN, plain_text=True) == ([PLAIN], None)
    for other in (PLAIN + "\nand a million", PLAIN.replace(NONCE, "0" * 16), PLAIN.replace("Tangle", "Bank")):
        signed, error = sign_in(lambda url, other=other: other, plain_text=True)
        assert signed == [] and error.code == "BAD_CHALLENGE"


@pytest.mark.parametrize("scheme, address, domain, good", [
    ("https", "api.example.org", "api.example.org:443", True),
    ("https", "api.example.org", "API.example.org", True),
    ("https", "api.example.org", "api.example.org:80", False),
    ("https", "api.example.org:7070", "api.example.org", False),
    ("https", "api.example.org:7070", "api.example.org:7070:443", False),
    ("http", "localhost", "localhost:80", True),
    ("http", "[::1]", "[::1]:80", True),
    ("http", "[::1]:7070", "[::1]:7070", True),
    ("http", "[::1]:7070", "[::1]:7070:80", False),
])
def test_the_usual_port_may_be_named(scheme, address, domain, good):
    challenge = {"nonce": NONCE, "message": sign_in_text(domain, f"{scheme}://{domain}", WALLET)}
    if good:
        assert check_text(challenge, scheme, address, WALLET, False) == challenge["message"]
    else:
        assert refused(check_text, challenge, scheme, address, WALLET, False).code == "BAD_CHALLENGE"


# --- where the token goes

def test_plain_http_is_for_this_machine():
    for here in ("http://127.0.0.1:7070", "http://127.0.0.2", "http://localhost:1", "http://[::1]:1", "https://api.example.org"):
        Client(here)
    for there in ("http://api.example.org", "http://10.0.0.1:7070", "http://127.0.0.1.example.org", "http://localhost.example.org",
                  "http://[::2]", "http://0.0.0.0:1"):
        with pytest.raises(ValueError, match="insecure_http"):
            Client(there)
        Client(there, insecure_http=True)
    with pytest.raises(ValueError, match="user"):
        Client("https://127.0.0.1:pass@api.example.org")


def test_a_link_of_another_server():
    with liar(lambda *_: SESSION) as (url, asked):
        for link in ("https://api.example.org/#link=c0de", url.replace("127.0.0.1", "localhost") + "/#link=c0de",
                     url.replace("http", "https") + "/#link=c0de", url + "/", url + "/#other=c0de", "//x/#link=c0de", "#link=c0de",
                     f"http://x@{host(url)}/#link=c0de"):
            with pytest.raises(ValueError) as found:
                Client(url).sign_in_with_link(link)
            assert "c0de" not in str(found.value)
        assert asked == []
        for link in (url + "/#link=c0de", "c0de"):
            Client(url).sign_in_with_link(link)
            assert asked.pop()[2] == b'{"link": "c0de"}'


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status):
    with liar(lambda *_: {"status": "ok"}) as (elsewhere, visited):
        with liar(lambda *_: (status, {"Location": elsewhere + "/take-it"}, b"{}")) as (url, asked):
            client, box = Client(url, token="a-token"), box_at(url)
            for call in (client.whoami, client.health, client.metrics, box.usage, lambda: box.files.read("/x"),
                         lambda: box.files.list("/x"), lambda: list(client.events(after=0)), box.run(1).attach):
                found = refused(call)
                assert found.status == status and found.code == "REDIRECTED" and elsewhere in found.message
            assert len(asked) == 8 and visited == []
            with box.port_request("GET", 80) as answer:  # there it is the business of whoever asks
                assert answer.status == status
            assert visited == []


@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b"", b"[1]", b'"x"', b'{"a":', b"[" * 100000],
                         ids=["a page", "nothing", "a list", "a text", "half", "deep"])
def test_what_is_not_json(body):
    with liar(lambda *_: (200, {"Content-Type": "text/html"}, body)) as (url, _):
        client = Client(url, token="a-token")
        for call in (client.whoami, lambda: client.sandboxes.get("x"), lambda: box_at(url).files.write("/x", "y")):
            found = refused(call)
            assert found.code == "BAD_ANSWER" and "text/html" in found.message and found.hint


def test_an_answer_without_an_end():
    with liar(lambda *_: (200, {"Content-Type": "application/json"}, itertools.repeat(b" " * 65536))) as (url, _):
        assert "larger than" in refused(Client(url, token="a-token").whoami).message


@pytest.mark.parametrize("path", ["../../exec", "/../../exec", "a/../../../exec", "%2e%2e/%2E./exec", ".%2e/x", "..", "a/..?b", "..%2fexec",
                                  "..\\x", "%2e%2e%5cx", "a/../b"])
def test_a_path_that_leaves_the_port(path):
    with liar(lambda *_: {}) as (url, asked):
        box = box_at(url)
        for call in (lambda: box.port_request("POST", 80, path), lambda: box.port_url(80, path)):
            with pytest.raises(ValueError, match=r"no '\.\.'"):
                call()
        assert asked == []


def test_a_path_that_stays():
    with liar(lambda *_: {}) as (url, asked):
        for path in ("/a..b/...", "/?next=../x", "/%20", "a.b/.c"):
            box_at(url).port_request("GET", 80, path).close()
            assert asked.pop()[1] == "/api/sandboxes/0123/port/80/" + path.lstrip("/")
        for name in (".", ".."):
            with pytest.raises(ValueError):
                Client(url).sandboxes.get(name)


# --- archives

def archive_of(*members, pax=None):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.pax_headers = len(content), mode, pax or {}
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def download(archive, target, **options):
    body = archive if isinstance(archive, bytes) else itertools.chain(archive)
    with liar(lambda *_: (200, {"Content-Type": "application/x-tar"}, body)) as (url, _):
        box_at(url).files.download_tree("/x", target, **options)


def test_the_umask_counts(tmp_path):
    before = os.umask(0o077)
    try:
        download(archive_of(("open", b"x", 0o777), ("suid", b"x", 0o4755), ("readable", b"y" * 100000, 0o444)), tmp_path / "in")
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o7777 for p in (tmp_path / "in").iterdir()}
    assert modes == {"open": 0o700, "suid": 0o700, "readable": 0o400}
    assert (tmp_path / "in/readable").read_bytes() == b"y" * 100000


def test_files_with_holes(tmp_path):
    """A few bytes of an archive could be a file of many terabytes."""
    info = tarfile.TarInfo("old")
    info.type = tarfile.GNUTYPE_SPARSE
    old = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    old[386:398], old[398:410], old[483:495] = b"00000000000\0", b"00000000000\0", b"77777777777\0"
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old)
    new = archive_of(("new", b"1\n0\n0\n".ljust(512, b"\0"), 0o644),
                     pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "new", "GNU.sparse.realsize": str(1 << 40)})
    for archive in (bytes(old) + bytes(1024), new):
        with pytest.raises(ValueError, match="holes"):
            download(archive, tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []


def test_more_than_the_limit(tmp_path):
    archive = archive_of(("a", b"a" * 100_000, 0o644), ("b", b"b" * 100_000, 0o644))
    download(archive, tmp_path / "whole", limit=1 << 20)
    assert (tmp_path / "whole/b").stat().st_size == 100_000
    with pytest.raises(ValueError, match="larger than 150000"):
        download(archive, tmp_path / "in", limit=150_000)
    assert sum(p.stat().st_size for p in (tmp_path / "in").iterdir()) <= 150_000
    # what is skipped counts too, and a member that is none has no end here
    info = tarfile.TarInfo("pipe")
    info.type, info.size = b"Z", 1 << 32
    with pytest.raises(ValueError, match="larger than 1000000"):
        download(itertools.chain([info.tobuf()], itertools.repeat(bytes(1 << 16))), tmp_path / "in", limit=1_000_000)


def test_headers_without_an_end(tmp_path):
    for pax in ({"comment": "x" * (2 << 20)}, {f"k{n}": "v" * 1000 for n in range(1000)}):
        with pytest.raises(ValueError, match="header"):
            download(archive_of(("a", b"a", 0o644), pax=pax), tmp_path / "in")
    # one that promises 8 GiB: nothing of that is waited for
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 8 << 30
    with pytest.raises(ValueError, match="header"):
        download(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024), tmp_path / "in")
    # many small ones before one member
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 60_000
    with pytest.raises(ValueError, match="header"):
        download((info.tobuf(tarfile.GNU_FORMAT) + b"n" * 60_416) * 20 + bytes(1024), tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []


def test_an_archive_that_ends_in_the_middle(tmp_path):
    archive = archive_of(("a", b"a" * 100_000, 0o644))
    with pytest.raises((ValueError, tarfile.ReadError)):
        download(archive[:50_000], tmp_path / "in")


# --- streams

def test_output_without_the_marker():
    sent = itertools.count()
    body = (frame(b"x" * 65536) for _ in sent)
    with liar(lambda *_: (101, {}, body)) as (url, _):
        attached = box_at(url).run(1).attach()
        with pytest.raises(StreamEnded, match="was not among them"):
            attached.read_until(b"never")
        with pytest.raises(OSError):  # it is closed
            attached.send(b"x")
        with box_at(url).run(1).attach() as other, pytest.raises(StreamEnded):
            other.read_until(b"never", limit=100_000)


def test_a_marker_in_two_messages():
    body = [frame(b"x" * 70_000), frame(b"mar"), frame(b"ker and more")]
    with liar(lambda *_: (101, {}, iter(body))) as (url, _):
        assert box_at(url).run(1).attach().read_until(b"marker").endswith(b"xmarker and more")


@pytest.mark.parametrize("pieces, why", [
    (lambda: itertools.chain([b"data: "], itertools.repeat(b"x" * 65536)), "line"),
    (lambda: itertools.repeat(b"data: " + b"x" * 60000 + b"\n"), "event"),
    (lambda: iter([b"data: nonsense\n\n"]), "no JSON"),
    (lambda: iter([b"data: [1]\n\n"]), "no JSON"),
])
def test_events_without_an_end(pieces, why):
    with liar(lambda *_: (200, {"Content-Type": "text/event-stream"}, pieces())) as (url, _):
        box = box_at(url)
        for call in (lambda: list(box.exec_stream("x")), lambda: next(box.events(after=0))):
            found = refused(call)
            assert found.code == "BAD_ANSWER" and why in found.message


def test_events_in_any_pieces():
    text = "event: stdout\ndata: {\"data\":\r\ndata: \"ü\"}\n\nevent: exit\ndata: {}\n\n".encode()
    for size in (1, 2, 7, 1000):
        pieces = [text[i:i + size] for i in range(0, len(text), size)]
        with liar(lambda *_, pieces=pieces: (200, {"Content-Type": "text/event-stream"}, iter(pieces))) as (url, _):
            found = list(events(Transport(url, 30, None).open("GET", "/api/events")))
        assert [(e.name, e.data) for e in found] == [("stdout", {"data": "ü"}), ("exit", {})]


# --- the same of the other client

def test_the_typescript_client(workshop):
    shutil.copy(ROOT / "tests/clients/distrust.mjs", workshop)
    r = run(["node", "--max-old-space-size=512", "distrust.mjs", "node_modules/stockade-client/dist/index.js"], workshop)
    assert r.returncode == 0 and r.stdout == "all is well\n", r.stderr[-6000:]
