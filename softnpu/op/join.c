/* join.c - concatenation and splitting: cat, stack, chunk_cat, split. */
#include "softnpu/op/view.h"

#include <string.h>

/* ---- cat --------------------------------------------------------------------------------------------- */

/* An empty one-dimensional tensor joins with anything (torch's legacy rule). */
static bool is_nothing(const aclTensor *t)
{
    return t->rank == 1 && t->dim[0] == 0;
}

/* Each tensor's type converts to out's. */
static int need_castable(const op_call *c, const aclTensor *t, const aclTensor *out)
{
    if (sn_can_cast(t->dtype, out->dtype)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "a tensor of type %s cannot be joined into out of type %s",
                   sn_dtype(t->dtype)->name, sn_dtype(out->dtype)->name);
}

static int check_cat(op_call *c)
{
    const aclTensorList *list = c->arg[0].tl;
    const aclTensor *out = c->arg[2].t, *first = NULL;
    int32_t d = 0;
    int64_t total = 0, want[SN_MAX_DIMS];
    if (list->n == 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "tensors is empty");
    for (uint64_t i = 0; i < list->n; i++) {
        const aclTensor *t = list->v[i];
        char a[256], b[256];
        int r = need_castable(c, t, out);
        if (r) return r;
        if (is_nothing(t)) continue;
        if (!first) {
            first = t;
            if ((r = op_need_dim(c, c->arg[1].i, t->rank, &d))) return r;
        }
        bool fits = t->rank == first->rank && t->rank > 0;
        for (int k = 0; fits && k < t->rank; k++) fits = k == d || t->dim[k] == first->dim[k];
        if (!fits)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "tensors %s and %s cannot be joined along dimension %d", sn_shape_str(first, a),
                           sn_shape_str(t, b), (int)d);
        total += t->dim[d];
    }
    c->plan[0] = d;
    if (!first) return op_need_shape(c, 2, &total, 1);
    memcpy(want, first->dim, sizeof want);
    want[d] = total;
    return op_need_shape(c, 2, want, first->rank);
}

static int run_cat(op_call *c)
{
    const aclTensorList *list = c->arg[0].tl;
    int d = (int)c->plan[0];
    int64_t at = 0;
    for (uint64_t i = 0; i < list->n; i++) {
        const aclTensor *t = list->v[i];
        if (is_nothing(t)) continue;
        aclTensor part = view_narrow(c->arg[2].t, d, at, t->dim[d]);
        if (sn_numel(t)) op_copy(c, &part, t);
        at += t->dim[d];
    }
    return 0;
}

/* ---- stack ------------------------------------------------------------------------------------------- */

static int check_stack(op_call *c)
{
    const aclTensorList *list = c->arg[0].tl;
    const aclTensor *out = c->arg[2].t;
    int64_t want[SN_MAX_DIMS];
    int32_t d;
    if (list->n == 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "tensors is empty");
    const aclTensor *first = list->v[0];
    int r = op_need_dim(c, c->arg[1].i, first->rank + 1, &d);
    if (r) return r;
    for (uint64_t i = 0; i < list->n; i++) {
        if (!sn_same_shape(first, list->v[i]))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "tensors[%llu] has another shape than tensors[0]",
                           (unsigned long long)i);
        if ((r = need_castable(c, list->v[i], out))) return r;
    }
    for (int i = 0; i <= first->rank; i++)
        want[i] = i == d ? (int64_t)list->n : first->dim[i > d ? i - 1 : i];
    c->plan[0] = d;
    return op_need_shape(c, 2, want, first->rank + 1);
}

static int run_stack(op_call *c)
{
    const aclTensorList *list = c->arg[0].tl;
    for (uint64_t i = 0; i < list->n; i++) {
        aclTensor part = view_select(c->arg[2].t, (int)c->plan[0], (int64_t)i);
        if (sn_numel(&part)) op_copy(c, &part, list->v[i]);
    }
    return 0;
}

/* ---- chunk_cat: every tensor padded with zeros to numChunks equal chunks, flattened behind dim, joined
 * there -------- */

static int64_t chunk_rows(const aclTensor *t, int d, int64_t chunks)
{
    return (t->dim[d] + chunks - 1) / chunks;
}

/* Elements behind dimension d. */
static int64_t behind(const aclTensor *t, int d)
{
    int64_t n = 1;
    for (int i = d + 1; i < t->rank; i++) n *= t->dim[i];
    return n;
}

static int check_chunk_cat(op_call *c)
{
    const aclTensorList *list = c->arg[0].tl;
    int64_t chunks = c->arg[2].i, want[SN_MAX_DIMS], width = 0;
    int32_t d;
    if (list->n == 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "tensors is empty");
    if (chunks < 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "numChunks must be positive, not %lld", (long long)chunks);
    const aclTensor *first = list->v[0];
    int r = op_need_dim(c, c->arg[1].i, first->rank, &d);
    if (r) return r;
    for (uint64_t i = 0; i < list->n; i++) {
        const aclTensor *t = list->v[i];
        bool fits = t->rank > d && t->dtype == first->dtype;
        for (int k = 0; fits && k < d; k++) fits = t->dim[k] == first->dim[k];
        if (!fits)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "tensors[%llu] differs from tensors[0] in type or before dim",
                           (unsigned long long)i);
        width += chunk_rows(t, d, chunks) * behind(t, d);
    }
    memcpy(want, first->dim, sizeof want);
    want[d] = chunks;
    want[d + 1] = width;
    c->plan[0] = d;
    return op_need_shape(c, 3, want, d + 2);
}

/* One tensor into columns [at, at + width) of out; returns width. */
static int64_t place_chunks(op_call *c, const aclTensor *t, int d, int64_t chunks, int64_t at)
{
    const aclTensor *out = c->arg[3].t;
    int64_t rows = chunk_rows(t, d, chunks), inner = behind(t, d);
    aclTensor flat, part = view_narrow(out, d + 1, at, rows * inner);
    sn_wrap(&flat, t->dtype, t->rank, t->dim, op_in(c, t, t->dtype));
    flat.rank = d + 2;
    flat.dim[d + 1] = inner;
    flat.stride[d + 1] = 1;
    flat.stride[d] = inner;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        aclTensor to = view_narrow(&part, d, chunk, 1);
        to = view_split(&to, d + 1, rows, inner);
        to = view_select(&to, d, 0);
        int64_t left = t->dim[d] - chunk * rows, n = left < 0 ? 0 : left < rows ? left : rows;
        aclTensor filled = view_narrow(&to, d, 0, n), from = view_narrow(&flat, d, chunk * rows, n);
        if (sn_numel(&filled)) op_copy(c, &filled, &from);
        aclTensor empty = view_narrow(&to, d, n, rows - n), zero;
        void *z = op_scratch(c, 16);
        memset(z, 0, 16);
        sn_wrap(&zero, out->dtype, 0, NULL, z);
        if (sn_numel(&empty)) op_copy(c, &empty, &zero);
    }
    return rows * inner;
}

static int run_chunk_cat(op_call *c)
{
    const aclTensorList *list = c->arg[0].tl;
    int64_t at = 0;
    for (uint64_t i = 0; i < list->n; i++)
        at += place_chunks(c, list->v[i], (int)c->plan[0], c->arg[2].i, at);
    return 0;
}

/* ---- split ------------------------------------------------------------------------------------------- */

/* out[i] is self narrowed to the i-th piece; pieces are out's own sizes along dim. */
static int check_pieces(op_call *c, int list_arg)
{
    const aclTensor *self = c->arg[0].t;
    const aclTensorList *list = c->arg[list_arg].tl;
    int32_t d;
    int64_t total = 0;
    int r = op_need_dim(c, c->arg[2].i, self->rank, &d);
    if (r) return r;
    for (uint64_t i = 0; i < list->n; i++) {
        const aclTensor *t = list->v[i];
        bool fits = t->rank == self->rank && t->rank > 0;
        for (int k = 0; fits && k < t->rank; k++) fits = k == d || t->dim[k] == self->dim[k];
        if (!fits)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out[%llu] does not fit self along dimension %d",
                           (unsigned long long)i, (int)d);
        total += t->dim[d];
    }
    if (total != (self->rank ? self->dim[d] : 1))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the pieces add up to %lld of %lld", (long long)total,
                       (long long)(self->rank ? self->dim[d] : 1));
    c->plan[0] = d;
    return 0;
}

static int check_split_sizes(op_call *c)
{
    const aclIntArray *sizes = c->arg[1].ia;
    const aclTensorList *list = c->arg[3].tl;
    int r = check_pieces(c, 3);
    if (r) return r;
    bool fits = sizes->n == list->n;
    for (uint64_t i = 0; fits && i < list->n; i++) fits = sizes->v[i] == list->v[i]->dim[c->plan[0]];
    return fits ? 0 : op_fail(c, ACLNN_ERR_PARAM_INVALID, "splitSize does not name the sizes of out");
}

static int check_split_even(op_call *c)
{
    const aclTensorList *list = c->arg[3].tl;
    int r = check_pieces(c, 3);
    for (uint64_t i = 0; !r && i + 1 < list->n; i++)
        if (list->v[i]->dim[c->plan[0]] != c->arg[1].i)
            r = op_fail(c, ACLNN_ERR_PARAM_INVALID, "out[%llu] is not of splitSections rows",
                        (unsigned long long)i);
    return r;
}

static int run_split(op_call *c)
{
    const aclTensorList *list = c->arg[3].tl;
    int d = (int)c->plan[0];
    int64_t at = 0;
    for (uint64_t i = 0; i < list->n; i++) {
        aclTensor part = view_narrow(c->arg[0].t, d, at, list->v[i]->dim[d]);
        if (sn_numel(&part)) op_copy(c, list->v[i], &part);
        at += part.dim[d];
    }
    return 0;
}

#define OP_FILE "softnpu/op/join.inc"
#define OP_TABLE op_rows_join
#include "softnpu/op/rows.h"
