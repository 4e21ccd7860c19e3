/* patch_folder.h - a temporary folder for the patch and audit tests, made before the group and removed behind
 * it. */
#ifndef PATCH_FOLDER_H
#define PATCH_FOLDER_H

#include "concord/base/base.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/concord-patch-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return tree_remove(folder, NULL);
}

#endif
