"""pytest plugin: writes each test's outcome and how many device allocations it made, one JSON line a test.

A test that puts nothing on the device makes no allocation there, so the count is the proof that it ran on it.
"""

import json
import os

import pytest
import torch


def _allocations() -> int:
    import torch_npu  # noqa: F401

    return torch.npu.memory_stats().get("allocation.all.allocated", 0) if torch.npu.is_available() else 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    before = _allocations()
    item.outcomes = {}
    yield
    outcomes = set(item.outcomes.values())
    outcome = "failed" if "failed" in outcomes else "skipped" if "skipped" in outcomes else "passed"
    with open(os.environ["PROOF_FILE"], "a") as out:
        name = item.nodeid.split("::", 1)[1].replace("::", ".")
        out.write(json.dumps({"test": name, "outcome": outcome, "allocations": _allocations() - before}) + "\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.outcomes[report.when] = report.outcome
