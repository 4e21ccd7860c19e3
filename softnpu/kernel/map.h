/* map.h - separable index maps: the one mechanism behind gather, scatter, pad, flip, roll, repeat and slice.
 *
 * One side (the "dense" side) has a block of `run` elements at each place (i0, i1, ...) of dim[0..rank), at
 * element i0*stride[0] + i1*stride[1] + ... . The other side (the "mapped" side) holds that block at element
 * map[0][i0] + map[1][i1] + ...; an entry MAP_NONE means "no such element": a gather writes the fill value
 * there, a scatter leaves the element out.
 */
#ifndef SOFTNPU_KERNEL_MAP_H
#define SOFTNPU_KERNEL_MAP_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stdint.h>

#define MAP_NONE INT64_MIN
enum { MAP_DIMS = 20 };

struct map_job {
    int rank;
    int64_t dim[MAP_DIMS], stride[MAP_DIMS];
    const int64_t *map[MAP_DIMS];
    int64_t run;  /* elements in a block */
    int64_t size; /* bytes an element */
    void *dense;
    void *mapped;
    char fill[16]; /* one element, for gathers */
};

/* How a scatter joins an element of the dense side to the mapped one. */
enum map_op { MAP_SET, MAP_ADD, MAP_MUL, MAP_MIN, MAP_MAX, MAP_OPS };
/* Element types that arithmetic knows, and the type sums and products are formed in (unsigned for integers:
 * they wrap around). 16-bit floats are computed in f32. */
/* clang-format off */
#define MAP_ORDERED_TYPES(X)                                                                                 \
    X(u8, uint8_t, uint32_t) X(i8, int8_t, uint32_t) X(u16, uint16_t, uint32_t) X(i16, int16_t, uint32_t)    \
    X(u32, uint32_t, uint32_t) X(i32, int32_t, uint32_t) X(u64, uint64_t, uint64_t) X(i64, int64_t, uint64_t) \
    X(f32, float, float) X(f64, double, double)
/* clang-format on */
#define MAP_TYPES(X)                                                                                         \
    MAP_ORDERED_TYPES(X)                                                                                     \
    X(boolean, _Bool, uint32_t)                                                                              \
    X(c64, float _Complex, float _Complex) X(c128, double _Complex, double _Complex)
/* The smaller (relation <) or larger (>) of a and b; NaN if either is, as in torch. */
#define MAP_PICK(type, a, relation, b)                                                                       \
    ((a)relation(b) ? (a) : (b)relation(a) || (a) == (b) ? (b) : (type)((a) + (b)))
#define MAP_ENUM(name, type, wide) MAP_TYPE_##name,
enum map_type { MAP_TYPES(MAP_ENUM) MAP_NTYPES };

struct map_kernels {
    /* dense = mapped, and mapped = dense in row-major order of places. A row is a place in all dimensions but
     * the last. */
    void (*gather)(const struct map_job *job, int64_t row_begin, int64_t row_end);
    void (*scatter)(const struct map_job *job, int64_t row_begin, int64_t row_end);
    /* mapped = mapped op dense, in the same order. */
    void (*join)(const struct map_job *job, enum map_op op, enum map_type type);
    /* True if there is such an operation for the type (complex numbers have no order). */
    bool (*joins)(enum map_op op, enum map_type type);
};
KERNEL_PICK(map_kernels)

#endif
