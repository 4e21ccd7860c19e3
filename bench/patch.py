#!/usr/bin/env python3
"""Patches: concord against the programs people use, in one run, printed as ratios.

usage: patch.py CONCORD PATCHES TREE [MORE_PATCHES...]

PATCHES is a folder of patches, TREE the source tree they are checked against; MORE_PATCHES are further folders
for the audit. Each figure is the best of three. Nothing is asserted.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import time


def best(run, rounds: int = 3) -> tuple[float, float]:
    """Least wall and processor seconds (of the children) of some rounds."""
    walls, cpus = [], []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        run()
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(walls), min(cpus)


def ms(figures: tuple[float, float]) -> str:
    return f"{1e3 * figures[0]:.0f} ms ({1e3 * figures[1]:.0f} ms of processor)"


def ratio(ours: tuple[float, float], theirs: tuple[float, float]) -> str:
    return f"{theirs[0] / ours[0]:.1f}x, by processor time {theirs[1] / max(ours[1], 1e-4):.1f}x"


def quiet(*argv: str, cwd: str | None = None) -> None:
    subprocess.run(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def big_patch(path: pathlib.Path, megabytes: int) -> None:
    """One patch over many files, about that big, that applies to nothing but parses."""
    hunk = (
        "@@ -{0},7 +{0},7 @@ def f():\n"
        + "".join(f"     context line {i}\n" for i in range(3))
        + "-    old = torch.ones(3)\n"
    )
    hunk += '+    new = torch.ones(3, device="npu")\n' + "".join(f"     context line {i}\n" for i in range(3, 6))
    with path.open("w") as out:
        size = number = 0
        while size < megabytes << 20:
            name = f"test/test_{number}.py"
            text = f"diff --git a/{name} b/{name}\nindex 5ad3c1e..9b1f07d 100644\n--- a/{name}\n+++ b/{name}\n"
            text += "".join(hunk.format(1 + 20 * i) for i in range(200))
            out.write(text)
            size += len(text)
            number += 1


def peak_mb(*argv: str) -> float:
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    return float(
        subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True).stdout
    )


def main() -> int:
    concord, patches, tree = sys.argv[1:4]
    more = sys.argv[4:]
    files = sorted(str(p) for p in pathlib.Path(patches).rglob("*") if p.suffix in (".patch", ".diff"))
    absolute = [str(pathlib.Path(f).resolve()) for f in files]

    def git_loop() -> None:
        for f in absolute:
            quiet("git", "apply", "--check", f, cwd=tree)

    ours = best(lambda: quiet(concord, "patch", "check", "-q", "--root", tree, patches))
    theirs = best(git_loop, 1)
    print(
        f"check {len(files)} patches: concord {ms(ours)}, loop of git apply --check {ms(theirs)}: {ratio(ours, theirs)}"
    )
    count = len(files) + sum(
        len([p for p in pathlib.Path(m).rglob("*") if p.suffix in (".patch", ".diff")]) for m in more
    )
    ours = best(lambda: quiet(concord, "audit", patches, *more))
    print(f"full audit of {count} patches: concord {ms(ours)}")
    with tempfile.TemporaryDirectory() as work:
        big = pathlib.Path(work) / "big.patch"
        big_patch(big, 100)
        ours = best(lambda: quiet(concord, "patch", "check", "-q", str(big)))
        theirs = best(lambda: quiet("git", "apply", "--numstat", str(big)))
        our_peak = peak_mb(concord, "patch", "check", "-q", str(big))
        git_peak = peak_mb("git", "apply", "--numstat", str(big))
        print(
            f"parse a patch of 100 MB: concord {ms(ours)}, git apply --numstat {ms(theirs)}: {ratio(ours, theirs)}; "
            f"peak memory {our_peak:.0f} MB, git {git_peak:.0f} MB"
        )
        if subprocess.run(["which", "lsdiff"], capture_output=True, check=False).returncode == 0:
            theirs = best(lambda: quiet("lsdiff", str(big)))
            print(f"the same, patchutils lsdiff: {ms(theirs)}: {ratio(ours, theirs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
