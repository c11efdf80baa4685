"""src/auth beside ethers, siwe and paseto-ts: the same questions, random inputs, both directions."""
import json
import os
import subprocess

import pytest

# section: cases, and what has to have been compared at least that often (a check that never ran proves nothing)
SECTIONS = {
    "keccak": (400, {"keccak": 400}),
    "addresses": (200, {"address": 200, "address with another letter": 200}),
    "signatures": (150, {"signed by ethers": 150, "signed by us": 150, "the malleable twin": 150, "a changed signature": 20,
                         "a changed signature, refused": 20}),
    "siweBuildAndParse": (300, {"siwe: built": 300, "siwe: parsed": 300}),
    "siweChanged": (800, {"siwe: changed, both take": 30, "siwe: changed, both refuse": 300}),
    "siweVerify": (200, {"siwe: verified": 20, "siwe: refused": 50}),
    "plain": (100, {"plain text, signed": 100}),
    "times": (300, {"time": 300}),
    "paseto": (300, {"paseto: sealed by paseto-ts": 300, "paseto: sealed by us": 300, "paseto: changed": 300}),
    "keys": (100, {"key": 300}),
    "sessions": (100, {"session: claims": 100, "session: made by paseto-ts": 100, "session: no key, nothing to read": 100}),
    "capabilities": (60, {"capability: tag": 60, "capability: narrowed by a holder": 700, "capability: never wider": 60}),
}


@pytest.mark.parametrize("section", SECTIONS)
def test_same_answers(program, packages, section):
    cases, least = SECTIONS[section]
    seed = os.environ.get("SEED", "1")
    r = subprocess.run(["node", "cross.mjs", program, section, str(cases), seed], cwd=packages, capture_output=True, text=True,
                       timeout=300)
    assert r.returncode == 0, r.stderr[-4000:]
    counts = json.loads(r.stdout)
    for what, n in least.items():
        assert counts.get(what, 0) >= n, (what, counts)


def test_a_difference_is_seen(packages, tmp_path):
    """The comparison itself: against a program that says something else it fails."""
    liar = tmp_path / "liar"
    liar.write_text("#!/bin/sh\nwhile read -r line; do echo ok 00; done\n")
    liar.chmod(0o755)
    for section in ("keccak", "addresses", "paseto", "siweBuildAndParse"):
        r = subprocess.run(["node", "cross.mjs", liar, section, "3", "1"], cwd=packages, capture_output=True, text=True, timeout=60)
        assert r.returncode != 0, section
