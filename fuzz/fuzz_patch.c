/* fuzz_patch.c - parser, printer, reverse and repair: print(parse(x)) = x, and a repaired patch parses. */
#include "concord/patch/repair.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct patch p, q;
    struct buf out = BUF_INIT, back = BUF_INIT, mended = BUF_INIT;
    struct repair r;
    struct slice text = {(const char *)data, size};
    MUST(!patch_parse(&p, text, NULL));
    patch_print(&p, &out);
    MUST(slice_eq(slice_of(&out), text));
    for (size_t i = 0; i < p.lines.len; i++) MUST(p.lines.ptr[i].kind < LINE_KINDS);
    if (!patch_reverse(&p, &back, NULL)) {
        MUST(!patch_parse(&q, slice_of(&back), NULL));
        MUST(q.hunks.len == p.hunks.len);
        patch_free(&q);
    }
    MUST(!patch_repair("test/x.py.patch", text, NULL, &mended, &r, NULL));
    if (!r.left) {
        MUST(!patch_parse(&q, slice_of(&mended), NULL));
        if (q.files.len) MUST(!patch_blocked(&q));
        patch_free(&q);
    }
    repair_free(&r);
    patch_free(&p);
    buf_free(&out);
    buf_free(&back);
    buf_free(&mended);
    return 0;
}
