"""Judge the device by op-plugin's own tests: every test file of its base operators, in a forked process each.

    softnpu run -- python op_plugin_run.py TREE --out FILE.tsv [--folder test_base_ops]... [--match REGEX] [--jobs N]

TREE is a checkout of op-plugin at the commit that the release of torch_npu was built from. After a failure that leaves
the device unusable, after a crash or a hang, the rest of the file runs in a fresh process. A row a test: see table.py.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

os.environ.setdefault("TASK_QUEUE_ENABLE", "0")  # an operator's error belongs to the call that made it

import hypothesis  # noqa: F401
import numpy  # noqa: F401
import pytest
import torch
import torch_npu  # noqa: F401
import torch_npu.testing.common_utils
import torch_npu.testing.testcase  # noqa: F401
from forked import POISONED, Launches, Task, device_usable, run_forked
from table import Row, write_rows


class Recorder:
    """pytest plugin in the child: runs the tests of one file that are not in `skip`, tells the result of each."""

    def __init__(self, emit, skip: set[str]) -> None:
        self.emit, self.skip = emit, skip
        self.launches = Launches()

    def pytest_collection_modifyitems(self, items: list) -> None:
        items[:] = [i for i in items if name_of(i.nodeid) not in self.skip]
        self.emit({"collected": [name_of(i.nodeid) for i in items]})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.emit(
                {"test": "collect", "status": "fail", "detail": str(report.longrepr), "seconds": 0, "reached": []}
            )

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        self.began, self.status, self.detail = time.monotonic(), "pass", ""
        self.launches.since_last()
        yield
        self.emit(
            {
                "test": name_of(item.nodeid),
                "status": self.status,
                "detail": self.detail,
                "seconds": round(time.monotonic() - self.began, 2),
                "reached": self.launches.since_last(),
            }
        )
        if self.status == "fail" and not device_usable():
            sys.stdout.flush()
            os._exit(POISONED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            where = f" [{Path(crash.path).name}:{crash.lineno}]" if crash else ""
            self.status, self.detail = "fail", (crash.message if crash else str(report.longrepr)) + where
        elif report.skipped and self.status != "fail":
            self.status = "skip"
            self.detail = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def name_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[-1]


class Judge:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.root = options.tree.resolve() / "test"
        self.rows: list[Row] = []
        self.tell = 0.0  # when progress is next written

    def files(self) -> list[Path]:
        found = [f for folder in self.options.folder for f in sorted((self.root / folder).rglob("test_*.py"))]
        return [f for f in found if re.search(self.options.match, str(f.relative_to(self.root)))]

    def task(self, file: Path, skip: set[str]) -> Task:
        return Task(str(file.relative_to(self.root)), lambda emit: self.child(file, skip, emit), (file, skip))

    def child(self, file: Path, skip: set[str], emit) -> None:
        torch.set_num_threads(1)
        os.chdir(file.parent)
        arguments = [str(file), "-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={self.root}"]
        pytest.main(arguments, plugins=[Recorder(emit, skip)])

    def done(self, task: Task) -> list[Task]:
        file, skip = task.payload
        collected = next((r["collected"] for r in task.records if "collected" in r), [])
        results = [r for r in task.records if "test" in r]
        for record in results:
            self.add(task.name, record)
        finished = {r["test"] for r in results}
        rest = [c for c in collected if c not in finished]
        if task.end and task.end != "poisoned":
            broken = {"detail": task.end, "seconds": 0, "reached": []}
            broken |= {
                "test": rest[0] if rest else "collect",
                "status": "timeout" if task.end == "timeout" else "crash",
            }
            self.add(task.name, broken)
            finished.add(broken["test"])
            rest = rest[1:]
        return [self.task(file, skip | finished)] if rest else []

    def add(self, file: str, record: dict) -> None:
        operator = Path(file).stem.removeprefix("test_")
        node = f"{file}::{record['test']}"
        self.rows.append(
            Row(
                "op-plugin",
                operator,
                "-",
                node,
                record["status"],
                record["detail"],
                record["seconds"],
                record["reached"],
            )
        )
        if time.monotonic() > self.tell:
            self.tell = time.monotonic() + 20
            print(f"{len(self.rows)} tests, now {file}", flush=True)
            write_rows(self.options.out, self.rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", action="append", help="folders of TREE/test; test_base_ops if none is given")
    parser.add_argument("--match", default="", help="only files whose path this regular expression finds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds a test")
    options = parser.parse_args()
    options.folder = options.folder or ["test_base_ops"]
    judge = Judge(options)
    files = judge.files()
    if not files:
        print(
            f"{options.tree}: no test/{options.folder[0]}/test_*.py: is this a checkout of op-plugin?", file=sys.stderr
        )
        return 2
    run_forked([judge.task(f, set()) for f in files], options.jobs, options.limit, judge.done)
    write_rows(options.out, judge.rows)
    return 0  # table.py judges


if __name__ == "__main__":
    sys.exit(main())
