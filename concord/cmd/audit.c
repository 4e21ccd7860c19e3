/* audit.c - concord audit: named rules over patches, or over what a branch changes. */
#include "concord/audit/audit.h"
#include "concord/cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

struct request {
    const char *branch, *base, *upstream, *sarif, *json, *explain, *least, *baseline, *write_baseline,
        *reason, *expires;
    strings only;
    bool list;
};

static void write_out(const char *file, char *text)
{
    struct err e;
    if (!strcmp(file, "-"))
        printf("%s\n", text);
    else if (file_write(file, text, strlen(text), 0, &e))
        die("%s", e.text);
    free(text);
}

static const struct rule *must_rule(const char *name)
{
    const struct rule *r = rule_named(name);
    if (r) return r;
    const char *near = rule_nearest(name);
    if (near) die("audit: unknown rule '%s': did you mean '%s'?", name, near);
    die("audit: unknown rule '%s': `concord audit --rules` lists them", name);
}

static enum severity must_severity(const char *name)
{
    for (int i = 0; i < SEVERITIES; i++)
        if (!strcmp(severity_names[i], name)) return (enum severity)i;
    die("audit: --least: '%s' is not note, warning or error", name);
}

static void collect(const struct request *q, int argc, char **argv, const struct audit_options *o,
                    struct findings *f, size_t *patches)
{
    struct err e;
    if (q->branch) {
        if (argc > 2) die("audit: with --branch the only operand is the repository's folder");
        if (audit_branch(argc > 1 ? argv[1] : ".", q->branch, q->base, o, f, patches, &e)) die("%s", e.text);
        return;
    }
    strings paths = {0};
    if (argc < 2) die("audit: no patch given: name patch files or folders, or --branch and --base");
    if (patch_find(argc - 1, argv + 1, &paths, &e) || audit_patches(&paths, o, f, &e)) die("%s", e.text);
    *patches = paths.len;
    strings_free(&paths);
}

/* Returns how many findings are left. */
static size_t accept(const struct request *q, struct findings *f, struct baseline **b)
{
    struct err e;
    size_t left = 0;
    if (q->baseline) {
        char now[32];
        strings notes = {0};
        if (!(*b = baseline_read(q->baseline, &e))) die("%s", e.text);
        now_iso(now);
        now[10] = '\0';
        baseline_apply(*b, f, now, &notes);
        for (size_t i = 0; i < notes.len; i++) fprintf(stderr, "concord: %s\n", notes.ptr[i]);
        strings_free(&notes);
    }
    for (size_t i = 0; i < f->list.len; i++) left += !f->list.ptr[i].accepted;
    return left;
}

static void summary(const struct findings *f, size_t patches, size_t left)
{
    size_t by[SEVERITIES] = {0};
    for (size_t i = 0; i < f->list.len; i++) by[f->list.ptr[i].rule->severity] += !f->list.ptr[i].accepted;
    if (!left) return;
    fprintf(stderr, "%zu patch%s: %zu error%s, %zu warning%s, %zu note%s", patches, patches == 1 ? "" : "es",
            by[SEVERITY_ERROR], by[SEVERITY_ERROR] == 1 ? "" : "s", by[SEVERITY_WARNING],
            by[SEVERITY_WARNING] == 1 ? "" : "s", by[SEVERITY_NOTE], by[SEVERITY_NOTE] == 1 ? "" : "s");
    if (left < f->list.len) fprintf(stderr, ", %zu accepted", f->list.len - left);
    fputc('\n', stderr);
}

static int run(const struct request *q, int argc, char **argv)
{
    struct err e;
    struct findings f = {0};
    struct baseline *b = NULL;
    bool only[RULE_COUNT] = {0};
    size_t patches = 0;
    for (size_t i = 0; i < q->only.len; i++) only[must_rule(q->only.ptr[i]) - rules] = true;
    struct audit_options o = {NULL, q->least ? must_severity(q->least) : SEVERITY_NOTE,
                              q->only.len ? only : NULL};
    if (q->upstream && !(o.upstream = source_open(q->upstream, &e))) die("%s", e.text);
    collect(q, argc, argv, &o, &f, &patches);
    size_t left = accept(q, &f, &b);
    if (q->write_baseline) {
        if (baseline_write(q->write_baseline, &f, q->reason, q->expires, &e)) die("%s", e.text);
        left = 0;
    } else {
        if (q->json) write_out(q->json, audit_report_json(&f));
        if (q->sarif) write_out(q->sarif, audit_report_sarif(&f));
        bool to_stdout = (q->json && !strcmp(q->json, "-")) || (q->sarif && !strcmp(q->sarif, "-"));
        if (!to_stdout) audit_report_text(&f, stdout);
        summary(&f, patches, left);
    }
    audit_findings_free(&f);
    baseline_free(b);
    source_close(o.upstream);
    return left ? EXIT_FINDINGS : EXIT_OK;
}

static int print_rules(void)
{
    struct buf out = BUF_INIT;
    audit_report_rules_markdown(&out);
    fwrite(buf_str(&out), 1, out.len, stdout);
    buf_free(&out);
    return EXIT_OK;
}

int cmd_audit(int argc, char **argv)
{
    struct request q = {0};
    const struct opt opts[] = {
        {0, "branch", OPT_STRING, &q.branch, "REV",
         "audit what this branch changes (operand: the repository)"},
        {0, "base", OPT_STRING, &q.base, "REV", "the branch it goes into"},
        {'u', "upstream", OPT_STRING, &q.upstream, "SOURCE",
         "upstream files: folder, CLONE#REV, archive or URL#TAG"},
        {0, "json", OPT_STRING, &q.json, "FILE", "findings as JSON (- for standard output)"},
        {0, "sarif", OPT_STRING, &q.sarif, "FILE", "findings as SARIF 2.1.0 (- for standard output)"},
        {0, "explain", OPT_STRING, &q.explain, "RULE", "say what a rule means and how to mend it"},
        {0, "rules", OPT_FLAG, &q.list, NULL, "print every rule as Markdown"},
        {'r', "rule", OPT_LIST, &q.only, "RULE", "only these rules (repeatable, or commas)"},
        {0, "least", OPT_STRING, &q.least, "SEVERITY",
         "report only from this severity on: note, warning, error"},
        {0, "baseline", OPT_STRING, &q.baseline, "FILE", "findings accepted with reason and expiry"},
        {0, "write-baseline", OPT_STRING, &q.write_baseline, "FILE",
         "accept today's findings (needs --reason and --expires)"},
        {0, "reason", OPT_STRING, &q.reason, "TEXT", "why they are accepted"},
        {0, "expires", OPT_STRING, &q.expires, "DATE", "until when, YYYY-MM-DD"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){
            "audit PATH... [options]",
            "Audits patches: format, scope and meaning. Says nothing about clean ones; exits 1 on findings.",
            opts});
    if (q.explain) {
        audit_report_rule(must_rule(q.explain), stdout);
        return EXIT_OK;
    }
    if (q.list) return print_rules();
    if (!q.branch != !q.base) die("audit: --branch and --base go together");
    if (q.write_baseline && (!q.reason || !q.expires))
        die("audit: --write-baseline needs --reason and --expires");
    if (q.write_baseline && strpbrk(q.reason, "\t\n")) die("audit: --reason must be one line without tabs");
    if (q.expires && !date_valid(q.expires))
        die("audit: --expires: '%s' is not a date: write 2026-12-31", q.expires);
    char today[32];
    now_iso(today);
    today[10] = '\0';
    if (q.expires && strcmp(q.expires, today) < 0) die("audit: --expires: %s has passed", q.expires);
    int rc = run(&q, argc, argv);
    strings_free(&q.only);
    return rc;
}
