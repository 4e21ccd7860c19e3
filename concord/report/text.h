/* text.h - what the Markdown renderings share: words in two languages, tables, escaped text. */
#ifndef CONCORD_REPORT_TEXT_H
#define CONCORD_REPORT_TEXT_H

#include "concord/report/report.h"

enum word {
#define WORD(id, en, zh) W_##id,
#include "concord/report/words.inc"
#undef WORD
    W_COUNT
};

struct page {
    const struct report *r;
    enum language lang;
    struct buf *out;
};

const char *say(const struct page *p, enum word w);
/* Text of a table's cell or a line: no line ends, nothing that Markdown or HTML would take for its own. */
void put_text(const struct page *p, const char *text);
/* The same as code; a backquote in it is shown as an apostrophe. */
void put_code(const struct page *p, const char *text);
/* A second-level heading, with an anchor that boxes link to when place is one. */
void put_heading(const struct page *p, enum word w);
void put_anchor(const struct page *p, enum report_place place);
void put_head(const struct page *p, const enum word *columns, int n);
void put_row(const struct page *p, const char *const *cells, int n);
const char *kind_word(const struct page *p, enum device_kind kind);

/* ---- blocks that the task text and the reviews both have -------------------------------------------------
 */

/* Operating system, architecture, device and its kind, CANN, torch, torch_npu, Python of one release or, with
 * NULL, of all as a table. */
void put_environment(const struct page *p, const struct release_record *only);
/* Upstream tests of the release: API, file, lines, test, coverage, path. At most limit rows; adapted: only
 * those of files that the release's patches change. */
void put_coverage(const struct page *p, const char *release, size_t limit, bool adapted);
/* Patch files of the release: edits by rule and what was left. */
void put_adaption(const struct page *p, const char *release);
void put_docs(const struct page *p, const char *release);
void put_audit(const struct page *p, const char *release);
/* The adapted upstream tests of the release: counts, then each that did not pass on both sides, with its
 * reason. */
void put_suite(const struct page *p, const char *release, size_t limit);
/* The cells of one release. */
void put_cells(const struct page *p, size_t release);
/* The cases of the release that are not PASSED, each with its reason; a sentence when there is none. */
void put_unpassed(const struct page *p, const char *release, size_t limit);

#endif
