/* replay.h - the rules against what people did: each hunk's old side is adapted and compared with its new
 * side.
 *
 * Where an upstream tree has the hunk's old side in the file of that name, the rules see that file. Otherwise
 * the hunk is a fragment: it is taken out of its indentation, torch's usual imports are assumed, and what it
 * shows is all that the rules see, so that an edit that needs more (a class that is a module, a variable
 * above the hunk) cannot be found and is counted as missing. In both cases they know four facts of the file
 * that its other hunks show (the style, layers moved or instances, a device variable at module level, the
 * transfer shim) and one of the branch (where imports go).
 *
 * A hunk is mechanical when its new side is its old side with devices given, devices' names replaced (in
 * names, strings, guards) and the backend imported, and nothing else (tokens.h says how that is told apart,
 * without a look at what the rules make of it). Every other hunk is hand work. The functions (of a hunk, as
 * far as it shows them) that people put on the device are those that the rules are asked for; the others are
 * left alone, as concord adapt leaves alone what no API asked for.
 */
#ifndef CONCORD_ADAPT_REPLAY_H
#define CONCORD_ADAPT_REPLAY_H

#include "concord/adapt/adapt.h"
#include "concord/patch/patch.h"

#define REPLAY_VERDICTS(X)                                                                                   \
    X(exact, "the rules give the hunk's new side (white space, line breaks and quotes aside)")               \
    X(respelt, "the same calls get the same device, in another spelling: device=, .npu() or .to()")          \
    X(subset, "all that the rules change is as people changed it, but people changed more")                  \
    X(different, "the rules change what people left, or changed otherwise")                                  \
    X(none, "no rule applies")

enum replay_verdict {
#define X(name, text) REPLAY_##name,
    REPLAY_VERDICTS(X)
#undef X
        REPLAY_VERDICT_COUNT
};
extern const char *const replay_verdict_names[REPLAY_VERDICT_COUNT];
extern const char *const replay_verdict_texts[REPLAY_VERDICT_COUNT];

/* An edit that people did not make, and why that does not speak against the rule. */
#define REPLAY_ARGUMENTS(X)                                                                                  \
    X(unargued, "a mistake of the rule")                                                                     \
    X(rewritten, "people wrote the statement anew; the edit puts the old one on the device")                 \
    X(layers, "people moved the layers where the class makes them, not the instance")                        \
    X(omitted, "people moved one operand of the expression and left this one on the CPU: devices mix")       \
    X(shimmed, "people left the name to the transfer shim that they import, which redirects it")             \
    X(placed, "people import the backend at another place than the branch's other patches do")               \
    X(no_import, "people use the device and import its backend nowhere in the file")

enum replay_argument {
#define X(name, text) REPLAY_##name,
    REPLAY_ARGUMENTS(X)
#undef X
        REPLAY_ARGUMENT_COUNT
};
extern const char *const replay_argument_names[REPLAY_ARGUMENT_COUNT];
extern const char *const replay_argument_texts[REPLAY_ARGUMENT_COUNT];

struct replay_hunk {
    uint32_t line; /* of the hunk in the patch, from 1 */
    enum replay_verdict verdict;
    bool mechanical;
    enum replay_argument argument; /* of the first edit that people did not make */
    char *ours; /* different: the line of that edit, as the rules have it; owned, else NULL */
};
struct replay {
    VEC(struct replay_hunk) hunks;
    size_t counts[2][REPLAY_VERDICT_COUNT]; /* [mechanical] */
    size_t right[RULE_COUNT];               /* edits that people made, in whatever spelling */
    size_t wrong[RULE_COUNT];               /* edits that they did not make, arguments aside */
    size_t argued[REPLAY_ARGUMENT_COUNT];   /* those with an argument; [unargued] is the sum of wrong */
    size_t seen;                            /* hunks that an upstream file has */
    size_t skipped;                         /* hunks of files that are not Python, or of new files */
};
/* Where the patches of a branch put the backend's import. */
struct replay_vote {
    char *path; /* of the target; owned */
    enum adapt_place place;
};
struct replay_votes {
    VEC(struct replay_vote) list;
};
void replay_vote(const struct patch *p, struct replay_votes *v);
/* What most of the other files of path's folder do, where three or more do it; else what most of the branch
 * does. path NULL: the branch. A file's own patch is never asked. */
enum adapt_place replay_place(const struct replay_votes *v, const char *path);
void replay_votes_free(struct replay_votes *v);
/* Adds every hunk of p. upstream: root of a source tree, or NULL. */
void replay_patch(const struct patch *p, const struct replay_votes *v, const char *upstream,
                  struct replay *r);
/* Edits that people made, of all that can be counted against the rules. */
double replay_precision(const struct replay *r);
void replay_free(struct replay *r);

#endif
