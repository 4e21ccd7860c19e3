"""Cases that misbehave in every way the server must survive; registered by importing."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import torch
from concord_harness.case import Observations, Run, Skip, cases_of

case = cases_of("planted")


def marker() -> str:
    return os.environ["PLANTED_MARKER"]


@case
def good(run: Run) -> Observations:
    return {"sum": run.draw(4, 4).sum()}


@case
def segfault(run: Run) -> Observations:
    ctypes.string_at(8)
    return {}


@case
def abort(run: Run) -> Observations:
    os.abort()


@case
def python_loop(run: Run) -> Observations:
    while True:
        time.sleep(0.01)


@case
def c_loop(run: Run) -> Observations:
    """Blocks in C with the lock of the interpreter held and signals of Python undeliverable."""
    ctypes.PyDLL(None).sleep(1000)
    return {}


@case
def exits(run: Run) -> Observations:
    print("last words")
    sys.stdout.flush()
    os._exit(3)


@case
def much_output(run: Run) -> Observations:
    for _ in range(200):
        sys.stdout.write("x" * 100_000)
    return {"value": 1}


@case
def daemon_left(run: Run) -> Observations:
    """Leaves a process of another session behind that would write a file later."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1.5)
            with open(marker(), "w", encoding="ascii") as file:
                file.write("still alive")
        os._exit(0)
    time.sleep(0.1)
    return {"value": 1}


@case
def kills_itself(run: Run) -> Observations:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


@case
def kills_server(run: Run) -> Observations:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(5)
    return {}


@case
def raises(run: Run) -> Observations:
    raise ValueError("on cpu as well")


@case
def skips(run: Run) -> Observations:
    raise Skip("not on this release")


@case
def broken_claim(run: Run) -> Observations:
    run.claim("one is two", lambda: False)
    return {"value": 1}


@case
def differs(run: Run) -> Observations:
    differs.calls = getattr(differs, "calls", 0) + 1  # type: ignore[attr-defined]
    return {"x": torch.full((3,), float(differs.calls)), "n": differs.calls}  # type: ignore[attr-defined]
