/* names.c - file names as git writes them in headers. */
#include "concord/patch/names.h"

#include <string.h>

static int unquote_escape(struct slice name, size_t *i, struct buf *out)
{
    static const char from[] = "abtnvfr\"\\", to[] = "\a\b\t\n\v\f\r\"\\";
    char c = name.ptr[*i];
    const char *at = memchr(from, c, sizeof from - 1);
    if (at) {
        buf_addc(out, to[at - from]);
        return 0;
    }
    int value = 0;
    for (int k = 0; k < 3; k++, ++*i) {
        if (*i >= name.len || name.ptr[*i] < '0' || name.ptr[*i] > '7') return -1;
        value = value * 8 + (name.ptr[*i] - '0');
    }
    --*i;
    if (value == 0 || value > 255) return -1;
    buf_addc(out, value);
    return 0;
}

char *patch_unquote(struct slice name)
{
    if (!slice_starts(name, "\"")) return xstrndup(name.ptr, name.len);
    struct buf out = BUF_INIT;
    for (size_t i = 1; i < name.len; i++) {
        if (name.ptr[i] == '"' && i + 1 == name.len) return buf_take(&out);
        if (name.ptr[i] != '\\')
            buf_addc(&out, name.ptr[i]);
        else if (++i >= name.len || unquote_escape(name, &i, &out))
            break;
    }
    buf_free(&out);
    return NULL;
}

static struct slice skip_prefix(struct slice name)
{
    if (slice_starts(name, "a/") || slice_starts(name, "b/")) name.ptr += 2, name.len -= 2;
    return name;
}

/* Splits "a/x b/x". The blank is the one that leaves the same path on both sides; else the first before a b/.
 */
void split_git_names(struct patch_file *f, struct slice names)
{
    struct slice best = {0};
    for (size_t i = 1; i + 1 < names.len; i++) {
        if (names.ptr[i] != ' ') continue;
        struct slice a = {names.ptr, i}, b = {names.ptr + i + 1, names.len - i - 1};
        bool quoted = *b.ptr == '"';
        if (!best.len && (quoted || slice_starts(b, "b/"))) best = a;
        bool same_quoted = quoted && a.len == b.len && a.len > 3 && !memcmp(a.ptr + 3, b.ptr + 3, a.len - 3);
        if (slice_eq(skip_prefix(a), skip_prefix(b)) || same_quoted) {
            best = a;
            break;
        }
    }
    if (!best.len) return;
    f->git_old = best;
    f->git_new = (struct slice){best.ptr + best.len + 1, names.len - best.len - 1};
}

/* The name on a --- or +++ line: up to a tab, where a time stamp may follow. */
struct slice name_on(struct slice line)
{
    line.ptr += 4, line.len -= 4;
    const char *tab = memchr(line.ptr, '\t', line.len);
    if (tab) line.len = (size_t)(tab - line.ptr);
    return line;
}
