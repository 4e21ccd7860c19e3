/* bisect.c - concord bisect: the smallest set of tests that makes an order-dependent one fail. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/run/worker.h"
#include "concord/suite/filter.h"
#include "concord/suite/place.h"
#include "concord/suite/runref.h"
#include "concord/suite/sched.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct search {
    const struct suite_run *run;
    const struct suite_case *victim;
    struct place place;
    char *folder; /* for the journals of the trials */
    int trials;
    int64_t timeout;
    bool quiet;
};
typedef VEC(const struct suite_case *) case_list;

/* A run of one unit with these cases, in the order of the file. */
static void plan_trial(const struct search *x, const case_list *before, struct suite_run *out)
{
    const struct suite_unit *u = x->victim->unit;
    *out = (struct suite_run){0};
    char **texts[] = {&out->name,  &out->command, &out->options, &out->started, &out->finished,
                      &out->shard, &out->release, &out->env,     &out->lock};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = xstrdup("");
    struct suite_unit *copy = suite_unit_new(out);
    *copy = (struct suite_unit){.side = u->side,
                                .name = xstrdup(u->name),
                                .suite = xstrdup(u->suite),
                                .digest = xstrdup(""),
                                .error = xstrdup(""),
                                .state = UNIT_COLLECTED,
                                .forkable = u->forkable,
                                .spec = json_deep_copy(u->spec)};
    for (size_t i = 0; i < before->len; i++) suite_case_new(copy, before->ptr[i]->node);
    suite_case_new(copy, x->victim->node);
}

static int begin_trial(struct store *s, struct suite_run *r, struct err *e)
{
    int status = store_begin(s, r, e);
    struct suite_unit *u = r->units.ptr[0];
    for (size_t i = 0; !status && i < u->cases.len; i++) status = store_new_case(s, u->cases.ptr[i], e);
    return status ? status : store_commit(s, e);
}

/* *fails: the victim failed behind the others and not alone. *alone: it fails alone too. */
static int trial(struct search *x, const case_list *before, bool *fails, bool *alone, struct err *e)
{
    struct suite_run r;
    struct store s;
    struct monitor m;
    char *journal = xformat("%s/trial-%d.db", x->folder, ++x->trials);
    plan_trial(x, before, &r);
    int status = store_open(&s, journal, false, e);
    if (!status) status = begin_trial(&s, &r, e);
    struct sched_options o = {.jobs = 1,
                              .isolation = ISOLATE_FILE,
                              .case_ms = x->timeout * 1000,
                              .start_ms = 600000,
                              .output_mib = 64,
                              .processes = 256,
                              .harness = x->place.harness,
                              .crash_library = x->place.crash_library};
    struct sched sched = {.options = &o, .store = &s, .run = &r, .monitor = &m};
    place_side(&x->place, x->victim->unit->side, &sched.sides[x->victim->unit->side]);
    sched.sides[x->victim->unit->side == SIDE_CPU ? SIDE_DEVICE : SIDE_CPU].plugin = "";
    monitor_begin(&m, &r, true, NULL);
    if (!status) status = sched_run(&sched, e);
    if (status == 1) status = err_set(e, "interrupted");
    if (!status) {
        const struct suite_unit *u = r.units.ptr[0];
        enum verdict v = u->cases.ptr[u->cases.len - 1]->verdict;
        *fails = v == VERDICT_FLAKY;
        *alone = verdict_is_bad(v) && v != VERDICT_FLAKY && v != VERDICT_NO_PROOF;
    }
    if (!x->quiet)
        fprintf(stderr, "trial %d: %zu test(s) before it: %s\n", x->trials, before->len,
                *fails ? "fails" : "passes");
    store_close(&s);
    suite_run_free(&r);
    free(journal);
    return status;
}

/* The list without (or only) its part [from, to). */
static case_list part(const case_list *all, size_t from, size_t to, bool only)
{
    case_list out = {0};
    for (size_t i = 0; i < all->len; i++)
        if ((i >= from && i < to) == only) *vec_push(&out) = all->ptr[i];
    return out;
}

/* One round of delta debugging at a granularity: replaces *all by a smaller failing list and says so. */
static int reduce(struct search *x, case_list *all, size_t pieces, bool *smaller, struct err *e)
{
    *smaller = false;
    for (int only = 1; only >= 0; only--) {
        for (size_t i = 0; i < pieces; i++) {
            size_t from = all->len * i / pieces, to = all->len * (i + 1) / pieces;
            case_list some = part(all, from, to, only);
            bool fails = false, alone = false;
            int status = some.len < all->len && some.len ? trial(x, &some, &fails, &alone, e) : 0;
            if (status || fails) {
                *smaller = fails;
                if (fails) vec_free(all);
                if (fails)
                    *all = some;
                else
                    vec_free(&some);
                return status;
            }
            vec_free(&some);
        }
        if (pieces == 2) break; /* the complement of a half is the other half */
    }
    return 0;
}

static int minimise(struct search *x, case_list *all, struct err *e)
{
    size_t pieces = 2;
    while (all->len > 1) {
        bool smaller;
        if (reduce(x, all, pieces, &smaller, e)) return -1;
        if (smaller) {
            pieces = 2;
            continue;
        }
        if (pieces >= all->len) return 0;
        pieces = 2 * pieces < all->len ? 2 * pieces : all->len;
    }
    return 0;
}

static const struct suite_case *find_victim(const struct suite_run *r, const char *text)
{
    struct err e;
    struct filter *f = filter_parse(text, &e);
    if (!f) exit(err_report(&e));
    const struct suite_case *found = NULL;
    for (size_t i = 0; i < r->units.len; i++) {
        for (size_t k = 0; k < r->units.ptr[i]->cases.len; k++) {
            const struct suite_case *c = r->units.ptr[i]->cases.ptr[k];
            char *name = suite_case_name(c);
            bool exact = !strcmp(name, text) || !strcmp(c->node, text);
            free(name);
            if (!exact && !filter_match(f, c)) continue;
            if (found && !exact) die("bisect: more than one test matches '%s': give a whole name", text);
            found = c;
            if (exact) goto done;
        }
    }
done:
    filter_free(f);
    if (!found) die("bisect: no test of the run matches '%s'", text);
    return found;
}

static int bisect(struct search *x)
{
    struct err e;
    case_list before = {0};
    const struct suite_unit *u = x->victim->unit;
    for (size_t i = 0; i < u->cases.len && u->cases.ptr[i] != x->victim; i++)
        if (u->cases.ptr[i]->node[0] != '[') *vec_push(&before) = u->cases.ptr[i];
    bool fails = false, alone = false;
    char *name = suite_case_name(x->victim);
    if (trial(x, &before, &fails, &alone, &e)) return err_report(&e);
    if (!fails) {
        printf(alone ? "%s fails alone: its order does not matter\n"
                     : "%s does not fail behind the %zu test(s) before it\n",
               name, before.len);
        free(name);
        return EXIT_FINDINGS;
    }
    if (minimise(x, &before, &e)) return err_report(&e);
    printf("%s fails in one process after:\n", name);
    for (size_t i = 0; i < before.len; i++) printf("    %s\n", before.ptr[i]->node);
    printf("%zu of %d trial(s); not alone, not with fewer\n", before.len, x->trials);
    vec_free(&before);
    free(name);
    return EXIT_OK;
}

int cmd_bisect(int argc, char **argv)
{
    struct search x = {.timeout = 300};
    const struct opt opts[] = {{0, "timeout", OPT_INT, &x.timeout, "SECONDS", "limit of one test (300)"},
                               {'q', "quiet", OPT_FLAG, &x.quiet, NULL, "no progress"},
                               {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){
            "bisect RUN TEST [options]",
            "Finds which tests before it in its file make a test fail that passes alone: the smallest set.",
            opts});
    if (argc != 3) die("bisect: give a run (`concord runs`) and a test");
    struct store s;
    struct suite_run r;
    struct err e;
    if (runref_load(argv[1], &s, &r, &e)) return err_report(&e);
    x.run = &r;
    x.victim = find_victim(&r, argv[2]);
    if (place_of_run(&r, &x.place, &e)) return err_report(&e);
    x.folder = worker_scratch(&e);
    if (!x.folder) return err_report(&e);
    int code = bisect(&x);
    tree_remove(x.folder, NULL);
    free(x.folder);
    place_free(&x.place);
    suite_run_free(&r);
    store_close(&s);
    return code;
}
