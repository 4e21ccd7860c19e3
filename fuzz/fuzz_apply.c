/* fuzz_apply.c - patch NUL base: what applies can be taken back, and gives the base again. */
#include "fuzz/fuzz.h"

static void check(const struct patch *p, const struct patch_file *f, struct slice base, int flags)
{
    struct buf post = BUF_INIT, again = BUF_INIT;
    struct apply_result r, back;
    bool exists, existed;
    patch_apply(p, f, base, flags, &post, &exists, &r);
    MUST(r.outcome < APPLY_OUTCOME_COUNT);
    if (r.outcome != APPLY_clean && r.outcome != APPLY_already) MUST(!post.len);
    if (r.outcome == APPLY_clean) {
        patch_apply(p, f, exists ? slice_of(&post) : (struct slice){0}, flags ^ APPLY_REVERSE, &again,
                    &existed, &back);
        if (back.outcome == APPLY_clean) MUST(slice_eq(slice_of(&again), base));
    }
    buf_free(&post);
    buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice parts[2];
    struct patch p;
    fuzz_split(data, size, parts, 2);
    MUST(!patch_parse(&p, parts[0], NULL));
    for (size_t i = 0; i < p.files.len; i++) {
        if (!p.files.ptr[i].path) continue;
        check(&p, &p.files.ptr[i], parts[1], 0);
        check(&p, &p.files.ptr[i], parts[1], APPLY_IGNORE_IDS);
        check(&p, &p.files.ptr[i], parts[1], APPLY_IGNORE_IDS | APPLY_REVERSE);
    }
    patch_free(&p);
    return 0;
}
