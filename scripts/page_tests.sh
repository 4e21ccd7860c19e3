#!/usr/bin/env bash
# The page's tests: a page of a small run and one of 50,000 cases, looked at by headless Chromium.
#
# usage: scripts/page_tests.sh BUILD
# PAGE_SMALL names a page to use for the small one; without it the last run that the journal has is rendered.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
work=$build/page
mkdir -p "$work" "$build/pictures"
if [ ! -x "$work/venv/bin/pytest" ]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install -q --disable-pip-version-check -r tests/page/requirements.txt
fi
if [ -z "${PAGE_SMALL:-}" ]; then
    PAGE_SMALL=$work/small.html
    "$build/bin/concord" report --html "$PAGE_SMALL" || {
        echo "page_tests: no run to show: make verify VERSIONS=2.12.0 makes one" >&2
        exit 2
    }
fi
"$build/bin/bench_report" 50000 "$work/many"
PAGE_SMALL=$PAGE_SMALL PAGE_BIG=$work/many/report.html PAGE_PICTURES=$build/pictures \
    "$work/venv/bin/pytest" -q -s -p no:cacheprovider tests/page
