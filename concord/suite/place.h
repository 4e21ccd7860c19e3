/* place.h - where tests run: interpreter, plugin, device, harness. Kept with the run, so that it can be had
 * again. */
#ifndef CONCORD_SUITE_PLACE_H
#define CONCORD_SUITE_PLACE_H

#include "concord/suite/sched.h"

struct place {
    char *python, *plugin, *want_torch, *want_plugin, *device,
        *toolkit; /* device: auto, hardware, software */
    bool torch;
    strings env, devices;
    struct device_setup device_setup, cpu_setup;
    char *harness, *crash_library;
};
/* Fills setups and paths from the texts that are set. */
int place_open(struct place *p, struct err *e);
void place_free(struct place *p);
void place_side(const struct place *p, enum side side, struct sched_side *out);

/* The texts as JSON, for the run's host facts; and back, opened. */
json_t *place_json(const struct place *p);
int place_of_run(const struct suite_run *r, struct place *out, struct err *e);

#endif
