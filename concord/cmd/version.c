/* version.c - concord version. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"

int cmd_version(int argc, char **argv)
{
    static const struct opt opts[] = {{0}};
    opt_parse(&argc, argv, &(struct usage){"version", "Print the version.", opts});
    printf("concord %s\n", CONCORD_VERSION);
    return EXIT_OK;
}
