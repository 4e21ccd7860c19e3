/* gemm.c - matrix products: operands as strided matrices, blocks over the pool, BLAS below. */
#include "softnpu/op/gemm.h"
#include "softnpu/kernel/igemm.h"
#include "softnpu/kernel/strided.h"
#include "softnpu/kernel/tile.h"
#include "softnpu/op/blas.h"
#include "softnpu/op/executor.h"

#include <limits.h>
#include <string.h>

/* ---- one block --------------------------------------------------------------------------------------- */

/* How BLAS (row major) is told about a matrix with unit stride one way or the other. */
struct blas_mat {
    int trans, ld;
};
static struct blas_mat blas_view(const struct mat *m, int64_t rows, int64_t cols)
{
    if (m->cs == 1 && (m->rs >= cols || rows == 1))
        return (struct blas_mat){BLAS_NO_TRANS, (int)(m->rs > cols ? m->rs : cols > 0 ? cols : 1)};
    return (struct blas_mat){BLAS_TRANS, (int)(m->cs > rows ? m->cs : rows > 0 ? rows : 1)};
}

#define REAL_BLOCK(T, letter)                                                                                \
    static void block_##letter(const struct gemm *g)                                                         \
    {                                                                                                        \
        struct blas_mat a = blas_view(&g->a, g->m, g->k), b = blas_view(&g->b, g->k, g->n);                  \
        T alpha = (T)creal(g->alpha), beta = (T)creal(g->beta);                                              \
        if (g->n == 1 && g->k > 0) {                                                                         \
            bool t = a.trans == BLAS_TRANS;                                                                  \
            int inc = (int)(b.trans == BLAS_TRANS ? 1 : b.ld);                                               \
            cblas_##letter##gemv(BLAS_ROW_MAJOR, a.trans, (int)(t ? g->k : g->m), (int)(t ? g->m : g->k),    \
                                 alpha, g->a.p, a.ld, g->b.p, inc, beta, g->c.p, (int)g->c.rs);              \
            return;                                                                                          \
        }                                                                                                    \
        cblas_##letter##gemm(BLAS_ROW_MAJOR, a.trans, b.trans, (int)g->m, (int)g->n, (int)g->k, alpha,       \
                             g->a.p, a.ld, g->b.p, b.ld, beta, g->c.p, (int)g->c.rs);                        \
    }
REAL_BLOCK(float, s)
REAL_BLOCK(double, d)

#define COMPLEX_BLOCK(T, letter)                                                                             \
    static void block_##letter(const struct gemm *g)                                                         \
    {                                                                                                        \
        struct blas_mat a = blas_view(&g->a, g->m, g->k), b = blas_view(&g->b, g->k, g->n);                  \
        T alpha = (T)g->alpha, beta = (T)g->beta;                                                            \
        cblas_##letter##gemm(BLAS_ROW_MAJOR, a.trans, b.trans, (int)g->m, (int)g->n, (int)g->k, &alpha,      \
                             g->a.p, a.ld, g->b.p, b.ld, &beta, g->c.p, (int)g->c.rs);                       \
    }
COMPLEX_BLOCK(float _Complex, c)
COMPLEX_BLOCK(double _Complex, z)

static void block_integer(const struct gemm *g)
{
    struct igemm_args i = {
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .a = g->a.p,
        .ars = g->a.rs,
        .acs = g->a.cs,
        .b = g->b.p,
        .brs = g->b.rs,
        .bcs = g->b.cs,
        .c = g->c.p,
        .crs = g->c.rs,
        .alpha = g->ialpha,
        .beta = g->ibeta,
    };
    igemm_kernels()->run[g->type](&i);
}

/* ---- bfloat16 ---------------------------------------------------------------------------------------- */

enum { FEW_ROWS = 48 }; /* up to this many, it is the long operand that should lie still */

bool gemm_bf16(int64_t m, int64_t n, int64_t k)
{
    return tile_has_bf16() && k > 0 && m * n * k >= 16 * 16 * 16;
}

static int64_t even(int64_t k)
{
    return (k + 1) / 2 * 2;
}

/* The rows of a beside each other along k, in `to` if they are not already. */
static const uint16_t *bf16_rows(const struct gemm *g, uint16_t *to, int64_t *step)
{
    const uint16_t *a = g->a.p;
    *step = g->a.rs;
    if (g->a.cs == 1) return a;
    *step = even(g->k);
    if (g->a.rs == 1)
        strided_kernels()->transpose[1](to, *step, a, g->a.cs, g->m, g->k);
    else
        for (int64_t i = 0; i < g->m; i++)
            strided_kernels()->gather[1](to + i * *step, a + i * g->a.rs, g->a.cs, g->k);
    return to;
}

static void block_bf16(const struct gemm *given)
{
    const struct tile_kernels *kernels = tile_kernels();
    struct gemm swapped = *given;
    const struct gemm *g = given;
    if (g->b.rs == 1 && (g->a.cs != 1 || g->m < FEW_ROWS)) {
        swapped.m = given->n, swapped.n = given->m;
        swapped.a = (struct mat){.p = given->b.p, .rs = given->b.cs, .cs = given->b.rs};
        swapped.b = (struct mat){.p = given->a.p, .rs = given->a.cs, .cs = given->a.rs};
        swapped.c = (struct mat){.p = given->c.p, .rs = given->c.cs, .cs = given->c.rs};
        g = &swapped;
    }
    size_t panel = tile_panel_bytes(g->k);
    char *memory = scratch_block(panel + (g->a.cs == 1 ? 0 : (size_t)(g->m * even(g->k)) * 2));
    struct tile t = {.m = g->m, .k = g->k, .panel = memory, .crs = g->c.rs, .ccs = g->c.cs};
    t.a = bf16_rows(g, (uint16_t *)(void *)(memory + panel), &t.ars);
    t.alpha = (float)creal(g->alpha), t.beta = (float)creal(g->beta);
    for (int64_t j = 0; j < g->n; j += kernels->columns) {
        t.n = g->n - j < kernels->columns ? g->n - j : kernels->columns;
        t.c = (uint16_t *)g->c.p + j * g->c.cs;
        kernels->pack((uint16_t *)g->b.p + j * g->b.cs, g->b.rs, g->b.cs, g->k, t.n, memory);
        kernels->run(&t);
    }
}

static void (*const float_block[SN_NDTYPES])(const struct gemm *) = {
    [ACL_FLOAT] = block_s, [ACL_DOUBLE] = block_d, [ACL_COMPLEX64] = block_c, [ACL_COMPLEX128] = block_z};

/* c = beta c where there is nothing to add up. BLAS need not look at beta then. */
static void block_empty(const struct gemm *g)
{
    size_t size = sn_size(g->type);
    if (g->beta == 0)
        for (int64_t i = 0; i < g->m; i++)
            memset((char *)g->c.p + (size_t)(i * g->c.rs) * size, 0, (size_t)g->n * size);
    else
        float_block[g->type](g);
}

/* g with c row major: a column-major c is the row-major product of the transposes. */
static struct gemm row_major(const struct gemm *g)
{
    struct gemm r = *g;
    if (g->n == 1) r.c.cs = 1;
    if (g->n == 1 || (g->m > 1 && g->c.cs == 1)) return r;
    r.m = g->n, r.n = g->m;
    r.a = g->b, r.b = g->a;
    r.a.rs = g->b.cs, r.a.cs = g->b.rs;
    r.b.rs = g->a.cs, r.b.cs = g->a.rs;
    r.c.rs = g->c.cs, r.c.cs = 1;
    return r;
}

static void block_run(const struct gemm *g)
{
    if (g->m == 0 || g->n == 0) return;
    if (g->type == ACL_BF16) {
        block_bf16(g);
        return;
    }
    if (!float_block[g->type]) {
        block_integer(g);
        return;
    }
    blas_enter();
    if (g->k == 0)
        block_empty(g);
    else
        float_block[g->type](g);
    blas_leave();
}

void gemm_serial(const struct gemm *g)
{
    struct gemm r = row_major(g);
    block_run(&r);
}

bool gemm_has(aclDataType type)
{
    if ((int)type < 0 || (int)type >= SN_NDTYPES) return false;
    return float_block[type] || ((int)type < IGEMM_TYPES && igemm_kernels()->run[type]);
}

void gemm_init(struct gemm *g, aclDataType type, int64_t m, int64_t n, int64_t k)
{
    *g = (struct gemm){.type = type, .m = m, .n = n, .k = k, .alpha = 1, .ialpha = 1};
}

/* ---- splitting --------------------------------------------------------------------------------------- */

enum {
    BLOCK_WORK = 1 << 22, /* multiplications that are worth a piece of their own */
    BLOCK_COLS = 1024,    /* narrower blocks spend their time packing operands */
    BF16_WORK = 1 << 23,
    BF16_ROWS = 192,    /* fewer rows of a block spend their time packing columns */
    SPLIT_DEPTH = 4096, /* shortest part of a long sum over k */
    SPLIT_PARTS = 16,
    SPLIT_OUT = 1 << 16, /* largest result whose sum over k is split */
};

struct plan {
    struct gemm g;
    int64_t mb, nb, rows, cols; /* block size, blocks down and across */
    int64_t batches, group;     /* all batch indices, how many of them one piece does */
    int64_t parts, kb;          /* of the sum over k */
    char *partial;
};

static void *advance(const struct gemm *g, const struct mat *m, int64_t batch, int64_t i, int64_t j)
{
    int64_t at = i * m->rs + j * m->cs;
    for (int32_t d = g->nbatch - 1; d >= 0; d--) {
        at += batch % g->bdim[d] * m->bs[d];
        batch /= g->bdim[d];
    }
    return (char *)m->p + at * (int64_t)sn_size(g->type);
}

/* The block's product for one batch index, or for all of them added up. */
static void plan_block(const struct plan *p, int64_t batch, int64_t i, int64_t j)
{
    const struct gemm *g = &p->g;
    struct gemm s = *g;
    s.m = g->m - i < p->mb ? g->m - i : p->mb;
    s.n = g->n - j < p->nb ? g->n - j : p->nb;
    s.c.p = advance(g, &g->c, batch, i, j);
    int64_t last = g->sum ? p->batches : batch + 1;
    for (int64_t b = batch; b < last; b++) {
        s.a.p = advance(g, &g->a, b, i, 0);
        s.b.p = advance(g, &g->b, b, 0, j);
        block_run(&s);
        s.beta = 1, s.ibeta = 1;
    }
}

static void plan_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct plan *p = ctx;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t cell = piece % (p->rows * p->cols), group = piece / (p->rows * p->cols);
        int64_t last = (group + 1) * p->group;
        if (last > p->batches) last = p->batches;
        if (p->g.sum) last = 1; /* plan_block does them all */
        for (int64_t b = group * p->group; b < last; b++)
            plan_block(p, b, cell / p->cols * p->mb, cell % p->cols * p->nb);
    }
}

/* Part p of a long sum, into its own partial result. */
static void part_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct plan *p = ctx;
    for (int64_t part = begin; part < end; part++) {
        struct gemm s = p->g;
        int64_t at = part * p->kb;
        s.k = s.k - at < p->kb ? s.k - at : p->kb;
        s.a.p = advance(&s, &s.a, 0, 0, at);
        s.b.p = advance(&s, &s.b, 0, at, 0);
        s.c =
            (struct mat){.p = p->partial + (size_t)(part * s.m * s.n) * sn_size(s.type), .rs = s.n, .cs = 1};
        s.beta = 0;
        block_run(&s);
    }
}

#define ADD_PARTS(T, letter)                                                                                 \
    static void add_parts_##letter(const struct plan *p)                                                     \
    {                                                                                                        \
        const struct gemm *g = &p->g;                                                                        \
        T beta = (T)creal(g->beta);                                                                          \
        for (int64_t i = 0; i < g->m; i++) {                                                                 \
            T *row = (T *)g->c.p + i * g->c.rs;                                                              \
            const T *part = (const T *)p->partial + i * g->n;                                                \
            for (int64_t j = 0; j < g->n; j++) {                                                             \
                T sum = 0;                                                                                   \
                for (int64_t x = 0; x < p->parts; x++) sum += part[x * g->m * g->n + j];                     \
                row[j] = beta == 0 ? sum : sum + beta * row[j];                                              \
            }                                                                                                \
        }                                                                                                    \
    }
ADD_PARTS(float, s)
ADD_PARTS(double, d)

/* Adjacent batch dimensions that only lengthen a (one b for all of them) become rows. */
static void fold_batch(struct gemm *g)
{
    while (g->nbatch && !g->sum) {
        int32_t d = g->nbatch - 1;
        bool one = g->bdim[d] == 1;
        if (!one &&
            (g->b.bs[d] != 0 || g->a.bs[d] != g->m * g->a.rs || g->c.bs[d] != g->m * g->c.rs || g->a.cs != 1))
            return;
        g->m *= g->bdim[d];
        g->nbatch--;
    }
}

/* A block packs its columns of b; rows of a that do not lie along k are brought there by every block. */
static void split_bf16(struct plan *p, int64_t depth)
{
    int64_t columns = tile_kernels()->columns;
    bool tall = p->g.a.cs != 1;
    int64_t share = p->mb * p->nb * depth / rt_pool_threads() / 4;
    while (p->mb * p->nb * depth > (share > BF16_WORK ? share : BF16_WORK) &&
           (p->mb > BF16_ROWS || p->nb > columns))
        if (p->mb > BF16_ROWS && (tall || p->nb <= columns))
            p->mb = (p->mb / 2 + 5) / 6 * 6;
        else
            p->nb = (p->nb / 2 + columns - 1) / columns * columns;
}

static void split_blas(struct plan *p, int64_t depth)
{
    int64_t rows = blas_block_rows();
    while (p->mb * p->nb * depth > BLOCK_WORK && (p->mb > rows || p->nb > BLOCK_COLS))
        if (p->mb * BLOCK_COLS >= p->nb * rows)
            p->mb = (p->mb / 2 + 15) / 16 * 16;
        else
            p->nb = (p->nb / 2 + 15) / 16 * 16;
}

static void split(struct plan *p)
{
    const struct gemm *g = &p->g;
    int64_t depth = g->k > 0 ? g->k : 1;
    p->mb = g->m, p->nb = g->n, p->group = 1;
    (g->type == ACL_BF16 ? split_bf16 : split_blas)(p, depth);
    p->rows = (g->m + p->mb - 1) / p->mb, p->cols = (g->n + p->nb - 1) / p->nb;
    int64_t work = g->m * g->n * depth;
    if (p->rows * p->cols == 1 && work < BLOCK_WORK / 4) p->group = BLOCK_WORK / 4 / (work + 64) + 1;
}

static bool split_sum(op_call *c, struct plan *p)
{
    const struct gemm *g = &p->g;
    if (p->batches != 1 || g->sum || (g->type != ACL_FLOAT && g->type != ACL_DOUBLE)) return false;
    if (g->m * g->n > SPLIT_OUT || g->k < 2 * SPLIT_DEPTH || g->m * g->n * g->k < BLOCK_WORK) return false;
    int64_t parts = g->k / SPLIT_DEPTH < SPLIT_PARTS ? g->k / SPLIT_DEPTH : SPLIT_PARTS;
    p->kb = ((g->k + parts - 1) / parts + 15) / 16 * 16;
    p->parts = (g->k + p->kb - 1) / p->kb;
    p->partial = op_scratch(c, (size_t)(p->parts * g->m * g->n) * sn_size(g->type));
    return true;
}

void gemm_run(op_call *c, const struct gemm *g)
{
    struct plan p = {.g = row_major(g), .batches = 1};
    fold_batch(&p.g);
    for (int32_t d = 0; d < p.g.nbatch; d++) p.batches *= p.g.bdim[d];
    if (p.g.m == 0 || p.g.n == 0 || p.batches == 0) {
        if (!p.g.sum || p.g.m == 0 || p.g.n == 0) return;
        p.batches = 1, p.g.nbatch = 0, p.g.k = 0;
    }
    if (split_sum(c, &p)) {
        rt_pool_run(p.parts, 1, part_piece, &p);
        (g->type == ACL_FLOAT ? add_parts_s : add_parts_d)(&p);
        return;
    }
    split(&p);
    if (p.g.sum) {
        rt_pool_run(p.rows * p.cols, 1, plan_piece, &p);
        return;
    }
    int64_t groups = (p.batches + p.group - 1) / p.group;
    rt_pool_run(groups * p.rows * p.cols, 1, plan_piece, &p);
}

/* ---- operands ---------------------------------------------------------------------------------------- */

bool cube_rounds(int cube_math)
{
    return rt_settings()->hf32 && (cube_math == 1 || cube_math == 2 || cube_math == 3);
}

/* cube math types: 1 down precision (HF32 on a 910B), 2 f16, 3 HF32. */
void cube_round(float *x, int64_t n, int cube_math)
{
    if (cube_math == 2) {
        enum { CHUNK = 512 };
        uint16_t half[CHUNK];
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t len = n - i < CHUNK ? n - i : CHUNK;
            sn_convert(half, ACL_FLOAT16, x + i, ACL_FLOAT, len);
            sn_convert(x + i, ACL_FLOAT, half, ACL_FLOAT16, len);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if ((bits & 0x7f800000u) != 0x7f800000u) bits = (((bits >> 12) + 1) >> 1) << 13;
        memcpy(x + i, &bits, sizeof bits);
    }
}

/* BLAS can read it where it lies: unit stride one way, no overlap the other way, strides that fit its
 * integers. */
static bool blas_can(int64_t rows, int64_t cols, int64_t rs, int64_t cs)
{
    if (rs < 0 || cs < 0 || rs > INT_MAX || cs > INT_MAX) return false;
    if (cs == 1 && rs >= cols && rs > 0) return true;
    return rs == 1 && cs >= rows && cs > 0;
}

/* Strides of size-1 dimensions say nothing: give them values that suit BLAS. */
static void tidy(int64_t rows, int64_t cols, int64_t *rs, int64_t *cs)
{
    if (cols <= 1 && rows <= 1)
        *rs = 1, *cs = 1;
    else if (cols <= 1)
        *cs = *rs == 1 ? rows : 1;
    else if (rows <= 1)
        *rs = *cs == 1 ? cols : 1;
}

/* A copy of t, contiguous in the order its bytes already have, type `as`; broadcast dimensions are copied
 * once. */
static void mat_copy(op_call *c, const aclTensor *t, aclDataType as, bool fresh, struct mat *m)
{
    aclTensor v = *t, w;
    int32_t r = v.rank;
    bool swap = v.stride[r - 2] < v.stride[r - 1] && v.stride[r - 2] > 0;
    if (swap) {
        int64_t d = v.dim[r - 1], s = v.stride[r - 1];
        v.dim[r - 1] = v.dim[r - 2], v.stride[r - 1] = v.stride[r - 2];
        v.dim[r - 2] = d, v.stride[r - 2] = s;
    }
    for (int32_t d = 0; d < r - 2; d++)
        if (v.stride[d] == 0 && v.dim[d] > 1) v.dim[d] = 1;
    int64_t cols = v.dim[r - 1], step = v.dim[r - 2] * cols;
    for (int32_t d = r - 3; d >= 0; d--) {
        m->bs[d] = v.dim[d] == t->dim[d] ? step : 0;
        step *= v.dim[d];
    }
    if (fresh) {
        m->p = op_scratch(c, (size_t)sn_numel(&v) * sn_size(as) + 1);
        sn_wrap(&w, as, r, v.dim, m->p);
        op_copy(c, &w, &v);
    } else
        m->p = op_in(c, &v, as);
    m->rs = swap ? 1 : cols, m->cs = swap ? cols : 1;
    tidy(t->dim[r - 2], t->dim[r - 1], &m->rs, &m->cs);
}

void mat_in(op_call *c, const aclTensor *t, aclDataType as, int cube_math, struct mat *m)
{
    int32_t r = t->rank;
    bool round = as == ACL_FLOAT && t->dtype == ACL_FLOAT && cube_rounds(cube_math);
    int64_t rows = t->dim[r - 2], cols = t->dim[r - 1], rs = t->stride[r - 2], cs = t->stride[r - 1];
    *m = (struct mat){0};
    tidy(rows, cols, &rs, &cs);
    if (t->dtype != as || round || !blas_can(rows, cols, rs, cs) || sn_numel(t) == 0) {
        mat_copy(c, t, as, round, m);
        int64_t n = 1;
        for (int32_t d = 0; d < r; d++) n *= d < r - 2 && m->bs[d] == 0 && t->dim[d] > 1 ? 1 : t->dim[d];
        if (round) cube_round(m->p, n, cube_math);
        return;
    }
    m->p = sn_data(t), m->rs = rs, m->cs = cs;
    for (int32_t d = 0; d < r - 2; d++) m->bs[d] = t->stride[d];
}

void mat_out(op_call *c, const aclTensor *t, aclDataType as, bool scratch, struct mat *m)
{
    int32_t r = t->rank;
    int64_t rows = t->dim[r - 2], cols = t->dim[r - 1], rs = t->stride[r - 2], cs = t->stride[r - 1];
    *m = (struct mat){0};
    tidy(rows, cols, &rs, &cs);
    if (t->dtype == as && !scratch && blas_can(rows, cols, rs, cs)) {
        m->p = sn_data(t), m->rs = rs, m->cs = cs;
        for (int32_t d = 0; d < r - 2; d++) m->bs[d] = t->stride[d];
        return;
    }
    m->p = op_scratch(c, (size_t)sn_numel(t) * sn_size(as) + 1);
    m->rs = cols, m->cs = 1;
    tidy(rows, cols, &m->rs, &m->cs);
    int64_t step = rows * cols;
    for (int32_t d = r - 3; d >= 0; d--) m->bs[d] = step, step *= t->dim[d];
}

void mat_out_done(op_call *c, const aclTensor *t, aclDataType as, const struct mat *m)
{
    aclTensor w;
    if (sn_numel(t) == 0 || m->p == sn_data(t)) return;
    sn_wrap(&w, as, t->rank, t->dim, m->p);
    op_copy(c, t, &w);
}
