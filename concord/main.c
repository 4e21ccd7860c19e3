/* main.c - the command table and its dispatch. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"

#include <string.h>

#define COMMAND(name, summary) {#name, cmd_##name, summary},
static const struct command commands[] = {
#include "concord/cmd/commands.inc"
};
#undef COMMAND
enum { NCOMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to)
{
    fputs("usage: concord COMMAND [options]\n\n"
          "Verifies that a PyTorch device plugin keeps the API promises of every release it supports.\n\n",
          to);
    for (int i = 0; i < NCOMMANDS; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`concord COMMAND --help` describes one command.\n", to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (!strcmp(name, "--version")) name = "version";
    const char *names[NCOMMANDS];
    for (int i = 0; i < NCOMMANDS; i++) {
        names[i] = commands[i].name;
        if (!strcmp(name, commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    }
    const char *nearest = str_nearest(name, names, NCOMMANDS);
    if (nearest) die("unknown command '%s': did you mean '%s'?", name, nearest);
    die("unknown command '%s': `concord --help` lists them", name);
}
