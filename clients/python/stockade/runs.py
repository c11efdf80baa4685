"""Commands in a sandbox: what they print and how they end; terminals."""
from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, cast

from .errors import StockadeError, StreamEnded
from .sse import events
from .transport import Params, Query, Response, Transport, fill, json_body, with_query
from .types import RunInfo, Signal
from .websocket import WebSocket

_SEEN_MAX = 16 << 20


def _bytes(value: Mapping[str, Any], name: str) -> bytes:
    """Text, or where it is no UTF-8 the same as base64 beside it."""
    if f"{name}_base64" in value:
        return base64.b64decode(value[f"{name}_base64"])
    return str(value.get(name, "")).encode()


@dataclass
class Output:
    """A run that has ended, with what it printed."""
    info: RunInfo
    stdout: bytes
    stderr: bytes
    truncated: bool

    @classmethod
    def of(cls, answer: Dict[str, Any]) -> "Output":
        info = {k: v for k, v in answer.items() if k not in ("stdout", "stderr", "stdout_base64", "stderr_base64")}
        return cls(cast(RunInfo, info), _bytes(answer, "stdout"), _bytes(answer, "stderr"), bool(answer.get("truncated")))

    @property
    def exit_code(self) -> Optional[int]:
        return self.info.get("exit_code")

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    def check(self) -> "Output":
        """Itself, if the command ended with 0."""
        if self.exit_code != 0:
            raise CommandFailed(self)
        return self


class CommandFailed(Exception):
    def __init__(self, output: Output) -> None:
        last = output.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        super().__init__(f"ended with {output.exit_code} ({output.info.get('reason')}): {last[0]}")
        self.output = output


class RunEvent(NamedTuple):
    """started (info: the run and where its output begins), stdout and stderr (data), lost (info: how much is missing),
    exit (info: the run)."""
    kind: str
    data: bytes = b""
    info: Dict[str, Any] = {}


def run_events(transport: Transport, method: str, template: str, params: Params, query: Optional[Query] = None,
               body: Optional[Mapping[str, Any]] = None) -> Iterator[RunEvent]:
    """It has begun when this returns. A stream that is over before it said "exit" was cut."""
    data, headers = (None, None) if body is None else json_body(body)
    return _told(transport.open(method, template, params, query=query, data=data, headers=headers, timeout=None))


def _told(response: Response) -> Iterator[RunEvent]:
    for event in events(response):
        if event.name in ("stdout", "stderr", "output"):  # a terminal has one output
            yield RunEvent("stderr" if event.name == "stderr" else "stdout", _bytes(event.data, "data"))
        else:
            yield RunEvent(event.name, b"", event.data)
        if event.name == "exit":
            return
    raise StreamEnded("the stream was cut before the run ended")


class Attachment:
    """A run over a WebSocket. Leaving it does not end the run: whoever attaches again finds it as it is."""

    def __init__(self, transport: Transport, method: str, template: str, params: Params, query: Query) -> None:
        self._ws = WebSocket(transport, method, with_query(fill(template, params), query))
        self.exit: Optional[RunInfo] = None

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[RunEvent]:
        """Until the run ends. StreamEnded if the connection, or the right to have it, ends first."""
        while self.exit is None:
            message = self._ws.receive()
            if message is None:
                raise StreamEnded(f"closed with {self._ws.close_code}", self._ws.close_code)
            if isinstance(message, bytes):
                yield RunEvent("stdout", message)
                continue
            for name, value in json.loads(message).items():
                if name == "refused":
                    raise StockadeError.of(0, value)
                if name == "error_output":
                    yield RunEvent("stderr", _bytes(value, "data"))
                elif name == "exit":
                    self.exit = value
                    yield RunEvent("exit", b"", value)
                else:
                    yield RunEvent("lost" if "lost" in value else name, b"", value)

    def send(self, data: bytes) -> None:
        """What is typed."""
        self._ws.send(bytes(data))

    def resize(self, rows: int, cols: int) -> None:
        self._ws.send(json.dumps({"resize": [rows, cols]}))

    def signal(self, number: int) -> None:
        self._ws.send(json.dumps({"signal": number}))

    def read_until(self, marker: bytes, limit: int = _SEEN_MAX) -> bytes:
        """What was printed, up to the message in which the marker is complete. If more than the limit comes without it, the
        attachment is closed."""
        seen = bytearray()
        for event in self:
            start = max(0, len(seen) - len(marker) + 1)
            seen += event.data
            if seen.find(marker, start) >= 0:
                return bytes(seen)
            if len(seen) > limit:
                self.close()
                raise StreamEnded(f"{len(seen)} bytes came, and {marker!r} was not among them")
        raise StreamEnded(f"the run ended before it printed {marker!r}")

    def close(self) -> None:
        self._ws.close()


class Run:
    """One command, running or not."""

    def __init__(self, transport: Transport, sandbox: str, number: int) -> None:
        self._t, self.sandbox, self.number = transport, sandbox, number
        self._at: Dict[str, Any] = {"sandbox": sandbox, "run": number}

    def info(self) -> RunInfo:
        return cast(RunInfo, self._t.call("GET", "/api/sandboxes/{sandbox}/runs/{run}", self._at))

    def logs(self) -> Output:
        """What it has printed so far, as far as it is kept."""
        return Output.of(self._t.call("GET", "/api/sandboxes/{sandbox}/runs/{run}/logs", self._at))

    def follow(self) -> Iterator[RunEvent]:
        """What is kept of it, and then what it prints, until it ends."""
        return run_events(self._t, "GET", "/api/sandboxes/{sandbox}/runs/{run}/logs", self._at, {"follow": True})

    def stream(self, out: Optional[int] = None, err: Optional[int] = None) -> Iterator[RunEvent]:
        """What it prints from these offsets on; without them from now on."""
        return run_events(self._t, "GET", "/api/sandboxes/{sandbox}/runs/{run}/stream", self._at,
                          {"out": out, "err": err})

    def attach(self, out: Optional[int] = None, err: Optional[int] = None) -> Attachment:
        """Both ways, over a WebSocket."""
        return Attachment(self._t, "GET", "/api/sandboxes/{sandbox}/runs/{run}/ws", self._at, {"out": out, "err": err})

    def signal(self, signal: Signal) -> None:
        self._t.call("POST", "/api/sandboxes/{sandbox}/runs/{run}/signal", self._at, body={"signal": signal})

    def input(self, data: str) -> None:
        self._t.call("POST", "/api/sandboxes/{sandbox}/runs/{run}/input", self._at, body={"data": data})

    def cancel(self) -> RunInfo:
        """Kills everything that belongs to it."""
        return cast(RunInfo, self._t.call("POST", "/api/sandboxes/{sandbox}/runs/{run}/cancel", self._at))

    def wait(self) -> RunInfo:
        """Until it has ended."""
        for event in self.follow():
            if event.kind == "exit":
                return cast(RunInfo, event.info)
        raise StreamEnded("the stream was cut before the run ended")


@dataclass
class Terminal:
    """A shell with a terminal of its own, which is there until it is closed, whoever looks at it."""
    _t: Transport = field(repr=False)
    sandbox: str
    id: str
    title: str = ""

    @property
    def _at(self) -> Dict[str, Any]:
        return {"sandbox": self.sandbox, "run": self.id}

    def attach(self, out: Optional[int] = None) -> Attachment:
        """Over a WebSocket. First comes what it showed last, or everything since the offset `out`."""
        return Attachment(self._t, "GET", "/api/sandboxes/{sandbox}/live/terminal/sessions/{run}/ws", self._at,
                          {"out": out})

    def stream(self, out: Optional[int] = None) -> Iterator[RunEvent]:
        """The same as events, for where WebSockets do not get through; input() is the other direction."""
        return run_events(self._t, "GET", "/api/sandboxes/{sandbox}/live/terminal/sessions/{run}/stream", self._at,
                          {"out": out})

    def input(self, data: str) -> None:
        self._t.call("POST", "/api/sandboxes/{sandbox}/live/terminal/sessions/{run}/input", self._at,
                     body={"data": data})

    def resize(self, rows: int, cols: int) -> None:
        self._t.call("PATCH", "/api/sandboxes/{sandbox}/live/terminal/sessions/{run}", self._at,
                     body={"rows": rows, "cols": cols})

    def close(self) -> None:
        """Ends it, with everything that runs in it."""
        self._t.call("DELETE", "/api/sandboxes/{sandbox}/live/terminal/sessions/{run}", self._at)


class Terminals:
    def __init__(self, transport: Transport, sandbox: str) -> None:
        self._t, self._sandbox = transport, sandbox

    def create(self, command: Optional[str] = None, *, cwd: Optional[str] = None, rows: int = 24, cols: int = 80,
               env: Optional[Mapping[str, str]] = None) -> Terminal:
        """Without a command: a login shell."""
        made = self._t.call("POST", "/api/sandboxes/{sandbox}/live/terminal/sessions", {"sandbox": self._sandbox},
                            body={"command": command, "cwd": cwd, "rows": rows, "cols": cols, "env": env})
        return Terminal(self._t, self._sandbox, made["session_id"], made.get("title", ""))

    def list(self) -> List[Terminal]:
        found = self._t.call("GET", "/api/sandboxes/{sandbox}/live/terminal/sessions", {"sandbox": self._sandbox})
        return [Terminal(self._t, self._sandbox, s["session_id"], s.get("title", "")) for s in found["sessions"]]
