"""Evidence that a case really ran on the device: launches, memory, fallbacks, and what the device is."""

from __future__ import annotations

import ctypes
import glob
import json
import re
from typing import Any

import torch

FALLBACK = re.compile(r"The operator '([^']+)'\s+is not currently supported\s+on the NPU backend and will fall back")


def loaded_library(name: str) -> str:
    """Path of a library of this process whose file name starts with name, or "" when it is not loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith(name):
                return "/" + path
    return ""


class Softnpu:
    """The counters of softnpu, when that is the library which the plugin loaded."""

    def __init__(self) -> None:
        self.path = loaded_library("libsoftnpu.so")
        self.library = ctypes.CDLL(self.path) if self.path else None
        if self.library:
            self.library.softnpu_launches.restype = ctypes.c_uint64
            self.library.softnpu_launch_table.restype = ctypes.c_size_t
            self.library.softnpu_launch_table.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def __bool__(self) -> bool:
        return self.library is not None

    def launches(self) -> int:
        return int(self.library.softnpu_launches()) if self.library else 0

    def table(self) -> dict[str, int]:
        """Launches by operator since the process began."""
        if not self.library:
            return {}
        size = self.library.softnpu_launch_table(None, 0)
        while True:
            text = ctypes.create_string_buffer(size + 1)
            need = self.library.softnpu_launch_table(text, size + 1)
            if need <= size:
                return json.loads(text.value or b"{}")
            size = need


def fallbacks(text: str) -> list[str]:
    """The operators that the plugin said it would run on the CPU."""
    return sorted(set(FALLBACK.findall(text)))


def device_files() -> list[str]:
    return sorted(glob.glob("/dev/davinci[0-9]*"))


def describe_device() -> dict[str, Any]:
    """What this process loaded: facts from which concord labels every record."""
    softnpu = Softnpu()
    return {
        "softnpu": softnpu.path,
        "ascendcl": loaded_library("libascendcl.so"),
        "device_files": device_files(),
    }


class Window:
    """The time between start and stop in which a case uses the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.module = getattr(torch, device.type, None) if device.type != "cpu" else None
        self.softnpu = Softnpu()
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Window:
        if self.module is not None:
            self.module.set_device(self.device)
            self.module.reset_peak_memory_stats()
        self._before, self._table = self.softnpu.launches(), self.softnpu.table()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.module is not None:
            self.module.synchronize()
            self.facts["memory_peak"] = int(self.module.max_memory_allocated())
            self.facts["device_name"] = str(self.module.get_device_name())
        after = self.softnpu.table()
        self.facts["counted"] = bool(self.softnpu)
        self.facts["launches"] = self.softnpu.launches() - self._before
        self.facts["operators"] = {n: c - self._table.get(n, 0) for n, c in after.items() if c > self._table.get(n, 0)}
