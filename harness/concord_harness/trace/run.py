"""Runs the tests of one file, each in a process of its own, and records what they call.

Argument: a JSON file {"file": path, "tests": ["TestX.test_y", ...], "apis": [name, ...], "timeout": seconds}.
Output, on the descriptor that standard output had: a JSON line {"hello": ...}, then one per test. A test that fails
under the function mode is run again without it, and without any watching when it fails again: the record says which.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import platform
import select
import signal
import sys
import time
import traceback
import types
import unittest
from typing import Any

WAYS = ("mode and profile", "profile", "unwatched")


def test_names(path: str) -> dict[str, list[str]]:
    """Test functions by class ("" for the module) as the source has them."""
    with open(path, "rb") as source:
        tree = ast.parse(source.read())
    names: dict[str, list[str]] = {"": []}
    for node in tree.body:
        functions = node.body if isinstance(node, ast.ClassDef) else [node]
        key = node.name if isinstance(node, ast.ClassDef) else ""
        for item in functions:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name.startswith("test"):
                names.setdefault(key, []).append(item.name)
    return names


def load(path: str) -> types.ModuleType:
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    root = folder
    while os.path.basename(root) not in ("test", "") and root != os.path.dirname(root):
        root = os.path.dirname(root)
    if os.path.basename(root) == "test":
        sys.path.insert(1, root)
        sys.path.insert(2, os.path.dirname(root)) if not os.path.isdir(
            os.path.join(os.path.dirname(root), "torch")
        ) else None
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.argv = [path]
    spec.loader.exec_module(module)
    return module


def instances(module: types.ModuleType, name: str, known: dict[str, list[str]]) -> list[tuple[type, str]]:
    """The runnable tests that a test of the source became: per device type, per parameter."""
    class_name, _, method = name.rpartition(".")
    found = []
    for key, kind in sorted(vars(module).items()):
        if not (isinstance(kind, type) and issubclass(kind, unittest.TestCase)):
            continue
        if key != class_name and not (key.startswith(class_name) and key[len(class_name) :] in ("CPU", "META")):
            continue
        others = known.get(class_name, [])
        for attribute in sorted(dir(kind)):
            if attribute == method:
                found.append((kind, attribute))
            elif attribute.startswith(method + "_"):
                longer = [
                    o for o in others if len(o) > len(method) and (attribute == o or attribute.startswith(o + "_"))
                ]
                if not longer:
                    found.append((kind, attribute))
    return found


class Outcome(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.reason = ""

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802 - unittest's name
        super().addSkip(test, reason)
        self.reason = reason

    def name(self) -> str:
        if self.errors or self.failures:
            self.reason = (self.errors + self.failures)[0][1].strip().splitlines()[-1][:300]
            return "error" if self.errors else "failed"
        return "skipped" if self.skipped else "passed"


def run_one(
    module: types.ModuleType, request: dict[str, Any], name: str, chosen: list[tuple[type, str]], way: str
) -> dict[str, Any]:
    from concord_harness.trace.watch import Targets, Watch

    targets = Targets(request["apis"])
    watch = Watch(targets, way == WAYS[0])
    outcome = Outcome()
    for kind, method in chosen:
        test = kind(method)
        if way == WAYS[2]:
            test.run(outcome)
        else:
            with watch:
                test.run(outcome)
    apis = {api: record.facts() for api, record in sorted(watch.records.items())}
    return {
        "test": name,
        "ran": [f"{kind.__name__}.{method}" for kind, method in chosen],
        "outcome": outcome.name(),
        "reason": outcome.reason,
        "watched": way,
        "backward": watch.backward,
        "apis": apis,
        "unobservable": targets.unobservable,
    }


def read_until(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            continue
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return data, True
        data += chunk
    return data, False


def in_child(request: dict[str, Any], name: str, work: Any) -> dict[str, Any]:
    """Forks, so that a crash or a hang costs one test."""
    reader, writer = os.pipe()
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setpgid(0, 0)
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            reason = traceback.format_exception_only(type(error), error)[-1].strip()[:300]
            result = {"test": name, "outcome": "error", "reason": reason, "apis": {}}
        data = json.dumps(result).encode()
        while data:
            data = data[os.write(writer, data) :]
        os._exit(0)
    os.close(writer)
    data, ended = read_until(reader, started + float(request["timeout"]))
    os.close(reader)
    if not ended:
        for group in (-pid, pid):
            try:
                os.kill(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
    _, status = os.waitpid(pid, 0)
    if ended and data:
        result = json.loads(data)
    elif not ended:
        result = {"test": name, "outcome": "timeout", "reason": f"no end within {request['timeout']} s", "apis": {}}
    else:
        result = {"test": name, "outcome": "crashed", "reason": f"signal {os.WTERMSIG(status)}", "apis": {}}
    result["seconds"] = round(time.monotonic() - started, 3)
    return result


def trace(module: types.ModuleType, request: dict[str, Any], name: str, known: dict[str, list[str]]) -> dict[str, Any]:
    chosen = instances(module, name, known)[: int(request.get("variants", 4))]
    if not chosen:
        return {
            "test": name,
            "outcome": "absent",
            "reason": "this release's module has no such test on the CPU",
            "apis": {},
        }
    first: dict[str, Any] = {}
    for way in WAYS:
        result = in_child(request, name, lambda way=way: run_one(module, request, name, chosen, way))
        if result["outcome"] in ("passed", "skipped", "timeout"):
            # a test that only passes unwatched keeps the calls that were seen before it failed
            if way == WAYS[2] and first:
                result["apis"] = first["apis"]
            return result
        first = first or result
    return first


def main() -> int:
    out = os.dup(1)
    os.dup2(2, 1)
    with open(sys.argv[1]) as source:
        request = json.load(source)

    def line(value: dict[str, Any]) -> None:
        data = (json.dumps(value) + "\n").encode()
        while data:
            data = data[os.write(out, data) :]

    try:
        known = test_names(request["file"])
        module = load(request["file"])
        import torch
    except BaseException as error:  # noqa: BLE001 - said, and nothing of the file is traced
        line({"failed": traceback.format_exception_only(type(error), error)[-1].strip()[:400]})
        return 0
    line({"hello": {"torch": torch.__version__, "python": platform.python_version()}})
    for name in request["tests"]:
        line(trace(module, request, name, known))
    return 0
