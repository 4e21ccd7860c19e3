/* fuzz_port.c - patch NUL target NUL source: a port ends, accounts for every edit, and changes nothing but by
 * its edits. */
#include "concord/patch/port.h"
#include "fuzz/fuzz.h"

static void check(const struct patch *p, const struct patch_file *f, struct slice to, struct slice from)
{
    struct port r = {0};
    struct buf post = BUF_INIT;
    port_section(p, f, from, to, &r, &post);
    size_t sum = 0;
    for (int i = 0; i < PORT_OUTCOME_COUNT; i++) sum += r.counts[i];
    MUST(sum == r.edits.len);
    if (!r.counts[PORT_carried] && !r.counts[PORT_adapted]) MUST(slice_eq(slice_of(&post), to));
    for (size_t i = 0; i < r.edits.len; i++)
        MUST((r.edits.ptr[i].outcome == PORT_conflict) == (r.edits.ptr[i].target == 0));
    port_free(&r);
    buf_free(&post);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice parts[3];
    struct patch p;
    if (size > 16384) return 0;
    fuzz_split(data, size, parts, 3);
    MUST(!patch_parse(&p, parts[0], NULL));
    for (size_t i = 0; i < p.files.len && !patch_blocked(&p); i++) {
        if (!p.files.ptr[i].path) continue;
        check(&p, &p.files.ptr[i], parts[1], (struct slice){0});
        check(&p, &p.files.ptr[i], parts[1], parts[2]);
    }
    patch_free(&p);
    return 0;
}
