#!/usr/bin/env python3
"""How many of the tests that people named for APIs `concord scan` finds.

usage: scan_recall.py CONCORD TREE NAMED.tsv [--misses]

TREE is a torch source tree. NAMED.tsv has a header and the columns api, upstream_file, test_class, test_function and
coverage. What does not exist in the tree counts on neither side; a row without a function asks for any test of the
class or file. Exit status 77 when an input is not there, 1 below 95 %.
"""

import argparse
import ast
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

WANTED = 0.95


def definitions(path: pathlib.Path) -> dict[str, set[str]]:
    """Test-like methods by class, and module functions under ""."""
    names: dict[str, set[str]] = {"": set()}
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ClassDef):
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            names.setdefault(node.name, set()).update(n.name for n in node.body if isinstance(n, kinds))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names[""].add(node.name)
    return names


class Named:
    """One distinct row that the tree has."""

    def __init__(self, api: str, file: str, kind: str, function: str) -> None:
        self.api, self.file, self.kind, self.function = api, file, kind, function

    def __str__(self) -> str:
        return f"{self.api}: {self.file} {self.kind}.{self.function}"

    def found_in(self, tests: dict[str, set[tuple[str, str]]]) -> bool:
        for file, test in tests.get(self.api, ()):
            kind, _, function = test.rpartition(".")
            if file != self.file or (self.kind and kind != self.kind):
                continue
            if not self.function or function == self.function:
                return True
        return False


def read_named(path: pathlib.Path, tree: pathlib.Path) -> list[Named]:
    rows: dict[tuple[str, str, str, str], None] = {}
    parsed: dict[str, dict[str, set[str]]] = {}
    with path.open() as source:
        for row in csv.DictReader(source, delimiter="\t"):
            file = row["upstream_file"]
            if row["coverage"].startswith("none") or not file.endswith(".py") or not (tree / file).is_file():
                continue
            if file not in parsed:
                parsed[file] = definitions(tree / file)
            names = parsed[file]
            kind, function = row["test_class"], row["test_function"]
            if kind and kind not in names:
                continue
            if function and not any(function in names[k] for k in ([kind] if kind else names)):
                continue
            rows.setdefault((row["api"], file, kind, function))
    return [Named(*key) for key in rows]


def scan(concord: str, tree: pathlib.Path, apis: set[str], more: list[str]) -> dict[str, set[tuple[str, str]]]:
    with tempfile.TemporaryDirectory() as folder:
        listed, result = pathlib.Path(folder, "apis"), pathlib.Path(folder, "scan.json")
        listed.write_text("\n".join(sorted(apis)) + "\n")
        command = [
            concord,
            "scan",
            "--apis",
            str(listed),
            "--upstream",
            str(tree),
            "--json",
            str(result),
            "--helper-tests",
            *more,
        ]
        subprocess.run(command, check=True)
        tests: dict[str, set[tuple[str, str]]] = {}
        for test in json.loads(result.read_text())["tests"]:
            file = test["file"][3:] if test["file"].startswith("../") else "test/" + test["file"]
            tests.setdefault(test["api"], set()).add((file, test["test"]))
    return tests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("concord")
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("named", type=pathlib.Path)
    parser.add_argument("--misses", action="store_true", help="list what was not found")
    parser.add_argument("--deep", action="store_true", help="count ways through torch's own modules")
    options = parser.parse_args()
    for path in (options.tree / "test", options.named):
        if not path.exists():
            print(f"scan_recall: {path} is not there: skipped")
            return 77
    named = read_named(options.named, options.tree)
    tests = scan(options.concord, options.tree, {n.api for n in named}, ["--deep"] if options.deep else [])
    missed = [n for n in named if not n.found_in(tests)]
    if options.misses:
        for n in missed:
            print(f"missed {n}")
    for what, chosen in (("tests", [n for n in named if n.function.startswith("test")]), ("all", named)):
        lost = len([n for n in missed if n in chosen])
        share = 1 - lost / max(1, len(chosen))
        print(f"{what}: {len(chosen) - lost} of {len(chosen)} that the tree has are found: {share:.3f}")
        if what == "tests":
            status = 0 if share >= WANTED else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
