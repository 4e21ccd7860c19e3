/* match.h - what scan's own files share. */
#ifndef CONCORD_SCAN_MATCH_H
#define CONCORD_SCAN_MATCH_H

#include "concord/scan/scan.h"

/* How a reference names the API; SCAN_NMATCH if it does not. */
enum scan_match match_ref(struct py_file *f, const struct py_ref *r, const struct scan_api *api);
/* The tests that reach f's sites, with their evidence, appended to out->tests. */
void reach_tests(struct py_file *f, size_t napis, struct scan_file *out);

#endif
