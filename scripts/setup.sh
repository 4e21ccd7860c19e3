#!/usr/bin/env bash
# Make sure that the system packages and the pinned sources that the build needs are there.
#
# usage: scripts/setup.sh [build|cross|browser ...]
#
# Installs missing packages when root or when sudo works without a password; otherwise one line names them, status 2.
# Quick when nothing is to do. Third-party sources come from the package indexes by version and hash, into .cache/.
set -euo pipefail
cd "$(dirname "$0")/.."

packages_build=(
    gcc g++ cmake ninja-build pkg-config ccache python3 python3-pip python3-venv python3-dev
    libgit2-dev libsqlite3-dev libyaml-dev libcyaml-dev libjansson-dev libmd4c-dev libcurl4-openssl-dev libelf-dev libssl-dev
    libtree-sitter-dev libopenblas-serial-dev libsleef3 libcmocka-dev git patch ca-certificates
)
packages_check=(clang clang-format clang-tidy)
packages_cross=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
packages_browser=(chromium fonts-noto-cjk)

wanted=()
for group in "${@:-build}"; do
    declare -n list="packages_$group"
    wanted+=("${list[@]}")
done

missing=()
for package in "${wanted[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    run=()
    if [ "$(id -u)" != 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            echo "setup: missing packages: install them with: sudo apt-get install ${missing[*]}" >&2
            exit 2
        fi
        run=(sudo)
    fi
    echo "setup: installing ${missing[*]}"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! { "${run[@]}" apt-get update -q && "${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "setup: apt-get could not install ${missing[*]}: the lines above say why" >&2
        exit 2
    fi
    rm -f "$log"
fi

# The Python grammar for tree-sitter: Debian's libtree-sitter 0.20 loads grammars of ABI 13 and 14, which 0.23.6 has.
grammar=.cache/tree-sitter-python-0.23.6
if [ ! -f "$grammar/src/parser.c" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    echo 'tree-sitter-python==0.23.6 --hash=sha256:354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9' >"$work/requirements.txt"
    if ! python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
        -d "$work" -r "$work/requirements.txt" >"$work/log" 2>&1; then
        tail -n 5 "$work/log" >&2
        echo "setup: could not download tree-sitter-python 0.23.6 from the package index: check the network or pip's settings" >&2
        exit 2
    fi
    mkdir -p .cache
    tar -xzf "$work"/tree_sitter_python-0.23.6.tar.gz -C "$work"
    rm -rf "$grammar"
    mv "$work/tree_sitter_python-0.23.6" "$grammar"
fi
