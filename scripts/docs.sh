#!/usr/bin/env bash
# Regenerate docs/operators.md. usage: scripts/docs.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
new=$(mktemp)
trap 'rm -f "$new"' EXIT
python3 scripts/make_operators_doc.py "$1/bin/opdoc" softnpu/op/surface.tsv softnpu/op/accept_local.tsv tests \
    softnpu/op tests/conformance/reached.tsv >"$new"
cat "$new" >docs/operators.md
