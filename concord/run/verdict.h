/* verdict.h - what can be said of a case, and how the facts of its run become that. */
#ifndef CONCORD_RUN_VERDICT_H
#define CONCORD_RUN_VERDICT_H

#include "concord/run/probe.h"
#include <jansson.h>
#include <stdbool.h>

/* In order of gravity, best first: a cell (API and release) is as bad as its worst case.
 * SKIPPED and XFAIL do not make a cell that also has a PASSED case worse; see verdict_of_cell.
 * X(identifier, text, meaning) */
#define VERDICTS(X)                                                                                          \
    X(PASSED, "PASSED", "the device did what the CPU did, with proof that the device did it")                \
    X(XFAIL, "XFAIL", "failed, as the expectation file says")                                                \
    X(SKIPPED, "SKIPPED", "cannot apply; the reason says why")                                               \
    X(NOT_RUN, "NOT RUN", "planned, not executed")                                                           \
    X(XPASS, "XPASS", "passed although a failure was expected")                                              \
    X(FLAKY, "FLAKY", "passed only when repeated")                                                           \
    X(NO_PROOF, "NO PROOF", "agrees with the CPU, but nothing proves that the device executed it")           \
    X(FAILED, "FAILED", "differs from the CPU")                                                              \
    X(ERROR, "ERROR", "raised or ended in a way that allows no comparison")                                  \
    X(TIMEOUT, "TIMEOUT", "exceeded its time limit")                                                         \
    X(CRASHED, "CRASHED", "the process ended by a signal")

enum verdict {
#define X(id, text, meaning) VERDICT_##id,
    VERDICTS(X)
#undef X
        VERDICT_COUNT
};

const char *verdict_name(enum verdict v);
const char *verdict_meaning(enum verdict v);
/* VERDICT_ERROR for a text that is none (a journal of a newer version). */
enum verdict verdict_parse(const char *text);

/* One line of reason, empty for PASSED. Owned. */
struct judgement {
    enum verdict verdict;
    char *reason;
};

/* done: the server's line for the case (harness/concord_harness/server.py). kind: what the worker's device
 * is. */
struct judgement verdict_judge(const json_t *done, enum device_kind kind);

/* Verdict of a cell from how many of its cases have each verdict: the worst, except that what was skipped or
 * failed as expected does not hide what passed; NOT RUN if there is no case at all. */
enum verdict verdict_of_cell(const int counts[VERDICT_COUNT]);

#endif
