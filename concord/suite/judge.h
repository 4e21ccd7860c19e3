/* judge.h - from what a slot says of a case to its verdict. */
#ifndef CONCORD_SUITE_JUDGE_H
#define CONCORD_SUITE_JUDGE_H

#include "concord/suite/suite.h"

struct judge_context {
    bool proof; /* the side has a device: PASSED needs proof that it executed */
    enum device_kind kind;
    int64_t memory_mib, output_mib, processes;
};

struct test_judgement {
    enum verdict verdict;
    char *reason; /* owned, one line */
    bool lost;    /* ended by a SIGKILL that concord did not send: nothing can be said of the test */
};

/* answer: the line of harness/concord_harness/suite/slot.py. */
struct test_judgement judge_test(const struct judge_context *x, const json_t *answer);
/* What of the answer is kept with the case beside its columns; NULL when nothing is. New reference. */
json_t *judge_facts(const json_t *answer, enum verdict v);
int64_t judge_launches(const json_t *answer);

#endif
