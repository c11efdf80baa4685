"""A world for the tests of the gate by itself."""
import os
import ssl
import subprocess
import time

import pytest

from peers import Http, echo, greet, mirror, web_socket
from ward import World


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    with World() as w:
        table = w.names.table
        for name in ("a.test", "b.test", "sub.a.test"):
            table[name] = [w.SERVER_V4]
        table["six.test"] = [w.SERVER_V6]
        table["both.test"] = ["203.0.113.77", w.SERVER_V6, w.SERVER_V4]  # nobody is at the first
        table["inner.test"] = [w.PRIVATE_V4]
        table["loop.test"] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
        table["meta.test"] = ["169.254.169.254"]
        table["synth.test"] = ["198.18.1.0"]
        table["mixed.test"] = [w.PRIVATE_V4, w.SERVER_V4]
        table["lost.test"] = ["203.0.113.99"]
        w.http = Http()
        w.serve(echo, 7000)
        w.serve(echo, 7000, w.SERVER_V6)
        w.serve(echo, 7000, w.PRIVATE_V4)
        w.serve(greet, 2500)
        w.serve(w.http, 80)
        w.serve(w.http, 8080)
        w.serve(lambda c: time.sleep(3600), 7777)
        folder = tmp_path_factory.mktemp("tls")
        w.certificate = folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test,DNS:b.test",
                        "-keyout", folder / "key.pem", "-out", w.certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(w.certificate, folder / "key.pem")

        def https(connection):
            with context.wrap_socket(connection, server_side=True) as s:
                Http()(s)

        def https_cut(connection):
            """Answers, then goes without a word of farewell."""
            with context.wrap_socket(connection, server_side=True) as s:
                while b"\r\n\r\n" not in s.recv(65536):
                    pass
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n" + b"y" * 5000)
                os.close(s.detach())

        def https_mirror(connection):
            with context.wrap_socket(connection, server_side=True) as s:
                mirror(s)

        w.serve(mirror, 8081)
        w.serve(web_socket, 8082)
        w.serve(https_mirror, 4431)
        w.serve(https_cut, 4430)
        w.serve(https, 443)
        w.serve(https, 8443)
        yield w
