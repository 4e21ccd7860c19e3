/* table.c - renders a run's cells for a terminal or a log. */
#include "concord/run/table.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 6 };
static const char *const titles[COLUMNS] = {"release", "API", "verdict", "cases", "launches", "device"};
static const bool right[COLUMNS] = {[3] = true, [4] = true};

struct row {
    char *cell[COLUMNS];
};
typedef VEC(struct row) rows;

static struct row make_row(const struct cell *c)
{
    return (struct row){{xstrdup(c->release), xstrdup(c->api), xstrdup(verdict_name(c->verdict)),
                         xformat("%d/%d", c->counts[VERDICT_PASSED], c->total),
                         xformat("%lld", (long long)c->launches), xstrdup(device_kind_name(c->kind))}};
}

static void print_row(struct buf *out, char *const cell[COLUMNS], const int width[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++)
        buf_addf(out, right[i] ? "%s%*s" : "%s%-*s", i ? "  " : "", i == COLUMNS - 1 ? 0 : width[i], cell[i]);
    buf_addc(out, '\n');
}

static void print_rows(const rows *v, struct buf *out)
{
    int width[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        width[i] = (int)strlen(titles[i]);
        for (size_t k = 0; k < v->len; k++)
            if ((int)strlen(v->ptr[k].cell[i]) > width[i]) width[i] = (int)strlen(v->ptr[k].cell[i]);
    }
    print_row(out, (char *const *)titles, width);
    for (size_t k = 0; k < v->len; k++) print_row(out, v->ptr[k].cell, width);
}

static bool same_finding(const struct case_record *a, const struct case_record *b)
{
    return a->verdict == b->verdict && !strcmp(a->release, b->release) && !strcmp(a->api, b->api) &&
           !strcmp(a->reason, b->reason);
}

/* Cases from i on that say the same; 0 when an earlier one has said it. */
static int count_alike(const struct run_record *r, size_t i)
{
    int n = 0;
    for (size_t k = 0; k < r->cases.len; k++) {
        if (!same_finding(&r->cases.ptr[i], &r->cases.ptr[k])) continue;
        if (k < i) return 0;
        n++;
    }
    return n;
}

/* Every case that is not PASSED, those of a cell with one reason together. */
static void print_reasons(const struct run_record *r, struct buf *out)
{
    bool first = true;
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        int n = c->verdict == VERDICT_PASSED ? 0 : count_alike(r, i);
        if (!n) continue;
        if (first) buf_addc(out, '\n');
        first = false;
        buf_addf(out, "%s %s %s::%s", verdict_name(c->verdict), c->release, c->api, c->name);
        if (n > 1) buf_addf(out, " and %d more", n - 1);
        buf_addf(out, ": %s\n", *c->reason ? c->reason : verdict_meaning(c->verdict));
    }
}

void table_device_words(const struct run_record *r, struct buf *out)
{
    bool mixed;
    enum device_kind kind = record_kind(r, &mixed);
    const char *name = "";
    for (size_t i = 0; i < r->releases.len; i++)
        if (*r->releases.ptr[i].device) name = r->releases.ptr[i].device;
    if (mixed)
        buf_adds(out, "software and hardware mixed, see each row");
    else if (kind == KIND_NONE)
        buf_adds(out, "no device");
    else
        buf_addf(out, "%s device%s%s%s%s", device_kind_name(kind), *name ? " (" : "", name, *name ? ")" : "",
                 kind == KIND_SOFTWARE ? ", which is not hardware" : "");
}

void table_render(const struct run_record *r, struct buf *out)
{
    rows v = {0};
    for (size_t i = 0; i < r->releases.len; i++) {
        for (size_t a = 0; a < r->apis.len; a++) {
            struct cell cell = record_cell(r, r->releases.ptr[i].name, r->apis.ptr[a]);
            *vec_push(&v) = make_row(&cell);
        }
    }
    print_rows(&v, out);
    print_reasons(r, out);
    int total, passed = record_passed(r, &total);
    buf_addf(out, "\n%d of %d cells PASSED: ", passed, total);
    table_device_words(r, out);
    buf_addc(out, '\n');
    for (size_t k = 0; k < v.len; k++)
        for (int i = 0; i < COLUMNS; i++) free(v.ptr[k].cell[i]);
    vec_free(&v);
}
