"""/readyz says in words what is wrong to whoever is on this host or runs it, and a code to everybody else."""
import harness
import pytest

from conftest import TLS, Web, address_of, check_log
from wallet import Wallet

AFAR = {"X-Forwarded-For": "203.0.113.9"}  # a proxy's word: whoever asks is not on this host
LONG = 60


@pytest.fixture(scope="module")
def broken():
    if not harness.IS_ROOT:
        harness.missing("not started by root")
    own = harness.Suite()
    chief = Wallet("chief")
    daemon = own.daemon(conf=f"listen = 127.0.0.1:0\npool = 0\nwallets = *\noperators = {chief.address}\n{TLS}rate_read = unlimited\n")
    guest = own.programs.folder / "stockade-guest"
    guest.unlink()
    guest.write_bytes(open("/bin/false", "rb").read())
    guest.chmod(0o755)
    daemon.start()
    try:
        web = Web(address_of(daemon))
        yield web, web.sign_in(chief), web.sign_in(Wallet("somebody"))
        daemon.end()
        check_log(daemon)
    finally:
        daemon.end()
        own.remove()


def ask(web, **kw):
    answer = web.get("/readyz", timeout=LONG, **kw)
    assert answer.status == 503 and answer.json["status"] == "not_ready", answer
    return answer.json


def test_words_are_for_those_who_run_it(broken):
    here, chief, somebody = broken
    first = ask(here, headers=AFAR)  # the one that is waited for, then what is known already
    for said in (first, ask(here, headers=AFAR), ask(somebody, headers=AFAR),
                 ask(here, headers={**AFAR, "Authorization": "Bearer nonsense"}), ask(here, headers={**AFAR, "Authorization": "Basic eDp5"})):
        assert (said["code"], said["why"], said["runtime_error"], said["runtime"]) == ("RUNTIME", "RUNTIME", "RUNTIME", False), said
    for said in (ask(here), ask(somebody), ask(chief), ask(chief, headers=AFAR)):
        assert said["code"] == "RUNTIME" and said["runtime_error"] == said["why"], said
        assert said["why"].startswith("no sandbox can be started: "), said


def test_nothing_is_wrong(nobody):
    for headers in ({}, AFAR):
        answer = nobody.get("/readyz", timeout=LONG, headers=headers)
        assert answer.status == 200 and (answer.json["code"], answer.json["why"], answer.json["runtime_error"]) == (None, None, None), answer
