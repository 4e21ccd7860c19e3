/* embedding.c - sums of named rows: gradients of embedding, renormalised embeddings, embedding bags, sparse
 * coalescing. */
#include "softnpu/op/map_ops.h"

#include <math.h>
#include <string.h>

/* ---- gradient of embedding --------------------------------------------------------------------------- */

static int check_dense_backward(op_call *c)
{
    const aclTensor *grad = c->arg[0].t, *indices = c->arg[1].t;
    int64_t n = sn_numel(indices), width = grad->rank ? grad->dim[grad->rank - 1] : 0;
    if (grad->rank < 1 || n * width != sn_numel(grad))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "grad must hold one row for each of %lld indices",
                       (long long)n);
    return op_need_shape(c, 5, (int64_t[]){c->arg[2].i, width}, 2);
}

/* out[row] /= how often the row was named. */
static void divide_rows(float *out, int64_t width, const int64_t *rows, int64_t n, int64_t *count)
{
    for (int64_t i = 0; i < n; i++)
        if (rows[i] != MAP_NONE) count[rows[i] / width]++;
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] == MAP_NONE || count[rows[i] / width] == 0) continue;
        float *row = out + rows[i], share = 1.0f / (float)count[rows[i] / width];
        for (int64_t k = 0; k < width; k++) row[k] *= share;
        count[rows[i] / width] = 0;
    }
}

static int run_dense_backward(op_call *c)
{
    const aclTensor *grad = c->arg[0].t, *out = c->arg[5].t;
    int64_t weights = out->dim[0], width = out->dim[1], padding = c->arg[3].i, *rows = NULL;
    int64_t n = sn_numel(c->arg[1].t);
    float *sum = op_out_scratch(c, out, ACL_FLOAT);
    memset(sum, 0, (size_t)(weights * width) * sizeof *sum);
    int r = map_values(c, c->arg[1].t, weights, &rows);
    if (r) return r;
    for (int64_t i = 0; i < n; i++) rows[i] = rows[i] == padding ? MAP_NONE : rows[i] * width;
    struct map_job job = {
        .rank = 2, .dim = {n, width}, .stride = {width, 1}, .run = 1, .size = sizeof(float)};
    job.map[0] = rows;
    job.map[1] = map_range(c, width, 0, 1);
    job.dense = op_in(c, grad, ACL_FLOAT);
    job.mapped = sum;
    map_scatter(c, &job, MAP_ADD, ACL_FLOAT, -1);
    if (c->arg[4].i && width) {
        int64_t *count = op_scratch(c, (size_t)(weights + 1) * sizeof *count);
        memset(count, 0, (size_t)weights * sizeof *count);
        divide_rows(sum, width, rows, n, count);
    }
    op_out_done(c, out, ACL_FLOAT, sum);
    return 0;
}

/* ---- renormalised embeddings ------------------------------------------------------------------------- */

static double row_norm(const float *row, int64_t n, double p)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs((double)row[i]);
        if (isinf(p))
            sum = x > sum ? x : sum;
        else
            sum += p == 2 ? x * x : p == 1 ? x : p == 0 ? x != 0 : pow(x, p);
    }
    return p == 2 ? sqrt(sum) : isinf(p) || p == 0 || p == 1 ? sum : pow(sum, 1 / p);
}

static int run_renorm(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    double max_norm = c->arg[2].d, p = c->arg[3].d;
    int64_t rows = self->dim[0], width = self->dim[1], *named = NULL, n = sn_numel(c->arg[1].t);
    int r = map_values(c, c->arg[1].t, rows, &named);
    if (r || n == 0) return r;
    float *all = op_in(c, self, ACL_FLOAT);
    bool *seen = op_scratch(c, (size_t)rows);
    memset(seen, 0, (size_t)rows);
    for (int64_t i = 0; i < n; i++) {
        if (seen[named[i]]) continue;
        seen[named[i]] = true;
        float *row = all + named[i] * width;
        double norm = row_norm(row, width, p);
        if (norm <= max_norm) continue;
        float scale = (float)(max_norm / (norm + 1e-7));
        for (int64_t k = 0; k < width; k++) row[k] *= scale;
    }
    op_out_done(c, self, ACL_FLOAT, all);
    return 0;
}

/* ---- embedding bags ---------------------------------------------------------------------------------- */

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

static int64_t bag_count(const op_call *c)
{
    return sn_numel(c->arg[2].t) - (c->arg[7].i ? 1 : 0);
}

static int check_bag(op_call *c)
{
    const aclTensor *weights = c->arg[6].t;
    int64_t bags = bag_count(c), width = c->arg[0].t->dim[1];
    if (bags < 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "offsets must name the end of at least one bag");
    if (weights && sn_numel(weights) != sn_numel(c->arg[1].t))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "perSampleWeights must have one element for each index");
    if (weights && c->arg[4].i != BAG_SUM)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "perSampleWeights need mode 0 (sum)");
    int r = op_need_shape(c, 9, (int64_t[]){bags, width}, 2);
    return r ? r : op_need_same_dtype(c, 0, 9);
}

struct bag_ctx {
    const float *weight, *scale;
    const int64_t *index, *offset;
    int64_t n, bags, width, mode, padding;
    float *out;
    int64_t *size, *most; /* elements that count in each bag; for max: index that won, by bag and column */
};

static int64_t bag_end(const struct bag_ctx *b, int64_t bag, bool last_given)
{
    return bag + 1 < b->bags || last_given ? b->offset[bag + 1] : b->n;
}

/* Adds one row to a bag; first: it is the bag's first. */
static void bag_row(const struct bag_ctx *b, int64_t bag, int64_t i, bool first)
{
    float *out = b->out + bag * b->width, scale = b->scale ? b->scale[i] : 1.0f;
    const float *row = b->weight + b->index[i] * b->width;
    if (b->mode == BAG_MAX || b->mode > BAG_MAX) {
        int64_t *most = b->most + bag * b->width;
        for (int64_t k = 0; k < b->width; k++)
            if (first || row[k] > out[k] || row[k] != row[k]) {
                out[k] = row[k];
                most[k] = b->index[i];
            }
    } else {
        for (int64_t k = 0; k < b->width; k++) out[k] += row[k] * scale;
    }
}

static int fill_bags(op_call *c, struct bag_ctx *b, int64_t *bag_of)
{
    bool last_given = c->arg[7].i;
    for (int64_t bag = 0; bag < b->bags; bag++) {
        int64_t begin = b->offset[bag], end = bag_end(b, bag, last_given), size = 0;
        if (begin < 0 || end < begin || end > b->n)
            return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION,
                           "offset %lld of bag %lld is outside the %lld indices", (long long)begin,
                           (long long)bag, (long long)b->n);
        for (int64_t i = begin; i < end; i++) {
            bag_of[i] = bag;
            if (b->index[i] == b->padding) continue;
            bag_row(b, bag, i, size == 0);
            size++;
        }
        b->size[bag] = size;
        if (b->mode == BAG_MEAN && size)
            for (int64_t k = 0; k < b->width; k++) b->out[bag * b->width + k] /= (float)size;
    }
    return 0;
}

/* out = values converted; an output that the caller left without elements is not wanted. */
static void store_numbers(op_call *c, const aclTensor *out, int64_t *v)
{
    if (sn_numel(out)) op_out_done(c, out, ACL_INT64, v);
}

static int64_t *zeroed(op_call *c, int64_t n)
{
    int64_t *v = op_scratch(c, (size_t)(n + 1) * sizeof *v);
    memset(v, 0, (size_t)(n + 1) * sizeof *v);
    return v;
}

static int run_bag(op_call *c)
{
    const aclTensor *weight = c->arg[0].t, *out = c->arg[9].t;
    struct bag_ctx b = {
        .n = sn_numel(c->arg[1].t), .bags = bag_count(c), .width = weight->dim[1], .mode = c->arg[4].i};
    int64_t *index = NULL, cells = b.bags * b.width, padding = c->arg[8].i;
    int r = map_values(c, c->arg[1].t, weight->dim[0], &index);
    if (r) return r;
    b.padding = padding < 0 ? MAP_NONE : padding;
    b.index = index;
    b.offset = op_in(c, c->arg[2].t, ACL_INT64);
    b.weight = op_in(c, weight, ACL_FLOAT);
    b.scale = c->arg[6].t ? op_in(c, c->arg[6].t, ACL_FLOAT) : NULL;
    b.size = zeroed(c, b.bags);
    b.most = zeroed(c, cells > b.bags ? cells : b.bags);
    b.out = op_out_scratch(c, out, ACL_FLOAT);
    memset(b.out, 0, (size_t)cells * sizeof *b.out);
    int64_t *bag_of = zeroed(c, b.n);
    if ((r = fill_bags(c, &b, bag_of))) return r;
    op_out_done(c, out, ACL_FLOAT, b.out);
    store_numbers(c, c->arg[10].t, bag_of);
    store_numbers(c, c->arg[11].t, b.size);
    store_numbers(c, c->arg[12].t, b.most);
    return 0;
}

/* ---- coalescing sparse tensors: entry i of the old tensor belongs to entry uniqueIndices[i] of the new one
 * ---- */

static int check_coalesce(op_call *c)
{
    const aclTensor *at = c->arg[1].t, *indices = c->arg[2].t, *values = c->arg[3].t;
    int64_t n = sn_numel(at);
    if (indices->rank != 2 || values->rank < 1 || indices->dim[0] != n || values->dim[0] != n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "indices and values must have a row for each of %lld entries", (long long)n);
    int r = op_need_same_dtype(c, 2, 4);
    if (r || (r = op_need_same_dtype(c, 3, 5))) return r;
    int64_t rows = c->arg[4].t->rank == 2 ? c->arg[4].t->dim[0] : -1, want[SN_MAX_DIMS];
    if ((r = op_need_shape(c, 4, (int64_t[]){rows, indices->dim[1]}, 2))) return r;
    memcpy(want, values->dim, sizeof want);
    want[0] = rows;
    return op_need_shape(c, 5, want, values->rank);
}

/* to (zeroed for sums) [at[i]] = or += rows of from. */
static int scatter_entries(op_call *c, const aclTensor *from, const aclTensor *to, const aclTensor *at,
                           enum map_op op)
{
    aclDataType as = op == MAP_SET ? to->dtype : sn_compute(to->dtype);
    aclTensor hold, flat;
    struct map_job job;
    void *sum = op_out_scratch(c, to, as);
    memset(sum, 0, (size_t)sn_numel(to) * sn_size(as));
    from = map_as(c, from, as, &hold);
    sn_wrap(&flat, as, to->rank, to->dim, sum);
    map_dense(&job, from);
    int r = map_index(c, at, to->dim[0], flat.stride[0], &job.map[0]);
    if (r) return r;
    map_follow(c, &job, &flat);
    if (sn_numel(from)) map_scatter(c, &job, op, as, -1);
    op_out_done(c, to, as, sum);
    return 0;
}

static int run_coalesce(op_call *c)
{
    int r = scatter_entries(c, c->arg[2].t, c->arg[4].t, c->arg[1].t, MAP_SET);
    return r ? r : scatter_entries(c, c->arg[3].t, c->arg[5].t, c->arg[1].t, MAP_ADD);
}

#define OP_FILE "softnpu/op/embedding.inc"
#define OP_TABLE op_rows_embedding
#include "softnpu/op/rows.h"
