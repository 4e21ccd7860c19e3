/* pack.c - concord pack: the evidence as one archive, and its check. */
#include "concord/pack/pack.h"
#include "concord/cmd/cmd.h"
#include "concord/steps/steps.h"

#include <stdlib.h>
#include <string.h>

static int verify(int argc, char **argv)
{
    const char *signers = NULL;
    struct pack_verdict v;
    struct err e;
    const struct opt opts[] = {{0, "allowed-signers", OPT_STRING, &signers, "FILE",
                                "the signature must be by one of these (ssh-keygen's allowed_signers)"},
                               {0}};
    opt_parse(&argc, argv,
              &(struct usage){"pack verify ARCHIVE [options]",
                              "Checks an evidence archive: every byte and its "
                              "signature.",
                              opts});
    if (argc != 2) die("pack verify: give one archive");
    if (pack_verify(argv[1], signers, &v, &e)) return err_report(&e);
    for (size_t i = 0; i < v.faults.len; i++) printf("%s\n", v.faults.ptr[i]);
    bool good = !v.faults.len;
    printf("%s: %zu files, %s%s%s\n", argv[1], v.files, good ? "all as packed" : "not as packed",
           v.has_signature ? ", signature: " : ", not signed", v.signer ? v.signer : "");
    pack_verdict_free(&v);
    return good ? EXIT_OK : EXIT_FINDINGS;
}

int cmd_pack(int argc, char **argv)
{
    const char *work = NULL, *key = NULL, *plugin = NULL;
    struct campaign c;
    struct steps s;
    struct err e;
    if (argc > 1 && !strcmp(argv[1], "verify")) return verify(argc - 1, argv + 1);
    const struct opt opts[] = {
        {'w', "work", OPT_STRING, &work, "DIR", "folder of facts and results ($CONCORD_HOME/work/NAME)"},
        {'p', "plugin", OPT_STRING, &plugin, "DIR", "clone of the plugin's repository"},
        {0, "sign", OPT_STRING, &key, "KEY", "ssh key that signs the manifest"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"pack CAMPAIGN [options] | pack verify ARCHIVE",
                        "Puts a campaign's evidence into one archive: campaign, journal extract, locks, "
                        "facts, patches, reports, commands, hashes, and a signature when a key is given.",
                        opts});
    if (argc != 2) die("pack: give one campaign file, or `pack verify ARCHIVE`");
    if (campaign_load(argv[1], &c, &e) || steps_open(&s, &c, plugin ? plugin : ".", work, &e))
        return err_report(&e);
    s.sign_key = key;
    int outcome = steps_run(&s, STEP_pack, STEP_pack, &e);
    steps_close(&s);
    campaign_free(&c);
    return outcome < 0 ? err_report(&e) : EXIT_OK;
}
