/* compileopt.c - compile options: kept and told. Nothing is compiled on the software device. */
#include "softnpu/runtime/internal.h"

#include <stdlib.h>
#include <string.h>

ACL_EXPORT aclError aclSetCompileopt(int opt, const char *value);
ACL_EXPORT size_t aclGetCompileoptSize(int opt);
ACL_EXPORT aclError aclGetCompileopt(int opt, char *value, size_t length);

/* Numbers of aclCompileOpt; the options that have a value before anybody sets one. */
enum { OPT_OP_JIT_COMPILE = 10, NOPTS = 64 };
static const char *const defaults[NOPTS] = {[OPT_OP_JIT_COMPILE] = "disable"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *values[NOPTS];

static const char *get(int opt)
{
    return values[opt] ? values[opt] : defaults[opt] ? defaults[opt] : "";
}

aclError aclSetCompileopt(int opt, const char *value)
{
    RT_NEED(opt >= 0 && opt < NOPTS && value, ACL_ERROR_INVALID_PARAM);
    char *copy = strdup(value);
    if (!copy) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclSetCompileopt: no memory");
    pthread_mutex_lock(&lock);
    char *old = values[opt];
    values[opt] = copy;
    pthread_mutex_unlock(&lock);
    free(old);
    return ACL_SUCCESS;
}

size_t aclGetCompileoptSize(int opt)
{
    if (opt < 0 || opt >= NOPTS) return 0;
    pthread_mutex_lock(&lock);
    size_t n = strlen(get(opt)) + 1;
    pthread_mutex_unlock(&lock);
    return n;
}

aclError aclGetCompileopt(int opt, char *value, size_t length)
{
    RT_NEED(opt >= 0 && opt < NOPTS && value, ACL_ERROR_INVALID_PARAM);
    pthread_mutex_lock(&lock);
    size_t n = strlen(get(opt)) + 1;
    if (n <= length) memcpy(value, get(opt), n);
    pthread_mutex_unlock(&lock);
    RT_NEED(n <= length, ACL_ERROR_INVALID_PARAM);
    return ACL_SUCCESS;
}
