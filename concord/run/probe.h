/* probe.h - which device there is: before a run (how to start workers) and from within it (what they really
 * loaded). */
#ifndef CONCORD_RUN_PROBE_H
#define CONCORD_RUN_PROBE_H

#include "concord/campaign/campaign.h"
#include <jansson.h>

/* What a record's device is. A result of one is never presented as one of the other. */
enum device_kind { KIND_NONE, KIND_SOFTWARE, KIND_HARDWARE };
const char *device_kind_name(enum device_kind k); /* "none", "software", "hardware" */
enum device_kind device_kind_parse(const char *text);

/* How a worker is started so that the plugin finds its device: prefix + command. */
struct device_setup {
    strings prefix;    /* e.g. {"/usr/bin/softnpu", "run", "--"} */
    char *description; /* one line for people, e.g. "softnpu (build/bin/softnpu)" */
    char *toolkit;     /* the toolkit's folder or set_env.sh, NULL for the software device */
    int threads;       /* for OMP_NUM_THREADS and SOFTNPU_THREADS where not set; 0: leave them */
};
void device_setup_free(struct device_setup *s);

/* Places to look at, so that tests can plant them; NULL members mean the real ones. */
struct probe_places {
    const char *dev;      /* folder of the device files, "/dev" */
    const char *launcher; /* the softnpu launcher; beside concord's own executable */
    const char *const
        *homes; /* toolkit folders to try after --toolkit and a sourced ASCEND_HOME_PATH; NULL-terminated */
};

/* toolkit: --toolkit DIR or NULL. -1 (one line that names --device software) when the choice cannot be met.
 */
int probe_device(enum device_choice choice, const char *toolkit, const struct probe_places *places,
                 struct device_setup *out, struct err *e);

/* Where the vendor's installers put toolkits; ends with NULL. */
extern const char *const probe_default_homes[];
/* set_env.sh of a toolkit folder (or the file itself), NULL when there is none. Owned. */
char *probe_set_env(const char *toolkit);
/* Number of device files davinci0, davinci1, ... in the folder. */
int probe_device_files(const char *dev);

/* The label of a worker from its hello line: software when the loaded library is softnpu, whatever the
 * layout; hardware only when device files exist and libascendcl is not ours. */
enum device_kind probe_label(const json_t *hello);

#endif
