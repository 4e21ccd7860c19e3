#!/usr/bin/env python3
"""Measure concord port on edits whose right place is known.

usage: port_accuracy.py CONCORD FROM_TREE TO_TREE [EDITS_PER_FILE [with-base]]

FROM_TREE and TO_TREE are two releases of one source tree (for instance torch/ of two wheels). In every Python
file that both have and that differs, single statements inside functions are edited; the patch (three lines of
context) is carried to the other release, by default without showing concord the file it was made from. An edit
is right when the edited statement stands in the function of the same qualified name, judged by Python's own
ast. Whatever is carried anywhere else counts as misplaced.
"""

import ast
import json
import pathlib
import random
import subprocess
import sys
import tempfile


def scopes(text: str) -> list[str]:
    """The qualified name of the innermost class or function around each line."""
    names = [""] * (text.count("\n") + 2)

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                name = f"{prefix}.{child.name}" if prefix else child.name
                for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    names[line] = name
                walk(child, name)
            else:
                walk(child, prefix)

    walk(ast.parse(text), "")
    return names


def statements(text: str) -> list[int]:
    """Lines that hold one whole simple statement inside a function."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for child in ast.walk(node):
                if isinstance(child, (ast.Assign, ast.Expr, ast.Return)) and child.lineno == child.end_lineno:
                    found.append(child.lineno)
    return sorted(set(found))


def unified(path: str, old: list[str], new: list[str], work: pathlib.Path) -> str:
    """The patch as git makes it, function context included."""
    sides = []
    for name, lines in (("a", old), ("b", new)):
        side = work / name / path
        side.parent.mkdir(parents=True, exist_ok=True)
        side.write_text("".join(lines))
        sides.append(f"{name}/{path}")
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", *sides], cwd=work, capture_output=True, text=True, check=False
    )
    return done.stdout


def main() -> int:
    concord, source, target = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    per_file = int(sys.argv[4]) if len(sys.argv) > 4 else 6
    base = ["--from", str(source)] if "with-base" in sys.argv[5:] else []
    rng = random.Random(20261201)
    work = pathlib.Path(tempfile.mkdtemp())
    truth: dict[str, tuple[str, str]] = {}
    absent: set[str] = set()
    count = 0
    for path in sorted(source.rglob("*.py")):
        rel = str(path.relative_to(source))
        other = target / rel
        if not other.exists() or other.read_bytes() == path.read_bytes():
            continue
        try:
            text = path.read_text()
            there = other.read_text()
            where = scopes(text)
            known = set(scopes(there))
            lines = statements(text)
        except (SyntaxError, UnicodeDecodeError):
            continue
        if "\r" in text or not lines:
            continue
        old = text.splitlines(keepends=True)
        new = list(old)
        for line in sorted(rng.sample(lines, min(per_file, len(lines)))):
            mark = f"edit_{count}"
            new[line - 1] = old[line - 1].rstrip("\n") + f"  # {mark}\n"
            truth[mark] = (rel, where[line])
            if where[line] not in known:
                absent.add(mark)
            count += 1
        out = work / "patches" / "test" / (rel + ".patch")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(unified(rel, old, new, work))
    report = work / "report.json"
    subprocess.run(
        [
            concord,
            "port",
            "-q",
            "--to",
            str(target),
            *base,
            "-o",
            str(work / "out"),
            "--json",
            str(report),
            str(work / "patches"),
        ],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    rows = json.loads(report.read_text())
    subprocess.run(["cp", "-r", str(target), str(work / "tree")], check=True)
    subprocess.run([concord, "patch", "apply", "-q", "-C", str(work / "tree"), str(work / "out")], check=True)
    right = wrong = 0
    cache: dict[str, tuple[list[str], list[str]]] = {}
    for mark, (rel, scope) in truth.items():
        if rel not in cache:
            text = (work / "tree" / rel).read_text()
            cache[rel] = (text.splitlines(), scopes(text))
        lines, where = cache[rel]
        hits = [i for i, line in enumerate(lines) if line.endswith(f"# {mark}")]
        for i in hits:
            if where[i + 1] == scope:
                right += 1
            else:
                wrong += 1
                print(
                    f"misplaced: {rel}:{i + 1}: in {where[i + 1] or 'the module'}, not {scope}: {lines[i].strip()[:80]}"
                )
    conflicts = sum(row["outcome"] == "conflict" for row in rows)
    print(
        f"{count} edits, {len(absent)} in functions that the target lacks: {right} right, {wrong} misplaced, "
        f"{conflicts} conflicts; {100 * right / max(1, count - len(absent)):.1f}% of those with a place"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
