/* print.h - a scan's result as text, as JSON and as a table of completeness. */
#ifndef CONCORD_SCAN_PRINT_H
#define CONCORD_SCAN_PRINT_H

#include "concord/scan/scan.h"

struct scan_total {       /* of one API */
    uint32_t calls, uses; /* uses: read or passed along */
    uint32_t tests[SCAN_NCOVERAGE];
    uint32_t tensors;   /* covering tests in which a tensor reaches it */
    uint32_t unpatched; /* covering tests that no existing patch changes */
};
/* One a API. Owned. */
struct scan_total *scan_totals(const struct scan_result *r, size_t napis);

/* Every API with its tests and the evidence of each. */
void scan_print_text(FILE *to, const struct scan_result *r, const struct scan_api *apis, size_t napis,
                     bool patches);
/* One line an API: for whole inventories. */
void scan_print_summary(FILE *to, const struct scan_result *r, const struct scan_api *apis, size_t napis);
/* docs/scan.md describes the fields. tests false: totals only. */
void scan_print_json(struct buf *out, const struct scan_result *r, const struct scan_api *apis, size_t napis,
                     bool tests);
/* Markdown: API, file, test, lines, coverage with the call path. */
void scan_print_table(struct buf *out, const struct scan_result *r, const struct scan_api *apis,
                      size_t napis);

#endif
