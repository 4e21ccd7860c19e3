/* thread.c - the runtime's own threads: named, and deaf to the signals that the program handles. */
#include "softnpu/runtime/internal.h"

#include <signal.h>

bool rt_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *arg), void *arg)
{
    sigset_t quiet, before;
    sigfillset(&quiet);
    for (const int *s = (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF, 0}; *s; s++)
        sigdelset(&quiet, *s);
    pthread_sigmask(SIG_SETMASK, &quiet, &before);
    bool ok = pthread_create(thread, NULL, fn, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) pthread_setname_np(*thread, name);
    return ok;
}
