/* render.h - a run for people and programs: the table, JSON, JUnit XML, annotations. */
#ifndef CONCORD_SUITE_RENDER_H
#define CONCORD_SUITE_RENDER_H

#include "concord/suite/suite.h"

struct render_request {
    const char *json, *junit, *annotations; /* NULL: not wanted */
};
/* The table goes to standard output (to standard error when JSON goes there). */
int render_all(const struct suite_run *r, const struct render_request *q, struct err *e);

void render_table(const struct suite_run *r, struct buf *out);
json_t *render_json(const struct suite_run *r);
void render_junit(const struct suite_run *r, struct buf *out);
/* A line for each bad case: GitHub's workflow commands, or GitCode's, which are the same but for the columns.
 */
void render_annotations(const struct suite_run *r, struct buf *out);

#endif
