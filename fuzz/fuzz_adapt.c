/* fuzz_adapt.c - the rules on any text: what no edit names stays byte for byte, a file that parsed still
 * parses, adapting twice changes nothing; the tokens that replay judges by take any text too. */
#include "concord/adapt/adapt.h"
#include "concord/adapt/tokens.h"
#include "fuzz/fuzz.h"

static int by_place(const void *a, const void *b)
{
    const struct adapt_edit *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* The edits, laid over the text once more by other means, give the result. */
static void check_bytes(const struct py_file *f, struct adapt_result *r)
{
    uint32_t at = 0;
    size_t out = 0;
    struct adapt_edit *sorted = xcalloc(r->edits.len + 1, sizeof *sorted);
    if (r->edits.len) memcpy(sorted, r->edits.ptr, r->edits.len * sizeof *sorted);
    /* Insertions at one place keep their order: a stable sort. */
    for (size_t i = 1; i < r->edits.len; i++)
        for (size_t k = i; k && by_place(&sorted[k - 1], &sorted[k]) > 0; k--) {
            struct adapt_edit swap = sorted[k];
            sorted[k] = sorted[k - 1], sorted[k - 1] = swap;
        }
    for (size_t i = 0; i <= r->edits.len; i++) {
        uint32_t end = i < r->edits.len ? sorted[i].start : f->len;
        MUST(end >= at && out + (end - at) <= r->text.len);
        MUST(end == at || !memcmp(f->text + at, r->text.ptr + out, end - at));
        out += end - at;
        if (i == r->edits.len) break;
        size_t n = strlen(sorted[i].with);
        MUST(out + n <= r->text.len && (!n || !memcmp(sorted[i].with, r->text.ptr + out, n)));
        out += n, at = sorted[i].end;
    }
    MUST(out == r->text.len);
    free(sorted);
}

static size_t adapt_all(struct py_file *f, const struct adapt_options *o, struct adapt_result *r)
{
    VEC(const char *) tests = {0};
    struct err e = {""};
    for (uint32_t i = 1; i < f->scopes.len; i++)
        if (py_is_test(f, i)) *vec_push(&tests) = f->scopes.ptr[i].qualname;
    int rc = adapt_source(f, tests.ptr, tests.len, o, r, &e);
    vec_free(&tests);
    return rc ? SIZE_MAX : r->edits.len;
}

static void check_tokens(const char *text, size_t size)
{
    tokens a = {0};
    struct slice s = {text, size > 2000 ? 2000 : size};
    tokens_read(s, "npu", &a);
    uint32_t *to = xcalloc(a.len + 1, sizeof *to);
    if (tokens_align(&a, &a, to))
        for (size_t i = 0; i < a.len; i++) MUST(to[i] == i);
    tokens_drop_needless(&a, NULL, to, (struct needless){0});
    free(to);
    tokens_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct adapt_options o = adapt_defaults;
    o.style = (enum adapt_style)(data[0] % ADAPT_STYLES);
    o.place = (enum adapt_place)(data[0] / ADAPT_STYLES % ADAPT_PLACES);
    const char *text = (const char *)data + 1;
    struct py_file *f = py_parse("x.py", text, size - 1), *g;
    struct adapt_result r, again;
    if (adapt_all(f, &o, &r) != SIZE_MAX) {
        check_bytes(f, &r);
        g = py_parse("x.py", buf_str(&r.text), r.text.len);
        MUST(f->error_row || !g->error_row);
        size_t n = adapt_all(g, &o, &again);
        MUST(f->error_row || n == 0);
        adapt_result_free(&again);
        py_free(g);
    }
    adapt_result_free(&r);
    py_free(f);
    check_tokens(text, size - 1);
    return 0;
}
