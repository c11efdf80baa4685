"""Saving what was read, unless somebody has changed it meanwhile: ETag and If-Match."""
from concurrent.futures import ThreadPoolExecutor

import pytest

from test_doors import check_error

HOME = "/home/agent"


@pytest.fixture
def note(alice, box):
    """A file that was just written: (its route, a function that runs a command inside)."""
    path = f"/api/sandboxes/{box}/files?path={HOME}/note"
    assert alice.put(path, b"one").status == 200

    def inside(command):
        answer = alice.post(f"/api/sandboxes/{box}/exec", {"command": f"cd {HOME}; {command}"})
        assert answer.status == 200 and answer.json["exit_code"] == 0, answer
        return answer.json["stdout"]
    yield path, inside
    inside("rm -rf note kept")


def tag_of(alice, path):
    """As reading gives it, and as stat does."""
    answer = alice.get(path)
    assert answer.status == 200 and alice.get(path.replace("/files?", "/files/stat?")).json["etag"] == answer.headers["etag"].strip('"'), answer
    return answer.headers["etag"]


def put(alice, path, body, tag):
    return alice.put(path, body, headers={"If-Match": tag})


def test_saved_if_it_is_the_same(alice, note):
    path, inside = note
    saved = put(alice, path, b"two", tag_of(alice, path))
    assert saved.status == 200 and saved.json["bytes"] == 3, saved
    # what writing gives is what reading gives: the next save needs no look
    assert f'"{saved.json["etag"]}"' == tag_of(alice, path)
    again = put(alice, path, b"three", f'"{saved.json["etag"]}"')
    assert again.status == 200 and inside("cat note") == "three"
    check_error(put(alice, path, b"four", f'"{saved.json["etag"]}"'), 412, "CHANGED")
    assert inside("cat note") == "three"


@pytest.mark.parametrize("change", ["echo more >> note", "touch -d @5 note", "mv note kept; cp -p kept note", "rm note", "rm note; ln -s /etc/passwd note"])
def test_not_over_what_came_meanwhile(alice, note, change):
    path, inside = note
    tag = tag_of(alice, path)
    look = "ls -la --time-style=full-iso note 2>&1; cat note 2>&1; true"
    inside(change)
    before = inside(look)
    refused = put(alice, path, b"mine", tag)
    check_error(refused, 412, "CHANGED")
    assert refused.json["hint"] and inside(look) == before and "stockade" not in inside("ls -A")
    assert alice.put(path, b"mine").status == 200 and inside("cat note") == "mine"  # whoever does not ask replaces it


def test_a_large_one_is_refused_too(alice, note):
    """Its body is more than waits anywhere: the answer comes although nobody reads it."""
    path, inside = note
    tag = tag_of(alice, path)
    inside("echo more >> note")
    check_error(put(alice, path, b"x" * (8 << 20), tag), 412, "CHANGED")
    assert inside("cat note") == "onemore\n"


def test_one_of_many_wins(alice, note):
    """All have read the same: one saves, and the others hear of it."""
    path, inside = note
    tag = tag_of(alice, path)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: put(alice, path, f"by {i}".encode(), tag), range(8)))
    won = [i for i, a in enumerate(answers) if a.status == 200]
    assert len(won) == 1 and {a.status for a in answers} == {200, 412}, answers
    assert inside("cat note") == f"by {won[0]}"


@pytest.mark.parametrize("tag, status", [('"no-such-tag"', 412), ('"3-1-1"', 412), ('"3-1-1-1"', 412), ('"ffffffffffffffffff-1-1"', 412), ('"+3-1-1"', 412),
                                         ("*", 400), ('W/"3-1-1"', 400), ('"a", "b"', 400), ('""', 400), ("bare", 400), ('"' + "x" * 80 + '"', 400)])
def test_tags_that_are_none(alice, note, tag, status):
    path, inside = note
    check_error(put(alice, path, b"mine", tag), status)
    assert inside("cat note") == "one"


def test_what_has_no_tag(alice, box, note):
    """A link's own numbers say nothing about what is read through it, and a list would be half as long again."""
    _, inside = note
    inside("ln -s note kept")
    files = f"/api/sandboxes/{box}/files"
    assert "etag" not in alice.get(f"{files}?path={HOME}/kept").headers and "etag" not in alice.get(f"{files}/stat?path={HOME}/kept").json
    listed = alice.get(f"{files}?path={HOME}")
    assert "etag" not in listed.headers and not [e for e in listed.json["entries"] if "etag" in e]
