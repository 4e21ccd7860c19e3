/* index.h - facts of files kept between runs, by git blob id: one SQLite file for all releases.
 *
 * A file on disk is known by path, size, modification time and inode; while those stay it is not read again.
 * What was made of it is kept under its blob id and a key, so equal files of two releases share it. Several
 * processes may use one index (WAL). It is a cache: a damaged one or one of another version is made anew, and
 * one that cannot be written costs time only (index_warning). Facts carry a checksum of their own.
 */
#ifndef CONCORD_SCAN_INDEX_H
#define CONCORD_SCAN_INDEX_H

#include "concord/scan/facts.h"

enum { INDEX_VERSION = 1 };

struct index;
struct index_stats { /* since it was opened */
    uint32_t read, made, reused;
    uint64_t bytes; /* of the files that were read */
};

/* $XDG_CACHE_HOME/concord/scan.db (concord_home). Owned. */
char *index_default_path(void);
/* Never fails for what it finds at path; NULL when nothing can be kept there, with *e saying why. */
struct index *index_open(const char *path, struct err *e);
/* Writes what is pending. */
void index_close(struct index *x);
/* Why nothing was kept, "" when all is well. */
const char *index_warning(const struct index *x);

/* Makes facts from text, which it may change. */
typedef void facts_maker(void *arg, const char *path, char *text, size_t len, struct facts *out);
/* Facts of the file at path under key: kept ones, or those kept under "full", which hold everything; else
 * they are made and kept. x may be NULL: nothing is kept. For several threads. */
int index_facts(struct index *x, const char *path, const char *key, facts_maker *make, void *arg,
                struct facts *out, struct index_stats *stats, struct err *e);

#endif
