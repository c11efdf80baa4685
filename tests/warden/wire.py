"""The warden's messages, written from docs/protocol/warden.md alone."""
import array
import os
import socket
import struct

KINDS = {name: i for i, name in enumerate(
    "hello list start connect network keep-key leaf leaf-end usage freeze thaw stop cut gate disk-make disk-drop disk-clone "
    "disk-space diff export import flatten image image-drop pool down read paper".split(), 1)}
KINDS.update({name: i for i, name in enumerate("answer item gone gate-gone pressure end".split(), 100)})
NAMES = {v: k for k, v in KINDS.items()}

USAGE = ("cpu_us memory_now memory_peak processes_now processes_peak read_bytes write_bytes oom_kills fork_refusals "
         "throttled_us").split()
_USAGE = [(f"usage.{n}", "q") for n in USAGE]
_NUMBERS = [(f"numbers.{i}", "q") for i in range(6)]
FIELDS = {
    "hello": [("version", "i")],
    "list": [],
    "start": [("id", "s"), ("driver", "i"), ("disk", "s"), ("image", "s"), ("layers", "l")],
    "leaf": [("id", "s"), ("run", "i")], "leaf-end": [("id", "s"), ("run", "i")], "usage": [("id", "s"), ("run", "i")],
    "gate": [("slot", "i")],
    "disk-make": [("id", "s"), ("size", "q"), ("inodes", "q"), ("owner", "q")],
    "disk-clone": [("id", "s"), ("target", "s"), ("patience", "q")],
    "diff": [("image", "s"), ("split", "i"), ("layers", "l")],
    "export": [("image", "s"), ("layers", "l")],
    "read": [("image", "s"), ("layers", "l")],
    "import": [("id", "s"), ("size", "q"), ("inodes", "q")],
    "flatten": [("target", "s"), ("image", "s"), ("size", "q"), ("inodes", "q"), ("layers", "l")],
    "image": [("id", "s"), ("size", "q"), ("inodes", "q"), ("text", "s")],
    "pool": [("size", "q"), ("inodes", "q"), ("numbers.0", "q")],
    "down": [],
    "paper": [("paper", "i")],
    "answer": [("error", "e"), ("version", "i"), ("pid", "q"), ("start_time", "q")] + _NUMBERS + _USAGE +
              [("text", "s"), ("hint", "s")],
    "item": [("item", "i"), ("id", "s"), ("slot", "i"), ("pid", "q"), ("start_time", "q"), ("driver", "i"), ("disk", "s"),
             ("image", "s"), ("layers", "l")] + _NUMBERS,
    "gone": [("id", "s"), ("error", "e")] + _USAGE,
    "gate-gone": [("slot", "i")],
    "pressure": [("numbers.0", "q"), ("numbers.1", "q")],
    "end": [],
}
for _name in "connect network keep-key freeze thaw stop cut disk-drop disk-space image-drop".split():
    FIELDS[_name] = [("id", "s")]

AUTHORITY, KILL, FROZEN, READONLY, NETWORKED, ROOTLESS, NO_FREEZE, IN_USE, ABANDON, DURABLE = (1 << i for i in range(10))
SANDBOX, DISK, IMAGE, GATE = range(4)
NEVER = (1 << 64) - 1


def text(s):
    raw = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(raw)) + raw + b"\0"


def pack(kind, serial, flags=0, **values):
    out = struct.pack("<III", KINDS[kind], serial, flags)
    for name, shape in FIELDS[kind]:
        value = values.pop(name.replace(".", "_"), None)
        if shape == "s":
            out += text(value or "")
        elif shape == "l":
            out += struct.pack("<I", len(value or ())) + b"".join(text(v) for v in value or ())
        else:
            out += struct.pack("<Q" if shape == "q" else "<I", value or 0)
    assert not values, f"{kind} has no {list(values)}"
    return out


class Message(dict):
    __getattr__ = dict.get


def unpack(raw):
    kind, serial, flags = struct.unpack_from("<III", raw)
    m = Message(kind=NAMES[kind], serial=serial, flags=flags, usage={}, numbers=[0] * 6)
    at = 12

    def word():
        nonlocal at
        n, = struct.unpack_from("<I", raw, at)
        value = raw[at + 4:at + 4 + n].decode()
        at += 5 + n
        return value

    for name, shape in FIELDS[m.kind]:
        if shape == "s":
            value = word()
        elif shape == "l":
            count, = struct.unpack_from("<I", raw, at)
            at += 4
            value = [word() for _ in range(count)]
        else:
            form = {"q": "<Q", "i": "<I", "e": "<i"}[shape]
            value, = struct.unpack_from(form, raw, at)
            at += struct.calcsize(form)
        if name.startswith("usage."):
            m["usage"][name[6:]] = value
        elif name.startswith("numbers."):
            m["numbers"][int(name[8:])] = value
        else:
            m[name] = value
    assert at == len(raw), f"{len(raw) - at} bytes more than {m.kind} has"
    return m


def send(sock, raw, fds=()):
    sock.sendmsg([raw], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])


def receive(sock, flags=0):
    raw, control, got, _ = sock.recvmsg(65536, socket.CMSG_SPACE(16 * 4), flags | socket.MSG_CMSG_CLOEXEC)
    fds = []
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += array.array("i", data[:len(data) // 4 * 4]).tolist()
    assert not got & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return raw, fds


def close(fds):
    for fd in fds:
        os.close(fd)
