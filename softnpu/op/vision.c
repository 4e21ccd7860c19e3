/* vision.c - grid sampling, affine grids, unfolding and folding of image patches. */
#include "softnpu/kernel/conv.h"
#include "softnpu/kernel/grid.h"
#include "softnpu/op/op.h"

#include <string.h>

/* ---- grid sampling ----------------------------------------------------------------------------------- */

struct sampler {
    int8_t dims, input, grid, mode, out; /* padding and align follow mode; out: the result or its gradient */
    bool backward;
};
static const struct sampler grid_2d = {2, 0, 1, 2, 5, false};
static const struct sampler grid_3d = {3, 0, 1, 2, 5, false};
static const struct sampler grid_2d_back = {2, 1, 2, 3, 0, true};
static const struct sampler grid_3d_back = {3, 1, 2, 3, 0, true};
enum { GRID_BACK_MASK = 6, GRID_BACK_INPUT = 7, GRID_BACK_GRID = 8 };

/* Gradient number i (0 input, 1 grid) if it is asked for. */
static const aclTensor *grid_wanted(const op_call *c, int i)
{
    const aclBoolArray *mask = c->arg[GRID_BACK_MASK].ba;
    return (uint64_t)i < mask->n && mask->v[i] ? c->arg[GRID_BACK_INPUT + i].t : NULL;
}

static int check_grid_shapes(op_call *c, const struct sampler *s)
{
    const aclTensor *in = c->arg[s->input].t, *grid = c->arg[s->grid].t;
    char is[256], gs[256];
    int64_t dim[SN_MAX_DIMS];
    if (in->rank != s->dims + 2 || grid->rank != s->dims + 2 || grid->dim[0] != in->dim[0] ||
        grid->dim[s->dims + 1] != s->dims)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "input %s and grid %s do not fit", sn_shape_str(in, is),
                       sn_shape_str(grid, gs));
    for (int i = 0; i < s->dims; i++)
        if (in->dim[2 + i] < 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "input %s has no pixels", sn_shape_str(in, is));
    dim[0] = in->dim[0], dim[1] = in->dim[1];
    for (int i = 0; i < s->dims; i++) dim[2 + i] = grid->dim[1 + i];
    int rc = op_need_shape(c, s->out, dim, s->dims + 2);
    if (!rc && s->backward && grid_wanted(c, 0)) rc = op_need_same_shape(c, s->input, GRID_BACK_INPUT);
    if (!rc && s->backward && grid_wanted(c, 1)) rc = op_need_same_shape(c, s->grid, GRID_BACK_GRID);
    return rc;
}

static int check_grid(op_call *c)
{
    const struct sampler *s = c->row->aux;
    int64_t mode = c->arg[s->mode].i, padding = c->arg[s->mode + 1].i;
    if (mode < GRID_LINEAR || mode > (s->dims == 2 ? GRID_CUBIC : GRID_NEAREST))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "interpolationMode %lld is not one of %s", (long long)mode,
                       s->dims == 2 ? "0, 1, 2" : "0, 1");
    if (padding < GRID_ZEROS || padding > GRID_REFLECTION)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "paddingMode %lld is not one of 0, 1, 2",
                       (long long)padding);
    int rc = check_grid_shapes(c, s);
    if (!rc) rc = op_need_same_dtype(c, s->input, s->grid);
    if (!rc) rc = op_need_same_dtype(c, s->input, s->out);
    if (rc) return rc;
    aclDataType type = sn_compute(sn_promote(c->arg[s->input].t->dtype, c->arg[s->grid].t->dtype));
    if (type != ACL_FLOAT && type != ACL_DOUBLE)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is not sampled",
                       sn_dtype(c->arg[s->input].t->dtype)->name);
    c->plan[0] = type;
    return 0;
}

struct grid_job {
    struct grid g;
    int kind;
    size_t size;
    int64_t plane;
    const char *in, *at;
    char *out, *grad_in, *grad_at;
};

static struct grid_job make_grid_job(op_call *c, const struct sampler *s)
{
    aclDataType type = (aclDataType)c->plan[0];
    const aclTensor *in = c->arg[s->input].t, *out = c->arg[s->out].t;
    struct grid_job j = {.kind = type == ACL_DOUBLE, .size = sn_size(type), .plane = 1};
    j.g = (struct grid){.dims = s->dims, .in = {1, 1, 1}, .channels = in->dim[1], .points = 1};
    j.g.mode = (int)c->arg[s->mode].i, j.g.padding = (int)c->arg[s->mode + 1].i,
    j.g.align = c->arg[s->mode + 2].i;
    for (int i = 0; i < s->dims; i++) {
        j.g.in[3 - s->dims + i] = in->dim[2 + i];
        j.g.points *= out->dim[2 + i], j.plane *= in->dim[2 + i];
    }
    j.in = op_in(c, in, type), j.at = op_in(c, c->arg[s->grid].t, type);
    return j;
}

static void grid_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct grid_job *j = ctx;
    const struct grid *g = &j->g;
    for (int64_t i = begin; i < end;) {
        int64_t n = i / g->points, p0 = i % g->points;
        int64_t p1 = g->points - p0 < end - i ? g->points : p0 + end - i;
        grid_kernels()->forward[j->kind](g, j->in + (size_t)(n * g->channels * j->plane) * j->size,
                                         j->at + (size_t)(n * g->points * g->dims) * j->size, p0, p1,
                                         j->out + (size_t)(n * g->channels * g->points) * j->size);
        i += p1 - p0;
    }
}

static int run_grid(op_call *c)
{
    const struct sampler *s = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    const aclTensor *out = c->arg[s->out].t;
    if (sn_numel(out) == 0) return 0;
    struct grid_job j = make_grid_job(c, s);
    j.out = op_out(c, out, type);
    rt_pool_run(out->dim[0] * j.g.points, (1 << 13) / (j.g.channels + 8) + 1, grid_piece, &j);
    op_out_done(c, out, type, j.out);
    return 0;
}

static void grid_back_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct grid_job *j = ctx;
    const struct grid *g = &j->g;
    for (int64_t n = begin; n < end; n++) {
        size_t image = (size_t)(n * g->channels * j->plane) * j->size,
               points = (size_t)(n * g->points * g->dims) * j->size;
        char *gin = j->grad_in ? j->grad_in + image : NULL;
        if (gin) memset(gin, 0, (size_t)(g->channels * j->plane) * j->size);
        grid_kernels()->backward[j->kind](g, j->in + image, j->at + points,
                                          j->out + (size_t)(n * g->channels * g->points) * j->size, gin,
                                          j->grad_at ? j->grad_at + points : NULL);
    }
}

static int run_grid_back(op_call *c)
{
    const struct sampler *s = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    const aclTensor *gin = grid_wanted(c, 0), *gat = grid_wanted(c, 1), *in = c->arg[s->input].t;
    struct grid_job j = make_grid_job(c, s);
    j.out = op_in(c, c->arg[s->out].t, type);
    if (gin && sn_numel(gin)) j.grad_in = op_out(c, gin, type);
    if (gat && sn_numel(gat)) j.grad_at = op_out(c, gat, type);
    rt_pool_run(in->dim[0], 1, grid_back_piece, &j);
    if (j.grad_in) op_out_done(c, gin, type, j.grad_in);
    if (j.grad_at) op_out_done(c, gat, type, j.grad_at);
    return 0;
}

/* ---- affine grids: theta applied to the pixel centres of an image of the given size ------------------ */

static int check_affine(op_call *c)
{
    const aclTensor *theta = c->arg[0].t;
    const aclIntArray *size = c->arg[1].ia;
    char ts[256];
    int64_t n = (int64_t)size->n - 2, dim[SN_MAX_DIMS];
    if ((n != 2 && n != 3) || theta->rank != 3 || theta->dim[0] != size->v[0] || theta->dim[1] != n ||
        theta->dim[2] != n + 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "theta %s does not fit an image of %d dimensions",
                       sn_shape_str(theta, ts), (int)size->n);
    dim[0] = size->v[0];
    for (int64_t i = 0; i < n; i++) dim[1 + i] = size->v[2 + i];
    dim[n + 1] = n;
    aclDataType type = sn_compute(theta->dtype);
    if (type != ACL_FLOAT && type != ACL_DOUBLE)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "theta of %s", sn_dtype(theta->dtype)->name);
    return op_need_shape(c, 3, dim, (int32_t)n + 2);
}

/* Pixel i of n, in [-1, 1]. */
static double centre(int64_t i, int64_t n, bool align)
{
    if (n <= 1) return 0;
    double x = 2 * (double)i / (double)(n - 1) - 1;
    return align ? x : x * (double)(n - 1) / (double)n;
}

static int run_affine(op_call *c)
{
    const aclTensor *theta = c->arg[0].t, *out = c->arg[3].t;
    int64_t n = out->dim[out->rank - 1], points = 1;
    if (sn_numel(out) == 0) return 0;
    const double *t = op_in(c, theta, ACL_DOUBLE);
    double *y = op_out(c, out, ACL_DOUBLE);
    for (int64_t i = 0; i < n; i++) points *= out->dim[1 + i];
    for (int64_t p = 0; p < out->dim[0] * points; p++) {
        double x[3];
        int64_t rest = p % points;
        for (int64_t d = n - 1; d >= 0; d--) {
            x[n - 1 - d] = centre(rest % out->dim[1 + d], out->dim[1 + d], c->arg[2].i);
            rest /= out->dim[1 + d];
        }
        const double *m = t + p / points * n * (n + 1);
        for (int64_t r = 0; r < n; r++, m += n + 1) {
            double sum = m[n];
            for (int64_t d = 0; d < n; d++) sum += m[d] * x[d];
            y[p * n + r] = sum;
        }
    }
    op_out_done(c, out, ACL_DOUBLE, y);
    return 0;
}

/* ---- patches: unfold and fold ------------------------------------------------------------------------ */

/* Geometry from an image of h by w; arrays kernel, dilation, padding, stride stand at k and after. */
static int patch_geom(const op_call *c, int k, int64_t h, int64_t w, struct conv_geom *g)
{
    const int64_t least[] = {1, 1, 0, 1};
    int64_t *to[] = {g->kernel, g->dilation, g->pad, g->stride};
    *g = (struct conv_geom){.big = {1, h, w}, .small = {1}, .kernel = {1}, .stride = {1}, .dilation = {1}};
    for (int a = 0; a < 4; a++) {
        const aclIntArray *v = c->arg[k + a].ia;
        if (v->n != 1 && v->n != 2)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s needs 2 values", c->row->param[k + a].name);
        for (int i = 0; i < 2; i++) {
            to[a][1 + i] = v->v[v->n == 2 ? i : 0];
            if (to[a][1 + i] < least[a])
                return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s value %lld is less than %lld",
                               c->row->param[k + a].name, (long long)to[a][1 + i], (long long)least[a]);
        }
    }
    for (int i = 1; i < 3; i++) {
        int64_t room = g->big[i] + 2 * g->pad[i] - g->dilation[i] * (g->kernel[i] - 1) - 1;
        if (room < 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "kernel is larger than the padded image");
        g->small[i] = room / g->stride[i] + 1;
    }
    return 0;
}

/* Shape of the patches of an image view (with or without a batch dimension). */
static int32_t patch_shape(const aclTensor *image, const struct conv_geom *g, int64_t *dim)
{
    int32_t lead = image->rank - 3;
    if (lead) dim[0] = image->dim[0];
    dim[lead] = image->dim[lead] * conv_taps(g);
    dim[lead + 1] = conv_small(g);
    return lead + 2;
}

static int need_image(const op_call *c, int arg)
{
    int32_t r = c->arg[arg].t->rank;
    if (r == 3 || r == 4) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected 3 or 4",
                   c->row->param[arg].name, r);
}

static int check_im2col(op_call *c)
{
    struct conv_geom g;
    int64_t dim[SN_MAX_DIMS];
    const aclTensor *t = c->arg[0].t;
    int rc = need_image(c, 0);
    if (!rc) rc = patch_geom(c, 1, t->dim[t->rank - 2], t->dim[t->rank - 1], &g);
    if (!rc) rc = op_need_shape(c, 5, dim, patch_shape(t, &g, dim));
    return rc ? rc : op_need_same_dtype(c, 0, 5);
}

struct patches {
    struct conv_geom g;
    int64_t channels;
    size_t size;
    int kind;
    char *image, *columns;
};

static void im2col_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct patches *p = ctx;
    int64_t taps = conv_taps(&p->g), spots = conv_small(&p->g);
    for (int64_t i = begin; i < end; i++)
        conv_kernels()->unfold[p->kind](&p->g, p->image + (size_t)(i * conv_big(&p->g)) * p->size, 0, taps, 0,
                                        spots, p->columns + (size_t)(i * taps * spots) * p->size, spots);
}

static int run_im2col(op_call *c)
{
    struct patches p = {0};
    const aclTensor *t = c->arg[0].t, *out = c->arg[5].t;
    if (sn_numel(out) == 0) return 0;
    patch_geom(c, 1, t->dim[t->rank - 2], t->dim[t->rank - 1], &p.g);
    p.size = sn_size(t->dtype);
    while ((size_t)1 << p.kind < p.size) p.kind++;
    p.image = op_in(c, t, t->dtype), p.columns = op_out(c, out, t->dtype);
    int64_t planes = sn_numel(t) / conv_big(&p.g);
    rt_pool_run(planes, (1 << 14) / (conv_taps(&p.g) * conv_small(&p.g)) + 1, im2col_piece, &p);
    op_out_done(c, out, t->dtype, p.columns);
    return 0;
}

static int check_col2im(op_call *c)
{
    struct conv_geom g;
    int64_t dim[SN_MAX_DIMS];
    const aclTensor *out = c->arg[6].t;
    const aclIntArray *size = c->arg[1].ia;
    int rc = need_image(c, 6);
    if (!rc &&
        (size->n != 2 || out->dim[out->rank - 2] != size->v[0] || out->dim[out->rank - 1] != size->v[1]))
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "inputSize does not match out");
    if (!rc) rc = patch_geom(c, 2, out->dim[out->rank - 2], out->dim[out->rank - 1], &g);
    if (!rc) rc = op_need_shape(c, 0, dim, patch_shape(out, &g, dim));
    aclDataType type = sn_compute(sn_promote(c->arg[0].t->dtype, out->dtype));
    if (!rc && type != ACL_FLOAT && type != ACL_DOUBLE && !sn_is_complex(type))
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is not folded", sn_dtype(c->arg[0].t->dtype)->name);
    c->plan[0] = type;
    return rc;
}

static void col2im_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct patches *p = ctx;
    int64_t taps = conv_taps(&p->g), spots = conv_small(&p->g), plane = conv_big(&p->g);
    for (int64_t i = begin; i < end; i++) {
        char *image = p->image + (size_t)(i * plane) * p->size;
        memset(image, 0, (size_t)plane * p->size);
        conv_kernels()->fold[p->kind](&p->g, image, 0, taps,
                                      p->columns + (size_t)(i * taps * spots) * p->size, spots);
    }
}

static int run_col2im(op_call *c)
{
    struct patches p = {0};
    aclDataType type = (aclDataType)c->plan[0];
    const aclTensor *out = c->arg[6].t;
    if (sn_numel(out) == 0) return 0;
    patch_geom(c, 2, out->dim[out->rank - 2], out->dim[out->rank - 1], &p.g);
    p.size = sn_size(type);
    p.kind = type == ACL_FLOAT ? 0 : type == ACL_DOUBLE ? 1 : type == ACL_COMPLEX64 ? 2 : 3;
    p.columns = op_in(c, c->arg[0].t, type), p.image = op_out(c, out, type);
    int64_t planes = sn_numel(out) / conv_big(&p.g);
    rt_pool_run(planes, (1 << 14) / (conv_taps(&p.g) * conv_small(&p.g)) + 1, col2im_piece, &p);
    op_out_done(c, out, type, p.image);
    return 0;
}

#define OP_FILE "softnpu/op/vision.inc"
#define OP_TABLE op_rows_vision
#include "softnpu/op/rows.h"
