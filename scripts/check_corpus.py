#!/usr/bin/env python3
"""Hold concord's patch commands against a real corpus of patches, with git and the recorded ids as judges.

usage: check_corpus.py CONCORD [--write] [[RELEASE=]CORPUS [TREE]]

CORPUS is a folder of patches (for instance a release branch's test_upstream), TREE an upstream source tree that
some of them were made for. Without them there is nothing to check, which is said, and the status is 0. The
corpus is read, never copied. With RELEASE every point that repair mends or leaves alone must stand in
docs/repair-corpus.tsv under that release, and no other; --write puts them there.

Checked: git apply accepts what concord accepts, except where concord is stricter on purpose (each case printed
with its rule); patches whose base blob is in TREE apply and give the recorded result; what repair mends is well
formed and, applied, still gives the recorded result; printing what was parsed changes no byte (repair leaves a
sound patch alone).
"""

import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "repair-corpus.tsv"
HEAD = "# release\tpatch\tline\twhat\n"

# Faults with which git applies a patch although its effect or its place is in doubt: stricter on purpose.
STRICTER = {
    "hunk-new-start": "git takes the old start and ignores the new one",
    "hunk-order": "git lets hunks stand in any order",
    "hunk-duplicate": "git applies both",
    "hunk-outside-file": "git reads past text before a section",
    "byte-order-mark": "git finds the --- line after it",
    "cr-line-ends": "git keeps the CR as contents",
    "header-prefix": "git strips a real folder",
    "no-final-newline": "git completes the last line",
    "hunk-count": "git stops counting where the header says",
    "does-not-apply": "",
}


def run(*argv: str, cwd: str | None = None) -> subprocess.CompletedProcess:
    env = dict(os.environ, GIT_CEILING_DIRECTORIES="/", LC_ALL="C")
    return subprocess.run(argv, cwd=cwd, capture_output=True, env=env, check=False)


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def patches(corpus: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in corpus.rglob("*") if p.suffix in (".patch", ".diff"))


def check_rows(concord: str, corpus: pathlib.Path, tree: str | None) -> dict[str, list[dict]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run(concord, "patch", "check", "-q", "--json", out.name, *(["--root", tree] if tree else []), str(corpus))
        rows = collections.defaultdict(list)
        for row in json.load(open(out.name)):
            rows[row["patch"]].append(row)
    return rows


def agree_on_parsing(concord: str, corpus: pathlib.Path) -> int:
    """Accept or reject, by the text alone."""
    rows = check_rows(concord, corpus, None)
    stricter, laxer = collections.Counter(), []
    files = patches(corpus)
    for path in files:
        git = run("git", "apply", "--numstat", str(path.resolve()), cwd="/").returncode == 0
        faults = [r["target"] for r in rows[str(path)] if r["outcome"] == "fault"]
        if git and faults:
            stricter[faults[0]] += 1
        elif not git and not faults:
            laxer.append(path)
    agreed = len(files) - sum(stricter.values()) - len(laxer)
    print(f"parsing: {agreed} of {len(files)} judged alike by git apply")
    for rule, n in stricter.most_common():
        print(f"  stricter: {n} by {rule}: {STRICTER.get(rule, '?')}")
    for path in laxer:
        print(f"  LAXER: {path}")
    return len(laxer) + sum(rule not in STRICTER for rule in stricter)


def agree_on_applying(concord: str, corpus: pathlib.Path, tree: str) -> int:
    rows = check_rows(concord, corpus, tree)
    stricter, laxer, alike = collections.Counter(), [], 0
    for path in patches(corpus):
        git = run("git", "apply", "--check", str(path.resolve()), cwd=tree).returncode == 0
        outcomes = {r["outcome"] for r in rows[str(path)]}
        ours = outcomes <= {"applies exactly", "already applied"} and bool(outcomes)
        if git == ours:
            alike += 1
        elif git:
            stricter[
                sorted(r["target"] if r["outcome"] == "fault" else r["outcome"] for r in rows[str(path)])[0]
            ] += 1
        else:
            laxer.append(path)
    print(f"applying: {alike} judged alike by git apply --check")
    for rule, n in stricter.most_common():
        print(f"  stricter: {n}: {rule}")
    for path in laxer:
        print(f"  LAXER: {path}")
    return len(laxer)


def recorded_results(concord: str, corpus: pathlib.Path, tree: str, title: str) -> None:
    rows = check_rows(concord, corpus, tree)
    same = good = 0
    for path in patches(corpus):
        text = path.read_bytes().decode("utf-8", "replace")
        index = re.search(r"^index ([0-9a-f]+)\.\.([0-9a-f]+)", text, re.M)
        target = re.search(r"^\+\+\+ b/([^\s]+)", text, re.M)
        base = pathlib.Path(tree, target[1]) if target else None
        if not index or not base or not base.exists() or not blob(base.read_bytes()).startswith(index[1]):
            continue
        same += 1
        outcome = next(r for r in rows[str(path)] if r["target"] == target[1] or r["outcome"] == "fault")
        if outcome["outcome"] == "applies exactly":
            good += 1
        else:
            print(f"  {path}: {outcome['outcome']} {outcome['detail']}")
    print(f"{title}: {same} patches have their base in the tree, {good} apply and give the recorded result")


def repairs(release: str, root: pathlib.Path, log: str) -> list[str]:
    """The log of a repair as rows of the table."""
    rows = []
    for line in log.splitlines():
        found = re.match(r"(.*?):(\d+): ((?:mended|left alone): .*)", line)
        if found:
            rows.append(f"{release}\t{pathlib.Path(found[1]).relative_to(root)}\t{found[2]}\t{found[3]}\n")
    return rows


def hold_table(release: str, rows: list[str], write: bool) -> int:
    table = TABLE.read_text(encoding="utf-8").splitlines(True)[1:] if TABLE.exists() else []
    kept = [row for row in table if row.split("\t")[0] == release]
    if write:
        others = [row for row in table if row.split("\t")[0] != release]
        TABLE.write_text(HEAD + "".join(sorted(others + rows)), encoding="utf-8")
        kept = rows
    for row in sorted(set(rows) ^ set(kept)):
        print(f"  {'not in' if row in rows else 'only in'} {TABLE.name}: {row}", end="")
    print(f"repair: {len(rows)} points, {len(set(rows) & set(kept))} of them in {TABLE.name}")
    return int(set(rows) != set(kept))


def check_repair(concord: str, corpus: pathlib.Path, tree: str | None, release: str, write: bool) -> int:
    """Sound patches stay as they are to the byte; mended ones have no fault left that blocks."""
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work, corpus.name)
        shutil.copytree(corpus, copy)
        log = run(concord, "patch", "repair", "-i", str(copy)).stderr.decode("utf-8", "replace")
        if release:
            bad += hold_table(release, repairs(release, copy, log), write)
        touched = {line.split(": mended")[0].rsplit(":", 1)[0] for line in log.splitlines() if ": mended" in line}
        for path in patches(copy):
            same = path.read_bytes() == (corpus / path.relative_to(copy)).read_bytes()
            if same == (str(path) in touched):
                print(f"  {path}: {'not ' if same else ''}changed against what repair said")
                bad += 1
        left = sum(": left alone" in line for line in log.splitlines())
        faults = sum(r["outcome"] == "fault" for rows in check_rows(concord, copy, None).values() for r in rows)
        print(f"repair: {len(touched)} patches mended, {left} points left alone, {faults} blocking faults remain")
        if tree:
            recorded_results(concord, copy, tree, "after repair")
    return bad


def main() -> int:
    concord, write = sys.argv[1], "--write" in sys.argv
    arguments = [a for a in sys.argv[2:] if a != "--write"]
    if not arguments:
        print("check_corpus: skipped: no corpus given (usage: check_corpus.py CONCORD CORPUS [TREE])")
        return 0
    release, _, folder = arguments[0].rpartition("=")
    corpus, tree = pathlib.Path(folder), arguments[1] if len(arguments) > 1 else None
    bad = agree_on_parsing(concord, corpus)
    if tree:
        bad += agree_on_applying(concord, corpus, tree)
        recorded_results(concord, corpus, tree, "as they are")
    bad += check_repair(concord, corpus, tree, release, write)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
