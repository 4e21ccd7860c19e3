/* show.c - concord show: a run's table, or its cases that match, with what they wrote. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/suite/filter.h"
#include "concord/suite/render.h"
#include "concord/suite/runref.h"

#include <stdlib.h>
#include <string.h>

static void block(const char *title, const char *text)
{
    if (!text || !*text) return;
    size_t n = strlen(text);
    printf("---- %s ----\n%s%s", title, text, text[n - 1] == '\n' ? "" : "\n");
}

static void print_attempt(void *context, int attempt, const char *output, const char *stack,
                          const char *trace)
{
    char title[64];
    (void)context;
    snprintf(title, sizeof title, "attempt %d: output", attempt);
    block(title, output);
    block("traceback", trace);
    block("stack", stack);
}

static void print_case(const struct suite_case *c)
{
    char *name = suite_case_name(c), *facts = c->facts ? json_dumps(c->facts, JSON_COMPACT) : NULL;
    printf("%-9s %s  %.1f ms", c->state == TEST_DONE ? verdict_name(c->verdict) : "NOT RUN", name, c->ms);
    if (c->attempts > 1) printf(", %d attempts", c->attempts);
    if (c->launches) printf(", %lld launches", (long long)c->launches);
    printf("%s%s\n", *c->reason ? "\n    " : "", c->reason);
    if (facts) printf("    %s\n", facts);
    free(facts);
    free(name);
}

static int show_cases(struct store *s, const struct suite_run *r, const char *expression, bool output)
{
    struct err e;
    struct filter *f = filter_parse(expression, &e);
    if (!f) return err_report(&e);
    int found = 0;
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; k < u->cases.len; k++) {
            const struct suite_case *c = u->cases.ptr[k];
            if (!filter_match(f, c)) continue;
            found++;
            print_case(c);
            if (output && store_read_output(s, c->id, print_attempt, NULL, &e)) return err_report(&e);
        }
    }
    filter_free(f);
    if (found) return EXIT_OK;
    fprintf(stderr, "concord: show: nothing in run %lld of %s matches '%s'\n", (long long)r->id, s->sql.path,
            expression);
    return EXIT_FINDINGS;
}

int cmd_show(int argc, char **argv)
{
    bool no_output = false;
    struct render_request q = {0};
    const struct opt opts[] = {
        {0, "no-output", OPT_FLAG, &no_output, NULL, "verdicts and reasons only"},
        {0, "json", OPT_STRING, &q.json, "FILE", "the whole run as JSON; - is standard output"},
        {0, "junit", OPT_STRING, &q.junit, "FILE", "the whole run as JUnit XML"},
        {0, "annotations", OPT_STRING, &q.annotations, "FORGE", "github or gitcode"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){
            "show [RUN [EXPR]] [options]",
            "RUN is as `concord runs` prints it, or a journal's file; the newest run otherwise. With an "
            "expression "
            "(e.g. verdict=FAILED, or part of a name): those tests with all they wrote; without: the table.",
            opts});
    if (argc > 3) die("show: give a run and one expression; quote an expression that has blanks");
    struct store s;
    struct suite_run r;
    struct err e;
    if (runref_load(argc > 1 ? argv[1] : NULL, &s, &r, &e)) return err_report(&e);
    int code = EXIT_OK;
    if (argc > 2)
        code = show_cases(&s, &r, argv[2], !no_output);
    else if (render_all(&r, &q, &e))
        code = err_report(&e);
    suite_run_free(&r);
    store_close(&s);
    return code;
}
