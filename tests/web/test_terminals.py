"""Terminals in the browser: used, attacked, and found again when the operator was killed."""
from conftest import RATES


def test_types_and_reads(browse, house):
    browse("terminals.mjs", house)


def test_a_hostile_program(browse, house):
    print(browse("terminals_hostile.mjs", house))


def test_a_sandbox_that_stands_still(browse, house):
    browse("terminals_paused.mjs", house)


def test_the_operator_is_killed(browse, make_house):
    browse("terminals_killed.mjs", make_house(RATES))
