/* layout.h - where the software device's files are, and the environment that programs need to find them. */
#ifndef SOFTNPU_LAYOUT_H
#define SOFTNPU_LAYOUT_H

#include <limits.h>
#include <stdbool.h>

/* The toolkit folder of this build or installation (BUILD/toolkit, beside bin/). False, with a line on
 * stderr, if it is not there. */
bool layout_toolkit(char out[PATH_MAX]);

/* One variable of the environment: set to value, or value put in front of what is there ("a:b"). %s is the
 * toolkit folder. */
struct layout_variable {
    const char *name, *value;
    bool prepend;
};
extern const struct layout_variable layout_variables[];
extern const int layout_nvariables;

#endif
