/* create.c - tensors made from numbers or places: ranges, eye, complex from parts, triangles, diagonals. */
#include "softnpu/op/op.h"

#include <math.h>
#include <string.h>

/* ---- ranges ------------------------------------------------------------------------------------------ */

static const bool arange_open = false, arange_closed = true; /* whether end itself belongs to the range */

static int64_t arange_count(const op_call *c)
{
    const aclScalar *start = c->arg[0].s, *end = c->arg[1].s, *step = c->arg[2].s;
    bool closed = *(const bool *)c->row->aux;
    if (sn_is_integral(start->dtype) && sn_is_integral(end->dtype) && sn_is_integral(step->dtype)) {
        int64_t span = sn_scalar_i64(end) - sn_scalar_i64(start), by = sn_scalar_i64(step);
        return closed ? span / by + 1 : (span + (by > 0 ? by - 1 : by + 1)) / by;
    }
    double n = (sn_scalar_f64(end) - sn_scalar_f64(start)) / sn_scalar_f64(step);
    return (int64_t)(closed ? floor(n) + 1 : ceil(n));
}

static int check_arange(op_call *c)
{
    double start = sn_scalar_f64(c->arg[0].s), end = sn_scalar_f64(c->arg[1].s),
           step = sn_scalar_f64(c->arg[2].s);
    if (step == 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "step must not be 0");
    if (!isfinite(start) || !isfinite(end))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "start %g and end %g must be finite", start, end);
    if ((end - start) * step < 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "step %g leads away from end %g", step, end);
    /* The caller may have counted in the output's own type, one place more or less: out's size decides. */
    double about = (end - start) / step;
    int64_t span;
    if (!(about < 0x1p53) ||
        __builtin_sub_overflow(sn_scalar_i64(c->arg[1].s), sn_scalar_i64(c->arg[0].s), &span))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "a range from %g to %g by %g is too long", start, end,
                       step);
    int64_t n = arange_count(c), given = sn_numel(c->arg[3].t);
    if (c->arg[3].t->rank != 1 || given > n + 1 || given < n - 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out must have %lld elements in one dimension",
                       (long long)n);
    return 0;
}

struct range_ctx {
    double start, step, end;
    int64_t i_start, i_step, n;
    double base; /* of a logarithmic range */
};

static void arange_int(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct range_ctx *r = ctx;
    int64_t *out = p[0];
    for (int64_t i = 0; i < n; i++)
        out[i] = (int64_t)((uint64_t)r->i_start + (uint64_t)(index + i) * (uint64_t)r->i_step);
}
static void arange_float(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct range_ctx *r = ctx;
    double *out = p[0];
    for (int64_t i = 0; i < n; i++) out[i] = r->start + (double)(index + i) * r->step;
}
/* Both ends are exact: the second half counts back from end. */
static double linspace_at(const struct range_ctx *r, int64_t i)
{
    return i < r->n / 2 ? r->start + r->step * (double)i : r->end - r->step * (double)(r->n - 1 - i);
}
static void linspace_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    double *out = p[0];
    for (int64_t i = 0; i < n; i++) out[i] = linspace_at(ctx, index + i);
}
static void logspace_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct range_ctx *r = ctx;
    double *out = p[0];
    for (int64_t i = 0; i < n; i++) out[i] = pow(r->base, linspace_at(r, index + i));
}

static int run_range(op_call *c, const aclTensor *out, aclDataType as, ew_fn fn, const struct range_ctx *r)
{
    struct ew_operand operand = {out, as, NULL};
    return ew_run(c, &operand, 1, 0, fn, r);
}

static int run_arange(op_call *c)
{
    const aclScalar *start = c->arg[0].s, *step = c->arg[2].s;
    const aclTensor *out = c->arg[3].t;
    struct range_ctx r = {.start = sn_scalar_f64(start), .step = sn_scalar_f64(step)};
    /* Integers are counted in integers, whatever start and step are: torch truncates both. */
    bool whole = sn_is_integral(out->dtype);
    if (whole) r.i_start = sn_scalar_i64(start);
    if (whole) r.i_step = sn_scalar_i64(step);
    return run_range(c, out, whole ? ACL_INT64 : ACL_DOUBLE, whole ? arange_int : arange_float, &r);
}

static int check_linspace(op_call *c)
{
    if (c->arg[2].i < 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "steps must not be negative, not %lld",
                       (long long)c->arg[2].i);
    return op_need_shape(c, 3, &c->arg[2].i, 1);
}
static int check_logspace(op_call *c)
{
    if (c->arg[2].i < 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "steps must not be negative, not %lld",
                       (long long)c->arg[2].i);
    return op_need_shape(c, 4, &c->arg[2].i, 1);
}

static struct range_ctx linspace_ctx(const op_call *c, const aclTensor *out)
{
    struct range_ctx r = {
        .start = sn_scalar_f64(c->arg[0].s), .end = sn_scalar_f64(c->arg[1].s), .n = c->arg[2].i};
    if (sn_is_integral(out->dtype)) { /* torch makes both ends integers before it divides */
        r.start = trunc(r.start);
        r.end = trunc(r.end);
    }
    r.step = r.n > 1 ? (r.end - r.start) / (double)(r.n - 1) : 0;
    if (r.n == 1) r.end = r.start;
    return r;
}

static int run_linspace(op_call *c)
{
    struct range_ctx r = linspace_ctx(c, c->arg[3].t);
    return run_range(c, c->arg[3].t, ACL_DOUBLE, linspace_block, &r);
}

static int run_logspace(op_call *c)
{
    struct range_ctx r = linspace_ctx(c, c->arg[4].t);
    r.base = c->arg[3].d;
    return run_range(c, c->arg[4].t, ACL_DOUBLE, logspace_block, &r);
}

/* The older path's type: float16 and float32 only, the places given as a tensor that need not be read. */
static int check_logspace_d(op_call *c)
{
    return op_need_shape(c, 1, &c->arg[4].i, 1);
}

static int run_logspace_d(op_call *c)
{
    struct range_ctx r = {.start = c->arg[2].d, .end = c->arg[3].d, .n = c->arg[4].i, .base = c->arg[5].d};
    r.step = r.n > 1 ? (r.end - r.start) / (double)(r.n - 1) : 0;
    if (r.n == 1) r.end = r.start;
    return run_range(c, c->arg[1].t, ACL_DOUBLE, logspace_block, &r);
}

/* ---- complex numbers from two real tensors ----------------------------------------------------------- */

static const bool complex_parts = false, complex_polar = true;

static int check_complex(op_call *c)
{
    static const int8_t made_of[][2] = {
        {ACL_FLOAT16, ACL_COMPLEX32}, {ACL_FLOAT, ACL_COMPLEX64}, {ACL_DOUBLE, ACL_COMPLEX128}};
    const aclTensor *real = c->arg[0].t, *out = c->arg[2].t;
    int64_t dim[SN_MAX_DIMS];
    int32_t rank;
    int r = op_need_same_dtype(c, 0, 1);
    if (r) return r;
    if (!sn_broadcast_shape(real, c->arg[1].t, dim, &rank))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the two tensors do not broadcast");
    for (size_t i = 0; i < sizeof made_of / sizeof *made_of; i++)
        if (made_of[i][0] == (int)real->dtype && made_of[i][1] == (int)out->dtype)
            return op_need_shape(c, 2, dim, rank);
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out of type %s is not made of two %s",
                   sn_dtype(out->dtype)->name, sn_dtype(real->dtype)->name);
}

#define COMPLEX_BLOCKS(suffix, type, cosine, sine)                                                           \
    static void parts_##suffix(int64_t n, void *const *p, int64_t index, const void *ctx)                    \
    {                                                                                                        \
        (void)index, (void)ctx;                                                                              \
        type *out = p[0];                                                                                    \
        const type *a = p[1], *b = p[2];                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            out[2 * i] = a[i];                                                                               \
            out[2 * i + 1] = b[i];                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    static void polar_##suffix(int64_t n, void *const *p, int64_t index, const void *ctx)                    \
    {                                                                                                        \
        (void)index, (void)ctx;                                                                              \
        type *out = p[0];                                                                                    \
        const type *a = p[1], *b = p[2];                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            out[2 * i] = a[i] * cosine(b[i]);                                                                \
            out[2 * i + 1] = a[i] * sine(b[i]);                                                              \
        }                                                                                                    \
    }
COMPLEX_BLOCKS(f32, float, cosf, sinf)
COMPLEX_BLOCKS(f64, double, cos, sin)

static int run_complex(op_call *c)
{
    bool polar = *(const bool *)c->row->aux, wide = c->arg[0].t->dtype == ACL_DOUBLE;
    aclDataType as = wide ? ACL_DOUBLE : ACL_FLOAT;
    struct ew_operand operand[] = {{c->arg[2].t, wide ? ACL_COMPLEX128 : ACL_COMPLEX64, NULL},
                                   {c->arg[0].t, as, NULL},
                                   {c->arg[1].t, as, NULL}};
    ew_fn fn = polar ? (wide ? polar_f64 : polar_f32) : wide ? parts_f64 : parts_f32;
    return ew_run(c, operand, 1, 2, fn, NULL);
}

/* ---- triangles and diagonals ------------------------------------------------------------------------- */

static const bool tril = false, triu = true;

struct triangle_ctx {
    const char *from;
    char *to;
    int64_t rows, columns, diagonal;
    size_t size;
    bool upper;
};

/* Kept columns of a row: up to its diagonal place for the lower triangle, from it for the upper. */
static void triangle_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct triangle_ctx *t = ctx;
    for (int64_t r = begin; r < end; r++) {
        int64_t edge = r % t->rows + t->diagonal + (t->upper ? 0 : 1);
        edge = edge < 0 ? 0 : edge > t->columns ? t->columns : edge;
        int64_t keep = t->upper ? edge : 0, kept = t->upper ? t->columns - edge : edge;
        char *row = t->to + (size_t)(r * t->columns) * t->size;
        const char *old = t->from + (size_t)(r * t->columns) * t->size;
        if (row != old)
            memcpy(row + (size_t)keep * t->size, old + (size_t)keep * t->size, (size_t)kept * t->size);
        int64_t clear = t->upper ? 0 : edge;
        memset(row + (size_t)clear * t->size, 0, (size_t)(t->columns - kept) * t->size);
    }
}

static int check_triangle(op_call *c)
{
    if (c->row->nparam < 3) return 0;
    int r = op_need_same_dtype(c, 0, 2);
    return r ? r : op_need_same_shape(c, 0, 2);
}

static int run_triangle(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->row->nparam < 3 ? self : c->arg[2].t;
    if (sn_numel(out) == 0) return 0;
    struct triangle_ctx t = {.rows = self->dim[self->rank - 2],
                             .columns = self->dim[self->rank - 1],
                             .size = sn_size(self->dtype),
                             .upper = *(const bool *)c->row->aux};
    /* Any diagonal beyond the corners is the corner: sums with it stay small. */
    int64_t limit = t.rows + t.columns, diagonal = c->arg[1].i;
    t.diagonal = diagonal < -limit ? -limit : diagonal > limit ? limit : diagonal;
    bool apart = sn_overlap(self, out) && !sn_same_view(self, out);
    t.from = op_in(c, self, self->dtype);
    t.to = apart ? op_out_scratch(c, out, self->dtype) : op_out(c, out, self->dtype);
    int64_t bytes = t.columns * (int64_t)t.size;
    rt_pool_run(sn_numel(self) / t.columns, bytes < 65536 ? 65536 / bytes : 1, triangle_rows, &t);
    op_out_done(c, out, self->dtype, t.to);
    return 0;
}

static void clear(op_call *c, const aclTensor *t)
{
    aclTensor zero;
    void *z = op_scratch(c, 16);
    memset(z, 0, 16);
    sn_wrap(&zero, t->dtype, 0, NULL, z);
    if (sn_numel(t)) op_copy(c, t, &zero);
}

/* The view of a diagonal of a matrix. */
static aclTensor diagonal_view(const aclTensor *t, int64_t diagonal)
{
    aclTensor view = *t;
    int64_t row = diagonal < 0 ? -diagonal : 0, column = diagonal > 0 ? diagonal : 0;
    int64_t rows = t->dim[0] - row, columns = t->dim[1] - column, n = rows < columns ? rows : columns;
    view.rank = 1;
    view.dim[0] = n > 0 ? n : 0;
    view.stride[0] = t->stride[0] + t->stride[1];
    view.offset = t->offset + row * t->stride[0] + column * t->stride[1];
    return view;
}

static int check_eye(op_call *c)
{
    return op_need_shape(c, 2, (int64_t[]){c->arg[0].i, c->arg[1].i}, 2);
}

static int fill_view(op_call *c, const aclTensor *view, const aclScalar *value)
{
    aclTensor one;
    void *z = op_scratch(c, 16);
    sn_scalar_store(value, view->dtype, z);
    sn_wrap(&one, view->dtype, 0, NULL, z);
    if (sn_numel(view)) op_copy(c, view, &one);
    return 0;
}

static int run_eye(op_call *c)
{
    static const aclScalar one = {.dtype = ACL_INT64, .v.i = 1};
    aclTensor view = diagonal_view(c->arg[2].t, 0);
    clear(c, c->arg[2].t);
    return fill_view(c, &view, &one);
}

/* A diagonal that no matrix has is not worth its arithmetic. */
static int need_diagonal(const op_call *c)
{
    int64_t x = c->arg[1].i;
    if (x >= INT32_MIN && x <= INT32_MAX) return op_need_same_dtype(c, 0, 2);
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %lld is out of range", c->row->param[1].name,
                   (long long)x);
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

static int check_diag(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t diagonal = c->arg[1].i;
    int r = need_diagonal(c);
    if (r) return r;
    if (self->rank == 2) return op_need_shape(c, 2, diagonal_view(self, diagonal).dim, 1);
    int64_t n = self->dim[0] + magnitude(diagonal);
    return op_need_shape(c, 2, (int64_t[]){n, n}, 2);
}

static int run_diag(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    if (self->rank == 2) {
        aclTensor view = diagonal_view(self, c->arg[1].i);
        if (sn_numel(out)) op_copy(c, out, &view);
        return 0;
    }
    aclTensor view = diagonal_view(out, c->arg[1].i);
    clear(c, out);
    if (sn_numel(self)) op_copy(c, &view, self);
    return 0;
}

static int check_diag_flat(op_call *c)
{
    int r = need_diagonal(c);
    int64_t n = r ? 0 : sn_numel(c->arg[0].t) + magnitude(c->arg[1].i);
    return r ? r : op_need_shape(c, 2, (int64_t[]){n, n}, 2);
}

static int run_diag_flat(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    aclTensor view = diagonal_view(out, c->arg[1].i), flat;
    int64_t n = sn_numel(self);
    clear(c, out);
    if (n == 0) return 0;
    sn_wrap(&flat, self->dtype, 1, &n, op_in(c, self, self->dtype));
    op_copy(c, &view, &flat);
    return 0;
}

static int check_fill_diagonal(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    if (self->rank < 2) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "selfRef must have at least 2 dimensions");
    for (int i = 1; self->rank > 2 && i < self->rank; i++)
        if (self->dim[i] != self->dim[0])
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "all dimensions of selfRef must be of one size");
    return 0;
}

/* The diagonal of all dimensions; with wrap, a tall matrix's starts again after a row without one. */
static int run_fill_diagonal(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    if (sn_numel(self) == 0) return 0;
    aclTensor view = *self;
    int64_t step = 0, n = self->dim[0];
    for (int i = 0; i < self->rank; i++) {
        step += self->stride[i];
        n = self->dim[i] < n ? self->dim[i] : n;
    }
    view.rank = 1;
    view.stride[0] = step;
    view.dim[0] = n;
    fill_view(c, &view, c->arg[1].s);
    if (!c->arg[2].i || self->rank != 2) return 0;
    int64_t columns = self->dim[1];
    for (int64_t row = columns + 1; row < self->dim[0]; row += columns + 1) {
        int64_t left = self->dim[0] - row;
        view.dim[0] = left < columns ? left : columns;
        view.offset = self->offset + row * self->stride[0];
        fill_view(c, &view, c->arg[1].s);
    }
    return 0;
}

static int check_trace(op_call *c)
{
    int r = op_need_cast(c, c->arg[0].t->dtype, 1);
    return r ? r : op_need_shape(c, 1, (int64_t[]){0}, 0);
}

/* The sum of the diagonal, in double or 64-bit integers. */
static int run_trace(op_call *c)
{
    aclTensor view = diagonal_view(c->arg[0].t, 0);
    int64_t n = sn_numel(&view);
    if (sn_is_integral(view.dtype)) {
        uint64_t sum = 0;
        const uint64_t *x = n ? op_in(c, &view, ACL_INT64) : NULL;
        for (int64_t i = 0; i < n; i++) sum += x[i];
        op_out_done(c, c->arg[1].t, ACL_INT64, &sum);
        return 0;
    }
    double _Complex sum = 0;
    const double _Complex *x = n ? op_in(c, &view, ACL_COMPLEX128) : NULL;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    op_out_done(c, c->arg[1].t, ACL_COMPLEX128, &sum);
    return 0;
}

#define OP_FILE "softnpu/op/create.inc"
#define OP_TABLE op_rows_create
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/create_older.inc"
#define OP_TABLE op_rows_create_older
#include "softnpu/op/rows.h"
