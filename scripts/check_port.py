#!/usr/bin/env python3
"""Judge concord port on a real corpus: is every carried edit where its patch says it belongs?

usage: check_port.py CONCORD CORPUS TREE

CORPUS is a folder of patches, TREE the release they are carried to. Judged by Python's own ast and the patch text,
without anything of concord's: an edit that is carried as it is must find its removed lines, word for word, at the
place it was put; the class or function in the first column, and the nearest def or class that the hunk shows above
the edit, must be around that place; so must the definition below an edit of decorators. Heads inside strings are
looked for as text. Without arguments it says so and ends with status 0.
"""

import ast
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HEAD = re.compile(r"\s*(?:async\s+def|def|class)\s+(\w+)")


class Tree:
    """The names of the scopes around each line of a file, outermost first."""

    def __init__(self, path: pathlib.Path) -> None:
        text = path.read_text(errors="replace")
        self.lines = text.split("\n")
        self.around: list[list[str]] = [[] for _ in range(len(self.lines) + 2)]
        try:
            self.walk(ast.parse(text), [])
            self.good = True
        except SyntaxError:
            self.good = False

    def walk(self, node: ast.AST, names: list[str]) -> None:
        for child in ast.iter_child_nodes(node):
            inside = names
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                inside = [*names, child.name]
                first = min([child.lineno, *[d.lineno for d in child.decorator_list]])
                for line in range(first, (child.end_lineno or child.lineno) + 1):
                    self.around[line] = inside
            self.walk(child, inside)


def indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def hunk_lines(text: list[str], edit: int) -> tuple[str, list[str], list[str]]:
    """The section of the edit's hunk, the old lines above the edit, and its removed lines. edit counts from 1."""
    start = edit - 1
    while not text[start].startswith("@@"):
        start -= 1
    section = text[start].split("@@", 2)[2].strip()
    above = [line[1:] for line in text[start + 1 : edit - 1] if line[:1] in (" ", "-") or not line]
    removed = []
    for line in text[edit - 1 :]:
        if line[:1] not in ("-", "+"):
            break
        if line[:1] == "-":
            removed.append(line[1:])
    return section, above, removed


def shown_scopes(section: str, above: list[str], depth: int) -> tuple[str | None, str | None]:
    """What the hunk says is around an edit of that indent: in the first column, and nearest."""
    nearest = None
    for line in reversed(above):
        if not line.strip() or indent(line) >= depth:
            continue
        depth = indent(line)
        head = HEAD.match(line)
        if head and not nearest:
            nearest = head[1]
        if not depth:
            return head[1] if head else None, nearest
    head = HEAD.match(section)
    # A method's head in the first column, or a printed graph, is a line of text inside a string.
    in_text = "(self" in section or section.startswith("class GraphModule(")
    return head[1] if head and not in_text else None, nearest


def judge(row: dict, text: list[str], tree: Tree) -> str | None:
    """Why the edit is misplaced; None when it is right."""
    section, above, removed = hunk_lines(text, row["line"])
    at = row["target_line"] - 1
    if row["outcome"] == "carried as it is" and tree.lines[at : at + len(removed)] != removed:
        return "the removed lines are not there"
    added = [line[1:] for line in text[row["line"] - 1 :][: row["removed"] + row["added"]] if line[:1] == "+"]
    said = next((line for line in removed + added if line.strip()), "")
    if not said or not indent(said) or not tree.good:
        return None
    outer, nearest = shown_scopes(section, above, indent(said))
    for name in filter(None, (outer, nearest)):
        if any(name in tree.around[line + 1] for line in (at, max(at - 1, 0))):
            continue
        if name == outer and section and git_section(tree, at).startswith(section):
            continue  # what git calls the function is a line of text, and it is the same one
        before = "\n".join(tree.lines[max(0, at - 400) : at + 1])
        if not re.search(rf"^\s*(?:async\s+def|def|class)\s+{name}\b", before, re.M):
            return f"not in {name}, but in {'.'.join(tree.around[at + 1]) or 'the module'}"
        if name == nearest and tree.around[at + 1] and HEAD.match(tree.lines[at]) is None:
            inner = tree.around[at + 1]
            if not any(name == n for n in inner) and not in_string(tree, at, name):
                return f"not in {name}, but in {'.'.join(inner)}"
    return None


def git_section(tree: Tree, at: int) -> str:
    """The last line above that starts with a letter: what git prints behind a hunk's header."""
    return next((line for line in reversed(tree.lines[:at]) if re.match(r"[A-Za-z_$]", line)), "")


def in_string(tree: Tree, at: int, name: str) -> bool:
    """The head nearest above the place is a line of text, not of the program."""
    for line in range(at, -1, -1):
        head = HEAD.match(tree.lines[line])
        if head and head[1] == name:
            return name not in tree.around[line + 1]
    return False


def main() -> int:
    if len(sys.argv) < 4:
        print("check_port: skipped: no corpus given (usage: check_port.py CONCORD CORPUS TREE)")
        return 0
    concord, corpus, root = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as work:
        clean = pathlib.Path(work, "clean")
        subprocess.run(["cp", "-r", str(corpus), str(clean)], check=True)
        subprocess.run([concord, "patch", "repair", "-i", str(clean)], capture_output=True, check=False)
        report = pathlib.Path(work, "report.json")
        subprocess.run(
            [concord, "port", "-q", "-n", "--to", str(root), "--json", str(report), str(clean)],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        rows = json.loads(report.read_text())
        trees: dict[str, Tree] = {}
        counts: collections.Counter[str] = collections.Counter()
        wrong = 0
        for row in rows:
            counts[row["outcome"]] += 1
            if not row["outcome"].startswith("carried"):
                continue
            if row["target"] not in trees:
                trees[row["target"]] = Tree(root / row["target"])
            text = pathlib.Path(row["patch"]).read_text(errors="replace").split("\n")
            why = judge(row, text, trees[row["target"]])
            if why:
                wrong += 1
                print(f"misplaced: {row['patch']}:{row['line']} at {row['target']}:{row['target_line']}: {why}")
    settled = len(rows) - counts["conflict"]
    print(f"{len(rows)} edits, {settled} settled ({100 * settled / max(1, len(rows)):.1f}%), {wrong} misplaced")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
