/* scatter.c - operators with an index for every element: gather, scatter and its reductions. */
#include "softnpu/op/map_ops.h"
#include "softnpu/kernel/line.h"

#include <string.h>

enum { GRAIN_PLACES = 8192 };

/* ---- lines over three tensors ------------------------------------------------------------------------ */

/* All lines of an index tensor. line holds what the lines share; at, table and dense are those of line 0. */
struct lines {
    struct line line;
    line_fn fn;
    int rank; /* of the dimensions other than the indexed one */
    int64_t dim[SN_MAX_DIMS], at_step[SN_MAX_DIMS], table_step[SN_MAX_DIMS], dense_step[SN_MAX_DIMS];
};

static void lines_part(void *ctx, int64_t begin, int64_t end)
{
    const struct lines *lines = ctx;
    for (int64_t l = begin; l < end; l++) {
        struct line line = lines->line;
        int64_t rest = l;
        for (int d = lines->rank - 1; d >= 0; d--) {
            int64_t next = rest / lines->dim[d], i = rest - next * lines->dim[d];
            line.at += i * lines->at_step[d];
            line.table += i * lines->table_step[d];
            line.dense += i * lines->dense_step[d];
            rest = next;
        }
        lines->fn(&line);
    }
}

static void lines_run(const struct lines *lines)
{
    int64_t n = 1, grain = lines->line.n ? GRAIN_PLACES / lines->line.n : 1;
    for (int d = 0; d < lines->rank; d++) n *= lines->dim[d];
    if (n && lines->line.n) rt_pool_run(n, grain ? grain : 1, lines_part, (void *)(uintptr_t)lines);
}

/* Index values of a call as row-major int64, all wrapped and within [0, size). */
static int lines_index(op_call *c, const aclTensor *index, int64_t size, struct lines *lines, int d)
{
    int64_t *values = NULL, step = 1;
    int r = map_values(c, index, size, &values);
    if (r) return r;
    aclTensor view = map_at_least_1d(index);
    memset(lines, 0, sizeof *lines);
    lines->line.at = values;
    lines->line.n = view.dim[d];
    lines->rank = view.rank - 1;
    for (int i = view.rank - 1; i >= 0; i--) {
        if (i == d) {
            lines->line.at_step = step;
        } else {
            int at = i > d ? i - 1 : i;
            lines->dim[at] = view.dim[i];
            lines->at_step[at] = step;
        }
        step *= view.dim[i];
    }
    return 0;
}

/* Sets base and steps (bytes) of one side from a tensor. */
static void lines_side(const aclTensor *t, int d, char **base, int64_t *line_step, int64_t *step)
{
    aclTensor view = map_at_least_1d(t);
    int64_t size = (int64_t)sn_size(t->dtype);
    *base = sn_data(t);
    *line_step = view.stride[d] * size;
    for (int i = 0; i < view.rank; i++)
        if (i != d) step[i > d ? i - 1 : i] = view.stride[i] * size;
}
static void lines_table(struct lines *lines, const aclTensor *t, int d)
{
    lines_side(t, d, &lines->line.table, &lines->line.table_step, lines->table_step);
}
static void lines_dense(struct lines *lines, const aclTensor *t, int d)
{
    lines_side(t, d, &lines->line.dense, &lines->line.dense_step, lines->dense_step);
}
/* One value on the dense side for all places. */
static void lines_value(struct lines *lines, const void *value)
{
    lines->line.dense = (char *)(uintptr_t)value;
    lines->line.dense_step = 0;
    memset(lines->dense_step, 0, sizeof lines->dense_step);
}

static int log_size(aclDataType t)
{
    return __builtin_ctz((unsigned)sn_size(t));
}

/* ---- gather ------------------------------------------------------------------------------------------ */

/* index is not larger than t in any dimension, dimension d excepted. */
static int need_within(op_call *c, int index, int arg, int d)
{
    aclTensor a = map_at_least_1d(c->arg[index].t), b = map_at_least_1d(c->arg[arg].t);
    char text[2][256];
    bool fits = a.rank == b.rank;
    for (int i = 0; fits && i < a.rank; i++) fits = i == d || a.dim[i] <= b.dim[i];
    if (fits) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "index %s does not fit %s %s", sn_shape_str(&a, text[0]),
                   c->row->param[arg].name, sn_shape_str(&b, text[1]));
}

static int check_gather(op_call *c)
{
    int32_t d;
    int r = op_need_dim(c, c->arg[1].i, c->arg[0].t->rank, &d);
    if (r || (r = op_need_same_dtype(c, 0, 3)) || (r = op_need_same_shape(c, 2, 3))) return r;
    c->plan[0] = d;
    return sn_numel(c->arg[2].t) ? need_within(c, 2, 0, d) : 0;
}

static int run_gather(op_call *c)
{
    const aclTensor *index = c->arg[2].t, *out = c->arg[3].t;
    int d = (int)c->plan[0];
    if (sn_numel(index) == 0) return 0;
    aclTensor hold;
    struct lines lines;
    const aclTensor *self = map_apart(c, c->arg[0].t, out, &hold);
    int r = lines_index(c, index, map_at_least_1d(self).dim[d], &lines, d);
    if (r) return r;
    lines_table(&lines, self, d);
    lines_dense(&lines, out, d);
    lines.fn = line_kernels()->gather[log_size(self->dtype)];
    lines_run(&lines);
    return 0;
}

/* ---- scatter and its reductions ---------------------------------------------------------------------- */

/* Codes of the reduce argument (public documents of aclnnScatter and aclnnScatterReduce). */
enum { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN, REDUCE_MEAN, REDUCE_CODES };
static const uint8_t reduce_op[REDUCE_CODES] = {MAP_SET, MAP_ADD, MAP_MUL, MAP_MAX, MAP_MIN, MAP_ADD};

/* Where arguments stand after (self, dim, index, src or value); -1: there is none. */
struct scatter {
    int8_t reduce, include_self, out;
};
static const struct scatter scatter = {4, -1, 5}, scatter_inplace = {4, -1, -1}, scatter_add = {-1, -1, 4},
                            scatter_reduce = {4, 5, 6}, scatter_reduce_inplace = {4, 5, -1};

static int64_t reduce_code(const op_call *c)
{
    const struct scatter *s = c->row->aux;
    return s->reduce < 0 ? REDUCE_ADD : c->arg[s->reduce].i;
}

static bool source_is_tensor(const op_call *c)
{
    return c->row->param[3].kind == OPK_T;
}

static int check_scatter_source(op_call *c)
{
    if (!source_is_tensor(c)) {
        const aclScalar *value = c->arg[3].s;
        aclDataType self = c->arg[0].t->dtype;
        if (sn_is_complex(value->dtype) && !sn_is_complex(self))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "value of type %s cannot be cast to self's type %s",
                           sn_dtype(value->dtype)->name, sn_dtype(self)->name);
        return 0;
    }
    int r = op_need_same_dtype(c, 0, 3);
    return r || sn_numel(c->arg[2].t) == 0 ? r : need_within(c, 2, 3, -1);
}

static int check_scatter_codes(op_call *c, int64_t codes)
{
    int64_t reduce = reduce_code(c);
    if (reduce < 0 || reduce >= codes)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduce code %lld is not one of 0 to %lld",
                       (long long)reduce, (long long)codes - 1);
    aclDataType as = sn_compute(c->arg[0].t->dtype);
    if (reduce_op[reduce] != MAP_SET &&
        (map_type(as) < 0 || !line_kernels()->join[reduce_op[reduce]][map_type(as)]))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduce code %lld is not defined for self of type %s",
                       (long long)reduce, sn_dtype(c->arg[0].t->dtype)->name);
    return 0;
}

static int check_scatter_shapes(op_call *c)
{
    const struct scatter *s = c->row->aux;
    int32_t d;
    int r = op_need_dim(c, c->arg[1].i, c->arg[0].t->rank, &d);
    if (r) return r;
    c->plan[0] = d;
    if (s->out >= 0 && ((r = op_need_same_dtype(c, 0, s->out)) || (r = op_need_same_shape(c, 0, s->out))))
        return r;
    if (sn_numel(c->arg[2].t) && (r = need_within(c, 2, 0, d))) return r;
    return check_scatter_source(c);
}

static int check_scatter(op_call *c)
{
    int r = check_scatter_codes(c, REDUCE_MAX);
    return r ? r : check_scatter_shapes(c);
}

/* The 910B family takes only sums of FLOAT that include self (public document of aclnnScatterReduce). */
static int check_scatter_reduce(op_call *c)
{
    const struct scatter *s = c->row->aux;
    bool device_takes =
        c->arg[0].t->dtype == ACL_FLOAT && reduce_code(c) == REDUCE_ADD && c->arg[s->include_self].i;
    if (!device_takes && !rt_settings()->accept_any)
        return op_fail(
            c, ACLNN_ERR_PARAM_INVALID,
            "the device takes only FLOAT with reduce 1 (add) and includeSelf, not %s with reduce %lld",
            sn_dtype(c->arg[0].t->dtype)->name, (long long)reduce_code(c));
    int r = check_scatter_codes(c, REDUCE_CODES);
    return r ? r : check_scatter_shapes(c);
}

/* Elements that are hit start from the reduction's neutral element instead of self's. */
static void forget_self(op_call *c, struct lines lines, int64_t reduce, aclDataType as)
{
    aclScalar neutral = {.dtype = ACL_INT64, .v.i = reduce == REDUCE_MUL};
    void *value = op_scratch(c, 16);
    lines.fn = line_kernels()->scatter[log_size(as)];
    if (reduce != REDUCE_MAX && reduce != REDUCE_MIN) {
        sn_scalar_store(&neutral, as, value);
        lines_value(&lines, value);
    } /* an order has no neutral element: any of the sources serves */
    lines_run(&lines);
}

static void divide_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    const int64_t *count = p[2];
#define DIVIDE(name, type, quotient)                                                                         \
    case MAP_TYPE_##name: {                                                                                  \
        type *out = p[0];                                                                                    \
        const type *sum = p[1];                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            type k = (type)(count[i] ? count[i] : 1);                                                        \
            out[i] = (type)(quotient);                                                                       \
        }                                                                                                    \
        return;                                                                                              \
    }
    switch (*(const int *)ctx) {
        DIVIDE(f32, float, sum[i] / k)
        DIVIDE(f64, double, sum[i] / k)
        DIVIDE(c64, float _Complex, sum[i] / k)
        DIVIDE(c128, double _Complex, sum[i] / k)
        DIVIDE(u8, uint8_t, sum[i] / k)
        DIVIDE(i8, int8_t, sum[i] / k - (sum[i] % k < 0)) /* integers round down, as torch does */
        DIVIDE(i16, int16_t, sum[i] / k - (sum[i] % k < 0))
        DIVIDE(i32, int32_t, sum[i] / k - (sum[i] % k < 0))
        DIVIDE(i64, int64_t, sum[i] / k - (sum[i] % k < 0))
    }
}

/* table /= how often each element was hit (and self, if it counts). */
static int divide_by_count(op_call *c, struct lines lines, const aclTensor *table, int d, bool include_self)
{
    int64_t n = sn_numel(table), one = 1;
    int type = map_type(table->dtype);
    aclTensor count;
    int64_t *k = op_scratch(c, (size_t)n * sizeof *k);
    for (int64_t i = 0; i < n; i++) k[i] = include_self;
    sn_wrap(&count, ACL_INT64, table->rank, table->dim, k);
    lines_table(&lines, &count, d);
    lines_value(&lines, &one);
    lines.fn = line_kernels()->join[MAP_ADD][MAP_TYPE_i64];
    lines_run(&lines);
    struct ew_operand operand[] = {
        {table, table->dtype, NULL}, {table, table->dtype, NULL}, {&count, ACL_INT64, NULL}};
    return ew_run(c, operand, 1, 2, divide_block, &type);
}

static int scatter_into(op_call *c, const aclTensor *table, struct lines *lines)
{
    const struct scatter *s = c->row->aux;
    int64_t reduce = reduce_code(c);
    bool include_self = s->include_self < 0 || c->arg[s->include_self].i;
    lines_table(lines, table, (int)c->plan[0]);
    if (!include_self && reduce != REDUCE_NONE) forget_self(c, *lines, reduce, table->dtype);
    lines->fn = reduce == REDUCE_NONE ? line_kernels()->scatter[log_size(table->dtype)]
                                      : line_kernels()->join[reduce_op[reduce]][map_type(table->dtype)];
    lines_run(lines);
    return reduce == REDUCE_MEAN ? divide_by_count(c, *lines, table, (int)c->plan[0], include_self) : 0;
}

static int run_scatter(op_call *c)
{
    const struct scatter *s = c->row->aux;
    const aclTensor *self = c->arg[0].t, *index = c->arg[2].t, *out = s->out < 0 ? self : c->arg[s->out].t;
    const aclTensor *src = source_is_tensor(c) ? c->arg[3].t : NULL;
    aclDataType as = reduce_code(c) == REDUCE_NONE ? self->dtype : sn_compute(self->dtype);
    int d = (int)c->plan[0];
    aclTensor hold_src, hold_as, hold_table;
    if (src) src = map_apart(c, map_as(c, src, as, &hold_as), out, &hold_src);
    if (out != self && !sn_same_view(self, out)) op_copy(c, out, self);
    if (sn_numel(index) == 0) return 0;
    const aclTensor *table = map_as(c, out, as, &hold_table);
    struct lines lines;
    int r = lines_index(c, index, map_at_least_1d(out).dim[d], &lines, d);
    if (r) return r;
    if (src) {
        lines_dense(&lines, src, d);
    } else {
        void *value = op_scratch(c, 16);
        sn_scalar_store(c->arg[3].s, as, value);
        lines_value(&lines, value);
    }
    if ((r = scatter_into(c, table, &lines))) return r;
    map_store(c, out, table);
    return 0;
}

#define OP_FILE "softnpu/op/scatter.inc"
#define OP_TABLE op_rows_scatter
#include "softnpu/op/rows.h"
