"""Judge the device by TorchCTS: its nodes, run in forked groups (one file and operator a group).

    softnpu run -- python torchcts_run.py --out FILE.tsv [--level N] [--dtype D]... [--sample 0.1 --seed 1]
                   [--nodes FILE] [--match REGEX] [--jobs N] [--limit SECONDS]

Run in a folder that holds manifest.py. TorchCTS itself collects, selects and judges; only its loop over the nodes is
replaced, so that a crash, a hang or a poisoned device costs one node. A row a node: see table.py.
"""

import argparse
import functools
import os
import random
import re
import sys
import time
from pathlib import Path

os.environ.setdefault("TASK_QUEUE_ENABLE", "0")  # an operator's error belongs to the call that made it
os.environ["_TORCHCTS_SUBPROCESS"] = "1"  # no capability probes: they never decide an outcome, and take minutes
os.environ["TORCHCTS_NON_INTERACTIVE"] = "1"

import pytest
import torch
import torchcts
from forked import POISONED, Launches, Task, device_usable, run_forked
from table import Row, write_rows
from torch.testing._internal import common_utils
from torchcts import op_metadata
from torchcts.cli import _default_test_paths
from torchcts.core import coverage

# Collection takes minutes in pure functions that are called over and over: remember what they give, answer the rest.
common_utils.extract_test_fn = lambda: None  # looks for a unittest method on the stack; here there is none
_validation_metadata = op_metadata._validation_metadata
_of_file = functools.cache(lambda: _validation_metadata(None))
_is_file = lambda data: data is None or data is op_metadata.load_op_metadata()  # noqa: E731
coverage._load_generated_cases_manifest = functools.cache(coverage._load_generated_cases_manifest)
op_metadata._validation_metadata = lambda data: _of_file() if _is_file(data) else _validation_metadata(data)

HOME = Path(torchcts.__file__).parent
GROUP = 40  # nodes at most in one process: later nodes see the memory of earlier ones


class ForkedLoop:
    """pytest plugin: selects nodes, then runs them in forked groups."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows: list[Row] = []
        self.started = self.tell = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list) -> None:
        if self.options.nodes:
            wanted = set(self.options.nodes.read_text(encoding="utf-8").split("\n"))
            items[:] = [i for i in items if node_of(i) in wanted]
        if self.options.match:
            items[:] = [i for i in items if re.search(self.options.match, node_of(i))]
        if self.options.sample < 1:
            chosen = random.Random(self.options.seed)
            items[:] = [i for i in items if chosen.random() < self.options.sample]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.judge = next(p for p in session.config.pluginmanager.get_plugins() if hasattr(p, "_SESSION_RESULTS"))
        self.judge._ARTIFACT_WRITES_ENABLED = False  # it would write all results again after each node
        if not session.config.option.collectonly:
            self.run(session.items)
        return True

    def run(self, items: list) -> None:
        groups: dict[tuple[str, str], list] = {}
        for item in items:
            operator, _ = self.subject(item)
            groups.setdefault((str(item.fspath), operator), []).append(item)
        tasks = [self.task(some[at : at + GROUP]) for some in groups.values() for at in range(0, len(some), GROUP)]
        self.left = len(items)
        print(f"\n{self.left} nodes in {len(tasks)} groups", flush=True)
        run_forked(tasks, self.options.jobs, self.options.limit, self.done)

    def subject(self, item: pytest.Item) -> tuple[str, str]:
        found = self.judge._extract_result_metadata(item)
        name = found["op"] or found["dispatcher_name"] or item.function.__name__.removeprefix("test_")
        return str(name).removeprefix("aten.").removeprefix("aten::"), found["dtype"] or "-"

    def task(self, items: list) -> Task:
        return Task(node_of(items[0]), lambda emit: self.child(items, emit), items)

    def child(self, items: list, emit) -> None:
        torch.set_num_threads(1)
        sys.modules["torchcts.core.input_gen"].refresh_shared_data("npu")
        launches = Launches()
        launches.since_last()
        for item, following in zip(items, [*items[1:], None], strict=True):
            began = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            record = self.judge._SESSION_RESULTS.get(item.nodeid, {"status": "ERROR", "error_message": "no result"})
            broken = record["status"] != "PASS" and not device_usable()
            emit(
                {
                    "status": record["status"],
                    "detail": f"{record.get('error_type') or ''}: {record.get('error_message') or ''}"[:12000],
                    "seconds": round(time.monotonic() - began, 2),
                    "reached": launches.since_last(),
                }
            )
            if broken:
                sys.exit(POISONED)

    def done(self, task: Task) -> list[Task]:
        items: list = task.payload
        for item, record in zip(items, task.records, strict=False):
            verdict = {"PASS": "pass", "SKIP": "skip"}.get(record["status"], "fail")
            self.add(item, verdict, "" if verdict == "pass" else record["detail"], record)
        rest = items[len(task.records) :]
        if rest and task.end != "poisoned":
            verdict = "timeout" if task.end == "timeout" else "crash"
            self.add(rest.pop(0), verdict, task.end or "ended early", {"seconds": 0, "reached": []})
        return [self.task(rest)] if rest else []

    def add(self, item: pytest.Item, verdict: str, detail: str, record: dict) -> None:
        operator, dtype = self.subject(item)
        self.rows.append(
            Row("torchcts", operator, dtype, node_of(item), verdict, detail, record["seconds"], record["reached"])
        )
        self.left -= 1
        if time.monotonic() > self.tell:
            self.tell = time.monotonic() + 20
            print(f"{time.monotonic() - self.started:.0f} s, {self.left} left", flush=True)
            write_rows(self.options.out, self.rows)


def node_of(item: pytest.Item) -> str:
    return f"{item.path.relative_to(HOME)}::{item.nodeid.split('::', 1)[1]}"


def paths(options: argparse.Namespace) -> list[str]:
    if not options.nodes:
        return _default_test_paths(str(HOME))
    files = {line.split("::")[0] for line in options.nodes.read_text(encoding="utf-8").split("\n") if line}
    return sorted(str(HOME / f) for f in files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--level", type=int, default=4)
    parser.add_argument("--dtype", action="append", default=[])
    parser.add_argument("--sample", type=float, default=1, help="run this share of the nodes, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=Path, help="run only the nodes this file lists, one a line")
    parser.add_argument("--match", help="run only nodes that this regular expression finds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=180, help="seconds a node")
    parser.add_argument("--collect-only", action="store_true")
    options = parser.parse_args()
    loop = ForkedLoop(options)
    arguments = [
        "--device=npu",
        f"--level={options.level}",
        "--subprocess-per-test",
        "--tb=no",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    arguments += [f"--dtype={d}" for d in options.dtype]
    arguments += ["--collect-only"] if options.collect_only else []
    pytest.main([*arguments, *paths(options)], plugins=[loop])
    if options.collect_only:
        return 0
    write_rows(options.out, loop.rows)
    return 0  # table.py judges


if __name__ == "__main__":
    sys.exit(main())
