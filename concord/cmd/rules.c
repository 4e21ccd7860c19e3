/* rules.c - concord rules: the rules of adapt, and what they make of existing patches. */
#include "concord/adapt/adapt.h"
#include "concord/adapt/replay.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/patch/load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void print_lines(char sign, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("  %c %.*s\n", sign, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static int list_rules(void)
{
    for (int i = 0; i < RULE_COUNT; i++) {
        const struct adapt_rule *r = &adapt_rules[i];
        printf("%s (%s)\n", r->name, adapt_pattern_names[r->pattern]);
        print_lines('-', r->before);
        print_lines('+', r->after);
        printf("  %s\n  %s\n", r->reason, r->reason_zh);
    }
    return EXIT_OK;
}

/* Hunks [from, end) are the file's. */
static void tell_file(const char *file, const struct replay *r, size_t from, bool verbose, json_t *hunks)
{
    for (size_t i = from; i < r->hunks.len; i++) {
        const struct replay_hunk *h = &r->hunks.ptr[i];
        const char *verdict = replay_verdict_names[h->verdict], *kind = h->mechanical ? "mechanical" : "hand";
        const char *why = h->ours ? replay_argument_names[h->argument] : "";
        json_t *row = json_pack("{s:s,s:i,s:s,s:b}", "patch", file, "line", (int)h->line, "verdict", verdict,
                                "mechanical", h->mechanical);
        json_t *ours = h->ours ? json_string(h->ours) : NULL; /* NULL too when it is not UTF-8 */
        if (ours) json_object_set_new(row, "ours", ours);
        if (*why) json_object_set_new(row, "argument", json_string(why));
        json_array_append_new(hunks, row);
        if (verbose)
            printf("%s:%u %s %s%s%s%s%s\n", file, h->line, kind, verdict, *why ? " " : "", why,
                   h->ours ? ": " : "", h->ours ? h->ours : "");
    }
}

static double share(size_t part, size_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

static void tell_verdicts(const struct replay *r)
{
    size_t all[2] = {0};
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < REPLAY_VERDICT_COUNT; i++) all[m] += r->counts[m][i];
    printf("  %-10s %10zu mechanical %9zu hand work\n", "hunks", all[1], all[0]);
    for (int i = 0; i < REPLAY_VERDICT_COUNT; i++)
        printf("  %-10s %6zu %5.1f %%    %7zu %5.1f %%   %s\n", replay_verdict_names[i], r->counts[1][i],
               share(r->counts[1][i], all[1]), r->counts[0][i], share(r->counts[0][i], all[0]),
               replay_verdict_texts[i]);
    size_t exact = r->counts[1][REPLAY_exact], respelt = r->counts[1][REPLAY_respelt];
    printf("mechanical hunks: %.1f %% exact, %.1f %% with those that differ in spelling only\n",
           share(exact, all[1]), share(exact + respelt, all[1]));
}

static void tell_rules(const struct replay *r)
{
    size_t right = 0, strict = 0;
    printf("%-24s %10s %10s\n", "rule", "as people", "unargued");
    for (int i = 0; i < RULE_COUNT; i++) {
        right += r->right[i];
        if (r->right[i] + r->wrong[i])
            printf("%-24s %10zu %10zu\n", adapt_rules[i].name, r->right[i], r->wrong[i]);
    }
    for (int i = 0; i < REPLAY_ARGUMENT_COUNT; i++) {
        strict += r->argued[i];
        if (r->argued[i])
            printf("edits that people did not make, %-10s %5zu  %s\n", replay_argument_names[i], r->argued[i],
                   replay_argument_texts[i]);
    }
    printf("precision %.3f; %.3f with the argued ones counted as wrong\n", replay_precision(r),
           right + strict ? (double)right / (double)(right + strict) : 1.0);
}

static json_t *verdicts_of(const struct replay *r, int mechanical)
{
    json_t *to = json_object();
    for (int i = 0; i < REPLAY_VERDICT_COUNT; i++)
        json_object_set_new(to, replay_verdict_names[i], json_integer((json_int_t)r->counts[mechanical][i]));
    return to;
}

static json_t *totals(const char *name, enum adapt_place place, const struct replay *r)
{
    json_t *rules = json_object(), *argued = json_object();
    for (int i = 0; i < RULE_COUNT; i++)
        json_object_set_new(rules, adapt_rules[i].name,
                            json_pack("{s:i,s:i}", "right", (int)r->right[i], "wrong", (int)r->wrong[i]));
    for (int i = 0; i < REPLAY_ARGUMENT_COUNT; i++)
        json_object_set_new(argued, replay_argument_names[i], json_integer((json_int_t)r->argued[i]));
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:f,s:i}", "patches", name, "imports",
                     adapt_place_names[place], "rules", rules, "not made by people", argued, "mechanical",
                     verdicts_of(r, 1), "hand", verdicts_of(r, 0), "precision", replay_precision(r),
                     "skipped", (int)r->skipped);
}

struct replaying {
    bool verbose;
    const char *upstream;
    json_t *branches, *hunks;
};

/* One operand: the patches of one branch, whose habits are learnt first. */
static void replay_branch(struct replaying *q, char *name)
{
    struct err e;
    struct replay r = {0};
    struct replay_votes votes = {0};
    strings paths = {0};
    if (patch_find(1, &name, &paths, &e)) die("%s", e.text);
    struct patch *patches = xcalloc(paths.len + 1, sizeof *patches);
    for (size_t i = 0; i < paths.len; i++) {
        if (patch_load(paths.ptr[i], &patches[i], &e)) die("%s", e.text);
        replay_vote(&patches[i], &votes);
    }
    enum adapt_place place = replay_place(&votes, NULL);
    for (size_t i = 0; i < paths.len; i++) {
        size_t from = r.hunks.len;
        replay_patch(&patches[i], &votes, q->upstream, &r);
        tell_file(paths.ptr[i], &r, from, q->verbose, q->hunks);
        patch_free(&patches[i]);
    }
    printf("%s: %zu patches, %zu hunks (%zu more of new files or files that are not Python), %zu in an "
           "upstream file, imports go %s\n",
           name, paths.len, r.hunks.len, r.skipped, r.seen, adapt_place_names[place]);
    tell_verdicts(&r);
    tell_rules(&r);
    json_array_append_new(q->branches, totals(name, place, &r));
    free(patches);
    replay_votes_free(&votes);
    replay_free(&r);
    strings_free(&paths);
}

static int replay(int n, char **args, const char *json, const char *upstream, bool verbose)
{
    struct err e;
    struct replaying q = {verbose, upstream, json_array(), json_array()};
    for (int i = 0; i < n; i++) replay_branch(&q, args[i]);
    json_t *root = json_pack("{s:i,s:o,s:o}", "schema", 2, "branches", q.branches, "hunks", q.hunks);
    if (json) {
        char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
        if (file_write(json, text, strlen(text), 0, &e)) die("%s", e.text);
        free(text);
    }
    json_decref(root);
    return EXIT_OK;
}

int cmd_rules(int argc, char **argv)
{
    const char *json = NULL, *upstream = NULL;
    bool verbose = false;
    const struct opt opts[] = {
        {0, "json", OPT_STRING, &json, "FILE", "replay: write every hunk's verdict as JSON"},
        {'u', "upstream", OPT_STRING, &upstream, "DIR",
         "replay: root of an upstream source tree, of any release: the rules see its files where they have "
         "the "
         "hunk"},
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
    return replay(argc - 2, argv + 2, json, upstream, verbose);
}
