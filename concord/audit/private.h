/* private.h - what the audit's own files share. */
#ifndef CONCORD_AUDIT_PRIVATE_H
#define CONCORD_AUDIT_PRIVATE_H

#include "concord/audit/audit.h"

/* Every rule over one parsed patch. */
int audit_one(const char *file, const struct patch *p, const struct audit_options *o, struct findings *out,
              struct err *e);
/* Is the rule among those asked for? */
bool audit_wanted(const struct audit_options *o, int rule);

/* ---- rules over several patches (together.c) --------------------------------------------------------- */

struct section {
    char *file, *target;            /* the patch and what it changes; owned */
    char *root;                     /* the folder of the set that the patch belongs to; owned */
    uint32_t line, index;           /* patch lines, from 0: of the section, of its index line (0: none) */
    char ids[2 * PATCH_ID_MAX + 3]; /* "old..new", empty when either is missing or absent */
    uint64_t edit;                  /* hash of the hunks' lines */
};
struct together {
    VEC(struct section) list;
};
void together_add(struct together *t, const char *file, const struct patch *p);
/* Reports target-shared and id-fabricated. */
int together_check(struct together *t, const struct audit_options *o, struct findings *out, struct err *e);
void together_free(struct together *t);

#endif
