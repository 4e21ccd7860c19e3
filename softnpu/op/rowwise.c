/* rowwise.c - rows of any layout as contiguous elements. */
#include "softnpu/op/rowwise.h"
#include "softnpu/kernel/column_kernels.h"

#include <stdlib.h>

enum { ROW_TASK = 1 << 14 }; /* elements worth a task of the pool */

/* How one operand's rows become contiguous elements of the type that fn wants. */
enum row_mode {
    ROW_NEAR,  /* they lie so in memory; converted row by row if the type differs */
    ROW_TILED, /* they are strided: some rows at a time are gathered into a tile (outputs: scattered from it)
                */
    ROW_WHOLE  /* all rows are copied before, or stored after */
};
struct row_view {
    const aclTensor *t;
    aclTensor turned; /* row dimensions last */
    aclDataType as;
    int64_t n, step; /* elements in a row, and from one to the next in memory */
    int32_t outer;   /* dimensions before the row */
    enum row_mode mode;
    char *base;
    size_t size, as_size;
};

enum { TILE_ROWS = 16, TILE_LONGEST = 1 << 15 };

struct row_job {
    struct row_view v[ROW_OPERANDS];
    int nout, nall;
    size_t convert[ROW_OPERANDS], tile[ROW_OPERANDS], buffer; /* offsets in a task's memory, its size */
    int64_t block;                                            /* rows that are gathered together */
    row_fn fn;
    const void *ctx;
    size_t scratch_at;
    int failed; /* a task got no memory */
};

int64_t row_count(const aclTensor *t, int32_t first, int32_t count)
{
    int64_t n = 1;
    for (int32_t d = 0; d < t->rank; d++)
        if (d < first || d >= first + count) n *= t->dim[d];
    return n;
}

/* Dimensions [first, first + count) moved to the end. */
static void turn(const aclTensor *t, int32_t first, int32_t count, aclTensor *out)
{
    *out = *t;
    int32_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t d = 0; d < t->rank; d++) {
            bool in_row = d >= first && d < first + count;
            if (in_row != pass) continue;
            out->dim[n] = t->dim[d];
            out->stride[n++] = t->stride[d];
        }
    }
}

/* Elements between neighbours of a row; 0 if the row's dimensions do not lie behind each other, or all on one
 * element. */
static int64_t row_step(const aclTensor *t, int32_t outer)
{
    int64_t step = 1, expected = 0;
    bool known = false;
    for (int32_t d = t->rank - 1; d >= outer; d--) {
        if (t->dim[d] == 1) continue;
        if (!known) step = expected = t->stride[d];
        known = true;
        if (t->stride[d] != expected) return 0;
        expected *= t->dim[d];
    }
    return step;
}

static void view_init(struct row_view *v, const struct row_operand *o, const struct row_space *s)
{
    *v = (struct row_view){.t = o->t, .as = o->as};
    if (!o->t) return;
    int32_t count = o->t->rank ? s->count : 0; /* a scalar is a row of one */
    turn(o->t, s->first, count, &v->turned);
    v->outer = o->t->rank - count;
    v->n = 1;
    for (int32_t d = v->outer; d < o->t->rank; d++) v->n *= v->turned.dim[d];
    v->size = sn_size(o->t->dtype);
    v->as_size = sn_size(o->as);
    v->step = row_step(&v->turned, v->outer);
    bool few = v->n == 1 && v->as != o->t->dtype; /* converting one element at a time would be slow */
    if (v->step == 1 && !few)
        v->mode = ROW_NEAR;
    else
        v->mode = v->step > 1 && v->n <= TILE_LONGEST ? ROW_TILED : ROW_WHOLE;
}

static char *row_at(const struct row_view *v, int64_t row)
{
    if (v->mode == ROW_WHOLE) return v->base + row * v->n * (int64_t)v->as_size;
    int64_t at = 0;
    for (int32_t d = v->outer - 1; d >= 0; d--) {
        at += row % v->turned.dim[d] * v->turned.stride[d];
        row /= v->turned.dim[d];
    }
    return v->base + at * (int64_t)v->size;
}

static bool converts(const struct row_view *v)
{
    return v->t && v->mode != ROW_WHOLE && v->as != v->t->dtype;
}

/* ---- tiles ------------------------------------------------------------------------------------------- */

/* Rows that are neighbours in memory are copied across, so that each cache line is used once. */
#define TILE_COPY(T, to, from)                                                                               \
    for (int64_t k = 0; k < v->n; k++)                                                                       \
        for (int64_t r = 0; r < rows; r++) {                                                                 \
            T *far_away = (T *)(far[r] + k * v->step * (int64_t)v->size),                                    \
              *near_by = (T *)tile + r * v->n + k;                                                           \
            *to = *from;                                                                                     \
        }                                                                                                    \
    break
struct bytes16 {
    uint64_t v[2];
};

static void gather_tile(const struct row_view *v, char *const *far, int64_t rows, void *tile)
{
    switch (v->size) {
    case 1:
        TILE_COPY(uint8_t, near_by, far_away);
    case 2:
        TILE_COPY(uint16_t, near_by, far_away);
    case 4:
        TILE_COPY(uint32_t, near_by, far_away);
    case 8:
        TILE_COPY(uint64_t, near_by, far_away);
    default:
        TILE_COPY(struct bytes16, near_by, far_away);
    }
}

static void scatter_tile(const struct row_view *v, char *const *far, int64_t rows, void *tile)
{
    switch (v->size) {
    case 1:
        TILE_COPY(uint8_t, far_away, near_by);
    case 2:
        TILE_COPY(uint16_t, far_away, near_by);
    case 4:
        TILE_COPY(uint32_t, far_away, near_by);
    case 8:
        TILE_COPY(uint64_t, far_away, near_by);
    default:
        TILE_COPY(struct bytes16, far_away, near_by);
    }
}

/* ---- one task ---------------------------------------------------------------------------------------- */

struct row_task {
    const struct row_job *j;
    char *memory;
    char *at[ROW_OPERANDS][TILE_ROWS]; /* the block's rows in memory */
};

static char *stored_row(const struct row_task *t, int i, int64_t r)
{
    const struct row_view *v = &t->j->v[i];
    return v->mode == ROW_TILED ? t->memory + t->j->tile[i] + r * v->n * (int64_t)v->size : t->at[i][r];
}

static void run_row(const struct row_task *t, struct row_call *call, int64_t r)
{
    const struct row_job *j = t->j;
    for (int i = 0; i < j->nall; i++) {
        const struct row_view *v = &j->v[i];
        if (!v->t) continue;
        call->n[i] = v->n;
        call->p[i] = stored_row(t, i, r);
        if (!converts(v)) continue;
        void *buffer = t->memory + j->convert[i];
        if (i >= j->nout) sn_convert(buffer, v->as, call->p[i], v->t->dtype, v->n);
        call->p[i] = buffer;
    }
    j->fn(call);
    for (int i = 0; i < j->nout; i++) {
        const struct row_view *v = &j->v[i];
        if (converts(v)) sn_convert(stored_row(t, i, r), v->t->dtype, call->p[i], v->as, v->n);
    }
}

static void run_block(struct row_task *t, struct row_call *call, int64_t first, int64_t rows)
{
    const struct row_job *j = t->j;
    for (int i = 0; i < j->nall; i++) {
        const struct row_view *v = &j->v[i];
        if (!v->t) continue;
        for (int64_t r = 0; r < rows; r++) t->at[i][r] = row_at(v, first + r);
        if (i >= j->nout && v->mode == ROW_TILED) gather_tile(v, t->at[i], rows, t->memory + j->tile[i]);
    }
    for (int64_t r = 0; r < rows; r++) {
        call->row = first + r;
        run_row(t, call, r);
    }
    for (int i = 0; i < j->nout; i++)
        if (j->v[i].t && j->v[i].mode == ROW_TILED)
            scatter_tile(&j->v[i], t->at[i], rows, t->memory + j->tile[i]);
}

static void run_rows(void *ctx, int64_t begin, int64_t end)
{
    struct row_job *j = ctx;
    char local[8192] __attribute__((aligned(64)));
    char *memory = j->buffer <= sizeof local ? local : aligned_alloc(64, j->buffer);
    if (!memory) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    struct row_task task = {.j = j, .memory = memory};
    struct row_call call = {.ctx = j->ctx, .scratch = memory + j->scratch_at};
    for (int64_t row = begin; row < end; row += j->block)
        run_block(&task, &call, row, end - row < j->block ? end - row : j->block);
    if (memory != local) free(memory);
}

/* Output i shares memory with an input in a way that row by row work would not survive. */
static bool output_clashes(const struct row_job *j, const struct row_space *s, int i)
{
    const aclTensor *out = j->v[i].t;
    for (int k = j->nout; k < j->nall; k++) {
        const aclTensor *in = j->v[k].t;
        if (in && sn_overlap(out, in) && (s->apart || !sn_same_view(out, in))) return true;
    }
    for (int k = 0; k < i; k++)
        if (j->v[k].t && sn_overlap(out, j->v[k].t)) return true;
    return false;
}

static void place(op_call *c, struct row_job *j, const struct row_space *s, int i)
{
    struct row_view *v = &j->v[i];
    if (!v->t) return;
    if (i < j->nout && (v->mode == ROW_WHOLE || output_clashes(j, s, i))) {
        v->mode = ROW_WHOLE;
        v->base = op_out_scratch(c, &v->turned, v->as);
    } else if (v->mode == ROW_WHOLE) {
        v->base = op_in(c, &v->turned, v->as);
    } else {
        v->base = sn_data(v->t);
    }
}

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* Places in a task's memory: conversion buffers for one row, tiles for a block of rows, fn's scratch. */
static void lay_out(struct row_job *j, size_t scratch)
{
    bool tiles = false;
    for (int i = 0; i < j->nall; i++) tiles |= j->v[i].t && j->v[i].mode == ROW_TILED;
    j->block = tiles ? TILE_ROWS : 1;
    for (int i = 0; i < j->nall; i++) {
        const struct row_view *v = &j->v[i];
        j->convert[i] = j->buffer;
        if (converts(v)) j->buffer += align64((size_t)v->n * v->as_size);
        j->tile[i] = j->buffer;
        if (v->t && v->mode == ROW_TILED) j->buffer += align64((size_t)(v->n * j->block) * v->size);
    }
    j->scratch_at = j->buffer;
    j->buffer += align64(scratch);
}

int row_run(op_call *c, const struct row_space *space, const struct row_operand *operand, int nout, int nin,
            row_fn fn, const void *ctx)
{
    struct row_job j = {.nout = nout, .nall = nout + nin, .fn = fn, .ctx = ctx};
    int64_t rows = 0, longest = 1;
    for (int i = j.nall - 1; i >= 0; i--) {
        view_init(&j.v[i], &operand[i], space);
        if (!j.v[i].t) continue;
        rows = row_count(j.v[i].t, space->first, j.v[i].t->rank ? space->count : 0);
        if (j.v[i].n > longest) longest = j.v[i].n;
    }
    if (!rows) return 0;
    for (int i = j.nall - 1; i >= 0; i--) place(c, &j, space, i);
    lay_out(&j, space->scratch);
    int64_t grain = (ROW_TASK + longest - 1) / longest;
    rt_pool_run(rows, (grain + j.block - 1) / j.block * j.block, run_rows, &j);
    if (j.failed)
        return op_fail(c, ACL_ERROR_BAD_ALLOC, "no memory for rows of %lld elements", (long long)longest);
    for (int i = 0; i < nout; i++)
        if (j.v[i].t && j.v[i].mode == ROW_WHOLE) op_out_done(c, &j.v[i].turned, j.v[i].as, j.v[i].base);
    return 0;
}

/* ---- columns ----------------------------------------------------------------------------------------- */

struct column_job {
    struct column_call whole; /* from the first row on; m is all of the inner elements */
    int64_t blocks;
    int operands;
    column_fn fn;
    const void *ctx;
};

static int64_t inner_elements(const aclTensor *t, int32_t dim)
{
    int64_t n = 1;
    for (int32_t d = dim + 1; d < t->rank; d++) n *= t->dim[d];
    return n;
}

bool column_suits(const aclTensor *t, int32_t dim)
{
    return t->rank > 0 && inner_elements(t, dim) >= 8;
}

static void run_columns(void *ctx, int64_t begin, int64_t end)
{
    const struct column_job *j = ctx;
    int64_t inner = j->whole.m;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % j->blocks * COLUMN_BLOCK, at = i / j->blocks * j->whole.n * inner + first;
        struct column_call call = {.n = j->whole.n, .step = inner};
        call.m = inner - first < COLUMN_BLOCK ? inner - first : COLUMN_BLOCK;
        for (int k = 0; k < j->operands; k++) call.p[k] = j->whole.p[k] + at;
        j->fn(&call, j->ctx);
    }
}

bool column_run(op_call *c, int32_t dim, const aclTensor *const *operand, int nin, column_fn fn,
                const void *ctx)
{
    const aclTensor *out = operand[0];
    for (int i = 1; i <= nin; i++)
        if (sn_overlap(out, operand[i]) && !sn_same_view(out, operand[i])) return false;
    struct column_job j = {.operands = nin + 1, .fn = fn, .ctx = ctx};
    int64_t inner = inner_elements(out, dim), total = sn_numel(out);
    if (total == 0) return true;
    for (int i = 1; i <= nin; i++) j.whole.p[i] = op_in(c, operand[i], ACL_FLOAT);
    j.whole.p[0] = op_out(c, out, ACL_FLOAT);
    j.whole.n = out->dim[dim], j.whole.m = inner;
    j.blocks = (inner + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
    int64_t grain = ROW_TASK / (COLUMN_BLOCK * j.whole.n) + 1;
    rt_pool_run(total / j.whole.n / inner * j.blocks, grain, run_columns, &j);
    op_out_done(c, out, ACL_FLOAT, j.whole.p[0]);
    return true;
}
