/* mark.h - records in an installed torch that it is, from now on, a CPU build. */
#ifndef CONCORD_MARK_H
#define CONCORD_MARK_H

#include "concord/env/trim.h"

/* Version X becomes X+cpu in torch/version.py and in the distribution's metadata, torch.version.cuda None;
 * the requirements on GPU packages go; RECORD is made true again for what trim changed. torch_npu itself asks
 * for torch==X+cpu on some releases, so this is what makes `pip check` clean. site: the site-packages folder.
 */
int mark_torch_cpu(const char *site, const struct trim_result *trim, struct err *e);

/* The requirements (PEP 508 lines) of an installed distribution, without extras, GPU packages and torch
 * itself. */
int mark_requirements(const char *site, const char *distribution, strings *out, struct err *e);

/* Folder NAME-VERSION.dist-info of a distribution ("torch"), in the spelling that wheels use. Owned, or NULL
 * with *e. */
char *mark_dist_info(const char *site, const char *distribution, struct err *e);

#endif
