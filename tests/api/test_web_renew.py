"""A session goes on while somebody renews it, and all that came of one sign-in ends together."""
import json
import time

import pytest

from conftest import Web, address_of, events
from test_doors import check_error
from wallet import Wallet


def renew(web):
    answer = web.post("/api/auth/session/renew", {})
    assert answer.status == 200, answer
    return answer.json


def test_renewal(nobody):
    first = nobody.sign_in(Wallet("renews"))
    before = first.get("/api/auth/whoami").json
    time.sleep(0.05)
    given = renew(first)
    assert given["owner"] == before["owner"] and given["token"] != first.token and given["expires_at_ms"] > before["expires_at_ms"]
    second = Web(nobody.address, given["token"])
    after = second.get("/api/auth/whoami").json
    assert after["owner"] == before["owner"] and after["operator"] is False and after["expires_at_ms"] == given["expires_at_ms"]
    assert first.get("/api/auth/whoami").json == before  # it stays good
    third = Web(nobody.address, renew(second)["token"])
    assert third.get("/api/auth/whoami").json["owner"] == before["owner"]


@pytest.mark.parametrize("ends", [0, 1, 2])
def test_one_that_ends_ends_all(nobody, ends):
    chain = [nobody.sign_in(Wallet("ends"))]
    for _ in range(2):
        chain.append(Web(nobody.address, renew(chain[-1])["token"]))
    other = nobody.sign_in(Wallet("ends"))
    ticket = chain[2].post("/api/auth/ticket", {"path": "/api/events"}).json["ticket"]
    c, stream = chain[1].open("/api/events")
    try:
        assert chain[ends].delete("/api/auth/session").json == {"revoked": True}
        for web in chain:
            check_error(web.get("/api/sandboxes"), 401, "BAD_TOKEN")
            check_error(web.post("/api/auth/session/renew", {}), 401, "BAD_TOKEN")
        check_error(nobody.get(f"/api/events?ticket={ticket}"), 401, "BAD_TOKEN")
        assert other.get("/api/sandboxes").status == 200  # another sign-in of the same wallet
        try:
            events(stream)  # what it opened is cut: this ends
        except OSError:
            pass
        except Exception as e:  # noqa: BLE001  the answer ends in its middle
            assert "IncompleteRead" in type(e).__name__, e
    finally:
        c.close()


def test_that_it_ended_lasts(make_house):
    house = make_house("rate_auth = unlimited\n")
    web = Web(address_of(house))
    first = web.sign_in(Wallet("lasts"))
    second = Web(web.address, renew(first)["token"])
    assert second.delete("/api/auth/session").status == 200
    house.kill_operator()
    again = address_of(house)
    for token in (first.token, second.token):
        check_error(Web(again, token).get("/api/auth/whoami"), 401)


def test_not_for_ever(make_house):
    """A session that lasts twelve hours already is as long as any may be."""
    house = make_house("session = 12h\nrate_auth = unlimited\n")
    web = Web(address_of(house)).sign_in(Wallet("long"))
    check_error(web.post("/api/auth/session/renew", {}), 403, "NOT_PERMITTED")
    assert web.get("/api/auth/whoami").status == 200


def test_no_longer_than_twelve_hours(make_house):
    house = make_house("session = 11h\nrate_auth = unlimited\n")
    web = Web(address_of(house)).sign_in(Wallet("long"))
    began = web.get("/api/auth/whoami").json["expires_at_ms"] - 11 * 3600 * 1000
    time.sleep(0.05)
    once = renew(web)
    assert began < once["expires_at_ms"] - 11 * 3600 * 1000 <= began + 3600 * 1000
    # whoever renews again and again does not get further than that
    token = once["token"]
    for _ in range(3):
        token = renew(Web(web.address, token))["token"]
    assert Web(web.address, token).get("/api/auth/whoami").json["expires_at_ms"] <= began + 12 * 3600 * 1000


def test_an_operator_by_link_stays_one(house, nobody):
    url = house.client.ask("sign-in", operator=True)["url"]
    given = nobody.post("/api/auth/session", {"link": url.partition("#link=")[2]}).json
    web = Web(nobody.address, given["token"])
    assert web.get("/api/auth/whoami").json["operator"] is True
    assert Web(nobody.address, renew(web)["token"]).get("/api/auth/whoami").json["operator"] is True


def test_it_is_recorded(nobody):
    web = nobody.sign_in(Wallet("recorded"))
    jti = web.get("/api/auth/whoami").json["jti"]
    renew(web)
    answer = web.get("/api/events/search?kinds=session.begin&limit=2")
    found = [e["data"] for e in answer.json["events"]]
    assert found[0]["renews"] == jti and found[0]["jti"] != jti and found[1] == {"jti": jti}, json.dumps(found)


def test_who_may(alice, nobody, box):
    check_error(nobody.post("/api/auth/session/renew", {}), 401, "NO_TOKEN")
    check_error(alice.post("/api/auth/session/renew", {"for": "ever"}), 400, "BAD_REQUEST")
    token = alice.post("/api/capabilities/tokens", {"verbs": ["show"], "resources": [f"sandbox/{box}"], "expires_in": 60}).json["token"]
    check_error(Web(alice.address, token).post("/api/auth/session/renew", {}), 403, "NOT_PERMITTED")
