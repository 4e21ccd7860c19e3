/* dossier.h - what the steps of a campaign found out: one folder, one fact a step and release.
 *
 *   DIR/facts/STEP.json, DIR/facts/STEP@RELEASE.json    written whole, read by reports and by later steps
 *   DIR/patches/RELEASE/...                             the patch files, paths as in the plugin's repository
 *   DIR/report/                                         the renderings
 *
 * A fact says what it stands on (revisions, SHA-256), so that a reader can tell when it no longer holds.
 */
#ifndef CONCORD_DOSSIER_H
#define CONCORD_DOSSIER_H

#include "concord/base/base.h"
#include <jansson.h>

struct dossier_fact {
    char *step, *release; /* release "" for facts of the whole campaign */
    json_t *body;
};
struct dossier {
    char *dir;
    VEC(struct dossier_fact) facts;
};

/* $CONCORD_HOME/work/<campaign>. Owned. */
char *dossier_folder(const char *campaign);
/* Loads what is there; a folder that does not exist yet is an empty dossier. */
int dossier_open(const char *dir, struct dossier *d, struct err *e);
void dossier_close(struct dossier *d);
/* NULL when there is none; d may be NULL. Borrowed. release NULL stands for "". */
const json_t *dossier_get(const struct dossier *d, const char *step, const char *release);
/* Takes body. On disk before it returns. */
int dossier_put(struct dossier *d, const char *step, const char *release, json_t *body, struct err *e);
int dossier_drop(struct dossier *d, const char *step, const char *release, struct err *e);
/* A path below the folder. Owned. */
char *dossier_path(const struct dossier *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The text of a member, "" when there is none. */
const char *fact_text(const json_t *body, const char *key);
/* Takes value. Ends the program when it is NULL: a fact that cannot be written is not left out in silence. */
void fact_append(json_t *array, json_t *value);
/* Everything that holds text or numbers, as one canonical digest. */
void fact_digest(const json_t *body, char out[65]);

#endif
