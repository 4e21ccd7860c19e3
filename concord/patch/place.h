/* place.h - one edit put into the target, given how its hunk is aligned. */
#ifndef CONCORD_PATCH_PLACE_H
#define CONCORD_PATCH_PLACE_H

#include "concord/patch/anchor.h"
#include "concord/patch/port.h"

/* An edit of a hunk: old lines [from, to) of its old side are replaced by the added lines. */
struct hunk_edit {
    uint32_t from, to;
    uint32_t patch_line; /* first changed line */
    VEC(struct slice) added;
};
/* What it becomes: target lines [from, to) are replaced by text. */
struct placed {
    uint32_t from, to;
    struct buf text;
    enum port_outcome outcome;
    char *reason; /* owned or NULL */
};
void place_edit(const struct target *g, const struct old_side *o, const struct candidate *c,
                const struct hunk_edit *e, struct placed *out);

#endif
