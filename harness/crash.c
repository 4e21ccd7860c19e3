/* crash.c - writes the C stack of a thread that a fatal signal hit, then lets the handler before it go on.
 *
 * Loaded by harness/concord_harness/suite/crash.py before the fork. backtrace_symbols_fd allocates nothing;
 * its first use may load libgcc_s, so that happens at start. */
#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) void concord_crash_enable(int descriptor);

enum { FRAMES = 32 };

static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[sizeof fatal / sizeof *fatal];
static int target = -1;

static void say(const char *text)
{
    if (write(target, text, strlen(text)) < 0) return;
}

static void on_fatal(int sig)
{
    void *frames[FRAMES];
    int n = backtrace(frames, FRAMES);
    say("C stack (innermost first):\n");
    backtrace_symbols_fd(frames + 2, n > 2 ? n - 2 : 0, target); /* without this handler and the trampoline */
    say("end of C stack\n");
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i] == sig) sigaction(sig, &before[i], NULL);
    raise(sig);
}

void concord_crash_enable(int descriptor)
{
    void *warm[1];
    target = descriptor;
    backtrace(warm, 1);
    struct sigaction a = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) sigaction(fatal[i], &a, &before[i]);
}
