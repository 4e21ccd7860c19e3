/* order.c - radix sort of (key, index) pairs. */
#include "softnpu/op/order.h"

#include <string.h>

aclDataType order_type(aclDataType t)
{
    if (!sn_is_float(t)) return ACL_INT64;
    return sn_compute(t) == ACL_DOUBLE ? ACL_DOUBLE : ACL_FLOAT;
}

/* Positive numbers above negative ones, these reversed; every NaN at the top. */
static uint64_t key_f32(float v)
{
    uint32_t bits;
    v += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &v, sizeof bits);
    if (v != v) return UINT32_MAX;
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static uint64_t key_f64(double v)
{
    uint64_t bits;
    v += 0.0;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) return UINT64_MAX;
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t key_i64(int64_t v)
{
    return (uint64_t)v ^ UINT64_C(1) << 63;
}

static uint64_t key_of(const void *values, aclDataType as, int64_t i)
{
    return as == ACL_FLOAT    ? key_f32(((const float *)values)[i])
           : as == ACL_DOUBLE ? key_f64(((const double *)values)[i])
                              : key_i64(((const int64_t *)values)[i]);
}

int64_t order_keys(struct order_item *item, const void *values, aclDataType as, int64_t n, bool descending)
{
    uint64_t nan = as == ACL_FLOAT ? UINT32_MAX : UINT64_MAX, flip = descending ? nan : 0;
    int64_t numbers = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = key_of(values, as, i);
        numbers += as == ACL_INT64 || key != nan;
        item[i] = (struct order_item){key ^ flip, i};
    }
    return numbers;
}

static bool later(const struct order_item *a, const struct order_item *b)
{
    return a->key > b->key || (a->key == b->key && a->index > b->index);
}

/* heap[0] is the last in order of its n items. */
static void sift(struct order_item *heap, int64_t n, int64_t i)
{
    struct order_item v = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && later(&heap[child + 1], &heap[child])) child++;
        if (!later(&heap[child], &v)) break;
        heap[i] = heap[child];
    }
    heap[i] = v;
}

/* A heap of the first k so far; most items are turned away by one comparison with its last. */
static void heap_top(struct order_item *top, const void *values, aclDataType as, int64_t n, int64_t k,
                     bool descending)
{
    uint64_t flip = !descending ? 0 : as == ACL_FLOAT ? UINT32_MAX : UINT64_MAX;
    for (int64_t i = 0; i < k; i++) top[i] = (struct order_item){key_of(values, as, i) ^ flip, i};
    for (int64_t i = k / 2; i-- > 0;) sift(top, k, i);
    for (int64_t i = k; i < n; i++) {
        uint64_t key = key_of(values, as, i) ^ flip;
        if (key >= top[0].key) continue;
        top[0] = (struct order_item){key, i};
        sift(top, k, 0);
    }
}

static void insertion_sort(struct order_item *item, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct order_item v = item[i];
        int64_t j = i;
        for (; j && item[j - 1].key > v.key; j--) item[j] = item[j - 1];
        item[j] = v;
    }
}

enum { HEAP_PART = 8 }; /* for more than this part of a row, sorting it whole is as quick */
enum { DIGITS = 8, RADIX = 256, SHORT = 48, FEW = 4 * RADIX };

static void merge_sort(struct order_item *item, struct order_item *spare, int64_t n)
{
    if (n <= SHORT) {
        insertion_sort(item, n);
        return;
    }
    int64_t half = n / 2, a = 0, b = half, to = 0;
    merge_sort(item, spare, half);
    merge_sort(item + half, spare + half, n - half);
    memcpy(spare, item, (size_t)n * sizeof *item);
    while (a < half && b < n) item[to++] = spare[b].key < spare[a].key ? spare[b++] : spare[a++];
    while (a < half) item[to++] = spare[a++];
    while (b < n) item[to++] = spare[b++];
}

void order_sort(struct order_item *item, struct order_item *spare, int64_t n)
{
    if (n < FEW) {
        merge_sort(item, spare, n);
        return;
    }
    int64_t count[DIGITS][RADIX] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++) count[d][item[i].key >> 8 * d & 255]++;
    struct order_item *from = item, *to = spare;
    for (int d = 0; d < DIGITS; d++) {
        if (count[d][from[0].key >> 8 * d & 255] == n) continue; /* all the same */
        int64_t at = 0;
        for (int v = 0; v < RADIX; v++) {
            int64_t here = count[d][v];
            count[d][v] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++) to[count[d][from[i].key >> 8 * d & 255]++] = from[i];
        struct order_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != item) memcpy(item, from, (size_t)n * sizeof *item);
}

void order_top(struct order_item *item, struct order_item *spare, const void *values, aclDataType as,
               int64_t n, int64_t k, bool descending)
{
    if (k == 0) return;
    if (k <= n / HEAP_PART) {
        heap_top(item, values, as, n, k, descending);
        for (int64_t m = k; m-- > 1;) {
            struct order_item last = item[0];
            item[0] = item[m], item[m] = last;
            sift(item, m, 0);
        }
        return;
    }
    order_keys(item, values, as, n, descending);
    order_sort(item, spare, n);
}
