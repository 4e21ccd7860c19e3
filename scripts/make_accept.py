#!/usr/bin/env python3
"""Make softnpu/op/accept.tsv from tables of documented operator facts.

usage: make_accept.py PARAMS.tsv SURFACE.tsv DOC_VS_CODE.tsv > accept.tsv

Run by hand when the fact tables change; the build reads only accept.tsv. A line is
operator, argument index, argument name, dtypes ('-' = documents are silent), ranks lo-hi.
An operator without usable facts has the single line `operator<TAB>-`.
"""

import csv
import re
import sys


def rows(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def ranks(text: str) -> str:
    """The documented range as lo-hi. Numbers above 8 are sizes, not ranks; "1-8" and a lone 8 are how documents write
    "any rank", and the plugin passes 0-dimensional tensors to those operators, so its lower bound is 0."""
    numbers = [n for n in map(int, re.findall(r"\d+", text)) if n <= 8]
    if not numbers:
        return "0-8"
    lo = 0 if text.startswith("<") else min(numbers)
    hi = max(numbers)
    return "0-8" if (lo, hi) in ((1, 8), (8, 8)) else f"{lo}-{hi}"


def is_tensor(kind: str) -> bool:
    return "tensor" in kind.lower()


def main() -> None:
    params_path, surface_path, code_path = sys.argv[1:4]
    documented: dict[str, list[dict[str, str]]] = {}
    for row in rows(params_path):
        documented.setdefault(row["op"], []).append(row)
    extra = {(r["op"], r["param"]): r["only_in_code"] for r in rows(code_path) if r["status"] == "diff_direct"}
    surface: dict[str, list[tuple[str, str]]] = {}
    for row in rows(surface_path):
        args = next(v for k, v in row.items() if k.startswith("args"))
        pairs = []
        for item in args.split(","):
            name, _, kind = item.strip().partition(":")
            pairs.append((name, kind.strip()))
        surface[row["name"]] = pairs
    for op in sorted(set(documented) | set(surface)):
        doc = sorted(documented.get(op, []), key=lambda r: int(r["index"]))
        call = surface.get(op)
        if not doc or (
            call and [is_tensor(k) for _, k in call] != [is_tensor(r["kind"]) for r in doc]
        ):
            print(f"{op}\t-")
            if doc:
                print(f"{op}: documented and called arguments do not line up", file=sys.stderr)
            continue
        for i, row in enumerate(doc):
            dtypes = [d for d in row["dtypes"].split(",") if d] if is_tensor(row["kind"]) else []
            for d in extra.get((op, row["param"]), "").split(","):
                if d and dtypes and d not in dtypes:
                    dtypes.append(d)
            print(op, i, row["param"], ",".join(dtypes) or "-", ranks(row["ranks"]), sep="\t")


main()
