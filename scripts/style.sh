#!/usr/bin/env bash
# clang-format, clang-tidy and ruff over our own files. usage: scripts/style.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
mapfile -t sources < <(git ls-files '*.c' '*.h' ':!tests/fixtures')
clang-format --dry-run --Werror "${sources[@]}"
mapfile -t units < <(git ls-files 'concord/*.c' 'softnpu/*.c' ':!softnpu/kernel/*')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 8 clang-tidy -p "$build" --quiet 2>/dev/null
if command -v ruff >/dev/null; then
    # B023 warns of lambdas that outlive their loop; the tests call them within the iteration. Fixtures are test data.
    ruff check --quiet --select E,F,W,I,B,UP --ignore B023 --line-length 120 --target-version py310 \
        --extend-exclude tests/fixtures bench harness tests scripts softnpu/op
else
    echo "style: ruff is not installed (pip install ruff): Python files were not checked" >&2
fi
