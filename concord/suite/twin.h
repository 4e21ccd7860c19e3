/* twin.h - the device side of a run against its CPU side, and what the device did for each operator. */
#ifndef CONCORD_SUITE_TWIN_H
#define CONCORD_SUITE_TWIN_H

#include "concord/suite/suite.h"

/* X(id, text): what a pair says, the first that applies */
#define TWINS(X)                                                                                             \
    X(SAME, "passed on both")                                                                                \
    X(UNPROVED, "passed on both, nothing executed on the device")                                            \
    X(DEVICE_FAILS, "fails on the device only")                                                              \
    X(BOTH_FAIL, "fails on both")                                                                            \
    X(CPU_FAILS, "fails on the CPU only")                                                                    \
    X(DEVICE_SKIPS, "passed on the CPU, skipped on the device")                                              \
    X(NOT_RUN, "not run on a side")                                                                          \
    X(OTHERWISE, "skipped on the CPU or on both")                                                            \
    X(DEVICE_ONLY, "only on the device")                                                                     \
    X(CPU_ONLY, "only on the CPU")
enum twin {
#define X(id, text) TWIN_##id,
    TWINS(X)
#undef X
        NTWINS
};
const char *twin_text(enum twin t);
enum twin twin_compare(const struct suite_case *device,
                       const struct suite_case *cpu); /* either may be NULL */

/* Counts of the device unit's comparison with the CPU unit of the same name, as indented lines. */
void twin_lines(const struct suite_run *r, const struct suite_unit *device, struct buf *out);
/* {"file": {"same": n, ...}}, and each case that differs by name. */
json_t *twin_json(const struct suite_run *r);
/* {"operator": {"launches": n, "tests": n, "fallbacks": n}}: which tests really exercised the device. */
json_t *twin_operators_json(const struct suite_run *r);

#endif
