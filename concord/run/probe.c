/* probe.c - finds the device and labels what a worker loaded. */
#include "concord/run/probe.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_names[] = {
    [KIND_NONE] = "none", [KIND_SOFTWARE] = "software", [KIND_HARDWARE] = "hardware"};

/* Where the vendor's installers put toolkits (CANN's installation guide). */
const char *const probe_default_homes[] = {"/usr/local/Ascend/ascend-toolkit/latest",
                                           "/usr/local/Ascend/ascend-toolkit", "/usr/local/Ascend/cann",
                                           NULL};

const char *device_kind_name(enum device_kind k)
{
    return kind_names[k];
}

enum device_kind device_kind_parse(const char *text)
{
    for (int k = KIND_SOFTWARE; k <= KIND_HARDWARE; k++)
        if (!strcmp(text, kind_names[k])) return (enum device_kind)k;
    return KIND_NONE;
}

void device_setup_free(struct device_setup *s)
{
    strings_free(&s->prefix);
    free(s->description);
    free(s->toolkit);
    *s = (struct device_setup){0};
}

/* ---- what is there ----------------------------------------------------------------------------------- */

int probe_device_files(const char *dev)
{
    strings names = {0};
    int n = 0;
    if (!dir_list(dev, &names, NULL)) {
        for (size_t i = 0; i < names.len; i++) {
            const char *p = names.ptr[i];
            n += str_starts(p, "davinci") && isdigit((unsigned char)p[7]);
        }
    }
    strings_free(&names);
    return n;
}

/* The vendor keeps set_env.sh in the toolkit's folder or, for .../latest, one above it. */
char *probe_set_env(const char *toolkit)
{
    static const char *const places[] = {"set_env.sh", "../set_env.sh", "bin/setenv.bash"};
    if (!toolkit || !path_exists(toolkit)) return NULL;
    if (!path_is_dir(toolkit)) return realpath(toolkit, NULL);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = path_join(toolkit, places[i]);
        char *real = realpath(path, NULL);
        free(path);
        if (real && !path_is_dir(real)) return real;
        free(real);
    }
    return NULL;
}

static char *find_set_env(const char *const *homes)
{
    char *found = NULL;
    for (; !found && *homes; homes++) found = probe_set_env(*homes);
    return found;
}

/* A toolkit that the person's shell has sourced already. */
static const char *sourced_toolkit(void)
{
    const char *home = getenv("ASCEND_HOME_PATH");
    return home && path_is_dir(home) ? home : NULL;
}

static char *find_launcher(const char *planted)
{
    if (planted) return access(planted, X_OK) ? NULL : xstrdup(planted);
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return NULL;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    *slash = '\0';
    static const char *const places[] = {"softnpu", "../bin/softnpu"}; /* beside concord; from build/tests */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = path_join(exe, places[i]);
        if (!access(path, X_OK)) return path;
        free(path);
    }
    return NULL;
}

/* ---- how to start ------------------------------------------------------------------------------------ */

static void push_words(strings *v, const char *const *words)
{
    for (; *words; words++) *vec_push(v) = xstrdup(*words);
}

static void use_toolkit(struct device_setup *out, char *set_env)
{
    /* The scripts of the vendor expect bash, and end with the status of their last test. */
    push_words(&out->prefix,
               (const char *const[]){"bash", "-c", "source \"$0\"; exec \"$@\"", set_env, NULL});
    out->toolkit = set_env;
    out->description = xformat("toolkit %s", set_env);
}

static void use_sourced(struct device_setup *out, const char *home)
{
    push_words(&out->prefix, (const char *const[]){"env", NULL});
    out->toolkit = xstrdup(home);
    out->description = xformat("toolkit %s (environment as found)", home);
}

static int use_softnpu(struct device_setup *out, const char *planted, struct err *e)
{
    char *launcher = find_launcher(planted);
    if (!launcher)
        return err_set(e, "no softnpu launcher beside concord: build it (ninja -C build) or install it");
    push_words(&out->prefix, (const char *const[]){launcher, "run", "--", NULL});
    out->description = xformat("softnpu (%s)", launcher);
    free(launcher);
    return 0;
}

static int no_toolkit(int boards, const char *dev, struct err *e)
{
    if (boards)
        return err_set(
            e,
            "%d board(s) in %s but no CANN toolkit: source its set_env.sh, give --toolkit DIR, or use "
            "--device software",
            boards, dev);
    return err_set(
        e, "no board (%s/davinci*) and no CANN toolkit (ASCEND_HOME_PATH, --toolkit): use --device software",
        dev);
}

int probe_device(enum device_choice choice, const char *toolkit, const struct probe_places *places,
                 struct device_setup *out, struct err *e)
{
    struct probe_places p = places ? *places : (struct probe_places){0};
    const char *dev = p.dev ? p.dev : "/dev";
    *out = (struct device_setup){0};
    if (toolkit && choice == DEVICE_SOFTWARE)
        return err_set(e, "--toolkit is for --device hardware; --device software needs none");
    char *set_env = probe_set_env(toolkit);
    if (toolkit && !set_env)
        return err_set(e, "%s: no set_env.sh there: give the toolkit's folder, or use --device software",
                       toolkit);
    int boards = probe_device_files(dev);
    if (choice == DEVICE_SOFTWARE || (choice == DEVICE_AUTO && !boards && !toolkit))
        return use_softnpu(out, p.launcher, e);
    if (!set_env && sourced_toolkit()) {
        use_sourced(out, sourced_toolkit());
        return 0;
    }
    if (!set_env) set_env = find_set_env(p.homes ? p.homes : probe_default_homes);
    if (!set_env) return no_toolkit(boards, dev, e);
    use_toolkit(out, set_env);
    return 0;
}

enum device_kind probe_label(const json_t *hello)
{
    const char *softnpu = json_string_value(json_object_get(hello, "softnpu"));
    const char *ascendcl = json_string_value(json_object_get(hello, "ascendcl"));
    if (softnpu && *softnpu) return KIND_SOFTWARE;
    if (ascendcl && *ascendcl && json_array_size(json_object_get(hello, "device_files")))
        return KIND_HARDWARE;
    return KIND_NONE;
}
