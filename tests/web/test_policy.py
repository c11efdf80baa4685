"""What a sandbox may do: in words, as text, and changed while it runs."""


def test_policy(browse, house):
    browse("policy.mjs", house)
