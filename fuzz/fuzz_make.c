/* fuzz_make.c - a NUL b NUL c: apply(make(a, b), a) = b, reverse gives a back, and merging an edit to c gives
 * c. */
#include "fuzz/fuzz.h"

static void must_apply(const struct patch *p, struct slice pre, int flags, struct slice post)
{
    struct buf out = BUF_INIT;
    struct apply_result r;
    bool exists;
    patch_apply(p, &p->files.ptr[0], pre, flags, &out, &exists, &r);
    MUST(r.outcome == APPLY_clean);
    MUST(slice_eq(slice_of(&out), post));
    buf_free(&out);
}

static void check_merge(const struct patch *p, struct slice a, struct slice c)
{
    struct buf merged = BUF_INIT;
    struct merge_result r;
    struct patch q;
    MUST(!patch_merge(p, &p->files.ptr[0], a, c, NULL, &merged, &r, NULL));
    if (!slice_eq(a, c)) {
        MUST(!patch_parse(&q, slice_of(&merged), NULL));
        MUST(!patch_blocked(&q));
        must_apply(&q, a, 0, c);
        patch_free(&q);
    }
    buf_free(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice s[3];
    struct buf text = BUF_INIT;
    struct patch p;
    fuzz_split(data, size, s, 3);
    if (memchr(s[2].ptr, 0, s[2].len) || slice_eq(s[0], s[1])) return 0;
    MUST(!patch_make("d/f.py", s[0], s[1], 0, NULL, &text, NULL));
    MUST(!patch_parse(&p, slice_of(&text), NULL));
    MUST(!patch_blocked(&p) && p.files.len == 1);
    must_apply(&p, s[0], 0, s[1]);
    must_apply(&p, s[1], APPLY_REVERSE, s[0]);
    check_merge(&p, s[0], s[2]);
    patch_free(&p);
    buf_free(&text);
    return 0;
}
