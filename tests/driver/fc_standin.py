"""A stand-in for Firecracker, as strict as its published description: what is not in it is refused.

It judges questions by the description itself: methods and paths, the bodies' schemas (with nothing that they do not
name), and when a question may be asked ("Pre-boot only", "Post-boot only", a fresh process, a paused machine).
Moods are what it does wrong: a question, or "jailer" or "boot", to what comes instead of the answer.
As a program it stands in for the jailer, too: it takes its words, makes of the root what the jailer would, serves the
API there and boots what it is told in QEMU, emulated. QEMU has no vsock without the host's kernel, so that the
machine's streams are virtio-serial ports, each connected to the socket that Firecracker would connect to.

The description is not part of this project: where there is none, it judges by what of it is in fc_described.py.
"""
import argparse
import ctypes
import fcntl
import http.server
import json
import os
import queue
import re
import shutil
import signal
import socketserver
import struct
import subprocess
import sys
import threading

import yaml

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import fc_described  # noqa: E402

DESCRIPTION = fc_described.FOUND
LIBC = ctypes.CDLL(None, use_errno=True)
KINDS = {"string": str, "boolean": bool, "object": dict, "array": list}


class Wrong(Exception):
    pass


class Description:
    def __init__(self, path=DESCRIPTION):
        self.text = fc_described.OURS if path is None else self.load(path)
        self.version = self.text["info"]["version"]
        # {drive_id} and the like: one part of a path
        self.paths = [(re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/?]+)", path) + r"\Z"), methods)
                      for path, methods in self.text["paths"].items()]

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as f:
            return yaml.load(f, getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def operation(self, method, path):
        for pattern, methods in self.paths:
            if (found := pattern.match(path)) and method.lower() in methods:
                return methods[method.lower()], found.groupdict()
        raise Wrong(f"{method} {path} is not described")

    def body_schema(self, operation):
        for p in operation.get("parameters", []):
            if p["in"] == "body":
                return p["schema"]
        return None

    def check(self, schema, value, where="body"):
        if "$ref" in schema:
            return self.check(self.text["definitions"][schema["$ref"].removeprefix("#/definitions/")], value, where)
        kind = schema.get("type")
        if kind == "integer":
            if type(value) is not int:
                raise Wrong(f"{where} is not a whole number")
        elif kind and not isinstance(value, KINDS[kind]):
            raise Wrong(f"{where} is not of type {kind}")
        if "enum" in schema and value not in schema["enum"]:
            raise Wrong(f"{where} is none of {schema['enum']}")
        if "minimum" in schema and value < schema["minimum"] or "maximum" in schema and value > schema["maximum"]:
            raise Wrong(f"{where} is out of range")
        if kind == "array":
            for i, item in enumerate(value):
                self.check(schema["items"], item, f"{where}[{i}]")
        if kind == "object":
            self.check_object(schema, value, where)
        return None

    def check_object(self, schema, value, where):
        known = schema.get("properties", {})
        if missing := set(schema.get("required", [])) - set(value):
            raise Wrong(f"{where} lacks {sorted(missing)}")
        if not schema.get("additionalProperties") and (unknown := set(value) - set(known)):
            raise Wrong(f"{where} has {sorted(unknown)}, which are not described")
        for key, item in value.items():
            if key in known:
                self.check(known[key], item, f"{where}.{key}")


def read_moods():
    path = os.environ.get("STOCKADE_STANDIN_MOODS", "")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def be_moody(mood, write):
    """True: there is no other answer."""
    if mood == "die":
        os._exit(7)
    if mood == "hang":
        threading.Event().wait()
    said = {"cut": b"HTTP/1.1 204 \r\nServer: Fire", "nonsense": b"\0\xff\r\n\r\n", "no JSON": b"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n{,}",
            "huge": b"HTTP/1.1 200 \r\nContent-Length: 100000000\r\n\r\n" + bytes(2 << 20),
            "refuse": b'HTTP/1.1 400 \r\nContent-Length: 34\r\n\r\n{"fault_message": "no \\u001broom"}'}.get(mood)
    if said:
        write(said)
    return bool(said)


def unique(pairs):
    if len({key for key, _ in pairs}) < len(pairs):
        raise Wrong("a key is there twice")
    return dict(pairs)


class Standin:
    """state: what GET / says. told: path → body, of what was accepted; asked: all of it, in order. boot(told) and
    link(body) are called when the machine starts, and when it gets a link: Firecracker opens its tap then."""

    def __init__(self, socket, description, boot=lambda told: None, link=lambda body: None, moods=None):
        self.description, self.boot, self.link, self.moods = description, boot, link, moods or {}
        self.state, self.told, self.asked = "Not started", {}, []
        self.lock, self.runs = threading.Lock(), threading.Event()  # runs: and whoever started it was told
        standin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                standin.answer(self)

            do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = socketserver.ThreadingUnixStreamServer(str(socket), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def answer(self, handler):
        text = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        if be_moody(self.moods.get(f"{handler.command} {handler.path}"), handler.wfile.write):
            handler.close_connection = True
            return
        try:
            with self.lock:
                said = self.judge(handler.command, handler.path, text)
            status = 200 if said is not None else 204
        except Wrong as e:
            status, said = 400, {"fault_message": str(e)}
        # as Firecracker's own server does: no reason, and the connection stays
        body = json.dumps(said).encode() if said is not None else b""
        head = f"HTTP/1.1 {status} \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        handler.wfile.write(head.encode() + b"\r\n" + body)
        if self.state == "Running":
            self.runs.set()

    def judge(self, method, path, text):
        operation, names = self.description.operation(method, path)
        self.asked.append(f"{method} {path}")
        if method == "GET":
            return self.tell(path)
        schema, body = self.description.body_schema(operation), None
        if schema:
            try:
                body = json.loads(text, object_pairs_hook=unique)
            except ValueError as e:
                raise Wrong(f"the body is not JSON: {e}") from e
            self.description.check(schema, body)
        if any(body.get(name, value) != value for name, value in names.items()):
            raise Wrong("the path and the body name different things")
        self.judge_order(operation, path)
        self.act(path, body)
        self.told[path] = body
        return None

    def judge_order(self, operation, path):
        started = self.state != "Not started"
        if "Pre-boot only" in operation["summary"] and started:
            raise Wrong("the machine has started")
        if "Post-boot only" in operation["summary"] and not started:
            raise Wrong("the machine has not started")
        if path == "/snapshot/load" and self.told:
            raise Wrong("this process was told something already")
        if path == "/snapshot/create" and self.state != "Paused":
            raise Wrong("the machine is not paused")
        if path == "/vm" and not started:
            raise Wrong("there is no machine")

    def act(self, path, body):
        if path == "/actions" and body["action_type"] == "InstanceStart":
            if self.state != "Not started":
                raise Wrong("the machine has started")
            if "/boot-source" not in self.told:
                raise Wrong("there is nothing to boot")
            self.boot(self.told)
            self.state = "Running"
        elif path.startswith("/network-interfaces/"):
            self.link(body)
        elif path == "/vm":
            self.state = {"Paused": "Paused", "Resumed": "Running"}[body["state"]]
        elif path == "/snapshot/load":
            if ("mem_file_path" in body) == ("mem_backend" in body):
                raise Wrong("exactly one of mem_file_path and mem_backend")
            self.state = "Running" if body.get("resume_vm") else "Paused"

    def tell(self, path):
        if path == "/":
            return {"id": "anonymous", "app_name": "Firecracker", "vmm_version": self.description.version, "state": self.state}
        if path == "/version":
            return {"firecracker_version": self.description.version}
        raise Wrong(f"the stand-in does not know what {path} is")


class Jail:
    """What the jailer makes of its words, with the checks that it does."""

    def __init__(self, words):
        p = argparse.ArgumentParser(allow_abbrev=False)
        for name in ("id", "exec-file", "uid", "gid", "chroot-base-dir", "netns"):
            p.add_argument(f"--{name}", required=True)
        p.add_argument("--resource-limit", action="append", default=[])
        ours, theirs = words[:words.index("--")], words[words.index("--") + 1:]
        self.words = p.parse_args(ours)
        assert re.fullmatch(r"[A-Za-z0-9-]{1,64}", self.words.id), "an id"
        program = os.path.realpath(self.words.exec_file)
        assert os.access(program, os.X_OK) and os.path.realpath(self.words.chroot_base_dir) == self.words.chroot_base_dir
        assert theirs[0] == "--api-sock" and len(theirs) == 2
        self.uid, self.gid = int(self.words.uid), int(self.words.gid)
        self.root = f"{self.words.chroot_base_dir}/{os.path.basename(program)}/{self.words.id}/root"
        self.socket = self.root + theirs[1]
        os.makedirs(self.root, exist_ok=True)
        shutil.copy(program, self.root)
        for name in ("", "/dev", "/dev/net", "/run"):
            os.makedirs(self.root + name, exist_ok=True)
            os.chmod(self.root + name, 0o700)
            os.chown(self.root + name, self.uid, self.gid)
        self.network = os.open(self.words.netns, os.O_RDONLY)
        self.tap = None

    def open_tap(self, body):
        """For this thread alone the network is Firecracker's."""
        assert LIBC.setns(self.network, 0x40000000) == 0  # CLONE_NEWNET
        self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        name = body["host_dev_name"].encode()
        fcntl.ioctl(self.tap, 0x400454ca, struct.pack("16sH22x", name, 0x5002))  # TUNSETIFF: tap, no info, headers

    def become(self):
        """In the child that executes QEMU."""
        assert LIBC.setns(self.network, 0x40000000) == 0
        os.setgroups([])
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def host(self, path):
        """A path as Firecracker would see it."""
        assert path.startswith("/") and ".." not in path
        return self.root + path


def clock_khz():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        return int(float(re.search(r"cpu MHz\s*: ([\d.]+)", f.read()).group(1)) * 1000)


def kernel_words(told):
    words = told["/boot-source"]["boot_args"].replace("stockade.streams=vsock", "stockade.streams=ports")
    return words.replace("reboot=k", "reboot=t") + f" mitigations=off tsc_early_khz={clock_khz()} tsc=reliable"


def streams(jail, told):
    path = jail.host(told["/vsock"]["uds_path"])
    for port in range(1, 8):
        if os.path.exists(f"{path}_{port}"):
            yield "-chardev", f"socket,id=s{port},path={path}_{port}"
            yield "-device", f"virtserialport,chardev=s{port},name=s{port},nr={port}"


def qemu_words(jail, told):
    machine, source = told["/machine-config"], told["/boot-source"]
    words = ["/usr/bin/qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
             "-M", "microvm,acpi=on,pit=off,pic=off,rtc=on,isa-serial=off", "-global", "virtio-mmio.force-legacy=false",
             "-accel", "tcg", "-cpu", "max", "-smp", str(machine["vcpu_count"]), "-m", f"{machine['mem_size_mib']}M",
             "-kernel", jail.host(source["kernel_image_path"]), "-initrd", jail.host(source["initrd_path"]),
             "-append", kernel_words(told), "-device", "virtio-serial-device"]
    for pair in streams(jail, told):
        words += pair
    if jail.tap is not None:
        words += ["-netdev", f"tap,id=n,fd={jail.tap},vhost=off", "-device", "virtio-net-device,netdev=n"]
    return words


def main():
    moods = read_moods()
    if moods.get("jailer"):
        sys.exit("there is no room for another machine")
    jail, started = Jail(sys.argv[1:]), queue.Queue()
    with Standin(jail.socket, Description(), started.put, jail.open_tap, moods) as standin:
        told = started.get()
        standin.runs.wait()
        be_moody(moods.get("boot"), None)
        # by this thread, with which QEMU ends
        qemu = subprocess.Popen(qemu_words(jail, told), stdin=subprocess.DEVNULL, preexec_fn=jail.become,
                                pass_fds=[jail.tap] if jail.tap is not None else [])
        sys.exit(qemu.wait())


if __name__ == "__main__":
    main()
