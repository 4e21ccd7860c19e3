#!/usr/bin/env python3
"""The reference adaptation on a real tree: adapt, compare with what people made, run on the device, compare the rest.

usage: scripts/adapt_reference.py --upstream DIR [--people DIR...] [--release 2.6.0] [--build build] [--site DIR]

DIR is the root of pytorch's sources of that release; --people names folders with adapted upstream tests as patches
(test_upstream of a branch): each line that they changed in a test of the three APIs is looked up in ours. --site is a
folder with pytest, expecttest and hypothesis, where the release's environment has none.
Exit status 1 if an edit of people's is missing, an adapted test does not pass with proof, or another test changed.
"""

import argparse
import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

APIS = [
    "torch.overrides.is_tensor_like",
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
]
ROOT = Path(__file__).resolve().parent.parent
# What is run: the files of the reference task, and test_utils.py, which it left out. The other files that adapt
# touches need several devices, a compiler for the device, or packages that the environment has not.
RUN = {
    "test/test_autograd.py": "checkpoint",
    "test/test_utils.py": "heckpoint",
    "test/dynamo/test_misc.py": "is_tensor_like",
}
# Left to a person by adapt, and ends the process under the plugin as it is: torch.nn.DataParallel.
NOT_RUN = "dataparallel"


def command(args, **kw):
    return subprocess.run([str(a) for a in args], check=True, text=True, capture_output=True, **kw).stdout


def adapt(options, work):
    listing = work / "adapt.json"
    command([options.build / "bin/concord", "adapt", *APIS, "--upstream", options.upstream, "--out", work / "patches",
             "--json", listing])
    tree = work / "adapted"
    shutil.copytree(options.upstream / "test", tree / "test")
    for patch in sorted((work / "patches").rglob("*.patch")):
        command(["patch", "-s", "-p1", "-i", patch], cwd=tree)
    return json.loads(listing.read_text()), tree


def functions(text):
    """Outermost functions of a file: name -> (first line, last line), from 1."""
    found = {}

    def visit(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno] + [d.lineno for d in child.decorator_list])
                found[f"{prefix}{child.name}"] = (first, child.end_lineno)
            elif not isinstance(child, ast.expr):
                visit(child, prefix)

    visit(ast.parse(text), "")
    return found


def normal(line):
    """A line without what people rewrote needlessly: 1. for 1.0, quotes."""
    return re.sub(r"(\d)\.(?!\d)", r"\1.0", line.strip()).replace("'", '"')


def placed(line):
    """A line with the device taken out: .npu() and device="npu" put the same value in the same place."""
    return re.sub(r', device="npu"|\.npu\(\)', "", normal(line))


def hunks(patch):
    """(old side, [(index in the old side, new line)]) of each hunk that changes line for line."""
    for body in re.split(r"^@@.*\n", patch, flags=re.M)[1:]:
        old, changed, removed, added = [], [], [], []
        for line in [*body.split("\n"), " "]:
            if line[:1] in ("+", "-") and not line.startswith(("+++", "---")):
                (added if line[0] == "+" else removed).append(line[1:])
                continue
            if len(removed) == len(added):
                changed += [(len(old) + i, new) for i, new in enumerate(added)]
            old += removed
            removed, added = [], []
            if line.startswith("diff --git"):
                break
            old.append(line[1:])
        yield old, changed


def compare_with_people(folder, options, tree, tests):
    missing = 0
    for patch in sorted(folder.rglob("*.patch")):
        name = re.search(r"^\+\+\+ b/(\S+)", patch.read_text(errors="replace"), re.M)
        if not name or name[1] not in tests or not (options.upstream / name[1]).exists():
            continue
        was = (options.upstream / name[1]).read_text().split("\n")
        now = (tree / name[1]).read_text().split("\n")
        where = {}
        for tag, a, b, c, d in difflib.SequenceMatcher(None, was, now, False).get_opcodes():
            if tag != "insert" and b - a == d - c:
                where.update({a + i: c + i for i in range(b - a)})
        spans = functions("\n".join(was))
        for old, changed in hunks(patch.read_text(errors="replace")):
            while old and not old[-1].strip():
                old.pop()
            at = next((i for i in range(len(was)) if was[i : i + len(old)] == old), None)
            for index, new in changed if at is not None else []:
                line = at + index
                test = next((t for t, (first, last) in spans.items() if first <= line + 1 <= last), "")
                if not test or test not in tests[name[1]]:
                    continue
                ours = now[where[line]] if line in where else None
                same = ours is not None and normal(ours) == normal(new)
                respelt = ours is not None and ours != was[line] and placed(ours) == placed(new)
                missing += not same and not respelt
                verdict = "same" if same else "respelt" if respelt else "MISSING"
                print(f"  {verdict} {name[1]}:{line + 1} {test}: {new.strip()}")
                if not same:
                    print(f"       ours: {ours}")
    return missing


def run(options, tree, file, extra, proof):
    path = tree / file
    env = dict(os.environ, PROOF_FILE=str(proof), PYTHONDONTWRITEBYTECODE="1",
               PYTHONPATH=os.pathsep.join([str(ROOT / "tests/adapt"), str(options.site)]))
    args = [options.softnpu or options.build / "bin/softnpu", "run", "--", options.python, "-m", "pytest", "-q",
            "-W", "ignore", "--noconftest", "-p", "no:cacheprovider", "-p", "proof", path.name, *extra]
    log = subprocess.run([str(a) for a in args], cwd=path.parent, env=env, text=True, capture_output=True)
    rows = [json.loads(line) for line in proof.read_text().splitlines()] if proof.exists() else []
    if not rows:
        sys.exit(f"adapt_reference: nothing ran of {file}:\n{log.stdout[-2000:]}{log.stderr[-2000:]}")
    return {row["test"]: row for row in rows}, log.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=Path, required=True)
    parser.add_argument("--people", type=Path, action="append", default=[])
    parser.add_argument("--release", default="2.6.0")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--site", type=Path, default=ROOT / ".cache/conformance")
    parser.add_argument("--softnpu", type=Path, help="default: softnpu of the build")
    parser.add_argument("--no-run", action="store_true", help="adapt and compare only")
    options = parser.parse_args()
    options.build, options.upstream = options.build.resolve(), options.upstream.resolve()
    work = Path(tempfile.mkdtemp(prefix="adapt_reference."))
    listing, tree = adapt(options, work)
    edited = {}
    for edit in listing["edits"]:
        edited.setdefault(edit["file"], set()).add(edit["scope"])
    print(f"{len(listing['edits'])} edits in {len(edited)} files, {len(listing['left'])} places left; all in {work}")
    faults = 0
    for folder in options.people:
        print(f"{folder}: lines that people changed in these tests")
        faults += compare_with_people(folder, options, tree, edited)
    for file, scopes in edited.items():
        was, now = (options.upstream / file).read_text(), (tree / file).read_text()
        a, b = functions(was), functions(now)
        la, lb = was.split("\n"), now.split("\n")
        other = [t for t in a if t not in scopes and la[a[t][0] - 1 : a[t][1]] != lb[b[t][0] - 1 : b[t][1]]]
        if other or set(a) != set(b):
            faults += 1
            print(f"  CHANGED without an edit: {file}: {', '.join(other)}")
    if options.no_run:
        return faults != 0
    env = command([options.build / "bin/concord", "env", "path", options.release]).strip()
    options.python = Path(env) / "bin/python"
    for file, words in RUN.items():
        rows, log = run(options, tree, file, ["-k", f"{words} and not {NOT_RUN}"], work / (Path(file).name + ".proof"))
        scopes = edited.get(file, set())
        for test, row in sorted(rows.items()):
            base = re.sub(r"(_early_stop_(True|False)|_use_reentrant_(True|False))$", "", test)
            wanted = row["outcome"] == "skipped" or (base not in scopes and test not in scopes)
            if row["outcome"] == "failed" or (not wanted and not row["allocations"]):
                faults += 1
                print(f"  FAULT {file} {test}: {row['outcome']}, {row['allocations']} allocations")
        proved = sum(r["outcome"] == "passed" and r["allocations"] > 0 for r in rows.values())
        passed, skipped = (sum(r["outcome"] == o for r in rows.values()) for o in ("passed", "skipped"))
        print(f"{file}: {len(rows)} run, {passed} passed, {proved} of them with device allocations, {skipped} skipped; "
              f"{log.strip().splitlines()[-1]}")
    rest = ["-k", f"not {RUN['test/test_utils.py']} and not device_mode_ops"]  # 11,900 of one function
    before, _ = run(options, options.upstream, "test/test_utils.py", rest, work / "before.proof")
    after, _ = run(options, tree, "test/test_utils.py", rest, work / "after.proof")
    changed = [t for t in before if before[t]["outcome"] != after.get(t, {}).get("outcome")]
    faults += len(changed)
    print(f"test/test_utils.py, the tests that were not asked for: {len(before)} before, {len(after)} after, "
          f"{len(changed)} with another outcome {changed or ''}")
    return faults != 0


if __name__ == "__main__":
    sys.exit(main())
