#!/usr/bin/env bash
# make test-conformance: judges that are not ours. TorchCTS on torch 2.12.0, torch's OpInfo database on 2.13.0.
#
# usage: scripts/conformance.sh BUILD [torchcts ARGS... | opinfo ARGS...]
# Tables go to results/conformance/. The judges' own packages are installed beside the environments, not into them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$1
shift
results=$root/results/conformance
site=$root/.cache/conformance
mkdir -p "$results"

if [ ! -f "$site/.complete" ]; then
    rm -rf "$site"
    python3 -m pip install -q --disable-pip-version-check --no-deps --target "$site" -r tests/conformance/requirements.txt
    touch "$site/.complete"
fi

run_in() { # run_in RELEASE COMMAND...: in a release's environment, on the device
    local release=$1 python
    shift
    "$build/bin/concord" env create "$release" >/dev/null
    python=$("$build/bin/concord" env path "$release")/bin/python
    PYTHONPATH=$site "$build/bin/softnpu" run -- "$python" "$@"
}

torchcts() {
    mkdir -p "$results/torchcts"
    cp tests/conformance/manifest_910b.py "$results/torchcts/manifest.py"
    (cd "$results/torchcts" && TASK_QUEUE_ENABLE=0 run_in 2.12.0 -m torchcts run --device=npu "$@")
}

opinfo() { # every database, each with its own table
    local judge status=0
    for judge in opinfo modules optimizers; do
        run_in 2.13.0 tests/conformance/opinfo.py --judge "$judge" --out "$results/$judge.tsv" "$@" || status=1
    done
    return $status
}

build=$(cd "$build" && pwd)
if [ $# -gt 0 ]; then
    "$@"
else
    status=0
    torchcts --level=4 || status=1
    opinfo || status=1
    exit $status
fi
