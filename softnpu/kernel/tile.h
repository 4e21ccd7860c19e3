/* tile.h - products of a few rows with a packed panel of columns: the inner loops of bfloat16 matrix products
 * and of convolutions.
 *
 * A panel holds k rows of `columns` elements each. For FLOAT a row is `columns` floats; for BF16 two rows lie
 * together as (k + 1) / 2 rows of `columns` pairs, the first of a pair in the low half, because that is what
 * a CPU's bf16 dot product reads. Columns past n are zero. */
#ifndef SOFTNPU_KERNEL_TILE_H
#define SOFTNPU_KERNEL_TILE_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tile_type { TILE_F32, TILE_BF16, TILE_TYPES };

/* c[i*crs + j*ccs] = alpha sum_p a[i*ars + p] panel[p][j] + beta c[...], i < m, j < n <= columns; the sum and
 * both factors are floats, c has the operands' type. beta 0 never reads c. */
struct tile {
    int64_t m, n, k;
    const void *a, *panel;
    void *c;
    int64_t ars, crs, ccs;
    float alpha, beta;
};

struct tile_kernels {
    int64_t columns;
    bool bf16; /* the variant has TILE_BF16; the CPU must have AVX512_BF16 besides */
    /* panel from b[p*rs + j*cs], p < k, j < n */
    void (*pack[TILE_TYPES])(const void *b, int64_t rs, int64_t cs, int64_t k, int64_t n, void *panel);
    /* BF16 panel from k rows of `columns` elements that lie one after the other; in place, or apart */
    void (*pair)(int64_t k, const void *rows, void *panel);
    void (*run[TILE_TYPES])(const struct tile *t);
};
KERNEL_PICK(tile_kernels)

/* True when products of bfloat16 need no widening on this machine. */
bool tile_has_bf16(void);
static inline size_t tile_panel_bytes(int64_t k)
{
    return (size_t)((k + 1) / 2 * 2 * tile_kernels()->columns) * sizeof(float);
}

#endif
