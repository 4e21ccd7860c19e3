/* doctor.c - the examinations, one function a subject, in the order they are printed. */
#include "concord/doctor/doctor.h"

#include "concord/env/env.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const finding_status_names[NFINDING_STATUSES] = {"ok", "note", "missing"};

struct examination {
    const struct doctor_places *places;
    findings *out;
};

/* Both texts are owned by the finding; mend may be NULL. */
static void report(struct examination *x, const char *name, enum finding_status status, char *text,
                   char *mend)
{
    *vec_push(x->out) = (struct finding){name, status, text, mend};
}

/* First line of what a program prints, or NULL when it cannot be run. Owned. */
static char *first_line(const char *const *argv)
{
    struct proc_spec spec = {.argv = argv, .timeout_ms = 30000};
    struct proc_result r;
    struct err ignored;
    if (proc_run(&spec, &r, &ignored)) return NULL;
    const char *said = buf_str(&r.out);
    char *line = r.status == 0 ? xstrndup(said, strcspn(said, "\n")) : NULL;
    proc_result_free(&r);
    return line;
}

/* ---- hardware ------------------------------------------------------------------------------------------ */

static void device_files(struct examination *x)
{
    const char *dev = x->places->probe.dev ? x->places->probe.dev : "/dev";
    int n = probe_device_files(dev);
    if (n)
        report(x, "device files", FINDING_OK, xformat("%d Ascend device(s) in %s", n, dev), NULL);
    else
        report(x, "device files", FINDING_NOTE, xformat("none: no %s/davinci0, ...", dev),
               xstrdup("only for hardware: install the vendor's driver; the software device needs none"));
}

/* The vendor's files say "Version=8.1.RC1" or "version=8.1.RC1" on a line of their own. */
static char *version_in(const char *path)
{
    struct buf text = BUF_INIT;
    struct err ignored;
    char *found = NULL;
    if (!file_read(path, &text, &ignored)) {
        for (const char *p = buf_str(&text); *p && !found; p += strcspn(p, "\n"), p += *p == '\n') {
            if (strncasecmp(p, "version=", 8)) continue;
            const char *v = p + 8 + (p[8] == '[' || p[8] == '"');
            found = xstrndup(v, strcspn(v, "\n]\"\r"));
        }
    }
    buf_free(&text);
    return found;
}

static char *toolkit_version(const char *home)
{
    static const char *const files[] = {"compiler/version.info",
                                        "runtime/version.info",
                                        "version.cfg",
                                        "version.info",
                                        "latest/compiler/version.info",
                                        "x86_64-linux/ascend_toolkit_install.info",
                                        "aarch64-linux/ascend_toolkit_install.info",
                                        NULL};
    char *found = NULL;
    for (int i = 0; files[i] && !found; i++) {
        char *path = path_join(home, files[i]);
        found = version_in(path);
        free(path);
    }
    return found;
}

static void report_toolkit(struct examination *x, const char *home, const char *how)
{
    char *version = toolkit_version(home);
    report(x, "CANN toolkit", FINDING_OK,
           xformat("%s%s%s (%s)", version ? version : "", version ? " in " : "", home, how), NULL);
    free(version);
}

static void toolkit(struct examination *x)
{
    const char *sourced = getenv("ASCEND_HOME_PATH");
    if (sourced && path_is_dir(sourced)) {
        report_toolkit(x, sourced, "ASCEND_HOME_PATH");
        return;
    }
    const char *const *homes = x->places->probe.homes ? x->places->probe.homes : probe_default_homes;
    for (; *homes; homes++) {
        char *set_env = probe_set_env(*homes);
        if (!set_env) continue;
        report_toolkit(x, *homes, set_env);
        free(set_env);
        return;
    }
    if (sourced && *sourced)
        report(x, "CANN toolkit", FINDING_NOTE, xformat("ASCEND_HOME_PATH names no folder: '%s'", sourced),
               xstrdup("source the toolkit's set_env.sh again, or unset it"));
    else
        report(
            x, "CANN toolkit", FINDING_NOTE, xstrdup("none found"),
            xstrdup(
                "only for hardware: install it and source its set_env.sh; the software device needs none"));
}

/* ---- the device that campaigns would use --------------------------------------------------------------- */

static void software_device(struct examination *x)
{
    struct device_setup setup;
    struct err e;
    if (probe_device(DEVICE_SOFTWARE, NULL, &x->places->probe, &setup, &e)) {
        report(x, "software device", FINDING_NOTE, xstrdup("not built"), xstrdup(e.text));
        return;
    }
    const char *argv[] = {setup.prefix.ptr[0], "version", NULL};
    char *version = first_line(argv);
    if (version)
        report(x, "software device", FINDING_OK, xformat("%s (%s)", version, setup.prefix.ptr[0]), NULL);
    else
        report(x, "software device", FINDING_NOTE, xformat("'%s' does not run", setup.prefix.ptr[0]),
               xstrdup("build it again: ninja -C build"));
    free(version);
    device_setup_free(&setup);
}

static void device(struct examination *x)
{
    struct device_setup setup;
    struct err e;
    if (probe_device(DEVICE_AUTO, NULL, &x->places->probe, &setup, &e)) {
        report(x, "device", FINDING_MISSING, xstrdup("none that a campaign could run on"), xstrdup(e.text));
        return;
    }
    report(x, "device", FINDING_OK,
           xformat("%s: %s", setup.toolkit ? "hardware" : "software", setup.description), NULL);
    device_setup_free(&setup);
}

/* ---- tools --------------------------------------------------------------------------------------------- */

static void uv(struct examination *x)
{
    struct err e;
    char *program = env_find_uv(false, &e);
    if (program) {
        const char *argv[] = {program, "--version", NULL};
        char *line = first_line(argv);
        report(x, "uv", FINDING_OK, xformat("%s (%s)", line ? line : "?", program), NULL);
        free(line);
        free(program);
        return;
    }
    const char *pip[] = {"python3", "-m", "pip", "--version", NULL};
    char *line = first_line(pip);
    report(x, "uv", line ? FINDING_NOTE : FINDING_MISSING, xstrdup(e.text),
           line ? NULL : xstrdup("install uv, or python3 with pip and venv so that concord can fetch it"));
    free(line);
}

/* Any of these serves every known release or at least the newer ones; uv may know more than PATH does. */
static void python(struct examination *x)
{
    static const char *const names[] = {"python3.11", "python3.10", "python3.12", "python3.13"};
    struct buf found = BUF_INIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *direct[] = {names[i], "--version", NULL};
        const char *asked[] = {"uv", "python", "find", "--system", "--no-project", names[i] + 6, NULL};
        char *line = first_line(direct);
        char *path = line ? NULL : first_line(asked);
        if (line || path)
            buf_addf(&found, "%s%s", found.len ? ", " : "", line ? line + strlen("Python ") : path);
        free(line);
        free(path);
    }
    const char *set = getenv("CONCORD_PYTHON");
    if (set && *set) buf_addf(&found, "%sCONCORD_PYTHON=%s", found.len ? ", " : "", set);
    if (found.len)
        report(x, "Python", FINDING_OK, buf_take(&found), NULL);
    else
        report(x, "Python", FINDING_MISSING, xstrdup("no Python 3.10 to 3.13"),
               xstrdup("install Python 3.10 or 3.11, or name one in CONCORD_PYTHON"));
    buf_free(&found);
}

static void git(struct examination *x)
{
    const char *argv[] = {"git", "--version", NULL};
    char *line = first_line(argv);
    if (line)
        report(x, "git", FINDING_OK, line, NULL);
    else
        report(x, "git", FINDING_NOTE, xstrdup("not in PATH"),
               xstrdup("install git: branches and reviews need it"));
}

/* ---- room ---------------------------------------------------------------------------------------------- */

static const double GB = 1e9;

enum {
    DISK_FIRST_GB = 3,
    DISK_REFERENCE_GB = 10,
    MEMORY_GB = 4
}; /* one environment, the reference campaign, a worker */

static void disk(struct examination *x)
{
    char *home = concord_home();
    uint64_t bytes = x->places->disk_free;
    struct err e;
    if (!bytes && disk_free(home, &bytes, &e)) {
        report(x, "disk", FINDING_MISSING, xstrdup(e.text),
               xstrdup("set CONCORD_HOME to a folder that can be made"));
    } else {
        double gb = (double)bytes / GB;
        enum finding_status s = gb < DISK_FIRST_GB       ? FINDING_MISSING
                                : gb < DISK_REFERENCE_GB ? FINDING_NOTE
                                                         : FINDING_OK;
        char *mend = s == FINDING_OK
                         ? NULL
                         : xformat("one environment needs %d GB while it is made, five need %d: free some, "
                                   "or set CONCORD_HOME to another disk",
                                   DISK_FIRST_GB, DISK_REFERENCE_GB);
        report(x, "disk", s, xformat("%.1f GB free for %s", gb, home), mend);
    }
    free(home);
}

static void memory(struct examination *x)
{
    uint64_t bytes = x->places->memory;
    if (!bytes) bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    double gb = (double)bytes / GB;
    bool enough = gb >= MEMORY_GB;
    report(x, "memory", enough ? FINDING_OK : FINDING_NOTE, xformat("%.1f GB", gb),
           enough ? NULL
                  : xformat("a worker takes 1 to 2 GB: below %d GB set executor.workers to 1", MEMORY_GB));
}

/* ---- environments -------------------------------------------------------------------------------------- */

static void environment(struct examination *x, const char *name)
{
    struct env_spec spec;
    struct err e;
    bool known = !env_spec_known(name, &spec, &e);
    struct env_info info;
    env_look(name, known ? &spec : NULL, &info);
    if (info.state == ENV_READY)
        report(x, "environment", FINDING_OK,
               xformat("%s: torch %s, torch_npu %s, Python %s, %s", name, info.torch, info.torch_npu,
                       info.python, info.mode),
               NULL);
    else
        report(x, "environment", FINDING_NOTE,
               xformat("%s is stale: %s", name, info.why ? info.why : "no lock"),
               xformat("concord env create %s", name));
    env_info_free(&info);
    if (known) env_spec_free(&spec);
}

static void environments(struct examination *x)
{
    strings names = {0};
    struct err e;
    if (env_list(&names, &e))
        report(x, "environments", FINDING_NOTE, xstrdup(e.text), NULL);
    else if (!names.len)
        report(x, "environments", FINDING_NOTE, xstrdup("none yet"),
               xstrdup("`concord verify` makes what it needs; `concord env create CAMPAIGN` makes them now"));
    for (size_t i = 0; i < names.len; i++) environment(x, names.ptr[i]);
    strings_free(&names);
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void (*const examinations[])(struct examination *) = {
    device_files, toolkit, software_device, device, uv, python, git, disk, memory, environments,
};

bool doctor_examine(const struct doctor_places *places, findings *out)
{
    static const struct doctor_places real;
    struct examination x = {places ? places : &real, out};
    for (size_t i = 0; i < sizeof examinations / sizeof *examinations; i++) examinations[i](&x);
    bool able = true;
    for (size_t i = 0; i < out->len; i++) able = able && out->ptr[i].status != FINDING_MISSING;
    return able;
}

void findings_free(findings *f)
{
    for (size_t i = 0; i < f->len; i++) {
        free(f->ptr[i].text);
        free(f->ptr[i].mend);
    }
    vec_free(f);
}

json_t *findings_json(const findings *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->len; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s?}", "name", f->ptr[i].name, "status",
                                              finding_status_names[f->ptr[i].status], "text", f->ptr[i].text,
                                              "mend", f->ptr[i].mend));
    return list;
}
