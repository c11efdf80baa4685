"""A previous session secret that is no good: it is named with the next step, and costs what only it opens."""
import pytest

from test_rotation import A, B, create, house_of, machine, shows, sign_in  # noqa: F401


def spoil(file, how):
    file.unlink(missing_ok=True)
    if how == "a folder":
        file.mkdir(mode=0o700)
    elif how != "not there":
        text = {"too short": "x1y2z3w4", "too long": "0123456789abcdef" * 65, "easy to guess": "ab" * 20, "empty": "", "for others": A}[how]
        file.write_text(text + "\n")
        file.chmod(0o644 if how == "for others" else 0o600)


@pytest.mark.parametrize("restart", ["kill_operator", "kill_warden"])
@pytest.mark.parametrize("how", ["not there", "too short", "too long", "easy to guess", "empty", "for others", "a folder"])
def test_a_bad_previous_one(house_of, how, restart):  # noqa: F811
    house = house_of(A)
    old = sign_in(house)
    box = create(house, old)
    capability = machine(house, old, box)
    house.write(B, [A])
    file = house.folder / "first"
    spoil(file, how)
    getattr(house.daemon, restart)()
    new = sign_in(house)  # the API is open, and what the current one makes is good
    assert house.works(new) and not house.works(old) and shows(house, capability, box) == 401
    shown = house.daemon.client.show(sandbox=box)
    assert shown["secrets_missing"] == ["TOKEN", "OTHER"] and "session_secret_previous" in shown["secrets_hint"]
    other = create(house, new)  # the vault is open too
    assert house.missing(other) == [] and house.daemon.client.health()["keys"]["previous"] == 0
    said = house.daemon.said()
    assert f"'{file}' is left out" in said and "put the former secret there" in said, said
    house.daemon.kill_operator()
    assert house.works(new) and house.missing(other) == []
    if file.is_dir():
        file.rmdir()
    house.rotate(B, [A])  # it is there again, and everything opens
    assert house.works(old) and house.works(new) and house.missing(box) == [] == house.missing(other)
    assert shows(house, capability, box) == 200


def test_our_own_that_was_damaged(house_of):  # noqa: F811
    """One that lies in the state folder counts as a previous one when another is configured."""
    house = house_of(None)
    box = create(house, sign_in(house))
    own = house.daemon.state / "session.secret"
    kept = own.read_text()
    own.write_text("short")
    house.rotate(A)
    assert house.works(sign_in(house)) and house.missing(box) == ["TOKEN", "OTHER"]
    assert "'session.secret' is left out" in house.daemon.said()
    own.write_text(kept)
    house.rotate(A)
    assert house.missing(box) == []


def test_the_current_one_is_named_too(house_of):  # noqa: F811
    house = house_of(A)
    old = sign_in(house)
    house.write(B)
    spoil(house.folder / "second", "easy to guess")
    house.daemon.kill_operator()
    assert house.works(old), "the former one stays in use"
    said = house.daemon.said()
    assert f"'{house.folder / 'second'}' is easy to guess" in said and "the former session secrets stay in use" in said, said
