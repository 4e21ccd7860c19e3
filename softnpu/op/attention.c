/* attention.c - fused attention and its gradient: blocks of query rows against all keys of a head. */
#include "softnpu/op/attention.h"
#include "softnpu/kernel/attention.h"
#include "softnpu/op/gemm.h"

#include <stdlib.h>
#include <string.h>

/* Where the arguments stand; -1: the operator has none. */
struct flash {
    int8_t pse, drop, mask, prefix, scale, sparse,
        pse_type;         /* scale: then keep, pre, next, heads, layout, inner */
    int8_t max, sum, out; /* forward: outputs. backward: inputs, out is dy */
    int8_t dq;            /* backward: then dk, dv, dpse */
};
static const struct flash flash_v1 = {3, 4, 6, 7, 8, 15, -1, 16, 17, 19, -1};
static const struct flash flash_v2 = {3, 4, 6, 7, 10, 17, 18, 19, 20, 22, -1};
static const struct flash flash_grad_v1 = {4, 5, 7, 12, 13, 20, -1, 8, 9, 3, 21};
static const struct flash flash_grad_v2 = {4, 5, 7, 12, 15, 22, 23, 8, 9, 3, 24};
enum { SCALE, KEEP, PRE, NEXT, HEADS, LAYOUT, INNER };

/* ---- views ------------------------------------------------------------------------------------------- */

static const struct attend_layout layouts[] = {{"BNSD", 0, 1, 2, 3},
                                               {"BSND", 0, 2, 1, 3},
                                               {"BSH", 0, -1, 1, 2},
                                               {"SBH", 1, -1, 0, 2},
                                               {"NBSD", 1, 0, 2, 3}};

const struct attend_layout *attend_layout(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (strlen(layouts[i].name) == n && !memcmp(name, layouts[i].name, n)) return &layouts[i];
    return NULL;
}

static const struct attend_layout *find_layout(const op_call *c, const struct flash *f)
{
    const char *name = c->arg[f->scale + LAYOUT].str;
    const struct attend_layout *l = attend_layout(name, strlen(name));
    return l && strcmp(l->name, "NBSD") ? l : NULL; /* that one is an output of inference only */
}

bool attend_heads(const aclTensor *t, const struct attend_layout *l, int64_t heads, aclTensor *v)
{
    *v = *t;
    if (t->rank != (l->n < 0 ? 3 : 4)) return false;
    int64_t h = t->dim[(int)l->d], hs = t->stride[(int)l->d];
    v->rank = 4;
    v->dim[0] = t->dim[(int)l->b], v->stride[0] = t->stride[(int)l->b];
    v->dim[2] = t->dim[(int)l->s], v->stride[2] = t->stride[(int)l->s];
    if (l->n >= 0) v->dim[1] = t->dim[(int)l->n], v->stride[1] = t->stride[(int)l->n];
    v->dim[3] = h, v->stride[3] = hs;
    if (l->n >= 0) return true;
    if (heads < 1 || h % heads) return false;
    v->dim[1] = heads, v->dim[3] = h / heads, v->stride[1] = h / heads * hs;
    return true;
}

bool attend_fit(struct attend_views *w)
{
    w->b = w->q.dim[0], w->heads = w->q.dim[1], w->sq = w->q.dim[2], w->d = w->q.dim[3];
    w->kv_heads = w->k.dim[1], w->skv = w->k.dim[2], w->dv = w->v.dim[3];
    const int64_t kd[] = {w->b, w->kv_heads, w->skv, w->d}, vd[] = {w->b, w->kv_heads, w->skv, w->dv};
    const int64_t od[] = {w->b, w->heads, w->sq, w->dv};
    return w->kv_heads > 0 && w->heads % w->kv_heads == 0 && !memcmp(w->k.dim, kd, sizeof kd) &&
           !memcmp(w->v.dim, vd, sizeof vd) && !memcmp(w->out.dim, od, sizeof od);
}

static int make_views(const op_call *c, const struct flash *f, struct attend_views *w)
{
    const struct attend_layout *l = find_layout(c, f);
    int64_t heads = c->arg[f->scale + HEADS].i;
    char qs[256], ks[256];
    const aclTensor *q = c->arg[0].t, *k = c->arg[1].t, *v = c->arg[2].t;
    if (!l)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "inputLayout %s, expected BNSD, BSND, BSH or SBH",
                       c->arg[f->scale + LAYOUT].str);
    bool good = heads >= 1 && attend_heads(q, l, heads, &w->q);
    int64_t d = good ? w->q.dim[3] : 0;
    int64_t kv = good && l->n < 0 && d > 0 ? k->dim[(int)l->d] / d : heads;
    good = good && attend_heads(k, l, kv, &w->k) && attend_heads(v, l, kv, &w->v) &&
           attend_heads(c->arg[f->out].t, l, heads, &w->out) && attend_fit(w) && w->heads == heads;
    if (good) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "query %s and key %s (layout %s, %lld heads), value and output do not fit",
                   sn_shape_str(q, qs), sn_shape_str(k, ks), l->name, (long long)heads);
}

/* ---- checks ------------------------------------------------------------------------------------------ */

static int check_mask(const op_call *c, const struct flash *f, const struct attend_views *w)
{
    const aclTensor *m = c->arg[f->mask].t;
    const int64_t full[] = {w->b, w->heads, w->sq, w->skv};
    int64_t mode = c->arg[f->sparse].i;
    char ms[256];
    aclTensor e;
    if (mode < DEFAULT_MASK || mode > PREFIX_COMPRESSED)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "sparseMode %lld, expected 0 to 6", (long long)mode);
    if (!m && mode != DEFAULT_MASK)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "sparseMode %lld needs attenMask", (long long)mode);
    if (mode == PREFIX || mode == PREFIX_COMPRESSED) {
        const aclIntArray *p = c->arg[f->prefix].ia;
        if (!p || (int64_t)p->n != w->b)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "prefix needs a value for each of %lld batches",
                           (long long)w->b);
    }
    if (!m || (mode >= LEFT_UP && mode <= BAND) || mode == PREFIX_COMPRESSED) {
        bool square = !m || (m->rank >= 2 && m->dim[m->rank - 2] >= COMPRESSED_MASK &&
                             m->dim[m->rank - 1] == COMPRESSED_MASK);
        if (square || sn_expand(m, full, 4, &e)) return 0;
    } else if (sn_expand(m, full, 4, &e))
        return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "attenMask %s does not fit [%lld, %lld, %lld, %lld] in sparseMode %lld",
                   sn_shape_str(m, ms), (long long)w->b, (long long)w->heads, (long long)w->sq,
                   (long long)w->skv, (long long)mode);
}

static int check_options(const op_call *c, const struct flash *f, const struct attend_views *w)
{
    const aclTensor *pse = c->arg[f->pse].t, *drop = c->arg[f->drop].t;
    const int64_t full[] = {w->b, w->heads, w->sq, w->skv};
    double keep = c->arg[f->scale + KEEP].d;
    int64_t type = f->pse_type >= 0 ? c->arg[f->pse_type].i : 1;
    aclTensor e;
    char ps[256];
    if (!(keep > 0 && keep <= 1))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "keepProb %g is not in (0, 1]", keep);
    if (type != 0 && type != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "pseType %lld is not supported by softnpu",
                       (long long)type);
    if (pse && !sn_expand(pse, full, 4, &e))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "position shift %s does not broadcast to the scores",
                       sn_shape_str(pse, ps));
    if (keep < 1 && !drop) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "keepProb %g needs dropMask", keep);
    if (drop && sn_numel(drop) > 0 && sn_numel(drop) * 8 < w->b * w->heads * w->sq * w->skv)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dropMask has %lld bytes, too few for the scores",
                       (long long)sn_numel(drop));
    return 0;
}

static int check_flash(op_call *c)
{
    const struct flash *f = c->row->aux;
    struct attend_views w;
    int rc = make_views(c, f, &w);
    if (!rc) rc = check_mask(c, f, &w);
    if (!rc) rc = check_options(c, f, &w);
    if (rc) return rc;
    const int64_t stat[] = {w.b, w.heads, w.sq, 8};
    rc = op_need_shape(c, f->max, stat, 4);
    if (!rc) rc = op_need_shape(c, f->sum, stat, 4);
    c->work += w.b * w.heads * w.sq * w.skv * (w.d + w.dv) / 16;
    return rc;
}

static int check_flash_grad(op_call *c)
{
    const struct flash *f = c->row->aux;
    if (!c->arg[f->max].t || !c->arg[f->sum].t)
        return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "softmaxMax and softmaxSum are needed");
    int rc = check_flash(c);
    for (int i = 0; i < 3 && !rc; i++) rc = op_need_same_shape(c, i, f->dq + i);
    const aclTensor *pse = c->arg[f->pse].t, *dpse = c->arg[f->dq + 3].t;
    if (!rc && pse && dpse && sn_numel(dpse)) rc = op_need_same_shape(c, f->pse, f->dq + 3);
    return rc;
}

/* ---- what both directions share ---------------------------------------------------------------------- */

enum { ROWS = 64 }; /* query rows of a block */

/* A mask or shift that is one value for all keys of a row would need stride 0 along the row: it is spread. */
void *attend_broadcast(op_call *c, const aclTensor *t, aclDataType as, int64_t keys, int64_t at[4])
{
    aclTensor v = *t;
    int64_t step = 1;
    if (v.rank && v.dim[v.rank - 1] == 1 && keys != 1) v.dim[v.rank - 1] = keys, v.stride[v.rank - 1] = 0;
    memset(at, 0, 4 * sizeof *at);
    for (int32_t d = v.rank - 1, i = 3; d >= 0; d--, i--) {
        at[i] = v.dim[d] == 1 ? 0 : step;
        step *= v.dim[d];
    }
    return op_in(c, &v, as);
}

static void load_common(op_call *c, const struct flash *f, struct attend *a)
{
    make_views(c, f, &a->w);
    a->q = op_in(c, &a->w.q, ACL_FLOAT), a->k = op_in(c, &a->w.k, ACL_FLOAT),
    a->v = op_in(c, &a->w.v, ACL_FLOAT);
    a->scale = (float)c->arg[f->scale + SCALE].d;
    a->mode = c->arg[f->sparse].i, a->pre = c->arg[f->scale + PRE].i, a->next = c->arg[f->scale + NEXT].i;
    a->prefix = c->arg[f->prefix].ia;
    a->scale_bias = f->pse_type < 0 || c->arg[f->pse_type].i == 1;
    const aclTensor *mask = c->arg[f->mask].t, *pse = c->arg[f->pse].t, *drop = c->arg[f->drop].t;
    if (mask && (a->mode == DEFAULT_MASK || a->mode == ALL_MASK))
        a->mask = attend_broadcast(c, mask, mask->dtype, a->w.skv, a->mask_at);
    if (pse) a->pse = attend_broadcast(c, pse, ACL_FLOAT, a->w.skv, a->pse_at);
    double keep = c->arg[f->scale + KEEP].d;
    if (drop && sn_numel(drop) && keep < 1)
        a->keep = op_in(c, drop, ACL_UINT8), a->keep_scale = (float)(1 / keep);
    if (a->mode == DEFAULT_MASK && !mask) a->mode = ALL_MASK; /* without a mask the band does not count */
}

static int64_t clip(int64_t x, int64_t n)
{
    return x < 0 ? 0 : x > n ? n : x;
}
static int64_t add_far(int64_t x, int64_t y)
{
    return y > INT32_MAX ? INT32_MAX : y < INT32_MIN ? INT32_MIN : x + y;
}

/* The keys that query row i of batch b may see, as the sparse mode says. */
static void visible(const struct attend *a, int64_t b, int64_t i, struct score_row *r)
{
    int64_t n = a->kv_len ? a->kv_len[b] : a->w.skv, rows = a->q_len ? a->q_len[b] : a->w.sq,
            shift = n - rows;
    r->lo = 0, r->hi = i < rows ? n : 0, r->prefix = 0;
    if (i >= rows) return;
    if (a->mode == LEFT_UP) r->hi = clip(i + 1, n);
    if (a->mode == RIGHT_DOWN || a->mode == PREFIX || a->mode == PREFIX_COMPRESSED)
        r->hi = clip(i + shift + 1, n);
    if (a->mode == DEFAULT_MASK || a->mode == BAND) {
        int64_t at = i + (a->mode == BAND ? shift : 0);
        r->lo = clip(add_far(at, -a->pre), n), r->hi = clip(add_far(at + 1, a->next), n);
    }
    if (a->mode == PREFIX || a->mode == PREFIX_COMPRESSED) r->prefix = clip(a->prefix->v[b], n);
}

static struct score_row row_of(const struct attend *a, int64_t b, int64_t h, int64_t i)
{
    struct score_row r = {.n = a->w.skv,
                          .scale = a->scale,
                          .scale_bias = a->scale_bias,
                          .keep = a->keep,
                          .keep_scale = a->keep_scale};
    visible(a, b, i, &r);
    if (a->pse) r.bias = a->pse + b * a->pse_at[0] + h * a->pse_at[1] + i * a->pse_at[2];
    if (a->mask) r.mask = a->mask + b * a->mask_at[0] + h * a->mask_at[1] + i * a->mask_at[2];
    r.keep_bit = ((b * a->w.heads + h) * a->w.sq + i) * a->w.skv;
    return r;
}

/* c (rows by cols) = a b, all row major and contiguous; transposes as told. beta adds to c. */
static void multiply(const float *a, bool at, const float *b, bool bt, float *c, int64_t m, int64_t n,
                     int64_t k, int beta)
{
    struct gemm g;
    gemm_init(&g, ACL_FLOAT, m, n, k);
    g.a = (struct mat){.p = (void *)(uintptr_t)a, .rs = at ? 1 : k, .cs = at ? m : 1};
    g.b = (struct mat){.p = (void *)(uintptr_t)b, .rs = bt ? 1 : n, .cs = bt ? k : 1};
    g.c = (struct mat){.p = c, .rs = n, .cs = 1};
    g.beta = beta;
    gemm_serial(&g);
}

static float *temporary(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p + 1);
    if (!p) abort();
    return p;
}

/* ---- forward ----------------------------------------------------------------------------------------- */

static void forward_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct attend *a = ctx;
    const struct attend_views *w = &a->w;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t i0 = piece % a->blocks * ROWS, head = piece / a->blocks, b = head / w->heads,
                h = head % w->heads;
        int64_t kv = b * w->kv_heads + h / (w->heads / w->kv_heads),
                rows = w->sq - i0 < ROWS ? w->sq - i0 : ROWS;
        float *score = temporary(rows * w->skv);
        multiply(a->q + (head * w->sq + i0) * w->d, false, a->k + kv * w->skv * w->d, true, score, rows,
                 w->skv, w->d, 0);
        for (int64_t i = 0; i < rows; i++) {
            struct score_row r = row_of(a, b, h, i0 + i);
            float max, sum;
            attention_kernels()->forward(&r, score + i * w->skv, &max, &sum);
            for (int64_t x = 0, at = (head * w->sq + i0 + i) * 8; x < 8; x++)
                a->max[at + x] = max, a->sum[at + x] = sum;
        }
        multiply(score, false, a->v + kv * w->skv * w->dv, false, a->out + (head * w->sq + i0) * w->dv, rows,
                 w->dv, w->skv, 0);
        free(score);
    }
}

void attend_forward(struct attend *a)
{
    a->blocks = (a->w.sq + ROWS - 1) / ROWS;
    rt_pool_run(a->w.b * a->w.heads * a->blocks, 1, forward_piece, a);
}

static int run_flash(op_call *c)
{
    const struct flash *f = c->row->aux;
    struct attend a = {0};
    load_common(c, f, &a);
    const aclTensor *max = c->arg[f->max].t, *sum = c->arg[f->sum].t;
    if (a.w.b * a.w.heads * a.w.sq == 0) return 0;
    a.max = op_out(c, max, ACL_FLOAT), a.sum = op_out(c, sum, ACL_FLOAT);
    a.out = op_out(c, &a.w.out, ACL_FLOAT);
    attend_forward(&a);
    op_out_done(c, max, ACL_FLOAT, a.max);
    op_out_done(c, sum, ACL_FLOAT, a.sum);
    op_out_done(c, &a.w.out, ACL_FLOAT, a.out);
    return 0;
}

/* ---- backward ---------------------------------------------------------------------------------------- */

/* One block of query rows of a head; adds to its dk and dv. */
static void backward_block(const struct attend *a, int64_t b, int64_t h, int64_t i0, float *score,
                           float *grad)
{
    const struct attend_views *w = &a->w;
    int64_t head = b * w->heads + h, kv = b * w->kv_heads + h / (w->heads / w->kv_heads), n = w->skv;
    int64_t rows = w->sq - i0 < ROWS ? w->sq - i0 : ROWS;
    const float *q = a->q + (head * w->sq + i0) * w->d, *dy = a->dy + (head * w->sq + i0) * w->dv;
    multiply(q, false, a->k + kv * n * w->d, true, score, rows, n, w->d, 0);
    multiply(dy, false, a->v + kv * n * w->dv, true, grad, rows, n, w->dv, 0);
    for (int64_t i = 0; i < rows; i++) {
        struct score_row r = row_of(a, b, h, i0 + i);
        int64_t at = (head * w->sq + i0 + i) * 8;
        attention_kernels()->backward(&r, score + i * n, grad + i * n, a->max[at], a->sum[at]);
    }
    if (a->ds) memcpy(a->ds + (head * w->sq + i0) * n, grad, (size_t)(rows * n) * sizeof *grad);
    multiply(grad, false, a->k + kv * n * w->d, false, a->dq + (head * w->sq + i0) * w->d, rows, w->d, n, 0);
    multiply(grad, true, q, false, a->dk + kv * n * w->d, n, w->d, rows, 1);
    multiply(score, true, dy, false, a->dv + kv * n * w->dv, n, w->dv, rows, 1);
}

/* One key head: it owns its dk and dv, and the dq of the query heads that share it. */
static void backward_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct attend *a = ctx;
    const struct attend_views *w = &a->w;
    int64_t group = w->heads / w->kv_heads;
    for (int64_t kv = begin; kv < end; kv++) {
        float *score = temporary(ROWS * w->skv), *grad = temporary(ROWS * w->skv);
        memset(a->dk + kv * w->skv * w->d, 0, (size_t)(w->skv * w->d) * sizeof *a->dk);
        memset(a->dv + kv * w->skv * w->dv, 0, (size_t)(w->skv * w->dv) * sizeof *a->dv);
        for (int64_t g = 0; g < group; g++)
            for (int64_t i0 = 0; i0 < w->sq; i0 += ROWS)
                backward_block(a, kv / w->kv_heads, kv % w->kv_heads * group + g, i0, score, grad);
        free(score);
        free(grad);
    }
}

/* The shift's gradient: the scores' gradient added up over the dimensions that the shift was broadcast along.
 */
static void grad_shift(op_call *c, const struct flash *f, const struct attend *a)
{
    const aclTensor *t = c->arg[f->dq + 3].t;
    const struct attend_views *w = &a->w;
    float *y = op_out(c, t, ACL_FLOAT), undo = a->scale_bias ? 1 : 1 / a->scale;
    int64_t at[4] = {0}, step = 1;
    for (int32_t d = t->rank - 1, i = 3; d >= 0; d--, i--)
        at[i] = t->dim[d] == 1 ? 0 : step, step *= t->dim[d];
    memset(y, 0, (size_t)sn_numel(t) * sizeof *y);
    const float *ds = a->ds;
    for (int64_t b = 0; b < w->b; b++)
        for (int64_t h = 0; h < w->heads; h++)
            for (int64_t i = 0; i < w->sq; i++) {
                float *row = y + b * at[0] + h * at[1] + i * at[2];
                for (int64_t j = 0; j < w->skv; j++) row[j * at[3]] += *ds++ * undo;
            }
    op_out_done(c, t, ACL_FLOAT, y);
}

static int run_flash_grad(op_call *c)
{
    const struct flash *f = c->row->aux;
    struct attend a = {0};
    load_common(c, f, &a);
    struct attend_views *w = &a.w;
    aclTensor dq = w->q, dk = w->k, dv = w->v;
    const struct attend_layout *l = find_layout(c, f);
    attend_heads(c->arg[f->dq].t, l, w->heads, &dq);
    attend_heads(c->arg[f->dq + 1].t, l, w->kv_heads, &dk);
    attend_heads(c->arg[f->dq + 2].t, l, w->kv_heads, &dv);
    const aclTensor *dpse = c->arg[f->dq + 3].t;
    a.dy = op_in(c, &w->out, ACL_FLOAT);
    a.max = op_in(c, c->arg[f->max].t, ACL_FLOAT), a.sum = op_in(c, c->arg[f->sum].t, ACL_FLOAT);
    a.dq = op_out(c, &dq, ACL_FLOAT), a.dk = op_out(c, &dk, ACL_FLOAT), a.dv = op_out(c, &dv, ACL_FLOAT);
    bool shift = a.pse && dpse && sn_numel(dpse);
    if (shift) a.ds = op_scratch(c, (size_t)(w->b * w->heads * w->sq * w->skv) * sizeof *a.ds + 1);
    rt_pool_run(w->b * w->kv_heads, 1, backward_piece, &a);
    op_out_done(c, &dq, ACL_FLOAT, a.dq);
    op_out_done(c, &dk, ACL_FLOAT, a.dk);
    op_out_done(c, &dv, ACL_FLOAT, a.dv);
    if (shift) grad_shift(c, f, &a);
    return 0;
}

/* ---- scaled masked softmax --------------------------------------------------------------------------- */

struct masked {
    int8_t x, grad, mask, out; /* grad -1: forward */
};
static const struct masked masked_forward = {0, -1, 1, 4};
static const struct masked masked_backward = {1, 0, 2, 5};

static int check_masked(op_call *c)
{
    const struct masked *m = c->row->aux;
    const aclTensor *x = c->arg[m->x].t;
    aclTensor e;
    char xs[256], ms[256];
    if (c->arg[m->out - 1].i) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "fixTriuMask must be false");
    if (x->rank < 1 || !sn_expand(c->arg[m->mask].t, x->dim, x->rank, &e))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "mask %s does not broadcast to %s",
                       sn_shape_str(c->arg[m->mask].t, ms), sn_shape_str(x, xs));
    int rc = op_need_same_shape(c, m->x, m->out);
    return rc || m->grad < 0 ? rc : op_need_same_shape(c, m->x, m->grad);
}

struct masked_job {
    int64_t n;
    const float *x, *grad;
    const uint8_t *mask;
    float scale, *y;
};
static void masked_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct masked_job *j = ctx;
    for (int64_t i = begin * j->n; i < end * j->n; i += j->n)
        if (j->grad)
            attention_kernels()->masked_back(j->n, j->grad + i, j->x + i, j->mask + i, j->scale, j->y + i);
        else
            attention_kernels()->masked(j->n, j->x + i, j->mask + i, j->scale, j->y + i);
}

static int run_masked(op_call *c)
{
    const struct masked *m = c->row->aux;
    const aclTensor *x = c->arg[m->x].t, *out = c->arg[m->out].t;
    aclTensor mask;
    if (sn_numel(x) == 0) return 0;
    sn_expand(c->arg[m->mask].t, x->dim, x->rank, &mask);
    struct masked_job j = {.n = x->dim[x->rank - 1], .scale = (float)c->arg[m->out - 2].d};
    j.x = op_in(c, x, ACL_FLOAT), j.mask = op_in(c, &mask, mask.dtype);
    j.grad = m->grad >= 0 ? op_in(c, c->arg[m->grad].t, ACL_FLOAT) : NULL;
    j.y = op_out(c, out, ACL_FLOAT);
    rt_pool_run(sn_numel(x) / j.n, (1 << 14) / j.n + 1, masked_piece, &j);
    op_out_done(c, out, ACL_FLOAT, j.y);
    return 0;
}

#define OP_FILE "softnpu/op/attention.inc"
#define OP_TABLE op_rows_attention
#include "softnpu/op/rows.h"
