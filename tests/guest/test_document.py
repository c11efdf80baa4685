"""The document and the code of these tests name the same frames with the same numbers."""
import pathlib
import re

import frames

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs/protocol/guest.md").read_text()


def test_kinds():
    written = {name: int(number) for number, name in re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", TEXT, re.M)}
    assert written == {name: number for name, (number, _) in frames.KINDS.items()}


def test_numbers():
    for number in (frames.PAYLOAD_MAX, frames.DATA_MAX):
        assert f"{number:,}" in TEXT
    for text in (f"{frames.RING // 1024} KiB", f"{frames.SCROLLBACK // 1024} KiB", f"{frames.RUNS_MAX} runs",
                 f"At most {frames.REQUESTS_MAX} are", f"terminal {frames.TERMINAL}", f"recursive {frames.RECURSIVE}",
                 f"no replace {frames.NO_REPLACE}", f"open {frames.OPEN}", f"ended {frames.ENDED}",
                 f"to group {frames.TO_GROUP}", f"parents {frames.PARENTS}", f"stdin {frames.STDIN}",
                 f"lost {frames.LOST}", f"moved {frames.MOVED}"):
        assert text in TEXT, text
