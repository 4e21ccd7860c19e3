"""The warm server: imports torch and the plugin once, forks a process per case, enforces its limits.

Standard input:  {"run": ID, "case": "api::name", "device": "npu:0", "timeout": seconds, "tolerances": {...}}
Standard output: {"hello": {...}} once, then per case {"start": ID, "pid": n} and {"done": ID, ...}.
The device is never initialised here: a forked process could not use it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import platform
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
PR_SET_PDEATHSIG = 1
OUTPUT_LIMIT = 256 * 1024
GRACE = 2.0
_libc = ctypes.CDLL(None, use_errno=True)


class Stream:
    """The reading end of a pipe from the case; keeps the beginning of what arrives, drops the rest."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self.reader, self.writer = os.pipe()
        self.limit, self.data, self.dropped, self.open = limit, bytearray(), 0, True

    def read(self) -> None:
        chunk = os.read(self.reader, 65536)
        if not chunk:
            self.open = False
        room = self.limit - len(self.data)
        self.data += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def drain(self) -> None:
        """What is already in the pipe, without waiting for writers that outlive the case."""
        os.set_blocking(self.reader, False)
        with contextlib.suppress(BlockingIOError):
            while self.open:
                self.read()

    def text(self) -> str:
        text = self.data.decode(errors="replace")
        return text + (f"\n[{self.dropped} bytes dropped]" if self.dropped else "")

    def close(self) -> None:
        os.close(self.reader)


class Running:
    """One case in its own process and process group."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.started = time.monotonic()
        self.deadline = self.started + float(request["timeout"])
        self.report, self.output, self.stack = Stream(16 << 20), Stream(), Stream()
        self.timed_out = False
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._child()
        for stream in self.streams:
            os.close(stream.writer)
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)

    @property
    def streams(self) -> tuple[Stream, Stream, Stream]:
        return self.report, self.output, self.stack

    def _child(self) -> None:
        from concord_harness import child

        os.setpgid(0, 0)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, self.output.writer), (2, self.output.writer)):
            os.dup2(source, target)
        faulthandler.enable(self.stack.writer, all_threads=True)
        faulthandler.register(signal.SIGUSR1, file=self.stack.writer, all_threads=True)
        child.main(self.request, self.report.writer)

    def wait(self, orders: int) -> int:
        """Until the process ends; returns its wait status. The end of the orders (concord is gone) ends everything."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() >= self.deadline:
                self._expire()
            self._read(orders)

    def _read(self, orders: int) -> None:
        readers = {s.reader: s for s in self.streams if s.open}
        pause = 0.002 if not self.report.open else 0.05
        ready, _, _ = select.select([*readers], [], [], pause)
        for descriptor in ready:
            readers[descriptor].read()
        if os.getppid() != PARENT or _hung_up(orders):
            self.kill()
            os._exit(0)

    def _expire(self) -> None:
        """First a stack of every thread, then the end."""
        if not self.timed_out:
            self.timed_out = True
            self.deadline = time.monotonic() + GRACE
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            time.sleep(0.2)
            self.stack.drain()
            os.set_blocking(self.stack.reader, True)
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def done(self, status: int) -> dict[str, Any]:
        left = reap(self.pid)
        for stream in self.streams:
            if stream.open:
                stream.drain()
            stream.close()
        return {
            "done": self.request["run"],
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "timed_out": self.timed_out,
            "ms": round(1000 * (time.monotonic() - self.started), 1),
            "leftovers": left,
            "stack": self.stack.text()[-8000:],
            "output": self.output.text(),
            **self._lines(),
        }

    def _lines(self) -> dict[str, Any]:
        phase, result = "start", None
        for line in self.report.data.split(b"\n"):
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                phase = value.get("phase", phase)
                result = value.get("result", result)
        return {"phase": phase, "result": result}


def _hung_up(orders: int) -> bool:
    poll = select.poll()
    poll.register(orders, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def reap(group: int) -> int:
    """Ends whatever the case left behind, also what left its process group; returns how many there were."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    ended = 0
    for _ in range(100):
        left = _children()
        if not left:
            return ended
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                ended += 1
    return ended


def hello(plugin: str, cases: str) -> dict[str, Any]:
    """Imports everything a case may need, so that a fork finds it ready, and says what was found."""
    started = time.monotonic()
    import torch

    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    if plugin:
        facts["plugin"] = plugin
        facts["plugin_version"] = importlib.import_module(plugin).__version__
    importlib.import_module("torch._dynamo")  # checkpoint imports it at its first call: seconds that no case should pay
    importlib.import_module("concord_harness.child")
    importlib.import_module(cases)
    from concord_harness.case import CASES
    from concord_harness.proof import describe_device

    facts.update(describe_device())
    facts["cases"] = list(CASES)
    facts["ms"] = round(1000 * (time.monotonic() - started))
    return facts


def say(value: dict[str, Any]) -> None:
    sys.__stdout__.write(json.dumps(value) + "\n")
    sys.__stdout__.flush()


def serve(orders: int) -> None:
    with os.fdopen(os.dup(orders), "r", encoding="utf-8") as lines:
        for line in lines:
            running = Running(json.loads(line))
            say({"start": running.request["run"], "pid": running.pid})
            say(running.done(running.wait(orders)))


PARENT = os.getppid()


def main() -> int:
    parser = argparse.ArgumentParser(prog="concord_harness")
    parser.add_argument("--plugin", default="torch_npu", help="module that provides the device; empty for none")
    parser.add_argument("--cases", default="concord_harness.cases", help="module that registers the cases")
    options = parser.parse_args()
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    answers = os.dup(1)  # what the imports and the cases print must not mix with the protocol
    os.dup2(2, 1)
    sys.__stdout__ = os.fdopen(answers, "w", encoding="utf-8")
    say({"hello": hello(options.plugin, options.cases)})
    serve(0)
    return 0
