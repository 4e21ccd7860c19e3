/* txn.h - several files of a tree changed as one: all or none, on disk.
 *
 * New contents are written to ROOT/.concord-patch/ and synced, then a journal is, then the files are renamed
 * into place. A failure before the journal leaves the tree untouched; one after it is undone, and where even
 * that fails (or the process is killed) the next txn_open completes the change from the journal. Never
 * between: a reader that finds the journal knows that the change is not finished.
 */
#ifndef CONCORD_PATCH_TXN_H
#define CONCORD_PATCH_TXN_H

#include "concord/patch/patch.h"

/* The calls that touch the disk, so that tests can fail each of them. All return 0, or -1 with errno. */
struct txn_io {
    int (*write)(const char *path, const void *data, size_t n,
                 mode_t mode); /* create or truncate, write, fsync */
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path);
    int (*sync_dir)(const char *path);
};
extern const struct txn_io txn_io_disk;

struct txn_file {
    char *path;           /* relative to the root */
    struct buf pre, post; /* contents before the transaction and now */
    bool existed, exists;
    mode_t mode;
};

struct txn {
    char *root, *work;
    const struct txn_io *io;
    int lock;
    bool recovered; /* opening completed an earlier, interrupted change */
    VEC(struct txn_file) files;
};

/* Locks the tree and completes what an interrupted run left. io NULL: the disk. */
int txn_open(struct txn *t, const char *root, const struct txn_io *io, struct err *e);
/* The file as the transaction has it so far, read on first use. Refuses paths that leave the root, through
 * symbolic links too. The pointer holds until the next call; NULL on failure. */
struct txn_file *txn_file(struct txn *t, const char *path, struct err *e);
/* Writes what changed. On failure the tree is as before, or the error says that the next run completes it. */
int txn_commit(struct txn *t, struct err *e);
size_t txn_changed(const struct txn *t);
void txn_close(struct txn *t);

#endif
