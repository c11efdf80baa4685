"""The guest under the filter and the rules of each tier, inside a real sandbox."""
import os
import pathlib
import subprocess

import pytest

from client import BUILD, PROGRAM

STOCKADE = os.environ.get("STOCKADE", os.path.join(BUILD, "src/cli/stockade"))
SHOWN = "/usr/bin/false"  # where profile low lets a program be executed


@pytest.mark.parametrize("tier", ["low", "medium", "high"])
def test_tier(tier):
    here = pathlib.Path(__file__).resolve().parent
    result = subprocess.run([STOCKADE, "run", "-q", "-p", tier, "--no-tty", "--ro", f"{PROGRAM}:{SHOWN}", "--ro",
                             f"{here}:/mnt/guest", "-e", "PYTHONDONTWRITEBYTECODE=1", "--", "/usr/bin/python3",
                             "/mnt/guest/inside.py", SHOWN], capture_output=True, text=True, timeout=60)
    print(result.stdout, result.stderr)
    assert result.stdout.endswith("all good\n")
