"""Single files of a snapshot, read without starting anything: as they were then, by their owner alone, and whatever a sandbox
has put there stays what it is."""
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

import harness
from conftest import Web
from test_doors import check_error
from wallet import Wallet

STRANGE = ["<b>&.txt", "new\nline", "tab\there", "\x1b[31mred", "ü…", "a b", "%41", "-rf"]


class Then:
    """A snapshot, and how its files are asked for."""

    def __init__(self, made, root):
        self.id, self.root, self.path = made["id"], root, f"/api/snapshots/{made['id']}/files"

    def get(self, web, name="", **kw):
        return web.get(f"{self.path}?path={quote(self.root + name)}", **kw)


def run(web, box, command):
    answer = web.post(f"/api/sandboxes/{box}/exec", {"command": command})
    assert answer.status == 200 and answer.json["exit_code"] == 0, answer
    return answer.json["stdout"]


def take(web, box):
    made = web.post(f"/api/sandboxes/{box}/snapshot", {})
    assert made.status == 201, made
    return made.json


@pytest.fixture(scope="module")
def own(alice):
    """A sandbox that these tests fill."""
    made = alice.post("/api/sandboxes", {"profile": "medium"})
    assert made.status == 201, made
    yield made.json["id"]
    assert alice.delete(f"/api/sandboxes/{made.json['id']}?force=true").status == 200


@pytest.fixture(scope="module")
def then(alice, own):
    """What is in it is hostile, and has changed since."""
    root = run(alice, own, "pwd").strip()
    run(alice, own, r"""
        mkdir -p in/side deep/er && printf 'first\nsecond\n' > a.txt && printf inside > in/side/x && : > empty
        ln -s /etc/passwd out && ln -s in way && ln -s .. up && ln -s nowhere broken && mkfifo pipe
        ln a.txt second && truncate -s 1T sparse && printf end >> sparse
        head -c 24000000 /dev/urandom > random && chmod 000 random && sha256sum < /dev/null > sums
        mkdir names && cd names && printf 1 > '<b>&.txt' && printf 1 > "$(printf 'new\nline')" && printf 1 > "$(printf 'tab\there')"
        printf 1 > "$(printf '\033[31mred')" && printf 1 > 'ü…' && printf 1 > 'a b' && printf 1 > '%41' && printf 1 > ./-rf
        printf 1 > "$(printf 'bad\377name')" && ln -s "$(head -c 4000 /dev/zero | tr '\0' '\001')" long && chmod 0700 .
    """)
    snapshot = take(alice, own)
    assert snapshot["root"] == root, snapshot
    run(alice, own, "printf changed > a.txt; rm -rf in empty names; printf new > later")
    yield Then(snapshot, root)
    assert alice.delete(f"/api/snapshots/{snapshot['id']}").status == 200


def test_as_it_was(alice, own, then):
    answer = then.get(alice, "/a.txt")
    assert answer.status == 200 and answer.body == b"first\nsecond\n", answer
    assert answer.headers["content-length"] == "13" and answer.headers["content-disposition"] == "attachment"
    assert then.get(alice, "/in/side/x").body == b"inside" and then.get(alice, "/second").body == b"first\nsecond\n"
    empty = then.get(alice, "/empty")
    assert empty.status == 200 and empty.body == b""
    check_error(then.get(alice, "/later"), 404, "NOT_FOUND")
    assert alice.get(f"/api/sandboxes/{own}/files?path={then.root}/a.txt").body == b"changed"
    # whoever owns a file inside, and whatever its mode: a snapshot is its owner's
    assert len(then.get(alice, "/random").body) == 24000000


def test_parts(alice, then):
    part = then.get(alice, "/a.txt", headers={"Range": "bytes=6-11"})
    assert part.status == 206 and part.body == b"second" and part.headers["content-range"] == "bytes 6-11/13", part
    assert then.get(alice, "/a.txt", headers={"Range": "bytes=-3"}).body == b"nd\n"
    assert then.get(alice, "/a.txt", headers={"Range": "bytes=13-"}).status == 416
    # far beyond what anybody reads: nothing before it is
    assert then.get(alice, "/sparse", headers={"Range": f"bytes={1 << 40}-"}).body == b"end"


def test_folders(alice, then):
    for name in ("", "/", "//", "/.", "/in"):
        answer = then.get(alice, name)
        assert answer.status == 200 and answer.headers["content-type"].startswith("application/json"), (name, answer)
    entries = {e["name"]: e for e in then.get(alice).json["entries"]}
    assert {"a.txt", "in", "deep", "out", "way", "pipe", "sparse"} <= set(entries) and "later" not in entries
    assert entries["in"]["kind"] == "folder" and entries["pipe"]["kind"] == "pipe"
    assert entries["out"]["kind"] == "link" and entries["out"]["target"] == "/etc/passwd"
    assert entries["sparse"]["size"] == (1 << 40) + 3 and entries["random"]["mode"] == 0
    assert then.get(alice, "/deep/er").json == {"entries": []}


def test_the_same_as_of_a_sandbox(alice, own, then):
    """A list has the same members, in the same words."""
    now = {e["name"]: e for e in alice.get(f"/api/sandboxes/{own}/files?path={then.root}").json["entries"]}
    was = {e["name"]: e for e in then.get(alice).json["entries"]}
    for name in ("deep", "out", "broken", "pipe", "sparse", "random"):
        assert now[name] == was[name]


def test_strange_names(alice, then):
    entries = {e["name"]: e for e in then.get(alice, "/names").json["entries"]}
    assert set(STRANGE) <= set(entries) and len(entries) == len(STRANGE) + 2, entries
    assert entries["long"]["target"] == "\x01" * 4000  # longer as JSON than a line of ours was
    for name in STRANGE:
        assert then.get(alice, f"/names/{name}").body == b"1", name


def test_links_lead_nowhere(alice, then):
    """What a link is can be seen; where it leads is not looked at, neither here nor on the host."""
    for name in ("/out", "/way", "/up", "/broken", "/way/side/x", "/up/etc/passwd", "/out/x"):
        check_error(then.get(alice, name), 409, "CONFLICT")
    check_error(then.get(alice, "/pipe"), 409, "CONFLICT")
    check_error(then.get(alice, "/a.txt/x"), 409, "CONFLICT")


@pytest.mark.parametrize("path", ["/etc/passwd", "/", "/proc/self/environ", "{root}x", "{root}/../../etc/passwd", "{root}/in/../a.txt", "a.txt", ""])
def test_nothing_else_is_there(alice, then, path):
    path = path.format(root=then.root)
    answer = alice.get(f"{then.path}?path={quote(path)}")
    assert answer.status == (400 if ".." in path or not path.startswith("/") else 404), answer
    assert b"root:" not in answer.body and answer.json["hint"]


def test_path_is_needed(alice, then):
    check_error(alice.get(then.path), 400, "BAD_REQUEST")
    check_error(alice.get(f"{then.path}?path=/&other=1"), 400, "BAD_REQUEST")
    check_error(alice.get(f"{then.path}?path=/{'x' * 5000}"), 400, "BAD_REQUEST")


def test_whose_it_is(alice, bob, nobody, then):
    check_error(then.get(bob, "/a.txt"), 404, "NOT_FOUND")
    check_error(then.get(nobody, "/a.txt"), 401, "NO_TOKEN")

    def machine(*verbs, resources=("*",)):
        made = alice.post("/api/capabilities/tokens", {"verbs": list(verbs), "resources": list(resources), "expires_in": 60})
        return Web(alice.address, made.json["token"])
    # who may have all of it may have one file of it
    assert then.get(machine("export"), "/a.txt").status == 200
    assert then.get(machine("export", resources=[f"snapshot/{then.id}"]), "/a.txt").status == 200
    check_error(then.get(machine("export", resources=["snapshot/0123456789abcdef"]), "/a.txt"), 403)
    check_error(then.get(machine("get", "diff", "snapshots"), "/a.txt"), 403)


def test_it_is_recorded(alice, own, then):
    path = f"/api/events/search?kinds=file.read&sandbox={own}&limit=500"
    assert then.get(alice, "/a.txt").status == 200

    def found():
        return [e for e in alice.get(path).json["events"] if e["data"].get("snapshot") == then.id and e["data"]["path"] == f"{then.root}/a.txt"]
    harness.until(found)


def test_after_its_sandbox(alice):
    box = alice.post("/api/sandboxes", {"profile": "medium"}).json["id"]
    root = run(alice, box, "printf kept > f; pwd").strip()
    left = Then(take(alice, box), root)
    try:
        assert alice.delete(f"/api/sandboxes/{box}?force=true").status == 200
        assert left.get(alice, "/f").body == b"kept"
    finally:
        assert alice.delete(f"/api/snapshots/{left.id}").status == 200
    check_error(left.get(alice, "/f"), 404, "NOT_FOUND")


def test_who_goes_away_lets_others_in(alice, then):
    """A terabyte that nobody reads any more: its worker ends, and the next one of the same owner is served."""
    for _ in range(3):
        c, response = alice.open(f"{then.path}?path={quote(then.root)}/sparse")
        assert response.status == 200 and len(response.read(1000)) == 1000
        c.close()
        response.close()
        assert then.get(alice, "/a.txt").status == 200


def test_not_behind_an_archive(alice, then):
    """An export that its reader lets wait does not keep the same owner's page waiting."""
    c, response = alice.open(f"/api/snapshots/{then.id}/export")
    try:
        assert response.status == 200 and response.read(1)
        time.sleep(0.2)
        assert then.get(alice, "/a.txt").status == 200
    finally:
        c.close()
        response.close()


def test_slow_readers_leave_a_place_for_those_who_look(nobody, alice, then):
    """Four owners with a terabyte each, which they do not read: nobody else waits for a list."""
    made = []
    try:
        for i in range(4):
            web = nobody.sign_in(Wallet(f"slow-{i}"))
            box = web.post("/api/sandboxes", {"profile": "medium"}).json["id"]
            run(web, box, "truncate -s 1T sparse")
            at = Then(take(web, box), then.root)
            c = web.connect(60)
            made.append((web, box, at, c))
            c.request("GET", f"{at.path}?path={quote(at.root)}/sparse", headers={"Authorization": f"Bearer {web.token}"})
            if i < 3:
                assert c.getresponse().read(1000)
        time.sleep(0.5)  # the fourth has been heard: it waits for one of the others
        assert then.get(alice, timeout=20).status == 200  # after 30 s those who read nothing are cut off
        made[0][3].close()
        assert made[3][3].getresponse().read(1000)
    finally:
        for web, box, at, c in made:
            c.close()
            web.delete(f"/api/sandboxes/{box}?force=true")
            web.delete(f"/api/snapshots/{at.id}")


def test_a_crowd(alice, then):
    """Many at once wait for each other, and each gets its own."""
    names = ["/a.txt", "/in/side/x", "/later"] * 4
    with ThreadPoolExecutor(len(names)) as pool:
        found = list(pool.map(lambda n: then.get(alice, n), names))
    for name, answer in zip(names, found):
        assert (answer.status, answer.body if answer.status == 200 else b"") == {
            "/a.txt": (200, b"first\nsecond\n"), "/in/side/x": (200, b"inside"), "/later": (404, b"")}[name], answer
