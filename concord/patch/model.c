/* model.c - the patch model's own questions: faults by name, lines, ownership. */
#include "concord/patch/patch.h"

#include <assert.h>
#include <stdlib.h>

static const struct {
    const char *name;
    bool blocks;
} fault_rows[] = {
#define X(id, name, blocks) {name, blocks},
    PATCH_FAULTS(X)
#undef X
};
static_assert(sizeof fault_rows / sizeof *fault_rows == FAULT_KINDS, "one row a fault");

const char *patch_fault_name(enum patch_fault_kind kind)
{
    return fault_rows[kind].name;
}

bool patch_fault_blocks(enum patch_fault_kind kind)
{
    return fault_rows[kind].blocks;
}

struct slice patch_line_text(const struct patch *p, uint32_t line)
{
    const struct patch_line *l = &p->lines.ptr[line];
    return (struct slice){buf_str(&p->text) + l->off, l->len};
}

struct slice patch_line_content(const struct patch *p, uint32_t line)
{
    struct slice s = patch_line_text(p, line);
    if (s.len) s.ptr++, s.len--;
    return s;
}

bool patch_line_unterminated(const struct patch *p, uint32_t line, uint32_t end)
{
    return line + 1 < end && p->lines.ptr[line + 1].kind == LINE_NO_EOL;
}

void patch_free(struct patch *p)
{
    for (size_t i = 0; i < p->files.len; i++) free(p->files.ptr[i].path);
    vec_free(&p->files);
    vec_free(&p->lines);
    vec_free(&p->hunks);
    vec_free(&p->faults);
    buf_free(&p->text);
}

const struct patch_fault *patch_blocked(const struct patch *p)
{
    for (size_t i = 0; i < p->faults.len; i++)
        if (patch_fault_blocks(p->faults.ptr[i].kind)) return &p->faults.ptr[i];
    return NULL;
}
