/* port.h - a patch's edits carried to another release's file.
 *
 * An edit is a maximal run of removed and added lines. Each hunk's old side is aligned with the target's
 * lines; an edit goes where its removed lines and its neighbours stand, inside the same class and function.
 * Line numbers only order the hunks and break ties that nothing else can. What is in doubt is a conflict that
 * names both sides; what the target has already is dropped and said.
 */
#ifndef CONCORD_PATCH_PORT_H
#define CONCORD_PATCH_PORT_H

#include "concord/patch/patch.h"

#define PORT_OUTCOMES(X)                                                                                     \
    X(carried, "carried as it is")                                                                           \
    X(adapted, "carried, merged with the target's own change")                                               \
    X(upstream, "dropped: the target has it already")                                                        \
    X(conflict, "conflict")

enum port_outcome {
#define X(name, text) PORT_##name,
    PORT_OUTCOMES(X)
#undef X
        PORT_OUTCOME_COUNT
};
const char *port_outcome_text(enum port_outcome o);

struct port_edit {
    uint32_t line;   /* first changed line of the patch, from 1 */
    uint32_t source; /* line of the old file, from 1, as the patch says */
    uint32_t target; /* line of the target's file before the edits, from 1; 0 for conflicts */
    uint32_t removed, added;
    enum port_outcome outcome;
    char *reason; /* conflicts and adaptions; owned; else NULL */
    char *scope;  /* qualified name around the edit in the target, "" for the module; owned */
    bool certain; /* the patch, or the file it was made for, shows which class or function it belongs to */
};
struct port {
    VEC(struct port_edit) edits;
    size_t counts[PORT_OUTCOME_COUNT];
    size_t uncertain; /* settled edits whose function neither the patch nor a base file shows */
};

/* Carries section f. from: the file the patch was made for, ptr NULL when not at hand; to: the target's file.
 * *post gets the target with every edit that could be carried. */
void port_section(const struct patch *p, const struct patch_file *f, struct slice from, struct slice to,
                  struct port *r, struct buf *post);
void port_free(struct port *r);

#endif
