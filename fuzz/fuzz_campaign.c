/* fuzz_campaign.c - any YAML as a campaign: it loads and holds together, or one line says where it is wrong.
 */
#include "concord/campaign/campaign.h"
#include "fuzz/fuzz.h"

static void check(const struct campaign *c)
{
    double rtol, atol;
    MUST(c->name && c->apis.len && c->releases.len);
    for (size_t i = 0; c->upstream.revision && i < c->releases.len; i++) {
        char *revision = campaign_revision(&c->upstream, &c->releases.ptr[i]);
        MUST(revision);
        free(revision);
    }
    for (size_t i = 0; i < c->tolerances.len; i++)
        MUST(!campaign_tolerance(c, c->tolerances.ptr[i].dtype, &rtol, &atol));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct campaign c;
    struct err e = {""};
    const char *path = fuzz_file(data, size);
    if (!campaign_load(path, &c, &e)) {
        check(&c);
        MUST(!campaign_select(&c, NULL, NULL, &e));
    } else {
        MUST(strstr(e.text, path) && !strchr(e.text, '\n'));
    }
    campaign_free(&c);
    return 0;
}
