/* random.c - operators that draw random numbers. */
#include "softnpu/op/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the stream's arguments begin. */
static const int8_t seeds_1 = 1, seeds_2 = 2, seeds_3 = 3;
static int seed_arg(const op_call *c)
{
    return *(const int8_t *)c->row->aux;
}

struct draw {
    struct random_stream stream;
    double from, to, last; /* last: the largest number of the output's type below `to` */
    int64_t low;
    uint64_t range, threshold;
    int bits;
};

static int draw_into(op_call *c, const aclTensor *out, aclDataType as, ew_fn fn, const struct draw *d)
{
    struct ew_operand operand = {out, as, NULL};
    return ew_run(c, &operand, 1, 0, fn, d);
}

/* ---- uniform ----------------------------------------------------------------------------------------- */

static int check_uniform(op_call *c)
{
    double from = c->arg[1].d, to = c->arg[2].d;
    if (!isfinite(from) || !isfinite(to) || from > to)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "from %g must not be above to %g, and both finite", from,
                       to);
    return 0;
}

/* Significant bits of a type: as many random bits as a number in [0, 1) can hold. */
static int significant_bits(aclDataType t)
{
    return t == ACL_BF16 ? 8 : t == ACL_FLOAT16 ? 11 : 24;
}

/* The largest number of type t below x. */
static double below(aclDataType t, double x)
{
    int e;
    if (t == ACL_DOUBLE) return nextafter(x, -INFINITY);
    if (t == ACL_FLOAT) {
        float f = (float)x;
        return (double)f < x ? f : nextafterf(f, -INFINITY);
    }
    int bits = significant_bits(t), least = t == ACL_FLOAT16 ? -13 : -125;
    if (x == 0) return -ldexp(1, least - bits);
    frexp(x, &e);
    double unit = ldexp(1, (e < least ? least : e) - bits), down = floor(x / unit) * unit;
    if (down < x) return down;
    return frexp(x, &e) == 0.5 && e > least ? x - unit / 2 : x - unit;
}

static void uniform_f32_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct draw *d = ctx;
    float *out = p[0], from = (float)d->from, range = (float)(d->to - d->from), last = (float)d->last;
    random_kernels()->uniform_f32(out, index, n, d->stream, d->bits);
    for (int64_t i = 0; i < n; i++) {
        float x = from + out[i] * range;
        out[i] = x < last ? x : last;
    }
}
static void uniform_f64_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct draw *d = ctx;
    double *out = p[0];
    random_kernels()->uniform_f64(out, index, n, d->stream);
    for (int64_t i = 0; i < n; i++) {
        double x = d->from + out[i] * (d->to - d->from);
        out[i] = x < d->last ? x : d->last;
    }
}

static int run_uniform(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    struct draw d = {.stream = stream_of(c, seed_arg(c)),
                     .from = c->arg[1].d,
                     .to = c->arg[2].d,
                     .bits = significant_bits(self->dtype)};
    bool wide = self->dtype == ACL_DOUBLE || sn_is_integral(self->dtype);
    d.last = sn_is_float(self->dtype) ? below(self->dtype, d.to) : nextafter(d.to, -INFINITY);
    if (d.last < d.from) d.last = d.from;
    return draw_into(c, self, wide ? ACL_DOUBLE : ACL_FLOAT, wide ? uniform_f64_block : uniform_f32_block,
                     &d);
}

/* ---- normal ------------------------------------------------------------------------------------------ */

static int need_deviation(op_call *c, double std)
{
    if (std >= 0) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "std %g must not be negative", std);
}
static int check_normal(op_call *c)
{
    return need_deviation(c, c->arg[2].d);
}

/* p[0] = mean + std * standard normal, mean and std elements of p[1] and p[2]. */
static void normal_f32_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    float *out = p[0], z[EW_BLOCK];
    const float *mean = p[1], *std = p[2];
    random_kernels()->normal_f32(z, index, n, ((const struct draw *)ctx)->stream);
    for (int64_t i = 0; i < n; i++) out[i] = mean[i] + std[i] * z[i];
}
static void normal_f64_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    double *out = p[0], z[EW_BLOCK];
    const double *mean = p[1], *std = p[2];
    random_kernels()->normal_f64(z, index, n, ((const struct draw *)ctx)->stream);
    for (int64_t i = 0; i < n; i++) out[i] = mean[i] + std[i] * z[i];
}

static int normal_into(op_call *c, const aclTensor *out, struct ew_operand mean, struct ew_operand std,
                       int seed)
{
    struct draw d = {.stream = stream_of(c, seed)};
    bool wide = out->dtype == ACL_DOUBLE || sn_is_integral(out->dtype);
    aclDataType as = wide ? ACL_DOUBLE : ACL_FLOAT;
    struct ew_operand operand[] = {{out, as, NULL}, mean, std};
    operand[1].as = operand[2].as = as;
    return ew_run(c, operand, 1, 2, wide ? normal_f64_block : normal_f32_block, &d);
}

static int run_normal(op_call *c)
{
    aclScalar mean = {.dtype = ACL_DOUBLE, .v.d = c->arg[1].d},
              std = {.dtype = ACL_DOUBLE, .v.d = c->arg[2].d};
    return normal_into(c, c->arg[0].t, (struct ew_operand){.scalar = &mean},
                       (struct ew_operand){.scalar = &std}, seed_arg(c));
}

static bool is_tensor(const op_call *c, int arg)
{
    return c->row->param[arg].kind == OPK_T;
}

static int check_normal_out(op_call *c)
{
    const aclTensor *out = c->arg[4].t;
    for (int i = 0; i < 2; i++) {
        aclTensor view;
        if (is_tensor(c, i) && !sn_expand(c->arg[i].t, out->dim, out->rank, &view))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s does not broadcast to out", c->row->param[i].name);
    }
    return is_tensor(c, 1) ? 0 : need_deviation(c, c->arg[1].d);
}

static int run_normal_out(op_call *c)
{
    struct ew_operand operand[2] = {{0}};
    aclScalar scalar[2];
    for (int i = 0; i < 2; i++) {
        scalar[i] = (aclScalar){.dtype = ACL_DOUBLE, .v.d = is_tensor(c, i) ? 0 : c->arg[i].d};
        if (is_tensor(c, i))
            operand[i].t = c->arg[i].t;
        else
            operand[i].scalar = &scalar[i];
    }
    return normal_into(c, c->arg[4].t, operand[0], operand[1], seed_arg(c));
}

/* ---- integers ---------------------------------------------------------------------------------------- */

static int check_random(op_call *c)
{
    int64_t from = c->arg[1].i, to = c->arg[2].i;
    if (from >= to)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "from %lld must be below to %lld", (long long)from,
                       (long long)to);
    return 0;
}

static void random_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct draw *d = ctx;
    uint64_t *out = p[0];
    random_kernels()->bounded(out, index, n, d->stream, d->range);
    for (int64_t i = 0; i < n; i++) out[i] += (uint64_t)d->low;
}

static int run_random(op_call *c)
{
    struct draw d = {.stream = stream_of(c, seed_arg(c)), .low = c->arg[1].i};
    d.range = (uint64_t)c->arg[2].i - (uint64_t)c->arg[1].i;
    return draw_into(c, c->arg[0].t, ACL_INT64, random_block, &d);
}

/* How many integers from 0 on a type holds exactly; negative numbers are never drawn. 0 stands for 2^64. */
static uint64_t whole_range(aclDataType t)
{
    if (t == ACL_BOOL) return 2;
    if (sn_is_float(t)) return (1ull << (t == ACL_DOUBLE ? 53 : significant_bits(t))) + 1;
    int bits = (int)sn_size(t) * 8 - (sn_dtype(t)->kind == SN_INT);
    return bits == 64 ? 0 : 1ull << bits;
}

static int run_random_whole(op_call *c)
{
    struct draw d = {.stream = stream_of(c, seed_arg(c)), .range = whole_range(c->arg[0].t->dtype)};
    return draw_into(c, c->arg[0].t, ACL_INT64, random_block, &d);
}

/* ---- bernoulli --------------------------------------------------------------------------------------- */

/* The output is the last argument, or self in place. */
static const aclTensor *bernoulli_out(const op_call *c)
{
    int last = c->row->nparam - 1;
    return c->row->param[last].kind == OPK_O ? c->arg[last].t : c->arg[0].t;
}

static int check_bernoulli(op_call *c)
{
    double p = sn_scalar_f64(c->arg[1].s);
    if (!(p >= 0 && p <= 1)) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "prob %g is outside [0, 1]", p);
    return bernoulli_out(c) == c->arg[0].t ? 0 : op_need_same_shape(c, 0, 4);
}

static void bernoulli_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct draw *d = ctx;
    uint8_t *out = p[0];
    uint32_t w[EW_BLOCK];
    random_kernels()->words(w, index, n, d->stream);
    for (int64_t i = 0; i < n; i++) out[i] = w[i] < d->threshold;
}

static int run_bernoulli(op_call *c)
{
    struct draw d = {.stream = stream_of(c, seed_arg(c))};
    d.threshold = (uint64_t)(sn_scalar_f64(c->arg[1].s) * 0x1p32);
    return draw_into(c, bernoulli_out(c), ACL_BOOL, bernoulli_block, &d);
}

static int check_bernoulli_tensor(op_call *c)
{
    const aclTensor *out = bernoulli_out(c);
    aclTensor view;
    if (!sn_expand(c->arg[1].t, out->dim, out->rank, &view))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "prob does not broadcast to the output");
    return out == c->arg[0].t ? 0 : op_need_same_shape(c, 0, 4);
}

static void bernoulli_tensor_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct draw *d = ctx;
    uint8_t *out = p[0];
    const double *prob = p[1];
    uint32_t w[EW_BLOCK];
    random_kernels()->words(w, index, n, d->stream);
    for (int64_t i = 0; i < n; i++) out[i] = (double)w[i] * 0x1p-32 < prob[i];
}

static int run_bernoulli_tensor(op_call *c)
{
    struct draw d = {.stream = stream_of(c, seed_arg(c))};
    struct ew_operand operand[] = {{bernoulli_out(c), ACL_BOOL, NULL}, {c->arg[1].t, ACL_DOUBLE, NULL}};
    return ew_run(c, operand, 1, 1, bernoulli_tensor_block, &d);
}

/* ---- exponential ------------------------------------------------------------------------------------- */

static int check_exponential(op_call *c)
{
    if (!(c->arg[2].d > 0))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "lambda %g must be positive", c->arg[2].d);
    if (c->arg[1].i < 0 || c->arg[1].i > sn_numel(c->arg[0].t))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "count %lld is not within selfRef",
                       (long long)c->arg[1].i);
    return 0;
}

static void exponential_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct draw *d = ctx;
    float *out = p[0], scale = (float)d->to;
    random_kernels()->exponential_f32(out, index, n, d->stream);
    for (int64_t i = 0; i < n; i++) out[i] *= scale;
}

/* The first count elements are drawn, the others stay. */
static int run_exponential(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t count = c->arg[1].i;
    struct draw d = {.stream = stream_of(c, seed_arg(c)), .to = 1 / c->arg[2].d};
    if (count == sn_numel(self)) return draw_into(c, self, ACL_FLOAT, exponential_block, &d);
    if (count == 0) return 0;
    float *all = op_in(c, self, ACL_FLOAT);
    exponential_block(count, (void *const[]){all}, 0, &d);
    op_out_done(c, self, ACL_FLOAT, all);
    return 0;
}

/* ---- randperm ---------------------------------------------------------------------------------------- */

static int check_randperm(op_call *c)
{
    if (c->arg[0].i < 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "n %lld is negative", (long long)c->arg[0].i);
    return op_need_shape(c, 3, &c->arg[0].i, 1);
}

/* Fisher and Yates: place i swaps with one of places i to n - 1. */
static int run_randperm(op_call *c)
{
    int64_t n = c->arg[0].i;
    struct random_stream s = stream_of(c, seed_arg(c));
    int64_t *out = op_scratch(c, (size_t)(n + 1) * sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t begin = 0; begin < n; begin += EW_BLOCK) {
        uint64_t u[EW_BLOCK];
        int64_t k = n - begin < EW_BLOCK ? n - begin : EW_BLOCK;
        random_kernels()->bounded(u, begin, k, s, 0);
        for (int64_t i = begin; i < begin + k; i++) {
            int64_t other = i + (int64_t)((unsigned __int128)u[i - begin] * (uint64_t)(n - i) >> 64),
                    t = out[i];
            out[i] = out[other];
            out[other] = t;
        }
    }
    if (n) op_out_done(c, c->arg[3].t, ACL_INT64, out);
    return 0;
}

/* ---- multinomial ------------------------------------------------------------------------------------- */

static int check_multinomial(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t samples = c->arg[1].i, want[2];
    if (self->rank < 1 || self->rank > 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self must have 1 or 2 dimensions, not %d",
                       (int)self->rank);
    int64_t kinds = self->dim[self->rank - 1];
    if (samples < 1 || kinds < 1 || (!c->arg[2].i && samples > kinds))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%lld samples cannot be drawn from %lld kinds",
                       (long long)samples, (long long)kinds);
    memcpy(want, self->dim, (size_t)self->rank * sizeof *want);
    want[self->rank - 1] = samples;
    return op_need_shape(c, c->row->nparam - 1, want, self->rank);
}

struct multinomial {
    op_call *call;
    const double *weight;
    int64_t kinds, samples, *out;
    struct random_stream stream;
    bool replacement;
    char *work; /* for each row: the running sums, or the keys and their order */
};

/* First place whose running sum lies above x. */
static int64_t find_above(const double *sum, int64_t n, double x)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (sum[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void with_replacement(const struct multinomial *m, int64_t row, double *sum)
{
    const double *weight = m->weight + row * m->kinds;
    int64_t *out = m->out + row * m->samples, last = 0;
    double total = 0;
    for (int64_t i = 0; i < m->kinds; i++) {
        sum[i] = total += weight[i];
        if (weight[i] > 0) last = i;
    }
    for (int64_t i = 0; i < m->samples; i++) {
        double u;
        random_kernels()->uniform_f64(&u, row * m->samples + i, 1, m->stream);
        int64_t at = find_above(sum, m->kinds, u * total);
        out[i] = at > last ? last : at; /* rounding may carry u * total to the very end */
    }
}

struct keyed {
    double key;
    int64_t kind;
};
static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->kind > y->kind) - (x->kind < y->kind);
}

/* Exponential clocks: a kind rings after E / weight, the first `samples` to ring are drawn in that order. */
static void without_replacement(const struct multinomial *m, int64_t row, struct keyed *clock)
{
    const double *weight = m->weight + row * m->kinds;
    for (int64_t i = 0; i < m->kinds; i++) {
        random_kernels()->exponential_f64(&clock[i].key, row * m->kinds + i, 1, m->stream);
        clock[i].key = weight[i] > 0 ? clock[i].key / weight[i] : INFINITY;
        clock[i].kind = i;
    }
    qsort(clock, (size_t)m->kinds, sizeof *clock, by_key);
    for (int64_t i = 0; i < m->samples; i++) m->out[row * m->samples + i] = clock[i].kind;
}

static void multinomial_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct multinomial *m = ctx;
    size_t bytes = (size_t)m->kinds * (m->replacement ? sizeof(double) : sizeof(struct keyed));
    for (int64_t row = begin; row < end; row++) {
        void *work = m->work + (size_t)row * bytes;
        if (m->replacement)
            with_replacement(m, row, work);
        else
            without_replacement(m, row, work);
    }
}

/* A row needs weights that are not negative, finite, and of a positive sum. */
static int need_weights(const struct multinomial *m, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < m->kinds; i++) {
            double w = m->weight[row * m->kinds + i];
            if (!(w >= 0 && isfinite(w)))
                return op_fail(m->call, ACL_ERROR_RT_AICORE_EXCEPTION,
                               "weight %g of kind %lld is negative or not finite", w, (long long)i);
            sum += w;
        }
        if (!(sum > 0))
            return op_fail(m->call, ACL_ERROR_RT_AICORE_EXCEPTION, "the weights add up to %g", sum);
    }
    return 0;
}

static int run_multinomial(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[c->row->nparam - 1].t;
    if (sn_numel(out) == 0) return 0;
    struct multinomial m = {.call = c, .kinds = self->dim[self->rank - 1], .samples = c->arg[1].i};
    int64_t rows = sn_numel(self) / m.kinds;
    m.replacement = c->arg[2].i;
    m.stream = stream_of(c, seed_arg(c));
    m.weight = op_in(c, self, ACL_DOUBLE);
    m.out = op_out(c, out, ACL_INT64);
    m.work =
        op_scratch(c, (size_t)(rows * m.kinds) * (m.replacement ? sizeof(double) : sizeof(struct keyed)));
    int r = need_weights(&m, rows);
    if (r) return r;
    rt_pool_run(rows, 1, multinomial_rows, &m);
    op_out_done(c, out, ACL_INT64, m.out);
    return 0;
}

#define OP_FILE "softnpu/op/random.inc"
#define OP_TABLE op_rows_random
#include "softnpu/op/rows.h"
