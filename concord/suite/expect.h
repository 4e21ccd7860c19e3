/* expect.h - expectation files: what is known to fail, with a reason and an issue, per release and device.
 *
 * One line a row, columns separated by blanks, the reason last:
 *   PATTERN  VERDICT  RELEASE  DEVICE  ISSUE  REASON...
 * PATTERN is a shell pattern over "file::node"; VERDICT as reports print it (NO PROOF is written NO_PROOF),
 * RELEASE, DEVICE (software, hardware, none) and ISSUE may be "-". "#" begins a comment. The first row that
 * matches counts. */
#ifndef CONCORD_SUITE_EXPECT_H
#define CONCORD_SUITE_EXPECT_H

#include "concord/suite/suite.h"

struct expect_row {
    char *pattern, *release, *device, *issue, *reason;
    enum verdict verdict;
    int line;
    int hits, kept; /* cases that it matched; those that behaved as it says */
};
struct expectations {
    char *path;
    strings lines; /* of the file, for rewriting it */
    VEC(struct expect_row) rows;
};

int expect_load(const char *path, bool must_exist, struct expectations *x, struct err *e);
void expect_free(struct expectations *x);
/* Turns a verdict that was expected into XFAIL and an unexpected PASSED into XPASS, reason updated. */
void expect_apply(struct expectations *x, const struct suite_run *r, struct suite_case *c);
/* Rewrites the file for this run: rows of its release and device that no case confirmed although some case
 * matched go, a row for each bad case comes, with the observed reason and "-" for the issue. Comments stay.
 */
int expect_update(const struct expectations *x, const struct suite_run *r, int *added, int *removed,
                  struct err *e);

#endif
