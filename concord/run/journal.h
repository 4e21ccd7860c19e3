/* journal.h - what happened, durable before it counts: one SQLite file a campaign.
 *
 * WAL with synchronous=FULL: when a call returns 0, its transition survives kill -9 and power loss. One
 * process at a time writes (a lock file beside it names the holder); readers need no lock. The schema is
 * versioned (PRAGMA user_version). */
#ifndef CONCORD_RUN_JOURNAL_H
#define CONCORD_RUN_JOURNAL_H

#include "concord/run/plan.h"
#include "concord/run/record.h"

enum { JOURNAL_VERSION = 1 };

struct journal;

/* $CONCORD_HOME/journal/<campaign>.db. Owned. */
char *journal_path(const char *campaign);
/* The journal written to last, NULL when there is none. Owned. */
char *journal_newest(void);

/* Creates the file where needed; takes the writer's lock and fails at once when another process has it. */
int journal_open(const char *path, struct journal **out, struct err *e);
/* For reports: the file must exist; no lock. */
int journal_open_readonly(const char *path, struct journal **out, struct err *e);
void journal_close(struct journal *j);

/* The run and every planned case, in one transaction. */
int journal_begin(struct journal *j, const struct plan *p, const char *command, int64_t *run, struct err *e);
/* 0 in *run when the journal has no run (of the campaign, when given). */
int journal_last_run(struct journal *j, const char *campaign, int64_t *run, struct err *e);
/* Before going on with an interrupted run: what was running is planned again. */
int journal_resume(struct journal *j, int64_t run, struct err *e);
int journal_load(struct journal *j, int64_t run, struct run_record *out, struct err *e);

/* Transitions. Each is one transaction. They read what they store from the records that the caller has
 * updated. */
int journal_release(struct journal *j, int64_t run, const struct release_record *r, struct err *e);
int journal_case(struct journal *j, const struct case_record *c, struct err *e);
int journal_finish(struct journal *j, int64_t run, struct err *e);
/* Groups the transitions between the two into one transaction. */
int journal_group(struct journal *j, struct err *e);
int journal_commit(struct journal *j, struct err *e);

#endif
