"""The warm process of a suite: imports torch and the plugin, not the tests, and forks a unit process on request.

Standard input:  {"open": UNIT, "engine": ..., "args": [...], ...}
Standard output: {"hello": {...}} once, then {"opened": UNIT, "pid": n} and {"gone": UNIT, "status": n} for each unit.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import platform
import select
import signal
import sys
import time
from typing import Any

from concord_harness.suite import unit, wire


def hello(plugin: str, torch: bool, preload: list[str]) -> dict[str, Any]:
    started = time.monotonic()
    facts: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine(), "torch": ""}
    if torch:
        module = importlib.import_module("torch")
        facts["torch"] = module.__version__
        # A pool of OpenMP threads in this process would hang the first parallel region of a forked one.
        facts["threads"] = module.get_num_threads()
        module.set_num_threads(1)
    if plugin:
        facts["plugin"] = plugin
        facts["plugin_version"] = importlib.import_module(plugin).__version__
        from concord_harness.proof import describe_device

        facts.update(describe_device())
    for name in preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    facts["ms"] = round(1000 * (time.monotonic() - started))
    return facts


class Zygote:
    def __init__(self, facts: dict[str, Any], plugin: str) -> None:
        self.facts, self.plugin = facts, plugin
        self.units: dict[int, int] = {}  # pid to unit

    def say(self, value: dict[str, Any]) -> None:
        sys.__stdout__.write(json.dumps(value) + "\n")
        sys.__stdout__.flush()

    def open(self, order: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            unit.main(order, self.plugin, int(self.facts.get("threads", 0)))
        self.units[pid] = order["open"]
        self.say({"opened": order["open"], "pid": pid})

    def end(self, order: dict[str, Any]) -> None:
        """Ends a unit that takes too long, after a stack of its threads went to its log."""
        for pid, number in list(self.units.items()):
            if number == order["end"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR1)
                    time.sleep(0.2)
                    os.kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        """Reports units that ended; what they left behind has come to this process and is ended."""
        gone = False
        for pid in list(self.units):
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    gone = True
                    self.say({"gone": self.units.pop(pid), "status": status})
        if gone:
            wire.sweep(frozenset(self.units))

    def serve(self) -> None:
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        pending = b""
        while True:
            ready, _, _ = select.select([0, wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                self.reap()
            if 0 in ready:
                chunk = os.read(0, 1 << 16)
                if not chunk:
                    wire.sweep()
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    order = json.loads(line)
                    (self.open if "open" in order else self.end)(order)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="concord_harness.suite")
    parser.add_argument("--plugin", default="", help="module that provides the device; empty for none")
    parser.add_argument("--torch", action="store_true", help="import torch before the first unit")
    parser.add_argument("--preload", action="append", default=[], help="modules to import too, if they are there")
    parser.add_argument("--alone", help="run one order in this interpreter: JSON")
    options = parser.parse_args(argv)
    if options.alone:
        return unit.alone(json.loads(options.alone), options)
    wire.adopt_orphans()
    # When concord is killed, the end of its orders is seen here, and there is time to end everything below.
    wire.die_with_parent(0)
    answers = os.dup(1)  # what imports print must not mix with the protocol
    os.dup2(2, 1)
    sys.__stdout__ = os.fdopen(answers, "w", encoding="utf-8")
    zygote = Zygote(hello(options.plugin, options.torch, options.preload), options.plugin)
    zygote.say({"hello": zygote.facts})
    gc.collect()
    gc.freeze()
    zygote.serve()
    return 0
