/* private.h - what the readers of documentation share. */
#ifndef CONCORD_APIDOCS_PRIVATE_H
#define CONCORD_APIDOCS_PRIVATE_H

#include "concord/apidocs/apidocs.h"

/* Appends an entry if text holds an API name (a dotted name, perhaps after "class"); NULL otherwise. */
struct doc_entry *doc_add(struct doc_set *set, const char *path, uint32_t line, enum doc_layout layout,
                          const char *text);
/* "是", "Y", the check marks; "否", "N", the crosses. */
enum doc_support doc_support_of(const char *text);
/* White space squeezed, a lone "-" becomes "". Owned. */
char *doc_clean(const char *text);
void doc_read_html(struct doc_set *set, const char *path, const char *text, size_t len);
uint32_t doc_line_of(const char *text, const char *at);

#endif
