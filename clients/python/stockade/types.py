"""The shapes of answers. A server that is newer than this client may say more: members that are not named here are there
all the same."""
from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union


class Challenge(TypedDict):
    nonce: str
    message: str
    expires_at: int
    expires_at_ms: int


class Session(TypedDict):
    token: str
    address: str
    owner: str
    expires_at: int
    expires_at_ms: int
    expires: str


class WhoAmI(TypedDict):
    owner: str
    address: str
    operator: bool
    jti: str
    expires_at_ms: int


State = Literal["creating", "starting", "running", "paused", "stopping", "stopped", "quarantined", "failed", "deleting",
                "deleted"]


class SandboxInfo(TypedDict, total=False):
    id: str
    owner: str
    name: str
    state: State
    reason: str
    profile: str
    driver: str
    driver_why: str
    image: str
    persistent: bool
    created_ms: int
    started_ms: int
    ended_ms: int
    used_ms: int
    cwd: str
    policy: str


class RunInfo(TypedDict, total=False):
    sandbox: str
    run: int
    state: str
    reason: str
    exit_code: Optional[int]
    signal: Optional[int]
    tty: bool
    started_ms: int
    ended_ms: int
    cpu_us: int
    memory_peak: int
    out_bytes: int
    err_bytes: int


class Usage(TypedDict, total=False):
    sandbox: str
    cpu_us: int
    memory: int
    memory_peak: int
    processes: int
    read_bytes: Optional[int]
    write_bytes: Optional[int]
    disk_used: Optional[int]
    disk_size: Optional[int]


class Entry(TypedDict, total=False):
    name: str
    kind: Literal["file", "folder", "link", "pipe", "socket", "device", "other"]
    size: int
    mode: int
    mtime_ms: int
    uid: int
    gid: int
    target: str
    etag: str  # of a file, from stat: another one when it is changed


class Change(TypedDict, total=False):
    change: Literal["made", "removed", "changed", "attributes", "moved", "lost"]
    path: str
    to: str


class SecretName(TypedDict):
    name: str
    given: bool


class SshKey(TypedDict, total=False):
    fingerprint: str
    type: str
    username: str
    comment: str
    created_ms: int


class Snapshot(TypedDict, total=False):
    id: str
    name: str
    sandbox: str
    owner: str
    state: str
    created_ms: int
    bytes: int
    layers: int
    root: Optional[str]  # where its files are inside


class Diff(TypedDict, total=False):
    added: int
    changed: int
    removed: int
    truncated: bool
    changes: List[Dict[str, Any]]


class CapabilityToken(TypedDict, total=False):
    jti: str
    about: str
    created_at_ms: int
    expires_at_ms: int
    last_use_ms: Optional[int]
    revoked: bool
    grant: Dict[str, Any]


Signal = Union[int, str]


class Section(TypedDict):
    title: str
    sentences: List[str]


class Summary(TypedDict, total=False):
    """What a sandbox with a policy may do."""
    summary: List[str]
    sections: List[Section]
    limits: Dict[str, Optional[int]]
    network: List[str]
    programs: Optional[List[str]]
    secrets: List[str]
    effective: Dict[str, Any]


class Profile(Summary, total=False):
    name: str
    about: str
    builtin: bool
    standard: bool
    ok: bool
    error: str
    hint: Optional[str]
    extends: Optional[str]
    sealed: bool


class ProfileKey(TypedDict, total=False):
    key: str
    type: str
    form: str
    unit: str
    min: str
    max: str
    min_value: int
    max_value: int
    choices: List[str]
    enforced: bool
    about: str


class ProfileProblem(TypedDict):
    field: str
    code: str
    error: str
    hint: Optional[str]


class ProfileCheck(Summary, total=False):
    ok: bool
    problems: List[ProfileProblem]
    profile: str
    persistent: bool
    cwd: str


class Sample(TypedDict):
    """What a sandbox used at one moment; None where the host does not say."""
    at_ms: int
    cpu_us: Optional[int]
    memory: Optional[int]
    io_read: Optional[int]
    io_write: Optional[int]
    net_in: Optional[int]
    net_out: Optional[int]
    processes: Optional[int]
    disk: Optional[int]


class UsageHistory(TypedDict):
    sandbox: str
    running: bool
    every_ms: int
    limits: Dict[str, Optional[int]]
    samples: List[Sample]


class EventPage(TypedDict):
    events: List[Dict[str, Any]]
    next: Optional[int]
    looked: int
