/* heap.c - hands out pieces of an offset range. Metadata is on the host: the range itself is never touched.
 *
 * Blocks form a list in address order (for joining neighbours). Free ones are also in one of 64 bins by the
 * logarithm of their size, with a bitmap of bins that are not empty; live ones in a hash table by offset. */
#include "softnpu/runtime/internal.h"

#include <stdlib.h>

enum { BINS = 64 };
struct block {
    uint64_t offset, size;        /* units */
    struct block *before, *after; /* neighbours in address order */
    struct block *prev, *next;    /* bin, or hash chain (next only) */
    bool live;
};
struct rt_heap {
    uint64_t span, unit;
    uint64_t filled; /* bit per bin */
    struct block *bin[BINS];
    struct block *first;
    struct block **table;
    uint64_t table_size, nlive;
};

static int bin_of(uint64_t size)
{
    return 63 - __builtin_clzll(size);
}
static uint64_t slot_of(const struct rt_heap *h, uint64_t offset)
{
    return (offset * 0x9E3779B97F4A7C15u >> 20) & (h->table_size - 1);
}

static void bin_add(struct rt_heap *h, struct block *b)
{
    int i = bin_of(b->size);
    b->live = false;
    b->prev = NULL;
    b->next = h->bin[i];
    if (b->next) b->next->prev = b;
    h->bin[i] = b;
    h->filled |= (uint64_t)1 << i;
}

static void bin_remove(struct rt_heap *h, struct block *b)
{
    int i = bin_of(b->size);
    if (b->prev)
        b->prev->next = b->next;
    else
        h->bin[i] = b->next;
    if (b->next) b->next->prev = b->prev;
    if (!h->bin[i]) h->filled &= ~((uint64_t)1 << i);
}

static void table_insert(struct rt_heap *h, struct block *b)
{
    uint64_t i = slot_of(h, b->offset);
    b->next = h->table[i];
    h->table[i] = b;
}

static void table_grow(struct rt_heap *h)
{
    struct block **bigger = calloc(h->table_size * 2, sizeof *bigger);
    if (!bigger) return; /* longer chains, still right */
    free(h->table);
    h->table = bigger;
    h->table_size *= 2;
    for (struct block *b = h->first; b; b = b->after)
        if (b->live) table_insert(h, b);
}

static void live_add(struct rt_heap *h, struct block *b)
{
    b->live = true;
    if (++h->nlive > h->table_size) table_grow(h);
    struct block **slot = &h->table[slot_of(h, b->offset)];
    for (struct block *x = *slot; x; x = x->next)
        if (x == b) return; /* table_grow has put it there */
    b->next = *slot;
    *slot = b;
}

static struct block *live_get(const struct rt_heap *h, uint64_t offset)
{
    struct block *b = h->table[slot_of(h, offset)];
    while (b && b->offset != offset) b = b->next;
    return b;
}

static void live_remove(struct rt_heap *h, struct block *b)
{
    struct block **p = &h->table[slot_of(h, b->offset)];
    while (*p != b) p = &(*p)->next;
    *p = b->next;
    h->nlive--;
}

struct rt_heap *rt_heap_new(uint64_t span, uint64_t unit)
{
    struct rt_heap *h = calloc(1, sizeof *h);
    struct block *all = calloc(1, sizeof *all);
    struct block **table = calloc(256, sizeof *table);
    if (!h || !all || !table) {
        free(h), free(all), free(table);
        return NULL;
    }
    *h = (struct rt_heap){.span = span / unit, .unit = unit, .first = all, .table = table, .table_size = 256};
    all->size = h->span;
    bin_add(h, all);
    return h;
}

static void free_blocks(struct rt_heap *h)
{
    for (struct block *b = h->first, *next; b; b = next) {
        next = b->after;
        free(b);
    }
}

void rt_heap_delete(struct rt_heap *h)
{
    if (!h) return;
    free_blocks(h);
    free(h->table);
    free(h);
}

/* Cuts b after size units; the rest becomes a free block. False without memory. */
static bool cut(struct rt_heap *h, struct block *b, uint64_t size)
{
    if (b->size == size) return true;
    struct block *rest = calloc(1, sizeof *rest);
    if (!rest) return false;
    *rest =
        (struct block){.offset = b->offset + size, .size = b->size - size, .before = b, .after = b->after};
    if (rest->after) rest->after->before = rest;
    b->after = rest;
    b->size = size;
    bin_add(h, rest);
    return true;
}

/* Makes [offset, offset+size) of the free block b a live block. */
static bool claim(struct rt_heap *h, struct block *b, uint64_t offset, uint64_t size)
{
    bin_remove(h, b);
    if (offset > b->offset) {
        if (!cut(h, b, offset - b->offset)) {
            bin_add(h, b);
            return false;
        }
        struct block *wanted = b->after;
        bin_add(h, b);
        bin_remove(h, wanted);
        b = wanted;
    }
    if (!cut(h, b, size)) {
        bin_add(h, b);
        return false;
    }
    live_add(h, b);
    return true;
}

static uint64_t aligned(uint64_t offset, uint64_t align)
{
    return (offset + align - 1) / align * align;
}

static struct block *fitting(struct rt_heap *h, int bin, uint64_t size, uint64_t align)
{
    for (struct block *b = h->bin[bin]; b; b = b->next)
        if (aligned(b->offset, align) + size <= b->offset + b->size) return b;
    return NULL;
}

int64_t rt_heap_take(struct rt_heap *h, uint64_t size, uint64_t align)
{
    uint64_t n = (size + h->unit - 1) / h->unit;
    uint64_t a = align > h->unit ? align / h->unit : 1;
    if (!n || n > h->span) return -1;
    for (uint64_t bins = h->filled >> bin_of(n) << bin_of(n); bins; bins &= bins - 1) {
        struct block *b = fitting(h, __builtin_ctzll(bins), n, a);
        if (!b) continue;
        uint64_t at = aligned(b->offset, a);
        return claim(h, b, at, n) ? (int64_t)(at * h->unit) : -1;
    }
    return -1;
}

bool rt_heap_take_at(struct rt_heap *h, uint64_t offset, uint64_t size)
{
    uint64_t at = offset / h->unit, n = (size + h->unit - 1) / h->unit;
    for (struct block *b = h->first; b && b->offset <= at; b = b->after)
        if (!b->live && at + n <= b->offset + b->size) return claim(h, b, at, n);
    return false;
}

/* b, free and in no bin, takes its right neighbour in. */
static void join_after(struct rt_heap *h, struct block *b)
{
    struct block *r = b->after;
    if (!r || r->live) return;
    bin_remove(h, r);
    b->size += r->size;
    b->after = r->after;
    if (b->after) b->after->before = b;
    free(r);
}

uint64_t rt_heap_give(struct rt_heap *h, uint64_t offset)
{
    struct block *b = offset % h->unit ? NULL : live_get(h, offset / h->unit);
    if (!b) return 0;
    uint64_t size = b->size * h->unit;
    live_remove(h, b);
    join_after(h, b);
    if (b->before && !b->before->live) {
        struct block *l = b->before;
        bin_remove(h, l);
        b->live = false;
        l->size += b->size;
        l->after = b->after;
        if (l->after) l->after->before = l;
        free(b);
        b = l;
    }
    bin_add(h, b);
    return size;
}

uint64_t rt_heap_size(const struct rt_heap *h, uint64_t offset)
{
    const struct block *b = offset % h->unit ? NULL : live_get(h, offset / h->unit);
    return b ? b->size * h->unit : 0;
}

int64_t rt_heap_find(const struct rt_heap *h, uint64_t offset)
{
    uint64_t at = offset / h->unit;
    for (const struct block *b = h->first; b && b->offset <= at; b = b->after)
        if (b->live && at < b->offset + b->size) return (int64_t)(b->offset * h->unit);
    return -1;
}

int64_t rt_heap_first(const struct rt_heap *h)
{
    const struct block *b = h->first;
    while (b && !b->live) b = b->after;
    return b ? (int64_t)(b->offset * h->unit) : -1;
}
