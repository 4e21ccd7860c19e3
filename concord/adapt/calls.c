/* calls.c - call arguments and method chains as text. */
#include "concord/adapt/private.h"

#include <stdlib.h>
#include <string.h>

static uint32_t skip_string(const char *t, uint32_t i, uint32_t end)
{
    char q = t[i];
    bool triple = i + 2 < end && t[i + 1] == q && t[i + 2] == q;
    for (i += triple ? 3 : 1; i < end; i++) {
        if (t[i] == '\\')
            i++;
        else if (t[i] == q && (!triple || (i + 2 < end && t[i + 1] == q && t[i + 2] == q)))
            return i + (triple ? 3 : 1);
    }
    return end;
}

static uint32_t skip_plain(const char *t, uint32_t i, uint32_t end)
{
    if (t[i] == '"' || t[i] == '\'') return skip_string(t, i, end);
    if (t[i] != '#') return i + 1;
    while (i < end && t[i] != '\n') i++;
    return i;
}

bool next_string(const struct py_file *f, uint32_t *at, uint32_t end, struct py_span *out)
{
    const char *t = f->text;
    while (*at < end) {
        uint32_t i = *at;
        *at = skip_plain(t, i, end);
        if (t[i] != '"' && t[i] != '\'') continue;
        uint32_t n = i + 2 < end && t[i + 1] == t[i] && t[i + 2] == t[i] ? 3 : 1;
        if (*at < i + 2 * n) continue; /* cut off by the end */
        *out = (struct py_span){i + n, *at - n, 0};
        return true;
    }
    return false;
}

/* The byte after the token at i: strings, comments and brackets with their contents are one. */
static uint32_t skip_token(const char *t, uint32_t i, uint32_t end)
{
    uint32_t depth = 0;
    do {
        depth += t[i] == '(' || t[i] == '[' || t[i] == '{';
        depth -= depth && (t[i] == ')' || t[i] == ']' || t[i] == '}');
        i = skip_plain(t, i, end);
    } while (depth && i < end);
    return i < end ? i : end;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\\';
}
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static uint32_t skip_blank(const char *t, uint32_t i, uint32_t end)
{
    while (i < end && (is_space(t[i]) || t[i] == '#')) i = t[i] == '#' ? skip_token(t, i, end) : i + 1;
    return i;
}

static void add_arg(const char *t, uint32_t start, uint32_t last, call_args *out)
{
    if (last <= start) return; /* behind a trailing comma */
    struct call_arg *a = vec_push(out);
    *a = (struct call_arg){start, last, start, 0};
    uint32_t i = start;
    while (i < last && is_word(t[i])) i++;
    uint32_t word = i - start;
    i = skip_blank(t, i, last);
    if (!word || i + 1 >= last || t[i] != '=' || t[i + 1] == '=') return;
    a->name_len = word;
    a->value = skip_blank(t, i + 1, last);
}

void call_split(const struct py_file *f, struct py_span args, call_args *out)
{
    const char *t = f->text;
    out->len = 0;
    if (args.end < args.start + 2 || t[args.start] != '(')
        return; /* f(x for x in y) has no parentheses of its own */
    uint32_t end = args.end - 1, start = skip_blank(t, args.start + 1, end), last = start;
    for (uint32_t i = start; i < end;) {
        if (t[i] == ',') {
            add_arg(t, start, last, out);
            i = start = last = skip_blank(t, i + 1, end);
            continue;
        }
        bool counts = !is_space(t[i]) && t[i] != '#';
        i = skip_token(t, i, end);
        if (counts) last = i;
    }
    add_arg(t, start, last, out);
}

const struct call_arg *call_keyword(const struct py_file *f, const call_args *a, const char *name)
{
    for (size_t i = 0; i < a->len; i++)
        if (a->ptr[i].name_len && text_is(f, a->ptr[i].start, a->ptr[i].start + a->ptr[i].name_len, name))
            return &a->ptr[i];
    return NULL;
}

bool call_has_splat(const struct py_file *f, const call_args *a)
{
    for (size_t i = 0; i < a->len; i++)
        if (f->text[a->ptr[i].start] == '*' && f->text[a->ptr[i].start + 1] == '*') return true;
    return false;
}

const char *leaf_of(const char *chain)
{
    const char *dot = strrchr(chain, '.');
    return dot ? dot + 1 : chain;
}

bool text_is(const struct py_file *f, uint32_t start, uint32_t end, const char *s)
{
    return strlen(s) == end - start && !memcmp(f->text + start, s, end - start);
}

bool moves_to_device(const struct py_file *f, struct py_span args)
{
    call_args a = {0};
    call_split(f, args, &a);
    bool device = call_keyword(f, &a, "device") != NULL;
    for (size_t i = 0; i < a.len && !device; i++) {
        const char *t = f->text + a.ptr[i].start;
        device = !a.ptr[i].name_len && (strncmp(t, "torch.", 6) != 0 || !strncmp(t, "torch.device", 12)) &&
                 !strstr((char[]){*t, 0}, "*");
    }
    vec_free(&a);
    return device;
}

static bool one_of(const char *word, uint32_t n, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == n && !memcmp(*names, word, n)) return true;
    return false;
}

enum chained chained_after(const struct py_file *f, uint32_t end, const char *device)
{
    const char *const moves[] = {device, "cuda", "cpu", "xpu", "mps", NULL};
    static const char *const values[] = {"item",          "tolist", "numpy",  "shape", "size",
                                         "dim",           "ndim",   "dtype",  "numel", "stride",
                                         "is_contiguous", "device", "layout", NULL};
    const char *t = f->text;
    for (uint32_t i = end;;) {
        while (i < f->len && is_space(t[i])) i++;
        if (i >= f->len || t[i] != '.') return CHAINED_NOTHING;
        uint32_t word = ++i;
        while (i < f->len && is_word(t[i])) i++;
        uint32_t n = i - word;
        if (one_of(t + word, n, moves)) return CHAINED_MOVE;
        if (one_of(t + word, n, values)) return CHAINED_VALUE;
        if (i >= f->len || t[i] != '(') continue;
        uint32_t close = skip_token(t, i, f->len);
        if (n == 2 && !memcmp(t + word, "to", 2) && moves_to_device(f, (struct py_span){i, close, 0}))
            return CHAINED_MOVE;
        i = close;
    }
}
