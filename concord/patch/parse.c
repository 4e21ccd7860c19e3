/* parse.c - unified diff to model: every line gets its kind, every irregularity becomes a fault. */
#include "concord/patch/names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parser {
    struct patch *p;
    uint32_t at;
    bool crlf;        /* the section's own lines end in CR LF */
    bool in_tail;     /* a stray line was seen since the last section or hunk */
    int64_t delta;    /* lines added so far in the section */
    uint64_t old_end; /* first old line after the last hunk */
};

static void fault(struct patch *p, enum patch_fault_kind kind, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void fault(struct patch *p, enum patch_fault_kind kind, uint32_t line, const char *fmt, ...)
{
    struct patch_fault *f = vec_push(&p->faults);
    f->kind = kind;
    f->line = line;
    f->count = 1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

/* ---- lines ----------------------------------------------------------------------------------------------
 */

static void split_lines(struct patch *p)
{
    const char *text = buf_str(&p->text);
    size_t n = p->text.len, off = 0;
    while (off < n) {
        const char *nl = memchr(text + off, '\n', n - off);
        size_t len = nl ? (size_t)(nl - text) - off : n - off;
        struct patch_line *l = vec_push(&p->lines);
        *l = (struct patch_line){(uint32_t)off, (uint32_t)len, LINE_STRAY, nl ? END_LF : END_NONE};
        off += len + 1;
    }
}

static bool at_end(const struct parser *s)
{
    return s->at >= s->p->lines.len;
}

static struct slice line_at(const struct parser *s, uint32_t i)
{
    return i < s->p->lines.len ? patch_line_text(s->p, i) : (struct slice){"", 0};
}

/* Gives the line its kind; in a CR LF section its CR becomes part of the line end. */
static struct slice take(struct parser *s, enum line_kind kind)
{
    struct patch_line *l = &s->p->lines.ptr[s->at];
    l->kind = (uint8_t)kind;
    if (s->crlf && l->len && l->end == END_LF && buf_str(&s->p->text)[l->off + l->len - 1] == '\r') {
        l->len--;
        l->end = END_CRLF;
    }
    return patch_line_text(s->p, s->at++);
}

static bool starts(const struct parser *s, uint32_t i, const char *prefix)
{
    return i < s->p->lines.len && slice_starts(line_at(s, i), prefix);
}

static bool section_starts(const struct parser *s, uint32_t i)
{
    if (starts(s, i, "diff --git ")) return true;
    return starts(s, i, "--- ") && starts(s, i + 1, "+++ ") && starts(s, i + 2, "@@ -");
}

static bool is_null(struct slice name)
{
    return slice_eq(name, slice_str("/dev/null"));
}

/* ---- index line and modes ---------------------------------------------------------------------------------
 */

static bool take_id(struct slice *s, char *id)
{
    size_t n = 0;
    while (n < s->len && n < PATCH_ID_MAX && strchr("0123456789abcdef", s->ptr[n]) && s->ptr[n]) n++;
    if (n < 4) return false;
    memcpy(id, s->ptr, n);
    id[n] = '\0';
    s->ptr += n, s->len -= n;
    return true;
}

static bool take_mode(struct slice s, uint32_t *mode)
{
    if (s.len != 6) return false;
    uint32_t value = 0;
    for (size_t i = 0; i < 6; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '7') return false;
        value = value * 8 + (uint32_t)(s.ptr[i] - '0');
    }
    *mode = value;
    return true;
}

static bool parse_index(struct patch_file *f, struct slice s)
{
    s.ptr += 6, s.len -= 6;
    if (!take_id(&s, f->old_id)) return false;
    if (!slice_starts(s, "..")) return false;
    s.ptr += 2, s.len -= 2;
    if (!take_id(&s, f->new_id)) return false;
    if (!s.len) return true;
    if (*s.ptr != ' ') return false;
    s.ptr++, s.len--;
    if (!take_mode(s, &f->old_mode)) return false;
    f->new_mode = f->old_mode;
    return true;
}

enum ext {
    EXT_OLD_MODE,
    EXT_NEW_MODE,
    EXT_DELETED,
    EXT_CREATED,
    EXT_COPY,
    EXT_RENAME,
    EXT_SIMILAR,
    EXT_COUNT
};
static const struct {
    const char *prefix;
    enum ext what;
} extended[] = {
    {"old mode ", EXT_OLD_MODE},
    {"new mode ", EXT_NEW_MODE},
    {"deleted file mode ", EXT_DELETED},
    {"new file mode ", EXT_CREATED},
    {"copy from ", EXT_COPY},
    {"copy to ", EXT_COPY},
    {"rename from ", EXT_RENAME},
    {"rename to ", EXT_RENAME},
    {"rename old ", EXT_RENAME},
    {"rename new ", EXT_RENAME},
    {"similarity index ", EXT_SIMILAR},
    {"dissimilarity index ", EXT_SIMILAR},
};

static void apply_extended(struct parser *s, struct patch_file *f, enum ext what, struct slice value)
{
    uint32_t *mode = what == EXT_OLD_MODE || what == EXT_DELETED ? &f->old_mode : &f->new_mode;
    if (what <= EXT_CREATED && !take_mode(value, mode)) {
        fault(s->p, FAULT_header_incomplete, s->at - 1, "'%.*s' is not a file mode", SLICE_FMT(value));
    }
    f->deleted |= what == EXT_DELETED;
    f->created |= what == EXT_CREATED;
    f->copied |= what == EXT_COPY;
    f->renamed |= what == EXT_RENAME;
}

static bool parse_extended(struct parser *s, struct patch_file *f)
{
    for (size_t i = 0; i < sizeof extended / sizeof *extended; i++) {
        if (!starts(s, s->at, extended[i].prefix)) continue;
        struct slice line = take(s, LINE_EXTENDED);
        size_t n = strlen(extended[i].prefix);
        apply_extended(s, f, extended[i].what, (struct slice){line.ptr + n, line.len - n});
        return true;
    }
    return false;
}

/* ---- hunks ------------------------------------------------------------------------------------------------
 */

static bool take_number(struct slice *s, uint32_t *out)
{
    uint64_t value = 0;
    size_t n = 0;
    for (; n < s->len && s->ptr[n] >= '0' && s->ptr[n] <= '9'; n++) {
        value = value * 10 + (uint64_t)(s->ptr[n] - '0');
        if (value > INT32_MAX) return false;
    }
    if (!n || (n > 1 && *s->ptr == '0')) return false;
    s->ptr += n, s->len -= n;
    *out = (uint32_t)value;
    return true;
}

static bool take_range(struct slice *s, const char *before, uint32_t *start, uint32_t *len, uint8_t *is_short)
{
    size_t n = strlen(before);
    if (!slice_starts(*s, before)) return false;
    s->ptr += n, s->len -= n;
    if (!take_number(s, start)) return false;
    *len = 1;
    *is_short = !slice_starts(*s, ",");
    if (*is_short) return true;
    s->ptr++, s->len--;
    return take_number(s, len);
}

static bool parse_hunk_header(struct hunk *h, struct slice s)
{
    if (!take_range(&s, "@@ -", &h->old_start, &h->old_len, &h->old_short)) return false;
    if (!take_range(&s, " +", &h->new_start, &h->new_len, &h->new_short)) return false;
    if (!slice_starts(s, " @@")) return false;
    h->section = (struct slice){s.ptr + 3, s.len - 3};
    return !h->section.len || *h->section.ptr == ' ';
}

static enum line_kind body_kind(struct slice s, bool crlf)
{
    if (!s.len || (crlf && s.len == 1 && *s.ptr == '\r')) return LINE_BARE;
    switch (*s.ptr) {
    case ' ':
        return LINE_CONTEXT;
    case '+':
        return LINE_ADD;
    case '-':
        return LINE_DEL;
    case '\\':
        return LINE_NO_EOL;
    default:
        return LINE_STRAY;
    }
}

/* "-- " alone is the signature mark of a mailed patch. */
static bool is_signature(struct slice s)
{
    return slice_eq(s, slice_str("-- ")) || slice_eq(s, slice_str("-- \r"));
}

/* After the counts are satisfied: does more of the body follow, which the header does not count? Bare lines
 * alone are text after the hunk, not context. */
static bool body_goes_on(const struct parser *s)
{
    uint32_t i = s->at;
    while (i < s->p->lines.len && body_kind(line_at(s, i), s->crlf) == LINE_BARE) i++;
    if (i >= s->p->lines.len || section_starts(s, i) || is_signature(line_at(s, i))) return false;
    enum line_kind k = body_kind(line_at(s, i), s->crlf);
    return k == LINE_CONTEXT || k == LINE_ADD || k == LINE_DEL;
}

static void take_body(struct parser *s, struct hunk *h)
{
    while (!at_end(s)) {
        bool full = h->old_real >= h->old_len && h->new_real >= h->new_len;
        enum line_kind k = body_kind(line_at(s, s->at), s->crlf);
        if (k == LINE_STRAY || section_starts(s, s->at)) break;
        if (full && k != LINE_NO_EOL && !body_goes_on(s)) break;
        take(s, k);
        h->old_real += line_in_old(k);
        h->new_real += line_in_new(k);
    }
    h->end = s->at;
}

/* First line that the range stands before: an empty range names the line it follows. */
static int64_t range_first(uint32_t start, uint32_t len)
{
    return (int64_t)start + (len == 0);
}

static void check_place(struct parser *s, const struct hunk *h)
{
    int64_t first = range_first(h->old_start, h->old_len);
    if (first < (int64_t)s->old_end)
        fault(s->p, FAULT_hunk_order, h->line, "starts at line %u, but the hunk before reaches line %llu",
              h->old_start, (unsigned long long)(s->old_end - 1));
    int64_t wanted = first + s->delta - (h->new_len == 0);
    if (wanted != h->new_start)
        fault(s->p, FAULT_hunk_new_start, h->line, "says +%u, the hunks before make it +%lld", h->new_start,
              (long long)wanted);
    s->delta += (int64_t)h->new_len - h->old_len;
    s->old_end = (uint64_t)first + h->old_len;
}

/* True when the old side and the new side of the hunk are the same lines. */
static bool sides_equal(const struct patch *p, const struct hunk *h)
{
    uint32_t a = h->body, b = h->body;
    for (;;) {
        while (a < h->end && !line_in_old(p->lines.ptr[a].kind)) a++;
        while (b < h->end && !line_in_new(p->lines.ptr[b].kind)) b++;
        if (a >= h->end || b >= h->end) return a >= h->end && b >= h->end;
        if (!slice_eq(patch_line_content(p, a), patch_line_content(p, b))) return false;
        if (patch_line_unterminated(p, a, h->end) != patch_line_unterminated(p, b, h->end)) return false;
        a++, b++;
    }
}

static void check_body(struct parser *s, const struct hunk *h)
{
    struct patch *p = s->p;
    if (h->old_real != h->old_len || h->new_real != h->new_len)
        fault(p, FAULT_hunk_count, h->line, "says -%u +%u lines, has -%u +%u", h->old_len, h->new_len,
              h->old_real, h->new_real);
    if (sides_equal(p, h)) fault(p, FAULT_hunk_noop, h->line, "changes nothing");
    uint32_t bare = 0, first = 0;
    for (uint32_t i = h->body; i < h->end; i++) {
        if (p->lines.ptr[i].kind != LINE_BARE) continue;
        if (!bare++) first = i;
    }
    if (!bare) return;
    struct patch_fault *last = p->faults.len ? &p->faults.ptr[p->faults.len - 1] : NULL;
    for (; last && last >= p->faults.ptr; last--)
        if (last->kind == FAULT_context_stripped && last->line >= p->files.ptr[p->files.len - 1].line) {
            last->count += bare;
            return;
        }
    fault(p, FAULT_context_stripped, first, "an empty context line without its blank");
    p->faults.ptr[p->faults.len - 1].count = bare;
}

/* Consumes the @@ line and its body, well formed or not. */
static void parse_hunk(struct parser *s)
{
    struct patch *p = s->p;
    struct hunk h = {.line = s->at};
    struct slice line = take(s, LINE_HUNK);
    if (!s->crlf && line.len && line.ptr[line.len - 1] == '\r') {
        s->crlf = true;
        s->at--;
        line = take(s, LINE_HUNK);
    }
    h.body = s->at;
    if (!parse_hunk_header(&h, line)) {
        p->lines.ptr[h.line].kind = LINE_STRAY;
        fault(p, FAULT_hunk_header, h.line, "not of the form @@ -line,count +line,count @@");
        while (!at_end(s) && body_kind(line_at(s, s->at), s->crlf) != LINE_STRAY && !section_starts(s, s->at))
            take(s, LINE_STRAY);
        return;
    }
    take_body(s, &h);
    *vec_push(&p->hunks) = h;
    check_place(s, &h);
    if (p->files.len) check_body(s, &h);
}

/* ---- file sections ----------------------------------------------------------------------------------- */

static char *plain_path(struct slice name)
{
    char *whole = patch_unquote(name);
    if (!whole) return NULL;
    char *path = xstrdup(str_starts(whole, "a/") || str_starts(whole, "b/") ? whole + 2 : whole);
    free(whole);
    return path;
}

static void check_prefix(struct patch *p, uint32_t line, struct slice name, char prefix)
{
    if (!name.len || is_null(name)) return;
    size_t q = *name.ptr == '"';
    if (name.len >= q + 2 && name.ptr[q] == prefix && name.ptr[q + 1] == '/') return;
    fault(p, FAULT_header_prefix, line, "'%.*s' does not start with %c/", SLICE_FMT(name), prefix);
}

static void check_path(struct patch *p, const struct patch_file *f)
{
    const char *path = f->path;
    if (*path == '/') fault(p, FAULT_path_absolute, f->line, "'%.100s' is absolute", path);
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t n = strcspn(part, "/");
        if ((n == 2 && !strncmp(part, "..", 2)) || (n == 4 && !strncasecmp(part, ".git", 4))) {
            fault(p, FAULT_path_traversal, f->line, "'%.100s' leaves the tree or enters .git", path);
            return;
        }
    }
}

/* All names of the section that are not /dev/null must be one path, renames and copies aside. */
static void check_names(struct patch *p, struct patch_file *f, uint32_t old_line, uint32_t new_line)
{
    const struct slice names[] = {f->new_name, f->old_name, f->git_new, f->git_old};
    const uint32_t lines[] = {new_line, old_line, f->line, f->line};
    for (int i = 0; i < 4; i++) {
        if (!names[i].len || is_null(names[i])) continue;
        char *path = plain_path(names[i]);
        if (!path)
            fault(p, FAULT_header_paths, lines[i], "the quoted name is malformed");
        else if (!f->path)
            f->path = xstrdup(path);
        else if (strcmp(path, f->path) != 0 && !f->renamed && !f->copied)
            fault(p, FAULT_header_paths, lines[i], "names '%.60s', another line '%.60s'", path, f->path);
        free(path);
    }
    check_prefix(p, old_line, f->old_name, 'a');
    check_prefix(p, new_line, f->new_name, 'b');
    f->created |= is_null(f->old_name);
    f->deleted |= is_null(f->new_name);
    if (f->path && !*f->path) {
        free(f->path);
        f->path = NULL;
    }
    if (!f->path)
        fault(p, FAULT_header_incomplete, f->line, "the section names no file");
    else
        check_path(p, f);
}

static void check_kind(struct patch *p, const struct patch_file *f)
{
    enum { KIND = 0170000, LINK = 0120000, SUBMODULE = 0160000, REGULAR = 0100000 };
    uint32_t modes[] = {f->old_mode, f->new_mode};
    for (int i = 0; i < 2; i++) {
        if (!modes[i] || (modes[i] & KIND) == REGULAR) continue;
        fault(p, FAULT_symlink, f->line, "mode %06o is a %s", modes[i],
              (modes[i] & KIND) == LINK        ? "symbolic link"
              : (modes[i] & KIND) == SUBMODULE ? "submodule"
                                               : "special file");
        break;
    }
    if (f->binary) fault(p, FAULT_binary, f->line, "a binary change");
    if (f->renamed) fault(p, FAULT_rename, f->line, "a rename");
    if (f->copied) fault(p, FAULT_copy, f->line, "a copy");
    if (f->deleted) fault(p, FAULT_file_deleted, f->line, "the whole file is deleted");
    if (f->created) fault(p, FAULT_file_created, f->line, "a new file is created");
    if (!f->created && !f->deleted && f->old_mode != f->new_mode)
        fault(p, FAULT_mode_change, f->line, "mode %06o becomes %06o", f->old_mode, f->new_mode);
}

static void check_context(struct patch *p, const struct patch_file *f)
{
    if (f->created || f->deleted) return;
    for (uint32_t h = f->hunk; h < f->hunk_end; h++) {
        const struct hunk *k = &p->hunks.ptr[h];
        bool whole = f->hunk_end - f->hunk == 1 && k->old_start <= 1;
        bool context = whole;
        for (uint32_t i = k->body; i < k->end && !context; i++)
            context = line_is_context(p->lines.ptr[i].kind);
        if (context) continue;
        fault(p, FAULT_hunk_no_context, k->line, "no context line holds the edit in its place");
        return;
    }
}

static bool hunks_same(const struct patch *p, const struct hunk *a, const struct hunk *b)
{
    if (a->old_start != b->old_start || a->end - a->body != b->end - b->body) return false;
    for (uint32_t i = 0; i < a->end - a->body; i++)
        if (!slice_eq(patch_line_text(p, a->body + i), patch_line_text(p, b->body + i))) return false;
    return true;
}

/* A repeated hunk stands out of order, so only neighbours need comparing. */
static void check_duplicates(struct patch *p, const struct patch_file *f)
{
    for (uint32_t h = f->hunk; h + 1 < f->hunk_end; h++)
        if (hunks_same(p, &p->hunks.ptr[h], &p->hunks.ptr[h + 1]))
            fault(p, FAULT_hunk_duplicate, p->hunks.ptr[h + 1].line, "the same hunk again");
}

static void take_binary(struct parser *s, struct patch_file *f)
{
    f->binary = true;
    while (!at_end(s) && !section_starts(s, s->at)) take(s, LINE_BINARY);
}

static void take_index(struct parser *s, struct patch_file *f)
{
    f->index_line = s->at;
    if (!parse_index(f, take(s, LINE_INDEX))) {
        fault(s->p, FAULT_index_malformed, f->index_line, "not of the form 'index old..new mode'");
        f->old_id[0] = f->new_id[0] = '\0';
    }
}

static void parse_headers(struct parser *s, struct patch_file *f)
{
    if (starts(s, s->at, "diff --git ")) {
        struct slice line = take(s, LINE_DIFF);
        split_git_names(f, (struct slice){line.ptr + 11, line.len - 11});
    }
    while (!at_end(s)) {
        if (starts(s, s->at, "index "))
            take_index(s, f);
        else if (starts(s, s->at, "GIT binary patch") || starts(s, s->at, "Binary files "))
            take_binary(s, f);
        else if (!parse_extended(s, f))
            return;
    }
}

static void parse_section(struct parser *s)
{
    struct patch *p = s->p;
    struct slice first = line_at(s, s->at);
    struct patch_file *f = vec_push(&p->files);
    uint32_t old_line = s->at, new_line = s->at;
    f->line = s->at;
    s->crlf = first.ptr[first.len - 1] == '\r';
    s->in_tail = false;
    s->delta = 0;
    s->old_end = 0;
    parse_headers(s, f);
    bool has_old = starts(s, s->at, "--- ");
    if (has_old) old_line = s->at, f->old_name = name_on(take(s, LINE_OLD));
    bool has_new = starts(s, s->at, "+++ ");
    if (has_new) new_line = s->at, f->new_name = name_on(take(s, LINE_NEW));
    bool has_hunks = starts(s, s->at, "@@");
    if (has_old != has_new || (has_hunks && !has_old))
        fault(p, FAULT_header_incomplete, f->line, "the section lacks its --- or +++ line");
    check_names(p, f, old_line, new_line);
    if (s->crlf) fault(p, FAULT_cr_line_ends, f->line, "the section's own lines end in CR LF");
    if (has_hunks && !f->index_line)
        fault(p, FAULT_no_index, f->line, "no index line: base and result cannot be checked");
    f->hunk = (uint32_t)p->hunks.len;
    while (starts(s, s->at, "@@")) parse_hunk(s);
    f->hunk_end = (uint32_t)p->hunks.len;
    f->end = s->at;
    check_kind(p, f);
    check_context(p, f);
    check_duplicates(p, f);
}

/* ---- the whole --------------------------------------------------------------------------------------- */

static void parse_stray(struct parser *s)
{
    struct patch *p = s->p;
    uint32_t first = s->at;
    while (!at_end(s) && !section_starts(s, s->at) && !starts(s, s->at, "@@ -")) {
        p->lines.ptr[s->at].kind = LINE_STRAY;
        s->at++;
    }
    enum patch_fault_kind kind = at_end(s) && p->files.len ? FAULT_trailing_text : FAULT_stray_text;
    fault(p, kind, first, "%s",
          kind == FAULT_trailing_text ? "text after the last hunk" : "text that belongs to no file");
    p->faults.ptr[p->faults.len - 1].count = s->at - first;
    s->in_tail = true;
}

static void check_targets(struct patch *p)
{
    if (p->files.len < 2) return;
    struct map seen = {0};
    for (size_t i = 0; i < p->files.len; i++) {
        const struct patch_file *f = &p->files.ptr[i];
        if (!f->path) continue;
        if (map_has(&seen, f->path))
            fault(p, FAULT_target_twice, f->line, "a second section for '%.100s'", f->path);
        *map_put(&seen, f->path) = (void *)f;
    }
    map_free(&seen, NULL);
}

static void check_bytes(struct patch *p)
{
    const char *text = buf_str(&p->text);
    if (p->text.len && memchr(text, 0, p->text.len)) fault(p, FAULT_nul_byte, 0, "a NUL byte");
    if (p->lines.len && p->lines.ptr[p->lines.len - 1].end == END_NONE)
        fault(p, FAULT_no_final_newline, (uint32_t)p->lines.len - 1, "the last line has no newline");
    if (!p->files.len) fault(p, FAULT_no_file, 0, "no file section");
}

/* The mark is a line part of its own kind: it is taken off the first line, so that what follows parses. */
static void take_bom(struct patch *p)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (p->text.len < 3 || memcmp(p->text.ptr, bom, 3) != 0) return;
    fault(p, FAULT_byte_order_mark, 0, "a byte order mark");
    p->lines.ptr[0].off = 3;
    p->lines.ptr[0].len -= 3;
}

int patch_parse(struct patch *p, struct slice text, struct err *e)
{
    *p = (struct patch){0};
    if (text.len >= UINT32_MAX)
        return err_set(e, "the patch has %zu bytes: more than 4 GiB is not supported", text.len);
    buf_add(&p->text, text.ptr, text.len);
    split_lines(p);
    take_bom(p);
    struct parser s = {.p = p};
    while (!at_end(&s)) {
        if (section_starts(&s, s.at)) {
            parse_section(&s);
        } else if (starts(&s, s.at, "@@ -")) {
            uint32_t line = s.at;
            parse_hunk(&s);
            fault(p, FAULT_hunk_outside_file, line,
                  s.in_tail || p->files.len ? "stray text cuts it off from its file: patch programs drop it"
                                            : "no file header before it: patch programs drop it");
        } else {
            parse_stray(&s);
        }
    }
    check_bytes(p);
    check_targets(p);
    return 0;
}
