"""The fixtures of the warden's tests, for sandboxes that real drivers run."""
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "warden")]

_spec = importlib.util.spec_from_file_location("warden_conftest", HERE.parent / "warden/conftest.py")
_warden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_warden)

make, warden, low, medium, networked, inside = (
    getattr(_warden, name) for name in ("make", "warden", "low", "medium", "networked", "inside"))
