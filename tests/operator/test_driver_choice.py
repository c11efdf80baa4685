"""Which driver a sandbox gets: what is asked for, what its policy needs, what is declared, what probes say.

The probes here are scripts that say what a test needs; tests/driver has the real ones."""
import json

import pytest

from harness import Refused

KEPT = ["process", "files", "quota", "network", "cpu", "memory", "io", "processes", "exec", "secrets", "snapshots", "freeze"]


def said(driver, offered=True, why="", fix="", **lacks):
    return json.dumps({"driver": driver, "offered": offered, "version": "1", "why": why, "fix": fix,
                       "guarantees": {name: lacks.get(name, "kept") for name in KEPT}})


@pytest.fixture
def probe(suite):
    """probe("gvisor", text, status=0): what its program prints; without a text there is none. The real ones come back."""
    made = []

    def put(driver, text=None, status=0):
        path = suite.programs.folder / f"stockade-box-{driver}"
        made.append((path, path.read_bytes() if path.exists() else None))
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
            path.chmod(0o755)
    yield put
    for path, real in reversed(made):
        path.unlink(missing_ok=True)
        if real is not None:
            path.write_bytes(real)
            path.chmod(0o755)


def refused(client, **how):
    with pytest.raises(Refused) as e:
        client.create(**how)
    return e.value


def test_native_unless_somebody_asks(client):
    made = client.create(profile="low")
    assert (made["driver"], made["driver_why"]) == ("native", "the first of this operator")
    made = client.create(profile="low", driver="native")
    assert (made["driver"], made["driver_why"]) == ("native", "it was asked for")
    made = client.create(profile="low", set={"isolation.prefer": "gvisor,native"})
    assert (made["driver"], made["driver_why"]) == ("native", "the policy prefers it")


def test_why_it_is_this_one_outlives_the_operator(daemon, client):
    made = client.create(profile="low", driver="native")["id"]
    other = client.create(profile="medium")["id"]
    client.ask("stop", sandbox=other)
    daemon.kill_operator()
    assert client.ask("show", sandbox=made)["driver_why"] == "it was asked for"
    assert client.ask("show", sandbox=other)["driver_why"] == "the first of this operator"
    client.ask("resume", sandbox=other, driver="native")
    daemon.kill_all()
    assert client.ask("show", sandbox=other)["driver_why"] == "it was asked for"


def test_what_is_not_there(client):
    e = refused(client, profile="low", driver="cardboard")
    assert e.code == "bad_request" and "cardboard" in e.message and "microvm" in e.hint
    e = refused(client, profile="low", driver="gvisor")
    assert e.code == "unenforced" and "not offered here" in e.message and "'drivers' in stockade.conf" in e.hint
    e = refused(client, profile="low", set={"isolation.at_least": "microvm"})
    assert "isolation.at_least: microvm" in e.message and "nearest is native (container)" in e.message, e.message


def test_declared_and_not_installed(make_daemon, probe):
    probe("gvisor")
    client = make_daemon(conf="drivers = native gvisor\n").client
    e = refused(client, profile="low", driver="gvisor")
    assert e.code == "unenforced" and "does not work on this host: its program is not installed" in e.message
    assert "stockade doctor" in e.hint
    assert client.create(profile="low")["driver"] == "native"


def test_a_probe_that_objects(make_daemon, probe):
    probe("gvisor", said("gvisor", offered=False, why="runsc is too old", fix="apt-get install runsc"))
    probe("microvm", said("microvm", exec="a virtual machine has its own loader"))
    client = make_daemon(conf="drivers = native gvisor microvm\n").client
    e = refused(client, profile="low", driver="gvisor")
    assert "runsc is too old" in e.message and e.hint == "apt-get install runsc"
    e = refused(client, profile="low", set={"isolation.at_least": "microvm"})  # low has tools.exec
    assert "microvm cannot enforce" in e.message and "(exec): a virtual machine has its own loader" in e.message, e.message
    e = refused(client, profile="low", driver="native", set={"isolation.at_least": "gvisor"})
    assert "native is weaker than isolation.at_least: gvisor" in e.message


def test_the_nearest_is_named(make_daemon, probe):
    probe("gvisor", said("gvisor"))
    client = make_daemon(conf="drivers = native gvisor\n").client
    e = refused(client, profile="low", set={"isolation.at_least": "microvm"})
    assert "isolation.at_least: microvm; the nearest is gvisor (gvisor)" in e.message, e.message
    e = refused(client, profile="low", set={"isolation.at_least": "tee"})
    assert "the nearest is gvisor" in e.message


@pytest.mark.parametrize("text,status", [("{", 0), ("nonsense", 0), ('{"driver": "gvisor"}', 0), (said("gvisor"), 1), ("", 0)])
def test_a_probe_that_cannot_be_understood(make_daemon, probe, text, status):
    probe("gvisor", text, status)
    client = make_daemon(conf="drivers = native gvisor\n").client
    e = refused(client, profile="low", driver="gvisor")
    assert e.code == "unenforced" and "does not work on this host" in e.message, e.message
    assert client.create(profile="low")["driver"] == "native"


def test_moving_and_forking(client):
    box = client.create(profile="medium")["id"]
    assert client.ask("fork", sandbox=box)["driver"] == "native"
    client.ask("stop", sandbox=box)
    with pytest.raises(Refused) as e:
        client.ask("resume", sandbox=box, driver="gvisor")
    assert "not offered here" in e.value.message
    assert client.ask("show", sandbox=box)["state"] == "stopped"
    assert client.ask("resume", sandbox=box, driver="native")["driver"] == "native"


@pytest.mark.parametrize("line", ["drivers = native native", "drivers = cardboard", "drivers ="])
def test_configuration(make_daemon, line):
    daemon = make_daemon(start=False, conf=line + "\n")
    with pytest.raises(AssertionError):
        daemon.start()
    assert "drivers" in daemon.said()
