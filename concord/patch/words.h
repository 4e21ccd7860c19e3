/* words.h - three-way merge inside lines. */
#ifndef CONCORD_PATCH_WORDS_H
#define CONCORD_PATCH_WORDS_H

#include "concord/patch/patch.h"

/* Merges the change from old to new into mine, token by token. 0: *out has it; 1: both change the same or
 * neighbouring tokens. */
int merge_words(struct slice old, struct slice new, struct slice mine, struct buf *out);

#endif
