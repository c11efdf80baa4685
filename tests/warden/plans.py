"""Plans as data: read, changed, written. Written from the format alone, so that it can also write what our own code would
never write."""
import os
import pathlib
import re
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STOCKADE_BUILD", ROOT / "build"))
MAGIC = b"STOCKP01"


def _table():
    """Names, numbers and fields of the operations, and the flags, from the header and the table."""
    header = (ROOT / "src/wire/plan.h").read_text()
    body = re.search(r"enum plan_op \{(.*?)OP_COUNT", header, re.S).group(1)
    names = re.findall(r"^\s*(OP_[A-Z_]+)\b", re.sub(r"/\*.*?\*/", "", body, flags=re.S), re.M)
    fields = dict(re.findall(r'\[(OP_[A-Z_]+)\] = \{"[^"]*", "([a-z]*)"', (ROOT / "src/wire/plan.c").read_text()))
    flags = {n: 1 << int(b) for n, b in re.findall(r"(STEP_[A-Z]+) = 1 << (\d+)", header)}
    return {n: i for i, n in enumerate(names)}, fields, flags


OPS, FIELDS, FLAGS = _table()
NAMES = {v: k for k, v in OPS.items()}
globals().update(FLAGS)


class Step:
    def __init__(self, op, flags, *values):
        self.op, self.flags, self.values = op, flags, list(values)

    def __repr__(self):
        return f"{self.op}({self.flags:#x}, {self.values})"

    def bytes(self, at):
        out = struct.pack("<HH", OPS[self.op] if isinstance(self.op, str) else self.op, self.flags)
        for kind, value in zip(FIELDS.get(self.op, ""), self.values):
            if kind in "tp":
                raw = value.encode() if isinstance(value, str) else value
                out += struct.pack("<I", len(raw)) + raw + b"\0"
            elif kind == "n":
                out += struct.pack("<Q", value)
            else:
                out += struct.pack("<I", len(value))
                out += b"\0" * (-(at + len(out)) % 8) + value
        return out


class Plan:
    def __init__(self, raw):
        self.hash, self.steps = raw[12:44], []
        at = 44
        while at < len(raw):
            op, flags = struct.unpack_from("<HH", raw, at)
            at += 4
            values = []
            for kind in FIELDS[NAMES[op]]:
                if kind in "tp":
                    n, = struct.unpack_from("<I", raw, at)
                    values.append(raw[at + 4:at + 4 + n].decode())
                    at += 5 + n
                elif kind == "n":
                    values.append(struct.unpack_from("<Q", raw, at)[0])
                    at += 8
                else:
                    n, = struct.unpack_from("<I", raw, at)
                    at += 4
                    at += -at % 8
                    values.append(raw[at:at + n])
                    at += n
            self.steps.append(Step(NAMES[op], flags, *values))

    def bytes(self):
        out = MAGIC + b"\0\0\0\0" + self.hash
        for s in self.steps:
            out += s.bytes(len(out))
        return out[:8] + struct.pack("<I", len(out)) + out[12:]

    def copy(self):
        return Plan(self.bytes())

    def find(self, op, *values):
        for s in self.steps:
            if s.op == op and all(v in s.values for v in values):
                return s
        raise KeyError((op, values))

    def index(self, op, *values):
        return self.steps.index(self.find(op, *values))

    def without(self, op, *values):
        p = self.copy()
        p.steps = [s for s in p.steps if not (s.op == op and all(v in s.values for v in values))]
        return p

    def before(self, other, *steps):
        """With these steps put before the first of another kind."""
        p = self.copy()
        at = p.index(other)
        p.steps[at:at] = list(steps)
        return p

    def behind_root(self, *steps):
        p = self.copy()
        at = next(i for i, s in enumerate(p.steps) if s.op.startswith("OP_ROOT"))
        p.steps[at + 1:at + 1] = list(steps)
        return p

    def limit(self, key, value):
        p = self.without("OP_LIMIT", key)
        p.steps.insert(1, Step("OP_LIMIT", 0, key, value))
        return p


def program(name):
    for folder in ("src/warden", "src/cli", "src/gate", "src/operator"):
        path = BUILD / folder / name
        if path.exists():
            return str(path)
    raise FileNotFoundError(f"{name}: build it first, in {BUILD}")


def compile_plan(*options, profile="low", rootless=False):
    """What `stockade run` would run, with the guest that the warden has."""
    raw = subprocess.run(
        [program("stockade-policy"), "compile", "--profile", profile, "--guest",
         os.path.realpath(program("stockade-guest"))] + (["--rootless"] if rootless else []) + list(options),
        check=True, stdout=subprocess.PIPE).stdout
    return Plan(raw[raw.index(MAGIC):])


def with_disk(plan, path, size, inodes):
    """The place of memory at this path becomes the sandbox's disk."""
    p = plan.copy()
    at = p.index("OP_TMPFS", path)
    p.steps[at] = Step("OP_DISK", p.steps[at].flags, path, size, inodes)
    return p
