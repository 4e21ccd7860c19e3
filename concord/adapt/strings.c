/* strings.c - the rules that look at strings and guards. */
#include "concord/adapt/private.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* "cuda", "cuda:1", "cuda:{rank}", "rank:0/cuda:0": where cuda stands, UINT32_MAX for other strings. */
static uint32_t device_in(const struct py_file *f, struct py_span at)
{
    const char *t = f->text + at.start;
    uint32_t n = at.end - at.start;
    if (n == 4 && !memcmp(t, "cuda", 4)) return at.start;
    if (memchr(t, ' ', n) || memchr(t, '\n', n)) return UINT32_MAX;
    for (uint32_t i = 0; i + 5 < n; i++)
        if (!memcmp(t + i, "cuda:", 5) && (is_digit(t[i + 5]) || t[i + 5] == '{') && (!i || t[i - 1] == '/'))
            return at.start + i;
    return UINT32_MAX;
}

/* An operand of == or !=: device-comparison looks at those. */
static bool is_compared(const struct py_file *f, struct py_span at)
{
    const char *t = f->text;
    uint32_t i = at.start - 1, k = at.end + 1;
    while (i && (t[i - 1] == ' ' || t[i - 1] == '(')) i--;
    while (k < f->len && (t[k] == ' ' || t[k] == ')')) k++;
    return (i >= 2 && t[i - 1] == '=' && (t[i - 2] == '=' || t[i - 2] == '!')) ||
           (k + 1 < f->len && t[k + 1] == '=' && (t[k] == '=' || t[k] == '!'));
}

bool rule_device_string(struct adapt_site *s)
{
    uint32_t at = device_in(s->f, s->string);
    if (at == UINT32_MAX || is_compared(s->f, s->string)) return false;
    adapt_edit_add(s, at, at + 4, xstrdup(s->o->device));
    return true;
}

static char *upper(const char *s)
{
    char *u = xstrdup(s);
    for (char *c = u; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    return u;
}

/* Has the decorator an edit of the guard or torch-cuda rule? */
static bool is_changed_guard(const struct adapt_site *s, struct py_span at)
{
    for (size_t i = 0; i < s->r->edits.len; i++) {
        const struct adapt_edit *d = &s->r->edits.ptr[i];
        if (d->start >= at.start && d->end <= at.end && (d->rule == RULE_guard || d->rule == RULE_torch_cuda))
            return true;
    }
    return false;
}

bool rule_guard_text(struct adapt_site *s)
{
    const struct py_decorator *k = decorator_around(s, s->string.start);
    const char *t = s->f->text;
    if (!k || !is_changed_guard(s, k->at)) return false;
    bool any = false;
    for (uint32_t i = s->string.start; i + 4 <= s->string.end; i++) {
        bool big = !memcmp(t + i, "CUDA", 4), small = !memcmp(t + i, "cuda", 4);
        if ((!big && !small) || is_letter(t[i - 1]) || (i + 4 < s->string.end && is_letter(t[i + 4])))
            continue;
        adapt_edit_add(s, i, i + 4, big ? upper(s->o->device) : xstrdup(s->o->device));
        any = true;
    }
    return any;
}

/* An expected text that prints a tensor without a device: what it will print is for a person to say. */
static void leave_printed_tensor(struct adapt_site *s)
{
    const struct py_file *f = s->f;
    if (!memmem(f->text + s->string.start, s->string.end - s->string.start, "tensor(", 7)) return;
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || r->args.start >= s->string.start || r->args.end <= s->string.end) continue;
        if (!str_starts(leaf_of(r->chain), "assertExpected")) continue;
        adapt_leave(s, r->at.row,
                    "the expected text prints a tensor: on the device it also prints device='%s:0'",
                    s->o->device);
        return;
    }
}

bool rule_expected_text(struct adapt_site *s)
{
    static const char *const before[] = {"device='", "device=\"", "device(type='", "device=device(type='"};
    const char *t = s->f->text;
    bool any = false;
    for (uint32_t i = s->string.start + 8; i + 4 <= s->string.end; i++) {
        if (memcmp(t + i, "cuda", 4) != 0) continue;
        bool printed = false;
        for (size_t b = 0; b < sizeof before / sizeof *before && !printed; b++) {
            size_t n = strlen(before[b]);
            printed = i - s->string.start >= n && !memcmp(t + i - n, before[b], n);
        }
        if (!printed) continue;
        adapt_edit_add(s, i, i + 4, xstrdup(s->o->device));
        any = true;
    }
    if (!any) leave_printed_tensor(s);
    return any;
}

/* ---- guards ------------------------------------------------------------------------------------------ */

/* A flag that says whether CUDA is there: torch.testing's own, or one that the file sets from torch.cuda. */
static bool is_cuda_flag(const struct adapt_site *s)
{
    static const char *const names[] = {"TEST_CUDA", "HAS_CUDA", "RUN_CUDA"};
    bool named = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) named |= !strcmp(s->ref->chain, names[i]);
    if (!named) return false;
    if (s->resolved && (str_ends(s->resolved, ".TEST_CUDA") || str_ends(s->resolved, ".HAS_CUDA")))
        return true;
    for (size_t i = 0; i < s->f->bindings.len; i++) {
        const struct py_binding *b = &s->f->bindings.ptr[i];
        if (b->scope || strcmp(b->name, s->ref->chain) != 0) continue;
        const char *is =
            memmem(s->f->text + b->at.start, b->at.end - b->at.start, "torch.cuda.is_available()", 25);
        if (is || b->kind == PYB_FROM) return true;
    }
    return false;
}

/* Where `name` stands in a from-import at the file's top, UINT32_MAX if it is imported in another way. */
static uint32_t imported_at(const struct py_file *f, const char *name)
{
    for (size_t i = 0; i < f->bindings.len; i++) {
        const struct py_binding *b = &f->bindings.ptr[i];
        if (b->scope || b->kind != PYB_FROM || strcmp(b->name, name) != 0) continue;
        size_t n = strlen(name);
        for (uint32_t at = b->at.start; at + n <= b->at.end; at++)
            if (!memcmp(f->text + at, name, n) && !is_letter(f->text[at - 1]) &&
                !is_letter(f->text[at + n]) && !is_digit(f->text[at + n]))
                return at;
    }
    return UINT32_MAX;
}

static bool is_imported_already(const struct adapt_site *s, const char *name)
{
    for (size_t i = 0; i < s->f->bindings.len; i++)
        if (!s->f->bindings.ptr[i].scope && !strcmp(s->f->bindings.ptr[i].name, name)) return true;
    for (size_t i = 0; i < s->r->edits.len; i++)
        if (s->r->edits.ptr[i].rule == RULE_guard && strstr(s->r->edits.ptr[i].with, name) &&
            s->r->edits.ptr[i].with[0] == ',')
            return true;
    return false;
}

/* @onlyCUDA: the decorator's sibling for the device, imported beside it. */
static bool change_only_cuda(struct adapt_site *s)
{
    const char *sibling = s->o->guard;
    if (strcmp(leaf_of(s->ref->chain), "onlyCUDA") != 0) return false;
    uint32_t at = strchr(s->ref->chain, '.') ? UINT32_MAX : imported_at(s->f, "onlyCUDA");
    if (at != UINT32_MAX && !is_imported_already(s, sibling))
        adapt_edit_add(s, at + 8, at + 8, xformat(", %s", sibling));
    adapt_edit_add(s, s->ref->at.end - 8, s->ref->at.end, xstrdup(sibling));
    return true;
}

bool rule_guard(struct adapt_site *s)
{
    if (!decorator_around(s, s->ref->at.start)) return false;
    if (change_only_cuda(s)) return true;
    if (s->shim || !is_cuda_flag(s)) return false;
    adapt_edit_add(s, s->ref->at.start, s->ref->at.end, xformat("torch.%s.is_available()", s->o->device));
    return true;
}
