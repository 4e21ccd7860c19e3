/* merge.c - concord merge: the journals of shards as one. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/suite/merge.h"

#include <stdlib.h>

int cmd_merge(int argc, char **argv)
{
    const struct opt opts[] = {{0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"merge TO FROM...",
                        "Puts the newest run of each journal FROM together as one run in the new journal TO.",
                        opts});
    if (argc < 3) die("merge: give the new journal and those of the shards");
    strings from = {0};
    struct err e;
    for (int i = 2; i < argc; i++) *vec_push(&from) = xstrdup(argv[i]);
    int status = merge_journals(argv[1], &from, &e);
    strings_free(&from);
    return status ? err_report(&e) : EXIT_OK;
}
