"""Stands in for a device whose state one test breaks for those after it in the same process."""

STATE = {"broken": False, "dirty": set()}


def concord_health():
    return not STATE["broken"]
