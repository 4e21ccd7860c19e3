/* skeleton.h - the beginning of an own test for an API that no upstream test covers. */
#ifndef CONCORD_ADAPT_SKELETON_H
#define CONCORD_ADAPT_SKELETON_H

#include "concord/adapt/adapt.h"

/* "test_npu_torch_foo_bar.py"; owned. */
char *adapt_skeleton_name(const char *api);
/* A test file that runs and fails, saying what a person has to write: the call, and what must hold. */
void adapt_skeleton(const char *api, const struct adapt_options *o, struct buf *out);

#endif
