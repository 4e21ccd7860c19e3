"""A slot: forks one process per order (a case or a group of them), enforces its limits, and reports what came of it."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from typing import Any

from concord_harness.suite import crash, wire

KEPT_OUTPUT = 128 << 10
KEPT_REPORT = 64 << 20
KEPT_STACK = 8000
TICK = 0.25
GRACE = 2.0


class Pipe:
    """The reading end of what a case writes; keeps the beginning, counts the rest."""

    def __init__(self, limit: int) -> None:
        self.reader, self.writer = os.pipe()
        self.limit, self.data, self.total, self.open = limit, bytearray(), 0, True

    def read(self) -> bool:
        """Takes what there is; False at the end. Nothing to read is no end: drain() may have been here first."""
        try:
            chunk = os.read(self.reader, 1 << 16)
        except BlockingIOError:
            return True
        self.total += len(chunk)
        self.data += chunk[: self.limit - len(self.data)]
        if not chunk:
            self.open = False
        return self.open

    def drain(self, most: int = 1 << 20) -> None:
        """What is in the pipe already, without waiting for writers that outlive the case."""
        os.set_blocking(self.reader, False)
        end, before = self.total + most, -1
        while self.open and before < self.total < end:
            before = self.total
            self.read()

    def close(self) -> None:
        os.close(self.reader)

    def text(self) -> str:
        dropped = self.total - len(self.data)
        return self.data.decode(errors="replace") + (f"\n[{dropped} bytes dropped]" if dropped else "")


class Running:
    """One forked process and the cases it was given, in order."""

    def __init__(self, slot: Slot, order: dict[str, Any]) -> None:
        self.slot, self.order = slot, order
        self.cases: list[list[Any]] = list(order["run"])  # [id, node] that have no result yet
        self.report, self.output = Pipe(KEPT_REPORT), Pipe(KEPT_OUTPUT)
        self.line, self.shown = bytearray(), 0
        self.why = ""  # the limit that was exceeded
        self.phase = "start"
        slot.stack.clear()
        self.started = self.begun = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._child()
        os.close(self.report.writer)
        os.close(self.output.writer)
        self.handle = os.pidfd_open(self.pid)
        self.deadline = self.started + self.allowance
        self.kill_at = 0.0
        self.usage: Any = None
        self.held: dict[str, Any] | None = None

    @property
    def allowance(self) -> float:
        return float(self.order["timeout"])

    def _child(self) -> None:
        slot, limits = self.slot, self.order
        os.setsid()
        wire.die_with_parent()
        slot.wire.close()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, self.output.writer), (2, self.output.writer)):
            os.dup2(source, target)
        for descriptor in (null, self.output.writer, self.output.reader, self.report.reader):
            os.close(descriptor)
        sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
        sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", buffering=1)
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_NOFILE, int(limits.get("files", 0)))
        limit(resource.RLIMIT_DATA, int(limits.get("memory", 0)) << 20)
        crash.enable(slot.stack.fd)
        slot.execute(self.order, self.report.writer)

    # ---- watching --------------------------------------------------------------------------------------

    def watch(self) -> int:
        """Until the process ends; returns its wait status."""
        poll = select.poll()
        for descriptor in (self.report.reader, self.output.reader, self.handle):
            poll.register(descriptor, select.POLLIN)
        poll.register(self.slot.wire, select.POLLRDHUP)
        look = self.started + TICK
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(1000 * TICK)}
            for pipe, taker in ((self.report, self._results), (self.output, self._measure)):
                if pipe.reader in ready:
                    if not pipe.read():
                        with contextlib.suppress(KeyError):
                            poll.unregister(pipe.reader)
                    taker()
            if self.slot.wire.fileno() in ready and self.slot.wire.hung_up():
                self.kill()
                wire.sweep()
                os._exit(0)
            if self.handle in ready:
                _, status, self.usage = os.wait4(self.pid, 0)
                return status
            now = time.monotonic()
            if now >= look:
                look = now + TICK
                self._limits(now)

    def _limits(self, now: float) -> None:
        if self.kill_at:
            if now >= self.kill_at:
                self.kill()
            return
        if now >= self.deadline:
            self._stop("timeout")
            return
        family = [self.pid, *wire.descendants(os.getpid(), 100000)]
        if len(family) - 1 > int(self.order.get("processes", 1 << 20)):
            self._stop("processes")
        elif self.order.get("memory") and self.slot.used_by(set(family)) > int(self.order["memory"]) << 20:
            self._stop("memory")

    def _measure(self) -> None:
        if self.output.total > int(self.order.get("output", 1 << 26)) and not self.why:
            self._stop("output")

    def _stop(self, why: str) -> None:
        """Asks every thread for its stack first when there is a hang to explain, then ends the process."""
        self.why = self.why or why
        if why == "timeout":
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            time.sleep(0.2)
        self.kill()
        self.kill_at = time.monotonic() + GRACE

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    # ---- results ---------------------------------------------------------------------------------------

    def _results(self) -> None:
        """Takes whole lines from the report as they arrive; each result restarts the clock of the next case."""
        *lines, rest = (bytes(self.line) + bytes(self.report.data)).split(b"\n")
        self.report.data.clear()
        self.line = bytearray(rest)
        for line in lines:
            value = json.loads(line)
            self.phase = value.get("phase", self.phase)
            if "result" in value:
                self._one(value["result"], value.get("node"))

    def _one(self, result: dict[str, Any], node: str | None) -> None:
        if not self.cases or (node is not None and node != self.cases[0][1]):
            return
        identity, _ = self.cases.pop(0)
        now = time.monotonic()
        self.output.drain()
        answer = {"done": identity, "ms": round(1000 * (now - self.begun), 2), "result": result}
        text = self.output.text()[self.shown :]
        self.shown = len(self.output.text())
        if text:
            answer["output"] = text
        self.begun, self.deadline, self.phase = now, now + self.allowance, "start"
        if self.cases:
            self.slot.wire.send(answer)
        else:
            self.held = answer  # how the process ends belongs to its last case

    def finish(self, status: int) -> None:
        """The last answer of the order: what the end of the process says is about the case it was in."""
        for pipe in (self.report, self.output):
            if pipe.open:
                pipe.drain()
        self._results()
        left = wire.sweep()
        self.output.drain()
        answer = self.held or {"ms": round(1000 * (time.monotonic() - self.begun), 2)}
        if (
            not self.held and self.cases and self.phase != "exit"
        ):  # it may end early by itself, to leave a broken device
            answer["done"] = self.cases.pop(0)[0]
        answer.update(self._ending(status, left))
        text = self.output.text()[self.shown :]
        if text:
            answer["output"] = answer.get("output", "") + text
        answer["left"] = [identity for identity, _ in self.cases]
        answer["end"] = True
        self.slot.wire.send(answer)
        self.report.close()
        self.output.close()
        os.close(self.handle)

    def _ending(self, status: int, left: int) -> dict[str, Any]:
        facts: dict[str, Any] = {"exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1}
        if os.WIFSIGNALED(status):
            facts["signal"] = os.WTERMSIG(status)
        if self.why:
            facts["limit"] = self.why
        if left:
            facts["leftovers"] = left
        if self.phase != "start":
            facts["phase"] = self.phase
        stack = self.slot.stack.text() if self.why or facts["exit"] else ""
        if stack:
            facts["stack"] = stack[-KEPT_STACK:]
        if self.usage:
            facts["rss"] = self.usage.ru_maxrss
            facts["cpu"] = round(1000 * (self.usage.ru_utime + self.usage.ru_stime), 1)
        return facts


class Stack:
    """A file in memory that crash handlers write to; shared by the slot and each of its cases in turn."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("stack", 0)

    def clear(self) -> None:
        if os.fstat(self.fd).st_size:
            os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)

    def text(self) -> str:
        size = os.fstat(self.fd).st_size
        return os.pread(self.fd, min(size, 1 << 20), 0).decode(errors="replace")


class Slot:
    """execute(order, descriptor) runs in the forked process and never returns."""

    def __init__(self, path: str, identity: dict[str, Any], execute: Any) -> None:
        faulthandler.disable()
        wire.adopt_orphans()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.wire = wire.Wire(path)
        self.execute = execute
        self.stack = Stack()
        self.wire.send({**identity, "pid": os.getpid()})

    def used_by(self, pids: set[int]) -> int:
        """Memory of the processes beyond what each has from this one by the fork."""
        own = resident(os.getpid())
        return sum(max(0, resident(pid) - own) for pid in pids)

    def serve(self) -> None:
        try:
            while (order := self.wire.recv()) is not None:
                running = Running(self, order)
                running.finish(running.watch())
        except BaseException:  # noqa: BLE001 - a fault of this file must not look like one of the test
            self.wire.send({"fault": traceback.format_exc()[-2000:]})
        wire.sweep()
        os._exit(0)


def limit(what: int, most: int) -> None:
    if most or what == resource.RLIMIT_CORE:
        _, hard = resource.getrlimit(what)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(what, (most, hard))


def resident(pid: int) -> int:
    """Bytes of private and shared memory that the process has in use."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(("RssAnon:", "RssShmem:")):
                    total += int(line.split()[1]) << 10
    return total
