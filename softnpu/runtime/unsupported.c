/* unsupported.c - the exported names that fail by their name (unsupported.inc). */
#include "softnpu/runtime/runtime.h"

/* Arguments are not looked at: on every ABI in question the caller cleans them up. */
#define CODE(name)                                                                                           \
    ACL_EXPORT int name(void);                                                                               \
    int name(void)                                                                                           \
    {                                                                                                        \
        return rt_unsupported(#name);                                                                        \
    }
#define POINTER(name)                                                                                        \
    ACL_EXPORT void *name(void);                                                                             \
    void *name(void)                                                                                         \
    {                                                                                                        \
        rt_unsupported(#name);                                                                               \
        return NULL;                                                                                         \
    }
#define SIZE(name)                                                                                           \
    ACL_EXPORT size_t name(void);                                                                            \
    size_t name(void)                                                                                        \
    {                                                                                                        \
        rt_unsupported(#name);                                                                               \
        return 0;                                                                                            \
    }
#include "softnpu/runtime/unsupported.inc"
