"""Ports in a browser's tab: under a name of their own, and below the page's address where there is no domain."""
from conftest import RATES


def test_with_names(browse, house):
    browse("ports.mjs", house, domain="ports.localhost")


def test_without_names(browse, make_house):
    browse("ports.mjs", make_house(RATES), domain=None)
