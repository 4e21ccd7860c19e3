/* record.h - a run as the journal has it: the one model that the table, the reports and --resume read. */
#ifndef CONCORD_RUN_RECORD_H
#define CONCORD_RUN_RECORD_H

#include "concord/run/verdict.h"
#include <jansson.h>

enum case_state { CASE_PLANNED, CASE_RUNNING, CASE_DONE, CASE_STATES };

struct case_record {
    int64_t id;
    char *release, *api, *name, *passes;
    enum case_state state;
    int attempts;
    enum verdict verdict; /* NOT RUN until done */
    char *reason;
    char *started; /* UTC, "" before */
    double ms;
    int64_t launches;
    enum device_kind kind;
    char *facts; /* the worker's line for the case as JSON text, without its output; "" before. Text, because
                    a run of 50,000 cases must load into a few hundred bytes a case: see case_facts */
    char *output, *stack;
};

struct release_record {
    char *name, *torch, *branch; /* name: version of torch_npu, unique in the campaign */
    char *env, *lock;            /* environment's folder and lock text, "" before */
    enum device_kind kind;
    char *device;  /* name, e.g. "Ascend910B4" */
    json_t *hello; /* the worker's facts: versions, libraries; NULL before */
    char *error;   /* why no worker could run, "" otherwise */
};

struct run_record {
    int64_t id;
    char *campaign, *path, *digest, *choice, *tolerances, *command, *started, *finished, *version;
    json_t *host; /* system, machine, cpus */
    strings apis;
    VEC(struct release_record) releases;
    VEC(struct case_record) cases; /* by release, then API, then catalogue order */
};
void run_record_free(struct run_record *r);
/* The facts, parsed; the caller's. NULL before the case was executed. */
json_t *case_facts(const struct case_record *c);

/* An API on a release. */
struct cell {
    const char *release, *api;
    enum verdict verdict;
    int counts[VERDICT_COUNT], total;
    int64_t launches;
    double ms;
    enum device_kind kind;
    const struct case_record *worst; /* first case that decides a verdict other than PASSED, or NULL */
};
struct cell record_cell(const struct run_record *r, const char *release, const char *api);
/* Cells whose verdict is PASSED, of how many. */
int record_passed(const struct run_record *r, int *total);
/* True when no case is left to run. */
bool record_complete(const struct run_record *r);
struct release_record *record_release(const struct run_record *r, const char *name);
/* The kind of all releases that ran; NONE if they differ or none ran, with *mixed set if they differ. */
enum device_kind record_kind(const struct run_record *r, bool *mixed);

#endif
