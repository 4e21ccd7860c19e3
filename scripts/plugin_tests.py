#!/usr/bin/env python3
"""Runs torch_npu's own runtime tests on the device: several files a process, files with failures again alone.

usage: scripts/plugin_tests.py BUILD TREE RELEASE [--only PATTERN] [--out FILE] [--list FILE]
                               [--limit SECONDS] [--batch N] [--resume]

TREE is the plugin's repository at the commit that torch_npu/version.py of the release names (it is printed; a branch
of that name is later than the wheel, and its tests ask for what the wheel has not), or git archive's folder test of it.
The environment of RELEASE must exist (concord env create RELEASE). What the tests need besides it is installed into
.cache/plugin_tests. Which files are run stands in tests/conformance/plugin_runtime.txt; why a test fails, in
tests/conformance/plugin_causes.tsv. --out is a table of test, outcome, cause and message; with --resume a file that
stands in it whole is not run again, so that a long run can be done in pieces. Exit status: 0 when at least 95 % of the
tests that ran passed and every failure has a cause on record, otherwise 1.
"""

import argparse
import fnmatch
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFORMANCE = ROOT / "tests" / "conformance"


def site() -> Path:
    """The folder with the tests' own needs, made once."""
    folder = ROOT / ".cache" / "plugin_tests"
    if not (folder / ".complete").exists():
        wanted = str(CONFORMANCE / "plugin_requirements.txt")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*pip, "--target", str(folder), "-r", wanted], check=False).returncode:
            sys.exit("plugin_tests: the tests' packages could not be installed: check the network or pip's settings")
        (folder / ".complete").touch()
    return folder


def chosen(tests: Path, listing: Path, only: str) -> list[Path]:
    patterns = [line.strip() for line in listing.read_text().splitlines()]
    found: dict[Path, None] = {}
    for pattern in patterns:
        if pattern and not pattern.startswith("#"):
            found.update(dict.fromkeys(sorted(tests.glob(pattern))))
    return [f for f in found if fnmatch.fnmatch(str(f.relative_to(tests)), only)]


def outcome(case: ET.Element) -> tuple[str, str]:
    for kind in ("failure", "error", "skipped"):
        node = case.find(kind)
        if node is not None:
            text = (node.get("message") or "") + "\n" + (node.text or "")
            return ("skipped" if kind == "skipped" else "failed"), text
    return "passed", ""


Result = tuple[str, str, str]  # test, outcome, message


def read_report(report: Path, tests: Path, files: list[Path]) -> dict[Path, list[Result]]:
    """By file; the report's class names are dotted paths below the test folder."""
    modules = {str(f.relative_to(tests).with_suffix("")).replace("/", "."): f for f in files}
    results: dict[Path, list[Result]] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        dotted = case.get("classname") or case.get("name") or ""
        module = max((m for m in modules if f".{dotted}.".find(f".{m}.") >= 0), key=len, default=None)
        if module is None:
            continue
        test = f"{dotted.rsplit('.', 1)[-1]}::{case.get('name')}"
        results.setdefault(modules[module], []).append((test, *outcome(case)))
    return results


def run_files(command: list[str], tests: Path, files: list[Path], environment: dict[str, str], limit: int):
    """Every file's results; a file that the process did not report has one line for itself."""
    with tempfile.TemporaryDirectory() as scratch:
        report, log = Path(scratch, "report.xml"), Path(scratch, "log")
        arguments = ["-q", "-p", "no:cacheprovider", f"--timeout={limit}", "--timeout-method=thread"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "-m", "pytest", *arguments, f"--junitxml={report}", *map(str, files)],
                cwd=tests,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(timeout=4 * limit * len(files))
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)  # and what the tests left behind
            except ProcessLookupError:
                pass
            process.wait()
        results = read_report(report, tests, files) if report.exists() else {}
        tail = log.read_text(errors="replace")[-4000:]
        lost = [("(file)", "failed", f"no report, status {process.returncode}\n{tail}")]
        return {f: results.get(f, [] if report.exists() else lost) for f in files}


def run_all(command: list[str], tests: Path, files: list[Path], environment: dict[str, str], limit: int, batch: int):
    """Batches save imports; a file with a failure runs again alone, and that counts."""
    for at in range(0, len(files), batch):
        some = files[at : at + batch]
        for file, results in run_files(command, tests, some, environment, limit).items():
            if len(some) > 1 and any(r[1] == "failed" for r in results):
                results = run_files(command, tests, [file], environment, limit)[file]
            yield file, results


def causes() -> list[tuple[str, str, str]]:
    path = CONFORMANCE / "plugin_causes.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]] if path.exists() else []
    return [(r[0], r[1], r[2]) for r in rows if len(r) >= 3]


def cause_of(release: str, test: str, known: list[tuple[str, str, str]]) -> str:
    for releases, pattern, cause in known:
        if release in releases.split(",") and fnmatch.fnmatch(test, pattern.replace("[", "[[]")):
            return cause
    return ""


def essence(message: str) -> str:
    """The line of a failure that says most."""
    lines = [re.sub(r"\s+", " ", x).strip() for x in message.splitlines() if x.strip()]
    marked = [x for x in lines if re.match(r"(E\s|\w*(Error|Exception)\b)", x)]
    return (marked or lines or [""])[0][:300]


Row = tuple[str, str, str, str]  # file::test, outcome, cause, message
WHOLE = "(whole file)"  # the row after a file's last one


def read_table(table: Path) -> dict[str, list[Row]]:
    """The files that a run before this one finished."""
    finished: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in table.read_text().splitlines() if table.exists() else []:
        name, outcome_, cause, message = (line.split("\t") + [""] * 3)[:4]
        if outcome_ == WHOLE:
            finished[name] = rows
            rows = []
        else:
            rows.append((name, outcome_, cause, message))
    return finished


class Tally:
    """Counts, prints and writes every result; a cause is looked up now, also for a result of an earlier run."""

    def __init__(self, release: str, out: Path | None) -> None:
        self.release, self.known = release, causes()
        self.count = {"passed": 0, "failed": 0, "skipped": 0}
        self.unexplained = 0
        self.out = out.open("w") if out else None

    def file(self, name: str, rows: list[tuple[str, str, str]]) -> None:
        for full, result, message in rows:
            self.count[result] += 1
            cause = cause_of(self.release, full, self.known) if result == "failed" else ""
            if result == "failed":
                self.unexplained += not cause
                print(f"FAILED {full}: {cause or 'NO CAUSE ON RECORD: ' + message}", flush=True)
            if self.out:
                self.out.write(f"{full}\t{result}\t{cause}\t{message}\n")
        if self.out:
            self.out.write(f"{name}\t{WHOLE}\n")
            self.out.flush()
        passed, failed, skipped = self.count.values()
        print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped so far", flush=True)

    def end(self) -> int:
        passed, failed, skipped = self.count.values()
        ran = passed + failed
        share = 100 * passed / ran if ran else 0
        print(f"{passed} passed, {failed} failed, {skipped} skipped: {share:.1f} % of {ran} passed")
        return 0 if share >= 95 and not self.unexplained else 1


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("tree", type=Path)
    parser.add_argument("release")
    parser.add_argument("--only", default="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--list", type=Path, default=CONFORMANCE / "plugin_runtime.txt")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    if args.resume and not args.out:
        print("plugin_tests: --resume needs the table to go on with: give --out FILE", file=sys.stderr)
        return 2
    tests = args.tree.resolve() / "test"
    if not tests.is_dir():
        print(f"plugin_tests: {args.tree} has no folder test: give a checkout of the plugin", file=sys.stderr)
        return 2
    build = args.build.resolve()
    path = subprocess.run(
        [build / "bin/concord", "env", "path", args.release], capture_output=True, text=True, check=False
    )
    if path.returncode:
        print(f"plugin_tests: no environment: run concord env create {args.release}", file=sys.stderr)
        return 2
    version = next(Path(path.stdout.strip()).glob("lib/python3*/site-packages/torch_npu/version.py"))
    commit = re.search(r"git_version = '(\w+)'", version.read_text())
    print(f"torch_npu {args.release} was built from {commit[1] if commit else 'an unnamed commit'}", flush=True)
    command = [str(build / "bin/softnpu"), "run", "--", f"{path.stdout.strip()}/bin/python"]
    environment = {**os.environ, "PYTHONPATH": f"{site()}:{tests}", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = read_table(args.out) if args.resume else {}
    tally = Tally(args.release, args.out)
    files = chosen(tests, args.list, args.only)
    for name in (str(f.relative_to(tests)) for f in files):
        if name in finished:
            tally.file(name, [(full, result, message) for full, result, _, message in finished[name]])
    files = [f for f in files if str(f.relative_to(tests)) not in finished]
    for file, results in run_all(command, tests, files, environment, args.limit, args.batch):
        name = str(file.relative_to(tests))
        tally.file(name, [(f"{name}::{test}", result, essence(message)) for test, result, message in results])
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
