/* anchor.h - where a hunk's old side stands in another version of the file. */
#ifndef CONCORD_PATCH_ANCHOR_H
#define CONCORD_PATCH_ANCHOR_H

#include "concord/patch/textlines.h"
#include "concord/pysrc/pysrc.h"

/* The target's lines, indexed by their trimmed text. */
struct target {
    struct textlines t;
    struct slice *trimmed; /* a line */
    uint64_t *hashes;      /* of the trimmed line */
    uint32_t *next;        /* next line with the same bucket, +1 */
    uint32_t *first;       /* bucket: first line, +1 */
    uint32_t nbuckets;
    struct py_file *py; /* NULL when not Python */
    uint32_t *scope;    /* innermost class or function a line, 0 the module; NULL when not Python */
};
void target_make(struct target *g, const char *path, struct slice text);
void target_free(struct target *g);
uint32_t target_count(const struct target *g,
                      struct slice line); /* lines equal to it, white space at the ends aside */

enum { UNALIGNED = -1 };
enum match_quality { MATCH_NONE, MATCH_ALIKE, MATCH_INDENT, MATCH_EXACT };

/* One way to lay the old side over the target. */
struct candidate {
    int32_t drift;                 /* target line of the alignment's middle less the source's */
    double score;                  /* share of the old side's weight that is matched, 0 to 1 */
    uint32_t first, last;          /* aligned target lines */
    uint32_t edit_first, edit_end; /* target lines that its edits touch, end exclusive, when placed */
    uint64_t placement;            /* equal for candidates that place every edit alike */
    int32_t *align;                /* target line of each old line, UNALIGNED if none; owned */
};
typedef VEC(struct candidate) candidates;

struct old_line {
    struct slice text;
    uint32_t patch_line;
    bool removed;
    bool near; /* next to an edit */
};
struct old_side {
    VEC(struct old_line) lines;
    uint32_t start; /* line of the old file, from 0 */
};
/* Candidates with at least a third of the weight, best first; hints are drifts to try in any case. from and
 * to limit the target lines (from 0, to exclusive). */
void find_candidates(const struct target *g, const struct old_side *o, const int32_t *hints, size_t nhints,
                     uint32_t from, uint32_t to, candidates *out);
void candidates_free(candidates *c);
enum match_quality match_lines(struct slice a, struct slice b);

#endif
