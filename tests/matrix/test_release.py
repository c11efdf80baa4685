"""A release build has no switch; a test build cannot be mistaken for one.

STOCKADE                   the launcher of the release build (default: build/src/cli/stockade)
STOCKADE_KNOCKOUT_BUILD    the folder of the test build (default: build-knockout)
"""
import json
import os
import subprocess
from pathlib import Path

import pytest
import rule
import throwaway

SOURCE = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("STOCKADE", SOURCE / "build/src/cli/stockade")).resolve().parents[2]
TEST = Path(os.environ.get("STOCKADE_KNOCKOUT_BUILD", SOURCE / "build-knockout")).resolve()
SWITCH = b"STOCKADE_KNOCKOUT"
EVERYTHING = ",".join(rule.LAYERS)


@pytest.fixture(scope="module", autouse=True)
def no_cgroups_stay():
    yield
    throwaway.tidy()


def run(build, words, caller="root", off=""):
    return throwaway.run(caller, build, words, off)


def verdicts(build, off):
    """What the judge finds, by check. Only it may start the attacker."""
    done = run(build, ["verify", "--quick", "--json"], off=off)
    assert done.stdout.startswith(b"{"), done
    return {check["name"]: (check["verdict"], check["errno"])
            for group in json.loads(done.stdout)["groups"] for check in group["checks"]}


@pytest.mark.parametrize("name", throwaway.PROGRAMS)
def test_the_release_does_not_know_the_switch(name):
    path = RELEASE / "src" / name
    assert SWITCH not in path.read_bytes()
    assert b"TEST BUILD" not in path.read_bytes()


@pytest.mark.parametrize("name", ["cli/stockade", "cli/stockade-guest", "gate/stockade-gate"])
def test_the_test_build_does(name):
    assert SWITCH in (TEST / "src" / name).read_bytes()


def test_the_variable_changes_nothing_in_a_release():
    assert verdicts(RELEASE, EVERYTHING) == verdicts(RELEASE, "")


def test_and_much_in_a_test_build():
    opened = [name for name, (verdict, _) in verdicts(TEST, "seccomp").items() if verdict == "open"]
    assert len(opened) > 20, opened


@pytest.mark.parametrize("layer", rule.LAYERS)
def test_a_test_build_says_what_is_off(layer):
    done = run(TEST, ["run", "--quiet", "--", "/bin/true"], off=layer)
    assert done.returncode == 0, done
    assert f"TEST BUILD: layer {layer} is off".encode() in done.stderr


def test_a_test_build_says_that_it_is_one():
    assert b"TEST BUILD" in run(TEST, ["run", "--quiet", "--", "/bin/true"]).stderr
    assert b"TEST BUILD" in run(TEST, ["--version"]).stdout
    assert b"TEST BUILD" not in run(RELEASE, ["--version"]).stdout


@pytest.mark.parametrize("off", ["secomp", "kernel", "seccomp,", "seccomp, ids", ",", "SECCOMP"])
def test_a_name_that_is_no_layer(off):
    done = run(TEST, ["run", "--quiet", "--", "/bin/true"], off=off)
    assert done.returncode == 125
    assert b"there is no layer" in done.stderr


def test_a_test_build_cannot_be_installed(tmp_path):
    done = subprocess.run(["meson", "install", "--no-rebuild", "-C", TEST, "--destdir", tmp_path], capture_output=True,
                          timeout=300, check=False)
    assert done.returncode != 0
    assert b"TEST BUILD" in done.stderr + done.stdout
    assert not [path for path in tmp_path.rglob("stockade*") if path.is_file()]
