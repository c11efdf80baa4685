"""Option tables, --help, manual pages and completion say the same."""
import os
import re
import subprocess

import pytest

from conftest import SOURCE, STOCKADE

PAGES = {page.name: page.read_text() for page in sorted((SOURCE / "docs/man").glob("*.scd"))}
ELSEWHERE = {"run", "profile", "doctor", "verify", "setup", "ledger"}  # verbs with tables or programs of their own


def plain(page):
    return re.sub(r"\\(.)", r"\1", PAGES[page])


def verbs():
    text = subprocess.run([STOCKADE, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return re.findall(r"^  ([a-z]+) ", text, re.MULTILINE)


def helped(verb):
    return subprocess.run([STOCKADE, verb, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()


def test_pages_have_what_the_tables_say():
    done = subprocess.run([SOURCE / "tools/man-verbs", "--check"], env={**os.environ, "STOCKADE": STOCKADE}, stdout=subprocess.PIPE,
                          check=False)
    assert done.returncode == 0, done.stdout.decode() + "run tools/man-verbs and look at the difference"


@pytest.mark.parametrize("verb", [verb for verb in verbs() if verb not in ELSEWHERE])
def test_every_verb(verb):
    found = [name for name, text in PAGES.items() if f"; begin {verb}\n" in text]
    assert len(found) == 1, f"one page is about {verb}: {found}"
    text, help_text = plain(found[0]), helped(verb)
    for letter, option in re.findall(r"^  (?:(-[a-z0-9]), |    )(--[a-z-]+)", help_text, re.MULTILINE):
        assert re.search(rf"^\*{letter + ', ' if letter else ''}{option}\*", text, re.MULTILINE), f"{found[0]}: {letter} {option}"
    assert f"usage: stockade {verb} " in help_text
    assert all(len(line) <= 110 for line in help_text.splitlines())


def test_every_verb_is_in_the_first_page():
    for verb in verbs():
        assert f"*{verb}*" in PAGES["stockade.1.scd"] or f"stockade {verb}" in PAGES["stockade.1.scd"], verb


def test_pages_that_are_named_are_there():
    for name, text in PAGES.items():
        for page, section in re.findall(r"\*(stockade[a-z.-]*)\*\((\d)\)", text):
            assert f"{page}.{section}.scd" in PAGES, f"{name}: {page}({section})"


def test_bash_completes(tmp_path):
    script = subprocess.run([STOCKADE, "completion", "bash"], stdout=subprocess.PIPE, check=True).stdout.decode()
    (tmp_path / "a file").write_text("")
    (tmp_path / "stockade").symlink_to(STOCKADE)

    def complete(*words):
        line = " ".join(f"'{word}'" for word in ("stockade", *words))
        done = subprocess.run(["bash", "--norc", "-c", f"{script}\nCOMP_WORDS=({line}) COMP_CWORD={len(words)}\n_stockade\n"
                               "printf '%s\\n' \"${COMPREPLY[@]}\""], cwd=tmp_path, stdout=subprocess.PIPE, check=True,
                              env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "STOCKADE_SOCKET": "/none"})
        return [line for line in done.stdout.decode().splitlines() if line]
    assert complete("qua") == ["quarantine"]
    assert "--interactive" in complete("exec", "--inter")
    assert complete("import", "a") == ["a file"]
    assert complete("create", "--pro") == ["--profile", "--processes"]
    assert "medium" in complete("create", "--profile", "me")
