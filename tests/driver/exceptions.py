"""Tests of sandboxes that live (tests/operator) that do not hold in a box, each with its reason. Everything else has to.

A name that no test has is an error: so is one that is needed no more and was left here, since whoever removes a reason
removes its line."""
OF = {
    "gvisor": {
        "test_life_runs.py::test_running_out_of_memory_names_the_run":
            "its kernel has no cgroups, and what it uses is one memory outside: it ends whole, and nobody knows which run it was",
        "test_life_runs.py::test_a_terminal": "its terminals do not show control characters (^C) as Linux does",
    },
    "docker": {},
    "microvm": {},
    "firecracker": {},
}


def deselect(driver, items, config):
    """Called when a suite was collected for another driver than native: what is listed here is not tried."""
    listed = OF[driver]
    short = {item: item.nodeid.rpartition("/")[2] for item in items}
    gone = [item for item in items if short[item] in listed]
    files = {name.partition("::")[0] for name in short.values()}
    unknown = [name for name in listed if name.partition("::")[0] in files and name not in short.values()]
    if unknown and not config.option.keyword and not any("::" in arg for arg in config.args):
        raise SystemExit(f"tests/driver/exceptions.py names tests that there are not: {unknown}")
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]
