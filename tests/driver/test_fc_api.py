"""What we ask Firecracker, held against its published description where there is one, and against what we have of it."""
import os
import subprocess
import sys

import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), "../warden"))
import fc_described  # noqa: E402
import fc_standin  # noqa: E402
import plans  # noqa: E402

DESCRIBED = "machine boot drive link vsock entropy".split()


@pytest.fixture(scope="module", params=[*filter(None, [fc_described.FOUND]), "ours"])
def description(request):
    return fc_standin.Description(None if request.param == "ours" else request.param)


@pytest.fixture
def standin(description, tmp_path):
    with fc_standin.Standin(tmp_path / "api", description) as s:
        s.path = tmp_path / "api"
        yield s


def ask(standin, *questions):
    done = subprocess.run([plans.BUILD / "tests/driver/fc-ask", standin.path, *questions], stdout=subprocess.PIPE, text=True,
                          timeout=60, check=True)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_a_whole_life(standin):
    said = ask(standin, *DESCRIBED, "start", "pause", "save", "resume")
    assert said.pop("open") == standin.description.version
    assert set(said.values()) == {"done"}, said
    assert standin.state == "Running"
    assert standin.asked == ["GET /", "PUT /machine-config", "PUT /boot-source", "PUT /drives/disk",
                             "PUT /network-interfaces/link", "PUT /vsock", "PUT /entropy", "PUT /actions", "PATCH /vm",
                             "PUT /snapshot/create", "PATCH /vm"]


@pytest.mark.parametrize("question, state", [("load", "Paused"), ("load-and-run", "Running")])
def test_a_life_brought_back(standin, question, state):
    assert ask(standin, question)[question] == "done"
    assert standin.state == state


def test_a_running_machine_is_not_taken_over(standin):
    ask(standin, "boot", "start")
    done = subprocess.run([plans.BUILD / "tests/driver/fc-ask", standin.path], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "has a machine already" in done.stdout


@pytest.mark.parametrize("question, before, fault", [
    ("machine", ["boot", "start", "forget"], "the machine has started"),
    ("vsock", ["boot", "start", "forget"], "the machine has started"),
    ("start", ["boot", "start", "forget", "machine"], "was told nothing yet"),
    ("load", ["machine", "forget"], "this process was told something already"),
    ("save", ["boot", "start", "pretend-paused"], "the machine is not paused"),
    ("pause", ["pretend-running"], "there is no machine"),
])
def test_what_is_out_of_turn_is_refused(standin, question, before, fault):
    """Also where our own judgement of it is switched off."""
    assert fault in ask(standin, *before, question)[question]


@pytest.mark.parametrize("path, body, fault", [
    ("/machine-config", {"vcpu_count": 1}, "lacks ['mem_size_mib']"),
    ("/machine-config", {"vcpu_count": 33, "mem_size_mib": 128}, "out of range"),
    ("/machine-config", {"vcpu_count": True, "mem_size_mib": 128}, "not a whole number"),
    ("/machine-config", {"vcpu_count": 1, "mem_size_mib": 128, "kvm": True}, "not described"),
    ("/vsock", {"guest_cid": 2, "uds_path": "/v"}, "out of range"),
    ("/drives/a", {"drive_id": "a", "is_root_device": False, "cache_type": "None"}, "is none of"),
    ("/actions", {"action_type": "Halt"}, "is none of"),
    ("/snapshot/load", {"snapshot_path": "/s", "mem_backend": {"backend_type": "File"}}, "lacks ['backend_path']"),
])
def test_the_checker_sees_what_is_wrong(description, path, body, fault):
    operation, _ = description.operation("PUT", path)
    with pytest.raises(fc_standin.Wrong) as wrong:
        description.check(description.body_schema(operation), body)
    assert fault in str(wrong.value)


def test_what_is_not_described_is_refused(description):
    for method, path in [("POST", "/vm"), ("PUT", "/drives/a/b"), ("PUT", "/machine-config/"), ("GET", "/vsock")]:
        with pytest.raises(fc_standin.Wrong):
            description.operation(method, path)


def test_what_we_have_of_it_is_in_it(description):
    """Field by field. Where there is no other description this compares it with itself."""
    for path, methods in fc_described.OURS["paths"].items():
        for method, ours in methods.items():
            published, _ = description.operation(method.upper(), path.replace("{", "").replace("}", ""))
            assert ours["summary"] in published["summary"]
            if "parameters" in ours:
                compare(description, ours["parameters"][0]["schema"], description.body_schema(published))


def compare(description, ours, published):
    if "$ref" in published:
        published = description.text["definitions"][published["$ref"].removeprefix("#/definitions/")]
    assert {key: ours.get(key) for key in ("type", "enum", "minimum", "maximum")} == \
        {key: published.get(key) for key in ("type", "enum", "minimum", "maximum")}
    assert sorted(ours.get("required", [])) == sorted(published.get("required", []))
    for name, field in ours.get("properties", {}).items():
        compare(description, field, published["properties"][name])
