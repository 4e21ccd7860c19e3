/* rules.c - concord rules: the rules of adapt, and what they make of existing patches. */
#include "concord/adapt/adapt.h"
#include "concord/adapt/replay.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/patch/load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int list_rules(void)
{
    for (int i = 0; i < RULE_COUNT; i++) {
        const struct adapt_rule *r = &adapt_rules[i];
        printf("%s (%s)\n", r->name, adapt_pattern_names[r->pattern]);
        if (*r->before) printf("  - %s\n  + %s\n", r->before, r->after);
        printf("  %s\n  %s\n", r->reason, r->reason_zh);
    }
    return EXIT_OK;
}

/* Hunks [from, end) are the file's. */
static void tell_file(const char *file, const struct replay *r, size_t from, bool verbose, json_t *hunks)
{
    for (size_t i = from; i < r->hunks.len; i++) {
        const struct replay_hunk *h = &r->hunks.ptr[i];
        const char *verdict = replay_verdict_names[h->verdict];
        json_t *row = json_pack("{s:s,s:i,s:s}", "patch", file, "line", (int)h->line, "verdict", verdict);
        json_t *ours = h->ours ? json_string(h->ours) : NULL; /* NULL too when it is not UTF-8 */
        if (ours) json_object_set_new(row, "ours", ours);
        json_array_append_new(hunks, row);
        if (verbose)
            printf("%s:%u %s%s%s\n", file, h->line, verdict, h->ours ? ": " : "", h->ours ? h->ours : "");
    }
}

static void tell_totals(const struct replay *r, size_t patches)
{
    printf("%zu patches, %zu hunks (%zu more of new files or files that are not Python)\n", patches,
           r->hunks.len, r->skipped);
    for (int i = 0; i < REPLAY_VERDICT_COUNT; i++)
        printf("  %-10s %6zu  %s\n", replay_verdict_names[i], r->counts[i], replay_verdict_texts[i]);
    size_t right = 0, wrong = 0;
    printf("%-24s %8s %8s\n", "rule", "as people", "other");
    for (int i = 0; i < RULE_COUNT; i++) {
        right += r->right[i], wrong += r->wrong[i];
        if (r->right[i] + r->wrong[i])
            printf("%-24s %8zu %8zu\n", adapt_rules[i].name, r->right[i], r->wrong[i]);
    }
    size_t r1 = right - r->right[RULE_import], w1 = wrong - r->wrong[RULE_import];
    if (r1 + w1)
        printf("%-24s %8zu %8zu  precision %.3f\n", "all but import", r1, w1, (double)r1 / (double)(r1 + w1));
    if (right + wrong)
        printf("%-24s %8zu %8zu  precision %.3f\n", "all", right, wrong,
               (double)right / (double)(right + wrong));
}

static void write_json(const char *file, const struct replay *r, json_t *hunks)
{
    struct err e;
    json_t *rules = json_object(), *verdicts = json_object();
    for (int i = 0; i < RULE_COUNT; i++)
        json_object_set_new(rules, adapt_rules[i].name,
                            json_pack("{s:i,s:i}", "right", (int)r->right[i], "wrong", (int)r->wrong[i]));
    for (int i = 0; i < REPLAY_VERDICT_COUNT; i++)
        json_object_set_new(verdicts, replay_verdict_names[i], json_integer((json_int_t)r->counts[i]));
    json_t *root = json_pack("{s:i,s:o,s:o,s:i,s:O}", "schema", 1, "rules", rules, "verdicts", verdicts,
                             "skipped", (int)r->skipped, "hunks", hunks);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (file_write(file, text, strlen(text), 0, &e)) die("%s", e.text);
    free(text);
    json_decref(root);
}

static int replay(int n, char **args, const char *json, bool verbose)
{
    struct err e;
    struct replay r = {0};
    strings paths = {0};
    json_t *hunks = json_array();
    if (patch_find(n, args, &paths, &e)) die("%s", e.text);
    for (size_t i = 0; i < paths.len; i++) {
        struct patch p;
        size_t from = r.hunks.len;
        if (patch_load(paths.ptr[i], &p, &e)) die("%s", e.text);
        replay_patch(&p, &r);
        tell_file(paths.ptr[i], &r, from, verbose, hunks);
        patch_free(&p);
    }
    tell_totals(&r, paths.len);
    if (json) write_json(json, &r, hunks);
    json_decref(hunks);
    replay_free(&r);
    strings_free(&paths);
    return EXIT_OK;
}

int cmd_rules(int argc, char **argv)
{
    const char *json = NULL;
    bool verbose = false;
    const struct opt opts[] = {
        {0, "json", OPT_STRING, &json, "FILE", "replay: write every hunk's verdict as JSON"},
        {'v', "verbose", OPT_FLAG, &verbose, NULL, "replay: print every hunk's verdict"},
        {0},
    };
    opt_parse(
        &argc, argv,
        &(struct usage){"rules [replay PATCH...]",
                        "List the rules of concord adapt in the order asked, or compare them with patches "
                        "that people made.",
                        opts});
    if (argc == 1) return list_rules();
    if (strcmp(argv[1], "replay") != 0) die("rules: unknown subcommand '%s': only replay, or none", argv[1]);
    if (argc == 2) die("rules replay: no patch given: name patch files or folders");
    return replay(argc - 2, argv + 2, json, verbose);
}
