/* steps.h - a campaign from its file to its reviews: steps in order, each of which leaves facts in the
 * dossier.
 *
 * A step's fact holds the digest of what it stood on (its inputs). While those are the same the step is kept;
 * when they change it runs again, and with it what stands on it. So a campaign can be interrupted anywhere
 * and resumed by running it again.
 */
#ifndef CONCORD_STEPS_H
#define CONCORD_STEPS_H

#include "concord/campaign/campaign.h"
#include "concord/dossier/dossier.h"

/* X(name, once a release, what it does): in the order of work. */
#define STEPS(X)                                                                                             \
    X(base, true, "the target branch in the clone")                                                          \
    X(scan, true, "upstream tests that cover the APIs")                                                      \
    X(adapt, true, "patches that put them on the device")                                                    \
    X(audit, true, "static audit of the patches")                                                            \
    X(docs, true, "what the documentation says")                                                             \
    X(verify, false, "every case on the device, compared with the CPU")                                      \
    X(suite, true, "the adapted upstream tests, against the originals on the CPU")                           \
    X(branch, true, "one branch with one commit")                                                            \
    X(report, false, "task text, page, JSON, JUnit, SARIF")                                                  \
    X(review, true, "the review's text in the branch's own template")                                        \
    X(pack, false, "the evidence as one archive")

enum step_id {
#define X(name, each, what) STEP_##name,
    STEPS(X)
#undef X
        STEP_COUNT
};

/* A campaign at work. */
struct steps {
    struct campaign *campaign;
    struct dossier dossier;
    char *clone;          /* the plugin's repository */
    const char *upstream; /* instead of the campaign's: folder, archive, clone or URL, {torch} replaced */
    const char *device, *toolkit, *journal; /* for verify; NULL: its own choice */
    const char *accept;                     /* a person's word on what the adaption left, or NULL */
    const char *sign_key;                   /* ssh key for the pack, or NULL */
    bool replace;                           /* branches that are there with another commit */
    bool again;                             /* run steps although nothing changed */
};

/* What a step says besides an error (-1). */
enum step_outcome {
    STEP_OK = 0,
    STEP_FINDINGS = 1, /* done, and what it found stops the work */
    STEP_WAITS = 2     /* a person must decide; the step said what and how */
};
/* *body: the fact, NULL for none; release NULL for steps of the whole campaign. */
typedef int step_function(struct steps *s, const struct campaign_release *release, json_t **body,
                          struct err *e);
/* What the step stands on; NULL: it always runs. The caller's. */
typedef json_t *step_inputs(const struct steps *s, const struct campaign_release *release);

struct step {
    const char *name, *what;
    bool each;
    step_function *run;
    step_inputs *inputs;
};
extern const struct step steps_table[STEP_COUNT];
#define X(name, each, what)                                                                                  \
    step_function step_##name;                                                                               \
    step_inputs inputs_##name;
STEPS(X)
#undef X

/* Opens the dossier. clone, dir: NULL for the campaign's source where it is a folder, and for the usual
 * place. */
int steps_open(struct steps *s, struct campaign *c, const char *clone, const char *dir, struct err *e);
void steps_close(struct steps *s);
/* Runs from..to. Outcome of the step that stopped it, or STEP_OK. */
int steps_run(struct steps *s, enum step_id from, enum step_id to, struct err *e);
/* True when the step's fact is there and stands on the present inputs. */
bool steps_fresh(const struct steps *s, enum step_id step, const struct campaign_release *release);
/* The step's position, -1 when there is none of that name. */
int steps_find(const char *name);

/* A line of progress on standard output: step, release, text. */
void steps_say(const char *step, const struct campaign_release *release, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Where the release's upstream files are read from: PLACE or PLACE#REVISION. Owned; NULL with *e. */
char *steps_upstream(const struct steps *s, const struct campaign_release *release, struct err *e);
/* Digest of a step's fact, "" when there is none: for inputs of later steps. */
json_t *steps_fact_digest(const struct steps *s, const char *step, const struct campaign_release *release);
json_t *steps_texts(const strings *list);

#endif
