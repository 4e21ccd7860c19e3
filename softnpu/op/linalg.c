/* linalg.c - factorisations and solvers of batches of small matrices. */
#include "softnpu/op/lapack.h"

#include <complex.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- batches of matrices ----------------------------------------------------------------------------- */

static int64_t rows_of(const aclTensor *t)
{
    return t->dim[t->rank - 2];
}
static int64_t cols_of(const aclTensor *t)
{
    return t->dim[t->rank - 1];
}

static int64_t batch_of(const aclTensor *t)
{
    int64_t n = 1;
    for (int32_t d = 0; d < t->rank - 2; d++) n *= t->dim[d];
    return n;
}

/* t with its last two dimensions exchanged: row major of it is column major of t. */
static aclTensor columns(const aclTensor *t)
{
    aclTensor v = *t;
    int32_t r = t->rank;
    v.dim[r - 1] = t->dim[r - 2], v.stride[r - 1] = t->stride[r - 2];
    v.dim[r - 2] = t->dim[r - 1], v.stride[r - 2] = t->stride[r - 1];
    return v;
}

/* A copy of t that may be overwritten, contiguous. */
static char *load(op_call *c, const aclTensor *t, aclDataType as)
{
    char *p = op_scratch(c, (size_t)sn_numel(t) * sn_size(as) + 1);
    aclTensor w;
    sn_wrap(&w, as, t->rank, t->dim, p);
    if (sn_numel(t)) op_copy(c, &w, t);
    return p;
}

static void store(op_call *c, const aclTensor *t, aclDataType as, void *p)
{
    aclTensor w;
    sn_wrap(&w, as, t->rank, t->dim, p);
    if (sn_numel(t)) op_copy(c, t, &w);
}

static int need_matrices(op_call *c, int arg)
{
    const aclTensor *t = c->arg[arg].t;
    const char *name = c->row->param[arg].name;
    if (t->rank < 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected 2 or more", name, t->rank);
    if (rows_of(t) > INT_MAX / 128 || cols_of(t) > INT_MAX / 128)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is larger than %d by %d", name, INT_MAX / 128,
                       INT_MAX / 128);
    if (!lapack_for(sn_compute(t->dtype)))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s of %s", name, sn_dtype(t->dtype)->name);
    c->plan[0] = sn_compute(t->dtype);
    return 0;
}

static int need_square(op_call *c, int arg)
{
    char ts[256];
    const aclTensor *t = c->arg[arg].t;
    int rc = need_matrices(c, arg);
    if (rc || rows_of(t) == cols_of(t)) return rc;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s is not square", c->row->param[arg].name,
                   sn_shape_str(t, ts));
}

static int check_square_out(op_call *c)
{
    int rc = need_square(c, 0);
    return rc ? rc : op_need_same_shape(c, 0, c->row->nparam - 1);
}

static const struct lapack *lapack_of(const op_call *c)
{
    return lapack_for((aclDataType)c->plan[0]);
}

/* ---- triangular systems ------------------------------------------------------------------------------ */

static int check_triangular(op_call *c)
{
    const aclTensor *b = c->arg[0].t, *a = c->arg[1].t;
    char as[256], bs[256];
    int rc = need_square(c, 1);
    if (!rc) rc = need_matrices(c, 0);
    if (!rc) rc = op_need_same_dtype(c, 0, 1);
    if (!rc &&
        (a->rank != b->rank || rows_of(a) != rows_of(b) || memcmp(a->dim, b->dim, (size_t)(a->rank - 2) * 8)))
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "A %s and self %s do not fit", sn_shape_str(a, as),
                     sn_shape_str(b, bs));
    if (!rc) rc = op_need_same_shape(c, 0, 5);
    return rc ? rc : op_need_same_shape(c, 1, 6);
}

static int run_triangular(op_call *c)
{
    const struct lapack *l = lapack_of(c);
    const aclTensor *b = c->arg[0].t, *a = c->arg[1].t;
    int64_t n = rows_of(b), k = cols_of(b), size = (int64_t)sn_size(l->type);
    const char *m = op_in(c, a, l->type);
    char *x = load(c, b, l->type);
    for (int64_t i = 0, all = n && k ? batch_of(b) : 0; i < all; i++)
        l->triangular(c->arg[2].i, c->arg[3].i, c->arg[4].i, (int)n, (int)k, m + i * n * n * size,
                      x + i * n * k * size);
    store(c, c->arg[5].t, l->type, x);
    if (sn_numel(a)) op_copy(c, c->arg[6].t, a);
    return 0;
}

/* ---- inverse, Cholesky ------------------------------------------------------------------------------- */

/* The inverse of the transpose is the transpose of the inverse: row-major bytes serve as they are. */
static int run_inverse(op_call *c)
{
    const struct lapack *l = lapack_of(c);
    const aclTensor *t = c->arg[0].t;
    int64_t n = rows_of(t), size = (int64_t)sn_size(l->type);
    char *a = load(c, t, l->type);
    int *pivot = op_scratch(c, (size_t)n * sizeof *pivot + 1);
    for (int64_t i = 0, all = n ? batch_of(t) : 0; i < all; i++)
        if (l->inverse((int)n, a + i * n * n * size, pivot))
            return op_fail(c, ACLNN_ERR_INNER, "matrix %lld of the batch is singular", (long long)i);
    store(c, c->arg[1].t, l->type, a);
    return 0;
}

static int run_cholesky(op_call *c)
{
    const struct lapack *l = lapack_of(c);
    const aclTensor *t = c->arg[0].t;
    bool upper = c->arg[1].i;
    aclTensor in = columns(t), out = columns(c->arg[2].t);
    int64_t n = rows_of(t), size = (int64_t)sn_size(l->type);
    char *a = load(c, &in, l->type);
    for (int64_t i = 0, all = n ? batch_of(t) : 0; i < all; i++) {
        char *m = a + i * n * n * size;
        int bad = l->cholesky(upper, (int)n, m);
        if (bad)
            return op_fail(c, ACLNN_ERR_INNER,
                           "matrix %lld of the batch is not positive-definite (leading minor %d)",
                           (long long)i, bad);
        for (int64_t col = 0; col < n; col++) {
            int64_t from = upper ? col + 1 : 0, to = upper ? n : col;
            memset(m + (col * n + from) * size, 0, (size_t)((to - from) * size));
        }
    }
    store(c, &out, l->type, a);
    return 0;
}

/* ---- QR ---------------------------------------------------------------------------------------------- */

enum { QR_REDUCED, QR_COMPLETE, QR_R };

static int check_qr(op_call *c)
{
    const aclTensor *t = c->arg[0].t;
    int64_t mode = c->arg[1].i, dim[SN_MAX_DIMS];
    int rc = need_matrices(c, 0);
    if (rc) return rc;
    if (mode < QR_REDUCED || mode > QR_R)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "mode %lld is not one of 0, 1, 2", (long long)mode);
    int64_t m = rows_of(t), n = cols_of(t), k = m < n ? m : n, q = mode == QR_COMPLETE ? m : k;
    memcpy(dim, t->dim, sizeof dim);
    dim[t->rank - 2] = q, dim[t->rank - 1] = n;
    rc = op_need_shape(c, 3, dim, t->rank);
    dim[t->rank - 2] = m, dim[t->rank - 1] = q;
    return rc || mode == QR_R ? rc : op_need_shape(c, 2, dim, t->rank);
}

struct qr {
    int64_t m, n, k, q, size;
    char *a, *r, *tau; /* column major; a has room for m by max(n, q) */
};

/* The upper triangle of a, q rows, into r. */
static void take_r(const struct qr *s)
{
    for (int64_t col = 0; col < s->n; col++) {
        int64_t keep = col + 1 < s->q ? col + 1 : s->q;
        memcpy(s->r + col * s->q * s->size, s->a + col * s->m * s->size, (size_t)(keep * s->size));
        memset(s->r + (col * s->q + keep) * s->size, 0, (size_t)((s->q - keep) * s->size));
    }
}

static int run_qr(op_call *c)
{
    const struct lapack *l = lapack_of(c);
    const aclTensor *t = c->arg[0].t;
    aclTensor in = columns(t), rv = columns(c->arg[3].t), qv = {0};
    struct qr s = {.m = rows_of(t), .n = cols_of(t), .size = (int64_t)sn_size(l->type)};
    s.k = s.m < s.n ? s.m : s.n, s.q = c->arg[1].i == QR_COMPLETE ? s.m : s.k;
    bool wants_q = c->arg[1].i != QR_R;
    int64_t all = batch_of(t), wide = s.n > s.q ? s.n : s.q;
    const char *from = load(c, &in, l->type);
    char *q = op_scratch(c, (size_t)(all * s.m * s.q * s.size) + 1),
         *r = op_scratch(c, (size_t)(all * s.q * s.n * s.size) + 1);
    s.a = op_scratch(c, (size_t)(s.m * wide * s.size) + 1), s.tau = op_scratch(c, (size_t)(s.k * s.size) + 1);
    for (int64_t i = 0; i < all && s.m; i++) {
        memset(s.a, 0, (size_t)(s.m * wide * s.size));
        memcpy(s.a, from + i * s.m * s.n * s.size, (size_t)(s.m * s.n * s.size));
        int bad = s.k ? l->qr((int)s.m, (int)s.n, s.a, s.tau) : 0;
        s.r = r + i * s.q * s.n * s.size;
        take_r(&s);
        if (!bad && wants_q) bad = l->make_q((int)s.m, (int)s.q, (int)s.k, s.a, s.tau);
        if (bad) return op_fail(c, ACLNN_ERR_INNER, "LAPACK refused argument %d", -bad);
        memcpy(q + i * s.m * s.q * s.size, s.a, (size_t)(s.m * s.q * s.size));
    }
    store(c, &rv, l->type, r);
    if (!wants_q) return 0;
    qv = columns(c->arg[2].t);
    store(c, &qv, l->type, q);
    return 0;
}

/* ---- determinants ------------------------------------------------------------------------------------ */

static int check_slogdet(op_call *c)
{
    const aclTensor *t = c->arg[0].t;
    int rc = need_square(c, 0);
    if (!rc) rc = op_need_shape(c, 1, t->dim, t->rank - 2);
    return rc ? rc : op_need_shape(c, 2, t->dim, t->rank - 2);
}

static int run_slogdet(op_call *c)
{
    const struct lapack *l = lapack_of(c);
    const aclTensor *t = c->arg[0].t;
    int64_t n = rows_of(t), all = batch_of(t), size = (int64_t)sn_size(l->type);
    char *a = load(c, t, l->type);
    int *pivot = op_scratch(c, (size_t)n * sizeof *pivot + 1);
    double _Complex *sign = op_scratch(c, (size_t)all * sizeof *sign + 1);
    double *size_log = op_scratch(c, (size_t)all * sizeof *size_log + 1);
    for (int64_t i = 0; i < all; i++) {
        char *m = a + i * n * n * size;
        if (n && l->lu((int)n, m, pivot) < 0) return op_fail(c, ACLNN_ERR_INNER, "LAPACK refused the matrix");
        sign[i] = 1, size_log[i] = 0;
        for (int64_t d = 0; d < n; d++) {
            double _Complex u;
            sn_convert(&u, ACL_COMPLEX128, m + (d * n + d) * size, l->type, 1);
            double length = cabs(u);
            sign[i] *= length == 0 ? 0 : u / length;
            if (pivot[d] != d + 1) sign[i] = -sign[i];
            size_log[i] += log(length);
        }
    }
    store(c, c->arg[1].t, ACL_COMPLEX128, sign);
    store(c, c->arg[2].t, ACL_DOUBLE, size_log);
    return 0;
}

/* ---- singular values: input = u diag(sigma) v^T ------------------------------------------------------ */

static int check_svd(op_call *c)
{
    const aclTensor *t = c->arg[0].t;
    int64_t dim[SN_MAX_DIMS];
    int rc = need_matrices(c, 0);
    if (rc) return rc;
    int64_t m = rows_of(t), n = cols_of(t), k = m < n ? m : n;
    bool full = c->arg[1].i;
    memcpy(dim, t->dim, sizeof dim);
    dim[t->rank - 2] = k;
    rc = op_need_shape(c, 3, dim, t->rank - 1);
    if (rc || !c->arg[2].i) return rc;
    dim[t->rank - 2] = m, dim[t->rank - 1] = full ? m : k;
    rc = op_need_shape(c, 4, dim, t->rank);
    dim[t->rank - 2] = n, dim[t->rank - 1] = full ? n : k;
    return rc ? rc : op_need_shape(c, 5, dim, t->rank);
}

/* LAPACK's iteration need not end on an infinity. */
static bool is_finite(const void *p, aclDataType real, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(real == ACL_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i]))
            return false;
    return true;
}

static int run_svd(op_call *c)
{
    const struct lapack *l = lapack_of(c);
    const aclTensor *t = c->arg[0].t;
    aclTensor in = columns(t), uv;
    int64_t m = rows_of(t), n = cols_of(t), k = m < n ? m : n, all = batch_of(t),
            size = (int64_t)sn_size(l->type);
    bool vectors = c->arg[2].i, full = c->arg[1].i;
    int64_t us = vectors ? m * (full ? m : k) * size : 0, vs = vectors ? n * (full ? n : k) * size : 0;
    char *a = load(c, &in, l->type), *s = op_scratch(c, (size_t)(all * k * size) + 1);
    if (!is_finite(a, l->real, all * m * n * (size / (int64_t)sn_size(l->real))))
        return op_fail(c, ACLNN_ERR_INNER, "self holds values that are not finite");
    char *u = op_scratch(c, (size_t)(all * us) + 64), *v = op_scratch(c, (size_t)(all * vs) + 64);
    for (int64_t i = 0; i < all && k; i++) {
        int bad = l->svd(vectors ? full ? 'A' : 'S' : 'N', (int)m, (int)n, a + i * m * n * size,
                         s + i * k * (int64_t)sn_size(l->real), u + i * us, v + i * vs);
        if (bad)
            return op_fail(c, ACLNN_ERR_INNER, "matrix %lld of the batch %s", (long long)i,
                           bad > 0 ? "did not converge" : "holds values that are not numbers");
    }
    store(c, c->arg[3].t, l->real, s);
    if (!vectors) return 0;
    uv = columns(c->arg[4].t);
    store(c, &uv, l->type, u);
    store(c, c->arg[5].t, l->type, v); /* column-major v^T is row-major v */
    return 0;
}

/* ---- cross product ----------------------------------------------------------------------------------- */

static int check_cross(op_call *c)
{
    const aclTensor *a = c->arg[0].t, *b = c->arg[1].t;
    int64_t dim[SN_MAX_DIMS];
    int32_t rank, d;
    char as[256], bs[256];
    if (!sn_broadcast_shape(a, b, dim, &rank))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self %s and other %s do not broadcast",
                       sn_shape_str(a, as), sn_shape_str(b, bs));
    int rc = op_need_dim(c, c->arg[2].i, rank, &d);
    if (!rc) rc = op_need_same_dtype(c, 0, 1);
    if (!rc) rc = op_need_same_dtype(c, 0, 3);
    if (rc) return rc;
    if (a->rank != b->rank || rank < 1 || a->dim[d] != 3 || b->dim[d] != 3)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dimension %d of self %s and other %s must be 3", d,
                       sn_shape_str(a, as), sn_shape_str(b, bs));
    c->plan[0] = sn_compute(sn_promote(a->dtype, b->dtype));
    if (sn_is_integral((aclDataType)c->plan[0])) c->plan[0] = ACL_INT64;
    c->plan[1] = d;
    return op_need_shape(c, 3, dim, rank);
}

struct cross {
    int64_t inner;
    const void *a, *b;
    void *y;
};
#define CROSS(T, name)                                                                                       \
    static void cross_##name(void *ctx, int64_t begin, int64_t end)                                          \
    {                                                                                                        \
        const struct cross *j = ctx;                                                                         \
        int64_t n = j->inner;                                                                                \
        for (int64_t i = begin; i < end; i++) {                                                              \
            int64_t at = i / n * 3 * n + i % n;                                                              \
            const T *a = (const T *)j->a + at, *b = (const T *)j->b + at;                                    \
            T *y = (T *)j->y + at;                                                                           \
            y[0] = a[n] * b[2 * n] - a[2 * n] * b[n];                                                        \
            y[n] = a[2 * n] * b[0] - a[0] * b[2 * n];                                                        \
            y[2 * n] = a[0] * b[n] - a[n] * b[0];                                                            \
        }                                                                                                    \
    }
CROSS(float, f32)
CROSS(double, f64)
CROSS(float _Complex, c64)
CROSS(double _Complex, c128)
CROSS(uint64_t, i64)

static int run_cross(op_call *c)
{
    aclDataType type = (aclDataType)c->plan[0];
    const aclTensor *out = c->arg[3].t;
    aclTensor a, b;
    if (sn_numel(out) == 0) return 0;
    struct cross j = {.inner = 1};
    for (int32_t d = (int32_t)c->plan[1] + 1; d < out->rank; d++) j.inner *= out->dim[d];
    sn_expand(c->arg[0].t, out->dim, out->rank, &a);
    sn_expand(c->arg[1].t, out->dim, out->rank, &b);
    j.a = op_in(c, &a, type), j.b = op_in(c, &b, type), j.y = op_out_scratch(c, out, type);
    void (*fn)(void *, int64_t, int64_t) = type == ACL_FLOAT       ? cross_f32
                                           : type == ACL_DOUBLE    ? cross_f64
                                           : type == ACL_COMPLEX64 ? cross_c64
                                           : type == ACL_INT64     ? cross_i64
                                                                   : cross_c128;
    rt_pool_run(sn_numel(out) / 3, 1 << 13, fn, &j);
    op_out_done(c, out, type, j.y);
    return 0;
}

#define OP_FILE "softnpu/op/linalg.inc"
#define OP_TABLE op_rows_linalg
#include "softnpu/op/rows.h"
