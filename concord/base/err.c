/* err.c - the one-line error and the allocations that end the program when memory is out. */
#include "concord/base/base.h"

#include <stdlib.h>
#include <string.h>

int err_set(struct err *e, const char *fmt, ...)
{
    if (!e) return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e) return -1;
    struct buf b = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    buf_addf(&b, ": %s", e->text);
    snprintf(e->text, sizeof e->text, "%.*s", (int)(sizeof e->text - 1), b.ptr);
    buf_free(&b);
    return -1;
}

int err_report(const struct err *e)
{
    fflush(stdout);
    fprintf(stderr, "concord: %s\n", e->text);
    return EXIT_USAGE;
}

void die(const char *fmt, ...)
{
    struct err e;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    exit(err_report(&e));
}

static void *checked(void *p, size_t n)
{
    if (!p) die("out of memory (%zu bytes wanted)", n);
    return p;
}

/* A request for 0 bytes still gives a pointer that free() takes. */
void *xmalloc(size_t n)
{
    return checked(malloc(n ? n : 1), n);
}

void *xcalloc(size_t n, size_t size)
{
    return checked(calloc(n ? n : 1, size ? size : 1), n * size);
}

void *xrealloc(void *p, size_t n)
{
    return checked(realloc(p, n ? n : 1), n);
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
    n = strnlen(s, n);
    char *copy = xmalloc(n + 1);
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *xformat(const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    return buf_take(&b);
}
