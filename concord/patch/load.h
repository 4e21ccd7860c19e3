/* load.h - patch files by path: found in folders, read, checked against a tree, many at once. */
#ifndef CONCORD_PATCH_LOAD_H
#define CONCORD_PATCH_LOAD_H

#include "concord/patch/patch.h"
#include "concord/patch/source.h"

/* Adds the arguments; of a folder all *.patch and *.diff below it, sorted. Nothing found is an error. */
int patch_find(int n, char *const *args, strings *out, struct err *e);
int patch_load(const char *path, struct patch *p, struct err *e);
/* The target that the patch file's own name and place say: test/test_x.py for .../test/test_x.py.patch and
 * for
 * .../test/test_x.diff. Owned; NULL when the path has neither a test/ nor a torch/ folder. */
char *patch_named_target(const char *path);

struct check {
    const char *path;
    struct patch p;
    bool loaded;
    struct err error;                 /* when not loaded, or a target could not be read */
    VEC(struct apply_result) results; /* one a file section, when there is a source */
};
/* Loads every patch and, with a source, tries each section alone against it; flags as patch_apply. Uses all
 * cores when the source allows it. *out gets one element a path, in order. */
struct check *patch_check_all(const strings *paths, struct source *s, int flags);
void patch_checks_free(struct check *c, size_t n);

#endif
