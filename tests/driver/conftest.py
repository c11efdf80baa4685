"""Sandboxes with real boxes, in the harness of the warden's tests: a warden of its own for each test."""
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
WARDEN = HERE.parent / "warden"
sys.path[:0] = [str(HERE), str(WARDEN), str(HERE.parent / "common")]

_spec = importlib.util.spec_from_file_location("warden_conftest", WARDEN / "conftest.py")
_harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_harness)

make, warden, low, medium, networked, inside = (
    getattr(_harness, name) for name in "make warden low medium networked inside".split())
