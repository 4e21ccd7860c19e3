/* private.h - what the steps' own files share. */
#ifndef CONCORD_STEPS_PRIVATE_H
#define CONCORD_STEPS_PRIVATE_H

#include "concord/report/report.h"
#include "concord/steps/steps.h"

/* The run that the fact of the step verify names. */
int steps_load_run(const struct steps *s, struct run_record *record, struct err *e);

/* The model of that run and the dossier. On failure nothing is left open. */
struct steps_model {
    struct run_record record;
    struct report report;
};
int steps_model_open(const struct steps *s, struct steps_model *m, struct err *e);
void steps_model_close(struct steps_model *m);

/* "test-checkpoint-npu-v2.7.1". Owned. */
char *steps_branch_name(const struct campaign *c, const struct campaign_release *release);
struct source;
/* First sentences of the APIs' documentation strings, by API; those that have one in Python source. The
 * caller's. */
json_t *steps_functions(const struct campaign *c, struct source *src);
/* Path of this program. Owned. */
char *steps_self(void);
/* True when the adaption changed no patch file of the release: there is no branch and no review. */
bool steps_nothing(const struct steps *s, const struct campaign_release *release);
/* The title of commits and reviews, in the repository's convention. Owned. */
char *steps_title(const struct campaign *c);

#endif
