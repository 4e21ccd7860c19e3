/* plan.c - reads the catalogue of cases and chooses from it. */
#include "concord/run/plan.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ---- the catalogue ----------------------------------------------------------------------------------- */

enum { COLUMNS = 5 };
static const char *const header[COLUMNS] = {"api", "case", "passes", "en", "zh"};

static int split_row(char *line, char *cell[COLUMNS])
{
    int n = 0;
    for (char *p = line; p && n < COLUMNS; n++) {
        cell[n] = p;
        p = strchr(p, '\t');
        if (p) *p++ = '\0';
    }
    return n;
}

static int check_row(char *const cell[COLUMNS], int n, const char *path, int number, struct err *e)
{
    if (n != COLUMNS) return err_set(e, "%s:%d: %d columns, expected %d", path, number, n, (int)COLUMNS);
    if (strcmp(cell[2], "forward") != 0 && strcmp(cell[2], "backward") != 0)
        return err_set(e, "%s:%d: '%s': expected forward or backward", path, number, cell[2]);
    return 0;
}

static int check_header(char *const cell[COLUMNS], int n, const char *path, int number, struct err *e)
{
    for (int i = 0; i < COLUMNS; i++)
        if (i >= n || strcmp(cell[i], header[i]) != 0)
            return err_set(e, "%s:%d: column %d should be '%s'", path, number, i + 1, header[i]);
    return 0;
}

static int add_line(char *line, const char *path, int number, bool *seen_header, struct plan_catalogue *out,
                    struct err *e)
{
    char *cell[COLUMNS] = {0};
    if (!*line || *line == '#') return 0;
    int n = split_row(line, cell);
    if (!*seen_header) {
        *seen_header = true;
        return check_header(cell, n, path, number, e);
    }
    if (check_row(cell, n, path, number, e)) return -1;
    if (plan_find(out, cell[0], cell[1]))
        return err_set(e, "%s:%d: case %s::%s is listed twice", path, number, cell[0], cell[1]);
    *vec_push(&out->cases) = (struct plan_case){xstrdup(cell[0]), xstrdup(cell[1]), xstrdup(cell[2]),
                                                xstrdup(cell[3]), xstrdup(cell[4])};
    return 0;
}

int plan_catalogue_load(const char *path, struct plan_catalogue *out, struct err *e)
{
    struct buf text = BUF_INIT;
    *out = (struct plan_catalogue){0};
    int status = file_read(path, &text, e), number = 0;
    bool seen_header = false;
    char *rest = text.ptr;
    while (!status && rest && *rest) {
        char *line = strsep(&rest, "\n");
        status = add_line(line, path, ++number, &seen_header, out, e);
    }
    buf_free(&text);
    if (!status && !out->cases.len) status = err_set(e, "%s: no case in it", path);
    if (status) plan_catalogue_free(out);
    return status;
}

void plan_catalogue_free(struct plan_catalogue *c)
{
    for (size_t i = 0; i < c->cases.len; i++) {
        struct plan_case *p = &c->cases.ptr[i];
        free(p->api);
        free(p->name);
        free(p->passes);
        free(p->en);
        free(p->zh);
    }
    vec_free(&c->cases);
}

const struct plan_case *plan_find(const struct plan_catalogue *c, const char *api, const char *name)
{
    for (size_t i = 0; i < c->cases.len; i++) {
        const struct plan_case *p = &c->cases.ptr[i];
        if (!strcmp(p->api, api) && (!name || !strcmp(p->name, name))) return p;
    }
    return NULL;
}

/* ---- the plan ---------------------------------------------------------------------------------------- */

void plan_free(struct plan *p)
{
    free(p->digest);
    strings_free(&p->apis);
    vec_free(&p->cases);
    *p = (struct plan){0};
}

static bool listed(const strings *s, const char *word)
{
    for (size_t i = 0; i < s->len; i++)
        if (!strcmp(s->ptr[i], word)) return true;
    return false;
}

static bool matches(const strings *patterns, const char *name)
{
    for (size_t i = 0; i < patterns->len; i++)
        if (!fnmatch(patterns->ptr[i], name, 0)) return true;
    return patterns->len == 0;
}

static int no_case_of(const struct plan *p, const struct plan_catalogue *c, const char *api, struct err *e)
{
    strings covered = {0};
    for (size_t i = 0; i < c->cases.len; i++)
        if (!listed(&covered, c->cases.ptr[i].api)) *vec_push(&covered) = xstrdup(c->cases.ptr[i].api);
    const char *nearest = str_nearest(api, (const char *const *)covered.ptr, covered.len);
    if (nearest)
        err_set(e, "%s: no built-in case covers '%s': did you mean '%s'?", p->campaign->path, api, nearest);
    else
        err_set(e, "%s: no built-in case covers '%s': harness/cases.tsv lists those that exist",
                p->campaign->path, api);
    strings_free(&covered);
    return -1;
}

int plan_choose_cases(struct plan *p, const struct plan_catalogue *c, const strings *patterns, struct err *e)
{
    for (size_t a = 0; a < p->campaign->apis.len; a++) {
        if (!plan_find(c, p->campaign->apis.ptr[a], NULL))
            return no_case_of(p, c, p->campaign->apis.ptr[a], e);
        size_t before = p->cases.len;
        for (size_t i = 0; i < c->cases.len; i++) {
            const struct plan_case *k = &c->cases.ptr[i];
            if (!strcmp(k->api, p->campaign->apis.ptr[a]) && matches(patterns, k->name))
                *vec_push(&p->cases) = k;
        }
        if (p->cases.len > before) *vec_push(&p->apis) = xstrdup(p->campaign->apis.ptr[a]);
    }
    if (!p->cases.len)
        return err_set(e, "%s: no case matches '%s'", p->campaign->path,
                       patterns->len ? patterns->ptr[0] : "");
    return 0;
}
