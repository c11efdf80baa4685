"""Denials that a person can act on: what, by which rule, how to allow it; and silence only where it is said."""
import json
import os
import subprocess

import pytest

import harness


def denial(result, rule):
    found = [d for d in result.record["denials"] if d["rule"] == rule]
    assert found, f"no denial by {rule} in {result.record['denials']}"
    for key in ("what", "rule", "source", "text", "how_to_allow", "count"):
        assert found[0][key], key
    return found[0]


@pytest.mark.parametrize("script, options, rule, option", [
    ("head -c 100M /dev/zero | tail -c 90M", ["--memory", "32MiB"], "limits.memory", "--memory"),
    ("for i in $(seq 30); do sleep 1 & done; wait", ["--processes", "8"], "limits.processes", "--processes"),
    ("sleep 9", ["--timeout", "150ms"], "time.run", "--timeout"),
    ("while :; do :; done", ["--cpu-time", "150ms"], "budget.cpu", "--cpu-time"),
    ("yes", ["--output", "100"], "limits.output", "--output"),
    ("head -c 50M /dev/zero > /tmp/x", ["--size", "1MiB"], "files.write", "--size"),
], ids=["memory", "processes", "timeout", "cpu-time", "output", "size"])
def test_limit_is_explained(sh, script, options, rule, option):
    result = sh(script, *options)
    entry = denial(result, rule)
    assert option in entry["how_to_allow"]
    tail = result.errors.splitlines()[-2:]
    assert rule in result.errors and option in tail[-1], tail


def test_exec_is_explained(run):
    result = run("--set", "tools.exec=/usr/bin/true", "--", "/usr/bin/id")
    entry = denial(result, "tools.exec")
    assert result.status == 126 and "/usr/bin/id" in entry["what"] and "tools.exec" in result.errors


def test_quiet(sh):
    result = sh("sleep 9", "--timeout", "100ms", "--quiet")
    assert result.status == 124 and result.err == b"" and denial(result, "time.run")


def test_nothing_to_say(sh):
    result = sh("exit 3")
    assert result.err == b"" and result.record["denials"] == []


def test_refusals_that_the_command_saw_are_not_guessed(sh):
    """What has no source is not made up from the program's own words."""
    result = sh("echo 'Permission denied: /etc/shadow' >&2; exit 1")
    assert result.record["denials"] == [] and result.errors == "Permission denied: /etc/shadow\n"
    assert set(result.record["denial_sources"]) >= {"limits", "exec", "files", "network"}


def test_denials_are_escaped(run):
    """A name that the command chose does not act on the caller's terminal."""
    result = run("--", "/usr/bin/\x1b]0;owned\x07\n")
    assert result.status in (126, 127) and b"\x1b" not in result.err and b"\x07" not in result.err
    assert len(result.err.splitlines()) <= 2


def test_hint_of_a_refusal_works(run, place):
    """The remedy that is printed is one that helps."""
    (place / "out").symlink_to("/usr/share")
    first = run("--ro", place / "out", "--", "true")
    assert first.status == 125 and "/usr/share" in first.errors
    assert run("--ro", "/usr/share", "--", "true").status == 0


def test_doctor(who):
    table = harness.verb(who, "doctor")
    assert table.status == 0, table
    facts = harness.verb(who, "doctor", "--json")
    data = json.loads(facts.ok())
    names = {fact["name"] for fact in data["facts"]}
    assert data["low"] is True and {"Landlock", "seccomp"} <= names
    for fact in data["facts"]:
        assert fact["state"] == "ok" or fact["fix"] or fact["cost"], fact


# In a mount namespace of its own: ramfs, which cannot show files under other ids, as tmpfs cannot before Linux 6.3. What the
# launcher needs of the places that are covered shines through. The last line says that the judge left nothing there.
CANNOT_SHOW_IDS = """
launcher=$1; suite=$2; shift 2
mkdir -p /run/stockade && mount -t ramfs -o mode=1777 none /tmp && mkdir /tmp/suite /tmp/run &&
mount --bind "$suite" /tmp/suite && mount --bind /run/stockade /tmp/run || exit 99
for place; do mount -t ramfs -o mode=1777 none "$place" || exit 99; done
mkdir -p "$suite" /run/stockade && mount --bind /tmp/suite "$suite" && mount --bind /tmp/run /run/stockade && cd / || exit 99
left() { ls -d /tmp/stockade-verify-0-* /var/tmp/stockade-verify-0-* /run/stockade-verify-0-* 2>/dev/null; }
before=$(left)
"$launcher" verify --self-test --json || exit
echo
[ "$(left)" = "$before" ] && echo nothing
"""


@pytest.mark.parametrize("more, missed", [([], []), (["/var/tmp", "/run"], ["setid-chmod"])], ids=["tmp", "nowhere"])
def test_self_test_where_ids_cannot_be_shown(root, more, missed):
    """The judge shares a folder from where that works; where nothing does, it says what was not tried, and the rest holds."""
    argv = ["unshare", "--mount", "sh", "-c", CANNOT_SHOW_IDS, "sh", root.suite.launcher, root.suite.folder, *more]
    result = harness.finish(root.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    text, left = result.ok().rsplit("\n", 2)[:2]
    report = json.loads(text)
    untried = {check["name"]: check["why"] for check in report["not_tested"]["untried"]}
    assert report["good"] and report["tally"]["open"] == 0 and report["tally"]["checks"] >= 20 and left == "nothing", result
    assert [name for name in untried if name.startswith("setid-")] == missed, untried
    assert all("under other ids" in untried[name] for name in missed), untried


def id_lines(but, only=""):
    """Lines of the files with subordinate ids, without those of other suites that may run."""
    found = [line for path in ("/etc/subuid", "/etc/subgid") if os.path.exists(path) for line in open(path, encoding="utf-8")]
    return sorted(line for line in found if line.startswith(only) and not (but and line.startswith(but)))


def test_setup_gives_and_takes(suite, root):
    """Once as root: a user gets what it needs, twice changes nothing more, and --remove takes it back."""
    name, uid = harness.TEST_USER + "-b", harness.TEST_UID + 2
    before = id_lines("stockade-e2e")
    subprocess.run(["/usr/sbin/useradd", "--uid", str(uid), "--user-group", "--no-create-home", name], check=True)
    try:
        assert harness.verb(root, "setup", "--user", name).status == 0
        given = [p for p in harness.CGROUP.glob(f"*/stockade/{uid}")] + [p for p in harness.CGROUP.glob(f"stockade/{uid}")]
        assert given and all(os.stat(p).st_uid == uid for p in given)
        once = id_lines(None, only=name)
        assert len(once) == 2 and harness.verb(root, "setup", "--user", name).status == 0
        assert id_lines(None, only=name) == once
        assert harness.verb(root, "setup", "--user", name, "--remove").status == 0
        assert not any(p.exists() for p in given)
    finally:
        subprocess.run(["/usr/sbin/userdel", name], check=False, capture_output=True)
    assert id_lines(None, only=name) == [] and id_lines("stockade-e2e") == before


def test_setup_needs_root(user):
    result = harness.verb(user, "setup", "--user", harness.TEST_USER)
    assert result.status == 125 and "root" in result.errors


def test_setup_of_nobody(root):
    result = harness.verb(root, "setup", "--user", "no-such-user-here")
    assert result.status == 125 and "no-such-user-here" in result.errors
