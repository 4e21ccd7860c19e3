/* pool.c - pooling and its gradients: windows per dimension, one plane a piece. */
#include "softnpu/kernel/pool.h"
#include "softnpu/op/op.h"

#include <string.h>

/* Where an operator's arguments stand; -1: it has none. "in" is the large side (self or its gradient), "out"
 * the pooled side (the result or its gradient). */
struct pool {
    int8_t spatial;
    int8_t self;           /* gives the large shape */
    int8_t in, out, index; /* buffers */
    int8_t kernel;         /* kernel, stride, padding follow each other; -1: adaptive */
    int8_t ceil, include, divisor;
    int8_t size;        /* adaptive: output size array */
    bool dilated, mask; /* kernel is followed by a dilation; the index is the opaque mask */
};
static const struct pool max_2d_mask = {2, 0, 0, 6, 7, 1, 5, -1, -1, -1, true, true};
static const struct pool max_2d = {2, 0, 0, 6, 7, 1, 5, -1, -1, -1, true, false};
static const struct pool max_3d = {3, 0, 0, 6, 7, 1, 5, -1, -1, -1, true, false};
static const struct pool max_2d_mask_back = {2, 1, 8, 0, 2, 3, 7, -1, -1, -1, true, true};
static const struct pool max_2d_back = {2, 1, 8, 0, 2, 3, 7, -1, -1, -1, true, false};
static const struct pool max_3d_back = {3, 1, 8, 0, 2, 3, 7, -1, -1, -1, true, false};
static const struct pool avg_2d = {2, 0, 0, 8, -1, 1, 4, 5, 6, -1, false, false};
static const struct pool avg_3d = {3, 0, 0, 7, -1, 1, 4, 5, 6, -1, false, false};
static const struct pool avg_2d_back = {2, 1, 9, 0, -1, 2, 5, 6, 7, -1, false, false};
static const struct pool avg_3d_back = {3, 1, 8, 0, -1, 2, 5, 6, 7, -1, false, false};
static const struct pool adaptive_avg_2d = {2, 0, 0, 2, -1, -1, -1, -1, -1, 1, false, false};
static const struct pool adaptive_avg_3d = {3, 0, 0, 2, -1, -1, -1, -1, -1, 1, false, false};
static const struct pool adaptive_avg_2d_back = {2, 1, 2, 0, -1, -1, -1, -1, -1, -1, false, false};
static const struct pool adaptive_avg_3d_back = {3, 1, 2, 0, -1, -1, -1, -1, -1, -1, false, false};
static const struct pool adaptive_max_2d = {2, 0, 0, 2, 3, -1, -1, -1, -1, 1, false, false};
static const struct pool adaptive_max_3d = {3, 0, 0, 2, 3, -1, -1, -1, -1, 1, false, false};
static const struct pool adaptive_max_2d_back = {2, 1, 3, 0, 2, -1, -1, -1, -1, -1, false, false};
static const struct pool adaptive_max_3d_back = {3, 1, 3, 0, 2, -1, -1, -1, -1, -1, false, false};
static const struct pool unpool_2d = {2, 3, 3, 0, 1, -1, -1, -1, -1, 2, false, false};
static const struct pool unpool_3d = {3, 5, 5, 0, 1, -1, -1, -1, -1, 2, false, false};

/* ---- checks ------------------------------------------------------------------------------------------ */

struct window_args {
    int64_t kernel, stride, pad, dilation;
};

/* Value for spatial dimension i (of n) of an array that may hold one for all. */
static int64_t pick(const aclIntArray *a, int i)
{
    return a->v[a->n == 1 ? 0 : i];
}

static struct window_args window_args(const op_call *c, const struct pool *p, int i)
{
    const aclIntArray *k = c->arg[p->kernel].ia, *s = c->arg[p->kernel + 1].ia,
                      *pad = c->arg[p->kernel + 2].ia;
    struct window_args w = {pick(k, i), s->n ? pick(s, i) : pick(k, i), pick(pad, i), 1};
    if (p->dilated) w.dilation = pick(c->arg[p->kernel + 3].ia, i);
    return w;
}

static int check_array(const op_call *c, const struct pool *p, int arg, int64_t least, bool may_be_empty)
{
    const aclIntArray *a = c->arg[arg].ia;
    if (!(may_be_empty && a->n == 0) && a->n != 1 && (int64_t)a->n != p->spatial)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d values, expected %d", c->row->param[arg].name,
                       (int)a->n, p->spatial);
    for (uint64_t i = 0; i < a->n; i++)
        if (a->v[i] < least || a->v[i] > INT32_MAX)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s value %lld is outside [%lld, %d]",
                           c->row->param[arg].name, (long long)a->v[i], (long long)least, INT32_MAX);
    return 0;
}

static int check_windows(const op_call *c, const struct pool *p)
{
    int rc = check_array(c, p, p->kernel, 1, false);
    if (!rc) rc = check_array(c, p, p->kernel + 1, 1, true);
    if (!rc) rc = check_array(c, p, p->kernel + 2, 0, false);
    if (!rc && p->dilated) rc = check_array(c, p, p->kernel + 3, 1, false);
    for (int i = 0; !rc && i < p->spatial; i++) {
        struct window_args w = window_args(c, p, i);
        if (w.dilation != 1 && !rt_settings()->accept_any)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dilation %lld: a 910B takes 1 only",
                           (long long)w.dilation);
        if (w.pad > w.kernel / 2)
            rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "padding %lld is more than half of kernel size %lld",
                         (long long)w.pad, (long long)w.kernel);
    }
    return rc;
}

/* torch's pooling output size: a window must start inside the input or its left padding. */
static int64_t pooled(int64_t in, const struct window_args *w, bool ceil_mode)
{
    int64_t room = in + 2 * w->pad - w->dilation * (w->kernel - 1) - 1;
    if (room < 0 && !(ceil_mode && room + w->stride - 1 >= 0)) return 0;
    int64_t out = (room + (ceil_mode ? w->stride - 1 : 0)) / w->stride + 1;
    if (ceil_mode && (out - 1) * w->stride >= in + w->pad) out--;
    return out;
}

/* The pooled side's shape from the large side's; its spatial sizes from size(i). */
static int check_pooled(op_call *c, const struct pool *p, const int64_t *size)
{
    const aclTensor *self = c->arg[p->self].t;
    int64_t dim[SN_MAX_DIMS];
    char ss[256];
    if (self->rank != p->spatial + 1 && self->rank != p->spatial + 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected %d or %d",
                       c->row->param[p->self].name, self->rank, p->spatial + 1, p->spatial + 2);
    memcpy(dim, self->dim, sizeof dim);
    for (int i = 0; i < p->spatial; i++) {
        if (size[i] < 1 || self->dim[self->rank - p->spatial + i] < 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s is too small for its window",
                           c->row->param[p->self].name, sn_shape_str(self, ss));
        dim[self->rank - p->spatial + i] = size[i];
    }
    int rc = op_need_shape(c, p->out, dim, self->rank);
    if (!rc && p->index >= 0 && !p->mask) rc = op_need_shape(c, p->index, dim, self->rank);
    return rc ? rc : p->in == p->self ? 0 : op_need_shape(c, p->in, self->dim, self->rank);
}

static int64_t planes_of(const aclTensor *t, int spatial)
{
    int64_t n = 1;
    for (int32_t d = 0; d < t->rank - spatial; d++) n *= t->dim[d];
    return n;
}
static int64_t plane_of(const aclTensor *t, int spatial)
{
    int64_t n = 1;
    for (int32_t d = t->rank - spatial; d < t->rank; d++) n *= t->dim[d];
    return n;
}

static int check_types(op_call *c, const struct pool *p)
{
    const aclTensor *in = c->arg[p->in].t, *out = c->arg[p->out].t;
    aclDataType t = sn_compute(sn_promote(in->dtype, out->dtype));
    bool whole = sn_is_integral(t) && p->index >= 0 && t != ACL_BOOL;
    if (t != ACL_FLOAT && t != ACL_DOUBLE && !whole)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is not pooled", sn_dtype(in->dtype)->name);
    c->plan[0] = whole ? ACL_INT64 : t;
    if (plane_of(in, p->spatial) > INT32_MAX)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "a plane has more than 2147483647 elements");
    return 0;
}

static int check_avg(op_call *c)
{
    const struct pool *p = c->row->aux;
    int64_t size[3];
    int rc = check_windows(c, p);
    if (rc) return rc;
    const aclTensor *self = c->arg[p->self].t;
    for (int i = 0; i < p->spatial && self->rank >= p->spatial; i++) {
        struct window_args w = window_args(c, p, i);
        size[i] = pooled(self->dim[self->rank - p->spatial + i], &w, c->arg[p->ceil].i);
    }
    rc = check_pooled(c, p, size);
    return rc ? rc : check_types(c, p);
}

/* The mask has kernel size rows of (outputs/16 + 1) * 32 bytes a plane; ours holds an int32 an output, which
 * fits as soon as the window has two elements. */
static int check_max(op_call *c)
{
    const struct pool *p = c->row->aux;
    int rc = check_avg(c);
    if (rc || !p->mask) return rc;
    const aclTensor *out = c->arg[p->out].t;
    int64_t dim[SN_MAX_DIMS];
    memcpy(dim, out->dim, sizeof dim);
    struct window_args h = window_args(c, p, 0), w = window_args(c, p, 1);
    dim[out->rank - 2] = h.kernel * w.kernel;
    dim[out->rank - 1] = ((plane_of(out, 2) + 15) / 16 + 1) * 32;
    return op_need_shape(c, p->index, dim, out->rank);
}

static int check_adaptive(op_call *c)
{
    const struct pool *p = c->row->aux;
    const aclTensor *out = c->arg[p->out].t;
    int64_t size[3];
    int rc = p->size >= 0 ? check_array(c, p, p->size, 0, false) : 0;
    if (rc) return rc;
    for (int i = 0; i < p->spatial; i++)
        size[i] = p->size >= 0              ? pick(c->arg[p->size].ia, i)
                  : out->rank >= p->spatial ? out->dim[out->rank - p->spatial + i]
                                            : 0;
    rc = check_pooled(c, p, size);
    return rc ? rc : check_types(c, p);
}

/* ---- windows ----------------------------------------------------------------------------------------- */

static void fixed_windows(const struct window_args *a, int64_t in, int64_t n, bool include,
                          struct pool_window *w)
{
    for (int64_t o = 0; o < n; o++) {
        int64_t start = o * a->stride - a->pad, end = start + a->dilation * (a->kernel - 1) + 1;
        int64_t padded = end < in + a->pad ? end : in + a->pad;
        w[o].step = a->dilation;
        w[o].lo = start >= 0 ? start : start + (-start + a->dilation - 1) / a->dilation * a->dilation;
        w[o].hi = end < in ? end : in;
        w[o].span = include ? padded - start : w[o].hi - w[o].lo;
    }
}

static void adaptive_windows(int64_t in, int64_t n, struct pool_window *w)
{
    for (int64_t o = 0; o < n; o++) {
        w[o].lo = o * in / n;
        w[o].hi = ((o + 1) * in + n - 1) / n;
        w[o].step = 1;
        w[o].span = w[o].hi - w[o].lo;
    }
}

static struct pool_geom make_geom(op_call *c, const struct pool *p)
{
    const aclTensor *in = c->arg[p->in].t, *out = c->arg[p->out].t;
    struct pool_geom g = {.divisor = p->divisor >= 0 ? (double)c->arg[p->divisor].i : 0};
    for (int d = 0; d < 3; d++) {
        int i = d - (3 - p->spatial);
        g.in[d] = i < 0 ? 1 : in->dim[in->rank - p->spatial + i];
        g.out[d] = i < 0 ? 1 : out->dim[out->rank - p->spatial + i];
        struct pool_window *w = op_scratch(c, (size_t)g.out[d] * sizeof *w + 1);
        if (i >= 0 && p->kernel >= 0) {
            struct window_args a = window_args(c, p, i);
            fixed_windows(&a, g.in[d], g.out[d], p->include >= 0 && c->arg[p->include].i, w);
        } else
            adaptive_windows(g.in[d], g.out[d], w);
        g.window[d] = w;
    }
    return g;
}

/* ---- running ----------------------------------------------------------------------------------------- */

struct job {
    struct pool_geom g;
    int type; /* POOL_* */
    size_t size;
    int64_t planes, in_plane, out_plane, index_plane; /* index_plane in int32 */
    char *in, *out;
    int32_t *index;
    bool bad_index;
};

static int pool_type(aclDataType t)
{
    return t == ACL_FLOAT ? POOL_F32 : t == ACL_DOUBLE ? POOL_F64 : POOL_I64;
}

static struct job make_job(op_call *c, const struct pool *p)
{
    aclDataType type = (aclDataType)c->plan[0];
    struct job j = {.g = make_geom(c, p), .type = pool_type(type), .size = sn_size(type)};
    j.in_plane = plane_of(c->arg[p->in].t, p->spatial), j.out_plane = plane_of(c->arg[p->out].t, p->spatial);
    j.index_plane = j.out_plane;
    j.planes = planes_of(c->arg[p->out].t, p->spatial);
    return j;
}

static void split_planes(struct job *j, void (*fn)(void *, int64_t, int64_t))
{
    int64_t work = j->in_plane + j->out_plane;
    rt_pool_run(j->planes, (1 << 14) / (work + 1) + 1, fn, j);
}

static char *in_at(const struct job *j, int64_t i)
{
    return j->in + (size_t)(i * j->in_plane) * j->size;
}
static char *out_at(const struct job *j, int64_t i)
{
    return j->out + (size_t)(i * j->out_plane) * j->size;
}

static void max_piece(void *ctx, int64_t begin, int64_t end)
{
    struct job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        pool_kernels()->max[j->type](&j->g, in_at(j, i), out_at(j, i), j->index + i * j->out_plane);
}

static void average_piece(void *ctx, int64_t begin, int64_t end)
{
    struct job *j = ctx;
    for (int64_t i = begin; i < end; i++) pool_kernels()->average[j->type](&j->g, in_at(j, i), out_at(j, i));
}

static void average_back_piece(void *ctx, int64_t begin, int64_t end)
{
    struct job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        memset(in_at(j, i), 0, (size_t)j->in_plane * j->size);
        pool_kernels()->average_back[j->type](&j->g, out_at(j, i), in_at(j, i));
    }
}

/* in[index] += out (gradients) or = out (unpooling). */
#define SCATTER(T, name)                                                                                     \
    static bool scatter_##name(const struct job *j, int64_t i, bool add)                                     \
    {                                                                                                        \
        T *in = (T *)(void *)in_at(j, i);                                                                    \
        const T *out = (const T *)(const void *)out_at(j, i);                                                \
        const int32_t *index = j->index + i * j->out_plane;                                                  \
        bool good = true;                                                                                    \
        for (int64_t o = 0; o < j->out_plane; o++) {                                                         \
            if (index[o] < 0 || index[o] >= j->in_plane)                                                     \
                good = false;                                                                                \
            else                                                                                             \
                in[index[o]] = add ? in[index[o]] + out[o] : out[o];                                         \
        }                                                                                                    \
        return good;                                                                                         \
    }
SCATTER(float, f32)
SCATTER(double, f64)
SCATTER(int64_t, i64)
static bool (*const scatter[POOL_TYPES])(const struct job *, int64_t, bool) = {scatter_f32, scatter_f64,
                                                                               scatter_i64};

static void scatter_planes(struct job *j, int64_t begin, int64_t end, bool add)
{
    for (int64_t i = begin; i < end; i++) {
        memset(in_at(j, i), 0, (size_t)j->in_plane * j->size);
        if (!scatter[j->type](j, i, add)) __atomic_store_n(&j->bad_index, true, __ATOMIC_RELAXED);
    }
}
static void add_piece(void *ctx, int64_t begin, int64_t end)
{
    scatter_planes(ctx, begin, end, true);
}
static void put_piece(void *ctx, int64_t begin, int64_t end)
{
    scatter_planes(ctx, begin, end, false);
}

/* The opaque mask: each plane starts with its outputs' indices as int32. A window of one element needs none.
 */
static int64_t mask_plane(const aclTensor *mask)
{
    return mask->dim[mask->rank - 1] * mask->dim[mask->rank - 2];
}

static void store_mask(op_call *c, const struct pool *p, const struct job *j)
{
    const aclTensor *t = c->arg[p->index].t;
    int64_t bytes = mask_plane(t), used = j->out_plane * (int64_t)sizeof *j->index;
    char *mask = op_out(c, t, t->dtype);
    for (int64_t i = 0; i < j->planes; i++) {
        int64_t n = used < bytes ? used : 0;
        memcpy(mask + i * bytes, j->index + i * j->out_plane, (size_t)n);
        memset(mask + i * bytes + n, 0, (size_t)(bytes - n));
    }
    op_out_done(c, t, t->dtype, mask);
}

/* A window of one element: the index follows from the output's position. */
static void only_index(const struct job *j, int32_t *index)
{
    const struct pool_geom *g = &j->g;
    for (int64_t o = 0; o < j->out_plane; o++) {
        int64_t h = g->window[1][o / g->out[2]].lo, w = g->window[2][o % g->out[2]].lo;
        index[o] = (int32_t)(h * g->in[2] + w);
    }
}

static int32_t *load_mask(op_call *c, const struct pool *p, const struct job *j)
{
    const aclTensor *t = c->arg[p->index].t;
    int64_t bytes = mask_plane(t), used = j->out_plane * (int64_t)sizeof *j->index;
    const char *mask = op_in(c, t, t->dtype);
    int32_t *index = op_scratch(c, (size_t)(j->planes * used) + 1);
    for (int64_t i = 0; i < j->planes; i++)
        if (used < bytes)
            memcpy(index + i * j->out_plane, mask + i * bytes, (size_t)used);
        else
            only_index(j, index + i * j->out_plane);
    return index;
}

static int run_max(op_call *c)
{
    const struct pool *p = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    struct job j = make_job(c, p);
    if (j.planes * j.out_plane == 0) return 0;
    const aclTensor *index = c->arg[p->index].t;
    j.in = op_in(c, c->arg[p->in].t, type);
    j.out = op_out(c, c->arg[p->out].t, type);
    j.index = p->mask ? op_scratch(c, (size_t)(j.planes * j.out_plane) * sizeof *j.index)
                      : op_out(c, index, ACL_INT32);
    split_planes(&j, max_piece);
    op_out_done(c, c->arg[p->out].t, type, j.out);
    if (p->mask)
        store_mask(c, p, &j);
    else
        op_out_done(c, index, ACL_INT32, j.index);
    return 0;
}

static int run_scatter(op_call *c, void (*piece)(void *, int64_t, int64_t))
{
    const struct pool *p = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    struct job j = make_job(c, p);
    if (j.planes * j.in_plane == 0) return 0;
    j.out = op_in(c, c->arg[p->out].t, type);
    j.in = op_out(c, c->arg[p->in].t, type);
    j.index = p->mask ? load_mask(c, p, &j) : op_in(c, c->arg[p->index].t, ACL_INT32);
    split_planes(&j, piece);
    op_out_done(c, c->arg[p->in].t, type, j.in);
    if (j.bad_index)
        return op_fail(c, ACLNN_ERR_INNER, "%s holds an index outside its plane",
                       c->row->param[p->index].name);
    return 0;
}

static int run_max_back(op_call *c)
{
    return run_scatter(c, add_piece);
}

static int run_avg(op_call *c)
{
    const struct pool *p = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    struct job j = make_job(c, p);
    if (j.planes * j.out_plane == 0) return 0;
    j.in = op_in(c, c->arg[p->in].t, type);
    j.out = op_out(c, c->arg[p->out].t, type);
    split_planes(&j, average_piece);
    op_out_done(c, c->arg[p->out].t, type, j.out);
    return 0;
}

static int run_avg_back(op_call *c)
{
    const struct pool *p = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    struct job j = make_job(c, p);
    if (j.planes * j.in_plane == 0) return 0;
    j.out = op_in(c, c->arg[p->out].t, type);
    j.in = op_out(c, c->arg[p->in].t, type);
    split_planes(&j, average_back_piece);
    op_out_done(c, c->arg[p->in].t, type, j.in);
    return 0;
}

/* ---- unpooling: self goes where the indices say, zeros elsewhere ------------------------------------- */

static int check_unpool(op_call *c)
{
    const struct pool *p = c->row->aux;
    const aclTensor *self = c->arg[p->out].t;
    int64_t dim[SN_MAX_DIMS];
    int rc = check_array(c, p, p->size, 1, false);
    if (rc) return rc;
    if (self->rank != p->spatial + 1 && self->rank != p->spatial + 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self has %d dimensions, expected %d or %d", self->rank,
                       p->spatial + 1, p->spatial + 2);
    memcpy(dim, self->dim, sizeof dim);
    for (int i = 0; i < p->spatial; i++) dim[self->rank - p->spatial + i] = pick(c->arg[p->size].ia, i);
    rc = op_need_shape(c, p->in, dim, self->rank);
    if (!rc) rc = op_need_same_shape(c, p->out, p->index);
    return rc ? rc : check_types(c, p);
}

static int run_unpool(op_call *c)
{
    return run_scatter(c, put_piece);
}

#define OP_FILE "softnpu/op/pool.inc"
#define OP_TABLE op_rows_pool
#include "softnpu/op/rows.h"
