"""The fixtures of tests/operator: a daemon on a folder of its own, which leaves nothing behind."""
import importlib.util
import sys
from pathlib import Path

import pytest

OPERATOR = Path(__file__).resolve().parents[1] / "operator"
sys.path.insert(0, str(OPERATOR))
spec = importlib.util.spec_from_file_location("operator_fixtures", OPERATOR / "conftest.py")
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)
pytest_configure = fixtures.pytest_configure
suite, make_daemon = fixtures.suite, fixtures.make_daemon


@pytest.fixture
def patience():
    """Packages take their time: no alarm here."""
