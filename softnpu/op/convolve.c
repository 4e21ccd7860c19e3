/* convolve.c - the three products of a convolution: tiles of unfolded input times weight, over the pool. */
#include "softnpu/op/conv_tile.h"
#include "softnpu/op/gemm.h"

#include <stdlib.h>
#include <string.h>

enum {
    TILE_ELEMENTS = 1 << 19, /* of unfolded input that one piece holds */
    TILE_COLUMNS = 128,      /* fewer columns waste the packing of the weight */
    MANY_COLUMNS = 1024,
    PIECES = 8, /* a layer should give the pool at least this many where that costs little */
};

/* A tile: whole images together when they are small, else a range of one image's positions. */
struct tiling {
    const struct conv *v;
    int64_t positions, taps, size; /* small positions an image, kernel taps, element size */
    int64_t images, columns;       /* images a tile, positions a tile of one image */
    int64_t tiles, per_image;      /* tiles in all, and of one image when images == 1 */
    int64_t block, blocks;         /* channels (or weight columns) a piece, pieces of a tile and group */
};

static struct tiling tile(const struct conv *v, int64_t rows)
{
    struct tiling t = {
        .v = v, .positions = conv_small(&v->g), .taps = conv_taps(&v->g), .size = (int64_t)sn_size(v->type)};
    int64_t columns = TILE_ELEMENTS / (rows + 1);
    columns = columns < TILE_COLUMNS ? TILE_COLUMNS : columns > MANY_COLUMNS ? MANY_COLUMNS : columns;
    t.columns = columns < t.positions ? columns : t.positions;
    t.images = columns / (t.positions + 1);
    if (t.images < 1) t.images = 1;
    if (t.images > v->n) t.images = v->n;
    t.per_image = t.images > 1 || t.positions == 0 ? 1 : (t.positions + t.columns - 1) / t.columns;
    t.tiles = (v->n + t.images - 1) / t.images * t.per_image;
    return t;
}

struct span { /* what a tile covers */
    int64_t n0, images, p0, width;
};
static struct span tile_span(const struct tiling *t, int64_t i)
{
    struct span s = {.n0 = i / t->per_image * t->images, .images = t->images, .width = t->positions};
    if (s.n0 + s.images > t->v->n) s.images = t->v->n - s.n0;
    if (t->images > 1) return s;
    s.p0 = i % t->per_image * t->columns;
    s.width = t->positions - s.p0 < t->columns ? t->positions - s.p0 : t->columns;
    return s;
}

static char *big_at(const struct conv *v, int64_t n, int64_t channel)
{
    return v->big + ((n * v->groups * v->cb + channel) * conv_big(&v->g)) * (int64_t)sn_size(v->type);
}
static char *small_at(const struct conv *v, int64_t n, int64_t channel)
{
    return v->small + ((n * v->groups * v->cs + channel) * conv_small(&v->g)) * (int64_t)sn_size(v->type);
}

static bool pointwise(const struct conv *v)
{
    const struct conv_geom *g = &v->g;
    return conv_taps(g) == 1 && g->stride[0] * g->stride[1] * g->stride[2] == 1 &&
           !memcmp(g->big, g->small, sizeof g->big) && g->pad[0] == 0 && g->pad[1] == 0 && g->pad[2] == 0;
}

static int log2_size(const struct tiling *t)
{
    return t->size == 4 ? 2 : t->size == 8 ? 3 : 4;
}

/* Rows r0..r1 of group's unfolded input for a span; *buffer is to be freed, NULL when the input itself
 * serves. */
static struct mat unfolded(const struct tiling *t, const struct span *s, int64_t group, int64_t r0,
                           int64_t r1, void **buffer)
{
    const struct conv *v = t->v;
    if (pointwise(v) && s->images == 1) {
        *buffer = NULL;
        return (struct mat){
            .p = big_at(v, s->n0, group * v->cb + r0) + s->p0 * t->size, .rs = t->positions, .cs = 1};
    }
    int64_t ld = s->images * s->width;
    char *col = malloc((size_t)((r1 - r0) * ld * t->size) + 1);
    if (!col) abort();
    for (int64_t i = 0; i < s->images; i++)
        conv_kernels()->unfold[log2_size(t)](&v->g, big_at(v, s->n0 + i, group * v->cb), r0, r1, s->p0,
                                             s->p0 + s->width, col + i * s->width * t->size, ld);
    *buffer = col;
    return (struct mat){.p = col, .rs = ld, .cs = 1};
}

/* Channels c0..c0+n of the small side for a span, side by side when it covers several images. */
static struct mat small_of(const struct tiling *t, const struct span *s, int64_t c0, int64_t n, bool load,
                           void **buffer)
{
    const struct conv *v = t->v;
    *buffer = NULL;
    if (s->images == 1)
        return (struct mat){.p = small_at(v, s->n0, c0) + s->p0 * t->size, .rs = t->positions, .cs = 1};
    int64_t ld = s->images * s->width;
    char *m = malloc((size_t)(n * ld * t->size) + 1);
    if (!m) abort();
    for (int64_t i = 0; load && i < s->images; i++)
        for (int64_t c = 0; c < n; c++)
            memcpy(m + (c * ld + i * s->width) * t->size, small_at(v, s->n0 + i, c0 + c),
                   (size_t)(s->width * t->size));
    *buffer = m;
    return (struct mat){.p = m, .rs = ld, .cs = 1};
}

static void store_small(const struct tiling *t, const struct span *s, int64_t c0, int64_t n,
                        const struct mat *m)
{
    for (int64_t i = 0; i < s->images; i++)
        for (int64_t c = 0; c < n; c++)
            memcpy(small_at(t->v, s->n0 + i, c0 + c), (char *)m->p + (c * m->rs + i * s->width) * t->size,
                   (size_t)(s->width * t->size));
}

static void fill(char *row, const char *value, int64_t n, int64_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(row + i * size, value, (size_t)size);
}

/* ---- depthwise: one big channel a group, taps by hand ------------------------------------------------ */

bool conv_depthwise(const struct conv *v)
{
    return v->cb == 1 && v->cs <= 4 && v->type == ACL_FLOAT && v->groups > 1;
}

static void start_channel(const struct conv *v, float *y, int64_t channel, int64_t n)
{
    float b = v->bias ? ((const float *)(const void *)v->bias)[channel] : 0;
    for (int64_t i = 0; i < n; i++) y[i] = b;
}

static const float *weight_at(const struct conv *v, int64_t small_channel)
{
    return (const float *)(const void *)v->weight + small_channel * v->cb * conv_taps(&v->g);
}

static void depth_small_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct conv *v = ctx;
    int64_t channels = v->groups * v->cs;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / channels, c = i % channels;
        float *y = (float *)(void *)small_at(v, n, c);
        start_channel(v, y, c, conv_small(&v->g));
        conv_kernels()->depth_small(&v->g, (float *)(void *)big_at(v, n, c / v->cs), weight_at(v, c), y);
    }
}

static void depth_big_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct conv *v = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / v->groups, c = i % v->groups;
        float *y = (float *)(void *)big_at(v, n, c);
        start_channel(v, y, c, conv_big(&v->g));
        for (int64_t s = c * v->cs; s < (c + 1) * v->cs; s++)
            conv_kernels()->depth_big(&v->g, y, weight_at(v, s), (float *)(void *)small_at(v, n, s));
    }
}

static void depth_weight_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct conv *v = ctx;
    for (int64_t c = begin; c < end; c++) {
        float *w = (float *)(void *)v->weight + c * conv_taps(&v->g);
        memset(w, 0, (size_t)conv_taps(&v->g) * sizeof *w);
        for (int64_t n = 0; n < v->n; n++)
            conv_kernels()->depth_weight(&v->g, (float *)(void *)big_at(v, n, c / v->cs), w,
                                         (float *)(void *)small_at(v, n, c));
    }
}

/* ---- small = weight unfold(big) ---------------------------------------------------------------------- */

static void to_small_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct tiling *t = ctx;
    const struct conv *v = t->v;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t b = piece % t->blocks, group = piece / t->blocks % v->groups, c0 = b * t->block;
        int64_t channels = v->cs - c0 < t->block ? v->cs - c0 : t->block, first = group * v->cs + c0;
        struct span s = tile_span(t, piece / t->blocks / v->groups);
        struct gemm g;
        void *col, *tmp;
        gemm_init(&g, v->type, channels, s.images * s.width, v->cb * t->taps);
        g.a =
            (struct mat){.p = v->weight + first * v->cb * t->taps * t->size, .rs = v->cb * t->taps, .cs = 1};
        g.b = unfolded(t, &s, group, 0, v->cb * t->taps, &col);
        g.c = small_of(t, &s, first, channels, false, &tmp);
        g.beta = v->bias ? 1 : 0;
        for (int64_t c = 0; v->bias && c < channels; c++)
            fill((char *)g.c.p + c * g.c.rs * t->size, v->bias + (first + c) * t->size, g.n, t->size);
        gemm_serial(&g);
        if (tmp) store_small(t, &s, first, channels, &g.c);
        free(col);
        free(tmp);
    }
}

void conv_to_small(op_call *c, const struct conv *v)
{
    struct conv copy = *v;
    if (conv_depthwise(v)) {
        rt_pool_run(v->n * v->groups * v->cs, 1, depth_small_piece, &copy);
        return;
    }
    if (conv_tile_suits(v)) {
        conv_tile_to_small(c, v);
        return;
    }
    struct tiling t = tile(v, v->cb * conv_taps(&v->g));
    if (t.positions == 0 || v->n == 0) return;
    t.blocks = t.tiles * v->groups >= PIECES || v->cs < 128 ? 1 : 2;
    t.block = (v->cs + t.blocks - 1) / t.blocks;
    rt_pool_run(t.tiles * v->groups * t.blocks, 1, to_small_piece, &t);
}

/* ---- big = fold(weight^T small) ---------------------------------------------------------------------- */

static int fold_index(aclDataType type)
{
    return type == ACL_FLOAT ? 0 : type == ACL_DOUBLE ? 1 : type == ACL_COMPLEX64 ? 2 : 3;
}

static void to_big_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct tiling *t = ctx;
    const struct conv *v = t->v;
    int64_t size = conv_big(&v->g);
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t b = piece % t->blocks, group = piece / t->blocks % v->groups, c0 = b * t->block;
        int64_t channels = v->cb - c0 < t->block ? v->cb - c0 : t->block, first = group * v->cb + c0;
        struct span s = tile_span(t, piece / t->blocks / v->groups);
        struct gemm g;
        void *tmp;
        gemm_init(&g, v->type, channels * t->taps, s.images * s.width, v->cs);
        g.a = (struct mat){.p = v->weight + (group * v->cs * v->cb + c0) * t->taps * t->size,
                           .rs = 1,
                           .cs = v->cb * t->taps};
        g.b = small_of(t, &s, group * v->cs, v->cs, true, &tmp);
        char *col = malloc((size_t)(g.m * g.n * t->size) + 1);
        if (!col) abort();
        g.c = (struct mat){.p = col, .rs = g.n, .cs = 1};
        gemm_serial(&g);
        for (int64_t i = 0; i < s.images; i++) {
            char *y = big_at(v, s.n0 + i, first);
            for (int64_t c = 0; c < channels; c++)
                if (v->bias)
                    fill(y + c * size * t->size, v->bias + (first + c) * t->size, size, t->size);
                else
                    memset(y + c * size * t->size, 0, (size_t)(size * t->size));
            conv_kernels()->fold[fold_index(v->type)](&v->g, y, 0, g.m, col + i * s.width * t->size, g.n);
        }
        free(col);
        free(tmp);
    }
}

void conv_to_big(op_call *c, const struct conv *v)
{
    struct conv copy = *v;
    if (conv_depthwise(v)) {
        rt_pool_run(v->n * v->groups, 1, depth_big_piece, &copy);
        return;
    }
    if (conv_tile_suits(v) && conv_tile_to_big(c, v)) return;
    struct tiling t = tile(v, v->cs);
    if (v->n == 0) return;
    /* A piece owns its channels of the images it covers, so it covers all their positions. */
    t.columns = t.positions, t.per_image = 1, t.tiles = (v->n + t.images - 1) / t.images;
    int64_t room = TILE_ELEMENTS / (t.taps * t.images * t.positions + 1);
    t.block = room < 1 ? 1 : room < v->cb ? room : v->cb;
    while (t.block > 16 && t.tiles * v->groups * ((v->cb + t.block - 1) / t.block) < PIECES)
        t.block = (t.block + 1) / 2;
    t.blocks = (v->cb + t.block - 1) / t.block;
    rt_pool_run(t.tiles * v->groups * t.blocks, 1, to_big_piece, &t);
}

/* ---- weight = sum small unfold(big)^T ---------------------------------------------------------------- */

static void to_weight_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct tiling *t = ctx;
    const struct conv *v = t->v;
    int64_t rows = v->cb * t->taps;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t group = piece / t->blocks, r0 = piece % t->blocks * t->block;
        int64_t r1 = r0 + t->block < rows ? r0 + t->block : rows;
        struct gemm g;
        gemm_init(&g, v->type, v->cs, r1 - r0, 0);
        g.c = (struct mat){.p = v->weight + (group * v->cs * rows + r0) * t->size, .rs = rows, .cs = 1};
        for (int64_t i = 0; i < t->tiles; i++, g.beta = 1) {
            struct span s = tile_span(t, i);
            void *col, *tmp;
            struct mat b = unfolded(t, &s, group, r0, r1, &col);
            g.k = s.images * s.width;
            g.a = small_of(t, &s, group * v->cs, v->cs, true, &tmp);
            g.b = (struct mat){.p = b.p, .rs = 1, .cs = b.rs};
            gemm_serial(&g);
            free(col);
            free(tmp);
        }
    }
}

void conv_to_weight(const struct conv *v)
{
    struct conv copy = *v;
    if (conv_depthwise(v)) {
        rt_pool_run(v->groups * v->cs, 1, depth_weight_piece, &copy);
        return;
    }
    int64_t rows = v->cb * conv_taps(&v->g);
    struct tiling t = tile(v, rows);
    if (t.positions == 0 || v->n == 0) {
        memset(v->weight, 0, (size_t)(v->groups * v->cs * rows * t.size));
        return;
    }
    t.block = (rows + PIECES - 1) / PIECES;
    if (t.block < 64) t.block = rows < 64 ? rows : 64;
    t.blocks = rows ? (rows + t.block - 1) / t.block : 0;
    rt_pool_run(v->groups * t.blocks, 1, to_weight_piece, &t);
}
