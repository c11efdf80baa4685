"""--help, the manual pages and the options say the same."""
import re

import pytest

import harness

MAN = harness.SOURCE / "docs/man"


def options_of_help(text):
    return set(re.findall(r"(--[a-z][a-z-]+)", text))


def test_help(who):
    for args in (["--help"], ["-h"], ["help"], ["run", "--help"], ["run", "-h"], ["profile", "--help"]):
        result = harness.verb(who, *args)
        assert result.status == 0 and result.out and result.err == b"", args
    assert harness.verb(who).status == 125
    assert re.fullmatch(r"stockade [0-9]\S*\n", harness.verb(who, "--version").ok())


def test_every_verb_has_help(who):
    verbs = re.findall(r"^  ([a-z]+) ", harness.verb(who, "--help").ok(), re.MULTILINE)
    assert {"run", "profile"} <= set(verbs)
    for name in verbs:
        text = harness.verb(who, name, "--help").ok()
        assert f"stockade {name}" in text


def test_help_is_narrow_enough(who):
    for line in harness.verb(who, "run", "--help").ok().splitlines():
        assert len(line) <= 120, line


def test_run_manual_agrees(user):
    page = MAN / "stockade-run.1.scd"
    if not page.exists():
        harness.missing("no docs/man/stockade-run.1.scd yet")
    text = page.read_text().replace("\\-", "-").replace("\\_", "_")
    rows = re.findall(r"^  (?:(-[a-z]), |    )(--[a-z-]+)(?:\[=\S+\]| (\S+))?  ", harness.verb(user, "run", "--help").ok() + "  ",
                      re.MULTILINE)
    assert len(rows) > 25
    for letter, option, argument in rows:
        assert re.search(rf"^\*{letter + ', ' if letter else ''}{option}\*", text, re.MULTILINE), \
            f"the manual does not know {letter} {option}"
        assert not argument or argument.split("[")[0] in text, f"{option} {argument}"
    known = {option for _, option, _ in rows}
    section = text.split("# OPTIONS")[1].split("\n# ")[0] if "# OPTIONS" in text else text
    extra = set(re.findall(r"^\*(?:-[a-z], )?(--[a-z-]+)\*", section, re.MULTILINE)) - known
    assert not extra, f"the manual knows options that are not there: {extra}"


def test_issue_options_are_there(user):
    text = options_of_help(harness.verb(user, "run", "--help").ok())
    assert {"--profile", "--ro", "--rw", "--workspace", "--env", "--memory", "--cpus", "--processes", "--timeout", "--root",
            "--tty", "--record", "--json", "--plan", "--apply", "--discard", "--keep", "--accept-missing"} <= text


@pytest.mark.parametrize("verb", ["doctor", "setup", "verify"])
def test_other_manuals_agree(user, verb):
    page = MAN / f"stockade-{verb}.1.scd"
    if not page.exists():
        harness.missing(f"no {page.name} yet")
    text = page.read_text().replace("\\-", "-")
    for option in options_of_help(harness.verb(user, verb, "--help").ok()):
        assert option in text, f"{page.name} does not know {option}"


def test_profile_manual_has_every_key(user):
    page = (MAN / "stockade.profile.5.scd").read_text().replace("\\_", "_").replace("\\", "")
    for line in harness.verb(user, "profile", "schema", "--man").ok().replace("\\_", "_").replace("\\", "").splitlines():
        if line.startswith("*"):
            assert line in page, line


@pytest.mark.parametrize("options", [["--memory=64MiB"], ["-m", "64MiB"], ["--memory", "64MiB"]])
def test_ways_to_write_an_option(run, options):
    plan = run(*options, "--plan", "--", "true").ok()
    assert "limits.memory 67108864" in plan


def test_command_with_dashes(run):
    assert run("--", "echo", "--memory", "-1").ok() == "--memory -1\n"
    assert run("echo", "--plan").ok() == "--plan\n"
