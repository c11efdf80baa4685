"""What a sandbox does and tries, live: a denial that is allowed by one click, texts with markup, and very many events."""
import pytest
from conftest import RATES
from own_network import PUBLIC, own_network, public_server


@pytest.fixture
def network_house(make_house):
    with own_network(), public_server():
        yield make_house(RATES)


def test_a_denial_is_allowed_by_one_click(browse, network_house):
    browse("activity_allow.mjs", network_house, address=PUBLIC)


def test_filters_pause_and_markup(browse, house):
    browse("activity.mjs", house)


def test_it_stays_with_the_newest(browse, house):
    browse("activity_follow.mjs", house)


def test_ten_thousand_events_do_not_freeze_it(browse, house):
    print(browse("activity_flood.mjs", house, seconds=500, count=10_000))


def test_the_operator_is_killed_meanwhile(browse, make_house):
    browse("activity_killed.mjs", make_house(RATES))
