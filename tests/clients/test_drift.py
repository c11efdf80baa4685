"""The clients and docs/openapi.yaml know the same routes: neither can drift from the other."""
import re

import pytest
from drift import ROOT, expand, paths_in, routes, routes_in, routes_of_python, routes_of_typescript, source, template_of

CLIENTS = {
    "python": (routes_of_python, lambda: source("clients/python/stockade", "*.py")),
    "typescript": (routes_of_typescript, lambda: source("clients/typescript/src", "*.ts")),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_asks_is_there(client):
    known = expand(CLIENTS[client][0]())
    assert len(known) > 50
    assert known - routes() == set()


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_there_can_be_asked(client):
    assert routes() - expand(CLIENTS[client][0]()) == set()


@pytest.mark.parametrize("client", CLIENTS)
def test_no_path_stands_apart_from_its_method(client):
    """Or the two tests above would not see it."""
    read, text = CLIENTS[client]
    assert paths_in(text()) == {path for _, path in read()}


def test_the_comparison_itself():
    assert routes_in('call("GET", "/api/x/{y}")\nopen(\'PUT\',\n  \'/api/z\')') == {("GET", "/api/x/{y}"), ("PUT", "/api/z")}
    assert expand({("ANY", "/p")}) == {(m, "/p") for m in ("GET", "POST", "PUT", "PATCH", "DELETE")}
    assert template_of("GET", "/api/sandboxes/0123?x=1") == "/api/sandboxes/{sandbox}"
    assert template_of("POST", "/api/snapshots/import") == "/api/snapshots/import"
    assert template_of("GET", "/api/sandboxes/0123/port/80/a/b") == "/api/sandboxes/{sandbox}/port/{port}/{rest}"
    assert ("GET", "/api/none") not in routes()


def test_clients_have_no_dependencies():
    assert re.search(r"^dependencies = \[\]$", (ROOT / "clients/python/pyproject.toml").read_text(), re.M)
    package = (ROOT / "clients/typescript/package.json").read_text()
    assert '"dependencies"' not in package
    imports = set(re.findall(r"from '([^']+)'", source("clients/typescript/src", "*.ts")))
    assert all(name.startswith("./") for name in imports), imports
