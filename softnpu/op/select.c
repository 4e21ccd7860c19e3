/* select.c - operators that pick elements by a mask: nonzero, masked_select, masked_scatter; one_hot. */
#include "softnpu/op/map_ops.h"

#include <string.h>

enum { CHUNK = 16384 }; /* elements that one task looks at */

/* ---- which elements a mask picks, by chunks ---------------------------------------------------------- */

struct picks {
    const uint8_t *mask;
    int64_t n, total;
    int64_t *before; /* picks before each chunk */
};

static void count_chunk(void *ctx, int64_t begin, int64_t end)
{
    const struct picks *p = ctx;
    int64_t k = 0;
    for (int64_t i = begin; i < end; i++) k += p->mask[i] != 0;
    p->before[begin / CHUNK] = k;
}

static struct picks picks_of(op_call *c, const aclTensor *mask)
{
    struct picks p = {.n = sn_numel(mask)};
    int64_t chunks = (p.n + CHUNK - 1) / CHUNK;
    if (p.n == 0) return p;
    p.mask = op_in(c, mask, ACL_BOOL);
    p.before = op_scratch(c, (size_t)chunks * sizeof *p.before);
    rt_pool_run(p.n, CHUNK, count_chunk, &p);
    for (int64_t i = 0; i < chunks; i++) {
        int64_t k = p.before[i];
        p.before[i] = p.total;
        p.total += k;
    }
    return p;
}

/* ---- nonzero ----------------------------------------------------------------------------------------- */

static const bool nonzero_rows = false, nonzero_columns = true; /* out is [n, rank] or [rank, n] */

struct nonzero_ctx {
    struct picks picks;
    const aclTensor *self;
    int64_t *out, pick_step, dim_step;
};

static void nonzero_chunk(void *ctx, int64_t begin, int64_t end)
{
    const struct nonzero_ctx *z = ctx;
    int64_t k = z->picks.before[begin / CHUNK];
    for (int64_t i = begin; i < end; i++) {
        if (!z->picks.mask[i]) continue;
        int64_t rest = i, *at = z->out + k * z->pick_step;
        for (int d = z->self->rank - 1; d >= 0; d--) {
            int64_t next = rest / z->self->dim[d];
            at[d * z->dim_step] = rest - next * z->self->dim[d];
            rest = next;
        }
        k++;
    }
}

static int check_nonzero(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[1].t;
    int64_t n = sn_numel(self);
    bool columns = *(const bool *)c->row->aux;
    int64_t want[2] = {columns ? self->rank : n, columns ? n : self->rank};
    /* For a scalar the plugin has looked at the value, and allocates no row for a zero. */
    if (self->rank == 0 && out->rank == 2 && out->dim[columns ? 1 : 0] == 0) want[columns ? 1 : 0] = 0;
    return out->dtype == ACL_INT64
               ? op_need_shape(c, 1, want, 2)
               : op_fail(c, ACLNN_ERR_PARAM_INVALID, "out must be INT64, not %s", sn_dtype(out->dtype)->name);
}

/* The first `rank` dimensions of out shrink to `dim`: its elements move from `data` to out, and its shape is
 * set. */
static void store_shrunk(op_call *c, int arg, aclDataType type, int32_t rank, const int64_t *dim, void *data)
{
    aclTensor from, to = *c->arg[arg].t;
    bool in_place = data == sn_data(&to);
    sn_wrap(&from, type, rank, dim, data);
    memcpy(to.dim, dim, (size_t)rank * sizeof *dim);
    if (!in_place && sn_numel(&from)) op_copy(c, &to, &from);
    op_out_shape(c, arg, rank, dim);
}

static int run_nonzero(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[1].t;
    bool columns = *(const bool *)c->row->aux;
    struct nonzero_ctx z = {.picks = picks_of(c, self), .self = self};
    int64_t total = z.picks.total;
    if (self->rank == 0 && out->dim[columns ? 1 : 0] < total)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out has no row for a self that is not zero");
    int64_t dim[2] = {columns ? self->rank : total, columns ? total : self->rank};
    z.out = sn_is_contiguous(out) ? sn_data(out)
                                  : op_scratch(c, (size_t)(total * self->rank + 1) * sizeof(int64_t));
    z.pick_step = columns ? 1 : self->rank;
    z.dim_step = columns ? total : 1;
    if (total) rt_pool_run(z.picks.n, CHUNK, nonzero_chunk, &z);
    store_shrunk(c, 1, ACL_INT64, 2, dim, z.out);
    return 0;
}

/* ---- masked_select, masked_scatter ------------------------------------------------------------------- */

struct masked_ctx {
    struct picks picks;
    char *all, *picked; /* elements under the mask; those it picks, packed */
    size_t size;
};

#define MASKED_MOVE(name, to, from, size)                                                                    \
    static void name(const struct masked_ctx *m, int64_t begin, int64_t end)                                 \
    {                                                                                                        \
        int64_t k = m->picks.before[begin / CHUNK];                                                          \
        for (int64_t i = begin; i < end; i++) {                                                              \
            if (!m->picks.mask[i]) continue;                                                                 \
            char *all = m->all + (size_t)i * (size), *picked = m->picked + (size_t)k++ * (size);             \
            memcpy(to, from, (size));                                                                        \
        }                                                                                                    \
    }
#define MASKED_MOVES(size)                                                                                   \
    MASKED_MOVE(select_##size, picked, all, size) MASKED_MOVE(spread_##size, all, picked, size)
MASKED_MOVES(1)
MASKED_MOVES(2)
MASKED_MOVES(4)
MASKED_MOVES(8)
MASKED_MOVES(16)
typedef void (*masked_fn)(const struct masked_ctx *m, int64_t begin, int64_t end);
static const masked_fn select_fn[] = {select_1, select_2, select_4, select_8, select_16},
                       spread_fn[] = {spread_1, spread_2, spread_4, spread_8, spread_16};

static void select_chunk(void *ctx, int64_t begin, int64_t end)
{
    const struct masked_ctx *m = ctx;
    select_fn[__builtin_ctz((unsigned)m->size)](m, begin, end);
}
static void spread_chunk(void *ctx, int64_t begin, int64_t end)
{
    const struct masked_ctx *m = ctx;
    spread_fn[__builtin_ctz((unsigned)m->size)](m, begin, end);
}

static int check_masked_select(op_call *c)
{
    int64_t dim[SN_MAX_DIMS], n = 1;
    int32_t rank;
    if (!sn_broadcast_shape(c->arg[0].t, c->arg[1].t, dim, &rank))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self and mask do not broadcast");
    for (int i = 0; i < rank; i++) n *= dim[i];
    int r = op_need_same_dtype(c, 0, 2);
    return r ? r : op_need_shape(c, 2, &n, 1);
}

static int run_masked_select(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    int64_t dim[SN_MAX_DIMS];
    int32_t rank = 0;
    aclTensor all, mask;
    sn_broadcast_shape(self, c->arg[1].t, dim, &rank);
    sn_expand(self, dim, rank, &all);
    sn_expand(c->arg[1].t, dim, rank, &mask);
    struct masked_ctx m = {.picks = picks_of(c, &mask), .size = sn_size(self->dtype)};
    bool direct = sn_is_contiguous(out) && !sn_overlap(out, self);
    m.picked = direct ? sn_data(out) : op_scratch(c, (size_t)(m.picks.total + 1) * m.size);
    if (m.picks.total) {
        m.all = op_in(c, &all, self->dtype);
        rt_pool_run(m.picks.n, CHUNK, select_chunk, &m);
    }
    store_shrunk(c, 2, self->dtype, 1, &m.picks.total, m.picked);
    return 0;
}

static int check_masked_scatter(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    aclTensor view;
    if (!sn_expand(c->arg[1].t, self->dim, self->rank, &view))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "mask does not broadcast to selfRef");
    return op_need_same_dtype(c, 0, 2);
}

static int run_masked_scatter(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *source = c->arg[2].t;
    aclTensor mask, hold;
    sn_expand(c->arg[1].t, self->dim, self->rank, &mask);
    struct masked_ctx m = {.picks = picks_of(c, &mask), .size = sn_size(self->dtype)};
    if (m.picks.total == 0) return 0;
    if (m.picks.total > sn_numel(source))
        return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION, "mask picks %lld elements, source has %lld",
                       (long long)m.picks.total, (long long)sn_numel(source));
    source = map_apart(c, source, self, &hold);
    m.picked = op_in(c, source, self->dtype);
    m.all = op_in(c, self, self->dtype);
    rt_pool_run(m.picks.n, CHUNK, spread_chunk, &m);
    op_out_done(c, self, self->dtype, m.all);
    return 0;
}

/* y = self * mask * scale, where mask holds 0 and 1 in any of its types. */
static int check_masked_scale(op_call *c)
{
    int r = op_need_same_shape(c, 0, 1);
    if (r || (r = op_need_same_shape(c, 0, 3))) return r;
    return op_need_same_dtype(c, 0, 3);
}

static void masked_scale_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    float *out = p[0], scale = *(const float *)ctx;
    const float *self = p[1], *mask = p[2];
    for (int64_t i = 0; i < n; i++) out[i] = self[i] * mask[i] * scale;
}

static int run_masked_scale(op_call *c)
{
    float scale = (float)c->arg[2].d;
    struct ew_operand operand[] = {
        {c->arg[3].t, ACL_FLOAT, NULL}, {c->arg[0].t, ACL_FLOAT, NULL}, {c->arg[1].t, ACL_FLOAT, NULL}};
    return ew_run(c, operand, 1, 2, masked_scale_block, &scale);
}

/* ---- one_hot ----------------------------------------------------------------------------------------- */

static int check_one_hot(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t classes = c->arg[1].i, axis = c->arg[4].i, want[SN_MAX_DIMS];
    int r = op_need_same_dtype(c, 2, 5);
    if (r || (r = op_need_same_dtype(c, 3, 5))) return r;
    if (classes < 0 || (classes == 0 && sn_numel(self) == 0))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "numClasses %lld is too small", (long long)classes);
    if (axis < -1 || axis > self->rank || self->rank + 1 > SN_MAX_DIMS)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "axis %lld is outside [-1, %d]", (long long)axis,
                       (int)self->rank);
    c->plan[0] = axis < 0 ? self->rank : axis;
    for (int i = 0; i <= self->rank; i++)
        want[i] = i < c->plan[0] ? self->dim[i] : i == c->plan[0] ? classes : self->dim[i - 1];
    return op_need_shape(c, 5, want, self->rank + 1);
}

static int run_one_hot(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[5].t;
    int64_t classes = c->arg[1].i, outer = 1, inner = 1;
    if (sn_numel(out) == 0) return 0;
    for (int i = 0; i < self->rank; i++) *(i < c->plan[0] ? &outer : &inner) *= self->dim[i];
    size_t size = sn_size(out->dtype);
    const int64_t *at = op_in(c, self, ACL_INT64);
    const char *on = op_in(c, c->arg[2].t, out->dtype), *off = op_in(c, c->arg[3].t, out->dtype);
    char *to = op_out(c, out, out->dtype);
    for (int64_t i = 0; i < outer * classes * inner; i++) memcpy(to + (size_t)i * size, off, size);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t k = at[o * inner + i];
            if (k >= 0 && k < classes) memcpy(to + (size_t)((o * classes + k) * inner + i) * size, on, size);
        }
    op_out_done(c, out, out->dtype, to);
    return 0;
}

#define OP_FILE "softnpu/op/select.inc"
#define OP_TABLE op_rows_select
#include "softnpu/op/rows.h"
