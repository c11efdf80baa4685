"""What there is to read about the host: what the doctor finds, and the latest report of `stockade verify`. For operators
alone; and whatever the doctor or the judge left is passed on only if it is what it should be."""
import http.client
import json
import os
import shutil
import subprocess
import threading
from types import SimpleNamespace

import pytest

import harness
import own_state
from conftest import RATES, TLS, Web, address_of, check_log
from test_doors import check_error

PATHS = ["/api/operator/doctor", "/api/operator/verify", "/api/operator/verify/report"]
REPORT = {"report": 1, "headline": "H", "good": True, "tally": {"checks": 1, "open": 0}, "groups": []}
MOST = 4 << 20
USER = 4299


class Verified:
    """A daemon with a host's state folder of its own; `stockade` may be another program there."""

    def __init__(self, suite, stockade=None):
        bin = suite.programs.folder
        self.daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{TLS}{RATES}")
        folder = self.daemon.state.parent
        if stockade:
            bin = folder / "bin"
            shutil.copytree(suite.programs.folder, bin)
            (bin / "stockade").unlink()
            (bin / "stockade").write_text(f"#!/bin/sh\n{stockade}\n")
            (bin / "stockade").chmod(0o755)
        self.lib = folder / "lib"
        self.kept = self.lib / "stockade/verify"
        self.daemon.programs = SimpleNamespace(stockaded=own_state.through(self.lib, bin / "stockaded", "daemon"))
        self.stockade = own_state.through(self.lib, suite.programs.stockade, "stockade")
        self.daemon.start()
        self.nobody = Web(address_of(self.daemon))
        link = self.daemon.client.sign_in(operator=True)["url"].split("#link=")[1]
        self.boss = Web(self.nobody.address, self.nobody.post("/api/auth/session", {"link": link}).json["token"])

    def leave(self, name, data):
        """As the judge leaves it."""
        self.kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.clear(name)
        (self.kept / name).write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        (self.kept / name).chmod(0o600)
        return self.kept / name

    def clear(self, name):
        at = self.kept / name
        if at.is_dir() and not at.is_symlink():
            at.rmdir()
        elif at.exists() or at.is_symlink():
            at.unlink()

    def end(self):
        self.daemon.end()
        left = self.daemon.left()
        assert not left, f"left behind: {left}\n{self.daemon.said()}"
        check_log(self.daemon)


@pytest.fixture(scope="module")
def verified(suite):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    made = Verified(suite)
    yield made
    made.end()


@pytest.mark.parametrize("path", PATHS)
def test_for_operators_alone(nobody, alice, path):
    check_error(nobody.get(path), 401, "NO_TOKEN")
    check_error(alice.get(path), 403, "REFUSED")
    token = alice.post("/api/capabilities/tokens", {"verbs": ["*"], "resources": ["*"], "expires_in": 60}).json["token"]
    check_error(Web(alice.address, token).get(path), 403)
    ticket = alice.post("/api/auth/ticket", {"path": path}).json["ticket"]
    assert nobody.get(f"{path}?ticket={ticket}").status in (401, 403)


def test_doctor(verified):
    first = verified.boss.get("/api/operator/doctor", timeout=60)
    assert first.status == 200, first
    assert verified.boss.get("/api/operator/doctor").json == first.json  # of the last minute: milliseconds of its self-test are the same
    said = json.loads(subprocess.run([verified.stockade, "doctor", "--json"], capture_output=True, check=True).stdout)
    assert first.json["low"] is said["low"] is True and first.json["uid"] == 0
    assert [(f["name"], f["group"], f["needed_for_low"]) for f in first.json["facts"]] == [(f["name"], f["group"], f["needed_for_low"]) for f in said["facts"]]
    assert [f["state"] for f in first.json["facts"] if f["name"] == "native"] == ["ok"]  # its self-test held


def test_none_yet(verified):
    for name in ("latest.json", "latest.html"):
        verified.clear(name)
    for path in PATHS[1:]:
        answer = verified.boss.get(path)
        check_error(answer, 404, "NOT_FOUND")
        assert "run 'stockade verify'" in answer.json["hint"]


def test_after_verify(verified):
    r = subprocess.run([verified.stockade, "verify", "--quick", "--json"], capture_output=True, text=True, check=False)
    assert r.returncode in (0, 1), r.stderr  # whatever the verdict
    assert verified.boss.get("/api/operator/verify").json == json.loads(r.stdout)
    assert os.stat(verified.kept / "latest.json").st_mode & 0o777 == os.stat(verified.kept / "latest.html").st_mode & 0o777 == 0o600
    part = subprocess.run([verified.stockade, "verify", "--only", "host-root-file", "--json"], capture_output=True, check=False)
    assert json.loads(part.stdout)["tally"]["checks"] == 1
    assert verified.boss.get("/api/operator/verify").json == json.loads(r.stdout)  # single checks say nothing about the whole
    check_page(verified.boss.get("/api/operator/verify/report"), (verified.kept / "latest.html").read_bytes())


def check_page(answer, page):
    assert answer.status == 200 and answer.body == page and page.startswith(b"<!DOCTYPE html>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8" and answer.headers["x-content-type-options"] == "nosniff"
    policy = [p.strip() for p in answer.headers["content-security-policy"].split(";")]
    assert "sandbox" in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "script" not in str(policy)
    assert answer.headers["cache-control"] == "no-store"


def test_page_by_ticket(verified):
    """A browser's tab sends no token. The ticket may what its session may, at this path, once."""
    page = b"<!DOCTYPE html><title>t</title><script>alert(1)</script>\xc3\xbc"
    verified.leave("latest.html", page)

    def ticket(path):
        return verified.boss.post("/api/auth/ticket", {"path": path}).json["ticket"]
    one = ticket(PATHS[2])
    check_page(verified.nobody.get(f"{PATHS[2]}?ticket={one}"), page)
    check_error(verified.nobody.get(f"{PATHS[2]}?ticket={one}"), 401, "BAD_TOKEN")
    check_error(verified.nobody.get(f"{PATHS[2]}?ticket={ticket(PATHS[1])}"), 401, "BAD_TOKEN")
    check_error(verified.nobody.get(f"{PATHS[1]}?ticket={ticket(PATHS[1])}"), (400, 401))  # no tab opens that one


WRONG = {
    "not JSON": lambda v: v.leave("latest.json", b"{"),
    "nothing": lambda v: v.leave("latest.json", b""),
    "another thing": lambda v: v.leave("latest.json", {"secret": 1}),
    "two things": lambda v: v.leave("latest.json", json.dumps(REPORT).encode() * 2),
    "bytes": lambda v: v.leave("latest.json", bytes(range(256))),
    "too large": lambda v: v.leave("latest.json", json.dumps({**REPORT, "x": "y" * MOST}).encode()),
    "endless": lambda v: os.truncate(v.leave("latest.json", b"{"), 1 << 40),
    "a link": lambda v: (v.clear("latest.json"), os.symlink("/etc/shadow", v.kept / "latest.json")),
    "a link to a good one": lambda v: (v.leave("good.json", REPORT), v.clear("latest.json"), os.symlink("good.json", v.kept / "latest.json")),
    "a pipe": lambda v: (v.clear("latest.json"), os.mkfifo(v.kept / "latest.json", 0o600)),
    "a folder": lambda v: (v.clear("latest.json"), os.mkdir(v.kept / "latest.json", 0o700)),
    "a device": lambda v: (v.clear("latest.json"), os.mknod(v.kept / "latest.json", 0o20600, os.makedev(1, 5))),
    "somebody else's": lambda v: os.chown(v.leave("latest.json", REPORT), 65534, 65534),
    "anybody's": lambda v: os.chmod(v.leave("latest.json", REPORT), 0o666),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_reports(verified, what):
    verified.leave("latest.json", REPORT)
    assert verified.boss.get("/api/operator/verify").json == REPORT
    WRONG[what](verified)
    answer = verified.boss.get("/api/operator/verify")
    check_error(answer, 500, "FAILED")
    assert "'stockade verify'" in answer.json["error"] + answer.json["hint"], answer
    verified.leave("latest.json", REPORT)
    assert verified.boss.get("/api/operator/verify").json == REPORT  # and nothing is stuck


@pytest.mark.parametrize("page", [b"<!doctype html>\0", b"<!doctype html>\xff", b"", b"x" * (MOST + 1)], ids=["a NUL", "no text", "nothing", "too large"])
def test_wrong_pages(verified, page):
    verified.leave("latest.html", page)
    check_error(verified.boss.get("/api/operator/verify/report"), 500, "FAILED")


def test_folder_of_somebody_else(verified):
    verified.leave("latest.json", REPORT)
    for wrong, right in ((lambda: os.chmod(verified.kept, 0o777), lambda: os.chmod(verified.kept, 0o700)),
                         (lambda: os.chown(verified.kept, 65534, 0), lambda: os.chown(verified.kept, 0, 0)),
                         (lambda: (os.rename(verified.kept, f"{verified.kept}2"), os.symlink("verify2", verified.kept)),
                          lambda: (os.unlink(verified.kept), os.rename(f"{verified.kept}2", verified.kept)))):
        wrong()
        try:
            check_error(verified.boss.get("/api/operator/verify"), 500, "FAILED")
        finally:
            right()
    assert verified.boss.get("/api/operator/verify").status == 200


def test_without_root(suite):
    """A user's daemon shows what that user's judge left, and the doctor says what that user can do."""
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = suite.daemon(who=USER).start()
    try:
        assert daemon.client.doctor()["uid"] == USER
        with pytest.raises(harness.Refused) as e:
            daemon.client.verify()
        assert e.value.code == "not_found"
        kept = daemon.state.parent / ".local/state/stockade/verify"
        kept.mkdir(parents=True, mode=0o700)
        for name, text in (("latest.json", json.dumps(REPORT)), ("latest.html", "<!DOCTYPE html>")):
            (kept / name).write_text(text)
            os.chown(kept / name, USER, USER)
        os.chown(kept, USER, USER)
        assert daemon.client.verify() == REPORT and daemon.client.verify_page() == {"page": "<!DOCTYPE html>"}
        os.chown(kept / "latest.json", USER + 1, USER)  # and of nobody else
        with pytest.raises(harness.Refused) as e:
            daemon.client.verify()
        assert e.value.code == "failed"
    finally:
        daemon.end()


# --- a doctor who is not well

FACTS = '{"low":true,"uid":0,"facts":[]}'


@pytest.mark.parametrize("script, status", [
    ("exit 0", 500), ("exit 3", 500), ("kill -9 $$", 500), ("echo '{'", 500), ("echo '[]'", 500), ("cat /dev/zero", 500), ("yes", 500),
    (f"echo '{FACTS}'; exit 3", 500), (f"echo '{FACTS}'; echo '{FACTS}'", 500), (f"echo '{FACTS}'; kill -11 $$", 500),
    (f"echo '{FACTS}'; exit 1", 200),  # nothing can run here: that is an answer
])
def test_sick_doctors(suite, script, status):
    made = Verified(suite, script)
    try:
        answer = made.boss.get("/api/operator/doctor", timeout=60)
        assert answer.status == status, answer
        if status != 200:
            check_error(answer, 500, "FAILED")
            assert answer.json["hint"], answer
        assert made.boss.get("/api/operator/load").status == 200
    finally:
        made.end()


def test_doctor_who_never_ends(suite):
    """He is waited for, not for ever; meanwhile all else goes on; and he ends, however many wanted to hear him."""
    made = Verified(suite, 'echo "$$" > "${0%/*}/pid"; trap "" HUP; exec sleep 1000')
    pid = made.daemon.state.parent / "bin/pid"
    answers = []
    try:
        threads = [threading.Thread(target=lambda: answers.append(made.boss.get("/api/operator/doctor", timeout=120))) for _ in range(3)]
        for t in threads:
            t.start()
        assert harness.until(lambda: pid.exists() and pid.read_text().strip())
        doctor = int(pid.read_text())
        made.leave("latest.json", REPORT)
        assert made.boss.get("/api/operator/verify").json == REPORT
        box = made.boss.post("/api/sandboxes", {"profile": "low"}).json["id"]
        assert made.boss.delete(f"/api/sandboxes/{box}?force=true").status == 200
        assert harness.alive(doctor) and not answers
        for t in threads:
            t.join()
        assert len(answers) == 3
        for answer in answers:
            check_error(answer, 500, "FAILED")
            assert "seconds" in answer.json["error"] and answer.json["hint"], answer
        assert int(pid.read_text()) == doctor  # one for all of them
        assert harness.until(lambda: not harness.alive(doctor))
    finally:
        made.end()


def test_nobody_waits_for_him_any_more(suite):
    """The operator dies, and then the daemon ends: he ends with them."""
    made = Verified(suite, 'echo "$$" > "${0%/*}/pid"; exec sleep 1000')
    pid = made.daemon.state.parent / "bin/pid"

    def begin():
        pid.unlink(missing_ok=True)
        threading.Thread(target=lambda: ask(made), daemon=True).start()
        assert harness.until(lambda: pid.exists() and pid.read_text().strip())
        return int(pid.read_text())
    try:
        first = begin()
        made.daemon.kill_operator()
        assert harness.until(lambda: not harness.alive(first))
        link = made.daemon.client.sign_in(operator=True)["url"].split("#link=")[1]
        made.nobody = Web(address_of(made.daemon))
        made.boss = Web(made.nobody.address, made.nobody.post("/api/auth/session", {"link": link}).json["token"])
        second = begin()
        made.daemon.down()
        assert harness.until(lambda: not harness.alive(second))
    finally:
        made.end()


def ask(made):
    try:
        made.boss.get("/api/operator/doctor", timeout=120)
    except (OSError, http.client.HTTPException):
        pass
