/* evidence.c - which class and function an edit belongs to. */
#include "concord/patch/evidence.h"

#include <stdlib.h>
#include <string.h>

/* The name that "class X" or "def x" in the line defines; NULL for other lines. Owned. */
static char *defines(struct slice s)
{
    static const char *const heads[] = {"class ", "def ", "async def "};
    s = slice_trim(s);
    for (size_t i = 0; i < 3; i++) {
        if (!slice_starts(s, heads[i])) continue;
        size_t from = strlen(heads[i]), n = from;
        while (n < s.len && s.ptr[n] != '(' && s.ptr[n] != ':' && s.ptr[n] != ' ') n++;
        return xstrndup(s.ptr + from, n - from);
    }
    return NULL;
}

size_t indent_of(struct slice s)
{
    size_t n = 0;
    while (n < s.len && (s.ptr[n] == ' ' || s.ptr[n] == '\t')) n++;
    return n;
}

static void set(char **slot, char *value)
{
    free(*slot);
    *slot = value;
}

/* A method's head or a printed graph in the first column is text inside a string. */
static bool section_in_string(struct slice section)
{
    return (slice_starts(section, "def ") && slice_has(section, "(self")) ||
           slice_starts(section, "class GraphModule(");
}

static size_t edit_indent(const struct old_side *o, const struct hunk_edit *e)
{
    for (uint32_t i = e->from; i < e->to; i++)
        if (!slice_blank(o->lines.ptr[i].text)) return indent_of(o->lines.ptr[i].text);
    for (size_t i = 0; i < e->added.len; i++)
        if (!slice_blank(e->added.ptr[i])) return indent_of(e->added.ptr[i]);
    return 0;
}

/* The hunk's lines above the edit that are indented less and less: the nearest def, and what stands in the
 * first column. */
static void read_above(struct evidence *ev, const struct old_side *o, const struct hunk_edit *e)
{
    size_t indent = ev->indent;
    for (uint32_t i = e->from; i-- > 0;) {
        struct slice s = o->lines.ptr[i].text;
        if (slice_blank(s) || indent_of(s) >= indent) continue;
        char *name = defines(s);
        if (name && !ev->inner) {
            ev->inner = xstrdup(name);
            ev->inner_at = i;
        }
        indent = indent_of(s);
        if (indent) {
            free(name);
            continue;
        }
        set(&ev->outer, name);
        ev->outer_at = i;
        ev->from_section = false;
        return;
    }
}

static bool is_decorator(struct slice s)
{
    return slice_starts(slice_trim(s), "@");
}

/* An edit of decorators belongs to the definition below it. */
static void read_below(struct evidence *ev, const struct old_side *o, const struct hunk_edit *e)
{
    bool decorates = false;
    for (uint32_t i = e->from; i < e->to; i++) {
        if (!is_decorator(o->lines.ptr[i].text)) return;
        decorates = true;
    }
    for (size_t i = 0; i < e->added.len && !decorates; i++) decorates = is_decorator(e->added.ptr[i]);
    for (uint32_t i = e->to; decorates && !ev->below && i < o->lines.len; i++) {
        if (indent_of(o->lines.ptr[i].text) < ev->indent) return;
        if (indent_of(o->lines.ptr[i].text) == ev->indent) ev->below = defines(o->lines.ptr[i].text);
    }
}

void evidence_read(struct evidence *ev, struct slice section, const struct old_side *o,
                   const struct hunk_edit *e, const struct target *from, uint32_t line)
{
    *ev = (struct evidence){.section = slice_trim(section), .indent = edit_indent(o, e)};
    ev->outer_at = ev->inner_at = UINT32_MAX;
    read_below(ev, o, e);
    if (from && from->py) ev->exact = xstrdup(scope_at(from, line, line + e->to - e->from, ev->indent));
    if (!ev->indent) return;
    ev->outer = section_in_string(ev->section) ? NULL : defines(ev->section);
    ev->from_section = ev->outer != NULL;
    read_above(ev, o, e);
}

void evidence_free(struct evidence *ev)
{
    free(ev->exact);
    free(ev->outer);
    free(ev->inner);
    free(ev->below);
}

/* ---- the target -------------------------------------------------------------------------------------- */

static const char *scope_name(const struct target *g, uint32_t line)
{
    if (!g->py || line >= g->t.v.len) return "";
    return g->py->scopes.ptr[g->scope[line]].qualname;
}

/* A decorator, or the head of a def, may be counted to the definition or to what it stands in. NULL for other
 * lines. */
static const char *scope_outside(const struct target *g, uint32_t line)
{
    if (!g->py || line >= g->t.v.len) return NULL;
    const struct py_scope *s = &g->py->scopes.ptr[g->scope[line]];
    return line + 1 < s->body.row ? g->py->scopes.ptr[s->parent].qualname : NULL;
}

/* The scope an inserted line belongs to: that of the code line before it that is indented no deeper, or of
 * its own block. */
static const char *scope_around(const struct target *g, uint32_t line, size_t indent)
{
    if (!g->py) return "";
    for (uint32_t i = line; i-- > 0 && indent > 0;) {
        if (i >= g->t.v.len || slice_blank(g->t.v.ptr[i])) continue;
        size_t n = indent_of(g->t.v.ptr[i]);
        uint32_t s = g->scope[i];
        while (s && indent_of(g->t.v.ptr[g->py->scopes.ptr[s].at.row - 1]) >= indent)
            s = g->py->scopes.ptr[s].parent;
        if (s || !n) return g->py->scopes.ptr[s].qualname;
    }
    return "";
}

const char *scope_at(const struct target *g, uint32_t from, uint32_t to, size_t indent)
{
    return from < to ? scope_name(g, from) : scope_around(g, from, indent);
}

static bool part_of(const char *qualname, const char *name, bool first)
{
    size_t n = strlen(name);
    const char *at = first ? qualname : strrchr(qualname, '.') ? strrchr(qualname, '.') + 1 : qualname;
    return !strncmp(at, name, n) && (at[n] == '\0' || (first && at[n] == '.'));
}

/* git takes any line that starts with a letter for the section, also one inside a string; the same line
 * before the place in the target is as good as a scope. */
static bool section_agrees(const struct evidence *ev, const struct target *g, uint32_t line)
{
    struct buf there = BUF_INIT;
    textlines_section(&g->t, line < g->t.v.len ? line : g->t.v.len, &there);
    bool same = ev->section.len && slice_eq(ev->section, slice_trim(slice_of(&there)));
    buf_free(&there);
    return same;
}

/* A head inside a string opens no scope: that the target has the very line where the hunk's is aligned is as
 * good. */
static bool stands_in_string(const struct target *g, const struct candidate *c, uint32_t old_line,
                             const char *name)
{
    int32_t line = old_line == UINT32_MAX ? UNALIGNED : c->align[old_line];
    if (line == UNALIGNED || !g->py) return false;
    char *there = defines(g->t.v.ptr[line]);
    bool same = there && !strcmp(there, name);
    free(there);
    const struct py_scope *s = &g->py->scopes.ptr[g->scope[line]];
    bool opens = !strcmp(s->name, name) && (uint32_t)line + 1 < s->body.row;
    return same && !opens;
}

static bool scope_agrees(const struct evidence *ev, const struct target *g, const char *there,
                         const struct candidate *c)
{
    if (ev->exact) return !strcmp(ev->exact, there);
    if (ev->outer && !part_of(there, ev->outer, true) &&
        !(ev->from_section && section_agrees(ev, g, c->first)) &&
        !stands_in_string(g, c, ev->outer_at, ev->outer))
        return false;
    return !ev->inner || part_of(there, ev->inner, false) || (ev->outer && !strcmp(ev->inner, ev->outer)) ||
           stands_in_string(g, c, ev->inner_at, ev->inner);
}

bool evidence_certain(const struct evidence *ev)
{
    return ev->exact || ev->inner || ev->below || !ev->indent;
}

/* The definition that decorators at line belong to must be the one that the patch has. */
static bool below_agrees(const struct evidence *ev, const struct target *g, uint32_t line)
{
    if (!ev->below) return true;
    for (; line < g->t.v.len; line++) {
        struct slice s = g->t.v.ptr[line];
        if (slice_blank(s) || indent_of(s) > ev->indent || is_decorator(s) ||
            slice_starts(slice_trim(s), ")") || slice_starts(slice_trim(s), "#"))
            continue;
        char *name = defines(s);
        bool same = name && !strcmp(name, ev->below);
        free(name);
        return same;
    }
    return false;
}

bool evidence_agrees(const struct evidence *ev, const struct target *g, uint32_t from, uint32_t to,
                     const struct candidate *c)
{
    if (!below_agrees(ev, g, from)) return false;
    if (scope_agrees(ev, g, scope_at(g, from, to, ev->indent), c)) return true;
    const char *outside = from < to ? scope_outside(g, from) : NULL;
    return outside && scope_agrees(ev, g, outside, c);
}
