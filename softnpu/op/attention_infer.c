/* attention_infer.c - attention of inference: lengths of each batch, masks, log-sum-exp. */
#include "softnpu/op/attention.h"

#include <math.h>
#include <string.h>

/* Where the arguments stand: the first option and attentionOut, which softmaxLse follows. */
struct infer {
    int8_t heads, out;
};
static const struct infer infer_v1 = {17, 28}, infer_v2 = {24, 37}, infer_v3 = {27, 40}, infer_v4 = {29, 43};
enum { QUERY, KEY, VALUE, PSE, MASK, Q_LENGTHS, KV_LENGTHS, FIRST_REFUSED };
enum { HEADS, SCALE, PRE, NEXT, LAYOUT, KV_HEADS, SPARSE, PRECISE, BLOCK, ANTIQUANT, LSE_FLAG };

/* ---- checks ------------------------------------------------------------------------------------------ */

/* Quantised keys and results, paged and padded keys, shared prefixes and rotary parts. */
static int check_refused(const op_call *c, const struct infer *f)
{
    for (int i = FIRST_REFUSED; i < f->heads; i++) {
        const struct op_param *p = &c->row->param[i];
        if (p->kind == OPK_IAQ ? c->arg[i].ia && c->arg[i].ia->n : c->arg[i].t && sn_numel(c->arg[i].t))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is not supported by softnpu", p->name);
    }
    if (c->arg[KEY].tl->n != 1 || c->arg[VALUE].tl->n != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "key and value must be one tensor each: lists of %llu are not "
                       "supported by softnpu",
                       (unsigned long long)c->arg[KEY].tl->n);
    const aclTensor *all[] = {c->arg[QUERY].t, c->arg[KEY].tl->v[0], c->arg[VALUE].tl->v[0],
                              c->arg[f->out].t};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->dtype == ACL_INT8)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "INT8 is not supported by softnpu");
    return 0;
}

/* "BNSD", or "BNSD_BSND": input and output. */
static int make_views(const op_call *c, const struct infer *f, struct attend_views *w)
{
    const op_arg *option = c->arg + f->heads;
    const char *name = option[LAYOUT].str, *bar = strchr(name, '_');
    size_t n = bar ? (size_t)(bar - name) : strlen(name);
    const struct attend_layout *in = attend_layout(name, n),
                               *out = bar ? attend_layout(bar + 1, strlen(bar + 1)) : in;
    int64_t heads = option[HEADS].i, kv = option[KV_HEADS].i ? option[KV_HEADS].i : heads;
    const aclTensor *q = c->arg[QUERY].t, *k = c->arg[KEY].tl->v[0];
    char qs[256], ks[256];
    if (!in || !out || in->b != 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "inputLayout %s is not supported by softnpu: BSH, BSND, BNSD, "
                       "or one of them before _BSND or _NBSD",
                       name);
    if (attend_heads(q, in, heads, &w->q) && attend_heads(k, in, kv, &w->k) &&
        attend_heads(c->arg[VALUE].tl->v[0], in, kv, &w->v) &&
        attend_heads(c->arg[f->out].t, out, heads, &w->out) && attend_fit(w) && w->heads == heads &&
        w->kv_heads == kv)
        return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "query %s and key %s (layout %s, %lld and %lld heads), value and output do not fit",
                   sn_shape_str(q, qs), sn_shape_str(k, ks), name, (long long)heads, (long long)kv);
}

/* One length for all batches, or one for each. */
static int check_lengths(const op_call *c, int arg, int64_t b, int64_t most)
{
    const aclIntArray *a = c->arg[arg].ia;
    if (!a || a->n == 0) return 0;
    if (a->n != 1 && (int64_t)a->n < b)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %llu values for %lld batches",
                       c->row->param[arg].name, (unsigned long long)a->n, (long long)b);
    for (int64_t i = 0; i < (a->n == 1 ? 1 : b); i++)
        if (a->v[i] < 0 || a->v[i] > most)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s[%lld] is %lld, expected 0 to %lld",
                           c->row->param[arg].name, (long long)i, (long long)a->v[i], (long long)most);
    return 0;
}

static bool is_triangle(const aclTensor *m)
{
    for (int32_t d = 0; d < m->rank; d++)
        if (m->dim[d] != (d < m->rank - 2 ? 1 : COMPRESSED_MASK)) return false;
    return m->rank >= 2;
}

/* The mask as batch, 1, query, key: a missing dimension stands for itself, sides may be rounded up. */
static bool mask_view(const aclTensor *m, const struct attend_views *w, aclTensor *v)
{
    const int64_t full[] = {w->b, 1, w->sq, w->skv};
    bool per_batch = m->rank == 3 || (m->rank == 2 && w->sq == 1);
    int32_t batch = per_batch ? 0 : -1, q = m->rank == 2 && w->sq == 1 ? -1 : m->rank - 2;
    if (m->rank == 4) batch = 0;
    if (m->rank < 2 || (m->rank == 4 && m->dim[1] != 1)) return false;
    *v = *m, v->rank = 4;
    const int32_t from[] = {batch, -1, q, m->rank - 1};
    for (int i = 0; i < 4; i++) {
        v->dim[i] = from[i] < 0 ? 1 : m->dim[from[i]];
        v->stride[i] = from[i] < 0 ? 0 : m->stride[from[i]];
        if (i >= 2 && v->dim[i] > full[i]) v->dim[i] = full[i];
    }
    return (v->dim[0] == w->b || v->dim[0] == 1) && v->dim[2] == w->sq && v->dim[3] == w->skv;
}

/* The mode that counts: one query has no use for a triangle, and without a mask the band is not looked at. */
static int64_t mode_of(const op_call *c, const struct infer *f, const struct attend_views *w)
{
    int64_t mode = c->arg[f->heads + SPARSE].i;
    return w->sq == 1 || (mode == DEFAULT_MASK && !c->arg[MASK].t) ? ALL_MASK : mode;
}

static int check_mask(const op_call *c, const struct infer *f, const struct attend_views *w)
{
    const aclTensor *m = c->arg[MASK].t;
    int64_t mode = c->arg[f->heads + SPARSE].i;
    bool triangle = mode >= LEFT_UP && mode <= BAND;
    aclTensor v;
    char ms[256];
    if (mode < DEFAULT_MASK || mode > BAND)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "sparseMode %lld, expected 0 to 4", (long long)mode);
    if (w->sq == 1 && (!m || is_triangle(m))) return 0;
    if (!m && mode != DEFAULT_MASK)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "sparseMode %lld needs attenMask", (long long)mode);
    if (!m || (triangle && w->sq > 1 ? is_triangle(m) : mask_view(m, w, &v))) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "attenMask %s does not fit %lld queries and %lld keys in sparseMode %lld",
                   sn_shape_str(m, ms), (long long)w->sq, (long long)w->skv, (long long)mode);
}

static int check_infer(op_call *c)
{
    const struct infer *f = c->row->aux;
    struct attend_views w;
    int rc = check_refused(c, f);
    if (!rc) rc = make_views(c, f, &w);
    if (!rc && w.sq > 1) rc = check_lengths(c, Q_LENGTHS, w.b, w.sq);
    if (!rc) rc = check_lengths(c, KV_LENGTHS, w.b, w.skv);
    if (!rc) rc = check_mask(c, f, &w);
    if (rc) return rc;
    const int64_t full[] = {w.b, w.heads, w.sq, w.skv}, lse[] = {w.b, w.heads, w.sq, 1};
    const aclTensor *pse = c->arg[PSE].t;
    aclTensor e;
    char ps[256];
    if (pse && !sn_expand(pse, full, 4, &e))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "pseShift %s does not broadcast to the scores",
                       sn_shape_str(pse, ps));
    if (c->arg[f->heads + LSE_FLAG].i) {
        if (!c->arg[f->out + 1].t)
            return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "softmaxLseFlag needs softmaxLse");
        rc = op_need_shape(c, f->out + 1, lse, 4);
    }
    c->work += w.b * w.heads * w.sq * w.skv * (w.d + w.dv) / 16;
    return rc;
}

/* ---- run --------------------------------------------------------------------------------------------- */

static const int64_t *lengths(op_call *c, int arg, int64_t b)
{
    const aclIntArray *a = c->arg[arg].ia;
    if (!a || a->n == 0) return NULL;
    int64_t *n = op_scratch(c, (size_t)b * sizeof *n + 1);
    for (int64_t i = 0; i < b; i++) n[i] = a->v[a->n == 1 ? 0 : i];
    return n;
}

static void store_lse(op_call *c, const aclTensor *t, const struct attend *a)
{
    float *y = op_out(c, t, ACL_FLOAT);
    for (int64_t i = 0, n = a->w.b * a->w.heads * a->w.sq; i < n; i++)
        y[i] = a->sum[i * 8] > 0 ? a->max[i * 8] + logf(a->sum[i * 8]) : INFINITY;
    op_out_done(c, t, ACL_FLOAT, y);
}

static int run_infer(op_call *c)
{
    const struct infer *f = c->row->aux;
    const op_arg *option = c->arg + f->heads;
    struct attend a = {.scale = (float)option[SCALE].d, .pre = option[PRE].i, .next = option[NEXT].i};
    struct attend_views *w = &a.w;
    make_views(c, f, w);
    int64_t rows = w->b * w->heads * w->sq;
    if (rows == 0) return 0;
    a.mode = mode_of(c, f, w);
    a.q = op_in(c, &w->q, ACL_FLOAT), a.k = op_in(c, &w->k, ACL_FLOAT), a.v = op_in(c, &w->v, ACL_FLOAT);
    if (w->sq > 1) a.q_len = lengths(c, Q_LENGTHS, w->b);
    a.kv_len = lengths(c, KV_LENGTHS, w->b);
    const aclTensor *mask = c->arg[MASK].t, *pse = c->arg[PSE].t;
    aclTensor v;
    if (mask && a.mode <= ALL_MASK && mask_view(mask, w, &v))
        a.mask = attend_broadcast(c, &v, mask->dtype, w->skv, a.mask_at);
    if (pse) a.pse = attend_broadcast(c, pse, ACL_FLOAT, w->skv, a.pse_at);
    a.max = op_scratch(c, (size_t)rows * 8 * sizeof *a.max);
    a.sum = op_scratch(c, (size_t)rows * 8 * sizeof *a.sum);
    a.out = op_out(c, &w->out, ACL_FLOAT);
    attend_forward(&a);
    op_out_done(c, &w->out, ACL_FLOAT, a.out);
    if (option[LSE_FLAG].i) store_lse(c, c->arg[f->out + 1].t, &a);
    return 0;
}

#define OP_FILE "softnpu/op/attention_infer.inc"
#define OP_TABLE op_rows_attention_infer
#include "softnpu/op/rows.h"

/* The most that any lengths need: this device's scratch memory is its own, so both queries answer alike. */
#define MAX_WORKSPACE(name)                                                                                  \
    ACL_EXPORT __typeof__(name##GetWorkspaceSize) name##GetMaxWorkspaceSize                                  \
        __attribute__((alias(#name "GetWorkspaceSize")));
MAX_WORKSPACE(aclnnFusedInferAttentionScoreV2)
MAX_WORKSPACE(aclnnFusedInferAttentionScoreV3)
MAX_WORKSPACE(aclnnFusedInferAttentionScoreV4)
