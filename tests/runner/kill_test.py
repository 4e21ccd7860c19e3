"""Kills the runner or one of its processes at random moments, resumes, and compares the report. Long: make test-runner.

usage: kill_test.py CONCORD SITE [--kills N] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BODY = """import time, pytest

@pytest.mark.parametrize("i", range(50))
def test_x(i):
    time.sleep(0.002 * (i % 5))
    assert i != 13
    if i == 17:
        pytest.skip("seventeen")
"""


def family(root: int) -> list[tuple[int, str]]:
    """Descendants that run tests, with what they are: by their distance from concord."""
    names = ["warm process", "unit", "slot", "test"]
    found, level = [], [root]
    for name in names:
        following = []
        for pid in level:
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    text = Path(f"/proc/{pid}/task/{task}/children").read_text()
                    following += [int(p) for p in text.split()]
            except OSError:
                pass
        found += [(pid, name) for pid in following]
        level = following
    return found


def report(path: Path) -> dict[str, tuple[str, str]]:
    return {c["name"]: (c["verdict"], c["reason"]) for c in json.loads(path.read_text())["cases"]}


def leftovers(marker: str) -> list[int]:
    left = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "environ").read_bytes():
                left.append(int(entry.name))
        except OSError:
            pass
    return left


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("concord")
    parser.add_argument("site")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    killed: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as work:
        suite = Path(work, "suite")
        suite.mkdir()
        for number in range(10):
            Path(suite, f"test_{number}.py").write_text(BODY, encoding="utf-8")
        environ = {**os.environ, "CONCORD_HOME": f"{work}/home", "KILL_MARK": work}
        result = Path(work, "result.json")

        def command(journal: Path, *more: str) -> list[str]:
            fixed = [options.concord, "test", str(suite), "--python", sys.executable, "--site", options.site, "-q"]
            return [*fixed, "--journal", str(journal), "--json", str(result), *more]

        started = time.monotonic()
        subprocess.run(command(Path(work, "first.db")), env=environ, stdout=subprocess.DEVNULL)
        span, expected = time.monotonic() - started, report(result)
        assert len(expected) == 500, len(expected)
        done = rounds = 0
        while done < options.kills:
            rounds += 1
            journal = Path(work, f"run-{rounds}.db")
            status = None
            while status not in (0, 1) or not result.exists():
                more = ["--resume"] if journal.exists() and journal.stat().st_size else []
                result.unlink(missing_ok=True)
                process = subprocess.Popen(
                    command(journal, *more), env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                if done < options.kills:
                    time.sleep(chance.uniform(0.05, 0.25 * span))
                    victims = [(process.pid, "runner")] * 3 + family(process.pid)
                    pid, kind = chance.choice(victims)
                    if process.poll() is None:
                        try:
                            os.kill(pid, signal.SIGKILL)
                            done += 1
                            killed[kind] = killed.get(kind, 0) + 1
                        except ProcessLookupError:
                            pass
                status = process.wait()
                if status == 2:  # a kill before the run was begun leaves nothing to resume
                    journal.unlink(missing_ok=True)
            got = report(result)
            print(f"round {rounds}: {done} kills so far", flush=True)
            if got != expected:
                different = {
                    n: (expected.get(n), got.get(n))
                    for n in expected.keys() | got.keys()
                    if expected.get(n) != got.get(n)
                }
                print(f"round {rounds}: the report differs: {different}")
                return 1
        time.sleep(3)
        left = leftovers(f"KILL_MARK={work}")
        if left:
            print(f"processes left over: {left}")
            return 1
    kinds = ", ".join(f"{n} {k}" for k, n in sorted(killed.items()))
    print(f"{done} kills ({kinds}) over {rounds} runs of 500 tests: each report identical, no process left over")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
