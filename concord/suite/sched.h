/* sched.h - runs what a suite run still has planned: warm processes, units, slots, limits, verdicts.
 *
 * One thread and one poll. A turn reads what slots said, judges it, chooses what comes next, makes all of
 * that durable in one transaction, and only then gives the orders and tells the person. */
#ifndef CONCORD_SUITE_SCHED_H
#define CONCORD_SUITE_SCHED_H

#include "concord/run/probe.h"
#include "concord/suite/expect.h"
#include "concord/suite/judge.h"
#include "concord/suite/monitor.h"
#include "concord/suite/store.h"

enum isolation { ISOLATE_CASE, ISOLATE_FILE, ISOLATE_FRESH, ISOLATIONS };
extern const char *const isolation_names[ISOLATIONS]; /* "case", "file", "fresh" */

/* How the processes of one side are started. */
struct sched_side {
    bool used;
    const struct device_setup *setup;
    const char *python;
    const char *plugin;                   /* module, "" for none */
    bool torch;                           /* import it before the first unit */
    const char *want_torch, *want_plugin; /* versions that must be found, "" for any */
    strings env;                          /* "NAME=value" for the units */
    strings devices; /* one warm process for each: value of ASCEND_RT_VISIBLE_DEVICES; empty: one process,
                        variable as is */
};

struct sched_options {
    int jobs;
    enum isolation isolation;
    int64_t case_ms, file_ms, run_ms, start_ms; /* 0: no limit (file, run) */
    int64_t memory_mib, output_mib, processes, files;
    int retries;
    bool fail_fast;
    const char *harness;
    const char *crash_library; /* "" for none */
};

struct sched {
    const struct sched_options *options;
    struct sched_side sides[SIDES];
    struct store *store;
    struct suite_run *run;
    struct expectations *expect; /* NULL for none */
    struct monitor *monitor;
    /* NULL: every collected case is run. Called once a case, before it is stored. */
    bool (*wanted)(void *context, const struct suite_case *c);
    void *context;
    bool collect_only; /* ends when every unit's cases are known */
};

/* 0 when nothing is left planned, 1 when interrupted or stopped by a limit or --fail-fast, -1 on an error of
 * the journal or when a side's process cannot be started or is not what was asked for. */
int sched_run(struct sched *s, struct err *e);

#endif
