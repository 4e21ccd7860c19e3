/* rules_device.c - meaning: imports, and where tensors live. */
#include "concord/audit/audit.h"

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

static bool same_import(const struct vline *a, const struct vline *b)
{
    return a != b && !vline_removed(b) && is_import(b) && b->indent == a->indent &&
           slice_eq(slice_trim(a->text), slice_trim(b->text)) && !slice_ends(slice_trim(a->text), "(");
}

/* Unconditional imports of the same thing in module scope; the whole file when it is at hand. */
void rule_import_duplicate(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || !is_import(l) || l->indent) continue;
        for (size_t k = 0; k < v->lines.len; k++)
            if (same_import(l, &v->lines.ptr[k]) && (k < i || !vline_added(&v->lines.ptr[k]))) {
                rule_report(rule, v, out, l, "'%.*s' stands at line %u too", SLICE_FMT(slice_trim(l->text)),
                            v->lines.ptr[k].line + 1);
                break;
            }
    }
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

/* A function's own definition may lose a parameter for other reasons; only calls count. */
void rule_device_dropped(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t n = 0; n < v->blocks.len; n++) {
        const struct block *b = &v->blocks.ptr[n];
        bool default_device = false;
        for (uint32_t i = b->first; i < b->end; i++)
            default_device |= vline_added(&v->lines.ptr[i]) && slice_has(v->lines.ptr[i].code, "device");
        for (uint32_t i = b->first; i < b->end; i++) {
            const struct vline *l = &v->lines.ptr[i];
            struct slice device = device_argument(l);
            if (!vline_removed(l) || l->comment || l->in_string || !device.len || slice_has(device, "cpu"))
                continue;
            if (slice_starts(slice_trim(l->code), "def ")) continue;
            uint32_t k = block_partner(v, b, i);
            if (k == UINT32_MAX || puts_on_device(&v->lines.ptr[k]) || default_device) continue;
            if (!callee(l).len || !slice_eq(callee(l), callee(&v->lines.ptr[k]))) continue;
            rule_report(rule, v, out, &v->lines.ptr[k], "upstream has device=%.*s here", SLICE_FMT(device));
        }
    }
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

/* ---- a device variable ------------------------------------------------------------------------------- */

static struct slice parameters(const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    if (!slice_starts(c, "def ") && !slice_starts(c, "async def ")) return (struct slice){"", 0};
    const char *open = memchr(c.ptr, '(', c.len);
    return open ? (struct slice){open, c.len - (size_t)(open - c.ptr)} : (struct slice){"", 0};
}

/* The function around added line i has a parameter device: seen in the hunk, or in the whole file. */
static bool has_device_parameter(const struct view *v, size_t i)
{
    uint32_t indent = v->lines.ptr[i].indent;
    for (size_t k = i; k-- > 0 && v->lines.ptr[k].hunk == v->lines.ptr[i].hunk;) {
        const struct vline *l = &v->lines.ptr[k];
        if (vline_removed(l) || l->blank || l->in_string || l->indent >= indent) continue;
        struct slice params = parameters(l);
        if (params.len) return has_word(params, "device");
        indent = l->indent;
    }
    return false;
}

static bool hard_codes(const struct vline *l)
{
    return slice_has(l->code, ".npu(") || has_literal(l, "npu", true);
}

/* The device was a variable upstream and is written out now. */
static bool replaced_variable(const struct view *v, const struct block *b, uint32_t i)
{
    for (uint32_t k = b->first; k < b->end; k++) {
        const struct vline *l = &v->lines.ptr[k];
        if (!vline_removed(l) || block_partner(v, b, k) != i) continue;
        struct slice d = device_argument(l);
        return d.len && (slice_starts(d, "device") || slice_starts(d, "self.device")) &&
               !has_word(v->lines.ptr[i].code, "device_type");
    }
    return false;
}

/* The name of a device variable that the line sets: device, device_type, self.device, device0; empty
 * otherwise. */
static struct slice sets_device(const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    size_t self = slice_starts(c, "self.") ? 5 : 0, n = self + 6;
    if (l->comment || l->in_string || c.len <= n || memcmp(c.ptr + self, "device", 6) != 0)
        return (struct slice){"", 0};
    while (n < c.len && (isalnum((unsigned char)c.ptr[n]) || c.ptr[n] == '_')) n++;
    struct slice rest = slice_trim((struct slice){c.ptr + n, c.len - n});
    bool plural = n == self + 7 && c.ptr[self + 6] == 's';
    if (plural || !slice_starts(rest, "=") || slice_starts(rest, "==")) return (struct slice){"", 0};
    return (struct slice){c.ptr, n};
}

/* A device variable is in sight: set before in the same function, or in module scope anywhere in the patch.
 */
static bool device_variable_in_sight(const struct view *v, size_t i)
{
    for (size_t k = 0; k < v->lines.len; k++)
        if (k != i && !vline_removed(&v->lines.ptr[k]) && !v->lines.ptr[k].indent &&
            sets_device(&v->lines.ptr[k]).len)
            return true;
    for (size_t k = i; k-- > 0 && v->lines.ptr[k].hunk == v->lines.ptr[i].hunk;) {
        const struct vline *l = &v->lines.ptr[k];
        if (vline_removed(l) || l->blank || l->in_string) continue;
        if (sets_device(l).len && l->indent <= v->lines.ptr[i].indent) return true;
        if (parameters(l).len && l->indent < v->lines.ptr[i].indent) return false;
    }
    return false;
}

static const struct block *block_of(const struct view *v, uint32_t i)
{
    for (size_t n = 0; n < v->blocks.len; n++)
        if (i >= v->blocks.ptr[n].first && i < v->blocks.ptr[n].end) return &v->blocks.ptr[n];
    return NULL;
}

void rule_device_hard_coded(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (uint32_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_added(l) || l->comment || l->in_string || is_import(l) || !hard_codes(l)) continue;
        if (slice_starts(slice_trim(l->code), "@") || slice_has(l->code, "instantiate_device_type_tests"))
            continue;
        if (sets_device(l).len) continue;
        if (has_device_parameter(v, i) || device_variable_in_sight(v, i) ||
            replaced_variable(v, block_of(v, i), i))
            rule_report(rule, v, out, l, "writes the device out, the test has a variable for it");
    }
}
