/* search.c - binary search in sorted rows, bincount and histogram. */
#include "softnpu/op/reduce.h"

#include <math.h>
#include <string.h>

struct search_spec {
    int8_t sequence, values, sorter, out; /* places of arguments; sorter 0: the operator has none */
    bool scalar;                          /* one value, an aclScalar */
};

static int check_search(op_call *c)
{
    const struct search_spec *s = c->row->aux;
    const aclTensor *seq = c->arg[s->sequence].t, *sorter = s->sorter ? c->arg[s->sorter].t : NULL;
    const aclTensor *out = c->arg[s->out].t, *values = s->scalar ? out : c->arg[s->values].t;
    bool want32 = c->arg[2].i;
    if (out->dtype != (want32 ? ACL_INT32 : ACL_INT64))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out is %s, outInt32 asks for %s",
                       sn_dtype(out->dtype)->name, want32 ? "INT32" : "INT64");
    if (sorter && !sn_same_shape(sorter, seq)) return op_need_same_shape(c, s->sequence, s->sorter);
    if (seq->rank < 1) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the sorted sequence has no dimension");
    if (s->scalar && seq->rank != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "the sorted sequence has %d dimensions, a scalar needs one", seq->rank);
    if (s->scalar && sn_numel(out) != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out needs exactly one element");
    bool rows = seq->rank == values->rank &&
                !memcmp(seq->dim, values->dim, sizeof *seq->dim * (size_t)(seq->rank - 1));
    char a[256], b[256];
    if (seq->rank != 1 && !rows)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "sequences %s and values %s differ before the last dimension", sn_shape_str(seq, a),
                       sn_shape_str(values, b));
    return s->scalar ? 0 : op_need_same_shape(c, s->values, s->out);
}

/* All of one type: double if anything is a float, int64 otherwise. */
struct search {
    const void *seq, *values;
    const int64_t *sorter;
    int64_t *out, n, per_row; /* per_row: values for each sequence, 0: one sequence for all */
    bool right;
};

/* First place that does not come before v; NaN comes after everything. */
#define SEARCH(name, T)                                                                                      \
    static void name(void *ctx, int64_t begin, int64_t end)                                                  \
    {                                                                                                        \
        const struct search *s = ctx;                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                              \
            int64_t row = s->per_row ? i / s->per_row * s->n : 0, low = 0, high = s->n;                      \
            const T *seq = (const T *)s->seq + row, v = ((const T *)s->values)[i];                           \
            while (low < high) {                                                                             \
                int64_t middle = low + (high - low) / 2;                                                     \
                T x = seq[s->sorter ? s->sorter[row + middle] : middle];                                     \
                bool before = s->right ? !(x > v) : !(x >= v);                                               \
                if (before)                                                                                  \
                    low = middle + 1;                                                                        \
                else                                                                                         \
                    high = middle;                                                                           \
            }                                                                                                \
            s->out[i] = low;                                                                                 \
        }                                                                                                    \
    }
SEARCH(search_f64, double)
SEARCH(search_i64, int64_t)

static int sorter_in_range(const op_call *c, const int64_t *sorter, int64_t count, int64_t n)
{
    for (int64_t i = 0; i < count; i++)
        if (sorter[i] < 0 || sorter[i] >= n)
            return op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "sorter holds %lld, no place of a sequence of %lld",
                           (long long)sorter[i], (long long)n);
    return 0;
}

static int run_search(op_call *c)
{
    enum { GRAIN = 1 << 12 };
    const struct search_spec *spec = c->row->aux;
    const aclTensor *seq = c->arg[spec->sequence].t, *sorter = spec->sorter ? c->arg[spec->sorter].t : NULL,
                    *out = c->arg[spec->out].t, *values = spec->scalar ? NULL : c->arg[spec->values].t;
    bool floats = sn_is_float(seq->dtype);
    double one[1];
    if (values)
        floats |= sn_is_float(values->dtype);
    else
        floats |= sn_is_float(c->arg[spec->values].s->dtype);
    aclDataType as = floats ? ACL_DOUBLE : ACL_INT64;
    struct search s = {.n = seq->dim[seq->rank - 1], .right = c->arg[3].i};
    s.seq = op_in(c, seq, as);
    if (values)
        s.values = op_in(c, values, as);
    else
        sn_scalar_store(c->arg[spec->values].s, as, one), s.values = one;
    if (values && seq->rank > 1)
        s.per_row = values->dim[values->rank - 1] ? values->dim[values->rank - 1] : 1;
    if (sorter) {
        s.sorter = op_in(c, sorter, ACL_INT64);
        int rc = sorter_in_range(c, s.sorter, sn_numel(sorter), s.n);
        if (rc) return rc;
    }
    s.out = op_out_scratch(c, out, ACL_INT64);
    rt_pool_run(sn_numel(out), GRAIN, floats ? search_f64 : search_i64, &s);
    op_out_done(c, out, ACL_INT64, s.out);
    return 0;
}

static const struct search_spec search_tensor = {.sequence = 0, .values = 1, .sorter = 4, .out = 5},
                                search_scalar = {.sequence = 0,
                                                 .values = 1,
                                                 .sorter = 4,
                                                 .out = 5,
                                                 .scalar = true},
                                search_bucket = {.sequence = 1, .values = 0, .out = 4};

/* ---- counts ----------------------------------------------------------------------------------------------
 */

static int check_bincount(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *weights = c->arg[1].t, *out = c->arg[3].t;
    if (weights && sn_numel(weights) != sn_numel(self)) return op_need_same_shape(c, 0, 1);
    if (out->rank == 1 && out->dim[0] >= c->arg[2].i) return 0;
    char shape[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out has shape %s, it needs at least minlength %lld bins",
                   sn_shape_str(out, shape), (long long)c->arg[2].i);
}

static int run_bincount(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[3].t;
    int64_t n = sn_numel(self), bins = out->dim[0];
    const int64_t *x = op_in(c, self, ACL_INT64);
    const double *weight = c->arg[1].t ? op_in(c, c->arg[1].t, ACL_DOUBLE) : NULL;
    double *sum = op_out_scratch(c, out, ACL_DOUBLE);
    memset(sum, 0, sizeof *sum * (size_t)bins);
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < 0 || x[i] >= bins)
            return op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "self holds %lld, no bin of %lld", (long long)x[i],
                           (long long)bins);
        sum[x[i]] += weight ? weight[i] : 1;
    }
    op_out_done(c, out, ACL_DOUBLE, sum);
    return 0;
}

static int check_histc(op_call *c)
{
    int64_t bins = c->arg[1].i;
    double low = sn_scalar_f64(c->arg[2].s), high = sn_scalar_f64(c->arg[3].s);
    if (bins < 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "bins is %lld, it must be positive", (long long)bins);
    if (!isfinite(low) || !isfinite(high) || low > high)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "[%g, %g] is no range", low, high);
    return op_need_shape(c, 4, &bins, 1);
}

/* The range of the data where none is given, widened if it is a point. */
static int data_range(op_call *c, double *low, double *high)
{
    const aclTensor *self = c->arg[0].t;
    if (*low == *high && sn_numel(self)) {
        static const enum red_op op[2] = {RED_MIN, RED_MAX};
        double *edge[2] = {low, high};
        for (int i = 0; i < 2; i++) {
            struct reduction what = {
                .self = self, .dims = (1u << self->rank) - 1, .as = ACL_DOUBLE, .op = op[i]};
            struct reduced r;
            int rc = reduce_run(c, &what, &r);
            if (rc) return rc;
            *edge[i] = *(double *)r.acc;
        }
    }
    if (!isfinite(*low) || !isfinite(*high))
        return op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "the data's range [%g, %g] is not finite", *low, *high);
    if (*low == *high) *low -= 1, *high += 1;
    return 0;
}

static int run_histc(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[4].t;
    int64_t n = sn_numel(self), bins = c->arg[1].i;
    double low = sn_scalar_f64(c->arg[2].s), high = sn_scalar_f64(c->arg[3].s);
    int rc = data_range(c, &low, &high);
    if (rc) return rc;
    const double *x = op_in(c, self, ACL_DOUBLE);
    int64_t *count = op_out_scratch(c, out, ACL_INT64);
    memset(count, 0, sizeof *count * (size_t)bins);
    bool narrow = sn_compute(self->dtype) == ACL_FLOAT; /* bin edges then round as CPU torch rounds them */
    for (int64_t i = 0; i < n; i++) {
        if (!(x[i] >= low && x[i] <= high)) continue;
        double at = narrow ? (double)(((float)x[i] - (float)low) * (float)bins / ((float)high - (float)low))
                           : (x[i] - low) * (double)bins / (high - low);
        /* a range too wide for the type puts what it cannot tell apart into the last bin */
        count[at < (double)bins ? (int64_t)at : bins - 1]++;
    }
    op_out_done(c, out, ACL_INT64, count);
    return 0;
}

#define OP_FILE "softnpu/op/search.inc"
#define OP_TABLE op_rows_search
#include "softnpu/op/rows.h"
