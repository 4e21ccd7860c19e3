/* group_norm.c - group normalisation, its fusion with swish, and the gradients. */
#include "softnpu/op/norm.h"

#include <math.h>
#include <string.h>

/* Places of arguments; 0: the operator has none. x is argument 0 of the forward operators. */
struct group_spec {
    int8_t shape; /* N, C, HxW follow each other here */
    int8_t group, format, eps, activate, scale;
    int8_t y, mean, rstd;
    bool silu; /* always activated, with scale 1 */
};
struct group_grad_spec {
    int8_t x, mean, rstd, gamma, beta, shape, group, format, scale, mask, want_gamma;
    int8_t out; /* dx, dgamma, dbeta */
};

/* x is [batch, channels, area] in memory; a group is `each` neighbouring channels. */
struct groups {
    aclDataType as;
    int type;
    int64_t batch, channels, area, group, each;
};

static struct groups groups_of(const aclTensor *x, int64_t group)
{
    struct groups h = {
        .as = norm_type(x), .batch = x->dim[0], .channels = x->dim[1], .area = 1, .group = group};
    h.type = norm_index(h.as);
    h.each = h.channels / group;
    for (int32_t d = 2; d < x->rank; d++) h.area *= x->dim[d];
    return h;
}

static int check_groups(const op_call *c, const aclTensor *x, int shape, int group, int format)
{
    int64_t n = c->arg[group].i;
    char text[256];
    if (x->rank < 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "x has %d dimensions, groups of channels need 2", x->rank);
    if (n < 1 || x->dim[1] % n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%lld channels do not split into %lld groups",
                       (long long)x->dim[1], (long long)n);
    struct groups h = groups_of(x, n);
    const int64_t is[] = {h.batch, h.channels, h.area};
    for (int i = 0; i < 3 && shape; i++)
        if (c->arg[shape + i].i != is[i])
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is %lld, but x has shape %s",
                           c->row->param[shape + i].name, (long long)c->arg[shape + i].i,
                           sn_shape_str(x, text));
    if (format && c->arg[format].str && *c->arg[format].str && strcmp(c->arg[format].str, "NCHW") != 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dataFormat is %s, only NCHW is supported",
                       c->arg[format].str);
    return 0;
}

static int check_group_norm(op_call *c)
{
    const struct group_spec *s = c->row->aux;
    const aclTensor *x = c->arg[0].t;
    int rc = check_groups(c, x, s->shape, s->group, s->format);
    for (int i = 1; i < 3 && !rc; i++) rc = norm_need_count(c, i, x->dim[1]);
    if (!rc) rc = op_need_same_shape(c, 0, s->y);
    if (!rc) rc = norm_need_count(c, s->mean, x->dim[0] * c->arg[s->group].i);
    if (!rc) rc = norm_need_count(c, s->rstd, x->dim[0] * c->arg[s->group].i);
    return rc;
}

static double *channel_values(op_call *c, const aclTensor *t, int64_t n, double otherwise)
{
    if (t) return op_in(c, t, ACL_DOUBLE);
    double *v = op_scratch(c, sizeof *v * (size_t)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) v[i] = otherwise;
    return v;
}

/* v = v * sigmoid(scale * v) */
static void swish(void *v, aclDataType as, int64_t n, double scale)
{
    for (int64_t i = 0; i < n; i++) {
        if (as == ACL_DOUBLE)
            ((double *)v)[i] /= 1 + exp(-scale * ((double *)v)[i]);
        else
            ((float *)v)[i] /= 1 + expf((float)-scale * ((float *)v)[i]);
    }
}

struct group_run {
    struct groups h;
    const void *x;
    void *y;
    const double *gamma, *beta;
    double *mean, *rstd, eps, scale;
    bool activate;
};

static void group_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct group_run *r = ctx;
    const struct row_kernels *k = row_kernels();
    int64_t n = r->h.each * r->h.area;
    for (int64_t i = begin; i < end; i++) {
        struct row_stats s = k->stats[r->h.type](norm_at(r->x, r->h.as, i * n), n, r->eps);
        r->mean[i] = s.mean;
        r->rstd[i] = s.rstd;
        for (int64_t j = 0; j < r->h.each; j++) {
            int64_t channel = i % r->h.group * r->h.each + j, at = i * n + j * r->h.area;
            void *y = norm_at(r->y, r->h.as, at);
            k->affine[r->h.type](y, norm_at(r->x, r->h.as, at), r->h.area, s, r->gamma[channel],
                                 r->beta[channel]);
            if (r->activate) swish(y, r->h.as, r->h.area, r->scale);
        }
    }
}

static int64_t group_grain(int64_t each)
{
    enum { TASK = 1 << 14 };
    return TASK / (each + 1) + 1;
}

static int run_group_norm(op_call *c)
{
    const struct group_spec *s = c->row->aux;
    const aclTensor *x = c->arg[0].t, *y = c->arg[s->y].t;
    struct group_run r = {.h = groups_of(x, c->arg[s->group].i), .eps = c->arg[s->eps].d, .scale = 1};
    int64_t rows = r.h.batch * r.h.group;
    r.activate = s->silu || (s->activate && c->arg[s->activate].i);
    if (s->scale) r.scale = c->arg[s->scale].d;
    r.gamma = channel_values(c, c->arg[1].t, r.h.channels, 1);
    r.beta = channel_values(c, c->arg[2].t, r.h.channels, 0);
    r.mean = norm_out(c, c->arg[s->mean].t, ACL_DOUBLE, rows);
    r.rstd = norm_out(c, c->arg[s->rstd].t, ACL_DOUBLE, rows);
    r.x = op_in(c, x, r.h.as);
    r.y = norm_out_beside(c, y, r.h.as, x, NULL);
    rt_pool_run(rows, group_grain(r.h.each * r.h.area), group_rows, &r);
    op_out_done(c, y, r.h.as, r.y);
    op_out_done(c, c->arg[s->mean].t, ACL_DOUBLE, r.mean);
    op_out_done(c, c->arg[s->rstd].t, ACL_DOUBLE, r.rstd);
    return 0;
}

/* ---- backward --------------------------------------------------------------------------------------------
 */

/* Output i of dx, dgamma, dbeta, or NULL if it is not asked for. */
static const aclTensor *grad_out(const op_call *c, const struct group_grad_spec *s, int i)
{
    if (s->mask && !c->arg[s->mask].ba->v[i]) return NULL;
    if (s->want_gamma && i && !c->arg[s->want_gamma + i - 1].i) return NULL;
    return c->arg[s->out + i].t;
}

static int check_group_norm_grad(op_call *c)
{
    const struct group_grad_spec *s = c->row->aux;
    const aclTensor *x = c->arg[s->x].t;
    int rc = check_groups(c, x, s->shape, s->group, s->format);
    if (!rc && s->mask && c->arg[s->mask].ba->n != 3)
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "outputMask has %d elements, not 3",
                     (int)c->arg[s->mask].ba->n);
    if (!rc && sn_numel(c->arg[0].t) != sn_numel(x)) rc = op_need_same_shape(c, 0, s->x);
    const int8_t rows[] = {s->mean, s->rstd}, per_channel[] = {s->gamma, s->beta};
    for (int i = 0; i < 2 && !rc; i++) rc = norm_need_count(c, rows[i], x->dim[0] * c->arg[s->group].i);
    for (int i = 0; i < 2 && !rc; i++)
        if (per_channel[i]) rc = norm_need_count(c, per_channel[i], x->dim[1]);
    for (int i = 0; i < 3 && !rc; i++)
        if (grad_out(c, s, i)) rc = norm_need_count(c, s->out + i, i ? x->dim[1] : sn_numel(x));
    return rc;
}

struct group_back {
    struct groups h;
    const void *x;
    void *dy; /* own memory when swish changes it */
    void *dx;
    const double *gamma, *beta, *mean, *rstd;
    double scale, *sum, *sum_x; /* one a batch entry and channel: of dy, of dy * xhat */
    bool activated;
};

/* dy of the activation's output becomes dy of its input u = xhat * gamma + beta. */
static void swish_back(const struct group_back *b, int64_t at, struct row_stats s, double gamma, double beta)
{
    for (int64_t i = at; i < at + b->h.area; i++) {
        bool wide = b->h.as == ACL_DOUBLE;
        double x = wide ? ((const double *)b->x)[i] : (double)((const float *)b->x)[i];
        double u = b->scale * ((x - s.mean) * s.rstd * gamma + beta), gate = 1 / (1 + exp(-u));
        double slope = gate * (1 + u * (1 - gate));
        if (wide)
            ((double *)b->dy)[i] *= slope;
        else
            ((float *)b->dy)[i] = (float)((double)((float *)b->dy)[i] * slope);
    }
}

static void back_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct group_back *b = ctx;
    const struct row_kernels *k = row_kernels();
    int64_t n = b->h.each * b->h.area;
    for (int64_t i = begin; i < end; i++) {
        struct row_stats s = {b->mean[i], b->rstd[i]};
        double all = 0, all_x = 0;
        for (int64_t j = 0; j < b->h.each; j++) {
            int64_t place = i * b->h.each + j, channel = place % b->h.channels, at = place * b->h.area;
            if (b->activated) swish_back(b, at, s, b->gamma[channel], b->beta[channel]);
            struct row_sums part = k->grad_sums[b->h.type](norm_at(b->dy, b->h.as, at),
                                                           norm_at(b->x, b->h.as, at), b->h.area, s, NULL);
            b->sum[place] = part.g;
            b->sum_x[place] = part.gx;
            all += part.g * b->gamma[channel];
            all_x += part.gx * b->gamma[channel];
        }
        for (int64_t j = 0; j < b->h.each && b->dx; j++) {
            int64_t place = i * b->h.each + j, at = place * b->h.area;
            k->grad_input[b->h.type](norm_at(b->dx, b->h.as, at), norm_at(b->dy, b->h.as, at),
                                     norm_at(b->x, b->h.as, at), b->h.area, s, NULL,
                                     b->gamma[place % b->h.channels], all / (double)n, all_x / (double)n);
        }
    }
}

/* Sums over the batch of one value a channel. */
static void store_batch_sum(op_call *c, const aclTensor *t, const double *v, const struct groups *h)
{
    if (!t) return;
    double *sum = op_out_scratch(c, t, ACL_DOUBLE);
    for (int64_t i = 0; i < h->channels; i++) {
        sum[i] = 0;
        for (int64_t n = 0; n < h->batch; n++) sum[i] += v[n * h->channels + i];
    }
    op_out_done(c, t, ACL_DOUBLE, sum);
}

static int run_group_norm_grad(op_call *c)
{
    const struct group_grad_spec *s = c->row->aux;
    const aclTensor *x = c->arg[s->x].t, *dx = grad_out(c, s, 0);
    struct group_back b = {.h = groups_of(x, c->arg[s->group].i), .activated = s->scale};
    size_t places = (size_t)(b.h.batch * b.h.channels), bytes = (size_t)sn_numel(x) * sn_size(b.h.as);
    if (s->scale) b.scale = c->arg[s->scale].d;
    b.gamma = channel_values(c, s->gamma ? c->arg[s->gamma].t : NULL, b.h.channels, 1);
    b.beta = channel_values(c, s->beta ? c->arg[s->beta].t : NULL, b.h.channels, 0);
    b.mean = op_in(c, c->arg[s->mean].t, ACL_DOUBLE);
    b.rstd = op_in(c, c->arg[s->rstd].t, ACL_DOUBLE);
    b.x = op_in(c, x, b.h.as);
    b.dy = op_in(c, c->arg[0].t, b.h.as);
    if (b.activated && bytes) b.dy = memcpy(op_scratch(c, bytes), b.dy, bytes);
    b.sum = op_scratch(c, sizeof(double) * (places + 1));
    b.sum_x = op_scratch(c, sizeof(double) * (places + 1));
    b.dx = norm_out_beside(c, dx, b.h.as, x, c->arg[0].t);
    rt_pool_run(b.h.batch * b.h.group, group_grain(b.h.each * b.h.area), back_rows, &b);
    norm_out_done(c, dx, b.h.as, b.dx);
    store_batch_sum(c, grad_out(c, s, 1), b.sum_x, &b.h);
    store_batch_sum(c, grad_out(c, s, 2), b.sum, &b.h);
    return 0;
}

static const struct group_spec
    group_norm = {.shape = 3, .group = 6, .eps = 7, .y = 8, .mean = 9, .rstd = 10},
    group_norm_silu = {.group = 3, .eps = 4, .y = 5, .mean = 6, .rstd = 7, .silu = true},
    group_norm_swish = {
        .group = 3, .format = 4, .eps = 5, .activate = 6, .scale = 7, .y = 8, .mean = 9, .rstd = 10};
static const struct group_grad_spec group_norm_grad = {.x = 1,
                                                       .mean = 2,
                                                       .rstd = 3,
                                                       .gamma = 4,
                                                       .shape = 5,
                                                       .group = 8,
                                                       .mask = 9,
                                                       .out = 10},
                                    group_norm_swish_grad = {.mean = 1,
                                                             .rstd = 2,
                                                             .x = 3,
                                                             .gamma = 4,
                                                             .beta = 5,
                                                             .group = 6,
                                                             .format = 7,
                                                             .scale = 8,
                                                             .want_gamma = 9,
                                                             .out = 11};

#define OP_FILE "softnpu/op/group_norm.inc"
#define OP_TABLE op_rows_group_norm
#include "softnpu/op/rows.h"
