/* outline.h - definitions of a Python text found by its lines alone, before any parse.
 *
 * A parse costs a hundred times a read. The outline knows where each class and each function begins and ends
 * (indentation, brackets, strings and continued lines, as in Python's language reference, "Lexical
 * analysis"), so that what an answer does not need can be blanked before it is parsed. Offsets and rows stay
 * as they are.
 */
#ifndef CONCORD_SCAN_OUTLINE_H
#define CONCORD_SCAN_OUTLINE_H

#include "concord/pysrc/pysrc.h"

struct outline_def {
    uint32_t start;     /* of its first decorator or of the header */
    uint32_t body, end; /* body starts after the header's line; body == end: it stands on the header's line */
    uint32_t name, name_len;
    int32_t parent; /* index of the class around it, -1 at module level */
    bool class;
};
struct outline {
    VEC(struct outline_def) defs; /* in source order; functions inside functions are part of them */
};

void outline_read(struct outline *o, const char *text, size_t len);
void outline_free(struct outline *o);

/* Bytes that a parse may leave out: bodies, of each of which one expression is kept. In order. */
typedef VEC(struct py_span) outline_skips;

/* Every body is left out: what remains binds what the module exports. */
void outline_exports(char *text, size_t len, outline_skips *skips);
/* Leaves out the functions that say nothing of the words: not those that contain one, nor those that name
 * such a function or its class, or that are named by one, nor what sets a kept class up. False: nothing
 * contains one. Attributes are words
 * that count only where one of the others is found. The text is changed inside what is left out only. */
bool outline_keep(char *text, size_t len, const strings *words, const strings *attributes,
                  outline_skips *skips);
/* Whether one of the words stands in the text, as a word of its own. */
bool outline_has_word(const char *text, size_t len, char *const *words, size_t nwords);

#endif
