/* audited.h - patches that adapt wrote, through the audit's rules. Apart from adapt.h: both have rules. */
#ifndef CONCORD_ADAPT_AUDITED_H
#define CONCORD_ADAPT_AUDITED_H

#include "concord/base/base.h"

/* Prints what the audit finds in the patches to `to`. errors: findings of that severity. */
int adapt_audit(const strings *paths, const char *upstream, FILE *to, size_t *errors, struct err *e);

#endif
