/* doctor.c - concord doctor. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

static void print_findings(const findings *f)
{
    for (size_t i = 0; i < f->len; i++) {
        const struct finding *x = &f->ptr[i];
        printf("%-8s %-16s %s\n", finding_status_names[x->status], x->name, x->text);
        if (x->mend) printf("%-25s -> %s\n", "", x->mend);
    }
}

static int write_json(const char *path, const findings *f, bool able, struct err *e)
{
    json_t *o = json_pack("{s:i, s:s, s:b, s:o}", "format", 1, "concord", CONCORD_VERSION, "can_run", able,
                          "findings", findings_json(f));
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    int rc =
        text ? file_write(path, text, strlen(text), 0, e) : err_set(e, "cannot print JSON for '%s'", path);
    free(text);
    json_decref(o);
    return rc;
}

int cmd_doctor(int argc, char **argv)
{
    const char *json = NULL;
    const struct opt opts[] = {{0, "json", OPT_STRING, &json, "FILE", "write the findings as JSON"}, {0}};
    opt_parse(&argc, argv,
              &(struct usage){"doctor [options]",
                              "Say what this machine has for running campaigns, and what is missing.\n"
                              "Exit status 0 when a campaign can run, 1 when not.",
                              opts});
    if (argc > 1) die("doctor: no arguments, but '%s' was given", argv[1]);
    findings f = {0};
    struct err e;
    bool able = doctor_examine(NULL, &f);
    print_findings(&f);
    puts(able ? "\nA campaign can run here."
              : "\nNo campaign can run here before what is missing is mended.");
    int rc = json ? write_json(json, &f, able, &e) : 0;
    findings_free(&f);
    if (rc) return err_report(&e);
    return able ? EXIT_OK : EXIT_FINDINGS;
}
