"""Fixtures: one host for the session, and one run of all quick attempts for each person, profile and kind of stream."""
import os

import pytest

import judge
import table


@pytest.fixture(scope="session")
def host():
    made = judge.Host()
    for check in table.CHECKS:
        check.secrets = list(made.tokens.values()) + [made.token("sibling-file"), made.token("environment")]
    for name in ("root", "rootless"):  # the first run makes what is kept for later ones: caches, the file of id locks
        for profile in ("low", "medium"):
            made.person(name).run(profile, ["true"])
    return made


@pytest.fixture(scope="session", params=["root", "rootless"])
def person(request, host):
    return host.person(request.param)


@pytest.fixture(scope="session", params=["low", "medium"])
def profile(request):
    return request.param


@pytest.fixture
def unchanged(host):
    """The host is the same after the test as before."""
    before = host.digest()
    yield
    changes = host.changes_since(before)
    assert not changes, f"the host changed: {changes}"


def pytest_sessionfinish():
    path = os.environ.get("STOCKADE_ADVERSARY_TABLE")
    if path and judge.VERDICTS:
        judge.write_table(path)
