"""The operator's page: for operators alone."""


def test_operator(browse, house):
    browse("operator.mjs", house)
