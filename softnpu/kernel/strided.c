/* strided.c - moving elements between strided and contiguous memory, by element size. */
#include "softnpu/kernel/strided.h"

#include <string.h>

typedef struct {
    uint64_t part[2];
} u128;

#define SIZES(X) X(0, uint8_t) X(1, uint16_t) X(2, uint32_t) X(3, uint64_t) X(4, u128)

#define LOOPS(i, type)                                                                                       \
    static void gather_##i(void *restrict dst, const void *restrict src, int64_t stride, int64_t n)          \
    {                                                                                                        \
        type *restrict d = dst;                                                                              \
        const type *restrict s = src;                                                                        \
        if (stride == 1)                                                                                     \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) d[k] = s[k * stride];                                            \
    }                                                                                                        \
    static void scatter_##i(void *restrict dst, int64_t stride, const void *restrict src, int64_t n)         \
    {                                                                                                        \
        type *restrict d = dst;                                                                              \
        const type *restrict s = src;                                                                        \
        if (stride == 1)                                                                                     \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) d[k * stride] = s[k];                                            \
    }                                                                                                        \
    static void fill_##i(void *restrict dst, const void *restrict value, int64_t n)                          \
    {                                                                                                        \
        type *restrict d = dst, v;                                                                           \
        memcpy(&v, value, sizeof v);                                                                         \
        for (int64_t k = 0; k < n; k++) d[k] = v;                                                            \
    }
SIZES(LOOPS)

/* Tiles small enough that rows a power of two apart do not push each other out of the first cache. */
enum { TILE_ROWS = 16, TILE_COLUMNS = 8 };
static inline int64_t at_most(int64_t n, int64_t limit)
{
    return n < limit ? n : limit;
}

#define TRANSPOSE(k, type)                                                                                   \
    static void transpose_##k(void *restrict dst, int64_t dst_step, const void *restrict src,                \
                              int64_t src_step, int64_t rows, int64_t columns)                               \
    {                                                                                                        \
        type tile[TILE_COLUMNS][TILE_ROWS];                                                                  \
        for (int64_t r = 0; r < rows; r += TILE_ROWS)                                                        \
            for (int64_t c = 0; c < columns; c += TILE_COLUMNS) {                                            \
                int64_t nr = at_most(rows - r, TILE_ROWS), nc = at_most(columns - c, TILE_COLUMNS);          \
                const type *s = (const type *)src + r + c * src_step;                                        \
                type *d = (type *)dst + r * dst_step + c;                                                    \
                for (int64_t j = 0; j < nc; j++) memcpy(tile[j], s + j * src_step, (size_t)nr * sizeof *s);  \
                for (int64_t i = 0; i < nr; i++)                                                             \
                    for (int64_t j = 0; j < nc; j++) d[i * dst_step + j] = tile[j][i];                       \
            }                                                                                                \
    }
SIZES(TRANSPOSE)

#define GATHER(i, type) gather_##i,
#define SCATTER(i, type) scatter_##i,
#define FILL(i, type) fill_##i,
#define TRANSPOSED(i, type) transpose_##i,

const struct strided_kernels KV(strided_kernels) = {
    .gather = {SIZES(GATHER)},
    .scatter = {SIZES(SCATTER)},
    .fill = {SIZES(FILL)},
    .transpose = {SIZES(TRANSPOSED)},
};
