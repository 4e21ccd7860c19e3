#!/usr/bin/env bash
# make test: unit tests (ctest), then the device and end-to-end tests (pytest) in real environments.
#
# usage: scripts/test.sh BUILD RELEASE...
# The last line is `N passed, N failed` over both.
set -uo pipefail
build=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
concord=$build/bin/concord
softnpu=$build/bin/softnpu
passed=0
failed=0

count() { # count LOG PATTERN: the first number before PATTERN in the last matching line, 0 if none
    grep -oE "[0-9]+ $2" "$1" | tail -n 1 | grep -oE '^[0-9]+' || echo 0
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
site=$work/site
(cd "$build" && ctest --output-on-failure -j "$(nproc)") 2>&1 | tee "$log" | grep -vE '^ +Start|Test +#[0-9]+:.*Passed'
total=$(grep -oE 'out of [0-9]+' "$log" | grep -oE '[0-9]+' || echo 0)
bad=$(count "$log" 'tests failed')
passed=$((passed + total - bad))
failed=$((failed + bad))
[ "$total" -gt 0 ] || failed=$((failed + 1))

if ! "$concord" env create "$@"; then
    echo "test: the environments could not be made: the device tests did not run" >&2
    failed=$((failed + 1))
else
    # pytest lives outside the environments, so that they stay what their lock files say.
    python3 -m pip install -q --disable-pip-version-check --target "$site" -r tests/requirements.txt 2>"$log" || {
        cat "$log" >&2
        echo "test: pytest could not be installed: check the network or pip's settings" >&2
        failed=$((failed + 1))
    }
    for release in "$@"; do
        python=$("$concord" env path "$release")/bin/python
        tests=(tests/device/test_smoke.py)
        [ "$release" != "${*: -1}" ] || tests=(tests/device)
        echo "== device tests on $release: ${tests[*]}"
        PYTHONPATH=$site "$softnpu" run -- "$python" -m pytest -q -p no:cacheprovider --maxfail=50 "${tests[@]}" 2>&1 |
            tee "$log" | tail -n 40
        passed=$((passed + $(count "$log" passed)))
        bad=$(($(count "$log" failed) + $(count "$log" 'errors?')))
        failed=$((failed + bad))
        grep -qE '[0-9]+ passed' "$log" || failed=$((failed + (bad == 0)))
    done
    echo "== end to end"
    CONCORD=$PWD/$concord PYTHONPATH=$site python3 -m pytest -q -p no:cacheprovider tests/e2e tests/runner/test_suite.py 2>&1 | tee "$log" | tail -n 40
    passed=$((passed + $(count "$log" passed)))
    bad=$(($(count "$log" failed) + $(count "$log" 'errors?')))
    failed=$((failed + bad))
    grep -qE '[0-9]+ passed' "$log" || failed=$((failed + (bad == 0)))
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
