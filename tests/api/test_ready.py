"""/readyz: a sandbox really is started, now and then and only while somebody asks; and it says why when it cannot be."""
import re
import subprocess
import threading

import pytest

import harness
from conftest import Web, address_of, check_log
from wallet import Wallet

LONG = 60


def metric(web, name):
    return float(re.search(rf"^{name} (\S+)$", web.get("/metrics").body.decode(), re.M)[1])


def test_ready(make_house):
    daemon = make_house("pool = 0\n")
    web = Web(address_of(daemon))
    assert metric(web, "stockade_trials_total") == 0  # nobody had asked
    answer = web.get("/readyz", timeout=LONG)
    assert answer.status == 200, (answer, daemon.said())
    first = answer.json
    assert first["status"] == "ready" and first["why"] is None and first["runtime_error"] is None, first
    assert first["runtime"] and first["store"] and first["ledger"] and first["gate"], first
    assert metric(web, "stockade_ready") == 1
    for _ in range(20):  # once a minute is enough
        again = web.get("/readyz")
        assert again.status == 200 and again.json["age_ms"] >= first["age_ms"]
    assert metric(web, "stockade_trials_total") == 1
    # nobody sees it, nobody pays for it, and nothing of it is left
    assert daemon.client.list(all=True)["sandboxes"] == [] and daemon.client.usage(all=True)["usage"] == []
    assert daemon.client.health()["used"] == {"sandboxes": 0, "memory": 0, "cpus": 0, "disk": 0}
    assert harness.until(lambda: not [p for p in (daemon.state / "run/sandboxes").iterdir()])
    assert daemon.client.owners()["owners"] == []


def test_many_who_ask_wait_for_one(make_house):
    daemon = make_house("pool = 0\nrate_read = unlimited\n")
    web = Web(address_of(daemon))
    found = []
    threads = [threading.Thread(target=lambda: found.append(web.get("/readyz", timeout=LONG))) for _ in range(12)]
    for i, thread in enumerate(threads):
        thread.start()
        if i < 3:  # and some who leave
            c = web.connect()
            c.request("GET", "/readyz")
            c.close()
    for thread in threads:
        thread.join()
    assert [a.status for a in found] == [200] * 12, found
    assert metric(web, "stockade_trials_total") == 1


def test_a_real_start_counts(make_house):
    daemon = make_house("pool = 0\n")
    web = Web(address_of(daemon)).sign_in(Wallet("start"))
    made = web.post("/api/sandboxes", {"profile": "low"}).json["id"]
    before = [p.name for p in (daemon.state / "run/sandboxes").iterdir()]
    answer = web.get("/readyz", timeout=LONG)
    assert answer.status == 200 and answer.json["runtime"], answer
    assert before == [made] == [p.name for p in (daemon.state / "run/sandboxes").iterdir()]
    assert web.delete(f"/api/sandboxes/{made}?force=true").status == 200


@pytest.fixture
def own_suite():
    """Programs of its own, which may be broken."""
    made = harness.Suite()
    yield made
    made.remove()


def broken(path):
    """So that whoever executes it ends at once."""
    path.unlink()
    path.write_bytes(open("/bin/false", "rb").read())
    path.chmod(0o755)


@pytest.mark.parametrize("program,field", [("stockade-guest", "runtime"), ("stockade-gate", "gate")])
def test_what_is_broken_is_said(own_suite, program, field):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = own_suite.daemon(conf="listen = 127.0.0.1:0\npool = 0\nrate_read = unlimited\n")
    broken(own_suite.programs.folder / program)
    daemon.start()
    try:
        web = Web(address_of(daemon))
        answer = web.get("/readyz", timeout=LONG)
        assert answer.status == 503 and answer.json["status"] == "not_ready" and answer.json["why"], (answer, daemon.said())
        assert answer.json[field] is False and answer.json["store"] and answer.json["ledger"], answer
        assert web.get("/health").status == 200
        assert metric(web, "stockade_ready") == 0
        assert harness.until(lambda: not [p for p in (daemon.state / "run/sandboxes").iterdir()])
    finally:
        daemon.end()


def test_full_disk(suite, tmp_path):
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    daemon = suite.daemon(conf="listen = 127.0.0.1:0\npool = 0\ndisk_reserve = 4MiB\nrate_read = unlimited\n")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", str(daemon.state)], check=True)
    try:
        daemon.start()
        web = Web(address_of(daemon))
        answer = web.get("/readyz", timeout=LONG)
        assert answer.status == 200, (answer, daemon.said())
        filler = daemon.state / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        assert harness.until(lambda: web.get("/readyz", timeout=LONG).status == 503, 60), web.get("/readyz")
        assert web.get("/readyz", timeout=LONG).json["why"]
        filler.unlink()
        assert harness.until(lambda: web.get("/readyz", timeout=LONG).status == 200, 60), web.get("/readyz")
        daemon.end()
        check_log(daemon)
    finally:
        daemon.end()
        subprocess.run(["umount", str(daemon.state)], check=True)


def test_down_waits_for_it(make_house):
    """One that is under way when the daemon ends leaves nothing."""
    daemon = make_house("pool = 0\n")
    web = Web(address_of(daemon))
    c = web.connect()
    c.request("GET", "/readyz")
    daemon.down(stop=False)
    c.close()
    assert not daemon.left(disks=True)


def test_events_are_counted(make_house):
    daemon = make_house("pool = 0\n")
    web = Web(address_of(daemon)).sign_in(Wallet("counted"))
    made = web.post("/api/sandboxes", {"profile": "low"}).json["id"]
    for _ in range(3):
        web.post(f"/api/sandboxes/{made}/exec", {"command": "true"})
    assert metric(web, 'stockade_events_total{kind="sandbox.create"}') == 1
    assert metric(web, 'stockade_events_total{kind="run.start"}') == 3
    assert web.delete(f"/api/sandboxes/{made}?force=true").status == 200


def test_without_root(suite):
    """It says what a sandbox would meet: where a user may not limit anything, none can be started, and that is why."""
    if not harness.IS_ROOT:
        harness.missing("not started by root, who becomes somebody else here")
    daemon = suite.daemon(conf="listen = 127.0.0.1:0\npool = 0\n", who=4299).start()
    try:
        answer = Web(address_of(daemon)).get("/readyz", timeout=LONG)
        try:
            daemon.client.create(profile="low")
            assert answer.status == 200 and answer.json["runtime"], (answer, daemon.said())
        except harness.Refused as refused:
            assert answer.status == 503 and not answer.json["runtime"] and str(refused.message) in answer.json["why"], (answer, refused)
    finally:
        daemon.end()
