"""An authoritative name server for the test world: it counts every question, and tests say what it answers.

An entry of the zone is a list of addresses, a word ("NXDOMAIN", "SERVFAIL", "REFUSED", "silence", "garbage"), or a
function of (how often this name was asked before, type) that returns one. "cname:NAME" in a list is an alias; "tcp" says
that the answer is too long for a datagram.
"""
import socket
import struct
import threading
from collections import namedtuple

TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 10: "NULL", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 64: "SVCB",
         65: "HTTPS", 255: "ANY"}
CODES = {"NXDOMAIN": 3, "SERVFAIL": 2, "REFUSED": 5}
Question = namedtuple("Question", "name type transport")


def wire_name(name):
    return b"".join(bytes([len(label)]) + label for label in name.encode().split(b".") if label) + b"\0"


class Names:
    def __init__(self, zone):
        self.fixed, self.zone, self.ttl = zone, {}, 60
        self.asked_list, self.counts, self.lock = [], {}, threading.Lock()
        self.reset()

    def reset(self):
        with self.lock:
            self.zone, self.ttl = dict(self.fixed), 60
            self.asked_list, self.counts = [], {}

    def asked(self, below=None):
        """Questions so far, or those for a name and what is below it."""
        with self.lock:
            return [q for q in self.asked_list if below is None or q.name == below or q.name.endswith("." + below)]

    def answer(self, query, transport):
        """The answer's bytes, or None for silence."""
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        kind = struct.unpack_from("!H", query, at + 1)[0]
        name, end = ".".join(labels).lower(), at + 5
        with self.lock:
            self.asked_list.append(Question(name, TYPES.get(kind, str(kind)), transport))
            entry, before, ttl = self.zone.get(name, "NXDOMAIN"), self.counts.get((name, kind), 0), self.ttl
            self.counts[name, kind] = before + 1
        if callable(entry):
            entry = entry(before, TYPES.get(kind))
        if entry == "silence":
            return None
        if entry == "garbage":
            return query[:2] + b"\x84\x00" + b"\xff" * 40
        if "tcp" in entry and transport == "udp":
            return query[:2] + struct.pack("!HHHHH", 0x8680, 1, 0, 0, 0) + query[12:end]
        code, records = CODES[entry] if isinstance(entry, str) else 0, b""
        count = 0
        if not code:
            for item in entry:
                if item == "tcp":
                    continue
                if item.startswith("cname:"):
                    target = item[6:]
                    records += b"\xc0\x0c" + struct.pack("!HHIH", 5, 1, ttl, len(wire_name(target))) + wire_name(target)
                    count += 1
                    further = self.zone.get(target, [])
                    for address in further if isinstance(further, list) else []:
                        records, count = self.address(records, count, kind, address, ttl, wire_name(target))
                else:
                    records, count = self.address(records, count, kind, item, ttl, b"\xc0\x0c")
        return query[:2] + struct.pack("!HHHHH", 0x8480 | code, 1, count, 0, 0) + query[12:end] + records

    @staticmethod
    def address(records, count, kind, text, ttl, owner):
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        if kind != (28 if ":" in text else 1) or text.startswith(("cname:",
                                                                  "tcp")):  # an alias of an alias is for the client to follow
            return records, count
        data = socket.inet_pton(family, text)
        return records + owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data, count + 1

    def listen(self, datagrams, stream):
        threading.Thread(target=self.serve_udp, args=(datagrams,), daemon=True).start()
        threading.Thread(target=self.serve_tcp, args=(stream,), daemon=True).start()

    def serve_udp(self, sock):
        while True:
            query, peer = sock.recvfrom(65535)
            try:
                reply = self.answer(query, "udp")
            except (IndexError, ValueError, OSError, struct.error):
                with self.lock:
                    self.asked_list.append(Question("(malformed)", "?", "udp"))
                continue
            if reply is not None:
                sock.sendto(reply, peer)

    def serve_tcp(self, listener):
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=self.serve_stream, args=(conn,), daemon=True).start()

    def serve_stream(self, conn):
        with conn:
            conn.settimeout(5)
            try:
                while True:
                    head = conn.recv(2, socket.MSG_WAITALL)
                    if len(head) < 2:
                        return
                    query = conn.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL)
                    reply = self.answer(query, "tcp")
                    if reply is not None:
                        conn.sendall(struct.pack("!H", len(reply)) + reply)
            except (OSError, IndexError, struct.error):
                pass
