/* json.h - the model as JSON, shared by the document for programs and the page's data. */
#ifndef CONCORD_REPORT_JSON_H
#define CONCORD_REPORT_JSON_H

#include "concord/report/report.h"

/* Everything but the cases (docs/report-schema.md). The caller's. */
json_t *report_summary(const struct report *r);
/* The text as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD: a test's output may
 * hold anything. */
void put_json_string(struct buf *out, const char *text);
/* ,"key":"text" */
void put_json_member(struct buf *out, const char *key, const char *text);
/* The case's facts as they are in the journal, null when there are none or when they are not JSON. */
const char *report_facts_text(const struct report *r, size_t i);

#endif
