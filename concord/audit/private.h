/* private.h - what the audit's own files share. */
#ifndef CONCORD_AUDIT_PRIVATE_H
#define CONCORD_AUDIT_PRIVATE_H

#include "concord/audit/audit.h"

#include <pthread.h>

/* Every rule over one parsed patch. */
int audit_one(const char *file, const struct patch *p, const struct audit_options *o, struct findings *out,
              struct err *e);

#endif
