/* place.c - opening, keeping and finding again where tests run. */
#include "concord/suite/place.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside the libraries of the build, or of the installation. */
static char *find_crash_library(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return xstrdup("");
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    char *path = path_join(exe, "../lib/libconcord_crash.so");
    if (!access(path, R_OK)) return path;
    free(path);
    return xstrdup("");
}

int place_open(struct place *p, struct err *e)
{
    p->harness = concord_share("harness");
    p->crash_library = find_crash_library();
    if (!*p->plugin) return 0;
    for (int i = 0; i < NDEVICE_CHOICES; i++)
        if (!strcmp(p->device, device_choice_names[i]))
            return probe_device((enum device_choice)i, p->toolkit && *p->toolkit ? p->toolkit : NULL, NULL,
                                &p->device_setup, e);
    return err_set(e, "--device %s: expected auto, hardware or software", p->device);
}

void place_free(struct place *p)
{
    char *owned[] = {p->python, p->plugin,  p->want_torch,    p->want_plugin,
                     p->device, p->toolkit, p->crash_library, p->harness};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    strings_free(&p->env);
    strings_free(&p->devices);
    device_setup_free(&p->device_setup);
    device_setup_free(&p->cpu_setup);
    *p = (struct place){0};
}

void place_side(const struct place *p, enum side side, struct sched_side *out)
{
    bool device = side == SIDE_DEVICE;
    *out = (struct sched_side){.used = true,
                               .setup = device ? &p->device_setup : &p->cpu_setup,
                               .python = p->python,
                               .plugin = device ? p->plugin : "",
                               .torch = p->torch,
                               .want_torch = p->want_torch,
                               .want_plugin = p->want_plugin,
                               .env = p->env};
    if (device) out->devices = p->devices;
}

static json_t *list_json(const strings *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->len; i++) json_array_append_new(list, json_string(v->ptr[i]));
    return list;
}

json_t *place_json(const struct place *p)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "python", p->python, "plugin",
                     p->plugin, "want_torch", p->want_torch, "want_plugin", p->want_plugin, "device",
                     p->device, "toolkit", p->toolkit ? p->toolkit : "", "torch", p->torch, "env",
                     list_json(&p->env), "devices", list_json(&p->devices));
}

static char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return xstrdup(text ? text : "");
}

static void read_list(const json_t *list, strings *out)
{
    size_t i;
    json_t *text;
    json_array_foreach(list, i, text) * vec_push(out) = xstrdup(json_string_value(text));
}

int place_of_run(const struct suite_run *r, struct place *out, struct err *e)
{
    const json_t *o = json_object_get(r->host, "place");
    if (!o) return err_set(e, "the run does not say where it ran");
    *out = (struct place){.python = text_of(o, "python"),
                          .plugin = text_of(o, "plugin"),
                          .want_torch = text_of(o, "want_torch"),
                          .want_plugin = text_of(o, "want_plugin"),
                          .device = text_of(o, "device"),
                          .toolkit = text_of(o, "toolkit"),
                          .torch = json_is_true(json_object_get(o, "torch"))};
    read_list(json_object_get(o, "env"), &out->env);
    read_list(json_object_get(o, "devices"), &out->devices);
    return place_open(out, e);
}
