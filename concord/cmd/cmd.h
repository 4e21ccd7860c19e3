/* cmd.h - the commands: one function and one file each, thin over a library. */
#ifndef CONCORD_CMD_H
#define CONCORD_CMD_H

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
    const char *summary;
};

/* One row a command, sorted by name. Included by main.c and for the declarations below. */
#define COMMANDS(X)                                                                                                \
    X(patch, "apply, check, make, merge and repair patches, strictly")                                                \
    X(report, "render the last run: Markdown in Chinese and English, JSON")                                           \
    X(scan, "find the upstream tests that cover an API")                                                               \
    X(verify, "run a campaign's cases on every release, compared with the CPU and proved")                            \
    X(version, "print the version")

#define X(name, summary) int cmd_##name(int argc, char **argv);
COMMANDS(X)
#undef X

#endif
