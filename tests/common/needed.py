"""What a test needs of its host."""
import os

import pytest


def missing(why):
    """It is not there: a failure where everything has to work, and a skip elsewhere. Also while a module is loaded."""
    if os.environ.get("STOCKADE_MUST_WORK") == "1":
        pytest.fail(f"must work here, but: {why}", pytrace=False)
    pytest.skip(why, allow_module_level=True)


def root():
    if os.geteuid() != 0:
        missing("not started by root")
