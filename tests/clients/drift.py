"""Which routes the clients know, read from their sources, and which there are, from docs/openapi.yaml. Both clients write a
route as two words in a row: "GET", "/api/sandboxes/{sandbox}"."""
import functools
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
LEFT_OUT = {
    "/": "a page for people",
    "/sign-in": "the same", "/create": "the same", "/sandboxes/": "the same", "/operator/": "the same", "/assets/": "files of the same",
    "/api/sandbox/": "the same as /api/sandboxes/{sandbox}/, of the one sandbox of an instance",
    "/api/local": "for the command line",
}


@functools.lru_cache(None)
def routes():
    """{(method, path)} of the document, without what is left out."""
    paths = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())["paths"]
    found = {(method.upper(), path) for path, of in paths.items() for method in of if method.upper() in METHODS}
    return {(m, p) for m, p in found if p != "/" and not any(p.startswith(out) for out in LEFT_OUT if out != "/")}


def template_of(method, path):
    """The document's path that this one is an instance of. The one with the fewest names wins, as at the server."""
    path = path.split("?")[0]
    fits = []
    for _, template in routes():
        pattern = re.escape(template).replace(r"\{rest\}", ".*")
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern), path):
            fits.append(template)
    return min(fits, key=lambda t: (t.count("{"), t)) if fits else path


def expand(found):
    return {(m, p) for method, p in found for m in (METHODS if method == "ANY" else (method,))}


def routes_in(text):
    """{(method, path)} of a source."""
    return set(re.findall(r"""["'](GET|POST|PUT|PATCH|DELETE|ANY)["'],\s*["'](/[^"']*)["']""", text))


def paths_in(text):
    return {p for p in re.findall(r"""["'](/[^"'\s?]*)["']""", text) if p.startswith(("/api", "/health", "/readyz", "/metrics"))}


def source(folder, pattern):
    return "\n".join(p.read_text() for p in sorted((ROOT / folder).glob(pattern)))


def routes_of_python():
    return routes_in(source("clients/python/stockade", "*.py"))


def routes_of_typescript():
    return routes_in(source("clients/typescript/src", "*.ts"))
