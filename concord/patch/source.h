/* source.h - where upstream files are read from.
 *
 * A source is written as PLACE or PLACE#REVISION, where PLACE is
 *   a folder                  files as they are; with a revision, or bare, a clone's objects read in place,
 * no checkout an archive                .tar .tar.gz .tgz .tar.xz .tar.bz2 .zip .whl, unpacked once into the
 * cache a git URL                 https:// ssh:// git:// file:// or host:path; the revision (a tag or branch,
 * needed) is fetched once, shallow and sparse, into the cache
 */
#ifndef CONCORD_PATCH_SOURCE_H
#define CONCORD_PATCH_SOURCE_H

#include "concord/base/base.h"

struct source;

struct source *source_open(const char *spec, struct err *e);
/* 1: read into *out (cleared first); 0: no such file; -1: failure. mode (may be NULL) gets git's file mode.
 */
int source_read(struct source *s, const char *path, struct buf *out, uint32_t *mode, struct err *e);
/* All file paths below the folder under ("" for all), sorted. */
int source_list(struct source *s, const char *under, strings *out, struct err *e);
/* As source_read, for several threads: a clone's objects are read one at a time. */
int source_read_shared(struct source *s, const char *path, struct buf *out, uint32_t *mode, struct err *e);
/* The blob that git's (abbreviated) id names, from a clone's objects: 1 read, 0 no clone or not there. */
int source_read_blob(struct source *s, const char *id, struct buf *out);
const char *source_spec(const struct source *s);
void source_close(struct source *s);

#endif
