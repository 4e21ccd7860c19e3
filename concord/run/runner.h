/* runner.h - runs what the journal still has planned: workers, time limits, verdicts. */
#ifndef CONCORD_RUN_RUNNER_H
#define CONCORD_RUN_RUNNER_H

#include "concord/run/journal.h"

/* A release whose environment is needed, and the answer. */
struct env_request {
    const struct campaign_release *release;
    char *folder,
        *lock; /* of a ready environment: owned by the caller; folder NULL otherwise, and why says why */
    struct err why;
};
/* Makes the environments that are not ready. Ends early when proc_interrupted is set. */
typedef void env_provider(struct env_request *requests, size_t n);

/* The provider of concord verify: concord's own environments (concord/env). */
env_provider run_environments;

struct runner {
    struct journal *journal;
    struct run_record *record; /* loaded from the journal; kept in step with it */
    const struct campaign *campaign;
    const struct device_setup *setup;
    const char *harness; /* folder with serve.py */
    env_provider *env;
    int64_t case_timeout_ms, start_timeout_ms;
    int workers; /* releases side by side; 0: as many as the machine serves well */
    bool quiet;
};

/* 0 when nothing is left planned. 1 when interrupted: the journal can be resumed. -1 on an error of the
 * journal. A release that cannot be run is no error here: its cases say why. */
int runner_run(struct runner *r, struct err *e);

/* How many workers suit a machine of so many processors and so much memory. */
int runner_workers(int asked, int releases, int cpus, int64_t memory_bytes);

#endif
