/* batch_norm.c - batch normalisation: per-channel statistics, scale and shift, gradients, and the parts of
 * it. */
#include "softnpu/op/norm.h"
#include "softnpu/op/reduce.h"

#include <math.h>
#include <string.h>

/* A tensor [N, C, ...] as channels: channel c is `runs` runs of `run` contiguous elements. Where runs would
 * be short the tensor is turned to [C, N, ...] first. */
struct channels {
    aclDataType as;
    int type;
    int64_t n, runs, run, run_stride, stride; /* n: channels; strides in elements */
    int64_t count;                            /* elements in a channel */
    bool turned;
};

static struct channels channels_of(const aclTensor *x)
{
    enum { SHORT = 16 };
    struct channels h = {.as = norm_type(x), .n = x->dim[1], .runs = x->dim[0], .run = 1};
    h.type = norm_index(h.as);
    for (int32_t d = 2; d < x->rank; d++) h.run *= x->dim[d];
    h.count = h.runs * h.run;
    h.stride = h.run;
    h.run_stride = h.run * h.n;
    if (h.run < SHORT && h.runs > 1) {
        h.turned = true;
        h.run = h.stride = h.count;
        h.runs = 1;
    }
    return h;
}

/* The order that channels_of describes. */
static aclTensor channel_view(const struct channels *h, const aclTensor *t)
{
    aclTensor v = *t;
    if (h->turned) {
        v.dim[0] = t->dim[1], v.dim[1] = t->dim[0];
        v.stride[0] = t->stride[1], v.stride[1] = t->stride[0];
    }
    return v;
}

static const void *channel_in(op_call *c, const struct channels *h, const aclTensor *t)
{
    aclTensor v = channel_view(h, t);
    return op_in(c, &v, h->as);
}

static void *channel_out(op_call *c, const struct channels *h, const aclTensor *t, const aclTensor *a,
                         const aclTensor *b)
{
    if (!t) return NULL;
    aclTensor v = channel_view(h, t);
    return norm_out_beside(c, &v, h->as, a, b);
}

static void channel_out_done(op_call *c, const struct channels *h, const aclTensor *t, const void *buffer)
{
    if (!t) return;
    aclTensor v = channel_view(h, t);
    op_out_done(c, &v, h->as, buffer);
}

static char *run_at(const struct channels *h, const void *base, int64_t channel, int64_t run)
{
    return norm_at(base, h->as, channel * h->stride + run * h->run_stride);
}

/* One value a channel, as double; `otherwise` where the tensor is absent. */
static double *per_channel(op_call *c, const struct channels *h, const aclTensor *t, double otherwise)
{
    if (t) return op_in(c, t, ACL_DOUBLE);
    double *v = op_scratch(c, sizeof *v * (size_t)(h->n ? h->n : 1));
    for (int64_t i = 0; i < h->n; i++) v[i] = otherwise;
    return v;
}

/* ---- checks ------------------------------------------------------------------------------------------ */

static int need_channels(const op_call *c, const aclTensor *x, const char *arg)
{
    if (x->rank < 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "input has %d dimensions, a channel dimension needs 2",
                       x->rank);
    int rc = 0;
    for (; *arg && !rc; arg++) rc = norm_need_count(c, *arg, x->dim[1]);
    return rc;
}

/* aux: the arguments that have one value a channel, as have results one may leave out or give empty. The
 * input and the other results have the first one's shape. */
static int check_channels(op_call *c)
{
    const aclTensor *x = c->arg[0].t;
    const char *channels = c->row->aux;
    int rc = need_channels(c, x, channels);
    for (int i = 1; i < c->row->nparam && !rc; i++) {
        int kind = c->row->param[i].kind;
        if ((kind == OPK_O || (kind == OPK_T && i == 1)) && !strchr(channels, i))
            rc = op_need_same_shape(c, 0, i);
        if (kind == OPK_OQ && c->arg[i].t && sn_numel(c->arg[i].t)) rc = norm_need_count(c, i, x->dim[1]);
    }
    return rc;
}

static int need_present(const op_call *c, int arg, const char *when)
{
    if (c->arg[arg].t) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s must be there %s", c->row->param[arg].name, when);
}

static int check_batch_norm(op_call *c)
{
    const aclTensor *x = c->arg[0].t;
    int rc = need_channels(c, x, "\1\2\3\4");
    if (!rc) rc = op_need_same_shape(c, 0, 8);
    if (!rc && !c->arg[5].i) rc = need_present(c, 3, "when not training");
    if (!rc && !c->arg[5].i) rc = need_present(c, 4, "when not training");
    for (int i = 9; i < 11 && !rc; i++)
        if (c->arg[i].t && sn_numel(c->arg[i].t)) rc = norm_need_count(c, i, x->dim[1]);
    return rc;
}

static int check_batch_norm_grad(op_call *c)
{
    const aclTensor *x = c->arg[1].t;
    int rc = need_channels(c, x, "\2");
    if (!rc) rc = op_need_same_shape(c, 0, 1);
    if (!rc && c->arg[9].ba->n != 3)
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "outputMask has %d elements, not 3", (int)c->arg[9].ba->n);
    int first = c->arg[7].i ? 5 : 3;
    for (int i = first; i < first + 2 && !rc; i++) {
        rc = need_present(c, i, c->arg[7].i ? "when training" : "when not training");
        if (!rc) rc = norm_need_count(c, i, x->dim[1]);
    }
    for (int i = 0; i < 3 && !rc; i++) {
        if (!c->arg[9].ba->v[i]) continue;
        rc = need_present(c, 10 + i, "when outputMask asks for it");
        if (!rc) rc = i ? norm_need_count(c, 10 + i, x->dim[1]) : op_need_same_shape(c, 1, 10);
    }
    return rc;
}

/* ---- statistics and the forward pass ----------------------------------------------------------------- */

/* Planes mean and sum of squared distances, one value a channel. */
static int channel_moments(op_call *c, const aclTensor *x, const double **mean, const double **square)
{
    struct reduction what = {
        .self = x, .dims = ((1u << x->rank) - 1) & ~2u, .as = norm_type(x), .op = RED_MOMENTS};
    struct reduced r;
    int rc = reduce_run(c, &what, &r);
    if (rc) return rc;
    *mean = (double *)r.acc + r.kept;
    *square = *mean + r.kept;
    return 0;
}

struct forward {
    struct channels h;
    const void *x;
    void *y;
    const double *mean, *invstd, *weight, *bias;
};

static void forward_runs(void *ctx, int64_t begin, int64_t end)
{
    const struct forward *f = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t channel = i % f->h.n, run = i / f->h.n;
        struct row_stats s = {f->mean[channel], f->invstd[channel]};
        row_kernels()->affine[f->h.type](run_at(&f->h, f->y, channel, run), run_at(&f->h, f->x, channel, run),
                                         f->h.run, s, f->weight[channel], f->bias[channel]);
    }
}

static int64_t task_grain(int64_t each)
{
    enum { TASK = 1 << 15 };
    return TASK / (each + 1) + 1;
}

static void forward(op_call *c, const aclTensor *x, const aclTensor *out, int weight, const double *mean,
                    const double *invstd)
{
    struct forward f = {.h = channels_of(x), .mean = mean, .invstd = invstd};
    f.weight = per_channel(c, &f.h, c->arg[weight].t, 1);
    f.bias = per_channel(c, &f.h, c->arg[weight + 1].t, 0);
    f.x = channel_in(c, &f.h, x);
    f.y = channel_out(c, &f.h, out, x, NULL);
    rt_pool_run(f.h.n * f.h.runs, task_grain(f.h.run), forward_runs, &f);
    channel_out_done(c, &f.h, out, f.y);
}

static void store_channels(op_call *c, const aclTensor *t, const double *v)
{
    if (t && sn_numel(t)) op_out_done(c, t, ACL_DOUBLE, v);
}

/* running = (1 - momentum) * running + momentum * value */
static void update_running(op_call *c, const aclTensor *running, const double *value, double momentum,
                           int64_t n)
{
    if (!running) return;
    const double *old = op_in(c, running, ACL_DOUBLE);
    double *mixed = op_out_scratch(c, running, ACL_DOUBLE);
    for (int64_t i = 0; i < n; i++) mixed[i] = (1 - momentum) * old[i] + momentum * value[i];
    op_out_done(c, running, ACL_DOUBLE, mixed);
}

static double *scratch_channels(op_call *c, int64_t n)
{
    return op_scratch(c, sizeof(double) * (size_t)(n ? n : 1));
}

static int run_batch_norm(op_call *c)
{
    const aclTensor *x = c->arg[0].t;
    struct channels h = channels_of(x);
    double eps = c->arg[7].d, *invstd = scratch_channels(c, h.n), *var = scratch_channels(c, h.n);
    const double *mean, *square;
    if (c->arg[5].i) {
        int rc = channel_moments(c, x, &mean, &square);
        if (rc) return rc;
        for (int64_t i = 0; i < h.n; i++) {
            invstd[i] = 1 / sqrt(square[i] / (double)h.count + eps);
            var[i] = square[i] / (double)(h.count - 1);
        }
        if (h.count) {
            update_running(c, c->arg[3].t, mean, c->arg[6].d, h.n);
            update_running(c, c->arg[4].t, var, c->arg[6].d, h.n);
        }
    } else {
        mean = op_in(c, c->arg[3].t, ACL_DOUBLE);
        square = op_in(c, c->arg[4].t, ACL_DOUBLE);
        for (int64_t i = 0; i < h.n; i++) invstd[i] = 1 / sqrt(square[i] + eps);
    }
    store_channels(c, c->arg[9].t, mean);
    store_channels(c, c->arg[10].t, invstd);
    forward(c, x, c->arg[8].t, 1, mean, invstd);
    return 0;
}

static int run_batch_norm_stats(op_call *c)
{
    const aclTensor *x = c->arg[0].t;
    struct channels h = channels_of(x);
    const double *mean, *square;
    double *invstd = scratch_channels(c, h.n);
    int rc = channel_moments(c, x, &mean, &square);
    if (rc) return rc;
    for (int64_t i = 0; i < h.n; i++) invstd[i] = 1 / sqrt(square[i] / (double)h.count + c->arg[1].d);
    store_channels(c, c->arg[2].t, mean);
    store_channels(c, c->arg[3].t, invstd);
    return 0;
}

static int run_batch_norm_elemt(op_call *c)
{
    const double *mean = op_in(c, c->arg[3].t, ACL_DOUBLE), *invstd = op_in(c, c->arg[4].t, ACL_DOUBLE);
    forward(c, c->arg[0].t, c->arg[6].t, 1, mean, invstd);
    return 0;
}

static int run_batch_norm_reduce(op_call *c)
{
    static const enum red_op op[2] = {RED_SUM, RED_SQUARE};
    const aclTensor *x = c->arg[0].t;
    for (int i = 0; i < 2; i++) {
        struct reduction what = {
            .self = x, .dims = ((1u << x->rank) - 1) & ~2u, .as = norm_type(x), .op = op[i]};
        struct reduced r;
        int rc = reduce_run(c, &what, &r);
        if (rc) return rc;
        store_channels(c, c->arg[1 + i].t, r.acc);
    }
    return 0;
}

/* ---- gradients --------------------------------------------------------------------------------------- */

struct backward {
    struct channels h;
    const void *x, *dy;
    void *dx;
    const double *mean, *invstd, *weight;
    double *sum, *sum_x; /* of dy and of dy * xhat */
    const double *a, *b; /* what dx subtracts; NULL: nothing */
};

static void sum_channels(void *ctx, int64_t begin, int64_t end)
{
    const struct backward *k = ctx;
    for (int64_t i = begin; i < end; i++) {
        struct row_stats s = {k->mean[i], k->invstd[i]};
        k->sum[i] = k->sum_x[i] = 0;
        for (int64_t run = 0; run < k->h.runs; run++) {
            struct row_sums part = row_kernels()->grad_sums[k->h.type](
                run_at(&k->h, k->dy, i, run), run_at(&k->h, k->x, i, run), k->h.run, s, NULL);
            k->sum[i] += part.g;
            k->sum_x[i] += part.gx;
        }
    }
}

static void grad_runs(void *ctx, int64_t begin, int64_t end)
{
    const struct backward *k = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t channel = i % k->h.n, run = i / k->h.n;
        struct row_stats s = {k->mean[channel], k->invstd[channel]};
        row_kernels()->grad_input[k->h.type](
            run_at(&k->h, k->dx, channel, run), run_at(&k->h, k->dy, channel, run),
            run_at(&k->h, k->x, channel, run), k->h.run, s, NULL, k->weight[channel],
            k->a ? k->a[channel] : 0, k->b ? k->b[channel] : 0);
    }
}

static void backward_init(op_call *c, struct backward *k, int mean, int invstd, int weight)
{
    *k = (struct backward){.h = channels_of(c->arg[1].t)};
    k->dy = channel_in(c, &k->h, c->arg[0].t);
    k->x = channel_in(c, &k->h, c->arg[1].t);
    k->mean = op_in(c, c->arg[mean].t, ACL_DOUBLE);
    k->invstd = op_in(c, c->arg[invstd].t, ACL_DOUBLE);
    k->weight = per_channel(c, &k->h, c->arg[weight].t, 1);
}

static void backward_sums(op_call *c, struct backward *k)
{
    k->sum = scratch_channels(c, k->h.n);
    k->sum_x = scratch_channels(c, k->h.n);
    rt_pool_run(k->h.n, task_grain(k->h.count), sum_channels, k);
}

static void backward_input(op_call *c, struct backward *k, const aclTensor *out)
{
    k->dx = channel_out(c, &k->h, out, c->arg[0].t, c->arg[1].t);
    rt_pool_run(k->h.n * k->h.runs, task_grain(k->h.run), grad_runs, k);
    channel_out_done(c, &k->h, out, k->dx);
}

static int run_batch_norm_grad(op_call *c)
{
    const bool *mask = c->arg[9].ba->v, training = c->arg[7].i;
    struct backward k;
    backward_init(c, &k, training ? 5 : 3, training ? 6 : 4, 2);
    if (!training) {
        double *invstd = scratch_channels(c, k.h.n);
        for (int64_t i = 0; i < k.h.n; i++) invstd[i] = 1 / sqrt(k.invstd[i] + c->arg[8].d);
        k.invstd = invstd;
    }
    if (mask[1] || mask[2] || training) backward_sums(c, &k);
    if (mask[1]) store_channels(c, c->arg[11].t, k.sum_x);
    if (mask[2]) store_channels(c, c->arg[12].t, k.sum);
    if (!mask[0]) return 0;
    for (int64_t i = 0; i < k.h.n && training; i++) {
        k.sum[i] *= k.weight[i] / (double)k.h.count;
        k.sum_x[i] *= k.weight[i] / (double)k.h.count;
    }
    if (training) k.a = k.sum, k.b = k.sum_x;
    backward_input(c, &k, c->arg[10].t);
    return 0;
}

static int run_batch_norm_reduce_grad(op_call *c)
{
    struct backward k;
    backward_init(c, &k, 2, 3, 4);
    backward_sums(c, &k);
    if (c->arg[6].i) store_channels(c, c->arg[10].t, k.sum_x);
    if (c->arg[7].i) store_channels(c, c->arg[11].t, k.sum);
    if (!c->arg[5].i) return 0;
    store_channels(c, c->arg[8].t, k.sum);
    for (int64_t i = 0; i < k.h.n; i++) k.sum_x[i] /= k.invstd[i];
    store_channels(c, c->arg[9].t, k.sum_x);
    return 0;
}

static int run_batch_norm_elemt_grad(op_call *c)
{
    struct backward k;
    backward_init(c, &k, 2, 3, 4);
    const double *sum = op_in(c, c->arg[5].t, ACL_DOUBLE), *sum_xmu = op_in(c, c->arg[6].t, ACL_DOUBLE),
                 *counter = op_in(c, c->arg[7].t, ACL_DOUBLE);
    double count = 0, *a = scratch_channels(c, k.h.n), *b = scratch_channels(c, k.h.n);
    for (int64_t i = 0; i < sn_numel(c->arg[7].t); i++) count += counter[i];
    for (int64_t i = 0; i < k.h.n; i++) {
        a[i] = k.weight[i] * sum[i] / count;
        b[i] = k.weight[i] * k.invstd[i] * sum_xmu[i] / count;
    }
    k.a = a, k.b = b;
    backward_input(c, &k, c->arg[8].t);
    return 0;
}

/* ---- statistics gathered from several devices -------------------------------------------------------- */

/* [devices, channels] twice, one count a device, then one value a channel. */
static int check_gathered(op_call *c, int first, int counts, const char *per_channel_args)
{
    const aclTensor *t = c->arg[first].t;
    if (t->rank != 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, not devices by channels",
                       c->row->param[first].name, t->rank);
    int rc = op_need_same_shape(c, first, first + 1);
    if (!rc) rc = norm_need_count(c, counts, t->dim[0]);
    for (; *per_channel_args && !rc; per_channel_args++)
        rc = norm_need_count(c, *per_channel_args, t->dim[1]);
    return rc;
}

static int check_gather_stats(op_call *c)
{
    return check_gathered(c, 1, 7, "\3\4\10\11");
}

static int run_gather_stats(op_call *c)
{
    int64_t devices = c->arg[1].t->dim[0], n = c->arg[1].t->dim[1];
    const double *means = op_in(c, c->arg[1].t, ACL_DOUBLE), *invstds = op_in(c, c->arg[2].t, ACL_DOUBLE),
                 *counts = op_in(c, c->arg[7].t, ACL_DOUBLE);
    double *mean = scratch_channels(c, n), *invstd = scratch_channels(c, n), *var = scratch_channels(c, n);
    for (int64_t i = 0; i < n; i++) {
        double count = 0, square = 0;
        mean[i] = 0;
        for (int64_t d = 0; d < devices; d++) {
            double m = means[d * n + i], v = invstds[d * n + i];
            v = (1 / (v * v) - c->arg[6].d) * counts[d];
            double all = count + counts[d], apart = m - mean[i];
            square += v + apart * apart * (count * counts[d] / all);
            mean[i] += apart * (counts[d] / all);
            count = all;
        }
        invstd[i] = 1 / sqrt(square / count + c->arg[6].d);
        var[i] = square / (count - 1);
    }
    update_running(c, c->arg[3].t, mean, c->arg[5].d, n);
    update_running(c, c->arg[4].t, var, c->arg[5].d, n);
    store_channels(c, c->arg[8].t, mean);
    store_channels(c, c->arg[9].t, invstd);
    return 0;
}

static int check_sync_stats(op_call *c)
{
    return check_gathered(c, 0, 2, "\3\4\7\10");
}

static int run_sync_stats(op_call *c)
{
    int64_t devices = c->arg[0].t->dim[0], n = c->arg[0].t->dim[1];
    const double *sums = op_in(c, c->arg[0].t, ACL_DOUBLE), *squares = op_in(c, c->arg[1].t, ACL_DOUBLE),
                 *counts = op_in(c, c->arg[2].t, ACL_DOUBLE);
    double count = 0, *mean = scratch_channels(c, n), *invstd = scratch_channels(c, n),
           *var = scratch_channels(c, n);
    for (int64_t d = 0; d < devices; d++) count += counts[d];
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, square = 0;
        for (int64_t d = 0; d < devices; d++) sum += sums[d * n + i], square += squares[d * n + i];
        mean[i] = sum / count;
        double biased = square / count - mean[i] * mean[i];
        invstd[i] = 1 / sqrt(biased + c->arg[6].d);
        var[i] = biased * (count / (count - 1));
    }
    update_running(c, c->arg[3].t, mean, c->arg[5].d, n);
    update_running(c, c->arg[4].t, var, c->arg[5].d, n);
    store_channels(c, c->arg[7].t, mean);
    store_channels(c, c->arg[8].t, invstd);
    return 0;
}

#define OP_FILE "softnpu/op/batch_norm.inc"
#define OP_TABLE op_rows_batch_norm
#include "softnpu/op/rows.h"
