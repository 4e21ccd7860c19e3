/* variable.h - settings from the environment; a bad one ends the process. Also used by softnpu-smi. */
#ifndef SOFTNPU_VARIABLE_H
#define SOFTNPU_VARIABLE_H

#include "softnpu/runtime/soc.h"

/* The whole number in [lo, hi] that the variable holds, `otherwise` where it is unset or empty. Anything else
 * ends the process with one line that begins with `who` and exit status 2: a device must not guess its shape.
 */
int variable_number(const char *who, const char *name, int lo, int hi, int otherwise);
/* SOFTNPU_DEVICES, likewise. */
int variable_devices(const char *who);
/* The processor that SOFTNPU_SOC names, likewise. */
const struct soc *variable_soc(const char *who);

#endif
