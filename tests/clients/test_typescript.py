"""The TypeScript client: compiled strictly, and every method against the real daemon; with and without a WebSocket."""
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from conftest import DOMAIN, ROOT, run
from drift import expand, routes_of_typescript, template_of
from wallet import Wallet


def exercise(workshop, house, url, *flags):
    shutil.copy(ROOT / "tests/clients/exercise.mjs", workshop)
    link = house.client.ask("sign-in")["url"]
    key = "0x" + Wallet("operator").key.to_bytes(32, "big").hex()
    r = run(["node", *flags, "exercise.mjs", workshop / "node_modules/stockade-client/dist/index.js", url, link, DOMAIN], workshop,
            env={**os.environ, "OPERATOR_KEY": key, "NODE_NO_WARNINGS": "1"})
    assert r.returncode == 0, r.stderr[-6000:]
    return {(method, template_of(method, path)) for method, path in json.loads(r.stdout)}


def flags_for(workshop, websocket):
    """Node has no WebSocket of its own before 22; with a flag from 20.10 on; before that, as its users do, by a package."""
    version = tuple(int(n) for n in subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout[1:].split(".")[:2])
    if websocket:
        if version < (20, 10):
            shim = workshop / "websocket.mjs"
            shim.write_text("import { WebSocket } from 'ws'\nglobalThis.WebSocket ??= WebSocket\n")
            return ["--import", shim.as_uri()]
        return ["--experimental-websocket"] if version < (22, 0) else []
    return [] if version < (22, 0) else ["--no-experimental-websocket"]


def test_every_method_over_websockets(workshop, house, url):
    asked = exercise(workshop, house, url, *flags_for(workshop, True))
    assert {r for r in expand(routes_of_typescript()) if not r[1].endswith("/{rest}")} - asked == set()


def test_every_method_without_websockets(workshop, house, url):
    asked = exercise(workshop, house, url, *flags_for(workshop, False))
    assert not any(path.endswith("/ws") for _, path in asked)


def test_a_mistake_in_a_type_is_found(workshop):
    """Or "compiled strictly" would mean nothing."""
    place = workshop / "mistake"
    place.mkdir(exist_ok=True)
    for name, line in (("wrong", "await box.exec(7)"), ("right", "await box.exec('x')")):
        (place / f"{name}.ts").write_text(f"import type {{ Sandbox }} from 'stockade-client'\nexport const f = async (box: Sandbox) => {{ {line} }}\n")
        r = run(["node", "../node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext",
                 "--target", "es2022", f"{name}.ts"], place)
        assert (r.returncode == 0) == (name == "right") == ("TS2345" not in r.stdout), r.stdout


@pytest.mark.parametrize("websocket", [True, False])
def test_the_example(workshop, house, url, websocket):
    place = workshop / "example"
    place.mkdir(exist_ok=True)
    for name in ("tour.ts", "tsconfig.json"):
        shutil.copy(ROOT / "examples/typescript" / name, place)
    r = run(["node", "../node_modules/typescript/bin/tsc", "-p", "."], place)
    assert r.returncode == 0, r.stdout
    key = "0x" + hashlib.sha256(b"an example").hexdigest()
    r = run(["node", *flags_for(workshop, websocket), "tour.js", url], place, env={**os.environ, "WALLET_KEY": key})
    assert r.returncode == 0, r.stderr
    for words in ("signed in as eth:0x", "hello from", "counted to 3", "still 42", "the port answers 200", "after the rollback: kept",
                  "NOT_FOUND", "sandbox.delete"):
        assert words in r.stdout, r.stdout
