/* side.h - one side of a patch section as a Python source model.
 *
 * Where upstream's file is at hand it is the whole file. Otherwise the hunks' lines are put together into one
 * text, each hunk under the scopes that its section text and its indents tell of, so that names resolve as
 * far as the hunks show; what a hunk leaves open at its edges (brackets, strings, a block's first or last
 * statement) is closed.
 */
#ifndef CONCORD_AUDIT_SIDE_H
#define CONCORD_AUDIT_SIDE_H

#include "concord/audit/audit.h"

struct side {
    struct py_file *file;
    bool whole;         /* the file belongs to the view */
    VEC(uint32_t) line; /* by row - 1: index into view.lines, UINT32_MAX for rows that no hunk shows */
    VEC(uint32_t) row;  /* by row - 1: offset of the row in the text */
};

/* The patched side. */
void side_make(struct side *s, const struct view *v);
void side_free(struct side *s);
/* The hunk line at a byte of the text; NULL when no hunk shows it. */
const struct vline *side_line(const struct side *s, const struct view *v, uint32_t offset);

#endif
