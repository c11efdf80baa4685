"""Instance mode: one sandbox, there from the start, the same after a restart, made again if it is gone; and every route of
/api/sandboxes/{id} under /api/sandbox."""
import os
import signal

import pytest

import harness
from conftest import RATES, Web, address_of, events
from test_doors import ROUTES, check_error, label, path_of
from wallet import Wallet

LONG = 60
OWNER = Wallet("instance")
CONF = f"mode = instance\ninstance_profile = medium\ninstance_name = one\ninstance_owner = {OWNER.address}\nservice_id = 9\npool = 0\n{RATES}"
TWINS = [r for r in ROUTES if r["path"].startswith("/api/sandboxes/{sandbox}")]


def ready(web):
    return harness.until(lambda: web.get("/readyz", timeout=LONG).status == 200, LONG)


class Place:
    def __init__(self, daemon):
        self.daemon = daemon
        self.nobody = Web(address_of(daemon))
        assert ready(self.nobody), (self.nobody.get("/readyz"), daemon.said())
        self.owner = self.nobody.sign_in(OWNER)
        self.other = self.nobody.sign_in(Wallet("somebody else"))

    @property
    def id(self):
        return self.owner.get("/api/sandbox").json["id"]


@pytest.fixture(scope="module")
def place(suite):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{CONF}").start()
    yield Place(daemon)
    daemon.end()
    assert not daemon.left(disks=True), daemon.said()


def twin(route, **names):
    return path_of(route, **names).replace(f"/api/sandboxes/{names.get('sandbox', '0123456789abcdef')}", "/api/sandbox", 1)


def test_it_is_there(place):
    found = place.owner.get("/api/sandbox").json
    assert found["name"] == "one" and found["state"] == "running" and found["profile"] == "medium", found
    assert found["owner"] == "eth:" + OWNER.address.lower()
    assert [s["id"] for s in place.owner.get("/api/sandboxes").json["sandboxes"]] == [found["id"]]
    assert place.owner.get(f"/api/sandboxes/{found['id']}").json["id"] == found["id"]
    assert place.nobody.get("/api/capabilities").json["mode"] == "instance"
    assert place.owner.get("/api/provisions").json["provisions"][0]["metadata"] == {"service_id": 9}


def test_work(place):
    web = place.owner
    answer = web.post("/api/sandbox/exec", {"command": "echo one; pwd"})
    assert answer.status == 200 and answer.json["stdout"].startswith("one\n"), answer
    assert web.put("/api/sandbox/files?path=/home/agent/a%20b", b"x" * 70000).status == 200
    assert web.get("/api/sandbox/files?path=/home/agent/a%20b").body == b"x" * 70000
    assert web.get("/api/sandbox/files?path=/home/agent/a%20b", headers={"Range": "bytes=1-3"}).body == b"xxx"
    session = web.post("/api/sandbox/live/terminal/sessions", {"command": "echo tty; read x"}).json["session_id"]
    c, response = web.open(f"/api/sandbox/live/terminal/sessions/{session}/stream?out=0")
    assert events(response, 1)[0][0] == "started"
    assert web.post(f"/api/sandbox/live/terminal/sessions/{session}/input", {"data": "\n"}).json["success"]
    assert events(response, until="exit")[-1][1]["exit_code"] == 0
    c.close()
    assert web.get("/api/sandbox/ssh/user").json["username"] == place.id
    assert web.get("/api/sandbox/secrets").status == 200 and web.get("/api/sandbox/usage").json["memory"] > 0
    for verb, state in (("stop", "stopped"), ("resume", "running")):
        answer = web.post(f"/api/sandbox/{verb}")
        assert answer.status == 200 and answer.json["state"] == state and answer.json["sandbox_id"] == place.id, answer


def test_port(place):
    web = place.owner
    serve = "import http.server as h,os; os.chdir('/home/agent'); h.ThreadingHTTPServer(('127.0.0.1', 8123), h.SimpleHTTPRequestHandler).serve_forever()"
    web.put("/api/sandbox/files?path=/home/agent/page.txt", b"served")
    run = web.post("/api/sandbox/exec", {"argv": ["python3", "-c", serve], "background": True}).json["run_id"]
    assert harness.until(lambda: web.get("/api/sandbox/port/8123/page.txt").body == b"served", LONG), web.get("/api/sandbox/port/8123/page.txt")
    assert web.post(f"/api/sandbox/runs/{run}/cancel").status == 200


def test_tickets_mean_the_same(place):
    path = "/api/sandbox/files"
    ticket = place.owner.post("/api/auth/ticket", {"path": path}).json["ticket"]
    assert place.nobody.get(f"{path}?path=/tmp&ticket={ticket}").status == 200
    check_error(place.nobody.get(f"{path}?path=/tmp&ticket={ticket}"), 401)


@pytest.mark.parametrize("route", TWINS, ids=label)
def test_every_twin_is_guarded(place, route):
    method = "GET" if route["method"] == "ANY" else route["method"]
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="} if route["status"] == 101 else {}
    check_error(place.nobody.ask(method, twin(route), headers=headers), 401, "NO_TOKEN")
    check_error(Web(place.nobody.address, "v4.local.AAAA").ask(method, twin(route), headers=headers), 401, "BAD_TOKEN")


def test_somebody_else(place):
    for path in ("/api/sandbox", "/api/sandbox/runs", "/api/sandbox/ssh", "/api/sandbox/evidence"):
        check_error(place.other.get(path), 404, "NOT_FOUND")
    check_error(place.other.post("/api/sandbox/exec", {"command": "id"}), 404, "NOT_FOUND")
    assert place.other.get("/api/sandboxes").json["sandboxes"] == []


def test_nobody_makes_another(place):
    link = place.daemon.client.sign_in(operator=True)["url"].split("#link=")[1]
    boss = Web(place.nobody.address, place.nobody.post("/api/auth/session", {"link": link}).json["token"])
    for web in (place.owner, place.other, boss):
        check_error(web.post("/api/sandboxes", {"profile": "low"}), 409, "INSTANCE_MODE")
    for web in (place.owner, boss):
        check_error(web.post("/api/sandbox/fork"), 409, "INSTANCE_MODE")
        check_error(web.post(f"/api/sandboxes/{place.id}/fork", {"name": "x"}), 409, "INSTANCE_MODE")
    assert len(place.daemon.client.list(all=True)["sandboxes"]) == 1


@pytest.mark.parametrize("path", ["/api/sandboxx", "/api/sandbox%2Fexec", "/api/sandbox/../sandboxes", "/api/sandbox/nothing", "/api/sandbox//exec",
                                  "/api/sandbox/exec/", "//api/sandbox", "/api/sandbox/%2e%2e/x"])
def test_odd_paths(place, path):
    answer = place.owner.get(path)
    assert answer.status in (400, 404), answer


def test_capabilities_name_it(place):
    token = place.owner.post("/api/capabilities/tokens", {"verbs": ["exec"], "resources": [f"sandbox/{place.id}"], "expires_in": 60}).json["token"]
    machine = Web(place.nobody.address, token)
    assert machine.post("/api/sandbox/exec", {"command": "echo ok"}).json["stdout"] == "ok\n"
    check_error(machine.get("/api/sandbox"), 403, "NOT_PERMITTED")


def test_it_outlives_its_operator(place):
    before = place.id
    assert place.owner.put("/api/sandbox/files?path=/home/agent/kept", b"kept").status == 200
    place.daemon.kill_operator()
    assert ready(place.nobody)
    assert place.id == before and place.owner.get("/api/sandbox/files?path=/home/agent/kept").body == b"kept"
    assert len(place.daemon.client.list(all=True)["sandboxes"]) == 1


def test_stopped_by_its_owner_stays_stopped(place):
    before = place.id
    assert place.owner.post("/api/sandbox/stop").status == 200
    place.daemon.kill_operator()
    assert ready(place.nobody) and place.owner.get("/api/sandbox").json["state"] == "stopped"
    assert place.owner.post("/api/sandbox/resume").json["state"] == "running" and place.id == before


def test_one_that_died_is_resumed(place):
    before = place.owner.get("/api/sandbox").json
    pid = int(next(line.split()[1] for line in place.daemon.info(before["id"]).splitlines() if line.startswith("pid ")))
    os.kill(pid, signal.SIGKILL)

    def back():
        now = place.owner.get("/api/sandbox").json
        return now["state"] == "running" and now["starts"] > before["starts"]
    assert harness.until(back, LONG), place.owner.get("/api/sandbox")
    assert place.id == before["id"]


def test_made_again_when_it_is_gone(place):
    before = place.id
    assert place.owner.delete("/api/sandbox?force=true").json == {"deleted": True}
    assert harness.until(lambda: place.owner.get("/api/sandbox").json.get("id") not in (None, before), LONG), place.owner.get("/api/sandbox")
    assert ready(place.nobody)
    assert place.owner.post("/api/sandbox/exec", {"command": "ls /home/agent/kept"}).json["exit_code"] != 0


def test_what_cannot_be_made_is_said(make_house):
    daemon = make_house("mode = instance\ninstance_profile = none-such\npool = 0\nrate_read = unlimited\n")
    web = Web(address_of(daemon))
    assert harness.until(lambda: "none-such" in (web.get("/readyz", timeout=LONG).json["why"] or ""), LONG), web.get("/readyz")
    assert web.get("/readyz").status == 503
    check_error(web.get("/api/sandbox"), 404, "NOT_PROVISIONED")
    check_error(web.post("/api/sandbox/exec", {"command": "id"}), 404, "NOT_PROVISIONED")


def test_owner_is_who_runs_the_daemon(make_house):
    daemon = make_house("mode = instance\npool = 0\nrate_read = unlimited\n")
    web = Web(address_of(daemon))
    assert ready(web)
    link = daemon.client.sign_in()["url"].split("#link=")[1]
    owner = Web(web.address, web.post("/api/auth/session", {"link": link}).json["token"])
    assert owner.get("/api/sandbox").json["owner"] == "uid:0" and owner.get("/api/sandbox").json["name"] == "instance"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/api/sandbox", "/api/sandbox/exec", "/api/sandbox/files/archive"])
def test_cloud_has_none(alice, nobody, method, path):
    for web in (alice, nobody):
        check_error(web.ask(method, path, {} if method in ("POST", "PUT", "PATCH") else None), 404, "NOT_INSTANCE")
