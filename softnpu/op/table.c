/* table.c - all families' rows in one table, by index and by name. */
#include "softnpu/op/op.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FAMILY(name) extern const op_row *const op_rows_##name[];
#include "softnpu/op/families.inc"
#undef FAMILY

#define FAMILY(name) op_rows_##name,
static const op_row *const *const families[] = {
#include "softnpu/op/families.inc"
    NULL};
#undef FAMILY

static struct {
    pthread_once_t once;
    const op_row **row; /* sorted by name */
    int n;
} table = {.once = PTHREAD_ONCE_INIT};

static int by_name(const void *a, const void *b)
{
    const op_row *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void build(void)
{
    int n = 0;
    for (int f = 0; families[f]; f++)
        for (int i = 0; families[f][i]; i++) n++;
    table.row = malloc((size_t)(n + 1) * sizeof *table.row);
    if (!table.row) abort();
    for (int f = 0; families[f]; f++)
        for (int i = 0; families[f][i]; i++) table.row[table.n++] = families[f][i];
    qsort(table.row, (size_t)n, sizeof *table.row, by_name);
}

int op_count(void)
{
    pthread_once(&table.once, build);
    return table.n;
}

const op_row *op_at(int i)
{
    return i >= 0 && i < op_count() ? table.row[i] : NULL;
}

const op_row *op_find(const char *name)
{
    int n = op_count();
    const op_row key = {.name = name}, *at = &key;
    const op_row *const *hit = bsearch(&at, table.row, (size_t)n, sizeof *table.row, by_name);
    return hit ? *hit : NULL;
}

uint64_t op_launches(const op_row *row)
{
    return __atomic_load_n(row->launches, __ATOMIC_RELAXED);
}

uint64_t op_launches_total(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < op_count(); i++) sum += op_launches(table.row[i]);
    return sum;
}
