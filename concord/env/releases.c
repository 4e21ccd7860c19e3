/* releases.c - the known releases, and what an environment for one has to hold. */
#include "concord/env/env_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Which torch_npu goes with a torch, the newest Python 3 minor version that both have wheels for (their
 * package index pages), and what else must be held at one version. Oldest first. */
static const struct known_release {
    const char *torch, *torch_npu;
    int newest_python;
    const char *pin_package, *pin_version;
} known[] = {
    {"2.6.0", "2.6.0.post5", 11, "sympy", "1.13.1"},
    {"2.7.1", "2.7.1", 11, NULL, NULL},
    {"2.8.0", "2.8.0", 11, NULL, NULL},
    {"2.9.0", "2.9.0", 12, NULL, NULL},
    {"2.10.0", "2.10.0", 13, NULL, NULL},
    {"2.11.0", "2.11.0", 13, NULL, NULL},
    {"2.12.0", "2.12.0", 13, NULL, NULL},
    {"2.13.0", "2.13.0", 14, NULL, NULL},
};
enum { NKNOWN = sizeof known / sizeof *known };

/* Where the table says nothing: what every release so far has wheels for. */
enum { OLDEST_PYTHON = 10, SAFE_PYTHON = 11 };

static const struct known_release *find(const char *torch)
{
    for (int i = 0; i < NKNOWN; i++)
        if (!strcmp(known[i].torch, torch)) return &known[i];
    return NULL;
}

const char *const *env_known_releases(size_t *n)
{
    static const char *names[NKNOWN];
    for (int i = 0; i < NKNOWN; i++) names[i] = known[i].torch;
    *n = NKNOWN;
    return names;
}

static void add_known_pin(struct env_spec *s, const struct known_release *k)
{
    if (!k || !k->pin_package) return;
    for (size_t i = 0; i < s->pins.len; i++)
        if (!strcmp(s->pins.ptr[i].package, k->pin_package)) return;
    *vec_push(&s->pins) = (struct env_pin){xstrdup(k->pin_package), xstrdup(k->pin_version)};
}

int env_spec_known(const char *release, struct env_spec *s, struct err *e)
{
    size_t n;
    const char *const *names = env_known_releases(&n);
    const struct known_release *k = find(release);
    if (!k) {
        const char *nearest = str_nearest(release, names, n);
        if (nearest) return err_set(e, "unknown release '%s': did you mean '%s'?", release, nearest);
        return err_set(e, "unknown release '%s': known are %s to %s; a campaign file can name others",
                       release, known[0].torch, known[NKNOWN - 1].torch);
    }
    *s = (struct env_spec){xstrdup(k->torch), xstrdup(k->torch), xstrdup(k->torch_npu), {0}};
    add_known_pin(s, k);
    return 0;
}

void env_spec_campaign(const struct campaign_release *r, struct env_spec *s)
{
    const struct known_release *k = find(r->torch);
    bool usual = !strcmp(r->torch_npu, k ? k->torch_npu : r->torch);
    *s = (struct env_spec){
        xstrdup(usual ? r->torch : r->torch_npu), xstrdup(r->torch), xstrdup(r->torch_npu), {0}};
    for (size_t i = 0; i < r->pins.len; i++)
        *vec_push(&s->pins) =
            (struct env_pin){xstrdup(r->pins.ptr[i].package), xstrdup(r->pins.ptr[i].version)};
    add_known_pin(s, k);
}

void env_spec_free(struct env_spec *s)
{
    for (size_t i = 0; i < s->pins.len; i++) {
        free(s->pins.ptr[i].package);
        free(s->pins.ptr[i].version);
    }
    vec_free(&s->pins);
    free(s->name);
    free(s->torch);
    free(s->torch_npu);
    *s = (struct env_spec){0};
}

void env_python_range(const struct env_spec *s, int *oldest, int *newest)
{
    const struct known_release *k = find(s->torch);
    *oldest = OLDEST_PYTHON;
    *newest = k ? k->newest_python : SAFE_PYTHON;
}
