"""Kill -9 at every labelled step of secrets (a test build, -Dknockout=true): given, wiped, wrapped again under another session
secret. What was answered lasts, and what was wiped does not come back."""
import re

import pytest

import harness
from harness import Gone, until
from sealed import VALUE, make, missing, nowhere, rows

LABELS = sorted({label for file in (harness.SOURCE / "src/operator").glob("secret*.c")
                 for label in re.findall(r'\bstep\([^,()]+, "(secret[a-z.-]+)"\)', file.read_text())})


def secret(daemon, name):
    """A session secret in a file."""
    file = daemon.state.parent / name
    file.write_text(f"{name}-session-secret-0123456789abcdef")
    file.chmod(0o600)
    return file


def test_there_are_labels():
    assert len(LABELS) == 5, LABELS


@pytest.mark.long
@pytest.mark.parametrize("label", LABELS)
def test_killed_at(make_daemon, label):
    if not harness.is_test_build():
        pytest.skip("not a test build (meson -Dknockout=true)")
    daemon = make_daemon(conf="pool = 0\n", start=False, env={"STOCKADE_STEP": label})
    conf = daemon.config.read_text()
    daemon.config.write_text(f"{conf}session_secret_file = {secret(daemon, 'first')}\n")
    daemon.start()
    client = daemon.client
    mark = daemon.state / f"operator/step-{label}"

    def ask(verb, **fields):
        for _ in range(5):
            try:
                return client.ask(verb, **fields)
            except Gone:
                assert daemon.wait(), daemon.said()
        raise AssertionError(f"{verb} is never answered: {daemon.said()}")

    def restart():
        daemon.kill_operator()
        ask("ping")

    box = ask("create", profile="medium")["id"]
    ask("delete", sandbox=box, force=True)
    box, other = make(client, "box"), make(client, "other")
    ask("secret", sandbox=box, secrets={"TOKEN": VALUE[::-1]})
    assert missing(client, box) == []
    daemon.config.write_text(f"{conf}session_secret_file = {secret(daemon, 'second')}\n"
                             f"session_secret_previous = {secret(daemon, 'first')}\n")
    restart()
    assert until(lambda: ask("health")["keys"]["wrapped"]), daemon.said()
    daemon.config.write_text(f"{conf}session_secret_file = {secret(daemon, 'second')}\n")
    restart()
    assert ask("show", sandbox=box)["secrets_missing"] == [] == ask("show", sandbox=other)["secrets_missing"], daemon.said()
    ask("secret-wipe", sandbox=box)
    assert missing(client, box) == ["TOKEN", "OTHER"] and rows(daemon, box) == {}
    daemon.kill_operator()
    assert missing(client, box) == ["TOKEN", "OTHER"] and missing(client, other) == []
    assert mark.exists(), f"nothing passes {label}: what is it for?"
    nowhere(daemon)
