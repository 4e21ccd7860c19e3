/* html.c - reads HTML tables of API names with Y or blank. */
#include "concord/apidocs/private.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CELLS = 4 };

struct table_row {
    struct buf cell[MAX_CELLS];
    int n;
    const char *at; /* first text of the first cell */
};

static bool is_tag(const char *at, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(at, name, n) && (at[n] == '>' || at[n] == ' ' || at[n] == '\n');
}

static void end_row(struct doc_set *set, const char *path, const char *text, struct table_row *row)
{
    if (row->n >= 2 && row->at) {
        struct doc_entry *d =
            doc_add(set, path, doc_line_of(text, row->at), DOC_HTML, buf_str(&row->cell[0]));
        if (d) {
            d->support = doc_support_of(buf_str(&row->cell[1]));
            if (d->support == DOC_UNSAID) d->support = DOC_NO; /* this layout leaves the cell blank */
            free(d->note);
            d->note = doc_clean(row->n > 2 ? buf_str(&row->cell[2]) : "");
        }
    }
    for (int i = 0; i < MAX_CELLS; i++) buf_clear(&row->cell[i]);
    row->n = 0;
    row->at = NULL;
}

void doc_read_html(struct doc_set *set, const char *path, const char *text, size_t len)
{
    struct table_row row = {0};
    bool in_cell = false;
    for (const char *c = text, *end = text + len; c < end;) {
        if (*c == '<') {
            if (is_tag(c, "<td")) {
                in_cell = row.n < MAX_CELLS;
                row.n++;
            } else if (is_tag(c, "</td") || is_tag(c, "<th")) {
                in_cell = false;
            } else if (is_tag(c, "</tr")) {
                end_row(set, path, text, &row);
            }
            const char *close = memchr(c, '>', (size_t)(end - c));
            c = close ? close + 1 : end;
            continue;
        }
        if (in_cell && !strncmp(c, "&nbsp;", 6)) {
            c += 6;
            continue;
        }
        if (in_cell) {
            if (!row.at && row.n == 1) row.at = c;
            buf_addc(&row.cell[row.n - 1], *c);
        }
        c++;
    }
    for (int i = 0; i < MAX_CELLS; i++) buf_free(&row.cell[i]);
}
