"""As a new user comes: from the link to a prompt, with few clicks, and with none at all."""


def test_from_the_link_to_a_prompt(browse, house):
    print(browse("first.mjs", house))


def test_with_keys_alone(browse, house):
    browse("keyboard_first.mjs", house)
