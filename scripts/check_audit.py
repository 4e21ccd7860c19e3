#!/usr/bin/env python3
"""Hold concord audit's findings against a plain text search over a real corpus, difference by difference.

usage: check_audit.py CONCORD [--write] [RELEASE=FOLDER ...]

FOLDER is a folder of patches (a release branch's test_upstream). For the rules below the same question is also put to
the text with a regular expression, as a person with grep would. Where the two differ, the place and the reason
must stand in docs/audit-corpus.tsv, which --write makes anew; a difference that the table has not, or a row that is
no longer there, fails. Without a folder there is nothing to check, which is said, and the status is 0. The corpus is
read, never copied.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "audit-corpus.tsv"
HEAD = "# release\trule\tpatch\tline\tfound by\treason\n"

Line = tuple[int, str]  # number in the patch file, text with its sign


class Patch:
    def __init__(self, root: pathlib.Path, path: pathlib.Path) -> None:
        self.name = str(path.relative_to(root))
        self.raw = path.read_bytes()
        text = self.raw.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        self.hunks: list[list[Line]] = []
        self.has_diff_line = any(line.startswith("diff --git") for line in text)
        self.has_index = any(line.startswith("index ") for line in text)
        inside = False
        for number, line in enumerate(text, 1):
            if line.startswith("@@"):
                self.hunks.append([])
                inside = True
            elif line.startswith(("diff --git", "index ", "--- a/", "+++ b/")):
                inside = False
            elif inside and line:
                self.hunks[-1].append((number, line))
        lines = [line for hunk in self.hunks for line in hunk]
        self.added = [(n, t[1:]) for n, t in lines if t[0] == "+"]
        self.removed = [(n, t[1:]) for n, t in lines if t[0] == "-"]
        self.context = [(n, t[1:]) for n, t in lines if t[0] == " "]
        self.code = [(n, t) for n, t in self.added if t.strip() and not t.lstrip().startswith("#")]


def matching(lines: list[Line], pattern: str) -> list[int]:
    return [n for n, text in lines if re.search(pattern, text)]


# ---- the plain questions: the lines that answer them, no line for no ---------------------------------------


def no_index(p: Patch) -> list[int]:
    return [] if p.has_diff_line and p.has_index else [1]


def blank_only(p: Patch) -> list[int]:
    found = []
    for hunk in p.hunks:
        minus = [t[1:] for _, t in hunk if t[0] == "-"]
        plus = [t[1:] for _, t in hunk if t[0] == "+"]
        if minus == plus or (not minus and not any(t.strip() for t in plus)):
            found.append(hunk[0][0] - 1)
    return found


def npu_import_missing(p: Patch) -> list[int]:
    if matching(p.added + p.context, r"^\s*(import|from) torch_npu"):
        return []
    uses = matching(p.code, r'\.npu\(|"npu(:\d+)?"|torch_npu\.|torch\.npu\.')
    return uses[:1]


def import_only(p: Patch) -> list[int]:
    added = [(n, t) for n, t in p.added if t.strip()]
    imports = matching(added, r"^\s*(import|from) torch_npu")
    removed = any(t.strip() for _, t in p.removed)
    return imports[:1] if imports and len(imports) == len(added) and not removed else []


def commented_out(p: Patch) -> list[int]:
    removed = [t.strip() for _, t in p.removed]
    found = []
    for n, text in p.added:
        bare = re.sub(r"^\s*#+\s*", "", text).strip()
        if text.lstrip().startswith("#") and bare and any(bare in r for r in removed):
            found.append(n)
    return found


DEVICE_NAME = r"\bdevice\b(?!=)(?!\()|device_type(?!=)"


def hard_coded(p: Patch) -> list[int]:
    found = []
    for hunk in p.hunks:
        if any(t[0] == " " and re.search(DEVICE_NAME, t) for _, t in hunk):
            found += [n for n, t in hunk if t[0] == "+" and re.search(r"""["']npu(:\d+)?["']""", t)]
    return found


PLAIN = {
    "no-index": no_index,
    "hunk-blank-only": blank_only,
    "npu-import-missing": npu_import_missing,
    "import-only": import_only,
    "code-commented-out": commented_out,
    "device-hard-coded": hard_coded,
}

# ---- why they differ ---------------------------------------------------------------------------------------


def why_hard_coded(p: Patch, line: int) -> str:
    text = dict(p.added)[line]
    reasons = [
        (r"^\s*#", "a comment"),
        (r"^\s*@|instantiate_device_type_tests|only_for\s*=", "in a decorator or a list of devices to test"),
        (r"^\s*[\w.\[\]'\"]*(device|DEVICE|dev)\w*['\"\]]*\s*(:.*)?=[^=]", "gives the variable its value"),
        (r"==|!=|\bin\b|startswith\(", "a comparison with the variable, places nothing"),
        (r"assert", "the expected value of a check, places nothing"),
        (r"(xfail|skip|DecorateInfo|decorate)\(|^\s*device_type=", "the key of a skip table"),
        (r"\[.*[\"']cpu[\"'].*\]|\[[\"']npu[\"']\]|(\+=|append\()", "a list of devices that the variable runs over"),
    ]
    for pattern, reason in reasons:
        if re.search(pattern, text):
            return reason
    return "no device variable in this line's scope (the hunk's is an attribute, text or another scope's)"


def why(rule: str, p: Patch, line: int, ours: bool) -> str:
    if rule == "device-hard-coded":
        if not ours:
            return why_hard_coded(p, line)
        return "the variable is an attribute, or stands outside the hunk's context lines"
    if rule == "no-index":
        return "the index line is there, behind a byte order mark"
    if rule == "hunk-blank-only":
        return "removes blank lines only" if ours else "removes and adds the same line: hunk-noop"
    if rule == "import-only":
        return "only imports and comments are added"
    if rule == "npu-import-missing":
        if p.name.startswith("torch/"):
            return "torch itself must not import the plugin"
        return "the device is named in single quotes"
    if ours:
        return "code as a comment that upstream never had"
    return "a comment of upstream's that moves or is rewritten"


# ---- the table ---------------------------------------------------------------------------------------------


def findings(concord: str, root: pathlib.Path) -> dict[str, dict[str, list[int]]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([concord, "audit", str(root), "--json", out.name], capture_output=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr.decode())
        found: dict[str, dict[str, list[int]]] = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in json.load(open(out.name)):
            found[row["rule"]][str(pathlib.Path(row["file"]).relative_to(root))].append(row["line"])
    return found


def differences(concord: str, release: str, root: pathlib.Path) -> list[str]:
    found, rows = findings(concord, root), []
    patches = [Patch(root, p) for p in sorted(root.rglob("*")) if p.suffix in (".patch", ".diff")]
    for rule, question in PLAIN.items():
        asked = {p.name: question(p) for p in patches}
        here = {name for name, lines in asked.items() if lines}
        print(f"{release} {rule}: text {len(here)} patches, rule {len(found[rule])}")
        for p in patches:
            theirs, ours = asked[p.name], found[rule].get(p.name, [])
            by_line = rule == "device-hard-coded"
            if not by_line and bool(theirs) == bool(ours):
                continue
            for line in sorted(set(theirs) ^ set(ours)):
                mine = line in ours
                by = "rule" if mine else "text"
                rows.append(f"{release}\t{rule}\t{p.name}\t{line}\t{by}\t{why(rule, p, line, mine)}\n")
    return rows


def main() -> int:
    arguments = [a for a in sys.argv[2:] if a != "--write"]
    if not arguments:
        print("check_audit: skipped: no corpus given (usage: check_audit.py CONCORD RELEASE=FOLDER ...)")
        return 0
    rows: list[str] = []
    for argument in arguments:
        release, _, folder = argument.partition("=")
        rows += differences(sys.argv[1], release, pathlib.Path(folder))
    if "--write" in sys.argv:
        TABLE.write_text(HEAD + "".join(rows), encoding="utf-8")
        print(f"{TABLE.name}: {len(rows)} differences")
        return 0
    releases = {row.split("\t")[0] for row in rows}
    kept = {line for line in TABLE.read_text(encoding="utf-8").splitlines(True)[1:] if line.split("\t")[0] in releases}
    for row in sorted(set(rows) - kept):
        print("not in the table: " + row, end="")
    for row in sorted(kept - set(rows)):
        print("no longer so: " + row, end="")
    print(f"{len(rows)} differences, {len(set(rows) & kept)} of them explained in {TABLE.name}")
    return 0 if set(rows) == kept else 1


if __name__ == "__main__":
    sys.exit(main())
