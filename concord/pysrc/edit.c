/* edit.c - byte-range edits: every byte that is not edited stays as it was, and the result must still parse.
 */
#include "concord/pysrc/private.h"

#include <stdlib.h>

struct ordered {
    struct py_edit edit;
    size_t rank;
};

static int by_place(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->edit.start != y->edit.start) return x->edit.start < y->edit.start ? -1 : 1;
    if (x->edit.end != y->edit.end)
        return x->edit.end < y->edit.end ? -1 : 1; /* insertions before replacements */
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int splice(const struct py_file *f, const struct ordered *sorted, size_t n, struct buf *out,
                  struct err *e)
{
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct py_edit *d = &sorted[i].edit;
        if (d->start < at || d->end < d->start || d->end > f->len)
            return err_set(e, "%s: edits overlap or lie outside the file at byte %u", f->path, d->start);
        buf_add(out, f->text + at, d->start - at);
        buf_adds(out, d->with);
        at = d->end;
    }
    buf_add(out, f->text + at, f->len - at);
    return 0;
}

int py_apply(const struct py_file *f, const struct py_edit *edits, size_t n, struct buf *out, struct err *e)
{
    struct ordered *sorted = xcalloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = (struct ordered){edits[i], i};
    qsort(sorted, n, sizeof *sorted, by_place);
    buf_clear(out);
    int rc = splice(f, sorted, n, out, e);
    free(sorted);
    if (rc) return rc;
    uint32_t row = f->error_row ? 0 : py_syntax_error_row(buf_str(out), out->len);
    if (row) return err_set(e, "%s: the edited file would have a syntax error in line %u", f->path, row);
    return 0;
}
