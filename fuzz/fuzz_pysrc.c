/* fuzz_pysrc.c - the source model of any text: places lie inside it, every name resolves or does not, edits
 * keep bytes. */
#include "concord/pysrc/pysrc.h"
#include "concord/scan/facts.h"
#include "concord/scan/outline.h"
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

/* Facts of any text survive packing, byte for byte; a damaged pack is refused. */
static void check_facts(struct py_file *f)
{
    struct facts a, b;
    struct buf one = BUF_INIT, two = BUF_INIT;
    facts_extract(&a, f);
    for (size_t i = 0; i < a.sites.len; i++)
        MUST(a.sites.ptr[i].func < (int64_t)a.funcs.len && *a.sites.ptr[i].name);
    facts_pack(&a, &one);
    MUST(!facts_unpack(&b, one.ptr, one.len));
    facts_pack(&b, &two);
    MUST(one.len == two.len && !memcmp(one.ptr, two.ptr, one.len));
    facts_free(&b);
    one.ptr[one.len / 2] ^= 1;
    MUST(facts_unpack(&b, one.ptr, one.len));
    facts_free(&a);
    buf_free(&one);
    buf_free(&two);
}

/* What an outline leaves out lies in the text, in order; every byte outside of it stays. */
static void check_outline(const uint8_t *data, size_t size)
{
    char *text = xstrndup("", 0);
    text = xrealloc(text, size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    strings words = {0}, none = {0};
    *vec_push(&words) = xstrdup("f");
    outline_skips skips = {0};
    (void)outline_keep(text, size, &words, &none, &skips);
    uint32_t at = 0;
    for (size_t i = 0; i < skips.len; i++) {
        MUST(skips.ptr[i].start > at && skips.ptr[i].start < skips.ptr[i].end && skips.ptr[i].end <= size);
        MUST(!memcmp(text + at, data + at, skips.ptr[i].start - 1 - at) &&
             text[skips.ptr[i].start - 1] == '0');
        at = skips.ptr[i].end;
    }
    MUST(!size || !memcmp(text + at, data + at, size - at));
    py_free(py_parse_without("x.py", text, size, skips.ptr, skips.len));
    strings_free(&words);
    vec_free(&skips);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out = BUF_INIT;
    struct err e = {""};
    struct py_file *f = py_parse("x.py", (const char *)data, size);
    MUST(f->len == size);
    check_model(f);
    check_facts(f);
    check_outline(data, size);
    struct py_edit comment = {0, 0, "# edited\n"};
    if (!py_apply(f, &comment, 1, &out, &e)) {
        MUST(out.len == size + strlen(comment.with));
        if (size) MUST(!memcmp(out.ptr + strlen(comment.with), data, size));
    }
    buf_free(&out);
    py_free(f);
    return 0;
}
