/* soc.c - the processors' facts. Core counts and memory sizes: public specifications of the Atlas A2 and A3
 * products; those of the 910_93 are inferred from the product classes. */
#include "softnpu/runtime/soc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)

static const struct soc rows[] = {
    {"Ascend910B4", 20, 40, 32 * GIB},    {"Ascend910B1", 24, 48, 64 * GIB},
    {"Ascend910B2", 24, 48, 64 * GIB},    {"Ascend910B2C", 24, 48, 64 * GIB},
    {"Ascend910B3", 20, 40, 64 * GIB},    {"Ascend910B4-1", 20, 40, 64 * GIB},
    {"Ascend910_9391", 24, 48, 64 * GIB}, {"Ascend910_9392", 24, 48, 64 * GIB},
    {"Ascend910_9381", 24, 48, 64 * GIB}, {"Ascend910_9382", 24, 48, 64 * GIB},
    {"Ascend910_9372", 20, 40, 64 * GIB}, {"Ascend910_9362", 20, 40, 64 * GIB},
};
enum { NROWS = sizeof rows / sizeof *rows };

const struct soc *soc_find(const char *name)
{
    if (!name || !*name) return rows;
    for (int i = 0; i < NROWS; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

const char *soc_names(char *out, int size)
{
    int at = 0;
    for (int i = 0; i < NROWS && at < size; i++)
        at += snprintf(out + at, (size_t)(size - at), "%s%s", i ? ", " : "", rows[i].name);
    return out;
}

int soc_visible(const char *list, int n, int out[RT_MAX_DEVICES])
{
    int count = 0;
    bool seen[RT_MAX_DEVICES] = {false};
    if (!list) {
        for (; count < n; count++) out[count] = count;
        return count;
    }
    for (const char *p = list; *p >= '0' && *p <= '9';) {
        char *end;
        long d = strtol(p, &end, 10);
        if (d >= n) break;
        if (seen[d]) return -1;
        seen[d] = true;
        out[count++] = (int)d;
        if (*end != ',') break;
        p = end + 1;
    }
    return count ? count : -1;
}
