"""The program that answers (cross.c), and npm's packages that are asked the same.

STOCKADE_BUILD     the build folder (default: build)
STOCKADE_VECTORS   a folder with other projects' vectors (siwe/*.json, paseto/v4.json); those tests are left out without it
STOCKADE_MUST_WORK 1: packages that cannot be installed are a failure, not a skip
"""
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("STOCKADE_BUILD", HERE.parents[1] / "build")).resolve()
PROGRAM = BUILD / "tests/auth/auth-cross"

if "STOCKADE_VECTORS" not in os.environ:
    collect_ignore = ["test_vectors.py"]


@pytest.fixture(scope="session")
def program():
    assert PROGRAM.exists(), f"{PROGRAM} is missing: build it first (ninja -C {BUILD})"
    return PROGRAM


@pytest.fixture(scope="session")
def packages():
    """A folder of the build with the packages of package-lock.json, installed once."""
    folder = BUILD / "tests/auth/packages"
    folder.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_bytes()
    stamp, wanted = folder / "installed", hashlib.sha256(lock).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], cwd=folder,
                           capture_output=True, text=True, timeout=300)
        if r.returncode != 0:
            (pytest.fail if os.environ.get("STOCKADE_MUST_WORK") == "1" else pytest.skip)(
                "npm cannot install the packages: " + r.stderr[-500:])
        stamp.write_text(wanted)
    shutil.copy(HERE / "cross.mjs", folder)
    return folder
