#!/usr/bin/env bash
# make test-runner: what takes minutes: suites of misbehaving tests, random kills, a Slurm cluster of the machine's own.
#
# usage: scripts/runner.sh BUILD [KILLS]
# The Slurm part needs root and Debian's slurm-wlm and munge; it is skipped, saying so, where they are absent.
set -uo pipefail
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
kills=${2:-200}
site=$PWD/.cache/runner-site
if [ ! -f "$site/.complete" ]; then
    rm -rf "$site"
    python3 -m pip install -q --disable-pip-version-check --target "$site" -r tests/requirements.txt || exit 2
    touch "$site/.complete"
fi
status=0
CONCORD=$build/bin/concord PYTHONPATH=$site python3 -m pytest -q -rs -p no:cacheprovider tests/runner || status=1
python3 tests/runner/kill_test.py "$build/bin/concord" "$site" --kills "$kills" || status=1
exit $status
