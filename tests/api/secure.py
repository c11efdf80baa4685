"""Certificates for tests, and the switch that makes all of them speak TLS: STOCKADE_API_TLS=1."""
import functools
import os
import ssl
import subprocess
import tempfile
from pathlib import Path

ON = os.environ.get("STOCKADE_API_TLS") == "1"
SCHEME = "https" if ON else "http"


def make(folder, name="own", key=("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"), days=30, names="DNS:localhost,IP:127.0.0.1",
         more=()):
    """A certificate that signs itself: paths of it and of its key."""
    folder = Path(folder)
    certificate, private = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", *key, "-nodes", "-keyout", private, "-out", certificate, "-days",
                    str(days), "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", *more], check=True,
                   capture_output=True, stdin=subprocess.DEVNULL)
    private.chmod(0o600)
    return certificate, private


@functools.cache
def ours():
    """One pair for the whole run, below a folder that goes with it."""
    ours.folder = tempfile.TemporaryDirectory(prefix="stockade-tls-")
    return make(ours.folder.name)


def settings(pair=None):
    certificate, private = pair or ours()
    return f"certificate = {certificate}\ncertificate_key = {private}\n"


def context(certificate=None):
    """Of a client that believes nobody else."""
    made = ssl.create_default_context(cafile=str(certificate or ours()[0]))
    return made
