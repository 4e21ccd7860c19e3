/* review.h - the text of one branch's review: the target branch's own template, filled from the evidence.
 *
 * The template's headings, hints and boxes stay as they are; under each heading that is known stands what the
 * evidence says, and a box is ticked only where a fact does it. Headings that are not known stay empty, for a
 * person. The language is the template's.
 */
#ifndef CONCORD_REPORT_REVIEW_H
#define CONCORD_REPORT_REVIEW_H

#include "concord/report/report.h"

struct review_request {
    const struct report *report;
    const char *release;
    const char *template;
    const char *issue; /* URL or NULL */
    const char *title; /* of the review */
    size_t limit;      /* characters, 0: none; what does not fit is in the attachments */
};
void review_text(const struct review_request *q, struct buf *out);
/* Characters (not bytes) of UTF-8 text. */
size_t review_length(const char *text);

#endif
