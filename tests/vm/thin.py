"""A pytest plugin for a machine that is twenty times slower than others.

--thin keeps of every test one set of parameters for each person, root and rootless: what is left reaches the same
mechanisms of the kernel, the rest are values in between. --tier keeps of the tests that are made for several profiles
those of one.
"""


def pytest_addoption(parser):
    parser.addoption("--thin", action="store_true", help="one set of parameters for each test and person")
    parser.addoption("--tier", metavar="PROFILE", help="of the tests for several profiles only those for this one")


def wanted(item, config, seen):
    params = item.callspec.params if hasattr(item, "callspec") else {}
    tier = config.getoption("--tier")
    if tier and params.get("profile", tier) != tier:
        return False
    key = (item.location[0], getattr(item, "originalname", item.name), params.get("who") or params.get("person"))
    if config.getoption("--thin") and key in seen:
        return False
    seen.add(key)
    return True


def pytest_collection_modifyitems(config, items):
    seen = set()
    sorted_out = {True: [], False: []}
    for item in items:
        sorted_out[wanted(item, config, seen)].append(item)
    items[:] = sorted_out[True]
    config.hook.pytest_deselected(items=sorted_out[False])
