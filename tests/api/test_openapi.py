"""docs/openapi.yaml says what the table of routes says: neither can drift."""
import re

import yaml

import harness
from test_doors import ROUTES, SAFE

DOCUMENT = yaml.safe_load((harness.SOURCE / "docs/openapi.yaml").read_text())
ANY = {"get", "post", "put", "patch", "delete"}
KINDS = {"n": "integer", "b": "boolean", "o": "string", "p": "string", "": "string"}


def operations():
    return {(method, path): operation for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()}


def test_every_route_is_described_and_nothing_else():
    table = {(method, r["path"]) for r in ROUTES for method in (ANY if r["method"] == "ANY" else {r["method"].lower()})}
    assert table == set(operations())


def test_every_description_is_right():
    for route in ROUTES:
        for method in ANY if route["method"] == "ANY" else {route["method"].lower()}:
            check(route, operations()[method, route["path"]], f"{method} {route['path']}")


def check(route, operation, where):
    given = operation.get("parameters", [])
    assert [p["name"] for p in given if p["in"] == "path"] == re.findall(r"{(\w+)}", route["path"]), where
    query = {p["name"]: p["schema"]["type"] for p in given if p["in"] == "query"}
    assert (query.pop("ticket", None) is not None) == route["ticket"], where
    assert query == {name: KINDS[kind] for name, _, kind in (f.partition(":") for f in (route["query"] or "").split())}, where
    content = operation.get("requestBody", {}).get("content", {})
    assert ("application/octet-stream" in content) == route["streamed"], where
    members = content.get("application/json", {}).get("schema", {}).get("properties", {})
    assert set(members) == set((route["body"] or "").split() if route["limit"] else ()), where
    assert operation.get("x-body-limit", 0) == route["limit"], where
    assert str(route["status"]) in operation["responses"] and "default" in operation["responses"], where
    schemes = [name for choice in operation["security"] for name in choice]
    assert schemes == {"none": [], "local": ["session"], "session": ["session"], "owner": ["session", "capability"]}[route["auth"]], where
    assert operation["x-verb"] == route["verb"] and operation["summary"] and operation["tags"], where


def test_refusals_are_described():
    """Whoever writes a client reads there what may come instead of an answer."""
    for route in ROUTES:
        for method in ANY if route["method"] == "ANY" else {route["method"].lower()}:
            said, where = set(operations()[method, route["path"]]["responses"]), f"{method} {route['path']}"
            assert {"400", "403", "429"} <= said, where
            assert ("401" in said) == (route["auth"] != "none" or route["path"] == "/api/auth/session"), where
            assert ("413" in said) == ("415" in said) == (route["limit"] > 0), where
            assert ("404" in said) >= ("{" in route["path"]), where
            assert ("409" in said) == (route["verb"] in ("create", "fork")), where
    assert "wallets" in DOCUMENT["components"]["responses"]["NoSignIn"]["description"]
    assert operations()["post", "/api/auth/session"]["responses"]["403"] == {"$ref": "#/components/responses/NoSignIn"}


def test_events_have_the_names_that_are_sent():
    source = (harness.SOURCE / "src/api/views.c").read_text()
    for path, names in (("/runs/{run}/stream", ("started", "stdout", "stderr", "lost", "exit", "error")),
                        ("/live/terminal/sessions/{run}/stream", ("started", "output", "lost", "exit", "error"))):
        text = operations()["get", "/api/sandboxes/{sandbox}" + path]["description"]
        for name in names:
            assert re.search(rf"\b{name}\b", text) and f'"{name}"' in source, (path, name)


def test_references_lead_somewhere():
    def walk(value):
        if isinstance(value, dict):
            if "$ref" in value:
                place = DOCUMENT
                for part in value["$ref"].removeprefix("#/").split("/"):
                    place = place[part]
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)
    walk(DOCUMENT)


def test_it_is_served(nobody):
    answer = nobody.get("/api/openapi.json")
    assert answer.status == 200 and answer.json == DOCUMENT and SAFE.items() <= answer.headers.items()
