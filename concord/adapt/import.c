/* import.c - where the backend's import goes: once, at the file's top level. */
#include "concord/adapt/private.h"

#include <string.h>

static bool is_common_cuda(const char *module)
{
    return str_ends(module, ".common_cuda");
}

static bool at_top(const struct py_file *f, const struct py_import *i)
{
    return i->scope == 0 && (i->at.start == 0 || f->text[i->at.start - 1] == '\n');
}

static uint32_t line_behind(const struct py_file *f, uint32_t at)
{
    const char *line = memchr(f->text + at, '\n', f->len - at);
    return line ? (uint32_t)(line - f->text) + 1 : f->len;
}

/* The start of the line behind an import; the first that is fit among: the last of torch.testing before
 * common_cuda, common_cuda itself (in front of it), the last of torch. UINT32_MAX if the file imports none at
 * its top level. */
static uint32_t behind_testing(const struct py_file *f)
{
    uint32_t testing = UINT32_MAX, torch = UINT32_MAX;
    for (size_t i = 0; i < f->imports.len; i++) {
        const struct py_import *m = &f->imports.ptr[i];
        if (!at_top(f, m)) continue;
        if (is_common_cuda(m->module)) return testing == UINT32_MAX ? m->at.start : testing;
        bool under = !strcmp(m->module, "torch") || str_starts(m->module, "torch.");
        if (!under) continue;
        torch = line_behind(f, m->at.end);
        if (str_starts(m->module, "torch.testing")) testing = torch;
    }
    return testing == UINT32_MAX ? torch : testing;
}

static uint32_t behind_torch(const struct py_file *f)
{
    for (size_t i = 0; i < f->imports.len; i++) {
        const struct py_import *m = &f->imports.ptr[i];
        if (at_top(f, m) && !strcmp(m->module, "torch") && !memcmp(f->text + m->at.start, "import", 6))
            return line_behind(f, m->at.end);
    }
    return behind_testing(f);
}

/* In front of the first statement, but behind what must come first: a line for the shell or of the encoding,
 * a docstring, imports from the future. */
static uint32_t at_the_top(const struct py_file *f)
{
    uint32_t at = f->len >= 3 && !memcmp(f->text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    const char *future = strstr(f->text, "\nfrom __future__ import");
    if (!strncmp(f->text + at, "from __future__ import", 22)) future = f->text + at;
    if (future) {
        for (const char *next = future; (next = strstr(next + 1, "\nfrom __future__ import"));) future = next;
        return line_behind(f, (uint32_t)(future - f->text) + 1);
    }
    while (f->text[at] == '#' && (!strncmp(f->text + at, "#!", 2) || !strncmp(f->text + at, "# -*-", 5)))
        at = line_behind(f, at);
    uint32_t i = at;
    while (i < f->len && (f->text[i] == '#' || f->text[i] == '\n' || f->text[i] == '\r'))
        i = f->text[i] == '#' ? line_behind(f, i) : i + 1;
    bool docstring = !strncmp(f->text + i, "\"\"\"", 3) || !strncmp(f->text + i, "'''", 3);
    if (!docstring) return at;
    char quotes[4] = {f->text[i], f->text[i], f->text[i], 0};
    const char *end = strstr(f->text + i + 3, quotes);
    return end ? line_behind(f, (uint32_t)(end - f->text)) : UINT32_MAX;
}

/* The shim stands on lines of its own and is no sign of the backend's own import. */
bool imports_backend(const struct py_file *f, const char *backend)
{
    for (size_t i = 0; i < f->imports.len; i++)
        if (f->imports.ptr[i].scope == 0 && !strcmp(f->imports.ptr[i].module, backend)) return true;
    return false;
}

bool rule_import(struct adapt_site *s)
{
    static uint32_t (*const places[ADAPT_PLACES])(const struct py_file *) = {behind_testing, behind_torch,
                                                                             at_the_top};
    if (imports_backend(s->f, s->o->import)) return true;
    uint32_t at = places[s->o->place](s->f);
    if (at == UINT32_MAX) {
        adapt_leave(s, 1, "no import of torch at the file's top level: import %s where torch is",
                    s->o->import);
        return true;
    }
    bool open = at && at == s->f->len && s->f->text[at - 1] != '\n'; /* the file ends in the import */
    const char *lines = s->o->import_lines;
    adapt_edit_add(s, at, at,
                   lines ? xformat("%s%s", open ? "\n" : "", lines)
                         : xformat("%simport %s\n", open ? "\n" : "", s->o->import));
    return true;
}
