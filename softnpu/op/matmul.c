/* matmul.c - matrix products: every operator is alpha a b + beta self on matrix views of its arguments. */
#include "softnpu/op/gemm.h"

#include <string.h>

enum shape { MM, BMM, MATMUL, MV, DOT, OUTER, SUM };
/* Where a product's arguments stand in its row; -1: it has none. */
struct product {
    enum shape shape;
    int8_t a, b, out, self, beta, alpha, cube;
    int8_t turn_a,
        turn_b; /* booleans: the matrices of a, b come transposed. 0: the row has no such argument */
};
static const struct product product_mm = {MM, 0, 1, 2, -1, -1, -1, 3, 0, 0};
static const struct product product_bmm = {BMM, 0, 1, 2, -1, -1, -1, 3, 0, 0};
static const struct product product_matmul = {MATMUL, 0, 1, 2, -1, -1, -1, 3, 0, 0};
static const struct product product_mv = {MV, 0, 1, 2, -1, -1, -1, 3, 0, 0};
static const struct product product_dot = {DOT, 0, 1, 2, -1, -1, -1, -1, 0, 0};
static const struct product product_addmm = {MM, 1, 2, 5, 0, 3, 4, 6, 0, 0};
static const struct product product_addmm_inplace = {MM, 1, 2, 0, 0, 3, 4, 5, 0, 0};
static const struct product product_addbmm = {SUM, 1, 2, 5, 0, 3, 4, 6, 0, 0};
static const struct product product_baddbmm = {BMM, 1, 2, 5, 0, 3, 4, 6, 0, 0};
static const struct product product_addmv = {MV, 1, 2, 5, 0, 4, 3, 6, 0, 0};
static const struct product product_addr = {OUTER, 1, 2, 5, 0, 3, 4, -1, 0, 0};
static const struct product product_addr_inplace = {OUTER, 1, 2, 0, 0, 3, 4, -1, 0, 0};

static const struct product product_mm_older = {MM, 0, 1, 3, 2, -1, -1, -1, 4, 5};
static const struct product product_bmm_older = {BMM, 0, 1, 2, -1, -1, -1, -1, 3, 4};

/* Ranks that a shape class needs of a, b and out; -1: any from 1. */
static const int8_t product_rank[][3] = {
    [MM] = {2, 2, 2},  [BMM] = {3, 3, 3},   [MATMUL] = {-1, -1, -1}, [MV] = {2, 1, 1},
    [DOT] = {1, 1, 0}, [OUTER] = {1, 1, 2}, [SUM] = {3, 3, 2},
};

enum { ROW, COLUMN };
static aclTensor vector_view(const aclTensor *t, int as)
{
    aclTensor v = *t;
    int64_t n = t->rank ? t->dim[0] : 1, s = t->rank ? t->stride[0] : 1;
    v.rank = 2;
    v.dim[as == ROW ? 1 : 0] = n, v.stride[as == ROW ? 1 : 0] = s;
    v.dim[as == ROW ? 0 : 1] = 1, v.stride[as == ROW ? 0 : 1] = n ? n : 1;
    return v;
}

/* Puts a dimension of size 1 into a copy of out at position at (counted from the end: 1 last, 2 before it).
 */
static aclTensor with_unit(const aclTensor *t, int at)
{
    aclTensor v = *t;
    int32_t p = t->rank - at + 1;
    for (int32_t d = t->rank; d > p; d--) v.dim[d] = v.dim[d - 1], v.stride[d] = v.stride[d - 1];
    v.dim[p] = 1, v.stride[p] = 1;
    v.rank++;
    return v;
}

static void turn(const op_call *c, int8_t flag, aclTensor *t)
{
    if (!flag || !c->arg[flag].i) return;
    int64_t *dim = t->dim + t->rank - 2, *stride = t->stride + t->rank - 2, d = dim[0], s = stride[0];
    dim[0] = dim[1], dim[1] = d;
    stride[0] = stride[1], stride[1] = s;
}

struct views {
    aclTensor a, b, out; /* matrices, a and b with their own batch dimensions, out with the common ones */
};

static void make_views(const op_call *c, struct views *v)
{
    const struct product *p = c->row->aux;
    const aclTensor *a = c->arg[p->a].t, *b = c->arg[p->b].t, *out = c->arg[p->out].t;
    v->a = *a, v->b = *b, v->out = *out;
    turn(c, p->turn_a, &v->a);
    turn(c, p->turn_b, &v->b);
    if (a->rank == 1) v->a = vector_view(a, p->shape == OUTER ? COLUMN : ROW);
    if (b->rank == 1) v->b = vector_view(b, p->shape == OUTER ? ROW : COLUMN);
    if (p->shape == OUTER || p->shape == SUM) return;
    if (b->rank == 1) v->out = with_unit(&v->out, 1);
    if (a->rank == 1) v->out = with_unit(&v->out, 2);
}

static int check_ranks(const op_call *c, const struct product *p)
{
    const int8_t at[] = {p->a, p->b, p->out}, *want = product_rank[p->shape];
    const int vectors = (c->arg[p->a].t->rank == 1) + (c->arg[p->b].t->rank == 1);
    for (int i = 0; i < 3; i++) {
        const aclTensor *t = c->arg[at[i]].t;
        if (want[i] >= 0 ? t->rank == want[i] : t->rank >= (i == 2 ? 2 - vectors : 1)) continue;
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected %d",
                       c->row->param[at[i]].name, t->rank,
                       want[i] >= 0 ? want[i]
                       : i == 2     ? 2 - vectors
                                    : 1);
    }
    return 0;
}

/* The batch dimensions of out: common to a and b for batched shapes. */
static int check_batch(const op_call *c, const struct product *p, const struct views *v, int64_t *dim,
                       int32_t *rank)
{
    aclTensor a = v->a, b = v->b;
    char as[256], bs[256];
    a.rank -= 2, b.rank -= 2;
    *rank = 0;
    bool same = a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
    bool broadcasts =
        p->shape == MATMUL || (p->shape == BMM && p->self < 0); /* aclnnBatchMatMul.md: a batch of 1 */
    if (broadcasts ? !sn_broadcast_shape(&a, &b, dim, rank) : !same)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "batch dimensions of %s and %s do not agree",
                       sn_shape_str(&v->a, as), sn_shape_str(&v->b, bs));
    if (p->shape == BMM && !broadcasts) dim[(*rank)++] = a.dim[0];
    return 0;
}

static int check_out(op_call *c, const struct product *p, const struct views *v)
{
    int64_t dim[SN_MAX_DIMS];
    int32_t rank;
    int rc = check_batch(c, p, v, dim, &rank);
    if (rc) return rc;
    if (c->arg[p->a].t->rank > 1 || p->shape == OUTER) dim[rank++] = v->a.dim[v->a.rank - 2];
    if (c->arg[p->b].t->rank > 1 || p->shape == OUTER) dim[rank++] = v->b.dim[v->b.rank - 1];
    return op_need_shape(c, p->out, dim, rank);
}

/* What the product is added to; NULL: nothing. */
static const aclTensor *addend(const op_call *c, const struct product *p)
{
    return p->self >= 0 ? c->arg[p->self].t : NULL;
}

/* A 910B's cube unit does not take bfloat16 together with another type. */
static bool mixes_bf16(const op_call *c, const struct product *p)
{
    aclDataType a = c->arg[p->a].t->dtype, b = c->arg[p->b].t->dtype;
    return p->cube >= 0 && a != b && (a == ACL_BF16 || b == ACL_BF16) && !rt_settings()->accept_any;
}

static int check_types(op_call *c, const struct product *p)
{
    aclDataType t = sn_promote(c->arg[p->a].t->dtype, c->arg[p->b].t->dtype);
    if (addend(c, p)) t = sn_promote(t, addend(c, p)->dtype);
    if (!gemm_has(sn_compute(t)) || mixes_bf16(c, p))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "no matrix product of %s and %s",
                       sn_dtype(c->arg[p->a].t->dtype)->name, sn_dtype(c->arg[p->b].t->dtype)->name);
    c->plan[0] = sn_compute(t);
    return op_need_cast(c, t, p->out);
}

static int check_product(op_call *c)
{
    const struct product *p = c->row->aux;
    struct views v;
    char as[256], bs[256];
    int rc = check_ranks(c, p);
    if (rc) return rc;
    make_views(c, &v);
    int64_t k = v.a.dim[v.a.rank - 1];
    if (k != v.b.dim[v.b.rank - 2])
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s and %s %s cannot be multiplied",
                       c->row->param[p->a].name, sn_shape_str(c->arg[p->a].t, as), c->row->param[p->b].name,
                       sn_shape_str(c->arg[p->b].t, bs));
    if ((rc = check_out(c, p, &v)) || (rc = check_types(c, p))) return rc;
    aclTensor full;
    const aclTensor *out = c->arg[p->out].t, *self = addend(c, p);
    if (self && !sn_expand(self, out->dim, out->rank, &full))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s does not broadcast to %s",
                       c->row->param[p->self].name, sn_shape_str(self, as), sn_shape_str(out, bs));
    int64_t flops = sn_numel(out) * k / 16;
    if (flops > c->work) c->work = flops;
    return 0;
}

/* ---- run --------------------------------------------------------------------------------------------- */

/* Puts self, broadcast, where the product is added to it. */
static void load_self(op_call *c, const struct product *p, aclDataType type, const struct mat *m)
{
    const aclTensor *out = c->arg[p->out].t;
    aclTensor self, w = *out;
    sn_expand(c->arg[p->self].t, out->dim, out->rank, &self);
    if (m->p != sn_data(out))
        sn_wrap(&w, type, out->rank, out->dim, m->p);
    else if (self.dtype == w.dtype && sn_same_view(&self, &w))
        return;
    op_copy(c, &w, &self);
}

static void set_scalars(op_call *c, const struct product *p, struct gemm *g)
{
    if (p->alpha >= 0 && c->arg[p->alpha].s)
        g->alpha = sn_scalar_c128(c->arg[p->alpha].s), g->ialpha = sn_scalar_i64(c->arg[p->alpha].s);
    if (!addend(c, p)) return;
    g->beta = 1, g->ibeta = 1;
    if (p->beta >= 0 && c->arg[p->beta].s)
        g->beta = sn_scalar_c128(c->arg[p->beta].s), g->ibeta = sn_scalar_i64(c->arg[p->beta].s);
}

static bool needs_scratch(const op_call *c, const struct product *p)
{
    const aclTensor *out = c->arg[p->out].t;
    if (sn_overlap(out, c->arg[p->a].t) || sn_overlap(out, c->arg[p->b].t)) return true;
    const aclTensor *self = addend(c, p);
    return self && sn_overlap(out, self) && !(sn_same_view(out, self) && out->dtype == self->dtype);
}

/* The type to multiply in: bfloat16 stays what it is where the machine multiplies it. */
static aclDataType product_type(const op_call *c, const struct product *p, const struct views *v)
{
    const int8_t at[] = {p->a, p->b, p->out, p->self};
    aclDataType type = (aclDataType)c->plan[0];
    for (int i = 0; i < 4; i++)
        if (at[i] >= 0 && c->arg[at[i]].t->dtype != ACL_BF16) return type;
    int64_t m = v->out.dim[v->out.rank - 2], n = v->out.dim[v->out.rank - 1], k = v->a.dim[v->a.rank - 1];
    return p->shape != SUM && gemm_bf16(m, n, k) ? ACL_BF16 : type;
}

static int run_product(op_call *c)
{
    const struct product *p = c->row->aux;
    struct views v;
    struct gemm g;
    aclTensor a, b;
    int64_t dim[SN_MAX_DIMS];
    make_views(c, &v);
    if (sn_numel(&v.out) == 0) return 0;
    aclDataType type = product_type(c, p, &v);
    int cube = p->cube >= 0 ? (int)c->arg[p->cube].i : 0;
    int32_t nbatch = p->shape == SUM ? 1 : v.out.rank - 2, r = nbatch + 2;
    memcpy(dim, p->shape == SUM ? v.a.dim : v.out.dim, (size_t)nbatch * sizeof *dim);
    gemm_init(&g, type, v.out.dim[v.out.rank - 2], v.out.dim[v.out.rank - 1], v.a.dim[v.a.rank - 1]);
    g.nbatch = nbatch, g.sum = p->shape == SUM;
    memcpy(g.bdim, dim, (size_t)nbatch * sizeof *dim);
    dim[nbatch] = g.m, dim[nbatch + 1] = g.k;
    sn_expand(&v.a, dim, r, &a);
    dim[nbatch] = g.k, dim[nbatch + 1] = g.n;
    sn_expand(&v.b, dim, r, &b);
    mat_in(c, &a, type, cube, &g.a);
    mat_in(c, &b, type, cube, &g.b);
    mat_out(c, &v.out, type, needs_scratch(c, p), &g.c);
    set_scalars(c, p, &g);
    bool adds = type == ACL_FLOAT || type == ACL_DOUBLE || type == ACL_BF16 || sn_is_complex(type)
                    ? g.beta != 0
                    : g.ibeta != 0;
    if (addend(c, p) && adds) load_self(c, p, type, &g.c);
    gemm_run(c, &g);
    mat_out_done(c, &v.out, type, &g.c);
    return 0;
}

#define OP_FILE "softnpu/op/matmul.inc"
#define OP_TABLE op_rows_matmul
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/matmul_older.inc"
#define OP_TABLE op_rows_matmul_older
#include "softnpu/op/rows.h"
