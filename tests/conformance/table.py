"""The judges' one table: operator x dtype x judge, failures by cause, differences from the last run.

    python3 tests/conformance/table.py RESULTS_FOLDER [--reached]

reads every *.tsv there (a judge's rows each; last/*.tsv are those of the run before) and writes conformance.md
beside them. Causes come from known.tsv: the first line of the judge whose patterns fit. A line with the verdict
`plugin` or `documented` says that no board passes either, with the public source: such a node does not count as
executed. A line with the verdict `fail` names the cause of what stays a failure. A failure without a line is listed
as not explained. --reached adds to reached.tsv (beside this file; docs/operators.md quotes it) the operators that
each judge made the device run.
"""

import re
import sys
from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, fields
from pathlib import Path

EXECUTED = ("pass", "fail", "crash", "timeout")
DETAIL = 1500  # characters kept of a failure's text
MISSING = re.compile(r"(aclnn\w+) or aclnn\w+GetWorkspaceSize not in|operator type (\w+) \(\w+\) is not supported")
UNKNOWN = "not explained yet"
BY_SAMPLE = ("opinfo", "modules", "optimizers")  # these judges ask known.tsv themselves, sample by sample


@dataclass
class Row:
    judge: str
    operator: str
    dtype: str
    node: str
    verdict: str  # pass, fail, crash, timeout; skip, refused, fallback: not executed on the device
    detail: str = ""
    seconds: float = 0
    reached: list[str] | str = ""  # aclnn operators that ran, comma separated in a file

    def failed(self) -> bool:
        return self.verdict in EXECUTED[1:]


@dataclass
class Known:
    judge: str
    name: str
    message: str
    verdict: str
    source: str

    def fits(self, row: Row) -> bool:
        if self.judge != row.judge or not re.fullmatch(self.name, row.operator):
            return False
        return bool(re.search(self.message, f"{row.node} {row.detail}"))


def write_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.write("\t".join(f.name for f in fields(Row)) + "\n")
        for row in sorted(rows, key=lambda r: (r.judge, r.operator, r.dtype, r.node)):
            reached = row.reached if isinstance(row.reached, str) else ",".join(row.reached)
            cells = [*astuple(row)[:5], " ".join(row.detail.split())[:DETAIL], row.seconds, reached]
            out.write("\t".join(str(c).replace("\t", " ").replace("\n", " ") for c in cells) + "\n")


def read_rows(path: Path) -> list[Row]:
    """Rows of a table with this file's header, or of name, dtype, verdict, detail without one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0].startswith("judge\t"):
        return [Row(*line.split("\t")) for line in lines[1:]]
    cells = (line.split("\t", 3) for line in lines)
    return [Row(path.stem, name, dtype, name, verdict, detail) for name, dtype, verdict, detail in cells]


def read_known() -> list[Known]:
    lines = (Path(__file__).parent / "known.tsv").read_text(encoding="utf-8").splitlines()
    return [Known(*line.split("\t")) for line in lines if line and not line.startswith("#")]


def explain(rows: list[Row], known: list[Known]) -> dict[int, str]:
    """Sets rows aside that no board passes; the causes of the failures that stay, by the row's identity."""
    causes = {}
    for row in filter(Row.failed, rows):
        line = next((k for k in known if k.fits(row)), None)
        if line and line.verdict != "fail" and row.judge not in BY_SAMPLE:
            row.verdict = line.verdict
        causes[id(row)] = line.source if line else UNKNOWN
    return causes


def share(rows: list[Row]) -> str:
    count = Counter(r.verdict for r in rows)
    executed = sum(count[v] for v in EXECUTED)
    if not executed:
        return "0 | 0 | - | " + others(count)
    return f"{executed} | {count['pass']} | {100 * count['pass'] / executed:.2f} % | {others(count)}"


def others(count: Counter) -> str:
    return ", ".join(f"{v} {n}" for v, n in sorted(count.items()) if v not in EXECUTED) or "none"


def judges_section(rows: list[Row]) -> list[str]:
    by: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by[row.judge, "all"].append(row)
        by[row.judge, row.dtype].append(row)
    head = ["| judge | dtype | executed | pass | share | not executed |", "|---|---|---|---|---|---|"]
    return head + [
        f"| {j} | {d} | {share(by[j, d])} |" for j, d in sorted(by, key=lambda k: (k[0], k[1] != "all", k[1]))
    ]


def causes_section(rows: list[Row], causes: dict[int, str]) -> list[str]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[causes[id(row)]].append(row)
    out = []
    for text, members in sorted(groups.items(), key=lambda g: (g[0] == UNKNOWN, -len(g[1]))):
        out += [
            "",
            f"### {len(members)}: {text}",
            "",
            "| judge | operator | dtypes | nodes | first |",
            "|---|---|---|---|---|",
        ]
        by: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in members:
            by[row.judge, row.operator].append(row)
        for (judge, operator), some in sorted(by.items()):
            dtypes = " ".join(sorted({r.dtype for r in some}))
            first = (f"{some[0].verdict}: " if some[0].verdict != "fail" else "") + some[0].detail[:160].replace(
                "|", "\\|"
            )
            out.append(f"| {judge} | {operator} | {dtypes} | {len(some)} | {first} |")
    return out or ["", "None."]


def differences_section(rows: list[Row], last: list[Row]) -> list[str]:
    before = {(r.judge, r.node, r.dtype): r.verdict for r in last}
    out = []
    for row in rows:
        was = before.get((row.judge, row.node, row.dtype))
        if was is not None and was != row.verdict:
            out.append(f"| {row.judge} | {row.operator} | {row.dtype} | {was} | {row.verdict} | {row.node} |")
    head = ["| judge | operator | dtype | was | is | node |", "|---|---|---|---|---|---|"]
    return head + out if out else ["No node that ran both times differs." if last else "There is no last run."]


def missing_section(rows: list[Row]) -> list[str]:
    by: dict[str, set[str]] = defaultdict(set)
    for row in filter(Row.failed, rows):
        for name in MISSING.findall(row.detail):
            by["".join(name)].add(f"{row.judge} {row.operator}")
    return [f"* {name}: {', '.join(sorted(who))}" for name, who in sorted(by.items())] or ["None."]


def add_reached(rows: list[Row]) -> None:
    path = Path(__file__).parent / "reached.tsv"
    head = "# Operators that the judges made the device run, by its own launch count (table.py --reached)."
    known = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
    by = {name: set(judges.split(",")) for name, judges in (line.split("\t") for line in known)}
    for row in rows:
        for name in filter(None, row.reached.split(",")):
            by.setdefault(name, set()).add(row.judge)
    lines = [f"{name}\t{','.join(sorted(by[name]))}" for name in sorted(by)]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def main() -> int:
    folder = Path(sys.argv[1])
    rows = [row for f in sorted(folder.glob("*.tsv")) for row in read_rows(f)]
    last = [row for f in sorted((folder / "last").glob("*.tsv")) for row in read_rows(f)]
    known = read_known()
    explain(last, known)
    causes = explain(rows, known)
    failed = [r for r in rows if r.failed()]
    aside = [r for r in rows if id(r) in causes and not r.failed()]
    text = ["# Conformance", "", *judges_section(rows), "", "## Failures by cause", *causes_section(failed, causes)]
    text += ["", "## Operators without a row that failures name", "", *missing_section(rows)]
    text += ["", "## Set aside: no board passes these", *causes_section(aside, causes)]
    text += ["", "## Differences from the last run", "", *differences_section(rows, last)]
    (folder / "conformance.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    if "--reached" in sys.argv:
        add_reached(rows)
    print("\n".join(line for line in text if re.match(r"\| [\w-]+ \| all ", line)))
    print(f"table: {folder / 'conformance.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
