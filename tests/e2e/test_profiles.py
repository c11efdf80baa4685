"""Profiles by name and path, what is said about them, and a plan cache that never serves yesterday's profile."""
import json
import os
import re

import pytest

import harness


@pytest.fixture
def profiles(who, place):
    """Two folders in the search path, the first one wins."""
    for name in ("first", "second"):
        (place / name).mkdir()
        os.chown(place / name, who.uid, who.gid)

    class Profiles:
        env = {"STOCKADE_PROFILES": f"{place}/first:{place}/second"}

        @staticmethod
        def write(text, folder="second", name="mine"):
            path = place / folder / f"{name}.yaml"
            path.write_text("profile: 1\n" + text)
            return path
    return Profiles()


def limit(who, env, *options, profile="mine"):
    result = harness.run(who, "--profile", profile, *options, "--", "sh", "-c", "ulimit -n; echo $WHO", env=env)
    return result.text.split() if result.status == 0 else result


def test_list(who):
    listed = {entry["name"] for entry in json.loads(harness.verb(who, "profile", "list", "--json").ok())}
    assert {"low", "medium", "high"} <= listed
    assert "low" in harness.verb(who, "profile", "list").ok()


@pytest.mark.parametrize("tier", ["low", "medium", "high"])
def test_tiers(who, tier):
    show = json.loads(harness.verb(who, "profile", "show", "--json", tier).ok())
    assert show["name"] == tier and show["policy"]["limits"]["memory"]
    assert harness.verb(who, "profile", "check", tier).status == 0
    text = harness.verb(who, "profile", "explain", tier).ok()
    for words in ("read", "write", "execute|run", "network", "memory", "process"):
        assert re.search(words, text.lower()), words


def test_show_is_a_profile(who, place):
    """What `show` prints is a profile again, with the same meaning."""
    path = place / "again.yaml"
    path.write_text(harness.verb(who, "profile", "show", "low").ok())
    assert json.loads(harness.verb(who, "profile", "show", "--json", path).ok())["policy"] == \
        json.loads(harness.verb(who, "profile", "show", "--json", "low").ok())["policy"]


def test_check_says_what_is_wrong(who, profiles):
    path = profiles.write("extends: low\nlimits: {memry: 1GiB}\n")
    result = harness.verb(who, "profile", "check", path)
    assert result.status != 0 and f"{path}:3:10" in result.text + result.errors


def test_extends_and_units(who, profiles):
    profiles.write("extends: low\nlimits: {files: 222, memory: 100MiB}\nenv: {WHO: child}\n")
    assert limit(who, profiles.env) == ["222", "child"]


def test_changed_profile_takes_effect_at_once(who, profiles):
    for n in (100, 101, 102, 101):
        path = profiles.write(f"extends: low\nlimits: {{files: {n}}}\n")
        os.utime(path, (1, 1))  # neither size nor time tell
        assert limit(who, profiles.env) == [str(n)]


def test_changed_parent_takes_effect_at_once(who, profiles):
    profiles.write("extends: parent\n")
    for n in (100, 103, 100):
        profiles.write(f"extends: low\nlimits: {{files: {n}}}\n", name="parent")
        assert limit(who, profiles.env) == [str(n)]


def test_profile_that_appears_earlier_wins_at_once(who, profiles):
    profiles.write("extends: low\nlimits: {files: 100}\n", "second")
    assert limit(who, profiles.env) == ["100"]
    path = profiles.write("extends: low\nlimits: {files: 50}\n", "first")
    assert limit(who, profiles.env) == ["50"]
    path.unlink()
    assert limit(who, profiles.env) == ["100"]


def test_profile_that_went_is_gone_at_once(who, profiles):
    path = profiles.write("extends: low\n")
    harness.run(who, "--profile", "mine", "--", "true", env=profiles.env).ok()
    path.unlink()
    assert harness.run(who, "--profile", "mine", "--", "true", env=profiles.env).status == 125


def test_profile_that_became_a_link_is_refused_at_once(who, profiles):
    path = profiles.write("extends: low\n")
    harness.run(who, "--profile", "mine", "--", "true", env=profiles.env).ok()
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert harness.run(who, "--profile", "mine", "--", "true", env=profiles.env).status == 125


def cache_of(who):
    return "/var/cache/stockade/plans" if who.name == "root" else who.home / ".cache/stockade/plans"


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "zeros", "other"])
def test_damaged_cache_entry_is_ignored(who, profiles, damage):
    """A cache entry that does not read well is made anew; it never runs, and never ends the run."""
    profiles.write("extends: low\nlimits: {files: 77}\n")
    folder = cache_of(who)
    before = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    assert limit(who, profiles.env) == ["77"]
    new = set(os.listdir(folder)) - before
    assert len(new) == 1
    path = os.path.join(folder, new.pop())
    with open(path, "r+b") as file:
        data = file.read()
        middle = len(data) // 2
        file.seek(0)
        file.truncate()
        file.write({"empty": b"", "short": data[:middle], "zeros": bytes(len(data)), "other": b"#!/bin/sh\n",
                    "flipped": data[:middle] + bytes([data[middle] ^ 0xff]) + data[middle + 1:]}[damage])
    assert limit(who, profiles.env) == ["77"]


@pytest.mark.parametrize("who", ["rootless"], indirect=True)  # root's cache has a fixed place
def test_cache_of_others_is_not_trusted(who, profiles):
    """A cache folder that others can write to is not used."""
    profiles.write("extends: low\nlimits: {files: 55}\n")
    loose = who.folder("cache")
    os.makedirs(loose / "stockade/plans")
    for path in (loose / "stockade", loose / "stockade/plans"):
        os.chown(path, who.uid, who.gid)
        os.chmod(path, 0o777)
    assert limit(who, {**profiles.env, "XDG_CACHE_HOME": str(loose)}) == ["55"]
    assert os.listdir(loose / "stockade/plans") == []


def test_no_cache_at_all(who, profiles):
    profiles.write("extends: low\nlimits: {files: 56}\n")
    assert limit(who, {**profiles.env, "HOME": "/nonexistent"}) == ["56"]


def test_plan_prints_and_runs_nothing(run, place):
    result = run("--rw", place, "--plan", "--", "touch", f"{place}/ran")
    assert result.status == 0 and not (place / "ran").exists() and result.record is None
    for word in ("landlock", "seccomp", "pivot", "limits.memory", str(place)):
        assert word in result.text


def test_plan_as_json(run):
    plan = json.loads(run("--plan", "--json", "--", "true").ok())
    ops = [step["op"] for step in plan["steps"]]
    assert plan["policy_hash"] and ops.index("pivot") < ops.index("no-new-privs") < ops.index("seccomp") < ops.index("exec")


def test_plan_and_run_are_the_same_policy(run):
    plan = json.loads(run("--plan", "--json", "--memory", "123MiB", "--", "true").ok())
    assert run("--memory", "123MiB", "--", "true").record["policy_hash"] == plan["policy_hash"]


@pytest.mark.parametrize("option", [["--memory", "1GiB"], ["--set", "limits.processes=500"], ["--timeout", "2h"],
                                    ["--set", "files.read=/usr,/etc"], ["--set", "tools.exec=/usr,/tmp"]])
def test_sealed_parent_cannot_be_widened(who, profiles, option):
    profiles.write("extends: low\nsealed: true\n", name="sealed")
    profiles.write("extends: sealed\n")
    result = harness.run(who, "--profile", "mine", *option, "--", "echo", "ran", env=profiles.env)
    assert result.status == 125 and result.out == b"" and "sealed" in result.errors


def test_sealed_parent_can_be_narrowed(who, profiles):
    profiles.write("extends: low\nsealed: true\n", name="sealed")
    profiles.write("extends: sealed\nlimits: {files: 99}\n")
    assert limit(who, profiles.env, "--memory", "64MiB", "--timeout", "5s") == ["99"]


def test_sealed_parent_and_shares(who, profiles, place):
    """A share on the command line is more than the sealed parent gave."""
    profiles.write("extends: low\nsealed: true\n", name="sealed")
    for option in ("--ro", "--rw"):
        result = harness.run(who, "--profile", "sealed", option, place, "--", "echo", "ran", env=profiles.env)
        assert result.status == 125 and result.out == b"", option


def test_tier_cannot_be_replaced_by_a_user(who, profiles):
    profiles.write("limits: {files: 33}\nfiles: {read: [/usr]}\n", "first", "low")
    assert limit(who, profiles.env, profile="low") == ["1024"]
