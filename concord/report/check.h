/* check.h - the functions behind the boxes: each looks for the fact that its claim needs. */
#ifndef CONCORD_REPORT_CHECK_H
#define CONCORD_REPORT_CHECK_H

#include "concord/report/report.h"

/* True when what is recorded proves the claim; the fact is written either way. */
typedef bool checker(const struct report *r, struct buf *fact);

#define CHECK(id, place, en, zh) checker check_##id;
#include "concord/report/checks.inc"
#undef CHECK

#endif
