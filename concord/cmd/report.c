/* report.c - concord report: renders the last run that the journal has. */
#include "concord/report/report.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/run/journal.h"

#include <stdlib.h>
#include <string.h>

static void check_languages(const strings *languages)
{
    for (size_t i = 0; i < languages->len; i++)
        if (strcmp(languages->ptr[i], "zh") != 0 && strcmp(languages->ptr[i], "en") != 0)
            die("--lang %s: expected zh, en or both (zh,en)", languages->ptr[i]);
}

/* The campaign's own languages, unless some were asked for. */
static char *journal_of_file(const char *file, strings *languages)
{
    struct campaign c;
    struct err e;
    if (campaign_load(file, &c, &e)) exit(err_report(&e));
    char *path = journal_path(c.name);
    for (size_t i = 0; !languages->len && i < c.languages.len; i++)
        *vec_push(languages) = xstrdup(c.languages.ptr[i]);
    campaign_free(&c);
    return path;
}

/* The journal of the campaign named by its file or its name; without one, the journal written to last. Owned.
 */
static char *find_journal(const char *campaign, strings *languages)
{
    if (campaign && (path_exists(campaign) || str_ends(campaign, ".yaml") || str_ends(campaign, ".yml")))
        return journal_of_file(campaign, languages);
    if (campaign) return journal_path(campaign);
    char *newest = journal_newest();
    if (!newest) die("no journal yet: `concord verify CAMPAIGN` writes it");
    return newest;
}

/* One format to one file each, by the option's name. */
struct single {
    const char *format, *file;
};

static int write_report(const struct run_record *record, const struct single *singles, size_t n,
                        const strings *languages, bool texts, const char *out)
{
    struct err e;
    struct dossier d;
    bool some = false;
    char *folder = dossier_folder(record->campaign);
    if (dossier_open(folder, &d, &e)) return err_report(&e);
    for (size_t i = 0; i < n; i++) {
        if (!singles[i].file) continue;
        some = true;
        if (report_write_one(record, &d, singles[i].format, singles[i].file, &e)) return err_report(&e);
    }
    if ((out || texts || !some) && report_write(record, &d, languages, out, &e)) return err_report(&e);
    dossier_close(&d);
    free(folder);
    return EXIT_OK;
}

int cmd_report(int argc, char **argv)
{
    strings languages = {0};
    struct single singles[] = {{"json", NULL}, {"page", NULL}, {"junit", NULL}, {"sarif", NULL}};
    const char *out = NULL, *journal_file = NULL;
    int64_t number = 0;
    const struct opt opts[] = {
        {0, "lang", OPT_LIST, &languages, "zh,en", "languages (the campaign's otherwise)"},
        {0, "json", OPT_STRING, &singles[0].file, "FILE",
         "write JSON (docs/report-schema.md); - is standard output"},
        {0, "html", OPT_STRING, &singles[1].file, "FILE", "write the page"},
        {0, "junit", OPT_STRING, &singles[2].file, "FILE", "write JUnit XML"},
        {0, "sarif", OPT_STRING, &singles[3].file, "FILE", "write SARIF"},
        {'o', "out", OPT_STRING, &out, "DIR", "write all of them and the texts there"},
        {0, "run", OPT_INT, &number, "N", "an earlier run (the last one otherwise)"},
        {0, "journal", OPT_STRING, &journal_file, "FILE", "journal (the campaign's otherwise)"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"report [CAMPAIGN] [options]",
                        "Renders the last run of the campaign (of any, when none is named) from the journal.",
                        opts});
    if (argc > 2) die("report: give at most one campaign");
    check_languages(&languages);
    bool texts = languages.len > 0; /* asked for by --lang */
    struct err e;
    struct journal *journal;
    struct run_record record;
    int64_t run = number;
    char *path = journal_file ? xstrdup(journal_file) : find_journal(argc == 2 ? argv[1] : NULL, &languages);
    if (journal_open_readonly(path, &journal, &e)) return err_report(&e);
    if (!run && journal_last_run(journal, "", &run, &e)) return err_report(&e);
    if (!run) die("%s: no run in it: `concord verify CAMPAIGN` makes one", path);
    if (journal_load(journal, run, &record, &e)) return err_report(&e);
    int status = write_report(&record, singles, sizeof singles / sizeof *singles, &languages, texts, out);
    run_record_free(&record);
    journal_close(journal);
    strings_free(&languages);
    free(path);
    return status;
}
