"""Bad input: one line that says what and where, a hint at most, status 125, and nothing made and nothing left."""
import datetime
import os
import time

import pytest

import harness


def refused(result, *words, statuses=(125,)):
    assert result.status in statuses, result
    assert result.out == b""
    lines = result.errors.splitlines()
    assert 1 <= len(lines) <= 2 and lines[0].startswith("stockade: "), lines
    assert len(lines) == 1 or lines[1].startswith("  "), lines
    assert all(len(line) < 600 for line in lines)
    for word in words:
        assert word in result.errors, f"{word!r} not in {lines}"


# text of the profile, what the error must say besides the file
PROFILES = {
    "unknown key": ("profile: 1\nextends: low\nlimits:\n  memry: 1GiB\n", ":4:3:", "memry"),
    "unknown key at the top": ("profile: 1\nfils: {}\n", ":2:1:", "fils"),
    "bad unit": ("profile: 1\nextends: low\nlimits: {memory: 1GB2}\n", ":3:18:", "1GB2"),
    "no unit that fits": ("profile: 1\nextends: low\ntime: {run: 5MiB}\n", ":3:13:", "5MiB"),
    "negative": ("profile: 1\nextends: low\nlimits: {processes: -5}\n", ":3:21:", "-5"),
    "too large": ("profile: 1\nextends: low\nlimits: {memory: 99999999TiB}\n", ":3:18:"),
    "overflow": ("profile: 1\nextends: low\nlimits: {memory: 99999999999999999999999}\n", ":3:18:"),
    "wrong kind": ("profile: 1\nextends: low\nlimits: [1, 2]\n", ":3:9:"),
    "duplicate": ("profile: 1\nextends: low\nextends: low\n", ":3:1:", "extends"),
    "relative path": ("profile: 1\nextends: low\nfiles: {read: [usr]}\n", ":3:16:", "usr"),
    "dots": ("profile: 1\nextends: low\nfiles: {read: [/usr/../etc]}\n", ":3:16:"),
    "parent that is not there": ("profile: 1\nextends: nobody\n", ":2:10:", "nobody"),
    "file that is not there": ("profile: 1\nextends: ./nobody.yaml\n", ":2:10:", "nobody.yaml"),
    "itself": ("profile: 1\nextends: ./bad.yaml\n", "bad.yaml"),
    "anchor": ("profile: 1\nextends: &a low\n", ":2:10:"),
    "alias": ("profile: 1\nname: *a\n", ":2:7:"),
    "second document": ("profile: 1\nextends: low\n---\nprofile: 1\n", ":3:1:"),
    "not YAML": ("profile: 1\nlimits: {memory: [\n", "bad.yaml:"),
    "tab": ("profile: 1\n\tname: x\n", ":2:"),
    "no version": ("extends: low\n", "bad.yaml", "profile"),
    "other version": ("profile: 2\n", ":1:10:"),
    "empty": ("", "bad.yaml"),
    "list": ("- profile\n", ":1:"),
    "escape sequence": ("profile: 1\nname: \"\\e[31mred\"\n", ":2:7:"),
    "not enforceable": ("profile: 1\nextends: low\nbudget: {tokens: 5}\n", "budget.tokens"),
    "network": ("profile: 1\nextends: low\nnetwork: {allow: [{host: \"http://a.b\"}]}\n", "network"),
}


@pytest.mark.parametrize("what", PROFILES)
def test_bad_profile(run, place, what):
    text, *words = PROFILES[what]
    (place / "bad.yaml").write_text(text)
    result = run("--profile", place / "bad.yaml", "--", "echo", "ran")
    refused(result, *words)
    assert b"\x1b" not in result.err


def test_cycle(run, place):
    (place / "a.yaml").write_text("profile: 1\nextends: ./b.yaml\n")
    (place / "b.yaml").write_text("profile: 1\nextends: ./c.yaml\n")
    (place / "c.yaml").write_text("profile: 1\nextends: ./a.yaml\n")
    refused(run("--profile", place / "a.yaml", "--", "true"), ".yaml:2:10")


def test_huge_profile(run, place):
    (place / "bad.yaml").write_text("profile: 1\n" + "# x\n" * (10 << 18))
    begin = harness.processor_time()
    refused(run("--profile", place / "bad.yaml", "--", "true"), "bad.yaml")
    assert harness.processor_time() - begin < 2 * harness.SLOW


def test_endless_profile(run):
    refused(run("--profile", "/dev/zero", "--", "true"), "/dev/zero")


def test_nested_profile(run, place):
    (place / "bad.yaml").write_text("profile: 1\nname: " + "[" * 100_000)
    refused(run("--profile", place / "bad.yaml", "--", "true"), "bad.yaml")


def test_zero_byte_in_a_profile(run, place):
    (place / "bad.yaml").write_bytes(b"profile: 1\nextends: low\nfiles: {read: [/usr\0/etc]}\n")
    refused(run("--profile", place / "bad.yaml", "--", "true"), "bad.yaml:3")


def test_escaped_zero_byte_in_a_path(run, place):
    (place / "bad.yaml").write_bytes(b'profile: 1\nextends: low\nfiles: {read: ["/usr\\0/etc"]}\n')
    refused(run("--profile", place / "bad.yaml", "--", "true"), "bad.yaml:3:16")


def test_profile_that_cannot_be_read(user, suite):
    path = suite.folder / "unreadable.yaml"
    path.write_text("profile: 1\n")
    path.chmod(0)
    refused(harness.run(user, "--profile", path, "--", "true"), "unreadable.yaml")


def test_folder_as_profile(run, place):
    (place / "dir.yaml").mkdir()
    refused(run("--profile", place / "dir.yaml", "--", "true"), "dir.yaml")


@pytest.mark.parametrize("options, words", [
    (["--memory", "-1"], ["limits.memory", "-1"]),
    (["--memory", "0"], ["limits.memory"]),
    (["--memory", "lots"], ["lots"]),
    (["--memory", ""], ["limits.memory"]),
    (["--memory", "1e9"], ["1e9"]),
    (["--memory", "99999999999999999999GiB"], ["limits.memory"]),
    (["--cpus", "-0.5"], ["limits.cpus"]),
    (["--cpus", "nan"], ["limits.cpus"]),
    (["--cpus", "0"], ["limits.cpus"]),
    (["--processes", "0"], ["limits.processes"]),
    (["--processes", "1.5"], ["limits.processes"]),
    (["--timeout", "soon"], ["time.run"]),
    (["--timeout", "0"], ["time.run"]),
    (["--files", "1"], ["limits.files"]),
    (["--profile", "no-such-profile"], ["no-such-profile", "low, medium, high"]),
    (["--profile", "../../etc/passwd"], ["etc/passwd"]),
    (["--profile", ""], []),
    (["--ro", "/no/such/path"], ["/no/such/path"]),
    (["--rw", "/no/such/path"], ["/no/such/path"]),
    (["--rw", ""], ["--rw"]),
    (["--root", "/no/such/root"], ["/no/such/root"]),
    (["--root", "/etc/passwd"], ["/etc/passwd"]),
    (["--workspace", "/no/such/work", "--discard"], ["/no/such/work"]),
    (["--env", "1X=y"], ["1X"]),
    (["--env", "=y"], ["--env"]),
    (["--cwd", "relative"], ["relative"]),
    (["--set", "limits.memry=1"], ["limits.memry"]),
    (["--set", "nonsense"], ["nonsense"]),
    (["--set", "=5"], ["--set"]),
    (["--accept-missing", "limits.memry"], ["limits.memry"]),
    (["--no-such-option"], ["--no-such-option"]),
    (["--tty=yes"], ["--tty"]),
    (["--keep", "/tmp/x"], ["--workspace"]),
], ids=" ".join)
def test_bad_option(run, options, words):
    refused(run(*options, "--", "echo", "ran"), *words)


def test_missing_argument(run):
    refused(run("--memory", record=False), "--memory")


def test_no_command(run):
    refused(run(), "command")
    refused(run("--"), "command")


def test_unknown_verb(who):
    result = harness.verb(who, "rnu")
    assert result.status == 125 and result.out == b"" and "rnu" in result.errors


def test_missing_command_leaves_nothing(run):
    refused(run("--quiet", "--", "/no/such/command"), "/no/such/command", statuses=(127,))


def test_hostile_words_are_escaped(run):
    """What was typed is shown in a form that does not act on the terminal."""
    evil = "\x1b]0;owned\x07\nstockade: all is well"
    for options in (["--profile", evil], ["--ro", "/" + evil], ["--set", f"{evil}=1"], ["--memory", evil], [f"--{evil}"],
                    ["--cwd", evil], ["--root", evil], ["--accept-missing", evil]):
        result = run(*options, "--", "true")
        assert result.status == 125 and b"\x1b" not in result.err and b"\x07" not in result.err, options
        assert len(result.err.splitlines()) <= 2, options


def test_very_long_words(run):
    for options in (["--profile", "x" * 100_000], ["--ro", "/" + "y" * 100_000], ["--env", "A" * 100_000]):
        result = run(*options, "--", "true")
        assert result.status == 125 and len(result.err) < 5000


def test_too_many_options(run):
    result = run(*["--env", "A=1"] * 5000, "--", "true")
    refused(result, "--env")


def test_long_arguments_and_environment(run):
    """Within the kernel's limits everything goes through."""
    words = ["x" * 100_000] * 5
    assert run("--env", "BIG=" + "y" * 60_000, "--", "sh", "-c", 'echo $# ${#1} ${#BIG}', "sh", *words).ok() == \
        "5 100000 60000\n"


def test_record_of_a_refusal(who, place):
    """If there is a record of a run that did not start, it is a true one."""
    path = place / "record"
    result = harness.run(who, "--record", path, "--memory", "-1", "--", "true", record=False)
    record = harness.read_record(path)
    assert result.status == 125
    if record is not None:
        assert record["status"] == 125 and record["reason"] == "failed" and record["exit_code"] is None
        start = datetime.datetime.fromisoformat(record["start"].replace("Z", "+00:00")).timestamp()
        assert abs(start - time.time()) < 60, record["start"]


def test_nothing_is_made(run, who, place):
    """A refused run does not make the files that it was going to write."""
    names = sorted(os.listdir(place))
    run("--workspace", place, "--keep", place / "x.tar", "--memory", "-1", "--", "true")
    assert sorted(os.listdir(place)) == names
