/* tree.h - a private copy of a test tree with patches applied, for the device side; the original stays for
 * the CPU. */
#ifndef CONCORD_SUITE_TREE_H
#define CONCORD_SUITE_TREE_H

#include "concord/suite/suite.h"

struct tree_patch_record {
    char *file;  /* that it changes, below the tree */
    char *patch; /* file name */
    char *why;   /* it could not be applied, NULL when it was */
};
struct tree_report {
    char *folder; /* of the copy, NULL when there is none */
    VEC(struct tree_patch_record) patches;
};

/* Copies the tree beside the journal (once; a copy that is complete is used again) and applies every patch
 * below `patches` that changes a file which the patterns choose. A patch that does not apply is recorded, its
 * file stays original. */
int tree_patch(const char *tree, const char *patches, const strings *files, const char *journal,
               struct tree_report *out, struct err *e);
/* Notes in each device unit of the run what was done to its file. */
void tree_mark(const struct tree_report *t, const char *subfolder, struct suite_run *r);
void tree_report_free(struct tree_report *t);

#endif
