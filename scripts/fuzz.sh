#!/usr/bin/env bash
# Build every fuzz target with clang, ASan and UBSan, and run each for some seconds from its seeds. fuzz_aclnn, the
# device's operators, has a build of its own with the portable kernels only.
#
# usage: scripts/fuzz.sh SECONDS [TARGET...]
#
# A failing input is left in build-fuzz/NAME.crash-* and named; status 1.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
cmake -G Ninja -S . -B build-fuzz -DCMAKE_C_COMPILER=clang -DWITH_SOFTNPU=OFF -DWITH_TESTS=OFF -DWITH_FUZZ=ON \
    -DSANITIZE=address,undefined >/dev/null
ninja -C build-fuzz --quiet
# Seeds that are binaries are made, not kept.
made=build-fuzz/seeds/elf
mkdir -p "$made"
link=(clang -O1 -shared -nostdlib -fno-asynchronous-unwind-tables -Wl,-soname,libseed.so.1 -Wl,-z,noseparate-code
    -Wl,-z,norelro -Wl,--build-id=none fuzz/library.c -lc)
"${link[@]}" -Wl,-s -o "$made/small.so"
"${link[@]}" -DPAD -o "$made/pad.so"

targets=("$@")
[ $# -gt 0 ] || for source in fuzz/fuzz_*.c; do targets+=("$(basename "$source" .c)"); done
if [[ " ${targets[*]} " = *" fuzz_aclnn "* ]]; then
    cmake -G Ninja -S . -B build-fuzz-device -DCMAKE_C_COMPILER=clang -DWITH_CONCORD=OFF -DWITH_TESTS=OFF -DWITH_FUZZ=ON \
        -DKERNEL_BASE_ONLY=ON -DCMAKE_BUILD_TYPE=Fuzz "-DCMAKE_C_FLAGS_FUZZ=-O1 -g1" -DSANITIZE=address,undefined >/dev/null
    ninja -C build-fuzz-device --quiet fuzz_aclnn
fi
status=0
for target in "${targets[@]}"; do
    corpus=build-fuzz/corpus/$target
    mkdir -p "$corpus"
    seeds=()
    for folder in fuzz/seeds/"${target#fuzz_}" build-fuzz/seeds/"${target#fuzz_}"; do
        [ ! -d "$folder" ] || seeds+=("$folder")
    done
    echo "$target: $seconds s"
    program=build-fuzz/fuzz/$target
    [ "$target" != fuzz_aclnn ] || program=build-fuzz-device/fuzz/$target
    log=build-fuzz/$target.log
    if ! "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/$target." "$corpus" "${seeds[@]}" >"$log" 2>&1; then
        tail -n 30 "$log"
        status=1
    fi
    grep -E 'number_of_executed_units|average_exec_per_sec' "$log" || true
done
exit "$status"
