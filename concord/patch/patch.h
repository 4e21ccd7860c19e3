/* patch.h - git's unified diff as a strict model: parse, print, apply, reverse, make, merge.
 *
 * Facts: git's diff-format documentation (extended headers, index line, hunk headers) and POSIX diff -u.
 *
 * A patch owns a copy of its text. Every byte of the text belongs to exactly one line, and every line has one
 * kind; what fits nowhere is LINE_STRAY and comes with a fault. Parsing never fails: what is wrong is listed
 * as faults, and patch_blocked() says whether the faults leave the effect in doubt. Memory is 12 bytes a line
 * plus the text.
 */
#ifndef CONCORD_PATCH_PATCH_H
#define CONCORD_PATCH_PATCH_H

#include "concord/base/base.h"

/* Bytes that somebody else owns. */
struct slice {
    const char *ptr;
    size_t len;
};
#define SLICE_FMT(s) (int)(s).len, (s).ptr
struct slice slice_of(const struct buf *b);
struct slice slice_str(const char *s);
bool slice_eq(struct slice a, struct slice b);
bool slice_starts(struct slice a, const char *prefix);
bool slice_ends(struct slice a, const char *suffix);
bool slice_has(struct slice a, const char *needle);
struct slice slice_trim(struct slice a); /* blanks, tabs and CR at both ends */
/* True when the bytes hold nothing but white space. */
bool slice_blank(struct slice a);
/* FNV-1a, going on from h (SLICE_HASH to begin with). */
#define SLICE_HASH 1469598103934665603u
uint64_t slice_hash(struct slice a, uint64_t h);

/* ---- lines -------------------------------------------------------------------------------------------- */

enum line_kind {
    LINE_STRAY,    /* belongs to nothing: always with a fault */
    LINE_DIFF,     /* diff --git a/x b/y */
    LINE_INDEX,    /* index a..b mode */
    LINE_EXTENDED, /* old mode, new file mode, rename from, ... */
    LINE_OLD,      /* --- */
    LINE_NEW,      /* +++ */
    LINE_BINARY,   /* Binary files differ, GIT binary patch and its data */
    LINE_HUNK,     /* @@ */
    LINE_CONTEXT,  /* ' ' */
    LINE_BARE,     /* an empty line that stands for an empty context line */
    LINE_ADD,      /* + */
    LINE_DEL,      /* - */
    LINE_NO_EOL,   /* \ No newline at end of file */
    LINE_KINDS
};
enum line_end { END_LF, END_CRLF, END_NONE };

struct patch_line {
    uint32_t off, len; /* without the line end */
    uint8_t kind, end;
};

/* ---- faults that the text alone shows ------------------------------------------------------------------ */

/* identifier, name, blocks: with it, the effect is in doubt or patch programs disagree, so nothing is
 * applied. */
#define PATCH_FAULTS(X)                                                                                      \
    X(hunk_outside_file, "hunk-outside-file", true) /* an @@ that no file section owns */                    \
    X(stray_text, "stray-text", false)        /* text before the first file section or between sections */   \
    X(trailing_text, "trailing-text", false)  /* text after the last hunk */                                 \
    X(no_file, "no-file", true)               /* no file section at all */                                   \
    X(hunk_header, "hunk-header", true)       /* an @@ line that is not a hunk header */                     \
    X(hunk_count, "hunk-count", true)         /* the body has other counts than the header */                \
    X(hunk_order, "hunk-order", true)         /* overlaps the hunk before, or stands before it */            \
    X(hunk_new_start, "hunk-new-start", true) /* the new start does not follow from the hunks before */      \
    X(hunk_noop, "hunk-noop", false)          /* removes and adds the same lines */                          \
    X(hunk_duplicate, "hunk-duplicate", true) /* the same hunk twice */                                      \
    X(hunk_no_context, "hunk-no-context", false)   /* an edit inside a file without any context line */      \
    X(context_stripped, "context-stripped", false) /* an empty context line lost its blank */                \
    X(cr_line_ends, "cr-line-ends", true) /* the patch itself, headers included, has CR LF line ends */      \
    X(byte_order_mark, "byte-order-mark", true)                                                              \
    X(no_final_newline, "no-final-newline", true)                                                            \
    X(nul_byte, "nul-byte", true)                                                                            \
    X(no_index, "no-index", false) /* no index line: neither base nor result can be checked */               \
    X(index_malformed, "index-malformed", true)                                                              \
    X(header_incomplete, "header-incomplete",                                                                \
      true)                               /* --- without +++, hunks without either, mode without its pair */ \
    X(header_paths, "header-paths", true) /* ---, +++ and diff --git do not name one file */                 \
    X(header_prefix, "header-prefix", true) /* not a/ and b/ */                                              \
    X(path_traversal, "path-traversal", true)                                                                \
    X(path_absolute, "path-absolute", true)                                                                  \
    X(target_twice, "target-twice", true) /* two sections for one file */                                    \
    X(symlink, "symlink", true)                                                                              \
    X(binary, "binary", true)                                                                                \
    X(rename, "rename", true)                                                                                \
    X(copy, "copy", true)                                                                                    \
    X(mode_change, "mode-change", false)                                                                     \
    X(file_deleted, "file-deleted", false)                                                                   \
    X(file_created, "file-created", false)

enum patch_fault_kind {
#define X(id, name, blocks) FAULT_##id,
    PATCH_FAULTS(X)
#undef X
        FAULT_KINDS
};

struct patch_fault {
    enum patch_fault_kind kind;
    uint32_t line;  /* index into patch.lines; patch.lines.len for the end */
    uint32_t count; /* how many lines in all have it, for faults told once a file */
    char text[160]; /* the particulars */
};

/* "hunk-outside-file": the name that the audit uses, dashes for underscores. */
const char *patch_fault_name(enum patch_fault_kind kind);
bool patch_fault_blocks(enum patch_fault_kind kind);

/* ---- the model ------------------------------------------------------------------------------------------
 */

struct hunk {
    uint32_t line;                                   /* of the @@ */
    uint32_t body, end;                              /* lines [body, end) */
    uint32_t old_start, old_len, new_start, new_len; /* as the header says */
    uint32_t old_real, new_real;                     /* as the body has */
    uint8_t old_short, new_short;                    /* the header leaves out a count of 1 */
    struct slice section;                            /* what follows the second @@, its blank included */
};

#define PATCH_ID_MAX 64

struct patch_file {
    uint32_t line, end;              /* lines [line, end) */
    uint32_t hunk, hunk_end;         /* hunks [hunk, hunk_end) */
    uint32_t index_line;             /* 0 when there is none (line 0 is never one) */
    struct slice git_old, git_new;   /* from diff --git, as written; empty when there is none */
    struct slice old_name, new_name; /* from --- and +++, as written without a time stamp */
    char *path; /* the target, prefix and quoting gone; owned; NULL when it cannot be told */
    char old_id[PATCH_ID_MAX + 1], new_id[PATCH_ID_MAX + 1]; /* "" when absent */
    uint32_t old_mode, new_mode;                             /* 0 when not said */
    bool created, deleted, renamed, copied, binary;
};

struct patch {
    struct buf text;
    VEC(struct patch_line) lines;
    VEC(struct patch_file) files;
    VEC(struct hunk) hunks;
    VEC(struct patch_fault) faults;
};

/* Takes a copy of the bytes. Fails only above 4 GiB. */
int patch_parse(struct patch *p, struct slice text, struct err *e);
void patch_free(struct patch *p);
/* Written from the model, hunk headers from their numbers: byte for byte the text that was parsed. */
void patch_print(const struct patch *p, struct buf *out);
/* The first fault that blocks, NULL when the patch may be applied. */
const struct patch_fault *patch_blocked(const struct patch *p);
struct slice patch_line_text(const struct patch *p, uint32_t line);    /* with its sign */
struct slice patch_line_content(const struct patch *p, uint32_t line); /* without its sign; for body lines */
static inline bool line_in_old(enum line_kind k)
{
    return k == LINE_CONTEXT || k == LINE_BARE || k == LINE_DEL;
}
static inline bool line_in_new(enum line_kind k)
{
    return k == LINE_CONTEXT || k == LINE_BARE || k == LINE_ADD;
}
static inline bool line_is_context(enum line_kind k)
{
    return k == LINE_CONTEXT || k == LINE_BARE;
}
/* True when the body line has no newline in the file: a \ line follows. */
bool patch_line_unterminated(const struct patch *p, uint32_t line, uint32_t end);
/* Unquotes "a/\303\244" as git quotes; owned. NULL when malformed. */
char *patch_unquote(struct slice name);

/* ---- blob ids ---------------------------------------------------------------------------------------------
 */

/* git's id of the bytes as a blob; hex must hold PATCH_ID_MAX + 1. sha256 for repositories of that format. */
void blob_id(struct slice data, bool sha256, char *hex);
/* True when abbreviated id (at least 4 digits) names the data. All zeros names absence and never matches. */
bool blob_id_matches(const char *abbreviated, struct slice data);
bool blob_id_is_zero(const char *id);

/* ---- apply
 * -------------------------------------------------------------------------------------------------- */

#define APPLY_OUTCOMES(X)                                                                                    \
    X(clean, "applies exactly")                                                                              \
    X(already, "already applied")                                                                            \
    X(offset, "fits only at another line")                                                                   \
    X(fuzz, "fits only when context is ignored")                                                             \
    X(fails, "does not apply")                                                                               \
    X(wrong_base, "is made for another base file")                                                           \
    X(wrong_result, "does not produce the result that its index line names")                                 \
    X(absent, "has no target file")                                                                          \
    X(exists, "creates a file that is there")                                                                \
    X(blocked, "has a fault that leaves its effect in doubt")

enum apply_outcome {
#define X(name, text) APPLY_##name,
    APPLY_OUTCOMES(X)
#undef X
        APPLY_OUTCOME_COUNT
};
const char *apply_outcome_text(enum apply_outcome o);

struct apply_result {
    enum apply_outcome outcome;
    uint32_t hunk;                     /* index into patch.hunks of the first that does not fit */
    uint32_t line;                     /* patch line (index) where the mismatch is */
    int64_t offset;                    /* for APPLY_offset: lines further down than said */
    bool base_checked, result_checked; /* the index ids were there and agreed */
    char text[200];
};

enum { APPLY_REVERSE = 1, APPLY_IGNORE_IDS = 2 };

/* Applies one file section to pre (ptr NULL: the file does not exist). On clean and already, *post (cleared
 * first) has the result and *exists says whether the file exists afterwards; otherwise *post is empty. */
void patch_apply(const struct patch *p, const struct patch_file *f, struct slice pre, int flags,
                 struct buf *post, bool *exists, struct apply_result *r);

/* The reverse patch as text; applying it undoes p. Needs a patch that is not blocked. */
int patch_reverse(const struct patch *p, struct buf *out, struct err *e);

/* ---- make and merge
 * ------------------------------------------------------------------------------------------ */

struct make_options {
    uint32_t context;   /* 0: git's 3; UINT32_MAX: none */
    uint32_t id_digits; /* 0: 11, as pytorch's size needs; at most 40 */
};

/* One file section from pre to post, hunks and function context as git prints them; nothing when they are
 * equal. ptr NULL stands for an absent file. mode 0: 100644. */
int patch_make(const char *path, struct slice pre, struct slice post, uint32_t mode,
               const struct make_options *o, struct buf *out, struct err *e);

/* Three-way merge of whole contents. 0: *out has it; 1: the two sides conflict, *out is empty. */
int merge_three(struct slice base, struct slice ours, struct slice theirs, struct buf *out);

struct merge_result {
    uint32_t kept, rewritten,
        added; /* hunks of the old patch kept byte for byte (but for the new start), redone; new ones */
};
/* A section from base to post that keeps the hunks of the existing section f byte for byte wherever post
 * still has their effect and no new edit touches them. f must apply to base exactly. */
int patch_merge(const struct patch *p, const struct patch_file *f, struct slice base, struct slice post,
                const struct make_options *o, struct buf *out, struct merge_result *r, struct err *e);

#endif
