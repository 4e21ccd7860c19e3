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
    gcc g++ lld cmake ninja-build pkg-config ccache python3 python3-pip python3-venv python3-dev
    libgit2-dev libsqlite3-dev libyaml-dev libjansson-dev libmd4c-dev libcurl4-openssl-dev libelf-dev libssl-dev
    libarchive-dev zlib1g-dev libopenblas-serial-dev libsleef3 libcmocka-dev git patch ca-certificates
)
packages_check=(clang libclang-rt-dev clang-format clang-tidy)
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

# tree-sitter 0.23 and its Python grammar, from their sdists on the package index. The grammar's sdist lacks the three
# headers it includes; they are the core's. (Distributions' libtree-sitter is too old for this grammar's headers.)
core=.cache/tree-sitter-0.23.2
grammar=.cache/tree-sitter-python-0.23.6
if [ ! -f "$core/lib.c" ] || [ ! -f "$grammar/src/tree_sitter/parser.h" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cat >"$work/requirements.txt" <<'END'
tree-sitter==0.23.2 --hash=sha256:66bae8dd47f1fed7bdef816115146d3a41c39b5c482d7bad36d9ba1def088450
tree-sitter-python==0.23.6 --hash=sha256:354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9
END
    if ! python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
        -d "$work" -r "$work/requirements.txt" >"$work/log" 2>&1; then
        tail -n 5 "$work/log" >&2
        echo "setup: could not download tree-sitter from the package index: check the network or pip's settings" >&2
        exit 2
    fi
    mkdir -p .cache
    tar -xzf "$work"/tree-sitter-0.23.2.tar.gz -C "$work"
    tar -xzf "$work"/tree_sitter_python-0.23.6.tar.gz -C "$work"
    rm -rf "$core" "$grammar"
    mv "$work/tree-sitter-0.23.2/tree_sitter/core/lib/src" "$core"
    mv "$work/tree-sitter-0.23.2/tree_sitter/core/lib/include" "$core/include"
    mkdir "$work/tree_sitter_python-0.23.6/src/tree_sitter"
    cp "$core"/parser.h "$core"/alloc.h "$core"/array.h "$work/tree_sitter_python-0.23.6/src/tree_sitter/"
    mv "$work/tree_sitter_python-0.23.6" "$grammar"
fi
