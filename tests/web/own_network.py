"""A network of our own for a daemon and its browsers, with a server at an address that is public to the gate. Nothing
leaves it: it has one wire, to another network with that server alone."""
import contextlib
import ctypes
import os
import subprocess
import sys

CLONE_NEWNET = 0x40000000
PUBLIC = "93.184.215.14"
OURS = "93.184.215.1"
libc = ctypes.CDLL(None, use_errno=True)

SERVER = """
import http.server, subprocess, sys
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "14")
        self.end_headers()
        self.wfile.write(b"hello outside\\n")
    def log_message(self, *_):
        pass
print("here", flush=True)
sys.stdin.readline()
for words in ("addr add {address}/24 dev wire", "link set wire up"):
    subprocess.run(["ip", *words.split()], check=True)
server = http.server.ThreadingHTTPServer(("{address}", 80), Hello)
print("listening", flush=True)
server.serve_forever()
"""


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


@contextlib.contextmanager
def public_server():
    """Says hello at PUBLIC, port 80, at the other end of our wire."""
    words = ["unshare", "--net", sys.executable, "-c", SERVER.replace("{address}", PUBLIC)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "here\n"
        ip(f"link add wire type veth peer name wire netns {process.pid}")
        ip(f"addr add {OURS}/24 dev wire")
        ip("link set wire up")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "listening\n"
        yield
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def own_network():
    """What this thread starts meanwhile is inside."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(libc.unshare(CLONE_NEWNET))
        try:
            ip("link set lo up")
            yield
        finally:
            check(libc.setns(home, CLONE_NEWNET))
    finally:
        os.close(home)
