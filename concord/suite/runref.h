/* runref.h - how people name a run: NAME, NAME:ID, FILE.db, FILE.db:ID; without an id the newest of that
 * journal. */
#ifndef CONCORD_SUITE_RUNREF_H
#define CONCORD_SUITE_RUNREF_H

#include "concord/suite/store.h"

/* text NULL: the run written to last. The store stays open for reading output. */
int runref_load(const char *text, struct store *s, struct suite_run *r, struct err *e);
/* Paths of the journals in the default folder, newest last. */
int runref_journals(strings *out, struct err *e);

#endif
