/* map.c - loops over separable index maps. */
#include "softnpu/kernel/map.h"

#include <string.h>

/* ---- moving blocks ----------------------------------------------------------------------------------- */

/* Where a row starts on both sides, in elements; mapped is MAP_NONE if any of its indices has no element. */
struct row {
    int64_t dense, mapped;
};
static struct row row_at(const struct map_job *job, int64_t row)
{
    struct row at = {0, 0};
    for (int d = job->rank - 2; d >= 0; d--) {
        int64_t next = row / job->dim[d], i = row - next * job->dim[d], off = job->map[d][i];
        at.dense += i * job->stride[d];
        at.mapped = off == MAP_NONE || at.mapped == MAP_NONE ? MAP_NONE : at.mapped + off;
        row = next;
    }
    return at;
}
static int64_t row_count(const struct map_job *job)
{
    int64_t n = 1;
    for (int d = 0; d < job->rank - 1; d++) n *= job->dim[d];
    return n;
}

static void fill_elements(char *dst, const char *value, int64_t size, int64_t n)
{
    switch (size) {
    case 1:
        memset(dst, value[0], (size_t)n);
        return;
#define FILL(bytes)                                                                                          \
    case bytes:                                                                                              \
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * bytes, value, bytes);                               \
        return;
        FILL(2) FILL(4) FILL(8) FILL(16)
    }
}

/* One row of a gather or scatter with blocks of a known or any size. `bytes` is a constant in the known
 * cases, so that memcpy becomes a move. */
#define ROW_GATHER(name, bytes)                                                                              \
    static void name(const struct map_job *job, char *dense, int64_t base, int64_t block)                    \
    {                                                                                                        \
        const int64_t *map = job->map[job->rank - 1];                                                        \
        const char *from = (const char *)job->mapped + base * job->size;                                     \
        int64_t step = job->stride[job->rank - 1] * job->size;                                               \
        (void)block;                                                                                         \
        for (int64_t i = 0; i < job->dim[job->rank - 1]; i++) {                                              \
            if (map[i] == MAP_NONE)                                                                          \
                fill_elements(dense + i * step, job->fill, job->size, job->run);                             \
            else                                                                                             \
                memcpy(dense + i * step, from + map[i] * job->size, (size_t)(bytes));                        \
        }                                                                                                    \
    }
#define ROW_SCATTER(name, bytes)                                                                             \
    static void name(const struct map_job *job, char *dense, int64_t base, int64_t block)                    \
    {                                                                                                        \
        const int64_t *map = job->map[job->rank - 1];                                                        \
        char *to = (char *)job->mapped + base * job->size;                                                   \
        int64_t step = job->stride[job->rank - 1] * job->size;                                               \
        (void)block;                                                                                         \
        for (int64_t i = 0; i < job->dim[job->rank - 1]; i++)                                                \
            if (map[i] != MAP_NONE) memcpy(to + map[i] * job->size, dense + i * step, (size_t)(bytes));      \
    }
#define ROW_PAIR(suffix, bytes) ROW_GATHER(gather_##suffix, bytes) ROW_SCATTER(scatter_##suffix, bytes)
ROW_PAIR(1, 1)
ROW_PAIR(2, 2)
ROW_PAIR(4, 4)
ROW_PAIR(8, 8)
ROW_PAIR(16, 16)
ROW_PAIR(any, block)

typedef void (*row_fn)(const struct map_job *job, char *dense, int64_t base, int64_t block);
#define ROW_CHOOSE(kind, block)                                                                              \
    (block) == 1    ? kind##_1                                                                               \
    : (block) == 2  ? kind##_2                                                                               \
    : (block) == 4  ? kind##_4                                                                               \
    : (block) == 8  ? kind##_8                                                                               \
    : (block) == 16 ? kind##_16                                                                              \
                    : kind##_any

static void fill_row(const struct map_job *job, char *dense)
{
    int64_t step = job->stride[job->rank - 1] * job->size;
    for (int64_t i = 0; i < job->dim[job->rank - 1]; i++)
        fill_elements(dense + i * step, job->fill, job->size, job->run);
}

static void gather(const struct map_job *job, int64_t row_begin, int64_t row_end)
{
    int64_t block = job->run * job->size;
    row_fn one = ROW_CHOOSE(gather, block);
    for (int64_t r = row_begin; r < row_end; r++) {
        struct row at = row_at(job, r);
        char *dense = (char *)job->dense + at.dense * job->size;
        if (at.mapped == MAP_NONE)
            fill_row(job, dense);
        else
            one(job, dense, at.mapped, block);
    }
}

static void scatter(const struct map_job *job, int64_t row_begin, int64_t row_end)
{
    int64_t block = job->run * job->size;
    row_fn one = ROW_CHOOSE(scatter, block);
    for (int64_t r = row_begin; r < row_end; r++) {
        struct row at = row_at(job, r);
        if (at.mapped != MAP_NONE) one(job, (char *)job->dense + at.dense * job->size, at.mapped, block);
    }
}

/* ---- joining blocks ---------------------------------------------------------------------------------- */

#define BLOCK(op, name, type, wide, expression)                                                              \
    static void op##_##name(void *dst, const void *src, int64_t n)                                           \
    {                                                                                                        \
        type *restrict to = dst;                                                                             \
        const type *restrict from = src;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            wide a = (wide)to[i], b = (wide)from[i];                                                         \
            wide joined = expression;                                                                        \
            to[i] = (type)joined;                                                                            \
        }                                                                                                    \
    }
#define BLOCK_ARITHMETIC(name, type, wide)                                                                   \
    BLOCK(add, name, type, wide, a + b) BLOCK(mul, name, type, wide, a *b)
#define BLOCK_ORDER(name, type, wide)                                                                        \
    BLOCK(min, name, type, type, MAP_PICK(type, a, <, b))                                                    \
    BLOCK(max, name, type, type, MAP_PICK(type, a, >, b))
MAP_TYPES(BLOCK_ARITHMETIC)
MAP_ORDERED_TYPES(BLOCK_ORDER)

typedef void (*block_fn)(void *dst, const void *src, int64_t n);
#define ENTRY_ADD(name, type, wide) [MAP_TYPE_##name] = add_##name,
#define ENTRY_MUL(name, type, wide) [MAP_TYPE_##name] = mul_##name,
#define ENTRY_MIN(name, type, wide) [MAP_TYPE_##name] = min_##name,
#define ENTRY_MAX(name, type, wide) [MAP_TYPE_##name] = max_##name,
static const block_fn blocks[MAP_OPS][MAP_NTYPES] = {
    [MAP_ADD] = {MAP_TYPES(ENTRY_ADD)},
    [MAP_MUL] = {MAP_TYPES(ENTRY_MUL)},
    [MAP_MIN] = {MAP_ORDERED_TYPES(ENTRY_MIN)[MAP_TYPE_boolean] = min_u8},
    [MAP_MAX] = {MAP_ORDERED_TYPES(ENTRY_MAX)[MAP_TYPE_boolean] = max_u8},
};

static bool joins(enum map_op op, enum map_type type)
{
    return op == MAP_SET || blocks[op][type];
}

static void join(const struct map_job *job, enum map_op op, enum map_type type)
{
    int last = job->rank - 1;
    block_fn one = blocks[op][type];
    for (int64_t r = 0, rows = row_count(job); r < rows; r++) {
        struct row at = row_at(job, r);
        if (at.mapped == MAP_NONE) continue;
        const char *from = (const char *)job->dense + at.dense * job->size;
        for (int64_t i = 0; i < job->dim[last]; i++) {
            int64_t off = job->map[last][i];
            if (off == MAP_NONE) continue;
            one((char *)job->mapped + (at.mapped + off) * job->size, from + i * job->stride[last] * job->size,
                job->run);
        }
    }
}

const struct map_kernels KV(map_kernels) = {
    .gather = gather, .scatter = scatter, .join = join, .joins = joins};
