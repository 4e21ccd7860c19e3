#!/usr/bin/env bash
# Ratios to named peers, each pair in one run. usage: scripts/bench.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
release=${BENCH_RELEASE:-2.13.0}
"$build/bin/concord" env create "$release" >/dev/null
"$build/bin/bench_runtime"
"$build/bin/bench_report"
"$build/bin/softnpu" run -- "$("$build/bin/concord" env path "$release")/bin/python" bench/device.py "$build/bin/bench_launch"
