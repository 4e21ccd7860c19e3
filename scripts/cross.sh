#!/usr/bin/env bash
# Cross build for aarch64 and its unit tests under qemu-user.
#
# The libraries are this distribution's arm64 packages, unpacked into .cache/sysroot-aarch64 by an apt that has its own
# state there: neither root nor a foreign architecture on this machine is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
sysroot=$PWD/.cache/sysroot-aarch64
packages=(libc6-dev libgit2-dev libsqlite3-dev libyaml-dev libjansson-dev libmd4c-dev libcurl4-openssl-dev
    libelf-dev libssl-dev libarchive-dev zlib1g-dev libopenblas-serial-dev libcmocka-dev libsleef3 libgcc-s1 python3-dev)

# The mark holds the list: a longer list makes the sysroot again.
if [ "$(cat "$sysroot/.complete" 2>/dev/null)" != "${packages[*]}" ]; then
    echo "cross: unpacking arm64 libraries into .cache/sysroot-aarch64"
    rm -rf "$sysroot"
    mkdir -p "$sysroot" .cache/apt-aarch64/{lists/partial,archives/partial}
    : >.cache/apt-aarch64/status
    options=(-q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$PWD/.cache/apt-aarch64"
        -o Dir::State::status="$PWD/.cache/apt-aarch64/status" -o Dir::State::lists="$PWD/.cache/apt-aarch64/lists"
        -o Dir::Cache="$PWD/.cache/apt-aarch64" -o APT::Sandbox::User= -o Debug::NoLocking=true)
    log=$(mktemp)
    if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --no-install-recommends --download-only \
        "${packages[@]}"; } >"$log" 2>&1; then
        tail -n 10 "$log" >&2
        echo "cross: the arm64 packages could not be downloaded: the lines above say why" >&2
        exit 2
    fi
    for deb in .cache/apt-aarch64/archives/*.deb; do dpkg-deb -x "$deb" "$sysroot"; done
    # Absolute links would leave the sysroot.
    find "$sysroot" -type l -lname '/*' | while read -r link; do
        ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$sysroot$(readlink "$link")")" "$link"
    done
    rm -rf .cache/apt-aarch64
    echo "${packages[*]}" >"$sysroot/.complete"
fi

build=build-aarch64
[ -f $build/build.ninja ] || cmake -G Ninja -S . -B $build -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake >$build.log 2>&1 ||
    { cat $build.log >&2; exit 2; }
ninja -C $build --quiet
# qemu-user keeps a record of every reserved page: reserve few.
cd $build && SOFTNPU_ADDRESS_GIB=128 QEMU_LD_PREFIX=$sysroot ctest --output-on-failure -j "$(nproc)"
