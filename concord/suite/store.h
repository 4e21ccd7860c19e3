/* store.h - the journal of suite runs: one SQLite file, several runs; every transition durable before it
 * counts. */
#ifndef CONCORD_SUITE_STORE_H
#define CONCORD_SUITE_STORE_H

#include "concord/run/sql.h"
#include "concord/suite/suite.h"

/* user_version of these files. Campaign journals (concord verify) count from 1; these from 100. */
enum { STORE_VERSION = 100 };

struct store {
    struct sql sql;
    sqlite3_stmt *update, *output; /* prepared once: they run for every case */
    bool open;                     /* a transaction is */
};

/* $CONCORD_HOME/journal/tests/NAME.db. Owned. */
char *store_path(const char *name);
char *store_folder(void);

int store_open(struct store *s, const char *path, bool wait, struct err *e);
int store_open_readonly(struct store *s, const char *path, struct err *e);
void store_close(struct store *s);

/* Transitions collect in one transaction until store_commit: nothing of them is reported before that returned
 * 0. */
int store_begin(struct store *s, struct suite_run *r,
                struct err *e); /* the run and its units; fills the ids */
int store_run(struct store *s, const struct suite_run *r, struct err *e);
int store_unit(struct store *s, const struct suite_run *r, struct suite_unit *u,
               struct err *e); /* new or changed */
int store_new_case(struct store *s, struct suite_case *c, struct err *e);
int store_case(struct store *s, const struct suite_case *c, struct err *e);
/* What an attempt wrote; nothing is stored when all are empty. */
int store_output(struct store *s, const struct suite_case *c, struct err *e);
int store_commit(struct store *s, struct err *e);

int store_last(struct store *s, int64_t *run, struct err *e); /* 0 when there is none */
int store_load(struct store *s, int64_t run, struct suite_run *out, struct err *e);
/* Before going on with an interrupted run: what was running is planned again. In memory, after store_load. */
void store_replan(struct suite_run *r);
/* The output, stack and trace of a case's attempts, oldest first, through the callback. */
typedef void store_output_reader(void *context, int attempt, const char *output, const char *stack,
                                 const char *trace);
int store_read_output(struct store *s, int64_t case_id, store_output_reader *read, void *context,
                      struct err *e);

/* Recorded times: mean milliseconds of the unit's cases in the newest run that has them, 0 when unknown. */
int store_estimates(struct store *s, struct suite_run *r, struct err *e);

/* The list of cases that a unit of this content had before, so that a plan needs no collection. NULL when
 * unknown. */
int store_cache_put(struct store *s, const char *key, const struct suite_unit *u, struct err *e);
json_t *store_cache_get(struct store *s, const char *key); /* array of nodes, new reference */

#endif
