"""Where a process was when it died: Python's stack by faulthandler, the C stack by concord's small library."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal

_library: ctypes.CDLL | None = None


def load() -> None:
    """Before the fork, so that a case pays nothing for it. Without the library there are Python's frames only."""
    global _library
    path = os.environ.get("CONCORD_CRASH_LIBRARY", "")
    if path and os.path.exists(path):
        _library = ctypes.CDLL(path)
        _library.concord_crash_enable.argtypes = [ctypes.c_int]


def enable(descriptor: int) -> None:
    """Fatal signals write both stacks to the descriptor; SIGUSR1 writes Python's, and the process goes on."""
    faulthandler.enable(descriptor, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)
    if _library:
        _library.concord_crash_enable(descriptor)
