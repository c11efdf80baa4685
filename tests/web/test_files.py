"""Files in the browser: used, uploaded to, and with names that are not what they seem."""


def test_walk_edit_and_move(browse, house):
    browse("files.mjs", house)


def test_upload_of_a_hundred_megabytes(browse, house):
    browse("files_upload.mjs", house, seconds=500, mib=100)


def test_a_folder_is_dropped(browse, house):
    browse("files_drop.mjs", house)


def test_strange_names(browse, house):
    browse("files_names.mjs", house)


def test_the_difference_to_a_snapshot(browse, house):
    browse("files_snapshot.mjs", house)
