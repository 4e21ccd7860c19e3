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

/* The start of the line behind an import; the first that is fit among: the last of torch.testing before
 * common_cuda, common_cuda itself (in front of it), the last of torch. UINT32_MAX if the file imports none at
 * its top level. */
static uint32_t import_place(const struct py_file *f)
{
    uint32_t testing = UINT32_MAX, torch = UINT32_MAX;
    for (size_t i = 0; i < f->imports.len; i++) {
        const struct py_import *m = &f->imports.ptr[i];
        if (!at_top(f, m)) continue;
        if (is_common_cuda(m->module)) return testing == UINT32_MAX ? m->at.start : testing;
        bool under = !strcmp(m->module, "torch") || str_starts(m->module, "torch.");
        if (!under) continue;
        const char *line = memchr(f->text + m->at.end, '\n', f->len - m->at.end);
        uint32_t behind = line ? (uint32_t)(line - f->text) + 1 : f->len;
        torch = behind;
        if (str_starts(m->module, "torch.testing")) testing = behind;
    }
    return testing == UINT32_MAX ? torch : testing;
}

bool rule_import(struct adapt_site *s)
{
    for (size_t i = 0; i < s->f->imports.len; i++)
        if (s->f->imports.ptr[i].scope == 0 && !strcmp(s->f->imports.ptr[i].module, s->o->import))
            return true;
    uint32_t at = import_place(s->f);
    if (at == UINT32_MAX) {
        adapt_leave(s, 1, "no import of torch at the file's top level: import %s where torch is",
                    s->o->import);
        return true;
    }
    bool open = at && s->f->text[at - 1] != '\n'; /* the file ends in the import, without a newline */
    adapt_edit_add(s, at, at, xformat("%simport %s\n", open ? "\n" : "", s->o->import));
    return true;
}
