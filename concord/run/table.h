/* table.h - the table at the end of a run: one row a cell. */
#ifndef CONCORD_RUN_TABLE_H
#define CONCORD_RUN_TABLE_H

#include "concord/base/base.h"
#include "concord/run/record.h"

/* Columns release, API, verdict, cases passed of all, launches, device; then every case that is
 * not PASSED with its reason, and one line of summary. */
void table_render(const struct run_record *r, struct buf *out);
/* "software device (Ascend910B4), which is not hardware" and the like. */
void table_device_words(const struct run_record *r, struct buf *out);

#endif
