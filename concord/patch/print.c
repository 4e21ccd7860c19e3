/* print.c - model to unified diff, and its reverse. */
#include "concord/patch/patch.h"

#include <string.h>

static void print_range(struct buf *out, char sign, uint32_t start, uint32_t len, bool is_short)
{
    buf_addf(out, "%c%u", sign, start);
    if (!is_short || len != 1) buf_addf(out, ",%u", len);
}

static void print_hunk_header(struct buf *out, const struct hunk *h)
{
    buf_adds(out, "@@ ");
    print_range(out, '-', h->old_start, h->old_len, h->old_short);
    buf_addc(out, ' ');
    print_range(out, '+', h->new_start, h->new_len, h->new_short);
    buf_adds(out, " @@");
    buf_add(out, h->section.ptr, h->section.len);
}

static void print_end(struct buf *out, const struct patch_line *l)
{
    static const char *const ends[] = {[END_LF] = "\n", [END_CRLF] = "\r\n", [END_NONE] = ""};
    buf_adds(out, ends[l->end]);
}

void patch_print(const struct patch *p, struct buf *out)
{
    buf_reserve(out, p->text.len);
    size_t h = 0;
    for (uint32_t i = 0; i < p->lines.len; i++) {
        const struct patch_line *l = &p->lines.ptr[i];
        if (i == 0 && l->off) buf_add(out, buf_str(&p->text), l->off);
        if (h < p->hunks.len && p->hunks.ptr[h].line == i) {
            print_hunk_header(out, &p->hunks.ptr[h++]);
        } else {
            struct slice s = patch_line_text(p, i);
            buf_add(out, s.ptr, s.len);
        }
        print_end(out, l);
    }
}

/* ---- reverse ----------------------------------------------------------------------------------------------
 */

/* Prints line i with the new sign when it is of that kind (or stands for it), with its \ line. */
static void reverse_line(const struct patch *p, uint32_t i, enum line_kind wanted, char sign, struct buf *out)
{
    enum line_kind kind = p->lines.ptr[i].kind;
    if (kind == LINE_BARE) kind = LINE_CONTEXT;
    if (kind != wanted) return;
    struct slice s = patch_line_content(p, i);
    buf_addc(out, sign);
    buf_add(out, s.ptr, s.len);
    buf_addc(out, '\n');
    if (i + 1 < p->lines.len && p->lines.ptr[i + 1].kind == LINE_NO_EOL)
        buf_adds(out, "\\ No newline at end of file\n");
}

static void reverse_hunk(const struct patch *p, const struct hunk *h, struct buf *out)
{
    struct hunk r = *h;
    r.old_start = h->new_start, r.old_len = h->new_len, r.old_short = h->new_short;
    r.new_start = h->old_start, r.new_len = h->old_len, r.new_short = h->old_short;
    print_hunk_header(out, &r);
    buf_addc(out, '\n');
    for (uint32_t i = h->body; i < h->end;) {
        uint32_t run = i;
        while (run < h->end && !line_is_context(p->lines.ptr[run].kind)) run++;
        if (run == i) reverse_line(p, i++, LINE_CONTEXT, ' ', out);
        for (uint32_t k = i; k < run; k++) reverse_line(p, k, LINE_ADD, '-', out);
        for (uint32_t k = i; k < run; k++) reverse_line(p, k, LINE_DEL, '+', out);
        i = run > i ? run : i;
    }
}

static void reverse_name(struct buf *out, const char *mark, struct slice name, char prefix)
{
    buf_adds(out, mark);
    size_t q = name.len && *name.ptr == '"';
    if (slice_eq(name, slice_str("/dev/null")))
        buf_adds(out, "/dev/null");
    else
        buf_add(out, name.ptr, q), buf_addc(out, prefix), buf_add(out, name.ptr + q + 1, name.len - q - 1);
    buf_addc(out, '\n');
}

static void reverse_modes(const struct patch_file *f, struct buf *out)
{
    uint32_t old_mode = f->new_mode, new_mode = f->old_mode;
    if (f->created)
        buf_addf(out, "deleted file mode %06o\n", old_mode ? old_mode : 0100644);
    else if (f->deleted)
        buf_addf(out, "new file mode %06o\n", new_mode ? new_mode : 0100644);
    else if (old_mode != new_mode)
        buf_addf(out, "old mode %06o\nnew mode %06o\n", old_mode, new_mode);
    if (!f->index_line) return;
    buf_addf(out, "index %s..%s", f->new_id, f->old_id);
    if (old_mode == new_mode && old_mode) buf_addf(out, " %06o", old_mode);
    buf_addc(out, '\n');
}

static void reverse_file(const struct patch *p, const struct patch_file *f, struct buf *out)
{
    if (f->git_old.len) buf_addf(out, "diff --git %.*s %.*s\n", SLICE_FMT(f->git_old), SLICE_FMT(f->git_new));
    reverse_modes(f, out);
    if (f->new_name.len) {
        reverse_name(out, "--- ", f->new_name, 'a');
        reverse_name(out, "+++ ", f->old_name, 'b');
    }
    for (uint32_t h = f->hunk; h < f->hunk_end; h++) reverse_hunk(p, &p->hunks.ptr[h], out);
}

int patch_reverse(const struct patch *p, struct buf *out, struct err *e)
{
    const struct patch_fault *b = patch_blocked(p);
    if (b) return err_set(e, "line %u: %s: %s", b->line + 1, patch_fault_name(b->kind), b->text);
    for (size_t i = 0; i < p->files.len; i++) reverse_file(p, &p->files.ptr[i], out);
    return 0;
}
