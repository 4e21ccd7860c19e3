"""Lines of JSON over a stream socket, and the few system calls that Python's library does not wrap."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its descendants leave behind."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(sig: int = signal.SIGKILL) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, int(sig))


class Wire:
    """One end of a socket. recv() returns None when concord is gone."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, value: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall((json.dumps(value, separators=(",", ":")) + "\n").encode())

    def pending(self) -> dict[str, Any] | None:
        """A whole line that has already arrived."""
        line, found, rest = self.buffer.partition(b"\n")
        if not found:
            return None
        self.buffer = rest
        return json.loads(line)

    def recv(self) -> dict[str, Any] | None:
        while True:
            value = self.pending()
            if value is not None:
                return value
            if not self.fill():
                return None

    def fill(self) -> bool:
        """Takes what has arrived; False at the end."""
        try:
            chunk = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self.buffer += chunk
        return bool(chunk)

    def hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLRDHUP) for _, event in poll.poll(0))

    def close(self) -> None:
        self.socket.close()


def children_of(pid: int) -> list[int]:
    """Direct children by any of the process's threads; [] when it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def descendants(pid: int, limit: int = 1 << 20) -> list[int]:
    """All descendants, at most about limit of them."""
    found, next_ones = [], children_of(pid)
    while next_ones and len(found) < limit:
        found += next_ones
        next_ones = [child for parent in next_ones for child in children_of(parent)]
    return found


def _signal_all(pids: list[int], sig: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sig)


def sweep(keep: frozenset[int] = frozenset()) -> int:
    """Ends every descendant except those kept (and theirs); returns how many children it ended.

    All are stopped before any is killed: what forks faster than it can be killed would otherwise win.
    """
    ended = 0
    for _ in range(200):
        try:
            if not keep and os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                pass
        except ChildProcessError:
            return ended
        mine = [pid for pid in children_of(os.getpid()) if pid not in keep]
        if not mine:
            return ended
        stopped: set[int] = set()
        for _ in range(50):
            found = {pid for child in mine for pid in (child, *descendants(child))}
            if found <= stopped:
                break
            _signal_all(list(found - stopped), signal.SIGSTOP)
            stopped |= found
        _signal_all(list(stopped), signal.SIGKILL)
        for pid in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
                ended += 1
        time.sleep(0)
    return ended
