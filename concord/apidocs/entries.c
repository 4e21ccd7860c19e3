/* entries.c - entries of documentation: names, answers, verdicts. */
#include "concord/apidocs/private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const doc_layout_names[DOC_NLAYOUT] = {"table", "fields", "families", "html"};
const char *const doc_verdict_names[DOC_NVERDICT] = {"supported", "unsupported", "missing", "contradictory",
                                                     "unclear"};

uint32_t doc_line_of(const char *text, const char *at)
{
    uint32_t line = 1;
    while ((text = memchr(text, '\n', (size_t)(at - text)))) {
        text++;
        line++;
    }
    return line;
}

char *doc_clean(const char *text)
{
    struct buf b = BUF_INIT;
    for (; *text; text++) {
        if (!isspace((unsigned char)*text))
            buf_addc(&b, *text);
        else if (b.len && b.ptr[b.len - 1] != ' ')
            buf_addc(&b, ' ');
    }
    while (b.len && b.ptr[b.len - 1] == ' ') b.ptr[--b.len] = 0;
    if (b.len == 1 && b.ptr[0] == '-') buf_clear(&b);
    return buf_take(&b);
}

/* Markdown escapes underscores in names now and then. */
static char *api_name(const char *text)
{
    struct buf b = BUF_INIT;
    bool dotted = false;
    for (const char *c = text;; c++) {
        if (*c == '\\' && (c[1] == '_' || c[1] == '*')) continue;
        if (isalnum((unsigned char)*c) || *c == '_' || (*c == '.' && b.len)) {
            buf_addc(&b, *c);
            dotted |= *c == '.';
            continue;
        }
        if (dotted && b.ptr[b.len - 1] != '.') break;
        buf_clear(&b);
        dotted = false;
        if (!*c) break;
    }
    if (b.len && dotted) return buf_take(&b);
    buf_free(&b);
    return NULL;
}

/* Tables list a few members by their bare names (to, view, rename_); the first row of a table's cell is all
 * name then. */
static char *bare_name(const char *text)
{
    char *name = doc_clean(text);
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (n && !name[n] && !isdigit((unsigned char)*name)) return name;
    free(name);
    return NULL;
}

struct doc_entry *doc_add(struct doc_set *set, const char *path, uint32_t line, enum doc_layout layout,
                          const char *text)
{
    char *api = api_name(text);
    if (!api && (layout == DOC_TABLE || layout == DOC_HTML)) api = bare_name(text);
    if (!api) return NULL;
    struct doc_entry *d = vec_push(&set->entries);
    d->api = api;
    d->file = xstrdup(path);
    d->line = line;
    d->layout = layout;
    d->note = xstrdup("");
    d->npu_name = xstrdup("");
    return d;
}

enum doc_support doc_support_of(const char *text)
{
    static const struct {
        const char *mark;
        enum doc_support means;
    } marks[] = {
        {"是", DOC_YES}, {"否", DOC_NO}, {"✔", DOC_YES}, {"✓", DOC_YES}, {"√", DOC_YES},
        {"✘", DOC_NO},   {"✗", DOC_NO},  {"×", DOC_NO},  {"Y", DOC_YES}, {"N", DOC_NO},
    };
    while (isspace((unsigned char)*text)) text++;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (str_starts(text, marks[i].mark)) return marks[i].means;
    return DOC_UNSAID;
}

enum doc_support doc_answer(const struct doc_entry *entry, const char *family)
{
    for (size_t i = 0; i < entry->families.len; i++)
        if (strstr(entry->families.ptr[i].name, family)) return entry->families.ptr[i].support;
    return entry->support;
}

enum doc_verdict doc_check(const struct doc_set *set, const char *api, const char *family,
                           const struct doc_entry **first)
{
    bool yes = false, no = false, unsaid = false;
    *first = NULL;
    for (size_t i = 0; i < set->entries.len; i++) {
        const struct doc_entry *d = &set->entries.ptr[i];
        if (strcmp(d->api, api)) continue;
        if (!*first) *first = d;
        enum doc_support s = doc_answer(d, family);
        yes |= s == DOC_YES;
        no |= s == DOC_NO;
        unsaid |= s == DOC_UNSAID;
    }
    if (!*first) return DOC_MISSING;
    if (yes + no + unsaid > 1) return DOC_CONTRADICTORY;
    return yes ? DOC_SUPPORTED : no ? DOC_UNSUPPORTED : DOC_UNCLEAR;
}

void doc_free(struct doc_set *set)
{
    for (size_t i = 0; i < set->entries.len; i++) {
        struct doc_entry *d = &set->entries.ptr[i];
        for (size_t k = 0; k < d->families.len; k++) free(d->families.ptr[k].name);
        vec_free(&d->families);
        free(d->api);
        free(d->file);
        free(d->note);
        free(d->npu_name);
    }
    vec_free(&set->entries);
}
