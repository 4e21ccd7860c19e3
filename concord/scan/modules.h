/* modules.h - what a dotted name of an upstream tree stands for, read from the tree's own sources.
 *
 * torch re-exports most of what it has: torch.nn.Linear is torch.nn.modules.linear.Linear. A name's canonical
 * form is where the thing is defined, found by following imports and star imports through torch/. Modules are
 * read when first asked for, by their exports only. Safe with several threads.
 */
#ifndef CONCORD_SCAN_MODULES_H
#define CONCORD_SCAN_MODULES_H

#include "concord/scan/facts.h"

struct modules;
struct index;

/* root: the folder that holds torch/; NULL or without torch/: every name is its own canonical form. index may
 * be NULL. */
struct modules *modules_open(const char *root, struct index *index);
void modules_close(struct modules *m);
bool modules_have_sources(const struct modules *m);
/* Lives as long as m. */
const char *modules_canonical(struct modules *m, const char *name);
/* True when class and base are the same, or class derives from base as far as the sources tell. Both
 * canonical. */
bool modules_derives(struct modules *m, const char *class, const char *base);
/* True when the module binds the name itself or by a star import of its own: what `from module import *`
 * gives. */
bool modules_exports(struct modules *m, const char *module, const char *name);
/* Full name of a relative one, as the module writes it (".x.y" in package a.b is a.b.x.y). Owned. */
char *modules_absolute(const char *module, bool package, const char *target);

#endif
