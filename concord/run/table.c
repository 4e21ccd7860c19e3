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

static void print_reason(const struct cell *c, struct buf *out)
{
    if (!c->worst) return;
    buf_addf(out, "%s %s %s: %s: %s\n", verdict_name(c->verdict), c->release, c->api, c->worst->name,
             c->worst->reason);
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
    struct buf reasons = BUF_INIT;
    for (size_t i = 0; i < r->releases.len; i++) {
        for (size_t a = 0; a < r->apis.len; a++) {
            struct cell cell = record_cell(r, r->releases.ptr[i].name, r->apis.ptr[a]);
            *vec_push(&v) = make_row(&cell);
            print_reason(&cell, &reasons);
        }
    }
    print_rows(&v, out);
    if (reasons.len) buf_addf(out, "\n%s", reasons.ptr);
    int total, passed = record_passed(r, &total);
    buf_addf(out, "\n%d of %d cells PASSED: ", passed, total);
    table_device_words(r, out);
    buf_addc(out, '\n');
    buf_free(&reasons);
    for (size_t k = 0; k < v.len; k++)
        for (int i = 0; i < COLUMNS; i++) free(v.ptr[k].cell[i]);
    vec_free(&v);
}
