"""Runs in the browser: started, watched, ended, and read later."""


def test_start_watch_and_end(browse, house):
    browse("runs.mjs", house)
