#!/usr/bin/env python3
"""concord test against pytest-forked and pytest-xdist: cost per trivial test, in one run, printed as ratios.

usage: bench/runner.py CONCORD [--cases N] [--jobs N] [--site DIR]
The peers come from the package index into a temporary folder, unless --site has them. Wall time says what a person
waits, processor time (all processes) what it costs: on a busy machine only the second is steady.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEERS = ["pytest==8.3.4", "pytest-forked==1.6.0", "pytest-xdist==3.6.1"]
BODY = """import pytest


@pytest.mark.parametrize('number', range({count}))
def test_trivial(number):
    assert number >= 0
"""


def measure(name: str, command: list[str], cases: int, environ: dict[str, str]) -> dict[str, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        sys.exit(f"{name}: status {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
    result = {"wall_ms": 1000 * wall / cases, "cpu_ms": 1000 * cpu / cases, "rss_mb": after.ru_maxrss / 1024}
    print(
        f"{name:16} {result['wall_ms']:8.2f} ms a case (wall), {result['cpu_ms']:8.2f} ms of processor time", flush=True
    )
    return result


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("concord")
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--site")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        site = options.site or f"{work}/site"
        if not options.site:
            install = [sys.executable, "-m", "pip", "install", "-q", "--target", site, *PEERS]
            subprocess.run(install, check=True)
        suite = Path(work, "suite")
        suite.mkdir()
        for number in range(options.files):
            text = BODY.format(count=options.cases // options.files)
            Path(suite, f"test_trivial_{number}.py").write_text(text, encoding="utf-8")
        environ = {**os.environ, "PYTHONPATH": site, "CONCORD_HOME": f"{work}/home", "PYTHONDONTWRITEBYTECODE": "1"}
        journal, jobs = f"{work}/journal.db", str(options.jobs)
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
        own = [options.concord, "test", str(suite), "--python", sys.executable, "--site", site, "-q", "-j", jobs]
        results = {
            "concord": measure("concord", [*own, "--journal", journal], options.cases, environ),
            "forked": measure("pytest-forked", [*pytest, "--forked", "-n", jobs], options.cases, environ),
            "xdist": measure("pytest-xdist", [*pytest, "-n", jobs], options.cases, environ),
        }
        size = Path(journal).stat().st_size / options.cases
    ours = results["concord"]
    for peer in ("forked", "xdist"):
        wall, cpu = results[peer]["wall_ms"] / ours["wall_ms"], results[peer]["cpu_ms"] / ours["cpu_ms"]
        print(f"{peer} / concord: {wall:.2f} (wall), {cpu:.2f} (processor time)")
    print(f"journal: {size:.0f} bytes a case; largest process {ours['rss_mb']:.0f} MB")
    print(json.dumps({"cases": options.cases, "journal_bytes_per_case": size, **results}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
