/* sign.c - signatures by ssh keys, made and checked by ssh-keygen -Y. */
#include "concord/pack/pack.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder for the files that ssh-keygen wants to see. Owned; NULL with *e. */
static char *work_folder(struct err *e)
{
    const char *place = getenv("TMPDIR");
    char *dir = xformat("%s/concord-sign-XXXXXX", place && *place ? place : "/tmp");
    if (mkdtemp(dir)) return dir;
    err_set(e, "%s: cannot be made", dir);
    free(dir);
    return NULL;
}

static int keygen(const char *const *argv, const struct buf *input, struct proc_result *r, struct err *e)
{
    const struct proc_spec spec = {
        .argv = argv, .input = buf_str(input), .input_len = input->len, .timeout_ms = 60000, .merge = true};
    if (proc_run(&spec, r, e)) return err_wrap(e, "signatures need ssh-keygen (package openssh-client)");
    return 0;
}

/* One line of what the program said. Owned. */
static char *first_line(const struct proc_result *r)
{
    const char *text = buf_str(&r->out);
    return xstrndup(text, strcspn(text, "\r\n"));
}

int sign_text(const char *key, const struct buf *text, struct buf *signature, struct err *e)
{
    struct proc_result r;
    char *dir = work_folder(e);
    if (!dir) return -1;
    char *file = path_join(dir, PACK_MANIFEST), *sig = path_join(dir, PACK_SIGNATURE);
    const char *const argv[] = {"ssh-keygen", "-Y", "sign", "-n", PACK_NAMESPACE, "-f", key, file, NULL};
    const struct buf none = BUF_INIT;
    int status = file_write(file, buf_str(text), text->len, 0, e) ? -1 : keygen(argv, &none, &r, e);
    if (!status) {
        char *said = first_line(&r);
        if (r.status) status = err_set(e, "%s: ssh-keygen cannot sign with it: %s", key, said);
        free(said);
        proc_result_free(&r);
    }
    if (!status) status = file_read(sig, signature, e);
    tree_remove(dir, NULL);
    free(sig);
    free(file);
    free(dir);
    return status;
}

/* The principal that an allowed_signers file gives the signature's key. Owned; NULL when none. */
static char *find_principal(const char *signers, const char *sig, struct err *e)
{
    struct proc_result r;
    const char *const argv[] = {"ssh-keygen", "-Y", "find-principals", "-s", sig, "-f", signers, NULL};
    const struct buf none = BUF_INIT;
    if (keygen(argv, &none, &r, e)) return NULL;
    char *name = r.status ? NULL : first_line(&r);
    proc_result_free(&r);
    if (!name) err_set(e, "the signature is by a key that %s does not have", signers);
    return name;
}

static int check_by(const char *const *argv, const struct buf *text, char **says, struct err *e)
{
    struct proc_result r;
    if (keygen(argv, text, &r, e)) return -1;
    *says = first_line(&r);
    int status = r.status ? err_set(e, "the signature does not hold: %s", *says) : 0;
    proc_result_free(&r);
    return status;
}

int sign_check(const struct buf *text, const struct buf *signature, const char *signers, char **says,
               struct err *e)
{
    char *dir = work_folder(e);
    if (!dir) return -1;
    char *sig = path_join(dir, PACK_SIGNATURE), *who = NULL;
    int status = file_write(sig, buf_str(signature), signature->len, 0, e);
    if (!status && signers && !(who = find_principal(signers, sig, e))) status = -1;
    const char *const whole[] = {"ssh-keygen", "-Y", "check-novalidate", "-n", PACK_NAMESPACE, "-s",
                                 sig,          NULL};
    const char *const known[] = {"ssh-keygen", "-Y", "verify", "-n", PACK_NAMESPACE, "-s", sig, "-f",
                                 signers,      "-I", who,      NULL};
    if (!status) status = check_by(signers ? known : whole, text, says, e);
    tree_remove(dir, NULL);
    free(who);
    free(sig);
    free(dir);
    return status;
}
