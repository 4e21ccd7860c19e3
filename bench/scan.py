#!/usr/bin/env python3
"""Scanning: concord against ast-grep, in one run, printed as ratios.

usage: scan.py CONCORD TREE [APIS]

TREE is a torch source tree, APIS a list of API names (a whole inventory), one a line. Each figure is the least of some
rounds. ast-grep is taken from PATH or AST_GREP; without it that line says so. Nothing is asserted.
"""

import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

THREE = [
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
    "torch.overrides.is_tensor_like",
]
PATTERN = "checkpoint_sequential($$$)"


class Figure:
    """Wall and processor seconds, and the peak of memory, of the best of some rounds."""

    def __init__(self, argv: list[str], rounds: int, prepare=lambda: None) -> None:
        self.wall = self.cpu = float("inf")
        self.memory = 0
        for _ in range(rounds):
            prepare()
            started = time.perf_counter()
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            wall = time.perf_counter() - started
            if status:
                raise SystemExit(f"{argv[0]}: ended with {status}")
            self.wall = min(self.wall, wall)
            self.cpu = min(self.cpu, used.ru_utime + used.ru_stime)
            self.memory = max(self.memory, used.ru_maxrss)

    def __str__(self) -> str:
        return f"{self.wall:6.2f} s ({self.cpu:.2f} s of processor, {self.memory / 1024:.0f} MB)"


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    concord, tree = sys.argv[1], pathlib.Path(sys.argv[2])
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        index = pathlib.Path(folder, "scan.db")

        def forget() -> None:
            for path in pathlib.Path(folder).iterdir():
                path.unlink()

        base = [concord, "scan", "--upstream", str(tree), "--index", str(index)]
        three = Figure([*base, *THREE], 3, forget)
        print(f"three APIs, cold:       {three}")
        print(f"three APIs, warm:       {Figure([*base, *THREE], 3)}")
        if len(sys.argv) > 3:
            every = [*base, "--all-apis", "--apis", sys.argv[3]]
            print(f"whole inventory, cold:  {Figure(every, 1, forget)}")
            print(f"whole inventory, warm:  {Figure(every, 3)}")
    peer = os.environ.get("AST_GREP") or shutil.which("ast-grep") or shutil.which("sg")
    if not peer or "ast-grep" not in subprocess.run([peer, "--version"], capture_output=True, text=True).stdout:
        print("ast-grep is not installed: `npm install @ast-grep/cli` and AST_GREP=.../ast-grep give the ratio")
        return 0
    theirs = Figure([peer, "run", "--lang", "python", "--pattern", PATTERN, str(tree / "test")], 2)
    print(f"ast-grep, one pattern:  {theirs}")
    print(
        f"three APIs cold are {theirs.wall / three.wall:.1f}x faster, by processor time {theirs.cpu / three.cpu:.1f}x"
    )
    return 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
