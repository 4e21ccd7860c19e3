/* cli.c - the option table: parsing and help. */
#include "concord/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void print_options(const struct opt *opts)
{
    enum { COLUMN = 28 };
    for (const struct opt *o = opts; o->name; o++) {
        struct buf left = BUF_INIT;
        if (o->letter)
            buf_addf(&left, "  -%c, --%s", o->letter, o->name);
        else
            buf_addf(&left, "      --%s", o->name);
        if (o->arg) buf_addf(&left, " %s", o->arg);
        if (left.len >= COLUMN)
            printf("%s\n%*s%s\n", left.ptr, COLUMN, "", o->help);
        else
            printf("%-*s%s\n", COLUMN, left.ptr, o->help);
        buf_free(&left);
    }
    printf("%-*s%s\n", COLUMN, "  -h, --help", "print this");
}

static void print_help(const struct usage *u)
{
    printf("usage: concord %s\n\n%s\n\n", u->synopsis, u->summary);
    print_options(u->opts);
}

static void unknown_option(const char *command, const char *name, const struct opt *opts)
{
    const char *names[64];
    size_t n = 0;
    for (const struct opt *o = opts; o->name && n < 63; o++) names[n++] = o->name;
    names[n++] = "help";
    const char *nearest = str_nearest(name, names, n);
    if (nearest) die("%s: unknown option '--%s': did you mean '--%s'?", command, name, nearest);
    die("%s: unknown option '--%s': `concord %s --help` lists them", command, name, command);
}

static const struct opt *by_long_name(const struct opt *opts, const char *name, size_t len)
{
    for (; opts->name; opts++)
        if (strlen(opts->name) == len && !memcmp(opts->name, name, len)) return opts;
    return NULL;
}

static const struct opt *by_letter(const struct opt *opts, char letter)
{
    for (; opts->name; opts++)
        if (opts->letter && opts->letter == letter) return opts;
    return NULL;
}

static void add_list(strings *list, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n) *vec_push(list) = xstrndup(text, n);
        text += n + (text[n] == ',');
    }
}

static void store(const char *command, const struct opt *o, const char *text)
{
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)o->value = true;
        break;
    case OPT_STRING:
        *(const char **)o->value = text;
        break;
    case OPT_LIST:
        add_list(o->value, text);
        break;
    case OPT_INT: {
        char *end;
        errno = 0;
        long long v = strtoll(text, &end, 10);
        if (errno || end == text || *end)
            die("%s: --%s wants a whole number, not '%s'", command, o->name, text);
        *(int64_t *)o->value = v;
    }
    }
}

struct cursor {
    int argc, next;
    char **argv;
    const struct usage *usage;
};

/* text is the value written behind '=', or NULL. */
static void take(struct cursor *c, const struct opt *o, const char *text)
{
    if (o->kind == OPT_FLAG) {
        if (text) die("%s: --%s takes no value", c->argv[0], o->name);
    } else if (!text) {
        if (c->next >= c->argc) die("%s: --%s wants a value: --%s %s", c->argv[0], o->name, o->name, o->arg);
        text = c->argv[c->next++];
    }
    store(c->argv[0], o, text);
}

static void help_and_exit(const struct usage *u)
{
    print_help(u);
    exit(EXIT_OK);
}

static void parse_option(struct cursor *c, const char *arg)
{
    const struct opt *o;
    if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) help_and_exit(c->usage);
    if (arg[1] == '-') {
        const char *name = arg + 2;
        size_t len = strcspn(name, "=");
        if ((o = by_long_name(c->usage->opts, name, len))) {
            take(c, o, name[len] ? name + len + 1 : NULL);
            return;
        }
        char *copy = xstrndup(name, len);
        unknown_option(c->argv[0], copy, c->usage->opts);
    }
    o = arg[2] ? NULL : by_letter(c->usage->opts, arg[1]);
    if (!o) die("%s: unknown option '%s': `concord %s --help` lists them", c->argv[0], arg, c->argv[0]);
    take(c, o, NULL);
}

void opt_parse(int *argc, char **argv, const struct usage *u)
{
    struct cursor c = {.argc = *argc, .next = 1, .argv = argv, .usage = u};
    int kept = 1;
    bool options = true;
    while (c.next < c.argc) {
        char *arg = argv[c.next++];
        if (options && !strcmp(arg, "--"))
            options = false;
        else if (options && arg[0] == '-' && arg[1])
            parse_option(&c, arg);
        else
            argv[kept++] = arg;
    }
    argv[kept] = NULL; /* main's argv ends with NULL, so this is inside it */
    *argc = kept;
}
