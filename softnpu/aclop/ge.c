/* ge.c - the graph engine. The wheels' graph back end links it as C++ classes; the software device runs no
 * graphs.
 *
 * Functions that cannot return a code say their name and end the process. The string class works, because
 * libraries make strings while they are loaded. */
#include "softnpu/runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void unsupported(const char *name)
{
    fprintf(stderr, "softnpu: %s (graph engine) is not supported\n", name);
    abort();
}

#define GE(name)                                                                                             \
    ACL_EXPORT void name(void);                                                                              \
    void name(void)                                                                                          \
    {                                                                                                        \
        unsupported(#name);                                                                                  \
    }
#include "softnpu/aclop/ge.inc"

/* ge::AscendString holds one std::shared_ptr. A pointer without a control block is never released by its
 * copies' destructors, so the text lives as long as the process: few strings are made, all at load time. */
struct ascend_string {
    char *text;
    void *control;
};
void ascend_string_make(struct ascend_string *self, const char *text) __asm__("_ZN2ge12AscendStringC1EPKc");
const char *ascend_string_get(const struct ascend_string *self) __asm__("_ZNK2ge12AscendString9GetStringEv");
bool ascend_string_eq(const struct ascend_string *a,
                      const struct ascend_string *b) __asm__("_ZNK2ge12AscendStringeqERKS0_");
bool ascend_string_lt(const struct ascend_string *a,
                      const struct ascend_string *b) __asm__("_ZNK2ge12AscendStringltERKS0_");

ACL_EXPORT void ascend_string_make(struct ascend_string *self, const char *text)
{
    self->text = text ? strdup(text) : NULL;
    self->control = NULL;
}

ACL_EXPORT const char *ascend_string_get(const struct ascend_string *self)
{
    return self->text ? self->text : "";
}

ACL_EXPORT bool ascend_string_eq(const struct ascend_string *a, const struct ascend_string *b)
{
    return !strcmp(ascend_string_get(a), ascend_string_get(b));
}

ACL_EXPORT bool ascend_string_lt(const struct ascend_string *a, const struct ascend_string *b)
{
    return strcmp(ascend_string_get(a), ascend_string_get(b)) < 0;
}
