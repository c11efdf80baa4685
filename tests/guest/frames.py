"""Frames of the guest's protocol (docs/protocol/guest.md), written and read by a second hand: nothing is shared with
the C code, so that a mistake there shows here."""
import struct

VERSION = 1
HEAD = 16
PAYLOAD_MAX = 256 * 1024
DATA_MAX = 64 * 1024
WINDOW = 64 * 1024
RING = 64 * 1024
SCROLLBACK = 256 * 1024
RUNS_MAX = 512
REQUESTS_MAX = 64
OUT, ERR, TTY, IN, OF_REQUEST = range(5)
TERMINAL, STDIN, RECURSIVE, PARENTS, TO_GROUP, ENDED, NO_REPLACE, OPEN, KILL = (1 << i for i in range(9))
MADE, REMOVED, CHANGED, ATTRIBUTES, MOVED, LOST = range(1, 7)
TO_END = 2**64 - 1

# Of each kind: its number and its fields. H, I, Q, i are numbers as in struct; s is a text; * is the rest of the
# frame; words are argument and environment lists.
_USED = [("user_us", "Q"), ("system_us", "Q"), ("memory_peak", "Q")]
_OLDEST = [(f"oldest{i}", "Q") for i in range(3)]
_NEWEST = [(f"newest{i}", "Q") for i in range(3)]
_PATH = [("path", "s")]
KINDS = {
    "hello": (1, [("version", "I"), ("features", "I")]),
    "data": (2, [("data", "*")]),
    "credit": (3, [("stream", "I"), ("offset", "Q")]),
    "exec": (16, [("rows", "H"), ("cols", "H"), ("fds", "I"), ("path", "s"), ("words", "words")]),
    "input": (17, [("data", "*")]),
    "input-end": (18, []),
    "signal": (19, [("number", "i")]),
    "resize": (20, [("rows", "H"), ("cols", "H")]),
    "attach": (21, [("stream", "I"), ("offset", "Q")]),
    "forget": (22, []),
    "list-runs": (23, []),
    "stat": (32, _PATH),
    "list": (33, _PATH),
    "read": (34, [("offset", "Q"), ("length", "Q"), ("path", "s")]),
    "write": (35, [("mode", "I"), ("path", "s")]),
    "mkdir": (36, [("mode", "I"), ("path", "s")]),
    "move": (37, [("path", "s"), ("target", "s")]),
    "remove": (38, _PATH),
    "tar-out": (39, _PATH),
    "tar-in": (40, _PATH),
    "watch": (41, _PATH),
    "connect": (42, [("port", "H")]),
    "processes": (43, []),
    "usage": (44, _PATH),
    "finish": (45, []),
    "cancel": (46, []),
    "write-if": (47, [("mode", "I"), ("size", "Q"), ("time_ms", "Q"), ("inode", "Q"), ("path", "s")]),
    "leaf-end": (48, [("run", "I")]),
    "started": (64, [("number", "i")]),
    "output": (65, [("stream", "I"), ("offset", "Q"), ("data", "*")]),
    "exited": (66, [("number", "i"), ("error", "i"), *_USED, *_NEWEST, ("text", "s")]),
    "run": (67, [("run", "I"), ("number", "i"), ("error", "i"), ("length", "Q"), ("offset", "Q"), *_USED, *_OLDEST, *_NEWEST]),
    "entry": (68, [("mode", "I"), ("size", "Q"), ("time_ms", "Q"), ("inode", "Q"), ("uid", "I"), ("gid", "I"),
                   ("path", "s"), ("target", "s")]),
    "change": (69, [("number", "i"), ("mode", "I"), ("path", "s"), ("target", "s")]),
    "opened": (70, []),
    "process": (71, [("number", "i"), ("parent", "i"), ("mode", "I"), ("uid", "I"), ("size", "Q"), ("time_ms", "Q"),
                     *_USED[:2], ("text", "s")]),
    "end": (72, [("error", "i"), ("bytes", "Q"), ("bytes_free", "Q"), ("inodes", "Q"), ("inodes_free", "Q"),
                 ("text", "s")]),
}
NAMES = {number: name for name, (number, _) in KINDS.items()}


def as_bytes(text):
    return text if isinstance(text, bytes) else str(text).encode()


def raw(kind, channel, payload=b"", flags=0, size=None):
    """A frame of these parts, right or wrong."""
    return struct.pack("<IHHII", len(payload) if size is None else size, kind, 0, channel, flags) + payload


def _text(value):
    value = as_bytes(value)
    return struct.pack("<I", len(value)) + value + b"\0"


def _field(form, value):
    if form == "s":
        return _text(value if value is not None else b"")
    if form == "*":
        return bytes(value)
    if form == "words":
        argv, env = value
        return struct.pack("<II", len(argv), len(env)) + b"".join(map(_text, [*argv, *env]))
    return struct.pack("<" + form, value or 0)


def frame(kind, channel=0, flags=0, **fields):
    """A frame by its kind's name; numbers that are not given are 0."""
    number, forms = KINDS[kind]
    unknown = set(fields) - {name for name, _ in forms}
    assert not unknown, unknown
    return raw(number, channel, b"".join(_field(form, fields.get(name)) for name, form in forms), flags)


class Message:
    """One frame, read: kind, channel, flags and the fields of its kind."""

    def __init__(self, kind, channel, flags):
        self.kind, self.channel, self.flags = kind, channel, flags

    def __repr__(self):
        return " ".join(f"{k}={v if not isinstance(v, bytes) or len(v) < 60 else v[:60]!r}"
                        for k, v in vars(self).items())


def parse(head, payload):
    size, number, zero, channel, flags = struct.unpack("<IHHII", head)
    assert size == len(payload) and zero == 0 and number in NAMES, (size, number, zero)
    message = Message(NAMES[number], channel, flags)
    at = 0
    for name, form in KINDS[message.kind][1]:
        if form == "s":
            (n,) = struct.unpack_from("<I", payload, at)
            value = payload[at + 4:at + 4 + n]
            assert payload[at + 4 + n:at + 5 + n] == b"\0" and b"\0" not in value
            at += 5 + n
        elif form == "*":
            value, at = payload[at:], len(payload)
        elif form == "words":
            raise AssertionError("a guest says exec")
        else:
            (value,) = struct.unpack_from("<" + form, payload, at)
            at += struct.calcsize("<" + form)
        setattr(message, name, value)
    assert at == len(payload), "bytes after the end of a frame"
    check(message)
    return message


FLAGS = {"exited": OPEN, "run": TERMINAL | STDIN | ENDED | OPEN}


def check(m):
    """What no frame from a guest may be."""
    assert (m.channel == 0) == (m.kind == "hello")
    assert m.flags & ~FLAGS.get(m.kind, 0) == 0
    assert -4096 < getattr(m, "error", 0) <= 0
    assert all(byte >= 0x20 and byte != 0x7f for byte in getattr(m, "text", b""))
    assert m.kind != "started" or m.number > 0
    assert m.kind != "hello" or m.version > 0
    assert m.kind not in ("data", "output") or 0 < len(m.data) <= DATA_MAX
    assert m.kind != "output" or m.stream in (OUT, ERR, TTY)
