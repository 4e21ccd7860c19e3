/* rowwise.c - rows of any layout as contiguous elements. */
#include "softnpu/op/rowwise.h"

#include <stdlib.h>

enum { ROW_TASK = 1 << 14 }; /* elements worth a task of the pool */

/* One operand's rows. direct: base + row offset is the row itself. near: contiguous in memory, converted row
 * by row. Otherwise whole: all rows lie one after the other in a copy that is made before, or stored after.
 */
struct row_view {
    const aclTensor *t;
    aclTensor turned; /* row dimensions last */
    aclDataType as;
    int64_t n;     /* elements in a row */
    int32_t outer; /* dimensions before the row */
    bool near, whole;
    char *base;
    size_t size, as_size;
};

struct row_job {
    struct row_view v[ROW_OPERANDS];
    int nout, nall;
    size_t convert[ROW_OPERANDS], buffer; /* offsets of the conversion buffers in a task's memory, its size */
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

static bool row_is_contiguous(const aclTensor *t, int32_t outer)
{
    int64_t expected = 1;
    for (int32_t d = t->rank - 1; d >= outer; d--) {
        if (t->dim[d] != 1 && t->stride[d] != expected) return false;
        expected *= t->dim[d];
    }
    return true;
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
    v->near = row_is_contiguous(&v->turned, v->outer) && (v->n > 1 || v->as == o->t->dtype);
    v->whole = !v->near;
}

static char *row_at(const struct row_view *v, int64_t row)
{
    if (v->whole) return v->base + row * v->n * (int64_t)v->as_size;
    int64_t at = 0;
    for (int32_t d = v->outer - 1; d >= 0; d--) {
        at += row % v->turned.dim[d] * v->turned.stride[d];
        row /= v->turned.dim[d];
    }
    return v->base + at * (int64_t)v->size;
}

static bool converts(const struct row_view *v)
{
    return v->near && v->as != v->t->dtype;
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
    struct row_call call = {.ctx = j->ctx, .scratch = memory + j->scratch_at};
    for (int64_t row = begin; row < end; row++) {
        char *real[ROW_OPERANDS] = {NULL};
        call.row = row;
        for (int i = 0; i < j->nall; i++) {
            const struct row_view *v = &j->v[i];
            if (!v->t) continue;
            call.n[i] = v->n;
            call.p[i] = real[i] = row_at(v, row);
            if (!converts(v)) continue;
            call.p[i] = memory + j->convert[i];
            if (i >= j->nout) sn_convert(call.p[i], v->as, real[i], v->t->dtype, v->n);
        }
        j->fn(&call);
        for (int i = 0; i < j->nout; i++) {
            const struct row_view *v = &j->v[i];
            if (v->t && converts(v)) sn_convert(real[i], v->t->dtype, call.p[i], v->as, v->n);
        }
    }
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
    if (i < j->nout && (v->whole || output_clashes(j, s, i))) {
        v->near = false;
        v->whole = true;
        v->base = op_out_scratch(c, &v->turned, v->as);
    } else if (v->whole) {
        v->base = op_in(c, &v->turned, v->as);
    } else {
        v->base = sn_data(v->t);
    }
}

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
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
    for (int i = 0; i < j.nall; i++) {
        j.convert[i] = j.buffer;
        if (j.v[i].t && converts(&j.v[i])) j.buffer += align64((size_t)j.v[i].n * j.v[i].as_size);
    }
    j.scratch_at = j.buffer;
    j.buffer += align64(space->scratch);
    rt_pool_run(rows, (ROW_TASK + longest - 1) / longest, run_rows, &j);
    if (j.failed)
        return op_fail(c, ACL_ERROR_BAD_ALLOC, "no memory for rows of %lld elements", (long long)longest);
    for (int i = 0; i < nout; i++)
        if (j.v[i].t && j.v[i].whole) op_out_done(c, &j.v[i].turned, j.v[i].as, j.v[i].base);
    return 0;
}
