/* expect.c - expectation files: reading, applying, rewriting. */
#include "concord/suite/expect.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 5 };

static void row_free(struct expect_row *w)
{
    char *owned[] = {w->pattern, w->release, w->device, w->issue, w->reason};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

void expect_free(struct expectations *x)
{
    for (size_t i = 0; i < x->rows.len; i++) row_free(&x->rows.ptr[i]);
    vec_free(&x->rows);
    strings_free(&x->lines);
    free(x->path);
    *x = (struct expectations){0};
}

static bool parse_verdict(const char *text, enum verdict *out)
{
    for (int v = 0; v < VERDICT_COUNT; v++) {
        char *name = xstrdup(verdict_name((enum verdict)v));
        for (char *p = name; *p; p++)
            if (*p == ' ') *p = '_';
        bool same = !strcmp(name, text);
        free(name);
        if (same && verdict_is_bad((enum verdict)v) && v != VERDICT_NOT_RUN && v != VERDICT_XPASS) {
            *out = (enum verdict)v;
            return true;
        }
    }
    return false;
}

static int parse_row(struct expectations *x, const char *line, int number, struct err *e)
{
    char *words[COLUMNS];
    const char *p = line;
    for (int i = 0; i < COLUMNS; i++) {
        p += strspn(p, " \t");
        size_t n = strcspn(p, " \t");
        if (!n) {
            while (i--) free(words[i]);
            return err_set(e,
                           "%s:%d: expected PATTERN VERDICT RELEASE DEVICE ISSUE REASON, found %d column(s)",
                           x->path, number, (int)(p == line));
        }
        words[i] = xstrndup(p, n);
        p += n;
    }
    struct expect_row w = {
        .pattern = words[0], .release = words[2], .device = words[3], .issue = words[4], .line = number};
    w.reason = xstrdup(p + strspn(p, " \t"));
    int status = 0;
    if (!parse_verdict(words[1], &w.verdict))
        status = err_set(e,
                         "%s:%d: '%s' is no verdict that can be expected: FAILED, ERROR, CRASHED, TIMEOUT, "
                         "FLAKY or NO_PROOF",
                         x->path, number, words[1]);
    else if (!*w.reason)
        status =
            err_set(e, "%s:%d: a reason is missing behind the issue ('-' for no issue)", x->path, number);
    free(words[1]);
    if (status)
        row_free(&w);
    else
        *vec_push(&x->rows) = w;
    return status;
}

int expect_load(const char *path, bool must_exist, struct expectations *x, struct err *e)
{
    *x = (struct expectations){.path = xstrdup(path)};
    struct buf text = BUF_INIT;
    if (!must_exist && !path_exists(path)) return 0;
    int status = file_read(path, &text, e), number = 0;
    char *rest = text.ptr, *line;
    while (!status && rest && (line = strsep(&rest, "\n"))) {
        if (!rest && !*line) break;
        *vec_push(&x->lines) = xstrdup(line);
        number++;
        const char *p = line + strspn(line, " \t\r");
        if (*p && *p != '#') status = parse_row(x, p, number, e);
    }
    buf_free(&text);
    if (status) expect_free(x);
    return status;
}

static bool applies(const struct expect_row *w, const struct suite_run *r)
{
    bool release = !strcmp(w->release, "-") || !strcmp(w->release, r->release);
    return release && (!strcmp(w->device, "-") || !strcmp(w->device, device_kind_name(r->kind)));
}

static struct expect_row *row_of(const struct expectations *x, const struct suite_run *r,
                                 const struct suite_case *c)
{
    char *name = suite_case_name(c);
    struct expect_row *found = NULL;
    for (size_t i = 0; !found && i < x->rows.len; i++) {
        struct expect_row *w = &x->rows.ptr[i];
        if (applies(w, r) && (!strcmp(w->pattern, name) || !fnmatch(w->pattern, name, 0))) found = w;
    }
    free(name);
    return found;
}

static void set_reason(struct suite_case *c, char *owned)
{
    free(c->reason);
    c->reason = owned;
}

void expect_apply(struct expectations *x, const struct suite_run *r, struct suite_case *c)
{
    struct expect_row *w = c->unit->side == SIDE_DEVICE ? row_of(x, r, c) : NULL;
    if (!w) return;
    const char *issue = strcmp(w->issue, "-") ? w->issue : "no issue";
    if (c->verdict == w->verdict) {
        set_reason(
            c, xformat("expected %s (%s: %s): %s", verdict_name(w->verdict), issue, w->reason, c->reason));
        c->verdict = VERDICT_XFAIL;
    } else if (c->verdict == VERDICT_PASSED) {
        c->verdict = VERDICT_XPASS;
        set_reason(c, xformat("passed, but %s:%d expects %s (%s: %s)", x->path, w->line,
                              verdict_name(w->verdict), issue, w->reason));
    }
}

static void add_row(struct buf *out, const struct suite_run *r, const struct suite_case *c)
{
    char *name = suite_case_name(c), *verdict = xstrdup(verdict_name(c->verdict));
    struct buf pattern = BUF_INIT;
    for (const char *p = name; *p; p++) {
        if (strchr("[]*?\\", *p)) buf_addc(&pattern, '\\');
        buf_addc(&pattern, *p == ' ' || *p == '\t' ? '?' : *p);
    }
    for (char *p = verdict; *p; p++)
        if (*p == ' ') *p = '_';
    const char *release = *r->release ? r->release : "-";
    buf_addf(out, "%s %s %s %s - %s\n", buf_str(&pattern), verdict, release, device_kind_name(r->kind),
             *c->reason ? c->reason : "no reason given");
    buf_free(&pattern);
    free(name);
    free(verdict);
}

static const struct expect_row *row_at(const struct expectations *x, int line)
{
    for (size_t i = 0; i < x->rows.len; i++)
        if (x->rows.ptr[i].line == line) return &x->rows.ptr[i];
    return NULL;
}

/* From the whole run, so that one that was resumed counts what it had before. */
static void count_hits(const struct expectations *x, const struct suite_run *r)
{
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; u->side == SIDE_DEVICE && k < u->cases.len; k++) {
            struct expect_row *w = row_of(x, r, u->cases.ptr[k]);
            if (!w) continue;
            w->hits++;
            w->kept += u->cases.ptr[k]->verdict == VERDICT_XFAIL;
        }
    }
}

int expect_update(const struct expectations *x, const struct suite_run *r, int *added, int *removed,
                  struct err *e)
{
    struct buf out = BUF_INIT;
    *added = *removed = 0;
    count_hits(x, r);
    for (size_t i = 0; i < x->lines.len; i++) {
        const struct expect_row *w = row_at(x, (int)i + 1);
        bool stale = w && applies(w, r) && w->hits && !w->kept;
        *removed += stale;
        if (!stale) buf_addf(&out, "%s\n", x->lines.ptr[i]);
    }
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; u->side == SIDE_DEVICE && k < u->cases.len; k++) {
            const struct suite_case *c = u->cases.ptr[k];
            if (!verdict_is_bad(c->verdict) || c->verdict == VERDICT_XPASS || c->verdict == VERDICT_NOT_RUN)
                continue;
            add_row(&out, r, c);
            ++*added;
        }
    }
    int status = file_write(x->path, buf_str(&out), out.len, 0, e);
    buf_free(&out);
    return status;
}
