/* variant.c - which compilation of the kernels this machine runs. */
#include "softnpu/kernel/tile.h"
#include "softnpu/kernel/variant.h"

#include <stdlib.h>
#include <string.h>

enum kernel_variant kernel_variant(void)
{
    static enum kernel_variant chosen;
    static int known;
    if (__atomic_load_n(&known, __ATOMIC_ACQUIRE)) return chosen;
    enum kernel_variant v = KERNEL_BASE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        v = KERNEL_AVX2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
            v = KERNEL_AVX512;
    }
    const char *lower = getenv("SOFTNPU_KERNEL");
    if (lower && !strcmp(lower, "base")) v = KERNEL_BASE;
    if (lower && !strcmp(lower, "avx2") && v == KERNEL_AVX512) v = KERNEL_AVX2;
#endif
    chosen = v;
    __atomic_store_n(&known, 1, __ATOMIC_RELEASE);
    return v;
}

bool tile_has_bf16(void)
{
#if defined(__x86_64__)
    return tile_kernels()->bf16 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}
