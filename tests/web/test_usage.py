"""What a sandbox uses, over time."""


def test_usage(browse, house):
    browse("usage.mjs", house)
