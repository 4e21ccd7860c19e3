/* evidence.h - which class and function an edit belongs to, and whether a place in the target is inside the
 * same. */
#ifndef CONCORD_PATCH_EVIDENCE_H
#define CONCORD_PATCH_EVIDENCE_H

#include "concord/patch/place.h"

struct evidence {
    char *exact; /* qualified name, from the file the patch was made for; NULL when it is not at hand */
    char *outer; /* class or def in the first column around the edit, as far as the hunk shows; or NULL */
    char *inner; /* the nearest def or class around the edit that the hunk shows; or NULL */
    char *below; /* what a decorator of the edit decorates; or NULL */
    uint32_t outer_at, inner_at; /* the old line that says so; UINT32_MAX: the section, or none */
    bool from_section;           /* outer is from the hunk's section text */
    struct slice section;
    size_t indent; /* of the edit's first line that is not blank */
};
/* from: the file the patch was made for, or NULL; line: the edit's first line in it, from 0. */
void evidence_read(struct evidence *ev, struct slice section, const struct old_side *o,
                   const struct hunk_edit *e, const struct target *from, uint32_t line);
void evidence_free(struct evidence *ev);
/* Is the class or function around the edit known, as far as it has one? */
bool evidence_certain(const struct evidence *ev);
/* Does replacing target lines [from, to) stay inside what is known? c: how the hunk is aligned. */
bool evidence_agrees(const struct evidence *ev, const struct target *g, uint32_t from, uint32_t to,
                     const struct candidate *c);
/* Qualified name of the scope that an edit of that indent at target lines [from, to) is in; "" for the
 * module. */
const char *scope_at(const struct target *g, uint32_t from, uint32_t to, size_t indent);
size_t indent_of(struct slice s);

#endif
