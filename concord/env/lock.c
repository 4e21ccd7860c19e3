/* lock.c - concord-lock.json: what an environment was made of; reading it back and judging it. */
#include "concord/env/env_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char lock_name[] = "concord-lock.json";

const char *const trim_mode_names[2] = {[TRIM_SLIM] = "slim", [TRIM_FULL] = "full"};
const char *const env_state_names[NENV_STATES] = {"absent", "ready", "stale"};

char *envs_folder(void)
{
    char *home = concord_home(), *folder = path_join(home, "envs");
    free(home);
    return folder;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static json_t *packages_json(const wheels *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < w->len; i++) {
        const struct wheel *p = &w->ptr[i];
        const char *slash = strrchr(p->url, '/');
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", p->name, "version",
                                              p->version, "wheel", slash ? slash + 1 : p->url, "sha256",
                                              p->sha256, "url", p->url));
    }
    return list;
}

static json_t *trim_json(const char *folder, const struct trim_result *trim)
{
    json_t *standins = json_object(), *removed = json_array();
    for (size_t i = 0; i < trim->standins.len; i++)
        json_object_set_new(standins, trim->standins.ptr[i].library,
                            json_integer((json_int_t)trim->standins.ptr[i].names));
    for (size_t i = 0; i < trim->removed.len; i++)
        json_array_append_new(removed, json_string(trim->removed.ptr[i] + strlen(folder) + 1));
    return json_pack("{s:o, s:o, s:I}", "stand_ins", standins, "removed", removed, "stripped_bytes",
                     (json_int_t)trim->stripped);
}

static json_t *pins_json(const struct env_spec *s)
{
    json_t *o = json_object();
    for (size_t i = 0; i < s->pins.len; i++)
        json_object_set_new(o, s->pins.ptr[i].package, json_string(s->pins.ptr[i].version));
    return o;
}

static json_t *sources_json(const struct uv *u)
{
    json_t *links = json_array();
    for (size_t i = 0; u->find_links && i < u->find_links->len; i++)
        json_array_append_new(links, json_string(u->find_links->ptr[i]));
    return json_pack("{s:b, s:o, s:s?, s:s?}", "offline", u->offline, "wheel_folders", links, "extra_index",
                     u->index, "index", u->default_index);
}

int lock_write(const char *folder, const struct env_spec *s, const struct uv *u, const char *python_version,
               enum trim_mode mode, const wheels *w, const struct trim_result *trim, struct err *e)
{
    char when[32];
    now_iso(when);
    struct utsname host;
    uname(&host);
    json_t *lock =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:o, s:o, s:o, s:o}", "format",
                  LOCK_FORMAT, "concord", CONCORD_VERSION, "created", when, "name", s->name, "torch",
                  s->torch, "torch_npu", s->torch_npu, "python", "version", python_version, "base", u->python,
                  "platform", host.machine, "mode", trim_mode_names[mode], "pins", pins_json(s), "sources",
                  sources_json(u), "packages", packages_json(w), "changes", trim_json(folder, trim));
    char *text = lock ? json_dumps(lock, JSON_INDENT(2)) : NULL, *path = path_join(folder, lock_name);
    int rc =
        text ? file_write(path, text, strlen(text), 0, e) : err_set(e, "cannot print '%s' as JSON", path);
    json_decref(lock);
    free(text);
    free(path);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static char *text_member(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? xstrdup(s) : NULL;
}

static void read_packages(const json_t *list, struct env_info *info)
{
    size_t i;
    json_t *p;
    json_array_foreach(list, i, p)
    {
        struct env_package *out = vec_push(&info->packages);
        out->name = text_member(p, "name");
        out->version = text_member(p, "version");
        out->wheel = text_member(p, "wheel");
        out->sha256 = text_member(p, "sha256");
    }
}

static const char *locked_version(const struct env_info *info, const char *package)
{
    for (size_t i = 0; i < info->packages.len; i++)
        if (info->packages.ptr[i].name && !strcmp(info->packages.ptr[i].name, package))
            return info->packages.ptr[i].version;
    return NULL;
}

static char *differs(const char *what, const char *locked, const char *wanted)
{
    if (locked && !strcmp(locked, wanted)) return NULL;
    return xformat("it has %s %s, wanted is %s", what, locked ? locked : "(none)", wanted);
}

static char *judge_spec(const struct env_info *info, const struct env_spec *s)
{
    char *why = differs("torch", info->torch, s->torch);
    if (!why) why = differs("torch_npu", info->torch_npu, s->torch_npu);
    for (size_t i = 0; !why && i < s->pins.len; i++)
        why = differs(s->pins.ptr[i].package, locked_version(info, s->pins.ptr[i].package),
                      s->pins.ptr[i].version);
    return why;
}

/* NULL when the environment can be used. */
static char *judge(const struct env_info *info, const json_t *lock, const struct env_spec *s)
{
    long long format = json_integer_value(json_object_get(lock, "format"));
    if (format != LOCK_FORMAT)
        return xformat("its lock has format %lld, this concord makes %d", format, LOCK_FORMAT);
    char *python = path_join(info->folder, "bin/python");
    bool runs = !access(python, X_OK);
    free(python);
    if (!runs) return xstrdup("the Python that it was made with is gone");
    return s ? judge_spec(info, s) : NULL;
}

void env_look(const char *name, const struct env_spec *spec, struct env_info *info)
{
    char *envs = envs_folder();
    *info = (struct env_info){.folder = path_join(envs, name)};
    free(envs);
    if (!path_is_dir(info->folder)) return;
    char *path = path_join(info->folder, lock_name);
    json_error_t problem;
    json_t *lock = json_load_file(path, 0, &problem);
    free(path);
    if (!lock) {
        info->why = xformat("it has no readable %s", lock_name);
    } else {
        info->torch = text_member(lock, "torch");
        info->torch_npu = text_member(lock, "torch_npu");
        info->mode = text_member(lock, "mode");
        info->created = text_member(lock, "created");
        info->python = text_member(json_object_get(lock, "python"), "version");
        read_packages(json_object_get(lock, "packages"), info);
        info->why = judge(info, lock, spec);
        json_decref(lock);
    }
    info->state = info->why ? ENV_STALE : ENV_READY;
}

void env_info_free(struct env_info *info)
{
    char *texts[] = {info->folder, info->why,  info->torch,  info->torch_npu,
                     info->python, info->mode, info->created};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]);
    for (size_t i = 0; i < info->packages.len; i++) {
        struct env_package *p = &info->packages.ptr[i];
        free(p->name), free(p->version), free(p->wheel), free(p->sha256);
    }
    vec_free(&info->packages);
    *info = (struct env_info){0};
}

char *env_folder(const struct env_spec *spec, struct err *e)
{
    struct env_info info;
    env_look(spec->name, spec, &info);
    char *folder = NULL;
    if (info.state == ENV_READY) {
        folder = info.folder;
        info.folder = NULL;
    } else if (info.state == ENV_STALE) {
        err_set(e, "environment '%s' is stale: %s: run `concord env create %s`", info.folder, info.why,
                spec->name);
    } else {
        err_set(e, "there is no environment for release %s: run `concord env create %s`", spec->name,
                spec->name);
    }
    env_info_free(&info);
    return folder;
}

int env_lock_text(const struct env_spec *spec, struct buf *out, struct err *e)
{
    char *folder = env_folder(spec, e);
    if (!folder) return -1;
    char *path = path_join(folder, lock_name);
    int rc = file_read(path, out, e);
    free(path);
    free(folder);
    return rc;
}
