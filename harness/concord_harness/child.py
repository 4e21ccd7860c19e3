"""The forked process of one case: CPU, device, comparison; a JSON line per phase and one for the result."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
import warnings
from typing import Any

import torch

from concord_harness.case import CASES, Case, Run, Skip, neutral
from concord_harness.compare import Comparison
from concord_harness.proof import Window, fallbacks


class Reporter:
    """Writes lines of JSON to the server; a phase is written before it begins, so that a crash has a place."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def line(self, value: dict[str, Any]) -> None:
        data = (json.dumps(value) + "\n").encode()
        while data:
            data = data[os.write(self.descriptor, data) :]

    def phase(self, name: str) -> None:
        self.line({"phase": name})


# The device's own message, which the plugin puts below its general ones: "EZ9999: ...".
CAUSE = re.compile(r"^E[A-Z][0-9]{4}: .*", re.MULTILINE)


def _exception(error: BaseException) -> dict[str, str]:
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-12))
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    text = str(error)
    cause = CAUSE.search(text)
    return {
        "type": name,
        "message": neutral(text),
        "raw": text[:2000],
        "cause": cause.group()[:400] if cause else "",
        "traceback": trace[-6000:],
    }


def _claims(run: Run) -> list[str]:
    """The texts of the claims that do not hold."""
    broken = []
    for text, holds in run.claims:
        if not holds():
            broken.append(text)
    return broken


def _on_cpu(case: Case, result: dict[str, Any]) -> dict[str, Any] | None:
    started = time.monotonic()
    run = Run(torch.device("cpu"))
    run.seed()
    try:
        observed = dict(case.function(run))
        result["cpu"]["claims"] = _claims(run)
    except Skip as skip:
        result["skip"] = str(skip)
        return None
    except Exception as error:  # noqa: BLE001 - reported, and the verdict says so
        result["cpu"]["exception"] = _exception(error)
        return None
    finally:
        result["cpu"]["ms"] = round(1000 * (time.monotonic() - started), 1)
    return observed


def _on_device(case: Case, run: Run, result: dict[str, Any]) -> dict[str, Any] | None:
    """Runs inside the proof window; what the window saw goes to the result even when the case raised."""
    started = time.monotonic()
    window = Window(run.device)
    try:
        with window:
            run.seed()
            return dict(case.function(run))
    except Exception as error:  # noqa: BLE001 - reported, and the verdict says so
        result["device"]["exception"] = _exception(error)
        return None
    finally:
        result["device"]["ms"] = round(1000 * (time.monotonic() - started), 1)
        result["proof"].update(window.facts)


def forced_to_cpu(case: Case) -> bool:
    """For tests of concord itself: CONCORD_FORCE_CPU names cases (part of the id) whose device run stays on the CPU."""
    part = os.environ.get("CONCORD_FORCE_CPU", "")
    return bool(part) and part in case.id


def run_case(request: dict[str, Any], report: Reporter) -> None:
    case = CASES[request["case"]]
    device = torch.device(request["device"])
    result: dict[str, Any] = {"cpu": {}, "device": {}, "proof": {}}
    comparison = Comparison(device, request["tolerances"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report.phase("cpu")
        expected = _on_cpu(case, result)
        if expected is not None:
            report.phase("device")
            run = Run(torch.device("cpu") if forced_to_cpu(case) else device)
            got = _on_device(case, run, result)
            if got is not None:
                report.phase("compare")
                comparison.precision = run.precision
                comparison.observe(expected, got)
                result["device"]["claims"] = _claims(run)
            result["proof"]["made"] = sum(t.device.type == device.type for t in run.made)
    texts = [str(w.message) for w in caught]
    result["proof"]["fallbacks"] = fallbacks("\n".join(texts))
    result["proof"]["on_device"] = comparison.on_device
    result["proof"]["elsewhere"] = comparison.elsewhere
    result["compared"], result["differences"] = comparison.compared, comparison.differences
    result["warnings"] = sorted({text[:300] for text in texts})[:20]
    report.line({"result": result})


def main(request: dict[str, Any], descriptor: int) -> None:
    """Never returns: the process ends here, without the interpreter's clean-up of what it shares with the server."""
    report = Reporter(descriptor)
    status = 0
    try:
        run_case(request, report)
        report.phase("exit")
    except BaseException:  # noqa: BLE001 - the server turns the status into a verdict
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
