"""Judge cases in forked processes: a crash or a hang costs one case, and costs no import.

The parent has imported torch and the plugin and has not touched the device; a child does (a fork after that is not
allowed). Results are lines `name TAB dtype TAB verdict TAB detail`, written as they come, so that a killed run has
shown what it did.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

Row = tuple[str, str, str, str]
JUDGED = ("pass", "fail", "crash", "timeout")


@dataclass
class Case:
    """One thing to judge, once for each dtype."""

    name: str
    dtypes: list[str]
    judge: Callable[[str], tuple[str, str]]


@dataclass
class Job:
    case: Case
    limit: float
    text: bytes = b""
    rows: list[Row] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)
    pid: int = 0
    pipe: int = -1

    def start(self) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            child(self.case, write)
        os.close(write)
        self.pipe = read

    def take(self, data: bytes) -> None:
        self.text += data
        *lines, self.text = self.text.split(b"\n")
        for line in lines:
            dtype, verdict, detail = line.decode(errors="replace").split("\t", 2)
            self.rows.append((self.case.name, dtype, verdict, detail))
            self.begin = time.monotonic()

    def overdue(self) -> bool:
        return time.monotonic() - self.begin > self.limit

    def finish(self, timed_out: bool) -> list[Row]:
        if timed_out:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        missing = self.case.dtypes[len(self.rows) :]
        if missing:
            code = os.waitstatus_to_exitcode(status)
            reason = signal.Signals(-code).name if code < 0 else f"exit {code}"
            detail = f"over {self.limit:.0f} s" if timed_out else reason
            self.rows.append((self.case.name, missing[0], "timeout" if timed_out else "crash", detail))
            if missing[1:]:  # the rest is judged by another process
                rest = Job(Case(self.case.name, missing[1:], self.case.judge), self.limit)
                return self.rows + rest.run()
        return self.rows

    def run(self) -> list[Row]:
        self.start()
        with selectors.DefaultSelector() as selector:
            selector.register(self.pipe, selectors.EVENT_READ)
            self.begin = time.monotonic()
            while True:
                if selector.select(timeout=1):
                    data = os.read(self.pipe, 65536)
                    if not data:
                        return self.finish(False)
                    self.take(data)
                if self.overdue():
                    return self.finish(True)


def child(case: Case, pipe: int) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not left behind by a judge that was killed
    if not os.environ.get("CONFORMANCE_SHOW"):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    for dtype in case.dtypes:
        verdict, detail = case.judge(dtype)
        os.write(pipe, f"{dtype}\t{verdict}\t{' '.join(detail.split())}".encode()[:4000] + b"\n")
    os._exit(0)


def run_all(cases: list[Case], jobs: int, limit: float, out: TextIO) -> list[Row]:
    """limit: seconds for one case and dtype."""
    queue = cases[::-1]
    rows: list[Row] = []
    running: list[Job] = []
    selector = selectors.DefaultSelector()

    def end(job: Job, timed_out: bool) -> None:
        selector.unregister(job.pipe)
        running.remove(job)
        done = job.finish(timed_out)
        rows.extend(done)
        out.writelines("\t".join(row) + "\n" for row in done)
        out.flush()

    while queue or running:
        while queue and len(running) < jobs:
            job = Job(queue.pop(), limit)
            job.start()
            running.append(job)
            selector.register(job.pipe, selectors.EVENT_READ, job)
        for key, _ in selector.select(timeout=1):
            data = os.read(key.data.pipe, 65536)
            if data:
                key.data.take(data)
            else:
                end(key.data, False)
        for job in [j for j in running if j.overdue()]:
            end(job, True)
    return rows


def summary(rows: list[Row]) -> tuple[str, bool]:
    """The counts by dtype and the share of judged pairs that pass; True when all do."""
    lines = []
    for dtype in dict.fromkeys(row[1] for row in rows):
        lines.append(f"{dtype:10} {dict(Counter(row[2] for row in rows if row[1] == dtype))}")
    total = Counter(row[2] for row in rows)
    judged = sum(total[v] for v in JUDGED)
    share = 100 * total["pass"] / max(judged, 1)
    lines.append(f"{total['pass']} of {judged} judged pairs pass ({share:.1f}%), {dict(total)}")
    return "\n".join(lines), judged == total["pass"]


def read_table(path: Path) -> list[Row]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        name, dtype, verdict, detail = line.split("\t", 3)
        rows.append((name, dtype, verdict, detail))
    return rows


def write_table(path: Path, rows: list[Row]) -> None:
    """Replaces the table at path by rows; pairs that were not judged now keep their line."""
    table = {row[:2]: row for row in [*read_table(path), *rows]}
    text = "".join("\t".join(table[key]) + "\n" for key in sorted(table))
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
