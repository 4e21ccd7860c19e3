/* order.h - stable order of rows: keys whose unsigned order is torch's order (NaN last, -0 equals 0), and
 * their sort. */
#ifndef SOFTNPU_OP_ORDER_H
#define SOFTNPU_OP_ORDER_H

#include "softnpu/op/op.h"

struct order_item {
    uint64_t key;
    int64_t index;
};

/* The type that rows of t are handled in: FLOAT, DOUBLE or INT64. */
aclDataType order_type(aclDataType t);
/* Fills n items from n values of type `as`, descending keys if asked for. Returns how many values are not
 * NaN. */
int64_t order_keys(struct order_item *item, const void *values, aclDataType as, int64_t n, bool descending);
/* Sorts by key, equal keys by index. spare: room for n items. The result is in item. */
void order_sort(struct order_item *item, struct order_item *spare, int64_t n);
/* The first k of n values in that order, in item; item and spare have room for n. */
void order_top(struct order_item *item, struct order_item *spare, const void *values, aclDataType as,
               int64_t n, int64_t k, bool descending);

#endif
