/* trim.h - makes an installed torch that was built for CUDA work, small, without CUDA. */
#ifndef CONCORD_TRIM_H
#define CONCORD_TRIM_H

#include "concord/base/base.h"

enum trim_mode {
    TRIM_SLIM, /* torch's own CUDA libraries become stand-ins or go */
    TRIM_FULL, /* they stay; everything they need becomes a stand-in */
};

struct trim_standin {
    char *library; /* SONAME, a file in torch/lib */
    size_t names;
};

struct trim_result {
    VEC(struct trim_standin) standins; /* empty: nothing was missing (a CPU build) */
    strings removed;                   /* files of torch/lib that went */
    strings changed;                   /* files that were made or replaced, stand-ins included */
    uint64_t stripped;                 /* bytes of unloaded sections that went */
};

/* torch: the installed package's folder. Which libraries and names are missing is read from the files
 * themselves. */
int trim_torch(const char *torch, enum trim_mode mode, struct trim_result *r, struct err *e);
void trim_result_free(struct trim_result *r);

#endif
