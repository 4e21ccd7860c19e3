/* merge.h - the newest runs of several journals (shards) as one run in a new journal. */
#ifndef CONCORD_SUITE_MERGE_H
#define CONCORD_SUITE_MERGE_H

#include "concord/suite/store.h"

/* They must be of one release, environment and device, and no test may be in two of them. The new journal
 * must not exist; on failure none is left. */
int merge_journals(const char *to, const strings *from, struct err *e);

#endif
