"""Profiles: what a sandbox may do, before there is one."""
from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, cast

from .transport import Transport
from .types import Profile, ProfileCheck, ProfileKey


class Profiles:
    def __init__(self, transport: Transport) -> None:
        self._t = transport

    def list(self) -> List[Profile]:
        """Those that can be named, each with what a sandbox with it may do, in sentences."""
        return cast(List[Profile], self._t.call("GET", "/api/profiles")["profiles"])

    def schema(self) -> List[ProfileKey]:
        """The keys that overrides may have, with the bounds that hold on this host."""
        return cast(List[ProfileKey], self._t.call("GET", "/api/profiles/schema")["keys"])

    def check(self, profile: Optional[str] = None, *, profile_text: Optional[str] = None,
              overrides: Optional[Mapping[str, str]] = None, allow: Optional[Sequence[str]] = None,
              image: Optional[str] = None, memory_only: Optional[bool] = None) -> ProfileCheck:
        """What would come of these wishes, or what is wrong with which of them. Nothing is made."""
        return cast(ProfileCheck, self._t.call("POST", "/api/profiles/check", body={
            "profile": profile, "profile_text": profile_text, "overrides": overrides,
            "allow": None if allow is None else list(allow), "image": image, "memory_only": memory_only}))
