/* sleef.c - opens SLEEF so that its names stay out of the process's scope: libtorch_cpu exports the same
 * ones. */
#include "softnpu/kernel/vmath.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    void *library;
} sleef = {.once = PTHREAD_ONCE_INIT};

/* The sanitizers refuse RTLD_DEEPBIND; nothing else in their processes has SLEEF's names. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SCOPE = RTLD_LOCAL };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SCOPE = RTLD_LOCAL };
#else
enum { SCOPE = RTLD_LOCAL | RTLD_DEEPBIND };
#endif
#else
enum { SCOPE = RTLD_LOCAL | RTLD_DEEPBIND };
#endif

static void open_library(void)
{
    const char *choice = getenv("SOFTNPU_VMATH");
    if (choice && !strcmp(choice, "libm")) return;
    sleef.library = dlopen("libsleef.so.3", RTLD_NOW | SCOPE);
}

void *vmath_symbol(const char *name)
{
    pthread_once(&sleef.once, open_library);
    return sleef.library ? dlsym(sleef.library, name) : NULL;
}
