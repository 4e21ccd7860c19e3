"""The device as a suite sees it: probed without being initialised, proof of what a case did on it, its health."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

# Questions that tests ask when they are imported. Asking the plugin initialises the device, and then the process can
# no longer be forked; so one short-lived process asks, and its answers are given until collection is over.
QUESTIONS = ("device_count", "is_available", "current_device", "get_device_name", "mem_get_info", "is_bf16_supported")


class Device:
    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.module = getattr(sys.modules.get("torch"), "npu", None) if plugin else None
        self.threads = len(os.listdir("/proc/self/task"))
        self.replaced: dict[str, Any] = {}
        self.refused = ""  # where collection wanted to initialise the device
        self.tables: Any = None

    # ---- collection --------------------------------------------------------------------------------------

    def _ask(self) -> dict[str, Any]:
        """The answers, from a forked process that may initialise the device."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            answers: dict[str, Any] = {}
            for name in QUESTIONS:
                with contextlib.suppress(Exception):
                    answers[name] = getattr(self.module, name)()
            with contextlib.suppress(Exception):
                found = self.module.get_device_properties(0)
                public = {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
                answers["properties"] = {
                    n: value for n, value in public.items() if isinstance(value, (int, str, float))
                }
            os.write(writer, json.dumps(answers).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            text = file.read()
        os.waitpid(pid, 0)
        return json.loads(text or b"{}")

    def _refuse(self, *_: Any, **__: Any) -> None:
        """In place of the plugin's initialisation: most callers can do without, in a try or when a test asks again."""
        frame = sys._getframe(1)
        while frame.f_back is not None and "torch_npu" in frame.f_code.co_filename:
            frame = frame.f_back
        self.refused = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise RuntimeError("concord does not initialise the device while tests are collected")

    @contextlib.contextmanager
    def answered_by_a_probe(self, allow: bool) -> Iterator[None]:
        """allow: collection may initialise the device; the process cannot be forked after that."""
        if self.module is not None:
            if not allow and hasattr(self.module, "_lazy_init"):
                self.replaced["_lazy_init"] = self.module._lazy_init
                self.module._lazy_init = self._refuse
            answers = self._ask()
            for name in QUESTIONS:
                if name in answers and hasattr(self.module, name):
                    self._replace(name, answers[name])
            if "properties" in answers:
                self._replace("get_device_properties", type("DeviceProperties", (), answers["properties"])())
        try:
            yield
        finally:
            self.restore()

    def _replace(self, name: str, value: Any) -> None:
        fixed = tuple(value) if isinstance(value, list) else value
        self.replaced[name] = getattr(self.module, name)
        setattr(self.module, name, lambda *_, **__: fixed)

    def restore(self) -> None:
        for name, function in self.replaced.items():
            setattr(self.module, name, function)
        self.replaced = {}

    def initialised(self) -> bool:
        return self.module is not None and bool(self.module.is_initialized())

    def not_forkable(self) -> str:
        """Why this process must not be forked, "" if it may be."""
        if self.initialised():
            return "the device was initialised by collection"
        threads = len(os.listdir("/proc/self/task"))
        if threads > self.threads:
            return f"{threads - self.threads} threads were started by collection"
        return ""

    # ---- cases -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def window(self) -> Iterator[dict[str, Any]]:
        """What the device did between the beginning and the end; filled at the end."""
        facts: dict[str, Any] = {}
        if self.module is None:
            yield facts
            return
        from concord_harness.proof import Softnpu

        softnpu = self.tables = self.tables or Softnpu()
        before = softnpu.table() if self.initialised() else {}
        try:
            yield facts
        finally:
            if self.initialised():
                with contextlib.suppress(Exception):
                    self.module.synchronize()
                after = softnpu.table()
                operators = {n: c - before.get(n, 0) for n, c in after.items() if c > before.get(n, 0)}
                facts["counted"] = bool(softnpu)
                facts["launches"] = sum(operators.values())
                facts["operators"] = operators
                with contextlib.suppress(Exception):
                    facts["memory_peak"] = int(self.module.max_memory_allocated())
                    facts["device"] = str(self.module.get_device_name())

    def healthy(self) -> bool:
        """Whether the device still computes. A suite without a device may define concord_health() in a conftest."""
        own = sys.modules.get("conftest")
        if own is not None and hasattr(own, "concord_health"):
            return bool(own.concord_health())
        if not self.initialised():
            return True
        try:
            torch = sys.modules["torch"]
            self.module.synchronize()
            return float((torch.ones(2, device="npu") + 1).sum().item()) == 4.0
        except Exception:  # noqa: BLE001 - whatever it raises, the device does not work
            return False
