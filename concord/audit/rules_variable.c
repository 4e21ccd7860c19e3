/* rules_variable.c - meaning: a device that is written out where a variable for it is in sight. */
#include "concord/audit/side.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- where devices are written out ------------------------------------------------------------------- */

/* Calls whose first argument is a device. */
static const char *const takes_device[] = {
    "to", "device", "init_device_mesh", "set_default_device", "Generator", "GradScaler", "autocast"};

static const char *last_name(const char *chain)
{
    const char *dot = strrchr(chain, '.');
    return dot ? dot + 1 : chain;
}

static bool takes_one(const char *chain)
{
    for (size_t i = 0; i < sizeof takes_device / sizeof *takes_device; i++)
        if (!strcmp(last_name(chain), takes_device[i])) return true;
    return false;
}

/* The string literal at s is "npu" or "npu:N". */
static bool names_npu(const char *s, const char *end)
{
    char quote = *s++;
    if (end - s < 4 || strncmp(s, "npu", 3) != 0) return false;
    s += 3;
    if (*s == ':') do
            s++;
        while (s < end && isdigit((unsigned char)*s));
    return s < end && *s == quote;
}

static const char *skip_string(const char *s, const char *end)
{
    char quote = *s++;
    while (s < end && *s != quote) s += *s == '\\' && s + 1 < end ? 2 : 1;
    return s < end ? s + 1 : end;
}

static bool after_word(const char *start, const char *at, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(at - start) > n && !strncmp(at - n, word, n) &&
           !isalnum((unsigned char)at[-(ptrdiff_t)n - 1]) && at[-(ptrdiff_t)n - 1] != '_';
}

/* Where the call's own arguments write the device out: as its first one, or by the keyword device or
 * device_type. UINT32_MAX: nowhere. */
static uint32_t literal_device(const struct py_file *f, const struct py_ref *call)
{
    const char *start = f->text + call->args.start, *end = f->text + call->args.end;
    int depth = 0;
    bool first = takes_one(call->chain);
    for (const char *s = start; s < end;) {
        if (*s == '"' || *s == '\'') {
            bool here = first || after_word(start, s, "device=") || after_word(start, s, "device_type=");
            if (depth == 1 && here && names_npu(s, end)) return (uint32_t)(s - f->text);
            s = skip_string(s, end);
            first = false;
            continue;
        }
        if (*s == '#') {
            while (s < end && *s != '\n') s++;
            continue;
        }
        if (strchr("([{", *s))
            depth++;
        else if (strchr(")]}", *s))
            depth--;
        else if (!isspace((unsigned char)*s))
            first = false;
        s++;
    }
    return UINT32_MAX;
}

/* Where the call moves something to a device that is written out; UINT32_MAX when it does not. */
static uint32_t written_out(const struct py_file *f, const struct py_ref *r)
{
    if (!r->call) return UINT32_MAX;
    if (strchr(r->chain, '.') && !strcmp(last_name(r->chain), "npu")) return r->at.end - 3;
    return literal_device(f, r);
}

/* ---- variables for it -------------------------------------------------------------------------------- */

struct known {
    struct py_file *f;
    uint32_t *from;    /* by scope: from this byte on a name of the scope holds a device */
    const char **name; /* by scope */
    VEC(struct py_span) decorators;
    struct map attribute; /* qualified name of a class, to "self.device" or "self.device_type" */
};

/* device, device_type, device0, gpu_type, my_device: as what the corpus calls them. */
static bool names_device(const char *name)
{
    char low[32];
    size_t n = strlen(name);
    if (n >= sizeof low) return false;
    for (size_t i = 0; i <= n; i++) low[i] = (char)tolower((unsigned char)name[i]);
    while (n && isdigit((unsigned char)low[n - 1])) low[--n] = '\0';
    static const char *const exact[] = {"device", "dev", "device_type", "device_str", "gpu_type"};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (!strcmp(low, exact[i])) return true;
    return str_ends(low, "_device");
}

/* What an assignment gives the name may be another device: only the CPU by name, a number or a flag is none.
 */
static bool holds_device(const struct py_file *f, const struct py_binding *b)
{
    struct slice text = {f->text + b->at.start, b->at.end - b->at.start};
    const char *eq = memchr(text.ptr, '=', text.len);
    struct slice value = {text.ptr + text.len, 0};
    if (eq) value = slice_trim((struct slice){eq + 1, text.len - (size_t)(eq + 1 - text.ptr)});
    if (!eq) return true; /* a loop variable */
    bool host = (slice_has(value, "\"cpu") || slice_has(value, "'cpu") || slice_has(value, "\"meta") ||
                 slice_has(value, "'meta")) &&
                !slice_has(value, " if ") && !slice_has(value, " or ");
    bool flag = slice_starts(value, "True") || slice_starts(value, "False") || slice_starts(value, "None") ||
                (value.len && isdigit((unsigned char)*value.ptr));
    bool plain =
        str_ends(b->name, "_device") ? slice_has(value, "device(") || strchr("\"'f", *value.ptr) : true;
    return !host && !flag && plain;
}

/* Whatever it is called: name = torch.device("npu...") */
static bool made_from_device(const struct py_file *f, const struct py_binding *b)
{
    if (b->kind != PYB_INSTANCE ||
        (strcmp(b->target, "torch.device") != 0 && strcmp(b->target, "device") != 0))
        return false;
    struct slice text = {f->text + b->at.start, b->at.end - b->at.start};
    return slice_has(text, "(\"npu") || slice_has(text, "('npu");
}

static bool is_variable(const struct py_file *f, const struct py_binding *b)
{
    if (made_from_device(f, b)) return true;
    if (!names_device(b->name)) return false;
    switch (b->kind) {
    case PYB_PARAM:
        return true;
    case PYB_FROM: /* torch.device and its like are types, not devices */
        return strcmp(b->name, "device") != 0;
    case PYB_ALIAS:
    case PYB_INSTANCE:
    case PYB_OTHER:
        return holds_device(f, b);
    default:
        return false;
    }
}

static void know(struct known *k, uint32_t scope, uint32_t from, const char *name)
{
    if (k->name[scope] && k->from[scope] <= from) return;
    k->from[scope] = from;
    k->name[scope] = name;
}

static void know_attribute(struct known *k, uint32_t scope, const char *attribute)
{
    uint32_t class = py_enclosing(k->f, scope, PY_CLASS);
    if (class == UINT32_MAX) return;
    void **slot = map_put(&k->attribute, k->f->scopes.ptr[class].qualname);
    if (!*slot) *slot = (void *)attribute;
}

/* A device by a name that nothing in sight binds, as in a hunk whose def stands above it: the function has
 * it. */
static void find_used(struct known *k)
{
    for (size_t i = 0; i < k->f->refs.len; i++) {
        const struct py_ref *r = &k->f->refs.ptr[i];
        char name[32];
        size_t n = strcspn(r->chain, ".");
        uint32_t function = py_enclosing(k->f, r->scope, PY_FUNCTION);
        if (n >= sizeof name || function == UINT32_MAX || (r->call && !r->chain[n])) continue;
        memcpy(name, r->chain, n);
        name[n] = '\0';
        if (!names_device(name)) continue;
        const char *full = py_resolve(k->f, r->scope, name);
        if (full && str_starts(full, "builtins.")) know(k, function, 0, full + strlen("builtins."));
    }
}

static void find_variables(struct known *k, struct py_file *f)
{
    *k = (struct known){.f = f};
    k->from = xcalloc(f->scopes.len, sizeof *k->from);
    k->name = xcalloc(f->scopes.len, sizeof *k->name);
    for (size_t i = 0; i < f->bindings.len; i++) {
        const struct py_binding *b = &f->bindings.ptr[i];
        if (!is_variable(f, b)) continue;
        if (f->scopes.ptr[b->scope].kind == PY_CLASS && !strcmp(b->name, "device_type"))
            know_attribute(k, b->scope, "self.device_type");
        else if (f->scopes.ptr[b->scope].kind != PY_CLASS)
            know(k, b->scope, b->scope && b->kind != PYB_PARAM ? b->at.end : 0, b->name);
    }
    static const char *const attributes[] = {"self.device_type", "self.device"};
    for (size_t i = 0; i < f->refs.len; i++)
        for (size_t a = 0; a < 2; a++)
            if (!strcmp(f->refs.ptr[i].chain, attributes[a]) && !f->refs.ptr[i].call)
                know_attribute(k, f->refs.ptr[i].scope, attributes[a]);
    find_used(k);
    for (size_t s = 0; s < f->scopes.len; s++)
        for (size_t d = 0; d < f->scopes.ptr[s].decorators.len; d++)
            *vec_push(&k->decorators) = f->scopes.ptr[s].decorators.ptr[d].at;
}

static void forget_variables(struct known *k)
{
    free(k->from);
    free(k->name);
    vec_free(&k->decorators);
    map_free(&k->attribute, NULL);
}

/* The variable that code at a byte of scope could use; NULL when there is none. */
static const char *variable_at(const struct known *k, uint32_t scope, uint32_t at)
{
    bool member = false;
    for (uint32_t s = scope;; s = k->f->scopes.ptr[s].parent) {
        const struct py_scope *p = &k->f->scopes.ptr[s];
        member |= p->kind == PY_FUNCTION && p->params.len && !strcmp(p->params.ptr[0], "self");
        if (k->name[s] && at >= k->from[s]) return k->name[s];
        if (p->kind == PY_CLASS && member) {
            const char *attribute = map_get(&k->attribute, p->qualname);
            if (attribute) return attribute;
        }
        if (!s) return NULL;
    }
}

/* ---- the rule ---------------------------------------------------------------------------------------- */

/* The statement gives the variable its value: where else should the device stand? */
static bool sets_variable(const struct py_file *f, const struct py_ref *r)
{
    if (r->statement.end <= r->statement.start || r->at.start >= r->statement.end) return false;
    struct slice s = {f->text + r->statement.start, r->statement.end - r->statement.start};
    const char *eq = memchr(s.ptr, '=', s.len);
    if (!eq) return false;
    struct slice value = slice_trim((struct slice){eq + 1, s.len - (size_t)(eq + 1 - s.ptr)});
    if (value.ptr == f->text + r->at.start && !strcmp(last_name(r->chain), "device")) return true;
    struct slice name = slice_trim((struct slice){s.ptr, (size_t)(eq - s.ptr)});
    const char *dot = memrchr(name.ptr, '.', name.len);
    if (dot) name.len -= (size_t)(dot + 1 - name.ptr), name.ptr = dot + 1;
    char *text = xstrndup(name.ptr, name.len);
    bool sets = names_device(text);
    free(text);
    return sets;
}

/* Decorators stand in source order, as the scopes do. */
static bool in_decorator(const struct known *k, uint32_t at)
{
    size_t low = 0, high = k->decorators.len;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct py_span s = k->decorators.ptr[mid];
        if (at >= s.start && at < s.end) return true;
        if (at < s.start)
            high = mid;
        else
            low = mid + 1;
    }
    return false;
}

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Does the code name what may be a device variable: not a keyword, not the attribute of another object, not a
 * type? */
static bool mentions_variable(struct slice code)
{
    if (slice_has(code, "= torch.device(") || slice_has(code, "= device(")) return true;
    for (size_t i = 0, n; i < code.len; i += n) {
        for (n = 0; i + n < code.len && name_char(code.ptr[i + n]);) n++;
        char name[32];
        if (!n || n >= sizeof name) {
            n += !n;
            continue;
        }
        memcpy(name, code.ptr + i, n);
        name[n] = '\0';
        if (!names_device(name)) continue;
        char next = i + n < code.len ? code.ptr[i + n] : ' ';
        bool attribute = i && code.ptr[i - 1] == '.';
        bool own = attribute && i >= 5 && !memcmp(code.ptr + i - 5, "self.", 5);
        if ((own || !attribute) && next != '=' && next != '(') return true;
    }
    return false;
}

/* Most patches need no source model: they write no device out, or name no variable at all. */
static bool worth_a_look(const struct view *v)
{
    bool written = false, variable = v->post != NULL;
    for (size_t i = 0; i < v->lines.len && !(written && variable); i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (l->comment || l->in_string) continue;
        written |= vline_added(l) && (slice_has(l->code, ".npu(") || has_literal(l, "npu", true));
        variable = variable || mentions_variable(l->code);
    }
    for (uint32_t h = v->f->hunk; h < v->f->hunk_end && written && !variable; h++)
        variable = mentions_variable(v->p->hunks.ptr[h].section);
    return written && variable;
}

/* The added lines that stand for one where upstream uses its variable. */
static bool *replacements(const struct view *v)
{
    static const char *const uses[] = {"device=device)", "device=device,", "device=self.device",
                                       ".to(device)",    ".to(device,",    ".to(self.device"};
    bool *stands_for = xcalloc(v->lines.len, sizeof *stands_for);
    for (size_t i = 0; i < v->lines.len; i++)
        for (size_t u = 0; u < sizeof uses / sizeof *uses && v->partner[i] != UINT32_MAX; u++)
            stands_for[v->partner[i]] |= slice_has(v->lines.ptr[i].code, uses[u]);
    return stands_for;
}

void rule_device_hard_coded(const struct rule *rule, const struct view *v, struct findings *out)
{
    if (!v->python || !worth_a_look(v)) return;
    const struct side *side = view_after(v);
    struct known known;
    find_variables(&known, side->file);
    bool *stands_for = replacements(v);
    const struct vline *told = NULL;
    for (size_t i = 0; i < side->file->refs.len; i++) {
        const struct py_ref *r = &side->file->refs.ptr[i];
        uint32_t at = written_out(side->file, r);
        const struct vline *l = at == UINT32_MAX ? NULL : side_line(side, v, at);
        if (!l || l == told || !vline_added(l)) continue;
        const char *variable = variable_at(&known, r->scope, r->at.start);
        if (!variable && stands_for[l - v->lines.ptr]) variable = "upstream's device";
        if (!variable || sets_variable(side->file, r) || in_decorator(&known, at)) continue;
        rule_report(rule, v, out, l, "writes the device out, %s holds it", variable);
        told = l;
    }
    free(stands_for);
    forget_variables(&known);
}
