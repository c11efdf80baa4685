"""A pytest plugin for a machine that is twenty times slower than others: --thin keeps of every test one set of parameters
for each person, root and rootless. What is left reaches the same kernel mechanisms; the rest are values in between."""


def pytest_addoption(parser):
    parser.addoption("--thin", action="store_true", help="one set of parameters for each test and person")


def person(item):
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("who") or params.get("person")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--thin"):
        return
    kept, dropped, seen = [], [], set()
    for item in items:
        key = (item.location[0], getattr(item, "originalname", item.name), person(item))
        (dropped if key in seen else kept).append(item)
        seen.add(key)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)
