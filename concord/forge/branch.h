/* branch.h - one review's branch, made in a clone's object store: nothing in its work tree is read for
 * content or written.
 *
 * A branch is one commit on its base. The same base, files, message and identity give the same commit: author
 * and committer time is the base's.
 */
#ifndef CONCORD_FORGE_BRANCH_H
#define CONCORD_FORGE_BRANCH_H

#include "concord/base/base.h"
#include <jansson.h>

enum { BRANCH_ID_MAX = 65 }; /* a commit id in hexadecimal and its end */

/* The commit that a revision names. */
int branch_resolve(const char *repo, const char *ref, char id[BRANCH_ID_MAX], struct err *e);
/* The full name of the reference that a target branch is read from: a remote's (upstream, origin) before a
 * local one, which may lag behind. Owned; NULL with *e. */
char *branch_base_ref(const char *repo, const char *branch, struct err *e);
/* A file of a commit: 1 read into *out (cleared first), 0 no such file, -1 failure. */
int branch_read(const char *repo, const char *commit, const char *path, struct buf *out, struct err *e);
/* Fails, naming the first file, when the work tree or the index of the clone differs from HEAD. Untracked
 * files do not count. A bare repository is clean. */
int branch_clean(const char *repo, struct err *e);

struct branch_file {
    const char *path;
    const char *data;
    size_t len;
};
struct branch_request {
    const char *repo, *name; /* name without refs/heads/ */
    const char *base;        /* commit id that the files were made for */
    const char *base_ref;    /* must still name that commit */
    const char *message;
    const struct branch_file *files;
    size_t nfiles;
    bool replace; /* move a branch of that name that is something else */
};
/* Fails when the base moved, the clone is dirty, the branch is checked out, exists with other content, or
 * nothing changes. A branch that is there with that very commit is success. */
int branch_make(const struct branch_request *q, char commit[BRANCH_ID_MAX], struct err *e);

/* True when the branch that a fact describes (name, base, commit, files) is there: its tip is the commit, its
 * only parent the base, and it changes exactly the files. */
bool branch_is(const char *repo, const json_t *fact);

#endif
