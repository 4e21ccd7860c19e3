/* cmd.h - the commands: one function and one file each, thin over a library. */
#ifndef CONCORD_CMD_H
#define CONCORD_CMD_H

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
    const char *summary;
};

#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "concord/cmd/commands.inc"
#undef COMMAND

#endif
