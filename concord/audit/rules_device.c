/* rules_device.c - meaning: imports, and where tensors live. */
#include "concord/audit/side.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- imports ----------------------------------------------------------------------------------------- */

static bool is_import(const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    return !l->in_string &&
           (slice_starts(c, "import ") || (slice_starts(c, "from ") && slice_has(c, " import")));
}

static bool imports_npu(const struct vline *l)
{
    return is_import(l) && (has_word(l->code, "torch_npu"));
}

static bool uses_npu(const struct vline *l)
{
    if (l->comment || l->blank || is_import(l)) return false;
    return slice_has(l->code, ".npu(") || has_word(l->code, "torch_npu") ||
           slice_has(l->code, "torch.npu.") || has_literal(l, "npu", true);
}

static bool in_file(const struct py_file *f, const char *module)
{
    for (size_t i = 0; f && i < f->bindings.len; i++) {
        const struct py_binding *b = &f->bindings.ptr[i];
        bool import = b->kind == PYB_IMPORT || b->kind == PYB_FROM || b->kind == PYB_STAR;
        if (import && b->target && str_starts(b->target, module)) return true;
    }
    return false;
}

/* Code of torch itself must not import the plugin, so the rule is for tests. */
void rule_npu_import_missing(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (!v->python || !v->f || str_starts(v->f->path, "torch/") || in_file(v->post, "torch_npu")) return;
    const struct vline *use = NULL;
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (vline_removed(l)) continue;
        if (imports_npu(l)) return;
        if (!use && vline_added(l) && uses_npu(l)) use = l;
    }
    if (use) rule_report(rule, v, out, use, "uses npu, and no line imports torch_npu");
}

void rule_import_only(const struct rule *rule, const struct view *v, struct findings *out)
{
    const struct vline *first = NULL;
    bool open = false;
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (l->kind == LINE_CONTEXT || l->blank || l->comment) continue;
        bool import = is_import(l) || open;
        if (!import || vline_removed(l)) return;
        open = slice_has(l->code, "(") ? !slice_has(l->code, ")") : open && !slice_has(l->code, ")");
        if (!first && imports_npu(l)) first = l;
    }
    if (first) rule_report(rule, v, out, first, "all it does is import");
}

/* Worth a look at the source model: imports are added, and one line of them stands twice or the whole file is
 * there. */
static bool repeats_import(const struct view *v)
{
    bool added = false, twice = false;
    struct map seen = {0};
    for (size_t i = 0; i < v->lines.len && !twice; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (vline_removed(l) || l->indent || !is_import(l)) continue;
        char *text = xstrndup(l->text.ptr, l->text.len);
        added |= vline_added(l);
        twice = map_has(&seen, text);
        map_put(&seen, text);
        free(text);
    }
    map_free(&seen, NULL);
    return twice || (added && v->post);
}

static bool at_margin(const struct py_file *f, struct py_span at)
{
    return !at.start || f->text[at.start - 1] == '\n';
}

/* Unconditional imports of the same thing in module scope. */
void rule_import_duplicate(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (!v->python || !repeats_import(v)) return;
    const struct side *side = view_after(v);
    const struct py_file *f = side->file;
    struct map seen = {0}; /* the statement, to its place in imports + 1 */
    for (size_t i = 0; i < f->imports.len; i++) {
        struct py_span at = f->imports.ptr[i].at;
        if (f->imports.ptr[i].scope || !at_margin(f, at)) continue;
        if (i && f->imports.ptr[i - 1].at.start == at.start) continue; /* import a, b */
        char *text = xstrndup(f->text + at.start, at.end - at.start);
        void **slot = map_put(&seen, text);
        free(text);
        if (!*slot) {
            *slot = (void *)(uintptr_t)(i + 1);
            continue;
        }
        struct py_span first = f->imports.ptr[(uintptr_t)*slot - 1].at;
        const struct vline *here = side_line(side, v, at.start), *there = side_line(side, v, first.start);
        const struct vline *l = here && vline_added(here) ? here : there && vline_added(there) ? there : NULL;
        struct py_span other = l == here ? first : at;
        struct slice line = {f->text + at.start, strcspn(f->text + at.start, "\n")};
        if (l && side->whole)
            rule_report(rule, v, out, l, "'%.*s' stands in row %u too", SLICE_FMT(line), other.row);
        else if (l && here && there)
            rule_report(rule, v, out, l, "'%.*s' stands at line %u too", SLICE_FMT(line),
                        (l == here ? there : here)->line + 1);
    }
    map_free(&seen, NULL);
}

/* ---- calls ------------------------------------------------------------------------------------------- */

/* A move to the device behind position at: ".npu(", ".cuda(", ".to(" with more than a dtype in it. */
static bool move_at(const struct vline *l, size_t at)
{
    struct slice rest = {l->code.ptr + at, l->code.len - at}, raw = {l->text.ptr + at, l->text.len - at};
    if (slice_starts(rest, ".npu(") || slice_starts(rest, ".cuda(")) return true;
    if (!slice_starts(rest, ".to(")) return false;
    return slice_starts(raw, ".to(\"npu") || slice_starts(raw, ".to('npu") ||
           slice_starts(raw, ".to(device") || slice_starts(raw, ".to(\"cuda") ||
           slice_starts(raw, ".to('cuda");
}

static size_t matching_open(struct slice code, size_t close)
{
    int depth = 0;
    for (size_t i = close + 1; i-- > 0;) {
        if (strchr(")]}", code.ptr[i])) depth++;
        if (strchr("([{", code.ptr[i]) && --depth == 0) return i;
    }
    return SIZE_MAX;
}

static size_t matching_close(struct slice code, size_t open)
{
    int depth = 0;
    for (size_t i = open; i < code.len; i++) {
        if (strchr("([{", code.ptr[i])) depth++;
        if (strchr(")]}", code.ptr[i]) && --depth == 0) return i;
    }
    return SIZE_MAX;
}

/* Is requires_grad=True an argument of the very call (open, close)? Nested calls do not count. */
static bool own_argument(struct slice code, size_t open, size_t close, const char *word)
{
    int depth = 0;
    size_t n = strlen(word);
    for (size_t i = open; i < close; i++) {
        if (strchr("([{", code.ptr[i]))
            depth++;
        else if (strchr(")]}", code.ptr[i]))
            depth--;
        else if (depth == 1 && close - i >= n && !memcmp(code.ptr + i, word, n))
            return true;
    }
    return false;
}

/* A call's closing parenthesis followed by a move, whose own arguments hold requires_grad=True, or
 * nn.Parameter(...). */
void rule_non_leaf_parameter(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || l->comment) continue;
        for (size_t at = 0; at + 1 < l->code.len; at++) {
            if (l->code.ptr[at] != ')' || l->code.ptr[at + 1] != '.' || !move_at(l, at + 1)) continue;
            size_t open = matching_open(l->code, at);
            bool tail = open == SIZE_MAX && slice_starts(slice_trim(l->code), "requires_grad=True");
            bool parameter =
                open != SIZE_MAX && slice_ends((struct slice){l->code.ptr, open}, "nn.Parameter");
            if (!tail && !parameter &&
                (open == SIZE_MAX || !own_argument(l->code, open, at, "requires_grad=True")))
                continue;
            if (slice_has((struct slice){l->code.ptr + at, l->code.len - at}, ".requires_grad_(") ||
                slice_has((struct slice){l->code.ptr + at, l->code.len - at}, ".retain_grad(") ||
                slice_has((struct slice){l->code.ptr + at, l->code.len - at}, ".detach("))
                continue;
            rule_report(rule, v, out, l, "moved after requires_grad=True: not a leaf, its .grad stays None");
            break;
        }
    }
}

void rule_npu_twice(const struct rule *rule, const struct view *v, struct findings *out)
{
    static const char *const twice[] = {".npu().npu(", ".npu().to(\"npu\")", ".npu().cuda(", ".cuda().npu("};
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || l->comment) continue;
        for (size_t k = 0; k < sizeof twice / sizeof *twice; k++)
            if (slice_has(k == 1 ? l->text : l->code, twice[k])) {
                rule_report(rule, v, out, l, "'%s'", twice[k]);
                break;
            }
    }
}

/* ---- device arguments -------------------------------------------------------------------------------- */

/* The value of the keyword device= in the line, empty when there is none. */
static struct slice device_argument(const struct vline *l)
{
    size_t at = find_word(l->code, "device=", 0);
    if (at == SIZE_MAX || slice_starts((struct slice){l->code.ptr + at, l->code.len - at}, "device=="))
        return (struct slice){"", 0};
    size_t end = at += 7;
    int depth = 0;
    for (; end < l->code.len; end++) {
        char c = l->code.ptr[end];
        if (strchr("([{", c)) depth++;
        if ((strchr(")]}", c) && depth-- == 0) || (c == ',' && !depth)) break;
    }
    return slice_trim((struct slice){l->text.ptr + at, end - at});
}

static bool puts_on_device(const struct vline *l)
{
    return device_argument(l).len || slice_has(l->code, ".npu(") || slice_has(l->code, ".to(") ||
           slice_has(l->code, ".cuda(") || has_word(l->code, "device");
}

/* What the line calls: the text before its first parenthesis, without an assignment's left side. */
static struct slice callee(const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    const char *open = memchr(c.ptr, '(', c.len);
    if (!open) return (struct slice){"", 0};
    c.len = (size_t)(open - c.ptr);
    const char *eq = memrchr(c.ptr, '=', c.len);
    if (eq) c.len -= (size_t)(eq + 1 - c.ptr), c.ptr = eq + 1;
    return slice_trim(c);
}

/* The block of a changed line. */
static const struct block *block_of(const struct view *v, const struct vline *l)
{
    size_t low = 0, high = v->blocks.len, i = (size_t)(l - v->lines.ptr);
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (v->blocks.ptr[mid].first <= i)
            low = mid;
        else
            high = mid;
    }
    return &v->blocks.ptr[low];
}

/* A function's own definition may lose a parameter for other reasons; only calls count. */
static void device_pair(const struct rule *rule, const struct view *v, const struct vline *old,
                        const struct vline *new, struct findings *out)
{
    struct slice device = device_argument(old);
    if (!device.len || slice_has(device, "cpu") || puts_on_device(new)) return;
    if (slice_starts(slice_trim(old->code), "def ")) return;
    if (!callee(old).len || !slice_eq(callee(old), callee(new))) return;
    if (!block_of(v, old)->adds_device)
        rule_report(rule, v, out, new, "upstream has device=%.*s here", SLICE_FMT(device));
}

void rule_device_dropped(const struct rule *rule, const struct view *v, struct findings *out)
{
    each_pair(rule, v, out, device_pair);
}

/* One call of the added line has a CPU tensor and a device tensor among its own arguments. */
void rule_cpu_beside_device(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || l->comment || l->in_string) continue;
        bool cpu = slice_has(l->text, "device=\"cpu\"") || slice_has(l->text, "device='cpu'");
        bool npu = slice_has(l->code, ".npu(") || slice_has(l->text, "device=\"npu") ||
                   slice_has(l->text, "device='npu");
        if (!cpu || !npu) continue;
        size_t open = l->code.len ? find_word(l->code, "(", 0) : SIZE_MAX;
        if (open == SIZE_MAX || matching_close(l->code, open) == SIZE_MAX) continue;
        rule_report(rule, v, out, l, "a CPU tensor and a device tensor in one call");
    }
}
