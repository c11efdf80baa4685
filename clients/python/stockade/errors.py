"""What can go wrong. Whatever the server refuses, or says that makes no sense, is a StockadeError with a code, a message and
a hint."""
from __future__ import annotations

from typing import Any, Mapping, Optional


class StockadeError(Exception):
    """The server said no; or it said what cannot be used, and then the code is ours:

    BAD_CHALLENGE  a text to be signed that is not about signing in here; REDIRECTED  an answer that points elsewhere;
    BAD_ANSWER     something else than what the API has

    code     for programs: NOT_FOUND, CONFLICT, NO_TOKEN, …
    message  what is wrong, for a person
    hint     the next step, or ""
    status   of HTTP; 0 if it was said in the middle of a stream
    """

    def __init__(self, status: int, code: str, message: str, hint: str = "", retry_after_ms: Optional[int] = None,
                 request_id: str = "") -> None:
        super().__init__(f"{code}: {message}" + (f" ({hint})" if hint else ""))
        self.status, self.code, self.message, self.hint = status, code, message, hint
        self.retry_after_ms, self.request_id = retry_after_ms, request_id

    @classmethod
    def of(cls, status: int, body: Any, request_id: str = "") -> "StockadeError":
        """From a body of the form that all errors have; anything else came from somebody in between."""
        if not isinstance(body, Mapping) or not isinstance(body.get("code"), str):
            return cls(status, "UNKNOWN", f"the answer is {status} without a reason", "", None, request_id)
        return cls(status, body["code"], str(body.get("error", "")), str(body.get("hint", "")),
                   body.get("retry_after_ms"), request_id)

    @classmethod
    def redirected(cls, status: int, location: Optional[str]) -> "StockadeError":
        """Never followed: the token is for nobody else."""
        where = repr(location[:200]) if location else "a place that it does not name"
        return cls(status, "REDIRECTED", f"the answer is {status} and points to {where}, where we do not go",
                   "use that as the URL if it is the right server")

    @classmethod
    def bad_answer(cls, status: int, what: str) -> "StockadeError":
        return cls(status, "BAD_ANSWER", what, "is this the URL of a Stockade server?")


class StreamEnded(ConnectionError):
    """A stream was cut before it said how it ended: the connection broke, or the session was revoked."""

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = code  # of a WebSocket's close; 1008: not permitted any more
