"""Server-sent events."""
from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from .errors import StockadeError
from .transport import Response

_EVENT_MAX = 4 << 20  # bytes of a line, and of all lines of an event


class ServerEvent(NamedTuple):
    name: str
    data: Any
    id: Optional[str]


def _lines(response: Response) -> Iterator[str]:
    rest = bytearray()
    while data := response.read(1 << 16):
        first, *others = data.split(b"\n")
        rest += first
        for line in others:
            yield rest.rstrip(b"\r").decode("utf-8", "replace")
            rest = bytearray(line)
        if len(rest) > _EVENT_MAX:
            raise StockadeError.bad_answer(0, f"a line of the stream is longer than {_EVENT_MAX >> 20} MiB")


def _object(text: str) -> Dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StockadeError.bad_answer(0, "an event of the stream is no JSON object")
    return found


def events(response: Response) -> Iterator[ServerEvent]:
    """What a stream says, until it ends. An event called error is raised."""
    name, ident = "message", None
    data: List[str] = []
    size = 0
    try:
        for line in _lines(response):
            if not line:
                if data:
                    found = _object("\n".join(data))
                    if name == "error":
                        raise StockadeError.of(0, found)
                    yield ServerEvent(name, found, ident)
                name, data, size = "message", [], 0
                continue
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
                size += len(value) + 1
                if size > _EVENT_MAX:
                    raise StockadeError.bad_answer(0, f"an event of the stream is larger than {_EVENT_MAX >> 20} MiB")
            elif field == "id":
                ident = value
    finally:
        response.close()
