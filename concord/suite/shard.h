/* shard.h - which of the collected cases this run is about: filters, repetition of earlier ones, shards. */
#ifndef CONCORD_SUITE_SHARD_H
#define CONCORD_SUITE_SHARD_H

#include "concord/suite/filter.h"
#include "concord/suite/sched.h"

struct selection {
    struct filter *only;
    struct map rerun, shard; /* names (suite_case_name) */
    bool has_rerun, has_shard;
};

/* only, rerun: expressions or NULL; rerun is looked up in the store's last run, "failed" is everything bad of
 * it. */
int selection_open(struct selection *x, const char *only, const char *rerun, struct store *s, struct err *e);
void selection_free(struct selection *x);
bool selection_active(const struct selection *x);
/* For struct sched: context is the selection. */
bool selection_wants(void *context, const struct suite_case *c);
/* -1 when a file of an interrupted run is no longer what it was. */
int selection_unchanged(const struct suite_run *r, struct err *e);

/* Collects every unit (from the store's cache where it has it), divides the cases by recorded time, and makes
 * part I of "I/N" the selection. With a plan file: takes that file's part, or writes the file when it is not
 * there. */
int shard_plan(struct sched *s, struct selection *x, const char *text, const char *plan, struct err *e);
/* "2/5": 0 and both numbers, else -1. */
int shard_parse(const char *text, int *part, int *parts, struct err *e);

#endif
