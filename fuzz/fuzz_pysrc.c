/* fuzz_pysrc.c - the source model of any text: places lie inside it, every name resolves or does not, edits
 * keep bytes. */
#include "concord/pysrc/pysrc.h"
#include "fuzz/fuzz.h"

static void check_span(const struct py_file *f, struct py_span s)
{
    MUST(s.start <= s.end && s.end <= f->len && s.row >= 1);
}

static void check_model(struct py_file *f)
{
    MUST(f->scopes.len && f->scopes.ptr[0].parent == 0);
    for (uint32_t i = 0; i < f->scopes.len; i++) {
        MUST(f->scopes.ptr[i].parent < f->scopes.len && (!i || f->scopes.ptr[i].parent < i));
        check_span(f, f->scopes.ptr[i].at);
        (void)py_is_test(f, i);
    }
    for (size_t i = 0; i < f->bindings.len; i++) {
        MUST(f->bindings.ptr[i].scope < f->scopes.len && f->bindings.ptr[i].inner < f->scopes.len);
        check_span(f, f->bindings.ptr[i].at);
    }
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        MUST(r->scope < f->scopes.len);
        check_span(f, r->at);
        const char *name = py_resolve(f, r->scope, r->chain);
        MUST(!name || name[0]);
        (void)py_resolve_instance(f, r->scope, r->chain);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out = BUF_INIT;
    struct err e = {""};
    struct py_file *f = py_parse("x.py", (const char *)data, size);
    MUST(f->len == size);
    check_model(f);
    struct py_edit comment = {0, 0, "# edited\n"};
    if (!py_apply(f, &comment, 1, &out, &e)) {
        MUST(out.len == size + strlen(comment.with));
        if (size) MUST(!memcmp(out.ptr + strlen(comment.with), data, size));
    }
    buf_free(&out);
    py_free(f);
    return 0;
}
