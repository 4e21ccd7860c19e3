/* repair.c - a faulty patch made right where its intent is not in doubt. */
#include "concord/patch/repair.h"
#include "concord/patch/load.h"

#include <stdlib.h>
#include <string.h>

/* One file section under repair: hunks in a list of their own, lines still the parsed patch's. */
struct section {
    const struct patch_file *f; /* NULL: made for hunks without any header */
    char *path;
    VEC(struct hunk) hunks;
    bool doubt; /* nothing about it may be changed */
    char old_id[PATCH_ID_MAX + 1], new_id[PATCH_ID_MAX + 1];
    bool rebuilt; /* text holds the whole section, made from the base */
    struct buf text;
};

struct repairer {
    const char *name;
    struct patch p;
    struct source *source;
    struct repair *r;
    VEC(struct section) sections;
};

static void note(struct repairer *k, bool fixed, const char *rule, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static void note(struct repairer *k, bool fixed, const char *rule, uint32_t line, const char *fmt, ...)
{
    struct repair_note *n = vec_push(&k->r->notes);
    n->line = line + 1;
    n->fixed = fixed;
    snprintf(n->rule, sizeof n->rule, "%s", rule);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(n->text, sizeof n->text, fmt, ap);
    va_end(ap);
    if (fixed)
        k->r->fixed++;
    else
        k->r->left++;
}

/* ---- bytes ------------------------------------------------------------------------------------------- */

/* Byte order mark off, CR LF to LF where the patch's own lines have it, newline at the end. */
static void normalise(struct repairer *k, struct slice text, const struct patch *raw, struct buf *out)
{
    bool crlf = false;
    for (size_t i = 0; i < raw->faults.len; i++) {
        const struct patch_fault *f = &raw->faults.ptr[i];
        crlf |= f->kind == FAULT_cr_line_ends;
        if (f->kind == FAULT_cr_line_ends)
            note(k, true, "cr-line-ends", f->line, "CR LF line ends become LF");
        if (f->kind == FAULT_byte_order_mark) note(k, true, "byte-order-mark", 0, "byte order mark removed");
        if (f->kind == FAULT_no_final_newline)
            note(k, true, "no-final-newline", f->line, "newline added at the end");
    }
    if (text.len >= 3 && !memcmp(text.ptr, "\xef\xbb\xbf", 3)) text.ptr += 3, text.len -= 3;
    for (size_t i = 0; i < text.len; i++)
        if (!(crlf && text.ptr[i] == '\r' && i + 1 < text.len && text.ptr[i + 1] == '\n'))
            buf_addc(out, text.ptr[i]);
    if (text.len && text.ptr[text.len - 1] != '\n') buf_addc(out, '\n');
}

/* ---- hunks ------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct hunk *x = a, *y = b;
    if (x->old_start != y->old_start) return x->old_start < y->old_start ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static bool changes_nothing(const struct repairer *k, const struct hunk *h)
{
    for (size_t i = 0; i < k->p.faults.len; i++)
        if (k->p.faults.ptr[i].kind == FAULT_hunk_noop && k->p.faults.ptr[i].line == h->line) return true;
    return false;
}

/* Is every changed line of a found, in order, among those of b? */
static bool edits_within(const struct patch *p, const struct hunk *a, const struct hunk *b)
{
    uint32_t j = b->body;
    for (uint32_t i = a->body; i < a->end; i++) {
        uint8_t kind = p->lines.ptr[i].kind;
        if (kind != LINE_ADD && kind != LINE_DEL) continue;
        while (j < b->end &&
               !(p->lines.ptr[j].kind == kind && slice_eq(patch_line_text(p, i), patch_line_text(p, j))))
            j++;
        if (j++ >= b->end) return false;
    }
    return true;
}

static bool overlap(const struct hunk *a, const struct hunk *b)
{
    return a->old_start < b->old_start + b->old_real && b->old_start < a->old_start + a->old_real;
}

/* A hunk that patch programs drop: a repetition of one that they take, or one to be taken too. */
static void adopt(struct repairer *k, struct section *s, const struct hunk *loose)
{
    for (size_t i = 0; i < s->hunks.len; i++) {
        const struct hunk *h = &s->hunks.ptr[i];
        if (!overlap(loose, h)) continue;
        if (edits_within(&k->p, loose, h)) {
            note(k, true, "hunk-outside-file", loose->line,
                 "removed: the hunk at line %u makes the same edit", h->line + 1);
        } else {
            note(k, false, "hunk-outside-file", loose->line,
                 "it overlaps the hunk at line %u, which edits otherwise", h->line + 1);
            s->doubt = true;
        }
        return;
    }
    *vec_push(&s->hunks) = *loose;
    note(k, true, "hunk-outside-file", loose->line, "put back into its file, %s", s->path);
}

static bool owned(const struct repairer *k, uint32_t hunk)
{
    for (size_t i = 0; i < k->p.files.len; i++)
        if (hunk >= k->p.files.ptr[i].hunk && hunk < k->p.files.ptr[i].hunk_end) return true;
    return false;
}

/* The section that a loose hunk belongs to: the one before it, else the only one if the name agrees, else a
 * new one. */
static struct section *home_of(struct repairer *k, const struct hunk *h)
{
    struct section *before = NULL;
    for (size_t i = 0; i < k->sections.len; i++)
        if (k->sections.ptr[i].f && k->sections.ptr[i].f->line < h->line) before = &k->sections.ptr[i];
    if (before) return before;
    char *target = patch_named_target(k->name);
    if (!target) return NULL;
    for (size_t i = 0; i < k->sections.len; i++)
        if (k->sections.ptr[i].path && !strcmp(k->sections.ptr[i].path, target)) {
            free(target);
            return &k->sections.ptr[i];
        }
    struct section *s = vec_push(&k->sections);
    s->path = target;
    return s;
}

static void collect(struct repairer *k)
{
    for (size_t i = 0; i < k->p.files.len; i++) {
        const struct patch_file *f = &k->p.files.ptr[i];
        struct section *s = vec_push(&k->sections);
        s->f = f;
        s->path = f->path ? xstrdup(f->path) : NULL;
        snprintf(s->old_id, sizeof s->old_id, "%s", f->old_id);
        snprintf(s->new_id, sizeof s->new_id, "%s", f->new_id);
        for (uint32_t h = f->hunk; h < f->hunk_end; h++) {
            if (changes_nothing(k, &k->p.hunks.ptr[h]))
                note(k, true, "hunk-noop", k->p.hunks.ptr[h].line, "hunk removed");
            else
                *vec_push(&s->hunks) = k->p.hunks.ptr[h];
        }
    }
    for (uint32_t h = 0; h < k->p.hunks.len; h++) {
        const struct hunk *loose = &k->p.hunks.ptr[h];
        if (owned(k, h)) continue;
        struct section *s = home_of(k, loose);
        if (s)
            adopt(k, s, loose);
        else
            note(k, false, "hunk-outside-file", loose->line,
                 "neither a header nor the patch's name tells its file");
    }
}

static void drop_duplicates(struct repairer *k, struct section *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->hunks.len; i++) {
        const struct hunk *h = &s->hunks.ptr[i], *last = n ? &s->hunks.ptr[n - 1] : NULL;
        if (last && last->old_start == h->old_start && edits_within(&k->p, h, last) &&
            edits_within(&k->p, last, h)) {
            note(k, true, "hunk-duplicate", h->line, "removed: the same as at line %u", last->line + 1);
            continue;
        }
        s->hunks.ptr[n++] = *h;
    }
    s->hunks.len = n;
}

/* Order, counts and new starts follow from the bodies and the old starts. */
static void renumber(struct repairer *k, struct section *s)
{
    bool sorted = true;
    for (size_t i = 1; i < s->hunks.len; i++) sorted &= by_place(&s->hunks.ptr[i - 1], &s->hunks.ptr[i]) < 0;
    if (!sorted) {
        qsort(s->hunks.ptr, s->hunks.len, sizeof *s->hunks.ptr, by_place);
        note(k, true, "hunk-order", s->hunks.ptr[0].line, "hunks of %s sorted by line", s->path);
    }
    drop_duplicates(k, s);
    int64_t delta = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < s->hunks.len; i++) {
        struct hunk *h = &s->hunks.ptr[i];
        int64_t first = (int64_t)h->old_start + (h->old_real == 0 && h->old_len == 0);
        if ((uint64_t)first < end) {
            note(k, false, "hunk-order", h->line,
                 "overlaps the hunk before it: which one is meant cannot be told");
            s->doubt = true;
            return;
        }
        if (h->old_len != h->old_real || h->new_len != h->new_real)
            note(k, true, "hunk-count", h->line, "counts -%u +%u become -%u +%u, as in the body", h->old_len,
                 h->new_len, h->old_real, h->new_real);
        h->old_len = h->old_real, h->new_len = h->new_real;
        int64_t start = first + delta - (h->new_len == 0);
        if (start != h->new_start && i < s->hunks.len)
            note(k, true, "hunk-new-start", h->line, "new start +%u becomes +%lld", h->new_start,
                 (long long)start);
        h->new_start = (uint32_t)(start > 0 ? start : 0);
        delta += (int64_t)h->new_len - h->old_len;
        end = (uint64_t)first + h->old_len;
    }
}

/* ---- printing ---------------------------------------------------------------------------------------- */

static void print_count(struct buf *out, char sign, uint32_t start, uint32_t len)
{
    buf_addf(out, "%c%u", sign, start);
    if (len != 1) buf_addf(out, ",%u", len);
}

static void print_hunk(const struct patch *p, const struct hunk *h, struct buf *out)
{
    buf_adds(out, "@@ ");
    print_count(out, '-', h->old_start, h->old_len);
    buf_addc(out, ' ');
    print_count(out, '+', h->new_start, h->new_len);
    buf_addf(out, " @@%.*s\n", SLICE_FMT(h->section));
    for (uint32_t i = h->body; i < h->end; i++) {
        struct slice s = patch_line_text(p, i);
        if (p->lines.ptr[i].kind == LINE_BARE)
            buf_addc(out, ' ');
        else
            buf_add(out, s.ptr, s.len);
        buf_addc(out, '\n');
    }
}

static void print_header(const struct section *s, struct buf *out)
{
    uint32_t old_mode = s->f ? s->f->old_mode : 0, new_mode = s->f ? s->f->new_mode : 0;
    bool created = s->f && s->f->created, deleted = s->f && s->f->deleted;
    buf_addf(out, "diff --git a/%s b/%s\n", s->path, s->path);
    if (created)
        buf_addf(out, "new file mode %06o\n", new_mode ? new_mode : 0100644);
    else if (deleted)
        buf_addf(out, "deleted file mode %06o\n", old_mode ? old_mode : 0100644);
    else if (old_mode != new_mode)
        buf_addf(out, "old mode %06o\nnew mode %06o\n", old_mode, new_mode);
    if (*s->old_id) {
        buf_addf(out, "index %s..%s", s->old_id, s->new_id);
        if (!created && !deleted && old_mode == new_mode)
            buf_addf(out, " %06o", old_mode ? old_mode : 0100644);
        buf_addc(out, '\n');
    }
    if (!s->hunks.len) return;
    buf_addf(out, "--- %s%s\n", created ? "/dev/null" : "a/", created ? "" : s->path);
    buf_addf(out, "+++ %s%s\n", deleted ? "/dev/null" : "b/", deleted ? "" : s->path);
}

static void print_section(const struct patch *p, const struct section *s, struct buf *out)
{
    if (s->rebuilt) {
        buf_add(out, buf_str(&s->text), s->text.len);
        return;
    }
    print_header(s, out);
    for (size_t i = 0; i < s->hunks.len; i++) print_hunk(p, &s->hunks.ptr[i], out);
}

/* ---- against the base -------------------------------------------------------------------------------- */

static void old_side(const struct patch *p, const struct hunk *h, struct buf *out)
{
    for (uint32_t i = h->body; i < h->end; i++) {
        if (!line_in_old(p->lines.ptr[i].kind)) continue;
        struct slice s = patch_line_content(p, i);
        buf_add(out, s.ptr, s.len);
        if (!patch_line_unterminated(p, i, h->end)) buf_addc(out, '\n');
    }
}

/* How often the image stands in base at a line start from line first on, and where first (line, from 1). */
static size_t places(struct slice base, struct slice image, uint32_t *where)
{
    size_t n = 0, counted = 0;
    uint32_t line = 1;
    for (size_t at = 0; image.len && at + image.len <= base.len;) {
        const char *hit = memmem(base.ptr + at, base.len - at, image.ptr, image.len);
        if (!hit) break;
        size_t off = (size_t)(hit - base.ptr);
        for (; counted < off; counted++) line += base.ptr[counted] == '\n';
        if ((!off || base.ptr[off - 1] == '\n') && ++n == 1) *where = line;
        at = off + 1;
    }
    return n;
}

static bool stands_at(struct slice base, struct slice image, uint32_t line)
{
    size_t at = 0;
    for (uint32_t i = 1; i < line && at < base.len; i++) {
        const char *nl = memchr(base.ptr + at, '\n', base.len - at);
        at = nl ? (size_t)(nl - base.ptr) + 1 : base.len;
    }
    return base.len - at >= image.len && !memcmp(base.ptr + at, image.ptr, image.len);
}

/* Every hunk to a place where its old side stands: the one it says, else the only one there is. */
static bool place_hunks(struct repairer *k, struct section *s, struct slice base)
{
    bool good = true;
    for (size_t i = 0; i < s->hunks.len; i++) {
        struct hunk *h = &s->hunks.ptr[i];
        struct buf image = BUF_INIT;
        uint32_t line = 0;
        old_side(&k->p, h, &image);
        if (image.len && !stands_at(base, slice_of(&image), h->old_start)) {
            size_t n = places(base, slice_of(&image), &line);
            if (n == 1) {
                note(k, true, "needs-offset", h->line, "line %u becomes %u, the only place where it fits",
                     h->old_start, line);
                h->old_start = line;
            } else {
                note(k, false, n ? "needs-offset" : "does-not-apply", h->line,
                     n ? "it fits at %zu places of the base and not at the one it names"
                       : "it fits nowhere in the base",
                     n);
                good = false;
            }
        }
        buf_free(&image);
    }
    return good;
}

static bool lacks_context(const struct patch *p, const struct section *s)
{
    for (size_t i = 0; i < s->hunks.len; i++) {
        const struct hunk *h = &s->hunks.ptr[i];
        bool context = s->hunks.len == 1 && h->old_start <= 1;
        for (uint32_t l = h->body; l < h->end && !context; l++)
            context = line_is_context(p->lines.ptr[l].kind);
        if (!context) return true;
    }
    return false;
}

static void splice(const struct patch *p, const struct section *s, struct slice base, struct buf *post)
{
    size_t at = 0;
    uint32_t line = 1;
    for (size_t i = 0; i < s->hunks.len; i++) {
        const struct hunk *h = &s->hunks.ptr[i];
        uint32_t first = h->old_start + (h->old_len == 0);
        size_t from = at;
        for (; line < first && at < base.len; line++) {
            const char *nl = memchr(base.ptr + at, '\n', base.len - at);
            at = nl ? (size_t)(nl - base.ptr) + 1 : base.len;
        }
        buf_add(post, base.ptr + from, at - from);
        for (uint32_t l = h->body; l < h->end; l++) {
            struct slice c = patch_line_content(p, l);
            uint8_t kind = p->lines.ptr[l].kind;
            bool open = patch_line_unterminated(p, l, h->end);
            if (line_in_old(kind)) at += c.len + !open, line++;
            if (!line_in_new(kind)) continue;
            buf_add(post, c.ptr, c.len);
            if (!open) buf_addc(post, '\n');
        }
    }
    buf_add(post, base.ptr + at, base.len - at);
}

/* Ids from the two contents, as long as they were. */
static void set_ids(struct repairer *k, struct section *s, struct slice base, struct slice post)
{
    char a[PATCH_ID_MAX + 1], b[PATCH_ID_MAX + 1];
    bool had = *s->old_id;
    int n = had ? (int)strlen(s->old_id) : 11;
    blob_id(base, n > 40, a);
    blob_id(post, n > 40, b);
    if (had && !strncmp(a, s->old_id, (size_t)n) && !strncmp(b, s->new_id, strlen(s->new_id))) return;
    uint32_t line = s->f ? s->f->index_line ? s->f->index_line : s->f->line : 0;
    note(k, true, had ? "post-id" : "no-index", line, "index line becomes %.*s..%.*s", n, a, n, b);
    snprintf(s->old_id, sizeof s->old_id, "%.*s", n, a);
    snprintf(s->new_id, sizeof s->new_id, "%.*s", n, b);
}

/* The section as printed, applied to base, must give post. */
static bool proves(struct repairer *k, const struct section *s, struct slice base, struct slice post)
{
    struct buf text = BUF_INIT, result = BUF_INIT;
    struct patch q;
    struct apply_result r;
    bool exists, good = false;
    print_section(&k->p, s, &text);
    if (!patch_parse(&q, slice_of(&text), NULL)) {
        if (q.files.len == 1) {
            patch_apply(&q, &q.files.ptr[0], base, 0, &result, &exists, &r);
            good = r.outcome == APPLY_clean && slice_eq(slice_of(&result), post);
        }
        patch_free(&q);
    }
    buf_free(&text);
    buf_free(&result);
    return good;
}

static int rebuild(struct section *s, struct slice base, struct slice post, struct err *e)
{
    struct make_options o = {.id_digits = (uint32_t)(strlen(s->old_id) <= 40 ? strlen(s->old_id) : 40)};
    s->rebuilt = true;
    return patch_make(s->path, base, post, s->f ? s->f->new_mode : 0, &o, &s->text, e);
}

static int repair_against(struct repairer *k, struct section *s, struct slice base, struct err *e)
{
    uint32_t line = s->f ? s->f->line : 0;
    bool right_base = *s->old_id && blob_id_matches(s->old_id, base);
    if (*s->old_id && !right_base) {
        note(k, false, "base-id", line,
             "%s in the source is not the base %s: ids and places cannot be checked", s->path, s->old_id);
        return 0;
    }
    if (!place_hunks(k, s, base)) {
        s->doubt = true;
        return 0;
    }
    bool bare = lacks_context(&k->p, s);
    if (bare && !right_base) {
        note(k, false, "hunk-no-context", line,
             "without context and without a proved base its place is a guess");
        return 0;
    }
    renumber(k, s);
    if (s->doubt) return 0;
    struct buf post = BUF_INIT;
    splice(&k->p, s, base, &post);
    set_ids(k, s, base, slice_of(&post));
    int rc = bare ? rebuild(s, base, slice_of(&post), e) : 0;
    if (!rc && bare) note(k, true, "hunk-no-context", line, "hunks of %s made again with context", s->path);
    if (!rc && !proves(k, s, base, slice_of(&post))) {
        note(k, false, "does-not-apply", line, "the repaired section does not give the intended contents");
        s->doubt = true;
        s->rebuilt = false;
    }
    buf_free(&post);
    return rc;
}

static int repair_section(struct repairer *k, struct section *s, struct err *e)
{
    renumber(k, s);
    if (s->doubt || (s->f && (s->f->created || s->f->deleted))) return 0;
    int rc = 0, found = 0;
    struct buf base = BUF_INIT;
    if (k->source) found = source_read(k->source, s->path, &base, NULL, e);
    if (found < 0)
        rc = -1;
    else if (found)
        rc = repair_against(k, s, slice_of(&base), e);
    else
        k->r->proved = false;
    if (!found && !rc) {
        uint32_t line = s->f ? s->f->line : 0;
        if (!*s->old_id)
            note(k, false, "no-index", line, "ids need the upstream file: none here for %s", s->path);
        if (lacks_context(&k->p, s))
            note(k, false, "hunk-no-context", line, "context needs the upstream file: none here");
    }
    buf_free(&base);
    return rc;
}

/* ---- the whole --------------------------------------------------------------------------------------- */

/* Faults that no rule of repair touches. */
static bool beyond_repair(struct repairer *k)
{
    static const enum patch_fault_kind hard[] = {
        FAULT_hunk_header,  FAULT_nul_byte,       FAULT_index_malformed,
        FAULT_header_paths, FAULT_path_traversal, FAULT_path_absolute,
        FAULT_target_twice, FAULT_symlink,        FAULT_binary,
        FAULT_rename,       FAULT_copy,           FAULT_header_incomplete};
    bool found = false;
    for (size_t i = 0; i < k->p.faults.len; i++)
        for (size_t j = 0; j < sizeof hard / sizeof *hard; j++)
            if (k->p.faults.ptr[i].kind == hard[j]) {
                note(k, false, patch_fault_name(hard[j]), k->p.faults.ptr[i].line, "%s: a person must decide",
                     k->p.faults.ptr[i].text);
                found = true;
            }
    return found;
}

static void note_cosmetics(struct repairer *k)
{
    for (size_t i = 0; i < k->p.faults.len; i++) {
        const struct patch_fault *f = &k->p.faults.ptr[i];
        if (f->kind == FAULT_context_stripped)
            note(k, true, "context-stripped", f->line, "%u context lines got their blank back", f->count);
        if (f->kind == FAULT_header_prefix)
            note(k, true, "header-prefix", f->line, "prefixes a/ and b/ put in");
        if (f->kind == FAULT_mode_change)
            note(k, false, "mode-change", f->line, "%s: whether it is meant cannot be told", f->text);
        if (f->kind != FAULT_stray_text && f->kind != FAULT_trailing_text) continue;
        bool blank = true;
        for (uint32_t l = f->line; l < f->line + f->count; l++)
            blank &= slice_blank(patch_line_text(&k->p, l));
        if (blank)
            note(k, true, patch_fault_name(f->kind), f->line, "%u blank lines removed", f->count);
        else
            note(k, true, patch_fault_name(f->kind), f->line,
                 "%u lines of text removed: no patch program reads them", f->count);
    }
}

static int repair_all(struct repairer *k, struct buf *out, struct err *e)
{
    int rc = 0;
    bool doubt = beyond_repair(k);
    if (!doubt) {
        note_cosmetics(k);
        collect(k);
    }
    for (size_t i = 0; !rc && !doubt && i < k->sections.len; i++)
        rc = repair_section(k, &k->sections.ptr[i], e);
    for (size_t i = 0; i < k->sections.len; i++) doubt |= k->sections.ptr[i].doubt;
    if (doubt || rc) {
        buf_add(out, buf_str(&k->p.text), k->p.text.len);
        return rc;
    }
    for (size_t i = 0; i < k->sections.len; i++) print_section(&k->p, &k->sections.ptr[i], out);
    return 0;
}

/* Whatever was done, a result that is still faulty is none: the input stays. */
static int check_result(struct repairer *k, struct slice text, struct buf *out, struct err *e)
{
    struct patch q;
    if (patch_parse(&q, slice_of(out), e)) return -1;
    const struct patch_fault *b = patch_blocked(&q);
    if (b && !k->r->left) {
        note(k, false, patch_fault_name(b->kind), 0, "what could be mended leaves '%s': a person must decide",
             b->text);
        buf_clear(out);
        buf_add(out, text.ptr, text.len);
    }
    patch_free(&q);
    return 0;
}

int patch_repair(const char *name, struct slice text, struct source *s, struct buf *out, struct repair *r,
                 struct err *e)
{
    struct repairer k = {.name = name, .source = s, .r = r};
    struct patch raw;
    struct buf clean = BUF_INIT;
    *r = (struct repair){.proved = s != NULL};
    buf_clear(out);
    if (patch_parse(&raw, text, e)) return -1;
    normalise(&k, text, &raw, &clean);
    patch_free(&raw);
    int rc = patch_parse(&k.p, slice_of(&clean), e);
    if (!rc) rc = repair_all(&k, out, e);
    if (!rc) rc = check_result(&k, text, out, e);
    for (size_t i = 0; i < k.sections.len; i++) {
        free(k.sections.ptr[i].path);
        vec_free(&k.sections.ptr[i].hunks);
        buf_free(&k.sections.ptr[i].text);
    }
    vec_free(&k.sections);
    patch_free(&k.p);
    buf_free(&clean);
    /* Nothing to mend: not a byte differs. */
    if (!rc && !r->fixed) {
        buf_clear(out);
        buf_add(out, text.ptr, text.len);
    }
    return rc;
}

void repair_free(struct repair *r)
{
    vec_free(&r->notes);
}
