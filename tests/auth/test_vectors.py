"""Vectors of other projects, read where STOCKADE_VECTORS points: EIP-4361 (spruceid/siwe) and PASETO v4 (paseto-standard)."""
import json
import os
import subprocess
from pathlib import Path

import pytest

VECTORS = Path(os.environ["STOCKADE_VECTORS"])
FIELDS = ["scheme", "domain", "address", "statement", "uri", "chainId", "nonce", "issuedAt", "expirationTime", "notBefore",
          "requestId"]
NOW_MS = 1784000000000  # 2026: between the vectors' past and their future


def load(name):
    return json.loads((VECTORS / name).read_text())


def cases(name):
    return [pytest.param(v, id=k) for k, v in load(name).items()]


def hexed(text):
    return text.encode().hex() or "-" if text is not None else "-"


@pytest.fixture
def ask(program):
    def put(question, *arguments):
        """The words of the answer, or None if it is no."""
        r = subprocess.run([program], input=" ".join([question, *map(str, arguments)]) + "\n", capture_output=True, text=True,
                           timeout=60)
        assert r.returncode == 0, r.stderr
        words = r.stdout.split()
        assert words[0] in ("ok", "no"), r.stdout
        return words[1:] if words[0] == "ok" else None
    return put


def build(ask, fields):
    """None where the fields cannot make a message."""
    arguments = []
    for name in FIELDS:
        value = fields.get(name)
        if name == "chainId":
            if not isinstance(value, int):
                return None
            arguments.append(value)
        else:
            arguments.append(hexed(value))
    if fields.get("version") != "1":
        return None
    words = ask("siwe-build", *arguments, *map(hexed, fields.get("resources", [])))
    return words and bytes.fromhex(words[0]).decode()


@pytest.mark.parametrize("vector", cases("siwe/parsing_positive.json"))
def test_siwe_parses(ask, vector):
    words = ask("siwe-parse", hexed(vector["message"]))
    assert words is not None
    seen = [None if w == "-" else w for w in words]
    for i, name in enumerate(FIELDS):
        expected = vector["fields"].get(name)
        if name == "chainId":
            assert int(seen[i]) == expected
        else:
            assert (seen[i] and bytes.fromhex(seen[i]).decode()) == expected, name
    resources = [bytes.fromhex(w).decode() for w in words[15:]]
    assert resources == vector["fields"].get("resources", [])
    assert build(ask, vector["fields"]) == vector["message"]


@pytest.mark.parametrize("message", cases("siwe/parsing_negative.json"))
def test_siwe_refuses(ask, message):
    assert ask("siwe-parse", hexed(message)) is None


@pytest.mark.parametrize("fields", cases("siwe/parsing_negative_objects.json"))
def test_siwe_does_not_build(ask, fields):
    assert build(ask, fields) is None


def verify(ask, vector):
    message = build(ask, vector)
    if message is None:
        return None
    now = int(ask("time", hexed(vector["time"]))[0]) if "time" in vector else NOW_MS
    return ask("siwe-verify", hexed(message), hexed(vector["signature"]), hexed(vector.get("domainBinding", vector["domain"])),
               hexed(vector["uri"]), vector["chainId"], hexed(vector.get("matchNonce", vector["nonce"])), now, 0)


@pytest.mark.parametrize("vector", cases("siwe/verification_positive.json"))
def test_siwe_verifies(ask, vector):
    assert bytes.fromhex(verify(ask, vector)[0]).decode() == vector["address"]


@pytest.mark.parametrize("vector", cases("siwe/verification_negative.json"))
def test_siwe_does_not_verify(ask, vector):
    assert verify(ask, vector) is None


@pytest.mark.parametrize("vector", cases("siwe/eip1271.json"))
def test_contract_wallets_are_refused(ask, vector):
    """A contract's signature needs a chain to ask. Ours has none and must not take it for an account's."""
    words = ask("siwe-parse", hexed(vector["message"]))
    assert words is not None
    domain, uri, chain, nonce = (words[i] for i in (1, 4, 5, 6))
    assert ask("siwe-verify", hexed(vector["message"]), hexed(vector["signature"]), domain, uri, chain, nonce, NOW_MS, 0) is None


LOCAL = [pytest.param(t, id=t["name"]) for t in load("paseto/v4.json")["tests"] if "key" in t]


def test_all_local_vectors_are_there():
    assert len(LOCAL) >= 13


@pytest.mark.parametrize("vector", LOCAL)
def test_paseto(ask, vector):
    opened = ask("paseto-open", vector["key"], hexed(vector["token"]), hexed(vector["implicit-assertion"]))
    if vector["expect-fail"]:
        assert opened is None
        return
    assert bytes.fromhex(opened[0]).decode() == vector["payload"]
    made = ask("paseto-seal", vector["key"], hexed(vector["payload"]), hexed(vector["footer"]), hexed(vector["implicit-assertion"]),
               vector["nonce"])
    assert bytes.fromhex(made[0]).decode() == vector["token"]
