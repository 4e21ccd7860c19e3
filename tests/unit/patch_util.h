/* patch_util.h - helpers of the patch and audit tests. */
#ifndef PATCH_UTIL_H
#define PATCH_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "concord/patch/patch.h"

/* Parses, and checks that printing gives the text back. */
static inline void parse_bytes(struct patch *p, struct slice text)
{
    struct err e;
    struct buf out = BUF_INIT;
    assert_int_equal(patch_parse(p, text, &e), 0);
    patch_print(p, &out);
    assert_int_equal(out.len, text.len);
    if (text.len) assert_memory_equal(out.ptr, text.ptr, text.len);
    buf_free(&out);
}

static inline void parse(struct patch *p, const char *text)
{
    parse_bytes(p, slice_str(text));
}

static inline bool has_fault(const struct patch *p, enum patch_fault_kind kind)
{
    for (size_t i = 0; i < p->faults.len; i++)
        if (p->faults.ptr[i].kind == kind) return true;
    return false;
}

static inline void check_apply(const char *text, const char *pre, int flags, enum apply_outcome want,
                               const char *post)
{
    struct patch p;
    struct buf out = BUF_INIT;
    struct apply_result r;
    bool exists;
    parse(&p, text);
    patch_apply(&p, &p.files.ptr[0], pre ? slice_str(pre) : (struct slice){0}, flags, &out, &exists, &r);
    if (r.outcome != want)
        fail_msg("%s (%s), not %s", apply_outcome_text(r.outcome), r.text, apply_outcome_text(want));
    assert_string_equal(buf_str(&out), post);
    buf_free(&out);
    patch_free(&p);
}

static inline void check_result(const struct patch *p, struct slice pre, int flags, struct slice post)
{
    if (!p->files.len) {
        assert_true(slice_eq(pre, post));
        return;
    }
    struct buf out = BUF_INIT;
    struct apply_result r;
    bool exists;
    patch_apply(p, &p->files.ptr[0], pre, flags, &out, &exists, &r);
    if (r.outcome != APPLY_clean) fail_msg("%s: %s", apply_outcome_text(r.outcome), r.text);
    assert_true(slice_eq(slice_of(&out), post));
    buf_free(&out);
}

static inline unsigned next_random(unsigned *seed)
{
    return (*seed = *seed * 1103515245u + 12345u) >> 8;
}

/* Some lines removed, changed or put in; few different lines, so that many places look alike. */
static inline void random_edit(unsigned *seed, struct slice from, struct buf *out)
{
    for (size_t off = 0; off < from.len;) {
        const char *nl = memchr(from.ptr + off, '\n', from.len - off);
        size_t n = nl ? (size_t)(nl - from.ptr) + 1 - off : from.len - off;
        switch (next_random(seed) % 12) {
        case 0:
            break;
        case 1:
            buf_addf(out, "edit %u\n", next_random(seed) % 5);
            break;
        case 2:
            buf_addf(out, "put in %u\n", next_random(seed) % 5); /* fall through */
        default:
            buf_add(out, from.ptr + off, n);
        }
        off += n;
    }
    if (next_random(seed) % 6 == 0 && out->len && out->ptr[out->len - 1] == '\n') out->ptr[--out->len] = '\0';
}

static inline void random_pair(unsigned *seed, struct buf *a, struct buf *b)
{
    unsigned n = next_random(seed) % 60 + 1;
    for (unsigned i = 0; i < n; i++) buf_addf(a, "line %u\n", next_random(seed) % 9);
    random_edit(seed, slice_of(a), b);
}

#endif
