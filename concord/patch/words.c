/* words.c - three-way merge inside lines: every token becomes a line of its own, then contents are merged as
 * files are. */
#include "concord/patch/words.h"

#include <ctype.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* A word, a run of blanks, or one other character; a newline is written as \001. */
static size_t token_end(struct slice s, size_t i)
{
    size_t k = i + 1;
    if (is_word(s.ptr[i]))
        while (k < s.len && is_word(s.ptr[k])) k++;
    else if (s.ptr[i] == ' ')
        while (k < s.len && s.ptr[k] == ' ') k++;
    return k;
}

static void tokens(struct slice s, struct buf *out)
{
    for (size_t i = 0; i < s.len;) {
        size_t end = token_end(s, i);
        if (s.ptr[i] == '\n')
            buf_addc(out, '\001');
        else
            buf_add(out, s.ptr + i, end - i);
        buf_addc(out, '\n');
        i = end;
    }
}

static void untokens(struct slice s, struct buf *out)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\001')
            buf_addc(out, '\n');
        else if (s.ptr[i] != '\n')
            buf_addc(out, s.ptr[i]);
    }
}

int merge_words(struct slice old, struct slice new, struct slice mine, struct buf *out)
{
    struct buf a = BUF_INIT, b = BUF_INIT, c = BUF_INIT, merged = BUF_INIT;
    tokens(old, &a);
    tokens(new, &b);
    tokens(mine, &c);
    buf_clear(out);
    bool odd = slice_has(old, "\001") || slice_has(new, "\001") || slice_has(mine, "\001");
    int rc = odd || merge_three(slice_of(&a), slice_of(&b), slice_of(&c), &merged);
    if (!rc) untokens(slice_of(&merged), out);
    buf_free(&a);
    buf_free(&b);
    buf_free(&c);
    buf_free(&merged);
    return rc;
}
