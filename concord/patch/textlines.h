/* textlines.h - a file's contents as lines, without copies. */
#ifndef CONCORD_PATCH_TEXTLINES_H
#define CONCORD_PATCH_TEXTLINES_H

#include "concord/patch/patch.h"

struct textlines {
    VEC(struct slice) v; /* without the newline */
    bool unterminated;   /* the last line has none */
};
void textlines_of(struct textlines *t, struct slice text);
void textlines_free(struct textlines *t);
/* Adds lines [from, to) with their newlines, each after the prefix (may be ""); with a prefix, an
 * unterminated last line is followed by git's \ line. */
void textlines_add(const struct textlines *t, size_t from, size_t to, const char *prefix, struct buf *out);
/* What git prints behind a hunk header for a hunk whose first line is at index line: "" or " text". Owned by
 * out. */
void textlines_section(const struct textlines *t, size_t line, struct buf *out);

#endif
