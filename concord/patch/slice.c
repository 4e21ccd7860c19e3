/* slice.c - bytes that somebody else owns. */
#include "concord/patch/patch.h"

#include <string.h>

struct slice slice_of(const struct buf *b)
{
    return (struct slice){buf_str(b), b->len};
}

struct slice slice_str(const char *s)
{
    return (struct slice){s, strlen(s)};
}

bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (!a.len || !memcmp(a.ptr, b.ptr, a.len));
}

bool slice_starts(struct slice a, const char *prefix)
{
    size_t n = strlen(prefix);
    return a.len >= n && !memcmp(a.ptr, prefix, n);
}

bool slice_ends(struct slice a, const char *suffix)
{
    size_t n = strlen(suffix);
    return a.len >= n && !memcmp(a.ptr + a.len - n, suffix, n);
}

bool slice_has(struct slice a, const char *needle)
{
    return a.len && memmem(a.ptr, a.len, needle, strlen(needle)) != NULL;
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

struct slice slice_trim(struct slice a)
{
    while (a.len && is_white(*a.ptr)) a.ptr++, a.len--;
    while (a.len && is_white(a.ptr[a.len - 1])) a.len--;
    return a;
}

bool slice_blank(struct slice a)
{
    return slice_trim(a).len == 0;
}

uint64_t slice_hash(struct slice a, uint64_t h)
{
    for (size_t i = 0; i < a.len; i++) h = (h ^ (unsigned char)a.ptr[i]) * 1099511628211u;
    return h;
}
