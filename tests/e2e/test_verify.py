"""`stockade verify`: the command as an operator uses it. What it tries is tested by tests/adversary and tests/matrix."""
import html.parser
import json
import os
import re
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import harness

pytestmark = pytest.mark.long
WORK = {}


def verify(person, *args, timeout=240):
    return harness.verb(person, "verify", *args, timeout=timeout)


# whole reports take half a minute each: `make check` has those of the lowest tier, `make check-all` the rest
@pytest.fixture(params=["medium"] if os.environ.get("STOCKADE_CHECK") == "all" else ["low"])
def full(who, request):
    """One whole report for each person and profile, with its page."""
    key = (who.name, request.param)
    if key not in WORK:
        page = who.folder() / "report.html"
        result = verify(who, "--profile", request.param, "--json", "--report", page)
        WORK[key] = result.status, json.loads(result.out), page.read_text(), result.errors
    return WORK[key]


def checks_of(report):
    return {check["name"]: check for group in report["groups"] for check in group["checks"]}


def test_nothing_is_open(full):
    status, report, _, errors = full
    opened = {name: check["seen"] for name, check in checks_of(report).items() if check["verdict"] == "open"}
    assert not opened and status == 0 and report["good"], (opened, report["host_state"], errors)
    assert report["tally"]["checks"] >= 90
    assert {group["name"] for group in report["groups"]} == {"files", "network", "processes", "exhaustion", "state"}
    assert all(group["tally"]["promised"] >= 5 for group in report["groups"])


def test_little_is_left_untried(full):
    """A check that cannot be tried is no proof: few of them, each with a reason."""
    _, report, _, _ = full
    untried = {name: check["why"] for name, check in checks_of(report).items() if check["verdict"] == "untried"}
    assert all(untried.values()) and len(untried) <= 12, untried


def test_refusals_are_as_promised(full):
    _, report, _, _ = full
    otherwise = {name: (check["errno"], check["why"]) for name, check in checks_of(report).items()
                 if check["verdict"] == "otherwise"}
    assert not otherwise


def test_the_kernel_was_asked(full):
    """Most answers of the common attempts were read from the kernel by the judge, not from the probe."""
    _, report, _, _ = full
    assert report["tally"]["witnessed"] >= 100, report["tally"]


def test_controls_were_shown(full):
    _, report, _, _ = full
    assert report["tally"]["control_shown"] >= 90, report["tally"]


def test_host_is_unchanged(full):
    _, report, _, _ = full
    assert not report["host_state"]["differences"], report["host_state"]["differences"]


def test_limits_are_named(who, full):
    """Where a machine is so busy that something could not be tried, it is tried again."""
    _, report, _, _ = full
    for name in ("limit-cpu", "limit-memory", "limit-disk", "limit-time", "limit-processes", "limit-output"):
        check = checks_of(report)[name]
        for _ in range(5):
            if check["verdict"] == "untried":
                check = checks_of(json.loads(verify(who, "--profile", report["profile"]["name"], "--only", name, "--json").out))[name]
        assert check["verdict"] == "promised", check


def test_two_records_are_kept(full):
    _, report, _, _ = full
    for kind in ("allowed", "blocked"):
        kept = report["records"][kind]
        assert json.loads(Path(kept["path"]).read_text()) == kept["record"]
    assert report["records"]["allowed"]["record"]["status"] == 0
    assert report["records"]["blocked"]["record"]["denials"], "nothing was blocked"


class Page(html.parser.HTMLParser):
    """What a page loads, and how its tags nest."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads, self.text = set(), [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]

    def handle_data(self, data):
        self.text += data


def test_page_stands_alone(full):
    _, report, text, _ = full
    page = Page()
    page.feed(text)
    assert all(value.startswith("#") for value in page.loads), page.loads
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "form"}
    assert "default-src 'none'" in text
    for name in checks_of(report):
        assert name in page.text
    assert report["host"]["kernel"] in page.text


def test_quick_is_a_part(who):
    result = verify(who, "--quick", "--json")
    report = json.loads(result.out)
    assert result.status == 0 and report["tally"]["open"] == 0 and report["tally"]["checks"] >= 90


def test_self_test(who):
    result = verify(who, "--self-test", "--json")
    report = json.loads(result.out)
    assert result.status == 0 and 20 <= report["tally"]["checks"] <= 80 and report["good"]


def test_doctor_offers_what_passed(who):
    facts = {fact["name"]: fact for fact in json.loads(harness.verb(who, "doctor", "--json").out)["facts"]}
    assert facts["native"]["state"] == "ok" and "attacks" in facts["native"]["detail"]


def test_doctor_offers_nothing_without_a_judge(root):
    """A driver whose self-test cannot be made is not offered."""
    folder = root.folder()
    for name in ("stockade", "stockade-policy", "stockade-guest", "stockade-gate"):
        source = root.suite.launcher.with_name(name)
        if source.exists():
            os.link(source, folder / name) if os.stat(source).st_dev == os.stat(folder).st_dev else \
                subprocess.run(["cp", source, folder / name], check=True)
    process = root.popen([folder / "stockade", "doctor", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, _ = process.communicate(timeout=60)
    facts = {fact["name"]: fact for fact in json.loads(out)["facts"]}
    assert facts["native"]["state"] == "missing" and "not offered" in facts["native"]["detail"]
    assert process.returncode == 1


def test_list(who):
    rows = json.loads(verify(who, "--list", "--json").out)
    assert len(rows) == len({row["name"] for row in rows}) >= 90
    for row in rows:
        assert row["does"] and row["layers"] and (row["note"] or row["control"] not in ("none", "other")), row
    assert f"{len(rows)} checks." in verify(who, "--list").ok()


@pytest.mark.parametrize("args, words", [
    (["--driver", "cardboard"], "no driver"), (["--driver"], "needs a value"), (["--only", "no-such-check"], "no check"),
    (["--nonsense"], "unknown option"), (["--profile", "/nonexistent.yaml"], "nonexistent"), (["--quick=yes"], "no value"),
    (["--quick", "--self-test"], "two different"), (["--probe-at", "/x"], "--against"), (["extra"], "unknown option"),
    (["--report", "/nonexistent/report.html"], "nonexistent"), (["--self-test", "--report", "x"], "report")])
def test_wrong_use(who, args, words):
    begin = harness.processor_time()
    result = verify(who, *args)
    assert result.status == 125 and words in result.errors, result
    assert harness.processor_time() - begin < 2 * harness.SLOW, "said after the long work"


def test_only(who):
    report = json.loads(verify(who, "--only", "core-pattern,tcp-v4", "--json").out)
    made = {name for name, check in checks_of(report).items() if check["verdict"] == "promised"}
    assert made == {"core-pattern", "tcp-v4"}


def test_probe_does_nothing_by_itself(who):
    """The attack binary refuses to run for anybody but a judge."""
    probe = Path(re.search(r'"probe":"([^"]+)"', verify(who, "--self-test", "--json").out.decode())[1])
    for args in ([], ["core-pattern"], ["all-quick"], ["fork-bomb"], ["all-quick", "control=yes"], ["memory-bomb", "control=yes"],
                 ["fork-bomb", "host-pidns=1", "control=yes"],
                 ["fork-bomb", f"host-pidns={os.stat('/proc/self/ns/pid').st_ino}", "control=yes"]):
        process = who.popen([probe, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 2 or b'"guarded"' in out, (args, out, err)
        assert b'"done"' not in out and b'"refused"' not in out, (args, out)


def owner(path):
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def planted(person):
    """Files of judges of this person, in all the places where they plant any."""
    return {os.path.join(place, name) for place in ("/tmp", "/var/tmp", "/run", "/root", "/home", str(person.home)) if os.path.isdir(place)
            for name in os.listdir(place) if name.startswith("stockade-verify-") and owner(f"{place}/{name}") == person.uid}


def test_killed_judge_leaves_nothing(who):
    """kill -9 in the middle: what it started is gone, and what it planted is removed by the next."""
    before = planted(who)
    process = who.popen([who.suite.launcher, "verify", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        start_new_session=True)
    assert harness.until(lambda: planted(who) - before), "nothing was planted"
    time.sleep(1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert verify(who, "--self-test").status == 0
    assert harness.until(lambda: not planted(who) - before), planted(who) - before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_told_to_end(who, number):
    """A judge that is interrupted takes everything with it at once."""
    before = planted(who)
    process = who.popen([who.suite.launcher, "verify"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        start_new_session=True)
    assert harness.until(lambda: planted(who) - before), "nothing was planted"
    time.sleep(0.5)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert not planted(who) - before


def test_full_output_is_an_error(root):
    with open("/dev/full", "wb") as full:
        process = root.popen([root.suite.launcher, "verify", "--self-test"], stdout=full, stderr=subprocess.PIPE)
        assert b"standard output" in process.communicate(timeout=60)[1] and process.returncode == 125


def test_others_cannot_reach_what_root_writes_to(root):
    """Controls write as root without a sandbox: where they do, no other user can plant a link or swap a file."""
    before, seen = planted(root), []
    process = root.popen([root.suite.launcher, "verify", "--quick"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        for folder in planted(root) - before:
            try:
                if stat.S_ISDIR(os.lstat(folder).st_mode):
                    seen.append((os.lstat(folder).st_mode & 0o777, os.lstat(f"{folder}/closed").st_mode & 0o777,
                                 sorted(os.listdir(f"{folder}/closed"))))
            except OSError:
                pass
        time.sleep(0.02)
    assert process.returncode == 0 and ["setid", "share"] in [names for _, _, names in seen], seen[-1:]
    assert {(outer, inner) for outer, inner, _ in seen} == {(0o700, 0o700)}


def test_marks_of_others_are_not_believed(root, user):
    """A process of somebody else that has the judge's number among its arguments is not touched."""
    before, bystander = planted(root), None
    process = root.popen([root.suite.launcher, "verify", "--only", "tcp-v4,find-sibling"], stdout=subprocess.PIPE)
    while process.poll() is None and not bystander:
        for folder in planted(root) - before:
            bystander = user.popen([harness.PYTHON, "-ISc", "import time; time.sleep(60)",
                                    folder.rsplit("-", 1)[1].split(".")[0], "sibling"])
            break
        time.sleep(0.01)
    try:
        said = process.communicate(timeout=100 * harness.SLOW)[0]
        assert process.returncode == 0 and bystander, said
        assert bystander.poll() is None, "root's judge killed somebody else's process"
    finally:
        harness.stop(bystander)


def fake(person, body):
    """Another maker's sandbox, made of a few lines."""
    path = person.folder() / "fake"
    path.write_text(f"#!{harness.PYTHON} -IS\nimport sys, os, json, subprocess\nnames = sys.argv[2].split(',')\n{body}")
    path.chmod(0o755)
    return verify(person, "--quick", "--json", "--against", str(path))


def test_a_silent_sandbox_is_not_good(root):
    """Reached listeners count also when the probe's words are lost, and a probe that says little is no proof."""
    result = fake(root, "inner = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stdin=0)\n"
                        "for line in inner.stdout:\n"
                        "    if b'tcp-' not in line: print(line.decode(), end='', flush=True)\n")
    report = json.loads(result.out)
    checks = checks_of(report)
    assert result.status == 1 and checks["tcp-v4"]["verdict"] == "open" and "listener" in checks["tcp-v4"]["seen"]
    result = fake(root, "print('ready'); print('here', flush=True); sys.stdin.read(1)\n"
                        "for name in names[:4]: print(json.dumps({'name': name, 'result': 'refused', 'errno': 'EPERM', "
                        "'evidence': ''}))\n")
    assert result.status in (1, 125), result


def test_refusals_of_another_kind_are_not_promised(root):
    """EEXIST is no refusal: a sandbox that answers anything is not believed."""
    result = fake(root, "print('ready'); print('here', flush=True); sys.stdin.read(1)\n"
                        "for name in names: print(json.dumps({'name': name, 'result': 'refused', 'errno': 'EEXIST', "
                        "'evidence': ''}))\n")
    if result.status != 125:
        report = json.loads(result.out)
        assert report["tally"]["promised"] < 20 and report["tally"]["witnessed"] == 0


def test_profile_high(root):
    """What that profile shows on purpose is no hole, and what it does not is none either."""
    result = verify(root, "--profile", "high", "--quick", "--json")
    report = json.loads(result.out)
    scenes = {row["name"] for row in json.loads(verify(root, "--list", "--json").out) if row["scene"]}
    opened = {name: check["seen"] for name, check in checks_of(report).items() if check["verdict"] == "open"}
    assert not set(opened) - scenes and report["tally"]["permitted"] >= 4, opened


def test_named_profiles_of_the_caller(who):
    folder = who.folder()
    (folder / "mine.yaml").write_text("profile: 1\nname: mine\nextends: low\n")
    result = harness.verb(who, "verify", "--profile", "mine", "--self-test", env={"STOCKADE_PROFILES": str(folder)})
    assert result.status == 0, result


def test_programs_are_not_taken_from_folders_beside(root):
    """Only a build has its programs in neighbouring folders: elsewhere a sandbox may be allowed to write there."""
    folder = root.folder()
    for name in ("bin", "verify", "cli"):
        (folder / name).mkdir()
    for name in ("stockade", "stockade-policy", "stockade-guest"):
        subprocess.run(["cp", root.suite.launcher.with_name(name), folder / "bin" / name], check=True)
    for name in ("verify/stockade-verify", "cli/stockade-verify"):
        (folder / name).write_text("#!/bin/sh\necho planted\n")
        (folder / name).chmod(0o755)
    process = root.popen([folder / "bin/stockade", "verify", "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 125 and b"planted" not in out and b"cannot find our program" in err
