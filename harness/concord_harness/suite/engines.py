"""How tests are found and run: pytest and unittest (concord's own cases are run by `concord verify`)."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import sys
import traceback
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TRACE = 6000
FALLBACK = re.compile(r"operator '([^']+)'\s+is not currently supported\s+on the NPU backend and will fall back")


@dataclass
class Collection:
    """cases: what to hand to run(), by the node's name within the unit."""

    cases: dict[str, Any] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)
    skips: list[dict[str, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def add(self, name: str, case: Any) -> None:
        """Two tests of the same name are two tests."""
        unique, count = name, 1
        while unique in self.cases:
            count += 1
            unique = f"{name}#{count}"
        self.cases[unique] = case


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:400]


# The device's own message, which the plugin puts below its general ones: "EZ9999: ...".
CAUSE = re.compile(r"^(?:E\s+)?(E[A-Z][0-9]{4}: .*)", re.MULTILINE)


def reason_of(message: str, trace: str) -> str:
    cause = CAUSE.search(trace)
    return (first_line(message) + (f" [{cause.group(1)[:300]}]" if cause and cause.group(1) not in message else ""))[
        :600
    ]


class Pytest:
    """pytest's own collection, fixtures and reports; the loop over the tests is ours."""

    def __init__(self, args: list[str], name: str) -> None:
        self.args, self.name = args, name
        self.found = Collection()

    def collect(self, then: Callable[[Collection], Any]) -> None:
        import pytest

        recorder = Recorder(self, then)
        self.recorder = recorder
        fixed = ["-s", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--continue-on-collection-errors"]
        status = pytest.main([*fixed, *self.args], plugins=[recorder])
        if not recorder.finished:
            self.found.errors.append(
                {"where": self.name, "text": f"pytest ended with status {int(status)} during collection"}
            )
            then(self.found)

    def node_name(self, nodeid: str) -> str:
        """Without the file, when the unit is a file."""
        path, _, rest = nodeid.partition("::")
        return rest if rest and self.name and os.path.basename(path) == os.path.basename(self.name) else nodeid

    def run(self, found: Collection, node: str, following: str | None) -> dict[str, Any]:
        item = found.cases[node]
        self.recorder.begin()
        try:
            item.config.hook.pytest_runtest_protocol(
                item=item, nextitem=found.cases.get(following) if following else None
            )
        except BaseException as error:  # noqa: BLE001 - pytest.exit(), KeyboardInterrupt: of this test
            return {
                "outcome": "error",
                "reason": f"{type(error).__name__}: {error}",
                "trace": traceback.format_exc()[-TRACE:],
            }
        return self.recorder.result()


class Recorder:
    """The pytest plugin: collection's outcome, each test's reports and warnings."""

    def __init__(self, engine: Pytest, then: Callable[[Collection], Any]) -> None:
        self.engine, self.then, self.finished = engine, then, False
        self.begin()

    def begin(self) -> None:
        self.reports: list[Any] = []
        self.warnings: list[str] = []

    # ---- hooks -------------------------------------------------------------------------------------------

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            text = str(report.longrepr)
            self.engine.found.errors.append({"where": report.nodeid, "text": text[-TRACE:]})
        elif report.skipped:
            self.engine.found.skips.append({"where": report.nodeid, "text": skip_reason(report)})

    def pytest_runtestloop(self, session: Any) -> bool:
        self.finished = True
        found = self.engine.found
        files = set()
        for item in session.items:
            found.add(self.engine.node_name(item.nodeid), item)
            files.add(str(item.path))
        found.files = sorted(files)
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            # It stays, because assertions ask it for colours; it hears nothing more: a case's output is its own.
            terminal._tw._file = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the process's life
            for caller in terminal.config.pluginmanager.get_hookcallers(terminal) or []:
                caller._remove_plugin(terminal)
        self.then(found)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.reports.append(report)

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        self.warnings.append(str(warning_message.message))

    # ---- a test's result ---------------------------------------------------------------------------------

    def result(self) -> dict[str, Any]:
        result = self._outcome()
        fallbacks = sorted({name for text in self.warnings for name in FALLBACK.findall(text)})
        if fallbacks:
            result["fallbacks"] = fallbacks
        return result

    def _outcome(self) -> dict[str, Any]:
        for report in self.reports:
            if report.failed:
                return failure(report)
        for report in self.reports:
            if report.skipped and hasattr(report, "wasxfail"):
                return {"outcome": "xfail", "reason": str(report.wasxfail)}
            if report.skipped:
                return {"outcome": "skipped", "reason": skip_reason(report)}
        if any(hasattr(report, "wasxfail") for report in self.reports):
            return {"outcome": "xpass", "reason": "passed although the test expects a failure"}
        if not any(report.when == "call" for report in self.reports):
            return {"outcome": "error", "reason": "pytest reported no call of the test"}
        return {"outcome": "passed"}


def failure(report: Any) -> dict[str, Any]:
    trace = str(report.longrepr)
    if trace.startswith(("Unexpected success", "[XPASS(strict)]")):
        return {"outcome": "xpass", "reason": "passed although the test expects a failure"}
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else trace.strip().rpartition("\n")[2]
    outcome = "failed" if report.when == "call" else "error"
    where = "" if report.when == "call" else f"in {report.when}: "
    return {"outcome": outcome, "reason": where + reason_of(message, trace), "trace": trace[-TRACE:]}


def skip_reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return first_line(text.removeprefix("Skipped: "))


class Unittest:
    """The standard library's loader and runner, for suites and environments without pytest. args: files or modules."""

    def __init__(self, args: list[str], name: str) -> None:
        self.args, self.name = args, name
        self.found = Collection()

    def collect(self, then: Callable[[Collection], Any]) -> None:
        for argument in self.args:
            try:
                module = load_module(argument)
                self._flatten(unittest.defaultTestLoader.loadTestsFromModule(module))
                self.found.files.append(str(module.__file__))
            except unittest.SkipTest as skip:
                self.found.skips.append({"where": argument, "text": str(skip)})
            except BaseException:  # noqa: BLE001 - an import can raise anything
                self.found.errors.append({"where": argument, "text": traceback.format_exc()[-TRACE:]})
        then(self.found)

    def _flatten(self, suite: Any) -> None:
        for case in suite:
            if isinstance(case, unittest.TestSuite):
                self._flatten(case)
            elif type(case).__module__ == "unittest.loader":
                error = getattr(case, "_exception", "the loader could not load it")
                self.found.errors.append({"where": case.id(), "text": str(error)})
            else:
                self.found.add(
                    case.id().split(".", case.__class__.__module__.count(".") + 1)[-1].replace(".", "::"), case
                )

    def run(self, found: Collection, node: str, following: str | None) -> dict[str, Any]:
        result = unittest.TextTestResult(unittest.runner._WritelnDecorator(io.StringIO()), False, 0)
        result._previousTestClass = None
        unittest.TestSuite([found.cases[node]]).run(result)
        for outcome, records in (("error", result.errors), ("failed", result.failures)):
            for case, trace in records:
                setup = case.__class__.__name__ == "_ErrorHolder"
                last = trace.strip().rpartition("\n")[2]
                kind = "error" if setup else "failed"
                return {"outcome": kind, "reason": reason_of(last, trace), "trace": trace[-TRACE:], "raised": outcome}
        for _, reason in result.skipped:
            return {"outcome": "skipped", "reason": first_line(reason)}
        if result.expectedFailures:
            return {"outcome": "xfail", "reason": first_line(result.expectedFailures[0][1].strip().rpartition("\n")[2])}
        if result.unexpectedSuccesses:
            return {"outcome": "xpass", "reason": "passed although the test expects a failure"}
        return {
            "outcome": "passed" if result.testsRun else "error",
            "reason": "" if result.testsRun else "unittest ran no test",
        }


def load_module(argument: str) -> Any:
    if not argument.endswith(".py"):
        return importlib.import_module(argument)
    name = os.path.basename(argument)[:-3]
    sys.path.insert(0, os.path.dirname(os.path.abspath(argument)))
    spec = importlib.util.spec_from_file_location(name, argument)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Cases:
    """concord's built-in cases: the CPU twin, the device and the comparison are within the one process."""

    def __init__(self, args: list[str], name: str) -> None:
        self.module = args[0] if args else "concord_harness.cases"
        self.found = Collection()

    def collect(self, then: Callable[[Collection], Any]) -> None:
        importlib.import_module("torch._dynamo")  # checkpoint imports it at its first call
        importlib.import_module("concord_harness.child")
        importlib.import_module(self.module)
        from concord_harness.case import CASES

        self.found.cases = dict(CASES)
        then(self.found)

    def run(self, found: Collection, node: str, following: str | None) -> dict[str, Any]:
        from concord_harness import child

        class Keep:
            result: dict[str, Any] = {}

            def line(self, value: dict[str, Any]) -> None:
                self.result = value.get("result", self.result)

            def phase(self, name: str) -> None:
                pass

        keep = Keep()
        child.run_case({"case": node, "device": "npu:0", "tolerances": {"float32": [1.3e-6, 1e-5]}}, keep)
        return {"outcome": "case", "case": keep.result}


ENGINES = {"cases": Cases, "pytest": Pytest, "unittest": Unittest}


def make(kind: str, args: list[str], name: str) -> Any:
    return ENGINES[kind](args, name)
