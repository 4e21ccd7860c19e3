/* dropout.c - dropout by bit masks: bit i % 8 of byte i / 8 is 1 where element i stays; whole groups of 128
 * bits. */
#include "softnpu/op/stream.h"

#include <math.h>
#include <string.h>

static const int8_t seeds_2 = 2, seeds_3 = 3;
static int seed_arg(const op_call *c)
{
    return *(const int8_t *)c->row->aux;
}

static int64_t mask_bytes(int64_t numel)
{
    return (numel + 127) / 128 * 16;
}

/* ---- masks ------------------------------------------------------------------------------------------- */

static int need_probability(const op_call *c, double p)
{
    if (p >= 0 && p <= 1) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "prob %g is outside [0, 1]", p);
}

static int need_mask(const op_call *c, const aclTensor *mask, int64_t numel)
{
    if (sn_numel(mask) >= mask_bytes(numel)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "a mask of %lld bytes is too small for %lld elements, which need %lld",
                   (long long)sn_numel(mask), (long long)numel, (long long)mask_bytes(numel));
}

static int check_gen_mask(op_call *c)
{
    int r = need_probability(c, c->arg[1].d);
    if (!r) r = op_need_numel(c, 0, c->arg[0].ia, &c->plan[0]);
    return r ? r : need_mask(c, c->arg[c->row->nparam - 1].t, c->plan[0]);
}

struct mask_ctx {
    uint8_t *bits;
    struct random_stream stream;
    uint64_t keep;
};

static void mask_part(void *ctx, int64_t begin, int64_t end)
{
    const struct mask_ctx *m = ctx;
    random_kernels()->bits(m->bits + begin, 8 * begin, end - begin, m->stream, m->keep);
}

/* Fills the mask of `numel` elements; places beyond them are kept, too. */
static void make_mask(op_call *c, const aclTensor *mask, int64_t numel, double prob,
                      struct random_stream stream)
{
    int64_t n = mask_bytes(numel), whole = numel / 8;
    struct mask_ctx m = {.stream = stream, .keep = (uint64_t)((1 - prob) * 0x1p32)};
    if (n == 0) return;
    m.bits = op_out(c, mask, ACL_UINT8);
    rt_pool_run(n, 8192, mask_part, &m);
    if (numel % 8) m.bits[whole++] |= (uint8_t)(0xff << numel % 8);
    memset(m.bits + whole, 0xff, (size_t)(sn_numel(mask) - whole));
    op_out_done(c, mask, ACL_UINT8, m.bits);
}

static int run_gen_mask(op_call *c)
{
    make_mask(c, c->arg[c->row->nparam - 1].t, c->plan[0], c->arg[1].d, stream_of(c, seed_arg(c)));
    return 0;
}

/* ---- applying them ----------------------------------------------------------------------------------- */

struct apply_ctx {
    const uint8_t *bits;
    float scale;
};

static void apply_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct apply_ctx *a = ctx;
    float *out = p[0];
    const float *x = p[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index + i;
        out[i] = a->bits[at / 8] >> at % 8 & 1 ? x[i] * a->scale : 0.0f;
    }
}

/* out = x * scale where the mask says so, 0 elsewhere. */
static int apply_mask(op_call *c, const aclTensor *x, const aclTensor *mask, double scale,
                      const aclTensor *out)
{
    if (sn_numel(out) == 0) return 0;
    struct apply_ctx a = {op_in(c, mask, ACL_UINT8), (float)scale};
    struct ew_operand operand[] = {{out, ACL_FLOAT, NULL}, {x, ACL_FLOAT, NULL}};
    return ew_run(c, operand, 1, 1, apply_block, &a);
}

static int check_do_mask(op_call *c)
{
    int r = op_need_same_shape(c, 0, 3);
    return r ? r : need_mask(c, c->arg[1].t, sn_numel(c->arg[0].t));
}

static int run_do_mask(op_call *c)
{
    double prob = c->arg[2].d;
    return apply_mask(c, c->arg[0].t, c->arg[1].t, prob < 1 ? 1 / (1 - prob) : 0, c->arg[3].t);
}

static int run_dropout_backward(op_call *c)
{
    return apply_mask(c, c->arg[0].t, c->arg[1].t, c->arg[2].d, c->arg[3].t);
}

/* ---- both at once ------------------------------------------------------------------------------------ */

static int need_dropout(op_call *c, double p)
{
    int r = need_probability(c, p);
    if (r || (r = op_need_same_shape(c, 0, 5))) return r;
    return need_mask(c, c->arg[6].t, sn_numel(c->arg[0].t));
}
static int check_dropout(op_call *c)
{
    return need_dropout(c, c->arg[1].d);
}

static int check_dropout_v3(op_call *c)
{
    if (c->arg[1].t && sn_numel(c->arg[1].t))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "optionalNoiseShape must be empty");
    return need_dropout(c, c->arg[2].d);
}

static int run_dropout(op_call *c)
{
    bool v3 = c->row->param[2].kind == OPK_D, train = v3 || c->arg[2].i;
    double p = train ? c->arg[v3 ? 2 : 1].d : 0;
    const aclTensor *x = c->arg[0].t, *mask = c->arg[6].t;
    make_mask(c, mask, sn_numel(x), p, stream_of(c, seed_arg(c)));
    return apply_mask(c, x, mask, p < 1 ? 1 / (1 - p) : 0, c->arg[5].t);
}

#define OP_FILE "softnpu/op/dropout.inc"
#define OP_TABLE op_rows_dropout
#include "softnpu/op/rows.h"
