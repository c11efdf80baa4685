"""A guest for each test, and a connection to it. At the end the guest must still be there: nothing that a peer says may
end it."""
import pathlib
import shutil
import sys
import tempfile

import pytest

from client import Guest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "common"))


@pytest.fixture
def guest():
    with Guest() as g:
        yield g
        assert g.is_alive(), "the guest is gone"
        with g.connect() as c:  # and it serves
            assert c.end(c.sh("echo alive", number=2**31)).out == b"alive\n"


@pytest.fixture
def conn(guest):
    with guest.connect() as c:
        yield c


@pytest.fixture
def folder():
    """A folder that the guest sees under the same name; its path is short, and pytest does not keep it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="stockade-guest-test-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
