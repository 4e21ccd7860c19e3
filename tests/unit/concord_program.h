/* concord_program.h - the built concord as a person runs it, for the tests of its commands; also in a cross
 * build. */
#ifndef CONCORD_PROGRAM_H
#define CONCORD_PROGRAM_H

#include "concord/base/base.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 24 };

/* Runs it in cwd with the arguments (ended by NULL) and with home, "CONCORD_HOME=...", set; answers, unless
 * NULL, is its standard input. What it prints is added to out. Returns its exit status. */
static int run_concord(const char *cwd, const char *home, const char *answers, const char *const *args,
                       struct buf *out)
{
    const char *argv[MAX_ARGS + 6] = {NULL};
    int n = 0;
    const char *emulated =
        getenv("QEMU_LD_PREFIX"); /* a cross build: the kernel cannot run the program itself */
    if (emulated) argv[n++] = "qemu-aarch64", argv[n++] = "-L", argv[n++] = emulated;
    argv[n++] = BUILD_DIR "/bin/concord";
    for (int i = 0; args[i]; i++) argv[n++] = args[i];
    const char *env[] = {home, NULL};
    struct proc_spec spec = {.argv = argv,
                             .env = env,
                             .cwd = cwd,
                             .timeout_ms = 60000,
                             .merge = true,
                             .input = answers,
                             .input_len = answers ? strlen(answers) : 0};
    struct proc_result r = {0};
    struct err e;
    if (proc_run(&spec, &r, &e)) fail_msg("%s", e.text);
    buf_add(out, buf_str(&r.out), r.out.len);
    int status = r.status;
    proc_result_free(&r);
    return status;
}

#endif
