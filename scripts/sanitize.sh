#!/usr/bin/env bash
# Unit tests under ASan+UBSan (everything, with leak checks) and TSan (what has threads or processes: the device, and of
# concord base, the runner and the scan).
#
# Not run here: softnpu_tools, which loads the device into a Python that is not built with the sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
for kind in address,undefined thread; do
    build=build-${kind%%,*}
    [ -f "$build/build.ninja" ] || cmake -G Ninja -S . -B "$build" -DSANITIZE="$kind" >/dev/null
    ninja -C "$build" --quiet
    filter=()
    [ "$kind" = thread ] && filter=(-R 'softnpu|concord_(base|journal|plan|probe|scan|verdict)')
    (cd "$build" && ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
        ctest --output-on-failure -j "$(nproc)" "${filter[@]}")
done
