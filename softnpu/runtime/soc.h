/* soc.h - the processors of the 910B family that SOFTNPU_SOC can name. Also used by softnpu-smi. */
#ifndef SOFTNPU_SOC_H
#define SOFTNPU_SOC_H

#include <stdint.h>

struct soc {
    const char *name;
    int cube_cores, vector_cores;
    uint64_t memory; /* bytes */
};
enum { RT_MAX_DEVICES = 16 };

/* The row of a name (NULL or "": Ascend910B4); NULL if there is none. */
const struct soc *soc_find(const char *name);
/* All names, separated by commas, for messages. */
const char *soc_names(char *out, int size);
/* Devices that ASCEND_RT_VISIBLE_DEVICES (list, may be NULL) leaves of n: their numbers into out, how
 * many. The list is read up to the first thing that is not the number of a device; -1 if a number stands
 * twice or none is valid. */
int soc_visible(const char *list, int n, int out[RT_MAX_DEVICES]);

#endif
