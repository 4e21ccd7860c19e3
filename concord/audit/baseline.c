/* baseline.c - findings that are known and accepted, with a reason and an end. */
#include "concord/audit/audit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_RULE, FIELD_FILE, FIELD_PRINT, FIELD_EXPIRES, FIELD_REASON, FIELDS };

struct entry {
    char *fields[FIELDS];
    uint32_t line;
    bool used;
};
struct baseline {
    char *path, *text;
    VEC(struct entry) entries;
};

bool date_valid(const char *text)
{
    static const char shape[] = "dddd-dd-dd";
    if (strlen(text) != sizeof shape - 1) return false;
    for (size_t i = 0; shape[i]; i++)
        if (shape[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != shape[i]) return false;
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = atoi(text), month = atoi(text + 5), day = atoi(text + 8);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] &&
           (month != 2 || day < 29 || leap);
}

static int take_entry(struct baseline *b, char *line, uint32_t number, struct err *e)
{
    struct entry entry = {.line = number};
    char *rest = line;
    for (int i = 0; i < FIELDS; i++) entry.fields[i] = strsep(&rest, i + 1 < FIELDS ? "\t" : "");
    const char *where = b->path;
    if (!entry.fields[FIELD_REASON] || !*entry.fields[FIELD_REASON])
        return err_set(
            e,
            "%s:%u: five fields separated by tabs are needed: rule, file, fingerprint or *, expiry, reason",
            where, number);
    if (!rule_named(entry.fields[FIELD_RULE])) {
        const char *near = rule_nearest(entry.fields[FIELD_RULE]);
        return err_set(e, "%s:%u: unknown rule '%s'%s%s", where, number, entry.fields[FIELD_RULE],
                       near ? ": did you mean " : "", near ? near : "");
    }
    if (!date_valid(entry.fields[FIELD_EXPIRES]))
        return err_set(e, "%s:%u: '%s' is not a date: write 2026-12-31", where, number,
                       entry.fields[FIELD_EXPIRES]);
    *vec_push(&b->entries) = entry;
    return 0;
}

struct baseline *baseline_read(const char *path, struct err *e)
{
    struct buf text = BUF_INIT;
    if (file_read(path, &text, e)) return NULL;
    struct baseline *b = xcalloc(1, sizeof *b);
    b->path = xstrdup(path);
    b->text = buf_take(&text);
    uint32_t number = 0;
    for (char *rest = b->text, *line; (line = strsep(&rest, "\n"));) {
        number++;
        if (!*line || *line == '#') continue;
        if (!take_entry(b, line, number, e)) continue;
        baseline_free(b);
        return NULL;
    }
    return b;
}

static bool covers(const struct entry *entry, const struct finding *f)
{
    if (strcmp(entry->fields[FIELD_RULE], f->rule->name) != 0) return false;
    if (!strcmp(entry->fields[FIELD_PRINT], f->print)) return true;
    if (strcmp(entry->fields[FIELD_PRINT], "*") != 0) return false;
    const char *file = entry->fields[FIELD_FILE];
    size_t n = strlen(file), m = strlen(f->file);
    return n <= m && !strcmp(f->file + m - n, file) && (n == m || f->file[m - n - 1] == '/');
}

void baseline_apply(struct baseline *b, struct findings *f, const char *today, strings *notes)
{
    for (size_t i = 0; i < b->entries.len; i++) {
        struct entry *entry = &b->entries.ptr[i];
        bool expired = strcmp(today, entry->fields[FIELD_EXPIRES]) > 0;
        for (size_t k = 0; k < f->list.len; k++) {
            if (!covers(entry, &f->list.ptr[k])) continue;
            entry->used = true;
            if (!expired && !f->list.ptr[k].accepted) f->list.ptr[k].accepted = entry->fields[FIELD_REASON];
        }
        if (!entry->used)
            *vec_push(notes) = xformat("%s:%u: matches no finding: remove it", b->path, entry->line);
        else if (expired)
            *vec_push(notes) =
                xformat("%s:%u: expired on %s: %s in %s counts again", b->path, entry->line,
                        entry->fields[FIELD_EXPIRES], entry->fields[FIELD_RULE], entry->fields[FIELD_FILE]);
    }
}

void baseline_free(struct baseline *b)
{
    if (!b) return;
    vec_free(&b->entries);
    free(b->path);
    free(b->text);
    free(b);
}

int baseline_write(const char *path, const struct findings *f, const char *reason, const char *expires,
                   struct err *e)
{
    struct buf out = BUF_INIT;
    buf_adds(&out, "# rule\tfile\tfingerprint\texpires\treason\n");
    for (size_t i = 0; i < f->list.len; i++) {
        const struct finding *k = &f->list.ptr[i];
        if (i && k->rule == f->list.ptr[i - 1].rule && !strcmp(k->print, f->list.ptr[i - 1].print)) continue;
        buf_addf(&out, "%s\t%s\t%s\t%s\t%s\n", k->rule->name, k->file, k->print, expires,
                 k->accepted ? k->accepted : reason);
    }
    int rc = file_write(path, buf_str(&out), out.len, 0, e);
    buf_free(&out);
    return rc;
}
