/* reduce_run.c - the reduction driver: finds rows or columns in a layout and folds them in pieces of fixed
 * size. */
#include "softnpu/op/reduce.h"

#include <string.h>

enum {
    CHUNK = 2048,        /* elements converted at a time */
    ROW_PIECE = 1 << 16, /* elements of one reduction that one task folds */
    COL_WIDTH = 512,     /* results that one task folds side by side */
    COL_PIECE = 1 << 8,  /* positions of a reduction that one task folds */
    MIN_ROW = 32,
    MIN_COL = 16,   /* shorter runs are gathered first */
    TASK = 1 << 16, /* elements worth a task of the pool */
};

/* A list of dimensions after merging neighbours that lie behind each other. */
struct axes {
    int32_t n;
    int64_t dim[SN_MAX_DIMS], stride[SN_MAX_DIMS], count;
};

struct job {
    const struct red_fn *fn;
    const char *base;
    aclDataType from, as; /* elements in memory, elements that the fold takes */
    size_t from_size, as_size, acc_size;
    struct axes kept, gone;
    int64_t
        run; /* row path: length of the innermost reduced dimension; column path: of the innermost kept one */
    int64_t ld;       /* accumulators from plane to plane in acc */
    int64_t pieces;   /* tasks that share one reduction */
    int64_t blocks;   /* column path: tasks side by side */
    char *acc, *part; /* part: [group][piece][plane][width] if pieces > 1 */
    double p;
};

enum red_type reduce_type(aclDataType as)
{
    switch (sn_dtype(as)->kind) {
    case SN_BOOL:
        return RED_BOOL;
    case SN_COMPLEX:
        return RED_C128;
    case SN_FLOAT:
        return sn_compute(as) == ACL_DOUBLE ? RED_F64 : RED_F32;
    default:
        return RED_I64;
    }
}

static void axes_add(struct axes *a, int64_t dim, int64_t stride)
{
    a->count *= dim;
    if (dim == 1) return;
    if (a->n && a->stride[a->n - 1] == dim * stride) {
        a->dim[a->n - 1] *= dim;
        a->stride[a->n - 1] = stride;
        return;
    }
    a->dim[a->n] = dim;
    a->stride[a->n++] = stride;
}

static void split_axes(const aclTensor *t, uint32_t dims, struct axes *kept, struct axes *gone)
{
    kept->n = gone->n = 0;
    kept->count = gone->count = 1;
    for (int32_t d = 0; d < t->rank; d++) axes_add(dims >> d & 1 ? gone : kept, t->dim[d], t->stride[d]);
}

/* Element offset of the i-th place, i counting over the first n axes. */
static int64_t axes_offset(const struct axes *a, int32_t n, int64_t i)
{
    int64_t at = 0;
    for (int32_t d = n - 1; d >= 0; d--) {
        at += i % a->dim[d] * a->stride[d];
        i /= a->dim[d];
    }
    return at;
}

static bool ends_contiguous(const struct axes *a, int64_t least)
{
    return a->n && a->stride[a->n - 1] == 1 && a->dim[a->n - 1] >= least;
}

/* n contiguous elements at p, converted if need be. buffer: CHUNK elements. */
static const void *load(const struct job *j, const char *p, int64_t n, void *buffer)
{
    if (j->from == j->as) return p;
    sn_convert(buffer, j->as, p, j->from, n);
    return buffer;
}

/* ---- rows: the reduced dimensions end in a contiguous run -------------------------------------------- */

static void fold_row(const struct job *j, void *acc, int64_t ld, int64_t result, int64_t begin, int64_t end)
{
    double _Complex buffer[CHUNK];
    const char *row = j->base + axes_offset(&j->kept, j->kept.n, result) * (int64_t)j->from_size;
    for (int64_t at = begin; at < end;) {
        int64_t in_run = at % j->run, n = j->run - in_run;
        if (n > end - at) n = end - at;
        if (n > CHUNK && j->from != j->as) n = CHUNK;
        int64_t offset = axes_offset(&j->gone, j->gone.n - 1, at / j->run) + in_run;
        j->fn->row(acc, ld, load(j, row + offset * (int64_t)j->from_size, n, buffer), n, at, j->p);
        at += n;
    }
}

static void row_tasks(void *ctx, int64_t begin, int64_t end)
{
    const struct job *j = ctx;
    for (int64_t task = begin; task < end; task++) {
        int64_t result = task / j->pieces, piece = task % j->pieces, first = piece * ROW_PIECE;
        int64_t last = first + ROW_PIECE < j->gone.count ? first + ROW_PIECE : j->gone.count;
        char *acc = j->acc + result * (int64_t)j->acc_size;
        int64_t ld = j->ld;
        if (j->pieces > 1) acc = j->part + task * j->fn->planes * (int64_t)j->acc_size, ld = 1;
        j->fn->init(acc, ld, 1);
        fold_row(j, acc, ld, result, first, last);
    }
}

static void run_rows(op_call *c, struct job *j)
{
    j->run = j->gone.n ? j->gone.dim[j->gone.n - 1] : 1;
    j->pieces = (j->gone.count + ROW_PIECE - 1) / ROW_PIECE;
    if (j->pieces < 1) j->pieces = 1;
    size_t one = j->acc_size * (size_t)j->fn->planes;
    if (j->pieces > 1) j->part = op_scratch(c, one * (size_t)(j->kept.count * j->pieces));
    int64_t each = j->gone.count < ROW_PIECE ? j->gone.count + 8 : ROW_PIECE;
    rt_pool_run(j->kept.count * j->pieces, (TASK + each - 1) / each, row_tasks, j);
    if (j->pieces == 1) return;
    for (int64_t result = 0; result < j->kept.count; result++) {
        char *acc = j->acc + result * (int64_t)j->acc_size;
        j->fn->init(acc, j->ld, 1);
        for (int64_t i = 0; i < j->pieces; i++)
            j->fn->merge(acc, j->ld, j->part + (size_t)(result * j->pieces + i) * one, 1, 1);
    }
}

/* ---- columns: the kept dimensions end in a contiguous run -------------------------------------------- */

struct col_task {
    int64_t group, piece, column, width;
};

static struct col_task col_task(const struct job *j, int64_t task)
{
    struct col_task t = {.column = task % j->blocks * COL_WIDTH};
    task /= j->blocks;
    t.piece = task % j->pieces;
    t.group = task / j->pieces;
    t.width = j->run - t.column < COL_WIDTH ? j->run - t.column : COL_WIDTH;
    return t;
}

/* Where the task's accumulators are and how far apart their planes. */
static char *col_acc(const struct job *j, const struct col_task *t, int64_t *ld)
{
    if (j->pieces == 1) {
        *ld = j->ld;
        return j->acc + (t->group * j->run + t->column) * (int64_t)j->acc_size;
    }
    *ld = j->run;
    int64_t first = (t->group * j->pieces + t->piece) * j->fn->planes * j->run + t->column;
    return j->part + first * (int64_t)j->acc_size;
}

static void col_tasks(void *ctx, int64_t begin, int64_t end)
{
    const struct job *j = ctx;
    double _Complex buffer[COL_WIDTH];
    for (int64_t task = begin; task < end; task++) {
        struct col_task t = col_task(j, task);
        int64_t ld, from = t.piece * COL_PIECE, to = from + COL_PIECE;
        char *acc = col_acc(j, &t, &ld);
        if (to > j->gone.count) to = j->gone.count;
        j->fn->init(acc, ld, t.width);
        int64_t offset = axes_offset(&j->kept, j->kept.n - 1, t.group) + t.column;
        for (int64_t at = from; at < to; at++) {
            int64_t place = offset + axes_offset(&j->gone, j->gone.n, at);
            const void *x = load(j, j->base + place * (int64_t)j->from_size, t.width, buffer);
            j->fn->col(acc, ld, x, t.width, at, j->p);
        }
    }
}

static void run_cols(op_call *c, struct job *j)
{
    j->run = j->kept.dim[j->kept.n - 1];
    j->blocks = (j->run + COL_WIDTH - 1) / COL_WIDTH;
    j->pieces = (j->gone.count + COL_PIECE - 1) / COL_PIECE;
    if (j->pieces < 1) j->pieces = 1;
    int64_t groups = j->kept.count / j->run;
    if (j->pieces > 1)
        j->part = op_scratch(c, j->acc_size * (size_t)(j->fn->planes * j->pieces * groups * j->run));
    int64_t each = (j->run < COL_WIDTH ? j->run : COL_WIDTH) *
                   (j->gone.count < COL_PIECE ? j->gone.count + 1 : COL_PIECE);
    rt_pool_run(groups * j->pieces * j->blocks, (TASK + each - 1) / each, col_tasks, j);
    if (j->pieces == 1) return;
    for (int64_t g = 0; g < groups; g++) {
        char *acc = j->acc + g * j->run * (int64_t)j->acc_size;
        j->fn->init(acc, j->ld, j->run);
        for (int64_t i = 0; i < j->pieces; i++) {
            int64_t first = (g * j->pieces + i) * j->fn->planes * j->run;
            j->fn->merge(acc, j->ld, j->part + first * (int64_t)j->acc_size, j->run, j->run);
        }
    }
}

/* ---- any other layout: gather it into rows ----------------------------------------------------------- */

static void gather(op_call *c, struct job *j, const aclTensor *t, uint32_t dims)
{
    aclTensor view = *t;
    int32_t n = 0;
    for (int gone = 0; gone < 2; gone++) {
        for (int32_t d = 0; d < t->rank; d++) {
            if ((int)(dims >> d & 1) != gone) continue;
            view.dim[n] = t->dim[d];
            view.stride[n++] = t->stride[d];
        }
    }
    j->base = op_in(c, &view, j->as);
    j->from = j->as;
    j->from_size = j->as_size;
    int64_t kept = j->kept.count, gone = j->gone.count;
    j->kept.n = j->gone.n = 0;
    j->kept.count = j->gone.count = 1;
    axes_add(&j->kept, kept, gone);
    axes_add(&j->gone, gone, 1);
}

static const aclDataType type_element[RED_NTYPES] = {ACL_FLOAT, ACL_DOUBLE, ACL_INT64, ACL_COMPLEX128,
                                                     ACL_BOOL};
static const aclDataType type_result[RED_NTYPES] = {ACL_DOUBLE, ACL_DOUBLE, ACL_INT64, ACL_COMPLEX128,
                                                    ACL_INT64};

int reduce_run(op_call *c, const struct reduction *r, struct reduced *out)
{
    enum red_type type = reduce_type(r->as);
    if (type == RED_BOOL && r->op != RED_ANY && r->op != RED_ALL) type = RED_I64;
    struct job j = {
        .fn = &reduce_kernels()->fn[r->op][type], .from = r->self->dtype, .as = type_element[type]};
    if (!j.fn->planes)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "is not defined for %s", sn_dtype(r->as)->name);
    j.p = r->p;
    j.from_size = sn_size(j.from);
    j.as_size = sn_size(j.as);
    j.acc_size = sn_size(type_result[type]);
    split_axes(r->self, r->dims, &j.kept, &j.gone);
    *out = (struct reduced){.kept = j.kept.count, .each = j.gone.count, .dtype = type_result[type]};
    j.ld = out->kept;
    j.acc = out->acc = op_scratch(c, j.acc_size * (size_t)(j.fn->planes * (out->kept ? out->kept : 1)));
    if (!out->kept) return 0;
    j.base = sn_data(r->self);
    if (!j.gone.count) {
        j.fn->init(j.acc, j.ld, out->kept);
    } else if (ends_contiguous(&j.gone, MIN_ROW) || (!j.kept.n && !j.gone.n)) {
        run_rows(c, &j);
    } else if (j.fn->col && ends_contiguous(&j.kept, MIN_COL)) {
        run_cols(c, &j);
    } else {
        gather(c, &j, r->self, r->dims);
        run_rows(c, &j);
    }
    return 0;
}

/* ---- checks ------------------------------------------------------------------------------------------ */

int reduce_dims(const op_call *c, const aclTensor *self, const aclIntArray *dims, uint32_t *bits)
{
    *bits = 0;
    if (!dims || !dims->n) {
        *bits = (1u << self->rank) - 1;
        return 0;
    }
    for (uint64_t i = 0; i < dims->n; i++) {
        int32_t d;
        int rc = op_need_dim(c, dims->v[i], self->rank, &d);
        if (rc) return rc;
        if (*bits >> d & 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "dimension %d is named twice in the list of dimensions", (int)d);
        *bits |= 1u << d;
    }
    if (!self->rank) *bits = 0;
    return 0;
}

int reduce_need_out(const op_call *c, const aclTensor *self, uint32_t dims, bool keepdim, int out)
{
    int64_t dim[SN_MAX_DIMS];
    int32_t n = 0;
    for (int32_t d = 0; d < self->rank; d++) {
        if (!(dims >> d & 1))
            dim[n++] = self->dim[d];
        else if (keepdim)
            dim[n++] = 1;
    }
    const aclTensor *t = c->arg[out].t;
    if (!n && t->rank == 1 && t->dim[0] == 1) return 0;
    return op_need_shape(c, out, dim, n);
}

int reduce_need_elements(const op_call *c, const aclTensor *self, uint32_t dims)
{
    int64_t kept = 1, gone = 1;
    for (int32_t d = 0; d < self->rank; d++) *(dims >> d & 1 ? &gone : &kept) *= self->dim[d];
    if (gone || !kept) return 0;
    char shape[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self %s has no elements to reduce and there is no identity",
                   sn_shape_str(self, shape));
}
