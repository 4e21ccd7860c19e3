/* softnpu.c - the launcher: runs a program on the software device, or prints the environment for it. */
#include "softnpu/tools/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: softnpu run [OPTIONS] [--] COMMAND [ARGUMENT...]   run COMMAND on the software device\n"
    "       softnpu env [OPTIONS]                              print the environment as shell commands\n"
    "       softnpu version\n"
    "\n"
    "  --devices N   number of devices that programs see (default 1)\n"
    "  --threads N   threads that compute (default: all cores)\n"
    "  --blocking    run every task on the thread that launches it\n"
    "  --trace FILE  write one JSON line per operator call to FILE\n"
    "  --counts FILE write launches per operator to FILE at exit\n"
    "  --fault SPEC  inject faults, e.g. alloc:3 or fail:aclnnAdd\n"
    "\n"
    "The device's own variables (SOFTNPU_...) are described in docs/device.md. See also softnpu-smi.\n";

static const struct option {
    const char *name, *variable;
    bool flag;
} options[] = {
    {"--devices", "SOFTNPU_DEVICES", false},  {"--threads", "SOFTNPU_THREADS", false},
    {"--blocking", "SOFTNPU_BLOCKING", true}, {"--trace", "SOFTNPU_TRACE", false},
    {"--counts", "SOFTNPU_COUNTS", false},    {"--fault", "SOFTNPU_FAULT", false},
};
enum { NOPTIONS = sizeof options / sizeof *options };

static int bad(const char *what, const char *argument)
{
    fprintf(stderr, "softnpu: %s '%s'; try 'softnpu --help'\n", what, argument);
    return 2;
}

static const struct option *find(const char *name, size_t length)
{
    for (int i = 0; i < NOPTIONS; i++)
        if (strlen(options[i].name) == length && !strncmp(options[i].name, name, length)) return &options[i];
    return NULL;
}

static void set(const char *name, const char *value, bool print)
{
    setenv(name, value, 1);
    if (!print) return;
    printf("export %s='", name);
    for (const char *p = value; *p; p++) *p == '\'' ? fputs("'\\''", stdout) : putchar(*p);
    puts("'");
}

/* Reads options up to "--" or the first argument that is none; the number of arguments read, or -1 after a
 * message. */
static int read_options(int argc, char **argv, bool print)
{
    int i = 0;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--")) return i + 1;
        const char *value = strchr(argv[i], '=');
        const struct option *o = find(argv[i], value ? (size_t)(value - argv[i]) : strlen(argv[i]));
        if (!o) return bad("unknown option", argv[i]), -1;
        if (o->flag && value) return bad("no value is allowed:", argv[i]), -1;
        if (!o->flag && !value && i + 1 == argc) return bad("a value is missing after", argv[i]), -1;
        set(o->variable, o->flag ? "1" : value ? value + 1 : argv[++i], print);
    }
    return i;
}

static void set_variable(const struct layout_variable *v, const char *toolkit, bool print)
{
    char own[PATH_MAX + 64];
    int n = snprintf(own, sizeof own, "%.*s%s%s", (int)strcspn(v->value, "%"), v->value, toolkit,
                     strstr(v->value, "%s") + 2);
    const char *before = v->prepend ? getenv(v->name) : NULL;
    if (!before || !*before || (!strncmp(before, own, (size_t)n) && (before[n] == ':' || !before[n]))) {
        set(v->name, before && *before ? before : own, print);
        return;
    }
    char *both = malloc((size_t)n + strlen(before) + 2);
    if (!both) abort();
    sprintf(both, "%s:%s", own, before);
    set(v->name, both, print);
    free(both);
}

static int set_all(bool print)
{
    char toolkit[PATH_MAX];
    if (!layout_toolkit(toolkit)) return 2;
    for (int i = 0; i < layout_nvariables; i++) set_variable(&layout_variables[i], toolkit, print);
    return 0;
}

static int run(int argc, char **argv)
{
    int n = read_options(argc, argv, false);
    if (n < 0) return 2;
    if (n == argc) return bad("no command to run; write", "softnpu run -- COMMAND");
    if (set_all(false)) return 2;
    execvp(argv[n], argv + n);
    fprintf(stderr, "softnpu: cannot run %s: %s\n", argv[n], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

static int env(int argc, char **argv)
{
    int n = read_options(argc, argv, true);
    if (n < 0) return 2;
    return n < argc ? bad("unexpected argument", argv[n]) : set_all(true);
}

int main(int argc, char **argv)
{
    if (argc < 2) return fputs(usage, stderr), 2;
    if (!strcmp(argv[1], "run")) return run(argc - 2, argv + 2);
    if (!strcmp(argv[1], "env")) return env(argc - 2, argv + 2);
    if (!strcmp(argv[1], "version") || !strcmp(argv[1], "--version"))
        return puts("softnpu " SOFTNPU_VERSION), 0;
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help")) return fputs(usage, stdout), 0;
    return bad("unknown command", argv[1]);
}
