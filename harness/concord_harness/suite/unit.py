"""A unit: a process that collects the tests of one file (or one set of arguments) and forks slots to run them.

It connects to concord's socket and says {"unit": U, "cases": [...], "forkable": bool, ...}, then takes {"slot": N} and
{"close": 1}. A unit that cannot be forked after collection (a device or threads were started by an import) is opened
again by concord with "late": then every case's own process collects first.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

from concord_harness.suite import crash, devices, engines, wire
from concord_harness.suite.slot import Slot


class Reporter:
    """Lines of JSON to the slot."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def line(self, value: dict[str, Any]) -> None:
        data = (json.dumps(value, separators=(",", ":"), default=str) + "\n").encode()
        while data:
            data = data[os.write(self.descriptor, data) :]


class Unit:
    def __init__(self, order: dict[str, Any], plugin: str, threads: int) -> None:
        self.order, self.threads = order, threads
        self.device = devices.Device(plugin)
        self.engine = engines.make(order["engine"], order["args"], order.get("name", ""))
        self.late = bool(order.get("late"))
        self.slots: set[int] = set()

    def open(self) -> None:
        self.wire = wire.Wire(self.order["socket"])
        if self.late:
            self.wire.send({"unit": self.order["open"], "pid": os.getpid(), "late": True})
            self.serve()
        with self.device.answered_by_a_probe(bool(self.order.get("allow"))):
            self.engine.collect(self.collected)

    def collected(self, found: engines.Collection) -> NoReturn:
        self.device.restore()
        if self.device.refused and (found.errors or not found.cases):
            # Perhaps for that reason: once more, with the device.
            self.wire.send({"unit": self.order["open"], "again": True, "why": self.device.refused})
            os._exit(0)
        why = self.device.not_forkable()
        self.wire.send(
            {
                "unit": self.order["open"],
                "pid": os.getpid(),
                "cases": list(found.cases),
                "errors": found.errors,
                "skips": found.skips,
                "files": found.files,
                "forkable": not why,
                "why": why,
            }
        )
        if why:
            os._exit(0)
        gc.collect()
        gc.freeze()  # a collection in a forked process would copy every page of what is there now
        self.serve()

    def serve(self) -> NoReturn:
        while (order := self.wire.recv()) is not None and "close" not in order:
            wire.sweep(frozenset(self._living()))
            pid = os.fork()
            if pid == 0:
                wire.die_with_parent()
                self.wire.close()
                identity = {"slot": order["slot"], "of": self.order["open"]}
                limit_processes(self.order, order["slot"])
                Slot(self.order["socket"], identity, self.execute).serve()
            self.slots.add(pid)
        for pid in self._living():
            os.kill(pid, signal.SIGTERM)
        wire.sweep()
        os._exit(0)

    def _living(self) -> set[int]:
        for pid in list(self.slots):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self.slots.discard(pid)
            except ChildProcessError:
                self.slots.discard(pid)
        return self.slots

    # ---- in the process of a case ------------------------------------------------------------------------

    def execute(self, order: dict[str, Any], descriptor: int) -> NoReturn:
        if order.get("fresh"):
            self.replace(order, descriptor)
        report = Reporter(descriptor)
        status = 0
        try:
            if self.threads:
                sys.modules["torch"].set_num_threads(self.threads)
            if self.late:
                report.line({"phase": "collection"})
                self.engine.collect(lambda found: self.run_and_leave(found, order, report))
            self.run(self.engine.found, order, report)
        except BaseException:  # noqa: BLE001 - the slot sees the status, the output says what it was
            traceback.print_exc()
            status = 70
        leave(status)

    def run_and_leave(self, found: engines.Collection, order: dict[str, Any], report: Reporter) -> NoReturn:
        self.run(found, order, report)
        leave(0)

    def run(self, found: engines.Collection, order: dict[str, Any], report: Reporter) -> None:
        nodes = [node for _, node in order["run"]]
        for position, node in enumerate(nodes):
            following = nodes[position + 1] if position + 1 < len(nodes) else None
            report.line({"phase": "test"})
            if node not in found.cases:
                report.line({"node": node, "result": {"outcome": "missing"}})
                continue
            with self.device.window() as proof:
                result = self.engine.run(found, node, following)
            result["proof"] = proof
            if order.get("check"):
                result["healthy"] = self.device.healthy()
            report.line({"node": node, "result": result})
            if result.get("healthy") is False:
                break
        report.line({"phase": "exit"})

    def replace(self, order: dict[str, Any], descriptor: int) -> NoReturn:
        """An interpreter of its own, for what does not bear a fork."""
        os.set_inheritable(descriptor, True)
        unit = {key: self.order[key] for key in ("open", "engine", "args", "name", "socket") if key in self.order}
        text = json.dumps({"unit": unit, "order": {**order, "fresh": False}, "descriptor": descriptor})
        script = os.path.join(os.path.dirname(__file__), "..", "..", "suite.py")
        argv = [sys.executable, os.path.normpath(script), "--alone", text]
        argv += ["--plugin", self.device.plugin] if self.device.plugin else []
        argv += ["--torch"] if "torch" in sys.modules else []
        os.execv(sys.executable, argv)


def leave(status: int) -> NoReturn:
    """Without the interpreter's clean-up of what this process shares with the one it was forked from."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def alone(task: dict[str, Any], options: Any) -> NoReturn:
    """Runs an order in an interpreter that has done nothing else."""
    import importlib

    faulthandler.enable()
    if options.torch:
        importlib.import_module("torch")
    if options.plugin:
        importlib.import_module(options.plugin)
    unit = Unit({**task["unit"], "late": True}, options.plugin, 0)
    unit.execute(task["order"], task["descriptor"])


def limit_processes(order: dict[str, Any], slot: int) -> None:
    """A group of the pids controller, where this user may make one: what forks without end meets its limit at once."""
    if not order.get("cgroup"):
        return
    group = os.path.join(order["cgroup"], f"slot-{slot}")
    try:
        os.makedirs(group, exist_ok=True)
        for name, value in (("pids.max", order["cgroup_processes"]), ("cgroup.procs", os.getpid())):
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(str(value))
    except OSError as error:
        print(f"no process group for slot {slot}: {error}")


def main(order: dict[str, Any], plugin: str, threads: int) -> NoReturn:
    status = 0
    try:
        os.setsid()
        wire.die_with_parent()
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, log), (2, log)):
            os.dup2(source, target)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)
        crash.load()
        crash.enable(2)
        wire.adopt_orphans()
        os.environ.update(order.get("env", {}))
        if order.get("folder"):
            os.chdir(order["folder"])
        sys.path[:0] = order.get("path", [])
        started = time.monotonic()
        Unit(order, plugin, threads).open()
        print(f"collection ended after {time.monotonic() - started:.1f} s without a result")
        status = 71
    except BaseException:  # noqa: BLE001 - the log says what it was
        traceback.print_exc()
        status = 70
    leave(status)
