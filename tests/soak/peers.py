"""A web server and a name server for the soak's own network, which is lo and nothing else."""
import os
import socket
import struct
import subprocess
import threading

NAME, WEB, RESOLVER = "example.test", "203.0.113.10", "203.0.113.53"  # addresses for documentation: count as public

# the addresses are this host's own, which counts as private
PROFILE = f"""profile: 1
extends: low
network:
  allow:
    - {{host: {NAME}, ports: [80], private: true}}
"""


def answer(query):
    """A for the one name that exists; nothing for its other types; no such name otherwise."""
    end = query.index(b"\0", 12) + 5
    name = b"".join(bytes([len(word)]) + word for word in NAME.encode().split(b".")) + b"\0"
    known = query[12:end - 4].lower() == name
    found = known and query[end - 4:end - 2] == b"\0\1"
    head = query[:2] + struct.pack(">HHHHH", 0x8580 if known else 0x8583, 1, int(found), 0, 0)
    record = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 60, 4) + socket.inet_aton(WEB)
    return head + query[12:end] + (record if found else b"")


def serve_names(names):
    while True:
        query, who = names.recvfrom(2048)
        try:
            names.sendto(answer(query), who)
        except (ValueError, OSError):
            pass


def serve_client(client):
    try:
        client.settimeout(5)
        data = b""
        while b"\r\n\r\n" not in data and len(data) < 65536:
            more = client.recv(4096)
            if not more:
                break
            data += more
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
    except OSError:
        pass
    finally:
        client.close()


def serve_web(web):
    while True:
        client, _ = web.accept()
        serve_client(client)


def start(folder, mount):
    """In the namespaces of the soak. Descriptors and threads stay the same from here on."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in (WEB, RESOLVER):
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    resolv = folder / "resolv.conf"
    resolv.write_text(f"nameserver {RESOLVER}\n")
    mount(resolv, os.path.realpath("/etc/resolv.conf"), flags=0x1000)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((RESOLVER, 53))
    web = socket.socket()
    web.bind((WEB, 80))
    web.listen(64)
    threading.Thread(target=serve_names, args=(names,), daemon=True).start()
    threading.Thread(target=serve_web, args=(web,), daemon=True).start()
