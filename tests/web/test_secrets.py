"""Secrets: their names, where they may go, giving and wiping; a value does not stay in the page."""


def test_secrets(browse, house):
    browse("secrets.mjs", house)
