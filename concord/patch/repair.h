/* repair.h - a faulty patch made right where its intent is not in doubt.
 *
 * From the patch alone: counts, new starts, order, line ends, byte order mark, stripped context, hunks cut
 * off from their file. With the upstream source whose file is the patch's base: places (only where exactly
 * one fits), ids, and context for hunks that have none. What is repaired against a base is proved: the
 * result, applied to the base, gives the intended contents. What is in doubt stays as it was, with the
 * reason.
 */
#ifndef CONCORD_PATCH_REPAIR_H
#define CONCORD_PATCH_REPAIR_H

#include "concord/patch/patch.h"
#include "concord/patch/source.h"

struct repair_note {
    uint32_t line; /* of the patch as it was, from 1 */
    bool fixed;
    char rule[32];
    char text[240];
};
struct repair {
    VEC(struct repair_note) notes;
    size_t fixed, left;
    bool proved; /* every section was checked against its base */
};
/* name: the patch file's path, whose own name tells the target of a headless hunk. s may be NULL. *out gets
 * the whole patch, equal to the input when nothing could be done. Fails only on I/O. */
int patch_repair(const char *name, struct slice text, struct source *s, struct buf *out, struct repair *r,
                 struct err *e);
void repair_free(struct repair *r);

#endif
