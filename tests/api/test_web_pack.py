"""tools/web-pack: a folder becomes a table that C finds things in, and the same folder always the same one."""
import gzip
import subprocess

import pytest

import harness

TOOL = harness.SOURCE / "tools/web-pack"
MAIN = """#include <stdio.h>
#include <string.h>
#include "api/web-asset.h"
int main(int argc, char **argv) {
        const struct web_asset *a = argc > 1 ? web_asset_find(argv[1]) : NULL;
        if (argc == 1)
                for (size_t i = 0; i < web_asset_count; i++)
                        printf("%s %s\\n", web_assets[i].path, web_assets[i].tag);
        if (a)
                fwrite(web_bytes + (argc > 2 ? a->packed_at : a->at), 1, argc > 2 ? a->packed : a->size, stdout);
        return argc > 1 && !a;
}
"""
FILES = {"index.html": b'<meta name="stockade-nonce" content="@NONCE@"><script type=module src=/assets/a-12345678.js></script>',
         "assets/a-12345678.js": b"export const a = 1\n" * 1000, "assets/a-12345678.js.map": b"{}", "assets/z.css": b"a{}",
         "assets/picture.png": bytes(range(256)), "assets/Z.svg": b"<svg/>", "assets/deep/er.json": b"{}"}


@pytest.fixture
def dist(tmp_path):
    for name, data in FILES.items():
        path = tmp_path / "dist" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "dist"


def pack(tmp_path, dist, mode="auto", check=True):
    made = [tmp_path / name for name in ("made.c", "made.bin", "made.d")]
    done = subprocess.run([TOOL, mode, dist, *made], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == check, done.stderr
    return made if check else done.stderr


def build(tmp_path, made):
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["cc", "-Wall", "-Werror", "-D_GNU_SOURCE", "-I", harness.SOURCE / "src", "-o", tmp_path / "main", tmp_path / "main.c", made[0],
                    harness.SOURCE / "src/api/web-asset.c"], check=True)

    def run(*args):
        return subprocess.run([tmp_path / "main", *args], capture_output=True, check=False)
    return run


def test_what_goes_in_comes_out(tmp_path, dist):
    made = pack(tmp_path, dist)
    run = build(tmp_path, made)
    expected = {"/" + name: data for name, data in FILES.items() if not name.endswith(".map")}
    assert {line.split()[0] for line in run().stdout.decode().splitlines()} == set(expected)
    for path, data in expected.items():
        assert run(path).stdout == data, path
        packed = run(path, "packed").stdout
        assert not packed or (gzip.decompress(packed) == data and len(packed) < len(data))
    assert run("/assets/a-12345678.js", "packed").stdout and not run("/index.html", "packed").stdout
    assert run("/assets/none").returncode == 1
    assert all(str(dist / name) in made[2].read_text() for name in expected for name in [name[1:]])


def test_the_same_again(tmp_path, dist):
    first = [p.read_bytes() for p in pack(tmp_path, dist)]
    stamps = [p.stat().st_mtime_ns for p in pack(tmp_path, dist)[:2]]
    assert [p.read_bytes() for p in pack(tmp_path, dist)] == first
    assert [p.stat().st_mtime_ns for p in pack(tmp_path, dist)[:2]] == stamps
    (dist / "assets/z.css").write_bytes(b"b{}")
    assert [p.read_bytes() for p in pack(tmp_path, dist)] != first


def test_without_the_app(tmp_path, dist):
    for mode, folder in (("auto", tmp_path / "none"), ("disabled", dist)):
        run = build(tmp_path, pack(tmp_path, folder, mode))
        assert run().stdout == b"" and run("/index.html").returncode == 1
    assert "npm" in pack(tmp_path, tmp_path / "none", "enabled", check=False)


@pytest.mark.parametrize("name, data, why", [("favicon.ico", b"", "would not be served"), ("assets/a b.js", b"", "does not belong"),
                                             ("assets/ä.js", b"", "does not belong"), ("assets/a.exe", b"", "type"),
                                             ("index.html", b"<p>", "@NONCE@")])
def test_what_is_not_taken(tmp_path, dist, name, data, why):
    (dist / name).write_bytes(data)
    assert why in pack(tmp_path, dist, check=False)
