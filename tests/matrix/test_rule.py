"""The matrix's rule: what it must notice."""
import page
import rule
from rule import EVERY, FAILED, NONE, NOT_SHOWN, SHOWN, Row

ONE = Row("one", "files", frozenset(["seccomp"]), "user", True, False)
TWO = Row("two", "files", frozenset(["seccomp", "caps"]), "root", True, False)
BOTH, SECCOMP, CAPS = TWO.layers, frozenset(["seccomp"]), frozenset(["caps"])
GREEN, RED = ("promised", "EPERM"), ("open", "it worked")


def test_a_check_that_notices():
    assert rule.judge(ONE, "root", {NONE: GREEN, SECCOMP: RED})[0] == SHOWN
    assert rule.mark(ONE, "seccomp", {NONE: GREEN, SECCOMP: RED}) == "●"
    assert rule.mark(ONE, "caps", {NONE: GREEN, SECCOMP: RED}) == "·"


def test_a_check_that_stays_green_fails():
    for verdict in ("promised", "otherwise", "untried", "lost", "permitted"):
        assert rule.judge(ONE, "root", {NONE: GREEN, SECCOMP: (verdict, "")})[0] == FAILED, verdict
    assert rule.judge(ONE, "root", {NONE: GREEN})[0] == FAILED


def test_what_is_lost_fails():
    lost = ("lost", "no report")
    row = Row("x32", "processes", SECCOMP, "none", True, True)
    for caller in rule.ANYBODY:
        assert rule.judge(row, caller, {NONE: lost, SECCOMP: RED})[0] == FAILED
        assert rule.judge(row, caller, {NONE: GREEN, SECCOMP: lost, EVERY: GREEN})[0] == FAILED
        assert rule.judge(KERNEL, caller, {NONE: lost})[0] == FAILED


def test_open_with_everything_on_fails():
    assert rule.judge(ONE, "root", {NONE: RED, SECCOMP: RED})[0] == FAILED


def test_covered_twice():
    found = {NONE: GREEN, BOTH: RED, SECCOMP: GREEN, CAPS: RED}
    assert rule.judge(TWO, "root", found)[0] == SHOWN
    assert rule.twice(TWO, "root", found)
    assert (rule.mark(TWO, "seccomp", found), rule.mark(TWO, "caps", found)) == ("○", "●")
    assert not rule.twice(TWO, "root", {**found, BOTH: GREEN})
    assert not rule.twice(TWO, "root", {**found, SECCOMP: RED})
    assert not rule.twice(TWO, "root", {NONE: GREEN, BOTH: RED})  # nobody looked at one alone


def test_what_an_ordinary_user_cannot_do_anyway():
    found = {NONE: GREEN, BOTH: GREEN}
    assert rule.judge(TWO, "root", found)[0] == FAILED
    assert rule.judge(TWO, "rootless", found)[0] == NOT_SHOWN


def test_what_this_host_does_not_have():
    row = Row("x32", "processes", SECCOMP, "none", True, False)
    assert rule.judge(row, "root", {NONE: GREEN, SECCOMP: GREEN, EVERY: GREEN})[0] == NOT_SHOWN
    assert rule.judge(row, "root", {NONE: GREEN, SECCOMP: GREEN, EVERY: RED})[0] == FAILED
    assert rule.judge(ONE, "root", {NONE: GREEN, SECCOMP: GREEN, EVERY: GREEN})[0] == FAILED  # its control works here


def test_guarded_attempts():
    found = {NONE: GREEN, SECCOMP: ("untried", "not inside a sandbox of the judge: id 0 of the host is mapped here")}
    assert rule.judge(ONE, "root", found)[0] == NOT_SHOWN


def test_wanted():
    assert rule.wanted([ONE, TWO]) == {NONE: [ONE, TWO], SECCOMP: [ONE, TWO], BOTH: [TWO], CAPS: [TWO]}
    assert rule.wanted([ONE, TWO], singly=False) == {NONE: [ONE, TWO], SECCOMP: [ONE], BOTH: [TWO]}


def test_thin_keeps_every_layer():
    scene = Row("limit", "exhaustion", frozenset(["cgroup"]), "scene", False, False)
    other = Row("limit-too", "exhaustion", frozenset(["cgroup"]), "scene", False, False)
    assert rule.thin([ONE, scene, other]) == [ONE, scene]


KERNEL = Row("kernel", "processes", frozenset(), "none", True, True)


def test_a_judge_that_calls_everything_open_is_not_believed():
    assert rule.sentinels([ONE, KERNEL]) == [KERNEL]
    assert rule.believe({"one": RED, "kernel": GREEN}, [KERNEL])["one"] == RED
    for bad in (RED, ("untried", ""), ("lost", "")):
        assert rule.believe({"one": RED, "kernel": bad}, [KERNEL])["one"][0] == "lost"
    assert rule.believe({"one": RED}, [KERNEL])["one"][0] == "lost"
    deaf = ("open", "the listener does not answer: what arrived is not known")
    found = rule.believe({"one": deaf, "kernel": GREEN}, [KERNEL])
    assert rule.judge(ONE, "root", {NONE: GREEN, SECCOMP: found["one"]})[0] == FAILED


def test_what_no_switch_can_show():
    row = Row("seen-ids", "processes", frozenset(["ids"]), "scene", True, False)
    assert rule.judge(row, "rootless", {NONE: GREEN, row.layers: GREEN})[0] == NOT_SHOWN
    assert rule.judge(row, "root", {NONE: GREEN, row.layers: GREEN})[0] == FAILED
    assert rule.judge(row, "rootless", {NONE: RED, row.layers: GREEN})[0] == FAILED


def test_only_what_stays_green_is_tried_without_any_layer():
    row = Row("x32", "processes", SECCOMP, "none", True, False)
    assert rule.unproven([row, ONE], {"x32": {SECCOMP: GREEN}, "one": {SECCOMP: GREEN}}) == [row]
    assert rule.unproven([row], {"x32": {SECCOMP: RED}}) == []


def test_the_page_names_what_was_never_shown_and_what_failed():
    rows = [ONE, KERNEL]
    results = {("root", "low"): {"one": {NONE: GREEN, SECCOMP: GREEN}, "kernel": {NONE: GREEN}}}
    text, failures = page.make(rows, results)
    assert [entry[0].name for entry in failures] == ["one"]
    assert page.never_shown(rows, results) == ["- `kernel`: the kernel alone stops it"]
    assert "- `one` (root/low): promised with seccomp off: EPERM" in text
    assert "1 failures" in page.summary(rows, results)
