/* securec.c - the bounded string functions that some wheels expect from the toolkit's libraries.
 *
 * Facts: public reference of the "secure C" library. Sizes are the destination's in bytes, the terminator
 * included. */
#include "softnpu/include/acl/acl_base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ACL_EXPORT int strcpy_s(char *dst, size_t size, const char *src);
ACL_EXPORT int vsnprintf_s(char *dst, size_t size, size_t count, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));
ACL_EXPORT int snprintf_s(char *dst, size_t size, size_t count, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

int strcpy_s(char *dst, size_t size, const char *src)
{
    if (!dst || !size) return EINVAL;
    size_t n = src ? strnlen(src, size) : size;
    if (n == size) {
        dst[0] = 0;
        return src ? ERANGE : EINVAL;
    }
    memcpy(dst, src, n + 1);
    return 0;
}

/* Characters written, or -1: bad arguments, or the text did not fit in count characters (what fits is kept).
 */
int vsnprintf_s(char *dst, size_t size, size_t count, const char *fmt, va_list ap)
{
    if (!dst || !size || !fmt || (count >= size && count != (size_t)-1)) {
        if (dst && size) dst[0] = 0;
        return -1;
    }
    size_t room = count < size ? count + 1 : size;
    int n = vsnprintf(dst, room, fmt, ap);
    return n < 0 || (size_t)n >= room ? -1 : n;
}

int snprintf_s(char *dst, size_t size, size_t count, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf_s(dst, size, count, fmt, ap);
    va_end(ap);
    return n;
}
