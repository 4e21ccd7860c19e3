/* replay.h - the rules against what people did: each hunk's old side is adapted and compared with its new
 * side.
 *
 * A hunk is a fragment of a file: it is taken out of its indentation, torch's usual imports are assumed, and
 * what it shows is all that the rules see. So an edit that needs more than the hunk (a device variable above
 * it, a class that is a module) cannot be found here, and is counted as missing.
 */
#ifndef CONCORD_ADAPT_REPLAY_H
#define CONCORD_ADAPT_REPLAY_H

#include "concord/adapt/adapt.h"
#include "concord/patch/patch.h"

#define REPLAY_VERDICTS(X)                                                                                   \
    X(exact, "the rules give the hunk's new side")                                                           \
    X(subset, "every line that the rules change is as people changed it, but people changed more")           \
    X(different, "the rules change a line that people left, or changed otherwise")                           \
    X(none, "no rule applies")

enum replay_verdict {
#define X(name, text) REPLAY_##name,
    REPLAY_VERDICTS(X)
#undef X
        REPLAY_VERDICT_COUNT
};
extern const char *const replay_verdict_names[REPLAY_VERDICT_COUNT];
extern const char *const replay_verdict_texts[REPLAY_VERDICT_COUNT];

struct replay_hunk {
    uint32_t line; /* of the hunk in the patch, from 1 */
    enum replay_verdict verdict;
    char *ours; /* different: the first line that differs, as the rules have it; owned, else NULL */
};
struct replay {
    VEC(struct replay_hunk) hunks;
    size_t counts[REPLAY_VERDICT_COUNT];
    size_t right[RULE_COUNT], wrong[RULE_COUNT]; /* edits on lines that people changed alike, and others */
    size_t skipped;                              /* hunks of files that are not Python, or of new files */
};
/* Adds every hunk of p. */
void replay_patch(const struct patch *p, struct replay *r);
void replay_free(struct replay *r);

#endif
