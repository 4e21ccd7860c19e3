/* textlines.c - a file's contents as lines. */
#include "concord/patch/textlines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void textlines_of(struct textlines *t, struct slice text)
{
    *t = (struct textlines){0};
    for (size_t off = 0; off < text.len;) {
        const char *nl = memchr(text.ptr + off, '\n', text.len - off);
        size_t len = nl ? (size_t)(nl - text.ptr) - off : text.len - off;
        *vec_push(&t->v) = (struct slice){text.ptr + off, len};
        t->unterminated = !nl;
        off += len + 1;
    }
}

void textlines_free(struct textlines *t)
{
    vec_free(&t->v);
}

void textlines_add(const struct textlines *t, size_t from, size_t to, const char *prefix, struct buf *out)
{
    for (size_t i = from; i < to; i++) {
        bool last = i + 1 == t->v.len && t->unterminated;
        buf_adds(out, prefix);
        buf_add(out, t->v.ptr[i].ptr, t->v.ptr[i].len);
        if (!last || *prefix) buf_addc(out, '\n');
        if (last && *prefix) buf_adds(out, "\\ No newline at end of file\n");
    }
}

/* git's default: the nearest line before the hunk that starts with a letter, _ or $; at most 80 bytes. */
void textlines_section(const struct textlines *t, size_t line, struct buf *out)
{
    for (size_t i = line; i-- > 0;) {
        struct slice s = t->v.ptr[i];
        if (!s.len || !(isalpha((unsigned char)*s.ptr) || *s.ptr == '_' || *s.ptr == '$')) continue;
        if (s.len > 80) s.len = 80;
        while (s.len && isspace((unsigned char)s.ptr[s.len - 1])) s.len--;
        buf_addc(out, ' ');
        buf_add(out, s.ptr, s.len);
        return;
    }
}
