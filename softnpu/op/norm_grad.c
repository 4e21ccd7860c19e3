/* norm_grad.c - gradients of row normalisations, and helpers that the normalisations share. */
#include "softnpu/op/norm.h"

#include <string.h>

void *norm_out(op_call *c, const aclTensor *t, aclDataType as, int64_t n)
{
    return t ? op_out_scratch(c, t, as) : op_scratch(c, sn_size(as) * (size_t)(n ? n : 1));
}

void *norm_out_beside(op_call *c, const aclTensor *t, aclDataType as, const aclTensor *a, const aclTensor *b)
{
    if (!t) return NULL;
    bool shared = (a && sn_overlap(t, a)) || (b && sn_overlap(t, b));
    return shared ? op_out_scratch(c, t, as) : op_out(c, t, as);
}

void norm_out_done(op_call *c, const aclTensor *t, aclDataType as, const void *buffer)
{
    if (t) op_out_done(c, t, as, buffer);
}

int norm_need_count(const op_call *c, int arg, int64_t n)
{
    const aclTensor *t = c->arg[arg].t;
    char shape[256];
    if (!t || sn_numel(t) == n) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has shape %s where %lld elements are needed",
                   c->row->param[arg].name, sn_shape_str(t, shape), (long long)n);
}

/* Rows are cut into pieces; each piece has its own sums for dgamma and dbeta, which are added up in order. */
struct grad_job {
    const struct norm_grad *g;
    int64_t per_piece;
    double *sums; /* [piece][2][n] */
};

static void grad_row(const struct norm_grad *g, int64_t row, double *dgamma, double *dbeta)
{
    const struct row_kernels *k = row_kernels();
    int type = norm_index(g->as);
    int64_t at = row * g->n;
    const void *x = norm_at(g->x, g->as, at), *dy = norm_at(g->dy, g->as, at);
    struct row_stats s = {g->mean ? g->mean[row] : 0, g->rstd[row]};
    if (dgamma || dbeta) k->grad_affine[type](dgamma, dbeta, dy, x, g->n, s);
    if (!g->dx) return;
    struct row_sums sums = k->grad_sums[type](dy, x, g->n, s, g->gamma);
    double a = g->centred ? sums.g / (double)g->n : 0, b = sums.gx / (double)g->n;
    void *dx = norm_at(g->dx, g->as, at);
    k->grad_input[type](dx, dy, x, g->n, s, g->gamma, 1, a, b);
    if (g->dx_add) k->add[type](dx, dx, norm_at(g->dx_add, g->as, at), 1, g->n);
}

static void grad_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct grad_job *j = ctx;
    const struct norm_grad *g = j->g;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t row = piece * j->per_piece, last = row + j->per_piece;
        if (last > g->rows) last = g->rows;
        double *dgamma = j->sums ? j->sums + piece * 2 * g->n : NULL, *dbeta = dgamma ? dgamma + g->n : NULL;
        if (dgamma) memset(dgamma, 0, sizeof *dgamma * 2 * (size_t)g->n);
        for (; row < last; row++) grad_row(g, row, g->dgamma ? dgamma : NULL, g->dbeta ? dbeta : NULL);
    }
}

static void add_up(double *to, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

void norm_grad_run(op_call *c, const struct norm_grad *g)
{
    enum { PIECES = 64, SUMS = 1 << 22, ELEMENTS = 1 << 14 };
    size_t bytes = sizeof(double) * (size_t)g->n;
    if (g->dgamma) memset(g->dgamma, 0, bytes);
    if (g->dbeta) memset(g->dbeta, 0, bytes);
    if (!g->rows || !g->n) return;
    int64_t most = SUMS / g->n < 2 ? 2 : SUMS / g->n < PIECES ? SUMS / g->n : PIECES;
    struct grad_job j = {.g = g, .per_piece = (g->rows + most - 1) / most};
    int64_t least = (ELEMENTS + g->n - 1) / g->n;
    if (j.per_piece < least) j.per_piece = least;
    int64_t pieces = (g->rows + j.per_piece - 1) / j.per_piece;
    if (g->dgamma || g->dbeta) j.sums = op_scratch(c, 2 * bytes * (size_t)pieces);
    rt_pool_run(pieces, 1, grad_pieces, &j);
    for (int64_t i = 0; i < pieces && j.sums; i++) {
        if (g->dgamma) add_up(g->dgamma, j.sums + i * 2 * g->n, g->n);
        if (g->dbeta) add_up(g->dbeta, j.sums + i * 2 * g->n + g->n, g->n);
    }
}
