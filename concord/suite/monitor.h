/* monitor.h - what a person or a program sees while a suite runs: a status line, plain lines, JSON Lines. */
#ifndef CONCORD_SUITE_MONITOR_H
#define CONCORD_SUITE_MONITOR_H

#include "concord/suite/suite.h"

struct monitor {
    bool terminal, quiet;
    int done, total, bad; /* cases of both sides */
    int finished_before;  /* done when this process began */
    int64_t started, next_line;
    double expected_ms; /* recorded time of what is not collected yet */
    FILE *stream;       /* JSON Lines, NULL for none */
};
void monitor_begin(struct monitor *m, const struct suite_run *r, bool quiet, FILE *stream);
void monitor_note(struct monitor *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void monitor_added(struct monitor *m, int cases);
/* A case whose verdict is durable. */
void monitor_case(struct monitor *m, const struct suite_case *c);
/* Redraws the status line, or prints one every half minute where there is no terminal. */
void monitor_tick(struct monitor *m, int running);
void monitor_end(struct monitor *m);

/* One case as an object of the JSON Lines stream and of --json. New reference. */
json_t *monitor_json(const struct suite_case *c);

#endif
