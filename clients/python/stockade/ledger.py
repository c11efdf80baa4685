"""What happened, from the ledger."""
from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence

from .errors import StreamEnded
from .sse import events
from .transport import Params, Query, Response, Transport

_PATIENCE = 60.0  # seconds without a connection before it is given up


class LedgerEvent(NamedTuple):
    seq: int
    kind: str
    data: Dict[str, Any]


def ledger_events(transport: Transport, method: str, template: str, params: Params, after: Optional[int],
                  kinds: Sequence[str], follow: bool) -> Iterator[LedgerEvent]:
    """It listens when this returns. Goes on by itself where it was when the connection breaks. A refusal, also of a session
    that has ended meanwhile, is raised."""
    def connect(last: Optional[int]) -> Response:
        query: Query = {"kinds": ",".join(kinds) or None, "follow": None if follow else False,
                        "from": None if follow or last is not None else 0}
        head = {} if last is None else {"Last-Event-ID": str(last)}
        return transport.open(method, template, params, query=query, headers=head, timeout=None)

    return _listen(connect(after), connect, after, follow)


def _listen(response: Optional[Response], connect: Callable[[Optional[int]], Response], last: Optional[int],
            follow: bool) -> Iterator[LedgerEvent]:
    broken_since: Optional[float] = None
    while True:
        try:
            response = response or connect(last)
            for event in events(response):
                broken_since = None
                if event.name == "end":
                    return
                last = int(event.data["seq"])
                yield LedgerEvent(last, event.name, event.data)
            raise StreamEnded("the stream was cut")
        except OSError:
            response, now = None, time.monotonic()
            broken_since = broken_since if broken_since is not None else now
            if not follow or now - broken_since > _PATIENCE:
                raise
            time.sleep(min(0.1 + (now - broken_since) / 4, 5))
