/* doctor.h - what this machine has for running campaigns, what is missing, and how to mend it. */
#ifndef CONCORD_DOCTOR_H
#define CONCORD_DOCTOR_H

#include "concord/run/probe.h"

enum finding_status {
    FINDING_OK,
    FINDING_NOTE,    /* not there or not ideal; a campaign runs without */
    FINDING_MISSING, /* no campaign can run before this is mended */
    NFINDING_STATUSES
};
extern const char *const finding_status_names[NFINDING_STATUSES];

struct finding {
    const char *name; /* "device files" */
    enum finding_status status;
    char *text; /* what was found */
    char *mend; /* NULL: nothing to do */
};
typedef VEC(struct finding) findings;

/* Where to look, so that tests can plant things; zeroed means the real places. */
struct doctor_places {
    struct probe_places probe;
    uint64_t disk_free, memory; /* bytes; 0: measured */
};

/* true when a campaign can run here. */
bool doctor_examine(const struct doctor_places *places, findings *out);
void findings_free(findings *f);
json_t *findings_json(const findings *f);

#endif
