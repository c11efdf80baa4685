"""HTTP, with what the standard library has. Connections are kept and used again; one that the server has closed meanwhile
is noticed before anything is sent on it, so that no request is ever sent twice."""
from __future__ import annotations

import http.client
import io
import ipaddress
import json
import select
import ssl
import threading
from typing import IO, Any, Dict, Iterable, Iterator, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import StockadeError, StreamEnded

Body = Union[bytes, bytearray, memoryview, IO[bytes], Iterable[bytes]]
Params = Mapping[str, Union[str, int]]
Query = Mapping[str, Union[str, int, bool, None]]

_IDLE_MAX = 8
_JSON_MAX = 64 << 20


def fill(template: str, params: Params) -> str:
    """/api/sandboxes/{sandbox} with its names replaced. What stands for a name stays one segment."""
    path = template
    for name, value in params.items():
        text = str(value)
        if text in ("", ".", ".."):
            raise ValueError(f"'{text}' is no {name}")
        path = path.replace("{" + name + "}", quote(text, safe=""))
    return path


def with_query(path: str, query: Optional[Query]) -> str:
    words = {k: ("true" if v else "false") if isinstance(v, bool) else str(v)
             for k, v in (query or {}).items() if v is not None}
    return f"{path}?{urlencode(words, quote_via=quote)}" if words else path


def split_origin(url: str, what: str) -> Tuple[str, str, int]:
    """Scheme, host and port. What is wrong is said without the URL: there may be a secret in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as e:
        raise ValueError(f"{what} is no http:// or https:// address") from e
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise ValueError(f"{what} is no http:// or https:// address, or has a user in it")
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Response(io.RawIOBase):
    """An answer that is still being sent. Read it, or close it; read to its end, its connection is used again."""

    def __init__(self, transport: "Transport", connection: http.client.HTTPConnection,
                 response: http.client.HTTPResponse) -> None:
        super().__init__()
        self._transport, self._connection, self._response = transport, connection, response
        self.status = response.status
        self.headers = response.headers

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Once, as much as has come; 0 at the end. An answer that was cut short is an error, not an end."""
        if self._response.isclosed() or len(buffer) == 0:
            return 0
        left = self._response.length  # None where the end is not known beforehand
        try:
            data = self._response.read1(len(buffer)) if left is None else self._response.read(min(len(buffer), left))
        except (http.client.HTTPException, OSError) as e:
            self.close()
            raise StreamEnded(f"the answer was cut short: {e}") from e
        if not data and left:
            self.close()
            raise StreamEnded(f"the answer was cut short: {left} bytes are missing")
        buffer[:len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """What has come, at most so much of it; b"" at the end. Without a size, all of it."""
        return super().read(size) or b""

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        whole = self._response.isclosed() and not self._response.will_close
        self._response.close()
        if whole:
            self._transport.put_back(self._connection)
        else:
            self._connection.close()

    def object(self) -> Optional[Dict[str, Any]]:
        """The JSON object that it is; None if it is none."""
        data = bytearray()
        try:
            while piece := self.read(1 << 16):
                data += piece
                if len(data) > _JSON_MAX:
                    raise StockadeError.bad_answer(self.status, f"the answer is larger than {_JSON_MAX >> 20} MiB")
            found = json.loads(data)
            return found if isinstance(found, dict) else None
        except (ValueError, RecursionError):
            return None
        finally:
            self.close()

    def json(self) -> Any:
        """The same where nothing else will do."""
        found = self.object()
        if found is None and self.status != 204:
            raise StockadeError.bad_answer(
                self.status, f"the answer ({self.status}, {self.headers.get('content-type', 'of no type')[:100]}) is not the "
                             "JSON object that it should be")
        return found

    def refusal(self) -> StockadeError:
        """Why it is not what was asked for."""
        if 300 <= self.status < 400:
            self.close()
            return StockadeError.redirected(self.status, self.headers.get("location"))
        return StockadeError.of(self.status, self.object(), self.headers.get("x-request-id", ""))


class Transport:
    def __init__(self, url: str, timeout: float, context: Optional[ssl.SSLContext], insecure_http: bool = False) -> None:
        self.scheme, self.host, self.port = split_origin(url, "the URL")
        if self.scheme == "http" and not insecure_http and not _is_here(self.host):
            raise ValueError(f"http:// to '{self.host}': everybody on the way could read the token. Use https://, or say "
                             "insecure_http=True")
        self.timeout = timeout
        self.context = (context or ssl.create_default_context()) if self.scheme == "https" else None
        self.token: Optional[str] = None
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """As it stands in Host: headers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"

    def _new(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        if self.scheme == "https":
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def _take(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._new(timeout)
            # an idle connection has nothing to say, unless it has ended
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def put_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def open(self, method: str, template: str, params: Params = {}, *, query: Optional[Query] = None,
             data: Optional[Body] = None, headers: Optional[Mapping[str, str]] = None,
             timeout: Optional[float] = -1) -> Response:
        """Asks, and returns the answer once its head is there; what was refused is raised. timeout -1: the usual one."""
        response = self.send(method, with_query(fill(template, params), query), data, headers, timeout)
        if response.status >= 300:
            raise response.refusal()
        return response

    def call(self, method: str, template: str, params: Params = {}, *, query: Optional[Query] = None,
             body: Optional[Mapping[str, Any]] = None, timeout: Optional[float] = -1) -> Any:
        """The same with JSON, or nothing, both ways. Members of the body that are None are left out."""
        data: Optional[bytes] = b"" if method in ("POST", "PATCH") else None
        headers: Dict[str, str] = {}
        if body is not None:
            data, headers = json_body(body)
        return self.open(method, template, params, query=query, data=data, headers=headers, timeout=timeout).json()

    def send(self, method: str, path: str, body: Optional[Body] = None,
             headers: Optional[Mapping[str, str]] = None, timeout: Optional[float] = -1) -> Response:
        """A path as it is; the answer, whatever its status."""
        head = {"Accept-Encoding": "identity", **(headers or {})}
        if self.token and "Authorization" not in head:
            head["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, memoryview):
            body = bytes(body)
        chunked = body is not None and not isinstance(body, (bytes, bytearray))
        if chunked:
            head["Transfer-Encoding"] = "chunked"
            if hasattr(body, "read"):
                body = _pieces(body)  # type: ignore[arg-type]
        connection = self._take(self.timeout if timeout == -1 else timeout)
        try:
            try:
                connection.request(method, path, body, head, encode_chunked=chunked)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered before it took everything
            return Response(self, connection, connection.getresponse())
        except BaseException:
            connection.close()
            raise


def json_body(body: Mapping[str, Any]) -> Tuple[bytes, Dict[str, str]]:
    return json.dumps({k: v for k, v in body.items() if v is not None}).encode(), {"Content-Type": "application/json"}


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while True:
        piece = source.read(1 << 16)
        if not piece:
            return
        yield piece
