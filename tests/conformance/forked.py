"""Run tasks in forked processes: a crash, a hang or a poisoned device costs one task only.

The parent has done the imports and never touches the device; a child starts it. A child reports by emitting lines
(one JSON object each); the time limit counts from its last line.
"""

import ctypes
import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

POISONED = 77  # exit status: the last failure left the device unusable, give the rest to a fresh process


@dataclass
class Task:
    name: str
    run: Callable[[Callable[[dict], None]], None]  # in the child; gets emit(record)
    payload: object = None
    records: list[dict] = field(default_factory=list)
    end: str = ""  # "", "poisoned", or what killed it: "SIGSEGV", "exit 3", "timeout"


class _Child:
    def __init__(self, task: Task, limit: float) -> None:
        self.task, self.limit, self.text = task, limit, b""
        self.pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _run_child(task, write)
        os.close(write)
        self.until = time.monotonic() + limit

    def read(self) -> bool:
        data = os.read(self.pipe, 1 << 16)
        *lines, self.text = (self.text + data).split(b"\n")
        self.task.records += [json.loads(line) for line in lines if line]
        self.until = time.monotonic() + self.limit
        return bool(data)

    def finish(self, timed_out: bool) -> None:
        if timed_out:
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        code = os.waitstatus_to_exitcode(status)
        if timed_out:
            self.task.end = "timeout"
        elif code < 0:
            self.task.end = signal.Signals(-code).name
        elif code:
            self.task.end = "poisoned" if code == POISONED else f"exit {code}"


def _run_child(task: Task, pipe: int) -> None:
    os.setpgid(0, 0)
    if not os.environ.get("CONFORMANCE_TRACE"):
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
    code = 3
    try:
        task.run(lambda record: _write_all(pipe, json.dumps(record).encode() + b"\n"))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 3
    finally:
        os._exit(code)


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def run_forked(
    tasks: Iterable[Task], parallel: int, limit: float, done: Callable[[Task], Iterable[Task]]
) -> None:
    """Run every task; done(task) is told of each end and may return further tasks (the rest of a broken one)."""
    queue = list(tasks)[::-1]
    running: list[_Child] = []
    selector = selectors.DefaultSelector()
    while queue or running:
        while queue and len(running) < parallel:
            child = _Child(queue.pop(), limit)
            running.append(child)
            selector.register(child.pipe, selectors.EVENT_READ, child)
        ready = [key.data for key, _ in selector.select(timeout=1)]
        late = [c for c in running if c not in ready and time.monotonic() > c.until]
        for child in late + [c for c in ready if not c.read()]:
            selector.unregister(child.pipe)
            running.remove(child)
            child.finish(child in late)
            queue += list(done(child.task))[::-1]


class Launches:
    """Operators that the device ran in this process, by the device's own count."""

    def __init__(self) -> None:
        self._table = ctypes.CDLL("libascendcl.so").softnpu_launch_table
        self._table.restype = ctypes.c_size_t
        self._table.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self._before: dict[str, int] = {}

    def since_last(self) -> list[str]:
        text = ctypes.create_string_buffer(1 << 16)
        self._table(text, len(text))
        now = json.loads(text.value or b"{}")
        names = sorted(name for name, count in now.items() if count > self._before.get(name, 0))
        self._before = now
        return names


def device_usable() -> bool:
    """Whether the device still works after a failure (a failed task can poison what follows in its process)."""
    import torch

    try:
        probe = torch.ones(2, device="npu") + 1
        torch.npu.synchronize()
        return bool((probe.cpu() == 2).all())
    except Exception:
        return False
