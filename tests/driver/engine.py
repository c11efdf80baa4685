"""A Docker engine of the tests' own. It has a network and a mount namespace to itself, so that what it sets and mounts
stays there."""
import errno
import http.client
import json
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def missing():
    """What is not there of what an engine needs."""
    return [name for name in ("dockerd", "containerd", "runc", "unshare") if not shutil.which(name)]


class Engine:
    def __init__(self, folder, args=()):
        self.folder, self.args, self.process = pathlib.Path(folder), args, None
        self.folder.chmod(0o711)  # with --userns-remap its root is somebody else
        self.socket = self.folder / "docker.sock"
        self.parent = f"stockade-engine-{secrets.token_hex(4)}"  # of the cgroups that it makes

    def start(self):
        (self.folder / "ids").write_text("daemon:200000:65536\n")  # for --userns-remap=daemon
        bind = f"mount --bind {self.folder}/ids /etc/subuid && mount --bind {self.folder}/ids /etc/subgid && exec \"$@\""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", "--mount", "sh", "-c", bind, "sh", "dockerd", "--data-root", str(self.folder / "data"), "--exec-root",
                 str(self.folder / "exec"), "--pidfile", str(self.folder / "pid"), "-H", f"unix://{self.socket}",
                 "--bridge=none", "--iptables=false", f"--cgroup-parent=/{self.parent}", *self.args], stdout=log, stderr=log, start_new_session=True)
        for _ in range(600):
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                if self.ask("GET", "/_ping")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError("the engine does not answer")

    def stop(self):
        """It ends its containers and its containerd with it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def ask(self, method, path, body=None):
        c = _Connection(self.socket)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None,
                      {"Content-Type": "application/json"} if body is not None else {})
            answer = c.getresponse()
            text = answer.read()
        finally:
            c.close()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text

    def inspect(self, id):
        status, found = self.ask("GET", f"/containers/stockade-{id}/json")
        return found if status == 200 else None

    def pid(self, id):
        return self.inspect(id)["State"]["Pid"]

    def names(self):
        return {n for c in self.ask("GET", "/containers/json?all=1")[1] for n in c["Names"]}

    def remove(self, id):
        return self.ask("DELETE", f"/containers/stockade-{id}?force=1")[0]

    def cgroups(self):
        """Those that it made for containers."""
        return [p for depth in ("", "*/") for p in pathlib.Path("/sys/fs/cgroup").glob(f"{depth}{self.parent}/*") if p.is_dir()]

    def clear(self):
        if self.process and self.process.poll() is None:
            self.stop()
        end = time.monotonic() + 60
        while not self._remove_cgroups():  # those who ended last are not out of them yet
            assert time.monotonic() < end, f"somebody is still in {self.cgroups()}"
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_cgroups(self):
        parents = [p for depth in ("", "*/") for p in pathlib.Path("/sys/fs/cgroup").glob(f"{depth}{self.parent}")]
        for p in [*self.cgroups(), *parents]:
            try:
                p.rmdir()
            except OSError as e:
                if e.errno not in (errno.EBUSY, errno.ENOENT):
                    raise
        return not any(p.exists() for p in parents)
