/* rules_tests.c - meaning: does the test still test what upstream's does? */
#include "concord/audit/audit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- assertions -------------------------------------------------------------------------------------- */

static bool is_assertion(const struct vline *l)
{
    if (!vline_code(l)) return false;
    struct slice c = slice_trim(l->code);
    return slice_starts(c, "assert ") || slice_starts(c, "assert(") || slice_has(c, "self.assert") ||
           slice_has(c, "assert_close(") || slice_has(c, "assert_allclose(") || slice_has(c, "FileCheck()");
}

/* Only what a hunk shows is counted: an assertion that moves within it stays. */
void rule_assertion_removed(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (uint32_t i = 0; i < v->lines.len;) {
        uint32_t hunk = v->lines.ptr[i].hunk, first = UINT32_MAX;
        int balance = 0;
        bool test_goes = false;
        for (; i < v->lines.len && v->lines.ptr[i].hunk == hunk; i++) {
            const struct vline *l = &v->lines.ptr[i];
            test_goes |= vline_removed(l) && vline_code(l) && slice_starts(slice_trim(l->code), "def test");
            if (l->kind == LINE_CONTEXT || !is_assertion(l)) continue;
            balance += vline_removed(l) ? 1 : -1;
            if (vline_removed(l) && first == UINT32_MAX) first = i;
        }
        if (balance > 0 && !test_goes)
            rule_report(rule, v, out, &v->lines.ptr[first],
                        "the hunk removes %d assertion%s without putting one in its place", balance,
                        balance > 1 ? "s" : "");
    }
}

/* ---- tests removed ----------------------------------------------------------------------------------- */

/* The name that "def test..." or "class Test..." or a class of tests defines; empty otherwise. */
static struct slice defined_test(const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    if (!vline_code(l)) return (struct slice){"", 0};
    bool class = slice_starts(c, "class ");
    size_t skip = class ? 6 : slice_starts(c, "def ") ? 4 : slice_starts(c, "async def ") ? 10 : 0;
    if (!skip) return (struct slice){"", 0};
    c.ptr += skip, c.len -= skip;
    size_t n = 0;
    while (n < c.len && (isalnum((unsigned char)c.ptr[n]) || c.ptr[n] == '_')) n++;
    struct slice name = {c.ptr, n};
    bool test = class ? slice_has(name, "Test") || slice_has(c, "TestCase") : slice_starts(name, "test");
    return test ? name : (struct slice){"", 0};
}

/* The tests that lines of one kind define, by name. */
static void tests_defined(const struct view *v, uint8_t kind, struct map *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        struct slice name =
            v->lines.ptr[i].kind == kind ? defined_test(&v->lines.ptr[i]) : (struct slice){"", 0};
        char *key = xstrndup(name.ptr, name.len);
        if (name.len) map_put(out, key);
        free(key);
    }
}

static bool has_name(const struct map *m, struct slice name)
{
    char *key = xstrndup(name.ptr, name.len);
    bool has = map_has(m, key);
    free(key);
    return has;
}

/* The new tests of a block at one indent: with only one, a removed test of that indent has become it. */
struct newcomer {
    uint32_t indent, count;
    struct slice name;
};
struct newcomers {
    VEC(struct newcomer) list;
};

static struct newcomer *at_indent(struct newcomers *n, uint32_t indent)
{
    for (size_t i = 0; i < n->list.len; i++)
        if (n->list.ptr[i].indent == indent) return &n->list.ptr[i];
    return NULL;
}

static void find_newcomers(const struct view *v, const struct block *b, const struct map *removed,
                           struct newcomers *out)
{
    out->list.len = 0;
    for (uint32_t i = b->first; i < b->end; i++) {
        const struct vline *l = &v->lines.ptr[i];
        struct slice name = vline_added(l) ? defined_test(l) : (struct slice){"", 0};
        if (!name.len || has_name(removed, name)) continue;
        struct newcomer *n = at_indent(out, l->indent);
        if (n)
            n->count++;
        else
            *vec_push(&out->list) = (struct newcomer){l->indent, 1, name};
    }
}

static void tests_gone(const struct rule *rule, const struct view *v, const struct block *b,
                       const struct map *added, struct newcomers *fresh, struct findings *out)
{
    for (uint32_t i = b->first; i < b->end; i++) {
        const struct vline *l = &v->lines.ptr[i];
        struct slice name = vline_removed(l) ? defined_test(l) : (struct slice){"", 0};
        if (!name.len || has_name(added, name)) continue;
        const struct newcomer *n = at_indent(fresh, l->indent);
        if (n && n->count == 1)
            rule_report(rule, v, out, l, "%.*s is renamed to %.*s", SLICE_FMT(name), SLICE_FMT(n->name));
        else
            rule_report(rule, v, out, l, "%.*s is removed", SLICE_FMT(name));
    }
}

void rule_test_removed(const struct rule *rule, const struct view *v, struct findings *out)
{
    struct map added = {0}, removed = {0};
    struct newcomers fresh = {0};
    tests_defined(v, LINE_DEL, &removed);
    if (removed.entries.len) tests_defined(v, LINE_ADD, &added);
    for (size_t n = 0; n < v->blocks.len && removed.entries.len; n++) {
        find_newcomers(v, &v->blocks.ptr[n], &removed, &fresh);
        tests_gone(rule, v, &v->blocks.ptr[n], &added, &fresh, out);
    }
    map_free(&added, NULL);
    map_free(&removed, NULL);
    vec_free(&fresh.list);
}

/* ---- unreached --------------------------------------------------------------------------------------- */

static uint32_t next_new(const struct view *v, uint32_t i)
{
    uint32_t hunk = v->lines.ptr[i].hunk;
    for (i++; i < v->lines.len && v->lines.ptr[i].hunk == hunk; i++)
        if (!vline_removed(&v->lines.ptr[i]) && vline_code(&v->lines.ptr[i])) return i;
    return UINT32_MAX;
}

static struct slice last_new(const struct view *v, uint32_t i)
{
    uint32_t hunk = v->lines.ptr[i].hunk;
    while (i-- > 0 && v->lines.ptr[i].hunk == hunk)
        if (!vline_removed(&v->lines.ptr[i]) && vline_code(&v->lines.ptr[i]))
            return slice_trim(v->lines.ptr[i].code);
    return (struct slice){"", 0};
}

/* An added bare return (or a constant false condition) with upstream's code at the same indent after it. A
 * line that goes on from the one before, or a label such as an else after it, is none. */
void rule_test_unreachable(const struct rule *rule, const struct view *v, struct findings *out)
{
    static const char *const never[] = {"if False:", "if 0:", "while False:"};
    for (uint32_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !vline_code(l)) continue;
        struct slice c = slice_trim(l->code);
        bool dead = false;
        for (size_t k = 0; k < 3; k++) dead |= slice_eq(c, slice_str(never[k]));
        uint32_t next = next_new(v, i);
        bool returns = slice_eq(c, slice_str("return")) || slice_eq(c, slice_str("return None"));
        struct slice before = last_new(v, i);
        bool goes_on = slice_ends(before, ",") || slice_ends(before, "(") || slice_ends(before, "\\");
        if (returns && !goes_on && next != UINT32_MAX && v->lines.ptr[next].indent == l->indent &&
            !slice_starts(slice_trim(v->lines.ptr[next].code), ")"))
            dead = true;
        if (dead) rule_report(rule, v, out, l, "'%.*s': what follows is never reached", SLICE_FMT(c));
    }
}

void rule_body_vacuous(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t n = 0; n < v->blocks.len; n++) {
        const struct block *b = &v->blocks.ptr[n];
        uint32_t removed = 0, added = 0, pass = UINT32_MAX;
        for (uint32_t i = b->first; i < b->end; i++) {
            const struct vline *l = &v->lines.ptr[i];
            if (!vline_code(l)) continue;
            struct slice c = slice_trim(l->code);
            bool is_pass = slice_eq(c, slice_str("pass")) || slice_eq(c, slice_str("..."));
            if (vline_removed(l))
                removed += !is_pass;
            else if (is_pass)
                pass = i;
            else
                added++;
        }
        if (pass != UINT32_MAX && removed && !added)
            rule_report(rule, v, out, &v->lines.ptr[pass], "%u lines of code become pass", removed);
    }
}

void rule_exception_swallowed(const struct rule *rule, const struct view *v, struct findings *out)
{
    static const char *const broad[] = {"except:", "except Exception:", "except BaseException:",
                                        "except Exception as ", "except BaseException as "};
    for (uint32_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !vline_code(l)) continue;
        struct slice c = slice_trim(l->code);
        bool catches = false;
        for (size_t k = 0; k < sizeof broad / sizeof *broad; k++) catches |= slice_starts(c, broad[k]);
        uint32_t next = catches ? next_new(v, i) : UINT32_MAX;
        bool inline_pass = catches && slice_ends(c, ": pass");
        if (inline_pass ||
            (next != UINT32_MAX && slice_eq(slice_trim(v->lines.ptr[next].code), slice_str("pass"))))
            rule_report(rule, v, out, l, "'%.*s' with nothing but pass", SLICE_FMT(c));
    }
}

/* ---- skips ------------------------------------------------------------------------------------------- */

static bool is_word_end(char c)
{
    return !isalnum((unsigned char)c) && c != '_';
}

/* "@unittest.skip", "@skip", "self.skipTest", "raise unittest.SkipTest", "pytest.mark.skip": position behind
 * the name. */
static size_t skip_name_end(struct slice c)
{
    static const char *const names[] = {
        "@unittest.skip",    "@skip",      "self.skipTest", "raise unittest.SkipTest", "raise SkipTest",
        "@pytest.mark.skip", "pytest.skip"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (slice_starts(c, names[i]) && (c.len == n || is_word_end(c.ptr[n]))) return n;
    }
    return 0;
}

static bool is_xfail(struct slice c)
{
    return slice_starts(c, "@unittest.expectedFailure") || slice_starts(c, "@expectedFailure") ||
           slice_starts(c, "@pytest.mark.xfail") || slice_starts(c, "@xfail") || slice_starts(c, "@xfailIf");
}

/* Arguments on this line or, when the call goes on, on the next: is there any text? */
static bool has_reason(const struct view *v, uint32_t i, struct slice rest)
{
    if (slice_starts(rest, "("))
        rest.ptr++, rest.len--;
    else
        return false;
    const struct vline *l = &v->lines.ptr[i];
    struct slice raw = {l->text.ptr + (rest.ptr - l->code.ptr), rest.len};
    if (!slice_trim(rest).len) return next_new(v, i) != UINT32_MAX;
    if (slice_starts(slice_trim(rest), ")")) return false;
    for (size_t k = 0; k < raw.len; k++)
        if (raw.ptr[k] == '"' || raw.ptr[k] == '\'') return k + 1 < raw.len && raw.ptr[k + 1] != raw.ptr[k];
    return true;
}

static bool comment_near(const struct view *v, uint32_t i)
{
    const struct vline *l = &v->lines.ptr[i];
    if (memchr(l->text.ptr, '#', l->text.len)) return true;
    return i > 0 && v->lines.ptr[i - 1].comment && !vline_removed(&v->lines.ptr[i - 1]);
}

void rule_skip_without_reason(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (uint32_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !vline_code(l)) continue;
        struct slice c = slice_trim(l->code);
        size_t end = skip_name_end(c);
        struct slice rest = {c.ptr + end, c.len - end};
        bool bare = end && !has_reason(v, i, rest) && !comment_near(v, i);
        bool fails = is_xfail(c) && !slice_has(l->text, "reason") && !comment_near(v, i);
        if (bare || fails)
            rule_report(rule, v, out, l, "'%.*s' says no reason", SLICE_FMT(slice_trim(l->text)));
    }
}

void rule_skip_for_xfail(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t n = 0; n < v->blocks.len; n++) {
        const struct block *b = &v->blocks.ptr[n];
        bool expected = false, still = false;
        const struct vline *skip = NULL;
        for (uint32_t i = b->first; i < b->end; i++) {
            const struct vline *l = &v->lines.ptr[i];
            struct slice c = slice_trim(l->code);
            if (is_xfail(c))
                expected |= vline_removed(l), still |= vline_added(l);
            else if (vline_added(l) && (skip_name_end(c) || slice_starts(c, "@unittest.skipIf")))
                skip = l;
        }
        if (expected && !still && skip) rule_report(rule, v, out, skip, "upstream expects a failure here");
    }
}

/* An unconditional skip: by name, or by a constant condition. */
static bool always_skips(struct slice c)
{
    return (slice_starts(c, "@") && skip_name_end(c)) || slice_starts(c, "@unittest.skipIf(True");
}

static bool skip_decorates(const struct py_scope *s)
{
    static const char *const names[] = {"unittest.skip", "skip", "pytest.mark.skip"};
    for (size_t d = 0; d < s->decorators.len; d++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (!strcmp(s->decorators.ptr[d].name, names[n])) return true;
    return false;
}

static uint32_t offset_of_row(const struct py_file *f, uint32_t row)
{
    const char *at = f->text;
    for (; row > 1 && at; row--) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    return at ? (uint32_t)(at - f->text) : f->len;
}

/* In the patched file as a whole, when it is at hand: is a definition around the row skipped? */
static bool skipped_in_file(const struct py_file *f, uint32_t row)
{
    if (!f) return false;
    uint32_t at = offset_of_row(f, row);
    for (size_t i = 1; i < f->scopes.len; i++) {
        const struct py_scope *s = &f->scopes.ptr[i];
        bool named = s->kind == PY_FUNCTION || s->kind == PY_CLASS;
        if (named && at >= s->body.start && at < s->body.end && skip_decorates(s)) return true;
    }
    return false;
}

struct skip_walk {
    bool pending, inside;
    uint32_t indent, told;
};

/* Follows the new side of a hunk: decorators, then the def they belong to, then its body. */
static void skip_step(struct skip_walk *w, const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    if (w->inside && l->indent <= w->indent) w->inside = false;
    if (slice_starts(c, "@")) {
        /* A skip that this patch adds is told elsewhere; here only those that stay count. */
        if (always_skips(c) && l->kind == LINE_CONTEXT) w->pending = true;
    } else if (slice_starts(c, "def ") || slice_starts(c, "async def ") || slice_starts(c, "class ")) {
        w->inside = w->pending;
        w->indent = l->indent;
        w->pending = false;
    } else if (l->indent <= w->indent) {
        w->pending = false;
    }
}

static uint32_t new_row(const struct view *v, uint32_t i)
{
    const struct hunk *h = &v->p->hunks.ptr[v->lines.ptr[i].hunk];
    uint32_t row = h->new_start;
    for (uint32_t k = h->body; k < v->lines.ptr[i].line; k++) row += line_in_new(v->p->lines.ptr[k].kind);
    return row;
}

void rule_skip_stays(const struct rule *rule, const struct view *v, struct findings *out)
{
    struct skip_walk w = {.told = UINT32_MAX};
    uint32_t hunk = UINT32_MAX;
    for (uint32_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (l->hunk != hunk) {
            hunk = l->hunk;
            w = (struct skip_walk){.told = w.told};
        }
        if (vline_removed(l) || !vline_code(l)) continue;
        skip_step(&w, l);
        if (!vline_added(l) || w.told == hunk) continue;
        if (slice_starts(slice_trim(l->code), "@")) continue;
        if (!w.inside && !skipped_in_file(v->post, new_row(v, i))) continue;
        rule_report(rule, v, out, l, "the test around this edit is skipped always");
        w.told = hunk;
    }
}
