"""Snapshots: taken, compared, forked, rolled back to, carried away and brought in, deleted."""


def test_snapshots(browse, house):
    browse("snapshots.mjs", house)
