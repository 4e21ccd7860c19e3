/* markdown.c - reads API tables, and headings followed by fields or by a table of hardware families. */
#include "concord/apidocs/private.h"

#include <md4c.h>
#include <stdlib.h>
#include <string.h>

enum column { COL_OTHER, COL_API, COL_NPU, COL_SUPPORT, COL_NOTE, COL_HARDWARE };
static const struct {
    const char *title;
    enum column column;
} titles[] = {
    {"API名称", COL_API},     {"NPU形式名称", COL_NPU}, {"是否支持", COL_SUPPORT},
    {"限制与说明", COL_NOTE}, {"硬件", COL_HARDWARE},
};
enum { MAX_COLUMNS = 8 };

struct reader {
    struct doc_set *set;
    const char *path, *text;
    struct buf cell;     /* text of the heading, paragraph or cell at hand */
    const char *cell_at; /* its first byte in text */
    enum column columns[MAX_COLUMNS];
    unsigned ncolumns, column;
    bool in_head;
    char *row[MAX_COLUMNS];
    const char *row_at;
    char *heading; /* name of the API that facts belong to: the last heading or native-document link */
    uint32_t heading_line;
    bool heading_is_entry; /* the last entry belongs to it */
    char *link;            /* target of the paragraph's first link */
};

static void begin_text(struct reader *r)
{
    buf_clear(&r->cell);
    r->cell_at = NULL;
    free(r->link);
    r->link = NULL;
}

/* md4c wants three dashes a column where the documents write two: lines of |--|--| are widened (lines stay
 * lines). */
static void widen_underlines(const char *text, size_t len, struct buf *out)
{
    for (const char *end = text + len; text < end;) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        size_t n = eol ? (size_t)(eol - text) + 1 : (size_t)(end - text);
        bool underline = memchr(text, '|', n) && strspn(text, "|:- \r") >= n - (eol != NULL);
        for (size_t i = 0; i < n; i++) {
            buf_addc(out, text[i]);
            if (underline && text[i] == '-' && text[i + 1] != '-') buf_adds(out, "--");
        }
        text += n;
    }
}

static enum column column_of(const char *title)
{
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strstr(title, titles[i].title)) return titles[i].column;
    return COL_OTHER;
}

static const char *cell_of(struct reader *r, enum column column)
{
    for (unsigned i = 0; i < r->ncolumns; i++)
        if (r->columns[i] == column && r->row[i]) return r->row[i];
    return "";
}

/* "是; 暂不支持Ascend 950DT": a general answer with exceptions. */
static void set_support(struct doc_entry *d, const char *text)
{
    d->support = doc_support_of(text);
    for (const char *at = text; (at = strstr(at, "暂不支持"));) {
        at += strlen("暂不支持");
        size_t n = strcspn(at, ";\n");
        struct doc_family *f = vec_push(&d->families);
        char *raw = xstrndup(at, n);
        f->name = doc_clean(raw);
        f->support = DOC_NO;
        free(raw);
    }
}

static void set_string(char **slot, const char *text)
{
    free(*slot);
    *slot = doc_clean(text);
}

/* The entry of the current heading, made when its first fact is read. */
static struct doc_entry *heading_entry(struct reader *r, enum doc_layout layout)
{
    if (r->heading_is_entry) return &r->set->entries.ptr[r->set->entries.len - 1];
    if (!r->heading) return NULL;
    struct doc_entry *d = doc_add(r->set, r->path, r->heading_line, layout, r->heading);
    r->heading_is_entry = d != NULL;
    if (d) r->set->tables++;
    return d;
}

static void end_row(struct reader *r)
{
    const char *api = cell_of(r, COL_API), *hardware = cell_of(r, COL_HARDWARE);
    if (*api) {
        struct doc_entry *d = doc_add(r->set, r->path, doc_line_of(r->text, r->row_at), DOC_TABLE, api);
        if (d) {
            set_support(d, cell_of(r, COL_SUPPORT));
            set_string(&d->note, cell_of(r, COL_NOTE));
            set_string(&d->npu_name, cell_of(r, COL_NPU));
        }
    } else if (*hardware) {
        struct doc_entry *d = heading_entry(r, DOC_FAMILIES);
        if (d) {
            d->layout = DOC_FAMILIES;
            *vec_push(&d->families) =
                (struct doc_family){doc_clean(hardware), doc_support_of(cell_of(r, COL_SUPPORT))};
            if (*cell_of(r, COL_NOTE)) set_string(&d->note, cell_of(r, COL_NOTE));
        }
    }
}

static void set_heading(struct reader *r, const char *name)
{
    free(r->heading);
    r->heading = xstrdup(name);
    r->heading_line = r->cell_at ? doc_line_of(r->text, r->cell_at) : 0;
    r->heading_is_entry = false;
}

/* "原生文档：[Tensor.T](...#torch.Tensor.T)" names the API in full, members of classes too. */
static void read_native_link(struct reader *r, const char *shown)
{
    const char *fragment = r->link ? strchr(r->link, '#') : NULL;
    bool full = str_starts(shown, "torch.") || !fragment || !str_starts(fragment + 1, "torch.");
    set_heading(r, full ? shown : fragment + 1);
}

static const char *after_colon(const char *text, const char *label)
{
    if (!str_starts(text, label)) return NULL;
    size_t n = strlen(label);
    if (str_starts(&text[n], "：")) return &text[n + strlen("：")];
    /* buf_str never gives NULL, which the analyser does not know. */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    return text[n] == ':' ? &text[n + 1] : NULL;
}

static void end_paragraph(struct reader *r)
{
    static const struct {
        const char *label;
        enum column column;
    } fields[] = {
        {"是否支持", COL_SUPPORT},
        {"限制与说明", COL_NOTE},
        {"NPU形式名称", COL_NPU},
    };
    const char *text = buf_str(&r->cell);
    const char *native = after_colon(text, "原生文档");
    if (native) read_native_link(r, native);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *value = after_colon(text, fields[i].label);
        if (!value) continue;
        struct doc_entry *d = heading_entry(r, DOC_FIELDS);
        if (!d) return;
        if (fields[i].column == COL_SUPPORT)
            set_support(d, value);
        else
            set_string(fields[i].column == COL_NOTE ? &d->note : &d->npu_name, value);
    }
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    (void)detail;
    struct reader *r = arg;
    switch (type) {
    case MD_BLOCK_TABLE:
        r->ncolumns = 0;
        break;
    case MD_BLOCK_THEAD:
        r->in_head = true;
        break;
    case MD_BLOCK_TBODY:
        r->in_head = false;
        break;
    case MD_BLOCK_TR:
        r->column = 0;
        r->row_at = NULL;
        break;
    case MD_BLOCK_H:
    case MD_BLOCK_P:
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        begin_text(r);
        break;
    default:
        break;
    }
    return 0;
}

static void end_cell(struct reader *r)
{
    if (r->column >= MAX_COLUMNS) return;
    if (r->in_head) {
        r->columns[r->column] = column_of(buf_str(&r->cell));
        r->ncolumns = r->column + 1;
    } else {
        free(r->row[r->column]);
        r->row[r->column] = xstrdup(buf_str(&r->cell));
        if (!r->row_at) r->row_at = r->cell_at;
    }
    r->column++;
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    (void)detail;
    struct reader *r = arg;
    switch (type) {
    case MD_BLOCK_H:
        set_heading(r, buf_str(&r->cell));
        break;
    case MD_BLOCK_P:
        end_paragraph(r);
        break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        end_cell(r);
        break;
    case MD_BLOCK_TR:
        if (!r->in_head && r->row_at) end_row(r);
        for (unsigned i = 0; i < MAX_COLUMNS; i++) {
            free(r->row[i]);
            r->row[i] = NULL;
        }
        break;
    default:
        break;
    }
    return 0;
}

static int enter_span(MD_SPANTYPE type, void *detail, void *arg)
{
    struct reader *r = arg;
    if (type != MD_SPAN_A || r->link) return 0;
    const MD_ATTRIBUTE *href = &((MD_SPAN_A_DETAIL *)detail)->href;
    r->link = xstrndup(href->text, href->size);
    return 0;
}

static int leave_span(MD_SPANTYPE type, void *detail, void *arg)
{
    (void)type, (void)detail, (void)arg;
    return 0;
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE size, void *arg)
{
    struct reader *r = arg;
    if (!r->cell_at && text >= r->text) r->cell_at = text;
    switch (type) {
    case MD_TEXT_HTML:
        if (size >= 3 && !strncmp(text, "<br", 3)) buf_adds(&r->cell, "; ");
        break;
    case MD_TEXT_BR:
    case MD_TEXT_SOFTBR:
        buf_addc(&r->cell, ' ');
        break;
    case MD_TEXT_ENTITY: /* the check mark is written as a number here and there */
        if (size == 8 && !strncmp(text, "&#10004;", 8))
            buf_adds(&r->cell, "✔");
        else if (size == 8 && !strncmp(text, "&#10008;", 8))
            buf_adds(&r->cell, "✘");
        else
            buf_add(&r->cell, text, size);
        break;
    default:
        buf_add(&r->cell, text, size);
    }
    return 0;
}

void doc_read(struct doc_set *set, const char *path, const char *text, size_t len)
{
    set->files++;
    if (memmem(text, len, "<table", 6) && memmem(text, len, "<tr", 3)) doc_read_html(set, path, text, len);
    struct buf wide = BUF_INIT;
    widen_underlines(text, len, &wide);
    struct reader r = {.set = set, .path = path, .text = buf_str(&wide)};
    MD_PARSER parser = {.flags = MD_FLAG_TABLES,
                        .enter_block = enter_block,
                        .leave_block = leave_block,
                        .enter_span = enter_span,
                        .leave_span = leave_span,
                        .text = on_text};
    md_parse(buf_str(&wide), (MD_SIZE)wide.len, &parser, &r);
    buf_free(&r.cell);
    buf_free(&wide);
    free(r.heading);
    free(r.link);
    for (unsigned i = 0; i < MAX_COLUMNS; i++) free(r.row[i]);
}
