/* suite.h - a run of test suites: units (files), their cases, and what became of each.
 *
 * The one model that the scheduler fills, the store keeps and the reports read. A unit is what is collected
 * together (usually a file) on one side: the device, or the CPU twin of the same file. */
#ifndef CONCORD_SUITE_SUITE_H
#define CONCORD_SUITE_SUITE_H

#include "concord/base/base.h"
#include "concord/run/verdict.h"

enum side { SIDE_DEVICE, SIDE_CPU, SIDES };
const char *side_name(enum side s); /* "device", "cpu" */

enum test_state { TEST_PLANNED, TEST_RUNNING, TEST_DONE, TEST_STATES };
enum unit_state { UNIT_NEW, UNIT_COLLECTED, UNIT_DONE, UNIT_STATES };

struct suite_unit;

/* One test on one side. */
struct suite_case {
    int64_t id;
    struct suite_unit *unit;
    char *node; /* its name within the unit, e.g. "TestA::test_b[1]" */
    enum test_state state;
    enum verdict verdict;
    char *reason;
    double ms;
    int attempts;     /* executions that were judged */
    int lost;         /* executions that ended with a process that runs tests, or by a signal from nowhere */
    int64_t launches; /* operators launched on the device */
    json_t *facts;    /* the evidence beyond the columns; NULL when there is none */

    /* While it runs; not kept. */
    json_t *history; /* attempts that failed and were repeated: verdict, reason, ms; NULL when none */
    int group;       /* tests that had run before it in the process of the first of them */
    char *output, *stack, *trace; /* of the attempt that is about to be stored */
};

struct suite_unit {
    int64_t id;
    enum side side;
    char *name;   /* path below the suite's folder */
    char *suite;  /* operand that it came from */
    char *digest; /* SHA-256 of its file and of the conftests above it, "" when it is no file */
    char *error;  /* why (part of) it could not be collected, "" otherwise */
    enum unit_state state;
    bool forkable; /* after collection */
    json_t *spec;  /* engine, args, folder, path: what the harness is told */
    json_t *patch; /* what was applied to it: file, state; NULL when nothing */
    double estimate_ms;
    VEC(struct suite_case *) cases;
};

struct suite_run {
    int64_t id;
    char *name, *command, *options, *version, *started, *finished, *shard;
    json_t *host,
        *hello[SIDES]; /* hello: what the warm process of the side said; NULL when the side has none */
    char *release, *env, *lock;
    enum device_kind kind;
    VEC(struct suite_unit *) units;
};
void suite_run_free(struct suite_run *r);
struct suite_unit *suite_unit_new(struct suite_run *r);
struct suite_case *suite_case_new(struct suite_unit *u, const char *node);
struct suite_case *suite_case_find(struct suite_unit *u, const char *node);

/* "unit::node", on the CPU side with " (cpu)" behind it. Owned. */
char *suite_case_name(const struct suite_case *c);
/* The node with what names a device replaced, equal for a test and its CPU twin. Owned. */
char *suite_twin_key(const char *node);

struct suite_counts {
    int all, done, executed; /* executed: judged by running, neither skipped nor left out */
    int by[VERDICT_COUNT];
    double ms;
    int64_t launches;
};
/* Cases of one side; unit NULL: of all units. */
void suite_count(const struct suite_run *r, const struct suite_unit *unit, enum side side,
                 struct suite_counts *out);
/* True for a verdict that makes a run fail. */
bool verdict_is_bad(enum verdict v);
/* 0 when everything that was asked for was done, something was executed and passed, and nothing is bad;
 * else 1. */
int suite_status(const struct suite_run *r);

#endif
