#!/usr/bin/env python3
"""Precision and recall of `concord scan`'s call sites against a list that a person made by reading.

usage: scan_sites.py CONCORD TREE [LIST.tsv]

TREE is torch 2.6.0's source tree, LIST tests/data/scan_sites.tsv. Exit status 77 when the tree is not there or of
another release, 1 when either figure is below 0.95 over all APIs together, or for any API with ten lines or more.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

WANTED, ENOUGH = 0.95, 10
Sites = dict[str, set[tuple[str, int]]]


def read_list(path: pathlib.Path) -> tuple[Sites, set[str]]:
    sites: Sites = {}
    partial = set()
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        api, file, rows = line.split("\t")
        name, _, mark = api.partition(" ")
        if mark == "!":
            partial.add(name)
        sites.setdefault(name, set()).update((file, int(row)) for row in rows.split())
    return sites, partial


def scan(concord: str, tree: pathlib.Path, apis: list[str]) -> tuple[Sites, Sites]:
    """All sites, and those that are more than weak."""
    with tempfile.TemporaryDirectory() as folder:
        listed, result = pathlib.Path(folder, "apis"), pathlib.Path(folder, "scan.json")
        listed.write_text("\n".join(apis) + "\n")
        command = [concord, "scan", "--apis", str(listed), "--upstream", str(tree), "--json", str(result)]
        subprocess.run(command, check=True)
        every: Sites = {}
        sure: Sites = {}
        for site in json.loads(result.read_text())["sites"]:
            place = (site["file"], site["row"])
            every.setdefault(site["api"], set()).add(place)
            if site["match"] != "receiver":
                sure.setdefault(site["api"], set()).add(place)
    return every, sure


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    tree = pathlib.Path(sys.argv[2])
    here = pathlib.Path(__file__).resolve().parent.parent
    listed, partial = read_list(pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else here / "tests/data/scan_sites.tsv")
    version = tree / "version.txt"
    if not version.exists() or not version.read_text().startswith("2.6.0"):
        print(f"scan_sites: {tree} is no tree of torch 2.6.0: skipped")
        return 77
    every, sure = scan(sys.argv[1], tree, sorted(listed))
    right = found = wanted = 0
    low = []
    print(f"{'API':52} {'lines':>5} {'found':>5} {'wrong':>5} {'weak':>5}")
    for api, truth in sorted(listed.items()):
        got = every.get(api, set())
        if api in partial:
            files = {file for file, _ in truth}
            got = {place for place in got if place[0] in files}
        hit, wrong = got & truth, got - truth
        print(f"{api:52} {len(truth):5} {len(hit):5} {len(wrong):5} {len(got - sure.get(api, set())):5}")
        for file, row in sorted(truth - got):
            print(f"    missed {file}:{row}")
        for file, row in sorted(wrong):
            print(f"    wrong {file}:{row}")
        right, found, wanted = right + len(hit), found + len(got), wanted + len(truth)
        if len(truth) >= ENOUGH and (len(hit) < WANTED * len(truth) or len(hit) < WANTED * len(got)):
            low.append(api)
    precision, recall = right / max(1, found), right / max(1, wanted)
    print(f"{len(listed)} APIs, {wanted} lines: precision {precision:.3f}, recall {recall:.3f}")
    if low:
        print(f"below {WANTED}: {', '.join(low)}")
    return 0 if precision >= WANTED and recall >= WANTED and not low else 1


if __name__ == "__main__":
    sys.exit(main())
