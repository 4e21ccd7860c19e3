/* apidocs.h - what a release's reference documentation says of an API.
 *
 * Three layouts are known (public Ascend/pytorch repository): a Markdown table of APIs; a heading per API
 * followed by fields or by a table of hardware families; an HTML table of names with Y or blank. One reader
 * serves the first two (md4c), a small scanner of table tags the third. Every entry keeps its file and line.
 */
#ifndef CONCORD_APIDOCS_H
#define CONCORD_APIDOCS_H

#include "concord/base/base.h"

enum doc_layout { DOC_TABLE, DOC_FIELDS, DOC_FAMILIES, DOC_HTML, DOC_NLAYOUT };
extern const char *const doc_layout_names[DOC_NLAYOUT];

enum doc_support { DOC_UNSAID, DOC_YES, DOC_NO };

struct doc_family {
    char *name; /* "Atlas A2 训练系列产品" */
    enum doc_support support;
};
struct doc_entry {
    char *api;  /* "torch.utils.checkpoint.checkpoint" */
    char *file; /* relative path */
    uint32_t line;
    enum doc_layout layout;
    enum doc_support support; /* general answer; families override it */
    char *note;               /* restrictions as written, "" if none */
    char *npu_name;           /* the plugin's own name for it, "" if none */
    VEC(struct doc_family) families;
};
struct doc_set {
    VEC(struct doc_entry) entries;
    uint32_t files, tables; /* read; tables or headings that looked like documentation of APIs */
};

/* Reads one file's text; entries are appended. */
void doc_read(struct doc_set *set, const char *path, const char *text, size_t len);
/* All files of a release below root, which is a clone's work tree or a folder that holds the release's
 * documents. With ref not NULL root is a git repository, and the files are read from that commit without a
 * checkout. */
int doc_load(struct doc_set *set, const char *root, const char *ref, const char *release, struct err *e);
void doc_free(struct doc_set *set);

/* The answer of one entry for a hardware family ("Atlas A2"; matched as a substring). */
enum doc_support doc_answer(const struct doc_entry *entry, const char *family);

enum doc_verdict {
    DOC_SUPPORTED,
    DOC_UNSUPPORTED,
    DOC_MISSING,
    DOC_CONTRADICTORY,
    DOC_UNCLEAR,
    DOC_NVERDICT
};
extern const char *const doc_verdict_names[DOC_NVERDICT];
/* Over all entries of an API. *first is the entry to quote, NULL when missing. */
enum doc_verdict doc_check(const struct doc_set *set, const char *api, const char *family,
                           const struct doc_entry **first);

#endif
