/* rules_text.c - meaning: what a changed line weakens, fakes or leaves lying about. */
#include "concord/audit/audit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- tolerances -------------------------------------------------------------------------------------- */

static const char *const tolerance_names[] = {"atol", "rtol", "prec", "delta", "tol", "threshold"};

/* The number given to keyword name in the line; false when it is not a plain number. */
static bool keyword_number(const struct vline *l, const char *name, double *value)
{
    size_t at = find_word(l->code, name, 0);
    if (at == SIZE_MAX) return false;
    at += strlen(name);
    while (at < l->code.len && l->code.ptr[at] == ' ') at++;
    if (at >= l->code.len || l->code.ptr[at] != '=' || (at + 1 < l->code.len && l->code.ptr[at + 1] == '='))
        return false;
    char number[48] = "";
    struct slice rest = slice_trim((struct slice){l->code.ptr + at + 1, l->code.len - at - 1});
    memcpy(number, rest.ptr, rest.len < sizeof number - 1 ? rest.len : sizeof number - 1);
    char *end;
    *value = strtod(number, &end);
    return end != number && (!*end || strchr(",) ", *end));
}

static bool compares(const struct vline *l)
{
    return slice_has(l->code, "assert") || slice_has(l->code, "allclose") || slice_has(l->code, "check");
}

static void tolerance_pair(const struct rule *rule, const struct view *v, const struct vline *old,
                           const struct vline *new, struct findings *out)
{
    for (size_t t = 0; t < sizeof tolerance_names / sizeof *tolerance_names; t++) {
        const char *name = tolerance_names[t];
        double was, is;
        if (!keyword_number(new, name, &is)) continue;
        bool had = keyword_number(old, name, &was);
        if (had && is > was)
            rule_report(rule, v, out, new, "%s=%g, upstream has %g", name, is, was);
        else if (!had && is > 0 && compares(new) && !has_word(old->code, name))
            rule_report(rule, v, out, new, "%s=%g, upstream has the default", name, is);
        else
            continue;
        return;
    }
}

void rule_tolerance_widened(const struct rule *rule, const struct view *v, struct findings *out)
{
    each_pair(rule, v, out, tolerance_pair);
}

/* ---- dtype lists ------------------------------------------------------------------------------------- */

static unsigned count_dtypes(struct slice code)
{
    static const char *const names[] = {
        "torch.float16", "torch.float32",   "torch.float64",    "torch.float",     "torch.double",
        "torch.half",    "torch.bfloat16",  "torch.int8",       "torch.int16",     "torch.int32",
        "torch.int64",   "torch.uint8",     "torch.int",        "torch.long",      "torch.short",
        "torch.bool",    "torch.complex64", "torch.complex128", "torch.complex32", "torch.cfloat",
        "torch.cdouble", "torch.chalf"};
    unsigned n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) n += has_word(code, names[i]);
    return n;
}

static bool lists_dtypes(struct slice code)
{
    return slice_has(code, "@dtypes") || slice_has(code, "dtypes") || slice_has(code, "for dtype in");
}

static void dtypes_pair(const struct rule *rule, const struct view *v, const struct vline *old,
                        const struct vline *new, struct findings *out)
{
    if (!lists_dtypes(old->code) || !lists_dtypes(new->code)) return;
    unsigned was = count_dtypes(old->code), is = count_dtypes(new->code);
    if (is && is < was) rule_report(rule, v, out, new, "%u dtypes, upstream has %u", is, was);
}

void rule_dtypes_shortened(const struct rule *rule, const struct view *v, struct findings *out)
{
    each_pair(rule, v, out, dtypes_pair);
}

/* ---- expectations ------------------------------------------------------------------------------------ */

/* Strict check, and the looser one that must not take its place. */
static const struct {
    const char *strict, *loose;
} loosened[] = {
    {"assertRaisesRegex(", "assertRaises("},
    {"assertExpectedInline(", "assertIn("},
    {"assertExpectedInline(", "assertTrue("},
    {"assertEqual(", "assertTrue("},
    {"assertEqual(", "assertIn("},
    {"assertEqual(", "assertIsNotNone("},
    {"assertWarnsRegex(", "assertWarns("},
    {"assertEqual(", "assertGreater("},
    {"assertEqual(", "assertLess("},
    {"assertEqual(", "assertAlmostEqual("},
    {"torch.equal(", "allclose("},
};

static bool any_text(const struct vline *l)
{
    return (slice_has(l->code, "assertRaisesRegex(") || slice_has(l->code, "assertWarnsRegex(")) &&
           (has_literal(l, "", false) || has_literal(l, ".*", false));
}

static void expectation_pair(const struct rule *rule, const struct view *v, const struct vline *old,
                             const struct vline *new, struct findings *out)
{
    if (any_text(new) && !any_text(old)) {
        rule_report(rule, v, out, new, "any text is accepted");
        return;
    }
    for (size_t p = 0; p < sizeof loosened / sizeof *loosened; p++) {
        const char *strict = loosened[p].strict, *loose = loosened[p].loose;
        if (!slice_has(old->code, strict) || !slice_has(new->code, loose)) continue;
        if (slice_has(new->code, strict) || slice_has(old->code, loose)) continue;
        rule_report(rule, v, out, new, "%s...) becomes %s...)", strict, loose);
        return;
    }
}

void rule_expected_loosened(const struct rule *rule, const struct view *v, struct findings *out)
{
    each_pair(rule, v, out, expectation_pair);
}

/* ---- CUDA faked -------------------------------------------------------------------------------------- */

/* The left side of an assignment statement, empty when the line is none. */
static struct slice assigned(const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    const char *eq = memchr(c.ptr, '=', c.len);
    if (!eq || eq == c.ptr || (size_t)(eq + 1 - c.ptr) >= c.len || eq[1] == '=' ||
        strchr("!<>+-*/|&^%@:", eq[-1]))
        return (struct slice){"", 0};
    struct slice left = slice_trim((struct slice){c.ptr, (size_t)(eq - c.ptr)});
    for (size_t i = 0; i < left.len; i++)
        if (!isalnum((unsigned char)left.ptr[i]) && !strchr("._", left.ptr[i])) return (struct slice){"", 0};
    return left;
}

void rule_cuda_faked(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !vline_code(l)) continue;
        struct slice left = assigned(l);
        if (slice_starts(left, "torch.cuda.") || slice_starts(left, "torch._C.") ||
            slice_eq(left, slice_str("torch.version.cuda")))
            rule_report(rule, v, out, l, "assigns to %.*s", SLICE_FMT(left));
    }
}

void rule_cuda_forced(const struct rule *rule, const struct view *v, struct findings *out)
{
    static const char *const marks[] = {"TEST_CUDA",     "HAS_GPU", "HAS_CUDA",
                                        "TEST_MULTIGPU", "RUN_GPU", "RUN_CUDA"};
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !vline_code(l)) continue;
        struct slice left = assigned(l), c = slice_trim(l->code);
        if (!left.len || !(slice_ends(c, "= True") || slice_ends(c, "=True"))) continue;
        bool flag = slice_has(left, "_CUDA");
        for (size_t k = 0; k < sizeof marks / sizeof *marks; k++) flag |= slice_has(left, marks[k]);
        if (flag) rule_report(rule, v, out, l, "%.*s is forced to True", SLICE_FMT(left));
    }
}

/* ---- left lying about -------------------------------------------------------------------------------- */

static struct slice uncommented(const struct vline *l)
{
    struct slice s = slice_trim(l->text);
    while (s.len && (*s.ptr == '#' || *s.ptr == ' ')) s.ptr++, s.len--;
    return s;
}

/* "print(...)" and "FLAG = True" are statements that prose does not look like. */
static bool is_dead_statement(struct slice s)
{
    size_t n = 0;
    while (n < s.len && (isupper((unsigned char)s.ptr[n]) || s.ptr[n] == '_')) n++;
    struct slice rest = {s.ptr + n, s.len - n};
    bool flag = n > 3 && (slice_eq(rest, slice_str(" = True")) || slice_eq(rest, slice_str(" = False")));
    return flag || (slice_starts(s, "print(") && slice_ends(s, ")"));
}

/* A comment that was code: upstream's removed line word for word, or a statement that never was anything
 * else. */
static bool was_code(const struct view *v, const struct vline *l)
{
    struct slice text = uncommented(l);
    if (text.len < 3) return false;
    if (is_dead_statement(text)) return true;
    char *key = xstrndup(text.ptr, text.len);
    bool was = map_has(&v->removed, key);
    free(key);
    return was;
}

/* Told once for each run of lines. */
void rule_code_commented_out(const struct rule *rule, const struct view *v, struct findings *out)
{
    bool run = false;
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (vline_removed(l)) continue;
        bool here = vline_added(l) && l->comment && was_code(v, l);
        if (here && !run) rule_report(rule, v, out, l, "'%.*s'", SLICE_FMT(slice_trim(l->text)));
        run = here;
    }
}

/* A print, or a debugger. */
static bool prints(const struct vline *l)
{
    static const char *const words[] = {"print(",     "breakpoint(",     "pdb.",
                                        "import pdb", "from pdb import", "import ipdb"};
    struct slice c = slice_trim(l->code);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (vline_code(l) && slice_starts(c, words[i])) return true;
    return false;
}

void rule_debug_print(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t n = 0; n < v->blocks.len; n++) {
        const struct block *b = &v->blocks.ptr[n];
        bool was_there = false;
        for (uint32_t i = b->first; i < b->end; i++)
            was_there |= vline_removed(&v->lines.ptr[i]) && prints(&v->lines.ptr[i]);
        for (uint32_t i = b->first; i < b->end && !was_there; i++)
            if (vline_added(&v->lines.ptr[i]) && prints(&v->lines.ptr[i]))
                rule_report(rule, v, out, &v->lines.ptr[i], "'%.*s'",
                            SLICE_FMT(slice_trim(v->lines.ptr[i].text)));
    }
}

/* The line without what does not change its meaning: blanks between tokens, the kind of quote, .0, a comma
 * before a bracket. */
static void essence(const struct vline *l, struct buf *out)
{
    for (size_t i = 0; i < l->text.len; i++) {
        char c = l->code.ptr[i], raw = l->text.ptr[i];
        if (c == 's' && raw != 's') c = 'x';
        bool string = c == 'x' && raw != 'x';
        if (!string && (raw == ' ' || raw == '\t')) continue;
        if (c == '\'') raw = '"';
        if (!string && raw == '0' && out->len >= 2 && out->ptr[out->len - 1] == '.' &&
            isdigit((unsigned char)out->ptr[out->len - 2]) &&
            (i + 1 == l->text.len || !isalnum((unsigned char)l->text.ptr[i + 1])))
            continue;
        if (!string && strchr(")]}", raw) && out->len && out->ptr[out->len - 1] == ',') out->len--;
        buf_addc(out, raw);
    }
}

static bool same_essence(const struct vline *a, const struct vline *b)
{
    struct buf x = BUF_INIT, y = BUF_INIT;
    essence(a, &x);
    essence(b, &y);
    bool same = slice_eq(slice_of(&x), slice_of(&y));
    buf_free(&x);
    buf_free(&y);
    return same;
}

/* Another indent alone is no rewrite: the line may stand in a new block. */
static void rewrite_pair(const struct rule *rule, const struct view *v, const struct vline *old,
                         const struct vline *new, struct findings *out)
{
    struct slice was = slice_trim(old->text);
    if (slice_eq(was, slice_trim(new->text)) || !same_essence(old, new)) return;
    rule_report(rule, v, out, new, "the same as '%.*s'", SLICE_FMT(was));
}

void rule_unrelated_rewrite(const struct rule *rule, const struct view *v, struct findings *out)
{
    each_pair(rule, v, out, rewrite_pair);
}
