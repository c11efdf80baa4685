"""Narrowing a capability: whoever holds one makes a narrower one without asking anybody. Nobody can widen it."""
from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime, timezone
from typing import Any, Dict, Optional, Sequence

_PURPOSE = b"stockade capability limit 1\n"


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def narrow(token: str, *, verbs: Optional[Sequence[str]] = None, resources: Optional[Sequence[str]] = None,
           expires: Optional[datetime] = None) -> str:
    """A token for no more than these verbs and resources, and no longer than this."""
    parts = token.split(".")
    if parts[0] != "stockade-cap1" or len(parts) < 4:
        raise ValueError("this is no capability")
    limit: Dict[str, Any] = {}
    if verbs is not None:
        limit["verbs"] = list(verbs)
    if resources is not None:
        limit["resources"] = list(resources)
    if expires is not None:
        limit["exp"] = expires.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    data = json.dumps(limit, separators=(",", ":")).encode()
    tag = hashlib.blake2b(_PURPOSE + data, digest_size=32, key=_decode(parts[-1])).digest()
    return ".".join([*parts[:-1], _encode(data), _encode(tag)])
