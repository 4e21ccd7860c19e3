/* plan.h - which cases run on which releases: harness/cases.tsv times the campaign's releases. */
#ifndef CONCORD_RUN_PLAN_H
#define CONCORD_RUN_PLAN_H

#include "concord/campaign/campaign.h"

/* A row of cases.tsv. */
struct plan_case {
    char *api, *name;
    char *passes;  /* "forward" or "backward": how far the case goes */
    char *en, *zh; /* what it covers */
};
struct plan_catalogue {
    VEC(struct plan_case) cases;
};
int plan_catalogue_load(const char *path, struct plan_catalogue *out, struct err *e);
void plan_catalogue_free(struct plan_catalogue *c);
const struct plan_case *plan_find(const struct plan_catalogue *c, const char *api, const char *name);

/* Everything that defines a run; what the journal keeps of the question. */
struct plan {
    const struct campaign *campaign;     /* already narrowed to the releases and APIs that were asked for */
    char *digest;                        /* SHA-256 of the campaign file */
    const char *device;                  /* the choice: "auto", "hardware", "software" */
    strings apis;                        /* those that have cases in the plan */
    VEC(const struct plan_case *) cases; /* rows of the catalogue, its order within each API */
};
void plan_free(struct plan *p);

/* Takes the catalogue's cases of the plan's APIs, only those whose name matches one of the patterns if there
 * are any (fnmatch). An API without a case, and patterns that match nothing, are errors. */
int plan_choose_cases(struct plan *p, const struct plan_catalogue *c, const strings *patterns, struct err *e);

#endif
