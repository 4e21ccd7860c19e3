/* str.c - prefixes, the nearest name for "did you mean", version order. */
#include "concord/base/base.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool str_starts(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && !memcmp(s + n - k, suffix, k);
}

enum { MAX_WORD = 128 }; /* longer words get no suggestion */

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap of neighbours) from a to b; both shorter than MAX_WORD. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    size_t rows[3][MAX_WORD + 1];
    size_t *two_up = rows[0], *up = rows[1], *row = rows[2];
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *spare = two_up;
        two_up = up, up = row, row = spare;
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && two_up[j - 2] + 1 < row[j]) row[j] = two_up[j - 2] + 1;
        }
    }
    return row[nb];
}

const char *str_nearest(const char *word, const char *const *candidates, size_t n)
{
    size_t len = strlen(word);
    if (len > MAX_WORD) return NULL;
    const char *best = NULL;
    size_t limit = len < 3 ? 1 : len / 3;
    for (size_t i = 0; i < n; i++) {
        if (!candidates[i] || strlen(candidates[i]) > MAX_WORD) continue;
        size_t d = edit_distance(word, candidates[i]);
        if (d > limit || (best && d == limit)) continue;
        best = candidates[i];
        limit = d;
    }
    return best;
}

/* A version is read as runs of digits and runs of letters. Words order around the end of the string as PEP
 * 440 has it: dev < a < b < rc < (end) < post, and any word comes before a further number. */
struct token {
    enum { TOKEN_WORD, TOKEN_END, TOKEN_NUMBER } kind;
    unsigned long long number; /* TOKEN_NUMBER's value, or the rank of a word */
    const char *text;
    size_t len;
};

static const char *const before_end[] = {"dev", "a", "alpha", "b", "beta", "c", "rc"};
enum { NBEFORE = sizeof before_end / sizeof *before_end, RANK_END = NBEFORE, RANK_POST };

static unsigned long long word_rank(const char *s, size_t n)
{
    for (unsigned i = 0; i < NBEFORE; i++)
        if (strlen(before_end[i]) == n && !memcmp(s, before_end[i], n)) return i;
    return RANK_POST;
}

static struct token next_token(const char **s)
{
    while (**s && !isalnum((unsigned char)**s)) ++*s;
    struct token t = {.kind = TOKEN_END, .text = *s};
    if (isdigit((unsigned char)**s)) {
        char *end;
        t.kind = TOKEN_NUMBER;
        t.number = strtoull(*s, &end, 10);
        *s = end;
    } else if (**s) {
        while (isalpha((unsigned char)**s)) ++*s;
        t.kind = TOKEN_WORD;
        t.number = word_rank(t.text, (size_t)(*s - t.text));
    }
    t.len = (size_t)(*s - t.text);
    return t;
}

static int order(unsigned long long a, unsigned long long b)
{
    return (a > b) - (a < b);
}

static int token_compare(const struct token *a, const struct token *b)
{
    bool wa = a->kind == TOKEN_WORD, wb = b->kind == TOKEN_WORD;
    if (wa && wb) {
        int c = order(a->number, b->number);
        if (c) return c;
        c = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
        return c ? c : order(a->len, b->len);
    }
    if (wa || wb) {
        const struct token *other = wa ? b : a;
        int c = other->kind == TOKEN_NUMBER ? -1 : order(wa ? a->number : b->number, RANK_END);
        return wa ? c : -c;
    }
    return order(a->number, b->number); /* the end counts as 0: "2.10" is "2.10.0" */
}

int version_compare(const char *a, const char *b)
{
    for (;;) {
        struct token ta = next_token(&a), tb = next_token(&b);
        if (ta.kind == TOKEN_END && tb.kind == TOKEN_END) return 0;
        int c = token_compare(&ta, &tb);
        if (c) return c < 0 ? -1 : 1;
    }
}
