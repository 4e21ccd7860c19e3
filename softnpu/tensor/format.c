/* format.c - private formats: every dimension is split into blocks, element i lies at i / block * outer +
 * i % block * inner, and the dimensions' places add up. */
#include "softnpu/tensor/format.h"

#include <string.h>

enum { BLOCK = 16, BLOCK_BYTES = 32 };

struct split {
    int64_t n, block, outer, inner;
};
struct layout {
    int rank;
    int64_t total;
    struct split dim[SN_MAX_DIMS];
};

static int64_t blocks(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* The shape as N, C, H, W. */
static bool four_dims(const aclTensor *t, int64_t d[4])
{
    if (t->rank > 4) return false;
    int first = t->rank == 4 ? 0 : 1;
    for (int i = 0; i < 4; i++) d[i] = i >= first && i - first < t->rank ? t->dim[i - first] : 1;
    return true;
}

static bool nc1hwc0(const aclTensor *t, struct layout *l)
{
    int64_t d[4];
    if (!four_dims(t, d)) return false;
    int64_t c1 = blocks(d[1], BLOCK), row = d[3] * BLOCK, plane = d[2] * row;
    *l = (struct layout){
        4,
        d[0] * c1 * plane,
        {{d[0], 1, c1 * plane, 0}, {d[1], BLOCK, plane, 1}, {d[2], 1, row, 0}, {d[3], 1, BLOCK, 0}}};
    return true;
}

static bool fractal_z(const aclTensor *t, struct layout *l)
{
    int64_t d[4], square = BLOCK * BLOCK;
    if (!four_dims(t, d)) return false;
    int64_t tap = blocks(d[0], BLOCK) * square, row = d[3] * tap, plane = d[2] * row;
    *l = (struct layout){
        4,
        blocks(d[1], BLOCK) * plane,
        {{d[0], BLOCK, square, BLOCK}, {d[1], BLOCK, plane, 1}, {d[2], 1, row, 0}, {d[3], 1, tap, 0}}};
    return true;
}

static bool fractal_nz(const aclTensor *t, struct layout *l)
{
    int64_t width = sn_size(t->dtype) == 1 ? BLOCK_BYTES : BLOCK;
    int batch = t->rank > 2 ? t->rank - 2 : 0;
    int64_t rows = t->rank ? t->dim[batch] : 1, columns = t->rank > 1 ? t->dim[batch + 1] : 1;
    int64_t band = blocks(rows, BLOCK) * BLOCK * width;
    l->rank = batch + 2;
    l->total = blocks(columns, width) * band;
    l->dim[batch] = (struct split){rows, BLOCK, BLOCK * width, width};
    l->dim[batch + 1] = (struct split){columns, width, band, 1};
    for (int i = batch; i-- > 0;) {
        l->dim[i] = (struct split){t->dim[i], 1, l->total, 0};
        l->total *= t->dim[i];
    }
    return true;
}

static const struct {
    aclFormat format;
    bool (*layout)(const aclTensor *t, struct layout *l);
} formats[] = {
    {ACL_FORMAT_NC1HWC0, nc1hwc0},
    {ACL_FORMAT_FRACTAL_Z, fractal_z},
    {ACL_FORMAT_FRACTAL_NZ, fractal_nz},
};
enum { NFORMATS = sizeof formats / sizeof *formats };

bool sn_is_private(aclFormat f)
{
    for (int i = 0; i < NFORMATS; i++)
        if (formats[i].format == f) return true;
    return false;
}

static bool layout_of(const aclTensor *t, struct layout *l)
{
    for (int i = 0; i < NFORMATS; i++)
        if (formats[i].format == t->format) return t->rank <= SN_MAX_DIMS && formats[i].layout(t, l);
    return false;
}

int64_t sn_packed_elements(const aclTensor *t)
{
    struct layout l;
    return layout_of(t, &l) ? l.total : -1;
}

struct move {
    const struct layout *l;
    size_t size;
    char *plain, *packed;
    bool pack;
};

/* Dimension d and those inside it, from element `at` of the packed storage; plain moves on. */
static void walk(struct move *m, int d, int64_t at)
{
    const struct split *s = &m->l->dim[d];
    for (int64_t i = 0; i < s->n; i++) {
        int64_t place = at + i / s->block * s->outer + i % s->block * s->inner;
        if (d + 1 < m->l->rank) {
            walk(m, d + 1, place);
            continue;
        }
        char *packed = m->packed + (size_t)place * m->size;
        memcpy(m->pack ? packed : m->plain, m->pack ? m->plain : packed, m->size);
        m->plain += m->size;
    }
}

void sn_unpack(const aclTensor *t, const void *packed, void *plain)
{
    struct layout l;
    if (!layout_of(t, &l)) return;
    struct move m = {&l, sn_size(t->dtype), plain, (char *)(uintptr_t)packed, false};
    walk(&m, 0, 0);
}

void sn_pack(const aclTensor *t, const void *plain, void *packed)
{
    struct layout l;
    if (!layout_of(t, &l)) return;
    struct move m = {&l, sn_size(t->dtype), (char *)(uintptr_t)plain, packed, true};
    memset(packed, 0, (size_t)l.total * m.size);
    walk(&m, 0, 0);
}
