/* progress.h - what a person sees while cases run: one line that is redrawn on a terminal, plain lines
 * elsewhere. */
#ifndef CONCORD_RUN_PROGRESS_H
#define CONCORD_RUN_PROGRESS_H

#include "concord/run/record.h"

struct progress {
    bool terminal, quiet;
    int done, total, bad; /* bad: done and neither PASSED nor SKIPPED */
    int64_t started;
};
void progress_begin(struct progress *p, const struct run_record *r, bool quiet);
/* A line of its own, above the status. */
void progress_note(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_running(struct progress *p, const struct case_record *c);
/* Prints the case when its verdict is not PASSED. */
void progress_done(struct progress *p, const struct case_record *c);
void progress_end(struct progress *p);

#endif
