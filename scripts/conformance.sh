#!/usr/bin/env bash
# make test-conformance: judges that are not ours. TorchCTS on torch 2.12.0, torch's own databases on 2.13.0, and
# op-plugin's own tests on 2.12.0 where OP_PLUGIN names a checkout of it.
#
# usage: scripts/conformance.sh BUILD [torchcts ARGS... | opinfo ARGS... | opplugin TREE ARGS...]
# Tables go to results/conformance/. The judges' own packages are installed beside the environments, not into them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$1
shift
results=$root/results/conformance
site=$root/.cache/conformance
mkdir -p "$results"

if ! cmp -s tests/conformance/requirements.txt "$site/.complete"; then
    rm -rf "$site"
    python3 -m pip install -q --disable-pip-version-check --no-deps --target "$site" -r tests/conformance/requirements.txt
    cp tests/conformance/requirements.txt "$site/.complete"
fi

run_in() { # run_in RELEASE COMMAND...: in a release's environment, on the device
    local release=$1 python
    shift
    "$build/bin/concord" env create "$release" >/dev/null
    python=$("$build/bin/concord" env path "$release")/bin/python
    PYTHONPATH=$site "$build/bin/softnpu" run -- "$python" "$@"
}

begin() { # begin TABLE: the rows of the run before are what this one is compared with
    mkdir -p "$results/last"
    if [ -f "$results/$1.tsv" ]; then mv "$results/$1.tsv" "$results/last/$1.tsv"; fi
}

torchcts() {
    begin torchcts
    mkdir -p "$results/torchcts"
    cp tests/conformance/manifest_910b.py "$results/torchcts/manifest.py"
    (cd "$results/torchcts" && run_in 2.12.0 "$root/tests/conformance/torchcts_run.py" --out "$results/torchcts.tsv" "$@")
}

opplugin() { # opplugin TREE ARGS...: op-plugin's own tests, from a checkout of op-plugin
    begin op-plugin
    run_in 2.12.0 tests/conformance/op_plugin_run.py "$@" --out "$results/op-plugin.tsv"
}

opinfo() { # every database, each with its own table
    local judge status=0
    mkdir -p "$results/last"
    for judge in opinfo modules optimizers; do
        if [ -f "$results/$judge.tsv" ]; then cp "$results/$judge.tsv" "$results/last/"; fi # a part may be run anew
        run_in 2.13.0 tests/conformance/opinfo.py --judge "$judge" --out "$results/$judge.tsv" "$@" || status=1
    done
    return $status
}

build=$(cd "$build" && pwd)
if [ $# -gt 0 ]; then
    "$@" || status=$?
else
    torchcts --level=4 || status=1
    opinfo || status=1
    if [ -n "${OP_PLUGIN:-}" ]; then
        opplugin "$(cd "$OP_PLUGIN" && pwd)" || status=1
    else
        echo "conformance: op-plugin's own tests skipped: set OP_PLUGIN to a checkout of op-plugin to run them"
    fi
fi
python3 tests/conformance/table.py "$results" || status=1
exit "${status:-0}"
