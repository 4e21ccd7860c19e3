/* conv_tile.c - convolutions of stride 1 by shifted rows.
 *
 * Every channel of an image is laid out once with its padding (for BF16 two channels side by side, as pairs).
 * Counted along such a padded plane, output position q of a tap is the input at q plus a distance that only
 * the tap and the channel decide: rows of the panel are slices of the image. Positions that fall between the
 * output's rows are computed and not stored. */
#include "softnpu/op/conv_tile.h"
#include "softnpu/kernel/tile.h"
#include "softnpu/op/executor.h"
#include "softnpu/op/gemm.h"

#include <string.h>

struct flat {
    const struct conv *v;
    enum tile_type type;
    int64_t size;          /* bytes of an element of v */
    int64_t dim[3], plane; /* of a padded channel */
    int64_t channels;      /* of a group, pairs for BF16 */
    int64_t k;             /* rows of a panel */
    int64_t positions, panels;
    char *image;        /* n, groups, channels, plane: 4-byte elements */
    const char *weight; /* groups*cs, k */
    const int64_t *at;  /* where the rows of a panel lie, from the group's first channel */
};

static int64_t pairs(const struct flat *f, int64_t channels)
{
    return f->type == TILE_BF16 ? (channels + 1) / 2 : channels;
}

static struct flat make_flat(const struct conv *v)
{
    struct flat f = {
        .v = v, .type = v->type == ACL_BF16 ? TILE_BF16 : TILE_F32, .size = (int64_t)sn_size(v->type)};
    const struct conv_geom *g = &v->g;
    for (int d = 0; d < 3; d++) f.dim[d] = g->small[d] + (g->kernel[d] - 1) * g->dilation[d];
    f.plane = f.dim[0] * f.dim[1] * f.dim[2];
    f.channels = pairs(&f, v->cb);
    f.k = f.channels * conv_taps(g);
    f.positions = ((g->small[0] - 1) * f.dim[1] + g->small[1] - 1) * f.dim[2] + g->small[2];
    int64_t columns = tile_kernels()->columns;
    f.panels = (f.positions + columns - 1) / columns;
    return f;
}

bool conv_tile_suits(const struct conv *v)
{
    const struct conv_geom *g = &v->g;
    if (v->type != ACL_FLOAT && !(v->type == ACL_BF16 && tile_has_bf16())) return false;
    if (g->stride[0] != 1 || g->stride[1] != 1 || g->stride[2] != 1 || conv_small(g) < 1 || v->cs < 1)
        return false;
    struct flat f = make_flat(v);
    return f.positions <= 2 * conv_small(g);
}

/* ---- the padded image -------------------------------------------------------------------------------- */

/* One row of a channel, or of two as pairs; second is NULL when the channels are odd in number. */
static void lay_row(const struct flat *f, char *to, const char *first, const char *second, int64_t n)
{
    if (f->type == TILE_F32) {
        memcpy(to, first, (size_t)n * sizeof(float));
        return;
    }
    const uint16_t *a = (const void *)first, *b = (const void *)second;
    uint32_t *pair = (void *)to;
    if (b)
        for (int64_t i = 0; i < n; i++) pair[i] = a[i] | (uint32_t)b[i] << 16;
    else
        for (int64_t i = 0; i < n; i++) pair[i] = a[i];
}

static void lay_channel(const struct flat *f, char *to, const char *first, const char *second)
{
    const struct conv_geom *g = &f->v->g;
    int64_t left = g->pad[2], room = f->dim[2] - left, n = g->big[2] < room ? g->big[2] : room,
            row_bytes = 4 * f->dim[2];
    for (int64_t d = 0; d < f->dim[0]; d++)
        for (int64_t h = 0; h < f->dim[1]; h++, to += row_bytes) {
            int64_t bd = d - g->pad[0], bh = h - g->pad[1];
            if (bd < 0 || bd >= g->big[0] || bh < 0 || bh >= g->big[1]) {
                memset(to, 0, (size_t)row_bytes);
                continue;
            }
            int64_t from = (bd * g->big[1] + bh) * g->big[2] * f->size;
            memset(to, 0, 4 * (size_t)left);
            lay_row(f, to + 4 * left, first + from, second ? second + from : NULL, n);
            memset(to + 4 * (left + n), 0, 4 * (size_t)(room - n));
        }
}

static void lay_channels(void *ctx, int64_t begin, int64_t end)
{
    const struct flat *f = ctx;
    const struct conv *v = f->v;
    int64_t bytes = conv_big(&v->g) * f->size;
    for (int64_t i = begin; i < end; i++) {
        int64_t in_group = i % f->channels, step = f->type == TILE_BF16 ? 2 : 1;
        const char *first = v->big + (i / f->channels * v->cb + in_group * step) * bytes;
        bool two = step == 2 && in_group * 2 + 1 < v->cb;
        lay_channel(f, f->image + i * f->plane * 4, first, two ? first + bytes : NULL);
    }
}

/* The image itself serves when nothing surrounds it; what a last panel reads past its end stays inside the
 * tensor's memory only because that panel is copied (panel_rows). */
static bool lies_ready(const struct flat *f)
{
    return f->type == TILE_F32 && !memcmp(f->dim, f->v->g.big, sizeof f->dim) && f->v->g.pad[0] == 0 &&
           f->v->g.pad[1] == 0 && f->v->g.pad[2] == 0;
}

static void lay_image(op_call *c, struct flat *f)
{
    const struct conv *v = f->v;
    int64_t channels = v->n * v->groups * f->channels;
    if (lies_ready(f)) {
        f->image = v->big;
        return;
    }
    f->image = op_scratch(c, (size_t)(channels * f->plane * 4));
    rt_pool_run(channels, f->plane > 16384 ? 1 : 16384 / f->plane, lay_channels, f);
}

/* ---- weights ----------------------------------------------------------------------------------------- */

static void place_rows(op_call *c, struct flat *f)
{
    const struct conv_geom *g = &f->v->g;
    int64_t *at = op_scratch(c, (size_t)f->k * sizeof *at), *next = at;
    for (int64_t ch = 0; ch < f->channels; ch++)
        for (int64_t d = 0; d < g->kernel[0]; d++)
            for (int64_t h = 0; h < g->kernel[1]; h++)
                for (int64_t w = 0; w < g->kernel[2]; w++)
                    *next++ = ch * f->plane +
                              (d * g->dilation[0] * f->dim[1] + h * g->dilation[1]) * f->dim[2] +
                              w * g->dilation[2];
    f->at = at;
}

/* BF16: the factors of a pair side by side, 0 for a channel that is not there. */
static void pair_weights(op_call *c, struct flat *f)
{
    const struct conv *v = f->v;
    int64_t taps = conv_taps(&v->g), rows = v->groups * v->cs;
    f->weight = v->weight;
    if (f->type == TILE_F32) return;
    uint16_t *to = op_scratch(c, (size_t)(rows * f->k) * 2 * sizeof *to);
    f->weight = (char *)to;
    const uint16_t *from = (const void *)v->weight;
    for (int64_t r = 0; r < rows; r++, from += v->cb * taps)
        for (int64_t ch = 0; ch < 2 * f->channels; ch += 2)
            for (int64_t t = 0; t < taps; t++) {
                *to++ = from[ch * taps + t];
                *to++ = ch + 1 < v->cb ? from[(ch + 1) * taps + t] : 0;
            }
}

/* ---- products ---------------------------------------------------------------------------------------- */

/* Stores n sums of one channel from position q on, dropping those between rows. */
static void store_row(const struct flat *f, char *channel, const float *sum, int64_t q, int64_t n)
{
    const struct conv_geom *g = &f->v->g;
    int64_t w = q % f->dim[2], h = q / f->dim[2] % f->dim[1], d = q / f->dim[2] / f->dim[1];
    while (n > 0) {
        int64_t row = f->dim[2] - w < n ? f->dim[2] - w : n,
                kept = g->small[2] - w < row ? g->small[2] - w : row;
        if (kept > 0 && h < g->small[1]) {
            char *to = channel + ((d * g->small[1] + h) * g->small[2] + w) * f->size;
            if (f->type == TILE_F32)
                memcpy(to, sum, (size_t)kept * sizeof *sum);
            else
                sn_convert(to, ACL_BF16, sum, ACL_FLOAT, kept);
        }
        sum += row, n -= row, w = 0;
        if (++h == f->dim[1]) h = 0, d++;
    }
}

/* The panel's rows where they lie, or a copy when reading whole vectors would leave the image's memory. */
static const char *panel_rows(const struct flat *f, int64_t group_of_all, int64_t q, int64_t n, char *copy,
                              struct tile *t, int64_t *packed)
{
    const struct conv *v = f->v;
    int64_t columns = tile_kernels()->columns, first = group_of_all * f->channels * f->plane + q;
    int64_t end = v->n * v->groups * f->channels * f->plane;
    const char *image = f->image + first * 4;
    t->at = f->at;
    if (first + f->at[f->k - 1] + columns <= end) return image;
    for (int64_t p = 0; p < f->k; p++) {
        packed[p] = p * columns;
        memcpy(copy + p * columns * 4, image + f->at[p] * 4, (size_t)n * 4);
        memset(copy + (p * columns + n) * 4, 0, (size_t)(columns - n) * 4);
    }
    t->at = packed;
    return copy;
}

static void run_panels(void *ctx, int64_t begin, int64_t end)
{
    const struct flat *f = ctx;
    const struct conv *v = f->v;
    const struct tile_kernels *kernels = tile_kernels();
    int64_t columns = kernels->columns, channel_bytes = conv_small(&v->g) * f->size;
    size_t sums = (size_t)(v->cs * columns) * 4, copy = (size_t)(f->k * columns) * 4;
    char *memory = scratch_block(sums + copy + (size_t)f->k * sizeof(int64_t));
    struct tile t = {.m = v->cs, .k = f->k, .c = memory, .crs = columns, .ccs = 1, .alpha = 1};
    t.ars = f->k * (f->type == TILE_BF16 ? 2 : 1);
    for (int64_t i = begin; i < end; i++) {
        int64_t q = i % f->panels * columns, group = i / f->panels;
        t.n = f->positions - q < columns ? f->positions - q : columns;
        t.panel = panel_rows(f, group, q, t.n, memory + sums, &t, (void *)(memory + sums + copy));
        t.a = f->weight + group % v->groups * v->cs * f->k * 4;
        kernels->run_at[f->type](&t);
        for (int64_t s = 0; s < v->cs; s++) {
            float *sum = (float *)(void *)memory + s * columns;
            float bias = v->bias ? ((const float *)(const void *)v->bias)[group % v->groups * v->cs + s] : 0;
            for (int64_t j = 0; v->bias && j < t.n; j++) sum[j] += bias;
            store_row(f, v->small + (group * v->cs + s) * channel_bytes, sum, q, t.n);
        }
    }
}

void conv_tile_to_small(op_call *c, const struct conv *v)
{
    struct flat f = make_flat(v);
    if (v->n == 0 || v->groups == 0 || f.k == 0) return;
    lay_image(c, &f);
    place_rows(c, &f);
    pair_weights(c, &f);
    rt_pool_run(v->n * v->groups * f.panels, 1, run_panels, &f);
}

/* ---- the other way ----------------------------------------------------------------------------------- */

/* groups*cs, cb, taps  ->  groups*cb, cs, taps backwards */
static char *mirror_weight(op_call *c, const struct conv *v)
{
    int64_t taps = conv_taps(&v->g), size = (int64_t)sn_size(v->type);
    char *to = op_scratch(c, (size_t)(v->groups * v->cs * v->cb * taps * size)), *next = to;
    for (int64_t g = 0; g < v->groups; g++)
        for (int64_t b = 0; b < v->cb; b++)
            for (int64_t s = 0; s < v->cs; s++)
                for (int64_t t = taps; t-- > 0; next += size)
                    memcpy(next, v->weight + (((g * v->cs + s) * v->cb + b) * taps + t) * size, (size_t)size);
    return to;
}

bool conv_tile_to_big(op_call *c, const struct conv *v)
{
    struct conv m = *v;
    for (int d = 0; d < 3; d++) {
        m.g.pad[d] = (v->g.kernel[d] - 1) * v->g.dilation[d] - v->g.pad[d];
        m.g.big[d] = v->g.small[d], m.g.small[d] = v->g.big[d];
        if (m.g.pad[d] < 0) return false;
    }
    m.cb = v->cs, m.cs = v->cb, m.big = v->small, m.small = v->big;
    if (!conv_tile_suits(&m)) return false;
    m.weight = mirror_weight(c, v);
    conv_tile_to_small(c, &m);
    return true;
}
