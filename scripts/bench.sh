#!/usr/bin/env bash
# Ratios to named peers, each pair in one run. usage: scripts/bench.sh BUILD [operators]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
release=${BENCH_RELEASE:-2.13.0}
"$build/bin/concord" env create "$release" >/dev/null
python=$("$build/bin/concord" env path "$release")/bin/python
if [ "${2:-}" = operators ]; then
    exec "$build/bin/softnpu" run -- "$python" bench/operators.py
fi
"$build/bin/bench_runtime"
"$build/bin/bench_report"
"$build/bin/softnpu" run -- "$python" bench/device.py "$build/bin/bench_launch"
