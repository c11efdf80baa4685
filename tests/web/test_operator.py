"""The operator's page: for operators alone."""
import json
import subprocess
from types import SimpleNamespace

import harness
import own_state
import pytest
from conftest import RATES, check_log

CHECKS = [{"name": "a", "does": "hold", "verdict": "promised", "verdict_words": "refused as promised", "why": None},
          {"name": "b", "does": "knock", "verdict": "otherwise", "verdict_words": "refused by another layer", "why": None},
          {"name": "c", "does": "look through a keyhole", "verdict": "untried", "verdict_words": "could not be tried", "why": "there is no door"},
          {"name": "d", "does": "open the <b>vault</b>", "verdict": "open", "verdict_words": "OPEN", "why": "it worked <img src=x onerror=alert(1)>"}]
TALLY = {"checks": 4, "promised": 1, "otherwise": 1, "untried": 1, "open": 1}
BAD = {"report": 1, "start": "2026-01-02T03:04:05Z", "headline": "1 of 4 attacks got through.", "summary": "S", "good": False, "driver": "native",
       "profile": {"name": "low"}, "quick": False, "tally": TALLY, "groups": [{"name": "files", "title": "Files outside", "tally": TALLY, "checks": CHECKS}]}
PAGE = "<!DOCTYPE html><title>quiet</title><p>the whole report</p><script>document.title='loud'</script><img src=/x onerror=\"document.title='loud'\">"


def test_operator(browse, house):
    browse("operator.mjs", house)


@pytest.fixture
def verified(suite):
    """A daemon that sees a state folder of this host that is the test's own."""
    daemon = suite.daemon(conf=f"listen = 127.0.0.1:0\nwallets = *\n{RATES}")
    daemon.lib = daemon.state.parent / "lib"
    daemon.programs = SimpleNamespace(stockaded=own_state.through(daemon.lib, suite.programs.stockaded, "daemon"))
    daemon.stockade = own_state.through(daemon.lib, suite.programs.stockade, "stockade")
    yield daemon.start(seconds=60)
    daemon.end()
    assert not daemon.left(), daemon.said()
    check_log(daemon)


def test_papers(browse, verified):
    def verify():
        said = subprocess.run([verified.stockade, "verify", "--quick", "--json"], capture_output=True, timeout=240 * harness.SLOW, check=False)
        assert said.returncode in (0, 1), said.stderr  # whatever the verdict
        return json.loads(said.stdout)

    def leave():
        for name, text in (("latest.json", json.dumps(BAD)), ("latest.html", PAGE)):
            (verified.lib / "stockade/verify" / name).write_text(text)
    browse("operator_papers.mjs", verified, answers={"verify": verify, "leave": leave}, seconds=500)
