"""Checks that the device exports every vendor name that the torch_npu wheels link.

usage: softnpu_symbols.py LIBSOFTNPU

Looks at every torch_npu it can find: wheels and installed packages under the folders and files of $SOFTNPU_WHEELS
(separated by colons), and in concord's environments ($CONCORD_HOME, default ~/.cache/concord). Says which it found.
Exit status: 0 all names are there, 1 some are missing (listed), 77 nothing to check.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

VENDOR = re.compile(r"^(acl\w+|Hccl\w+|_ZNK?2ge\w+|rt[A-Z]\w+|Msprof\w+|(strcpy|v?snprintf)_s)$")


def names(library: Path, what: str) -> set[str]:
    out = subprocess.run(["nm", "-D", what, str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line}


def places() -> Iterator[Path]:
    for entry in os.environ.get("SOFTNPU_WHEELS", "").split(":"):
        if entry:
            yield Path(entry)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    yield Path(os.environ.get("CONCORD_HOME") or cache / "concord")


def found() -> Iterator[Path]:
    """Wheels and installed torch_npu folders."""
    for place in places():
        if place.is_file():
            yield place
            continue
        if not place.is_dir():
            continue
        for folder, subfolders, files in os.walk(place):
            yield from (Path(folder, f) for f in files if f.startswith("torch_npu-") and f.endswith(".whl"))
            if "torch_npu" in subfolders and Path(folder).name == "site-packages":
                yield Path(folder, "torch_npu")
                subfolders.clear()


def libraries(source: Path, scratch: Path) -> list[Path]:
    if source.is_dir():
        return sorted(source.rglob("*.so"))
    with zipfile.ZipFile(source) as wheel:
        members = [m for m in wheel.namelist() if m.endswith(".so")]
        return [Path(wheel.extract(m, scratch)) for m in members]


def linked(source: Path) -> set[str]:
    with tempfile.TemporaryDirectory() as scratch:
        files = libraries(source, Path(scratch))
        wanted = set().union(*(names(f, "--undefined-only") for f in files))
        return {n for n in wanted if VENDOR.match(n)}


def main() -> int:
    exported = names(Path(sys.argv[1]), "--defined-only")
    sources = sorted(set(found()))
    if not sources:
        print("skipped: no torch_npu found; put wheels or environments into SOFTNPU_WHEELS")
        return 77
    status = 0
    for source in sources:
        wanted = linked(source)
        missing = sorted(wanted - exported)
        listed = f": {' '.join(missing)}" if missing else ""
        print(f"{source}: {len(wanted)} vendor names, {len(missing)} missing{listed}")
        if missing or not wanted:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
