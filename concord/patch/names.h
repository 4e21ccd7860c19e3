/* names.h - file names as git writes them in headers. */
#ifndef CONCORD_PATCH_NAMES_H
#define CONCORD_PATCH_NAMES_H

#include "concord/patch/patch.h"

/* Splits what follows "diff --git " into f->git_old and f->git_new; leaves them empty when it cannot. */
void split_git_names(struct patch_file *f, struct slice names);
/* The name on a --- or +++ line: up to a tab, where a time stamp may follow. */
struct slice name_on(struct slice line);

#endif
