/* init.c - concord init: a campaign file from names of APIs and releases. */
#include "concord/base/base.h"
#include "concord/campaign/campaign.h"
#include "concord/cmd/cmd.h"
#include "concord/env/env.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
    const char *name;
    strings apis, releases;
};

static void put_releases(const struct request *q, struct buf *out)
{
    struct err e;
    size_t n = q->releases.len;
    const char *const *names = (const char *const *)q->releases.ptr;
    if (!n) names = env_known_releases(&n);
    for (size_t i = 0; i < n; i++) {
        struct env_spec spec;
        if (env_spec_known(names[i], &spec, &e)) die("--versions: %s", e.text);
        buf_addf(out, "  - {torch: %s, torch_npu: %s, branch: v%s}\n", spec.torch, spec.torch_npu,
                 spec.torch);
        env_spec_free(&spec);
    }
}

static void put_apis(const struct request *q, struct buf *out)
{
    for (size_t i = 0; i < q->apis.len; i++) buf_addf(out, "  - %s\n", q->apis.ptr[i]);
}

static void put_name(const struct request *q, struct buf *out)
{
    buf_adds(out, q->name);
}

static void put_topic(const struct request *q, struct buf *out)
{
    buf_addf(out, "test-%s-npu", q->name);
}

static const struct {
    const char *mark;
    void (*put)(const struct request *q, struct buf *out);
} marks[] = {
    {"@name@", put_name}, {"@apis@", put_apis}, {"@releases@", put_releases}, {"@topic@", put_topic}};

/* The template's first line is about the template. */
static void fill(const struct request *q, const char *template, struct buf *out)
{
    const char *p = strchr(template, '\n');
    buf_addf(out, "# Campaign %s, made by concord init. Every key is described in docs/campaign.md.",
             q->name);
    while (p && *p) {
        size_t i = 0;
        while (i < sizeof marks / sizeof *marks && !str_starts(p, marks[i].mark)) i++;
        if (i == sizeof marks / sizeof *marks) {
            buf_addc(out, *p++);
            continue;
        }
        marks[i].put(q, out);
        p += strlen(marks[i].mark);
    }
}

/* Written beside its place, read as any campaign is, then renamed: what is refused leaves no file. */
static int write_checked(const char *path, const struct buf *text, struct err *e)
{
    struct campaign c;
    char *trial = xformat("%s.part", path);
    int status = file_write(trial, buf_str(text), text->len, 0, e);
    if (!status) status = campaign_load(trial, &c, e);
    if (!status) {
        campaign_free(&c);
        if (rename(trial, path)) status = err_set(e, "%s: cannot be written", path);
    }
    if (status) unlink(trial);
    free(trial);
    return status;
}

int cmd_init(int argc, char **argv)
{
    struct request q = {0};
    const char *out = NULL;
    bool force = false;
    const struct opt opts[] = {
        {0, "api", OPT_LIST, &q.apis, "NAME,...", "dotted names, e.g. torch.utils.checkpoint.checkpoint"},
        {0, "versions", OPT_LIST, &q.releases, "V,...", "releases (all that are known otherwise)"},
        {'o', "out", OPT_STRING, &out, "FILE", "where to write (campaigns/NAME.yaml)"},
        {0, "force", OPT_FLAG, &force, NULL, "replace a file that is there"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"init NAME --api NAME,... [options]", "Writes a campaign file to begin with.", opts});
    struct err e;
    struct buf template = BUF_INIT, text = BUF_INIT;
    if (argc != 2)
        die("init: give the campaign's name, e.g. concord init nn-functional --api torch.nn.functional.gelu");
    if (!q.apis.len) die("init: name at least one API with --api");
    q.name = argv[1];
    char *share = concord_share("campaigns/template.yaml");
    char *path = out ? xstrdup(out) : xformat("campaigns/%s.yaml", q.name);
    if (path_exists(path) && !force)
        die("%s is there: choose another name, or replace it with --force", path);
    if (!out && !path_is_dir("campaigns") && dir_make("campaigns", &e)) return err_report(&e);
    if (file_read(share, &template, &e)) return err_report(&e);
    fill(&q, buf_str(&template), &text);
    if (write_checked(path, &text, &e)) return err_report(&e);
    printf("%s\nnext: concord run %s --plugin CLONE\n", path, path);
    buf_free(&template);
    buf_free(&text);
    strings_free(&q.apis);
    strings_free(&q.releases);
    free(share);
    free(path);
    return EXIT_OK;
}
