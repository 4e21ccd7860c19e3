"""concord test without torch: verdicts, isolation, false passes, resumption, shards, reports. Under a minute.

Needs pytest for the suites that it runs: the one that runs this file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CONCORD = Path(os.environ.get("CONCORD", ROOT / "build" / "bin" / "concord")).resolve()
SITE = Path(pytest.__file__).resolve().parents[1]


class Suite:
    def __init__(self, folder: Path) -> None:
        self.folder, self.journal, self.json = folder, folder / "journal.db", folder / "result.json"
        self.environ = {
            **os.environ,
            "CONCORD_HOME": str(folder / "home"),
            "PLANTED_PID": str(folder / "daemon.pid"),
            "PLANTED_FLAKY": str(folder / "flaky"),
        }

    def command(self, *arguments: object) -> list[str]:
        fixed = ["--python", sys.executable, "--site", SITE, "--journal", self.journal, "--json", self.json, "-q"]
        return [str(a) for a in (CONCORD, "test", *fixed, *arguments)]

    def run(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        self.json.unlink(missing_ok=True)
        environ = {**self.environ, **variables}
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, env=environ, timeout=280)

    def tool(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(a) for a in (CONCORD, *arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=self.environ, timeout=280)

    def cases(self) -> dict[str, dict[str, Any]]:
        return {c["node"]: c for c in json.loads(self.json.read_text(encoding="utf-8"))["cases"]}


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def ours_left(marker: str) -> list[str]:
    """Command lines of processes with the marker in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                pass
    return found


PLANTED = {
    "test_segfault": ("CRASHED", "SIGSEGV"),
    "test_abort": ("CRASHED", "SIGABRT"),
    "test_loop_in_python": ("TIMEOUT", "in test_loop_in_python"),
    "test_loop_in_c": ("TIMEOUT", "in test_loop_in_c"),
    "test_fork_bomb": ("ERROR", "more than 64 processes"),
    "test_much_output": ("ERROR", "more than 8 MiB of output"),
    "test_memory_hog": ("FAILED", "MemoryError"),
    "test_leaves_a_daemon": ("PASSED", "left 1 process"),
    "test_flaky": ("FLAKY", "then passed"),
    "test_kills_its_parent": ("CRASHED", "the process that watches the test was ended"),
    "test_kills_itself": ("CRASHED", "SIGKILL"),
    "test_exits": ("ERROR", "ended its process with status 0"),
    "test_system_exit": ("FAILED", "SystemExit"),
    "test_fails": ("FAILED", "assert"),
    "test_skipped": ("SKIPPED", "no such hardware"),
    "test_expected_to_fail": ("XFAIL", "known to fail"),
    "test_unexpectedly_passes": ("XPASS", "passed although"),
    "test_last": ("PASSED", ""),
}


def test_planted(suite: Suite) -> None:
    limits = ["--timeout", 10, "--memory", 256, "--output", 8, "--processes", 64, "--retries", 1, "-j", 3]
    done = suite.run(HERE / "planted", *limits)
    assert done.returncode == 1, done.stderr
    cases = suite.cases()
    got = {n: (cases[n]["verdict"], cases[n]["reason"]) for n in PLANTED}
    wrong = {n: got[n] for n, (v, part) in PLANTED.items() if got[n][0] != v or part not in got[n][1]}
    assert not wrong
    ordinary = [c for n, c in cases.items() if n.startswith("test_ordinary")]
    assert len(ordinary) == 10 and all(c["verdict"] == "PASSED" and c["attempts"] == 1 for c in ordinary)
    assert gone(int((suite.folder / "daemon.pid").read_text()))
    assert not ours_left(f"PLANTED_PID={suite.folder}")
    shown = suite.tool("show", suite.journal, "test_segfault").stdout
    assert "C stack" in shown and "in test_segfault" in shown
    shown = suite.tool("show", suite.journal, "test_loop_in_c").stdout
    assert "Current thread" in shown


def test_order_dependence_and_poison(suite: Suite) -> None:
    assert suite.run(HERE / "order", "--isolate", "file").returncode == 1
    cases = suite.cases()
    assert cases["test_victim"]["verdict"] == "FLAKY" and "order-dependent" in cases["test_victim"]["reason"]
    assert cases["test_poisons_the_device"]["verdict"] == "ERROR"
    assert "left the device broken" in cases["test_poisons_the_device"]["reason"]
    others = set(cases) - {"test_victim", "test_poisons_the_device"}
    assert {cases[n]["verdict"] for n in others} == {"PASSED"}
    found = suite.tool("bisect", suite.journal, "test_victim")
    assert found.returncode == 0, found.stderr
    assert "test_pollutes_one" in found.stdout and "test_pollutes_two" in found.stdout
    assert not {"test_a", "test_b", "test_c"} & set(found.stdout.split())


def test_false_passes(suite: Suite) -> None:
    """Each of these was once taken for a success."""
    for name, verdict, reason in (
        ("test_nothing.py", "ERROR", "no test was found"),
        ("test_broken_import.py", "ERROR", "a_module_that_does_not_exist"),
        ("test_flag_at_import.py", "SKIPPED", "needs a device"),
    ):
        done = suite.run(HERE / "false_passes", "--files", name)
        assert done.returncode == 1, name
        cases = suite.cases()
        assert {c["verdict"] for c in cases.values()} == {verdict}, name
        assert all(reason in c["reason"] for c in cases.values()), cases
        assert "nothing was executed" in done.stdout or verdict == "ERROR"
    result = json.loads(suite.json.read_text())
    assert result["tests"] == 2 and result["executed"] == 0 and result["status"] == 1


def test_another_version_is_refused(suite: Suite) -> None:
    """A run that says it is of one torch but finds another ends before a single test."""
    fake = suite.folder / "fake"
    write(
        fake / "torch/__init__.py",
        "__version__ = '1.0'\ndef get_num_threads(): return 1\ndef set_num_threads(n): pass\n",
    )
    write(suite.folder / "t/test_x.py", "def test_x(): pass\n")
    done = suite.run(suite.folder / "t", "--plugin", "", "--expect-torch", "2.0", PYTHONPATH=str(fake))
    assert done.returncode == 2 and "has torch 1.0, not 2.0" in done.stderr


def test_resume_refuses_changes(suite: Suite) -> None:
    file = write(suite.folder / "t/test_x.py", "import time\ndef test_a(): pass\ndef test_b(): time.sleep(60)\n")
    started = subprocess.Popen(suite.command(suite.folder / "t", "-j", 1), env=suite.environ, stdout=subprocess.DEVNULL)
    wait_for(suite.journal, "SELECT count(*) FROM cases WHERE state=1 AND node='test_b'", 1)
    second = suite.run(suite.folder / "t", "-j", 1)
    assert second.returncode == 2 and "another run" in second.stderr
    started.send_signal(signal.SIGKILL)
    started.wait()
    file.write_text("def test_a(): pass\n", encoding="utf-8")
    done = suite.run(suite.folder / "t", "-j", 1, "--resume")
    assert done.returncode == 2 and "changed since" in done.stderr


def wait_for(journal: Path, query: str, value: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if journal.exists():
            with sqlite3.connect(journal, timeout=10) as db:
                try:
                    if db.execute(query).fetchone()[0] >= value:
                        return
                except sqlite3.OperationalError:
                    pass
        time.sleep(0.02)
    raise AssertionError(query)


def test_interrupted_runs_end_the_same(suite: Suite) -> None:
    folder = suite.folder / "t"
    for f in range(3):
        write(
            folder / f"test_{f}.py",
            "import time, pytest\n@pytest.mark.parametrize('i', range(30))\n"
            "def test_x(i):\n    time.sleep(0.02)\n    assert i != 7\n",
        )
    suite.run(folder)
    expected = {c["name"]: (c["verdict"], c["reason"]) for c in json.loads(suite.json.read_text())["cases"]}
    suite.journal = suite.folder / "second.db"
    for _ in range(3):
        extra = ["--resume"] if suite.journal.exists() else []
        before = 0
        if extra:
            with sqlite3.connect(suite.journal) as db:
                before = db.execute("SELECT count(*) FROM cases WHERE state=2").fetchone()[0]
        process = subprocess.Popen(suite.command(folder, *extra), env=suite.environ, stdout=subprocess.DEVNULL)
        wait_for(suite.journal, "SELECT count(*) FROM cases WHERE state=2", before + 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
    suite.run(folder, "--resume")
    got = {c["name"]: (c["verdict"], c["reason"]) for c in json.loads(suite.json.read_text())["cases"]}
    assert got == expected and len(got) == 90


def test_full_disk(suite: Suite) -> None:
    """What was reported before the disk was full is in the journal; with space the run goes on."""
    small = suite.folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", small], capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        suite.journal = small / "journal.db"
        stream = suite.folder / "stream.jsonl"
        body = "import pytest\n@pytest.mark.parametrize('i', range(300))\ndef test_x(i): print('y' * 3000)\n"
        folder = write(suite.folder / "t/test_x.py", body).parent
        full = suite.run(folder, "--jsonl", stream)
        assert full.returncode == 2 and "disk is full" in full.stderr
        reported = {json.loads(line)["node"] for line in stream.read_text().splitlines()}
        subprocess.run(["mount", "-o", "remount,size=8m", small], check=True)
        with sqlite3.connect(suite.journal) as db:
            kept = {row[0] for row in db.execute("SELECT node FROM cases WHERE state=2")}
        assert reported and reported <= kept
        assert suite.run(folder, "--resume", "--jsonl", stream).returncode == 0
        assert len(suite.cases()) == 300
    finally:
        subprocess.run(["umount", "-l", small], check=False)


def test_reports(suite: Suite) -> None:
    folder = write(
        suite.folder / "t/test_x.py",
        "def test_good(): print('seen')\ndef test_bad():\n    raise ValueError('<&\">')\n",
    ).parent
    junit, stream = suite.folder / "junit.xml", suite.folder / "stream.jsonl"
    done = suite.run(folder, "--junit", junit, "--jsonl", stream, "--annotations", "github")
    root = ElementTree.parse(junit).getroot()
    assert [s.get("failures") for s in root] == ["1"]
    assert {c.get("name") for c in root.iter("testcase")} == {"test_good", "test_bad"}
    assert '<&">' in next(root.iter("failure")).get("message", "")
    assert {json.loads(line)["verdict"] for line in stream.read_text().splitlines()} == {"PASSED", "FAILED"}
    assert "::error file=test_x.py,title=FAILED test_bad::ValueError" in done.stdout
    assert "seen" in suite.tool("show", suite.journal, "test_good").stdout
    assert "test_x.py" in suite.tool("show", suite.journal).stdout
    first = suite.tool("runs", "--journal", suite.journal).stdout
    assert "2 tests, 1 passed, 1 bad" in first


def test_filters_rerun_diff_and_expectations(suite: Suite) -> None:
    flag = suite.folder / "mended"
    folder = write(
        suite.folder / "t/test_x.py",
        f"import os\ndef test_a(): pass\ndef test_b(): assert os.path.exists({str(flag)!r})\ndef test_c(): assert 0\n",
    ).parent
    assert suite.run(folder).returncode == 1
    bad = suite.run(folder, "--only", "name~(")
    assert bad.returncode == 2 and "filter column" in bad.stderr
    expectations = suite.folder / "expect.txt"
    assert suite.run(folder, "--expect", expectations, "--update-expectations").returncode == 1
    assert len(expectations.read_text().splitlines()) == 2
    assert suite.run(folder, "--expect", expectations).returncode == 0
    assert {n: c["verdict"] for n, c in suite.cases().items()} == {
        "test_a": "PASSED",
        "test_b": "XFAIL",
        "test_c": "XFAIL",
    }
    flag.touch()
    assert suite.run(folder, "--expect", expectations).returncode == 1
    assert suite.cases()["test_b"]["verdict"] == "XPASS"
    suite.run(folder, "--expect", expectations, "--update-expectations")
    assert [line.split()[0] for line in expectations.read_text().splitlines()] == ["test_x.py::test_c"]
    suite.run(folder)
    suite.run(folder, "--rerun", "failed")
    assert set(suite.cases()) == {"test_c"}
    difference = suite.tool("diff", f"{suite.journal}:1", f"{suite.journal}:6")
    assert "fixed: 1" in difference.stdout and "test_b" in difference.stdout and difference.returncode == 0
    back = suite.tool("diff", f"{suite.journal}:6", f"{suite.journal}:1")
    assert "new failures: 1" in back.stdout and back.returncode == 1


def test_shards_cover_everything_once(suite: Suite) -> None:
    folder = suite.folder / "t"
    for f in range(3):
        write(folder / f"test_{f}.py", "import pytest\n@pytest.mark.parametrize('i', range(7))\ndef test_x(i): pass\n")
    plan, seen, parts = suite.folder / "plan.json", [], []
    for i in range(1, 4):
        suite.journal = suite.folder / f"part{i}.db"
        assert suite.run(folder, "--shard", f"{i}/3", "--plan", plan).returncode == 0
        parts.append(suite.journal)
        seen += [c["name"] for c in json.loads(suite.json.read_text())["cases"]]
    assert len(seen) == len(set(seen)) == 21
    merged = suite.folder / "merged.db"
    done = suite.tool("merge", merged, *parts)
    assert done.returncode == 0, done.stderr
    assert "21 PASSED of 21 tests" in suite.tool("show", merged).stdout
    assert suite.tool("merge", merged, parts[0]).returncode == 2


def test_unittest_without_pytest(suite: Suite) -> None:
    write(
        suite.folder / "t/test_u.py",
        "import unittest\nclass TestU(unittest.TestCase):\n"
        "    @classmethod\n    def setUpClass(cls): cls.ready = 1\n"
        "    def test_a(self): self.assertEqual(self.ready, 1)\n    def test_b(self): self.fail('no')\n"
        "    @unittest.skip('why')\n    def test_c(self): pass\n"
        "    @unittest.expectedFailure\n    def test_d(self): self.fail()\n",
    )
    suite.run(f"unittest:{suite.folder / 't'}")
    assert {n.rpartition("::")[2]: c["verdict"] for n, c in suite.cases().items()} == {
        "test_a": "PASSED",
        "test_b": "FAILED",
        "test_c": "SKIPPED",
        "test_d": "XFAIL",
    }


def test_a_unit_that_cannot_be_forked(suite: Suite) -> None:
    """A thread started by an import: each test collects in its own process, and still has its verdict."""
    folder = write(
        suite.folder / "t/test_x.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "def test_a(): assert threading.active_count() == 2\ndef test_b(): assert 0\n",
    ).parent
    suite.run(folder)
    assert {n: c["verdict"] for n, c in suite.cases().items()} == {"test_a": "PASSED", "test_b": "FAILED"}
    suite.run(folder, "--isolate", "fresh")
    assert {n: c["verdict"] for n, c in suite.cases().items()} == {"test_a": "PASSED", "test_b": "FAILED"}


def test_limits_of_collection_file_and_run(suite: Suite) -> None:
    folder = write(suite.folder / "t/test_x.py", "import time\ntime.sleep(60)\ndef test_a(): pass\n").parent
    suite.run(folder, "--start-timeout", 3)
    assert [c["verdict"] for c in suite.cases().values()] == ["TIMEOUT"]
    suite.run(folder, "--file-timeout", 1)
    assert [c["verdict"] for c in suite.cases().values()] == ["TIMEOUT"]
    write(suite.folder / "t/test_x.py", "import time\ndef test_a(): pass\ndef test_b(): time.sleep(60)\n")
    suite.run(folder, "--file-timeout", 15)
    assert {c["verdict"] for c in suite.cases().values()} == {"PASSED", "TIMEOUT"}
    stopped = suite.run(folder, "--run-timeout", 2)
    assert stopped.returncode == 1 and "--resume" in stopped.stderr


def test_bad_input(suite: Suite) -> None:
    for arguments, part in (
        (["pytset:."], "did you mean 'pytest'"),
        (["/no/such/folder"], "no such suite or folder"),
        ([HERE / "order", "--isolate", "cases"], "expected one of case, file, fresh"),
        ([HERE / "order", "--shard", "4/3"], "expected I/N"),
        ([HERE / "order", "--files", "nothing*"], "no test file there"),
        ([HERE / "order", "--resume", "--journal", suite.folder / "empty.db"], "no run to resume"),
    ):
        done = suite.run(*arguments)
        assert done.returncode == 2 and part in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.splitlines()) == 1
    shutil.rmtree(suite.folder / "home", ignore_errors=True)
