/* buf.c - growable bytes and the growth step of VEC. */
#include "concord/base/base.h"

#include <stdlib.h>
#include <string.h>

void buf_reserve(struct buf *b, size_t extra)
{
    if (extra > SIZE_MAX / 2 - b->len - 1) die("out of memory (%zu bytes wanted)", extra);
    size_t need = b->len + extra + 1;
    if (need <= b->cap) return;
    size_t cap = b->cap ? b->cap : 32;
    while (cap < need) cap *= 2;
    b->ptr = xrealloc(b->ptr, cap);
    b->cap = cap;
    b->ptr[b->len] = '\0';
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    buf_reserve(b, n);
    if (n) memcpy(b->ptr + b->len, p, n);
    b->len += n;
    b->ptr[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, int c)
{
    char byte = (char)c;
    buf_add(b, &byte, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(b, fmt, ap);
    va_end(ap);
}

void buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) die("cannot format '%s'", fmt);
    buf_reserve(b, (size_t)n);
    vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->ptr) b->ptr[0] = '\0';
}

void buf_free(struct buf *b)
{
    free(b->ptr);
    *b = BUF_INIT;
}

const char *buf_str(const struct buf *b)
{
    return b->ptr ? b->ptr : "";
}

char *buf_take(struct buf *b)
{
    char *p = b->ptr ? b->ptr : xstrdup("");
    *b = BUF_INIT;
    return p;
}

void vec_grow_(void **ptr, size_t *len, size_t *cap, size_t size)
{
    if (*len == *cap) {
        size_t n = *cap ? *cap * 2 : 8;
        if (n > SIZE_MAX / size) die("out of memory (%zu elements wanted)", n);
        *ptr = xrealloc(*ptr, n * size);
        *cap = n;
    }
    memset((char *)*ptr + *len * size, 0, size);
    ++*len;
}
