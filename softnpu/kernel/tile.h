/* tile.h - products of a few rows with a packed panel of columns: the inner loops of bfloat16 matrix products
 * and of convolutions.
 *
 * A panel holds k rows of `columns` elements each. For BF16 an element is a pair, of rows 2p and 2p + 1, the
 * first in the low half, because that is what a CPU's bf16 dot product reads. */
#ifndef SOFTNPU_KERNEL_TILE_H
#define SOFTNPU_KERNEL_TILE_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tile_type { TILE_F32, TILE_BF16, TILE_TYPES };

/* c[i*crs + j*ccs] = alpha sum_p a[i*ars + p] panel[p][j] + beta c[...], i < m, j < n <= columns; sums and
 * both factors are floats. beta 0 never reads c. */
struct tile {
    int64_t m, n, k;
    const void *a, *panel;
    const int64_t *at; /* run_at: row p of the panel lies at panel + at[p], in floats or pairs */
    void *c;
    int64_t ars, crs, ccs;
    float alpha, beta;
};

struct tile_kernels {
    int64_t columns;
    bool bf16; /* the variant has TILE_BF16; the CPU must have AVX512_BF16 besides */
    /* BF16, NULL without: a panel from b[p*rs + j*cs], p < k, j < n; columns past n are zero. c is BF16. */
    void (*pack)(const void *b, int64_t rs, int64_t cs, int64_t k, int64_t n, void *panel);
    void (*run)(const struct tile *t);
    /* Rows of the panel lie where t->at says and are read up to a whole vector past n. c is FLOAT. For BF16 k
     * counts pairs. */
    void (*run_at[TILE_TYPES])(const struct tile *t);
};
KERNEL_PICK(tile_kernels)

/* True when products of bfloat16 need no widening on this machine. */
bool tile_has_bf16(void);
static inline size_t tile_panel_bytes(int64_t k)
{
    return (size_t)((k + 1) / 2 * 2 * tile_kernels()->columns) * sizeof(float);
}

#endif
