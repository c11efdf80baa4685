"""Signing in and out, by link and by wallet."""
from conftest import RATES


def test_by_link(browse, house):
    browse("sign_in.mjs", house)


def test_by_wallet(browse, house):
    browse("wallet.mjs", house)


def test_a_session_that_ends(browse, house):
    browse("session_end.mjs", house)


def test_what_was_open_when_it_ended(browse, house):
    browse("session_kept.mjs", house)


def test_renewal(browse, make_house):
    browse("renewal.mjs", make_house("session = 20s\n" + RATES))


def test_a_link_while_signed_in(browse, house):
    browse("link_again.mjs", house)
