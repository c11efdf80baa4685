"""A stream on which nothing happens says so now and then, from its beginning: whoever listens notices that the other end is gone."""
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import harness

EVERY = 15  # seconds: ALIVE_MS of src/api/views.c


def first_comment(web, path):
    """What was sent up to the first comment. The connection gives up long before the hour that a route may take."""
    c, response = web.open(path, timeout=3 * EVERY)
    try:
        assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream"), response.status
        lines = []
        while True:
            line = response.readline()
            assert line, f"it ended after {lines}"
            if line.startswith(b":"):
                return lines
            lines.append(line)
    finally:
        response.close()
        c.close()


def test_every_kind_of_stream(alice, box):
    path = f"/api/sandboxes/{box}"
    run = alice.post(f"{path}/exec", {"argv": ["sleep", "300"], "background": True}).json
    terminal = alice.post(f"{path}/live/terminal/sessions", {"command": "sleep 300"})
    assert terminal.status == 200, terminal
    home = alice.post(f"{path}/exec", {"command": "pwd"}).json["stdout"].strip()
    runs = [r["run"] for r in alice.get(f"{path}/runs").json["runs"] if r["state"] == "running"]
    streams = [f"{path}/events?kinds=none", "/api/events?kinds=none", f"{path}/files/watch?path={quote(home)}",
               *(f"{path}/runs/{n}/stream" for n in runs)]
    try:
        assert len(runs) == 2 and run["run"] in runs, runs
        with ThreadPoolExecutor(len(streams)) as pool:
            for found in pool.map(lambda p: first_comment(alice, p), streams):
                assert b"event: error\n" not in found
    finally:
        for n in runs:
            alice.post(f"{path}/runs/{n}/cancel")
        harness.until(lambda: not [r for r in alice.get(f"{path}/runs").json["runs"] if r["state"] == "running"])
