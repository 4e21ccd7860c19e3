/* rowwise.h - operators that work on one row at a time: softmax, layer norm, sort, cumulative sums.
 *
 * A row is what lies along some neighbouring dimensions of a tensor. The engine hands rows to a function as
 * contiguous elements of the type it asks for, whatever the tensors' layouts, types and overlaps, and spreads
 * them over the pool.
 */
#ifndef SOFTNPU_OP_ROWWISE_H
#define SOFTNPU_OP_ROWWISE_H

#include "softnpu/op/op.h"

enum { ROW_OPERANDS = 6 };

struct row_operand {
    const aclTensor *t; /* NULL: its place in p is NULL */
    aclDataType as;
};

struct row_space {
    int32_t first,
        count;      /* a row lies along dimensions [first, first + count); count 0: rows of one element */
    bool apart;     /* fn reads an input after it wrote an output: they must not share memory */
    size_t scratch; /* bytes of scratch each call of fn gets (64-byte aligned, uninitialised) */
};

/* Row number `row` of `rows`. p: the outputs' rows, then the inputs'; n[i] elements of operand i. */
struct row_call {
    int64_t row;
    int64_t n[ROW_OPERANDS];
    void *p[ROW_OPERANDS];
    void *scratch;
    const void *ctx;
};
typedef void (*row_fn)(const struct row_call *call);

/* All operands have the same dimensions outside the row. Returns 0 or an error code. */
int row_run(op_call *c, const struct row_space *space, const struct row_operand *operand, int nout, int nin,
            row_fn fn, const void *ctx);
/* Rows in t: the product of the dimensions outside [first, first + count). */
int64_t row_count(const aclTensor *t, int32_t first, int32_t count);

/* Rows that lie across memory, many side by side (kernel/column_kernels.h): fn gets the operands' memory as
 * floats, the output's first, at the first of m neighbouring rows; elements of a row are `step` apart. */
struct column_call {
    float *p[ROW_OPERANDS];
    int64_t n, step, m;
};
typedef void (*column_fn)(const struct column_call *call, const void *ctx);
/* True when rows along dim of tensors of t's shape are better done so. */
bool column_suits(const aclTensor *t, int32_t dim);
/* One output and nin inputs of the same shape, all worked on as FLOAT. Returns false, with nothing done, when
 * the output shares memory with an input that is not the same view. */
bool column_run(op_call *c, int32_t dim, const aclTensor *const *operand, int nin, column_fn fn,
                const void *ctx);

#endif
