"""Files of a sandbox."""
from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Optional, Tuple, Union, cast

from .errors import StreamEnded
from .sse import events
from .transport import Body, Response, Transport
from .types import Change, Entry

_SPOOL = 8 << 20
_TREE_MAX = 16 << 30
_HEADERS_MAX = 256 << 10  # of one member of an archive: names, and what else tar writes before it
_PIECE = 1 << 16


class Files:
    def __init__(self, transport: Transport, sandbox: str) -> None:
        self._t, self._at = transport, {"sandbox": sandbox}

    def list(self, path: str) -> List[Entry]:
        """What is in a folder."""
        response = self._t.open("GET", "/api/sandboxes/{sandbox}/files", self._at, query={"path": path})
        if not _is_folder(response):
            response.close()
            raise NotADirectoryError(path)
        return cast(List[Entry], response.json()["entries"])

    def open(self, path: str, span: Optional[Tuple[int, Optional[int]]] = None) -> Response:
        """A file, to be read while it comes; span: first and last byte."""
        head: Dict[str, str] = {}
        if span is not None:
            head["Range"] = f"bytes={span[0]}-{'' if span[1] is None else span[1]}"
        response = self._t.open("GET", "/api/sandboxes/{sandbox}/files", self._at, query={"path": path}, headers=head)
        if _is_folder(response):
            response.close()
            raise IsADirectoryError(path)
        return response

    def read(self, path: str, span: Optional[Tuple[int, Optional[int]]] = None) -> bytes:
        with self.open(path, span) as response:
            return response.read()

    def write(self, path: str, data: Union[str, Body], mode: Optional[int] = None, etag: Optional[str] = None) -> int:
        """Writes a file: it appears whole or not at all. Data can be read from an open file, or come in pieces. With the
        etag of stat only if the file is still what it was, else it is refused as CHANGED."""
        body = data.encode() if isinstance(data, str) else data
        query = {"path": path, "mode": None if mode is None else f"{mode:04o}"}
        head = {} if etag is None else {"If-Match": f'"{etag}"'}
        taken = self._t.open("PUT", "/api/sandboxes/{sandbox}/files", self._at, query=query, data=body, headers=head)
        return int(taken.json()["bytes"])

    def remove(self, path: str, recursive: bool = False) -> None:
        self._t.call("DELETE", "/api/sandboxes/{sandbox}/files", self._at,
                     query={"path": path, "recursive": recursive or None})

    def stat(self, path: str) -> Entry:
        return cast(Entry, self._t.call("GET", "/api/sandboxes/{sandbox}/files/stat", self._at, query={"path": path}))

    def move(self, path: str, to: str) -> None:
        self._t.call("POST", "/api/sandboxes/{sandbox}/files/move", self._at, body={"path": path, "to": to})

    def make_folder(self, path: str, mode: Optional[int] = None, parents: bool = False) -> None:
        self._t.call("POST", "/api/sandboxes/{sandbox}/files/folder", self._at,
                     body={"path": path, "mode": mode, "recursive": parents or None})

    def tar(self, path: str) -> Response:
        """Everything below a folder, as a tar archive that is read while it comes."""
        return self._t.open("GET", "/api/sandboxes/{sandbox}/files/archive", self._at, query={"path": path})

    def untar(self, path: str, archive: Body) -> int:
        """Unpacks a tar archive below a folder. Nothing in it can lead outside."""
        taken = self._t.open("PUT", "/api/sandboxes/{sandbox}/files/archive", self._at, query={"path": path}, data=archive)
        return int(taken.json()["bytes"])

    def upload_tree(self, local: Union[str, Path], path: str) -> None:
        """The contents of a folder of this machine, into a folder of the sandbox."""
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as spool:
            with tarfile.open(fileobj=cast(IO[bytes], spool), mode="w", format=tarfile.PAX_FORMAT) as tar:
                for child in sorted(Path(local).iterdir()):
                    tar.add(child, child.name)
            spool.seek(0)
            self.untar(path, cast(IO[bytes], spool))

    def download_tree(self, path: str, local: Union[str, Path], limit: int = _TREE_MAX) -> None:
        """The other way. What the sandbox wrote is not trusted: only files and folders are taken, none that would lie
        elsewhere, no rights that the umask holds back, and no more than so many bytes in all."""
        target = Path(local).resolve()
        target.mkdir(parents=True, exist_ok=True)
        with self.tar(path) as response:
            source = _Source(response, limit)
            tar = tarfile.TarFile(fileobj=cast(IO[bytes], source), mode="r")
            while (member := _next(tar, source)) is not None:
                parts = Path(member.name).parts
                if member.name.startswith("/") or ".." in parts:
                    raise ValueError(f"the archive has a member that leads outside: {member.name!r}")
                where = target.joinpath(*parts)
                if not where.parent.resolve().is_relative_to(target):
                    raise ValueError(f"there is a link on the way to {member.name!r}")
                if member.issparse():
                    raise ValueError(f"the archive has a file with holes: {member.name!r}")
                if member.isdir():
                    where.mkdir(parents=True, exist_ok=True)
                elif member.isfile():
                    where.parent.mkdir(parents=True, exist_ok=True)
                    source.allow(member.size)
                    _write(where, tar, member)

    def watch(self, path: str, recursive: bool = False) -> Iterator[Change]:
        """What changes below a folder, for as long as one listens. When this returns, nothing later is missed."""
        stream = events(self._t.open("GET", "/api/sandboxes/{sandbox}/files/watch", self._at, timeout=None,
                                     query={"path": path, "recursive": recursive or None}))
        first = next(stream, None)
        if first is None or first.name != "opened":
            raise StreamEnded("the stream was cut before it began")
        return (cast(Change, event.data) for event in stream)


def _is_folder(response: Response) -> bool:
    """A file that happens to be JSON is sent as an attachment; a list of a folder is not."""
    return response.headers.get_content_type() == "application/json" and "content-disposition" not in response.headers


class _Source:
    """What tarfile reads from: forwards only, never more at once than was allowed, and no more than a limit in all."""

    def __init__(self, source: Response, limit: int) -> None:
        self._source, self._limit, self._at = source, limit, 0
        self._allowed = _HEADERS_MAX

    def allow(self, size: int) -> None:
        """How much may be read from here on; what is skipped does not count."""
        self._allowed = size

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def seek(self, to: int) -> None:
        while self._at < to and self._take(min(to - self._at, _PIECE)):
            pass
        if self._at != to:
            raise ValueError("the archive ends in the middle, or is damaged")

    def read(self, size: int) -> bytes:
        self._allowed -= size
        if self._allowed < 0 or size < 0:
            raise ValueError("the archive has a header that is too large")
        data = bytearray()
        while len(data) < size and (piece := self._take(min(size - len(data), _PIECE))):
            data += piece
        return bytes(data)

    def _take(self, size: int) -> bytes:
        data = self._source.read(size)
        self._at += len(data)
        if self._at > self._limit:
            raise ValueError(f"the archive is larger than {self._limit} bytes")
        return data


def _next(tar: tarfile.TarFile, source: _Source) -> Optional[tarfile.TarInfo]:
    """The next member. Nothing is kept of those before: there may be many."""
    source.allow(_HEADERS_MAX)
    member = tar.next()
    kept = cast(Any, tar)
    kept.members.clear()
    kept.pax_headers.clear()
    return member


def _write(where: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """A new file in place of whatever was there: never through a link."""
    if where.is_symlink() or where.exists():
        where.unlink()
    source = tar.extractfile(member)
    assert source is not None
    # the mode is given when it is made, so that the umask counts
    with open(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, member.mode & 0o777), "wb") as out:
        while piece := source.read(_PIECE):
            out.write(piece)
