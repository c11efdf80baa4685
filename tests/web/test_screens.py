"""Pictures of the main pages. They are made anew under docs/screens if STOCKADE_SCREENS=1, and elsewhere otherwise."""
import os
from pathlib import Path

SCREENS = Path(__file__).resolve().parents[2] / "docs/screens"
TABS = ["files", "runs", "ports", "activity", "policy", "secrets", "snapshots", "usage"]


def test_screens(browse, make_house, tmp_path):
    folder = SCREENS if os.environ.get("STOCKADE_SCREENS") == "1" else tmp_path / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    browse("screens.mjs", make_house(), folder=str(folder), tabs=TABS)
    assert len(list(folder.glob("*.png"))) >= 21
