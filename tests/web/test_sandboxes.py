"""The list, creation, and what happens when the connection does not."""
import shutil

import harness
from conftest import RATES


def test_the_list(browse, house):
    browse("list.mjs", house)


def test_creation(browse, house):
    browse("create.mjs", house)


def test_drivers(browse, make_house, suite):
    if not shutil.which("runsc"):
        harness.missing("there is no runsc")
    program = suite.programs.folder / "stockade-box-gvisor"
    aside = program.with_suffix(".aside")
    browse("drivers.mjs", make_house(f"drivers = native gvisor\n{RATES}"),
           answers={"lose": lambda: str(program.rename(aside)), "find": lambda: str(aside.rename(program))})


def test_markup_is_text(browse, house):
    browse("markup.mjs", house)


def test_a_thousand(browse, house):
    print(browse("many.mjs", house, frame_ms=1000 / 60 * harness.SLOW))


def test_reconnect(browse, make_house):
    browse("reconnect.mjs", make_house())


def test_no_network(browse, make_house):
    browse("offline.mjs", make_house())


def test_the_usual_limits(browse, make_house):
    browse("limits.mjs", make_house("rate_auth = unlimited\n"), watch_ms=30_000)


def test_a_server_that_refuses(browse, house):
    browse("refused.mjs", house)


def test_keyboard(browse, house):
    browse("keyboard.mjs", house)


def test_phone(browse, house):
    browse("phone.mjs", house)


def test_contrast(browse, house):
    browse("contrast.mjs", house)
