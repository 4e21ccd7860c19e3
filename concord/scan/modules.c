/* modules.c - canonical names through the tree's re-exports. */
#include "concord/scan/modules.h"
#include "concord/scan/index.h"
#include "concord/scan/outline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 24 };

struct module {
    bool package;
    struct facts facts;
};
struct modules {
    char *root; /* NULL: no sources */
    struct index *index;
    struct map loaded;    /* dotted name -> struct module, or &absent */
    struct map canonical; /* name -> char * */
    struct map derives;   /* "class base" -> &yes or &no */
    pthread_mutex_t lock;
};

static struct module absent;
static char yes, no;

struct modules *modules_open(const char *root, struct index *index)
{
    struct modules *m = xcalloc(1, sizeof *m);
    char *torch = root ? path_join(root, "torch/__init__.py") : NULL;
    if (torch && path_exists(torch)) m->root = xstrdup(root);
    m->index = index;
    pthread_mutex_init(&m->lock, NULL);
    free(torch);
    return m;
}

static void free_module(void *p)
{
    struct module *m = p;
    if (m == &absent) return;
    facts_free(&m->facts);
    free(m);
}

void modules_close(struct modules *m)
{
    if (!m) return;
    map_free(&m->loaded, free_module);
    map_free(&m->canonical, free);
    map_free(&m->derives, NULL);
    pthread_mutex_destroy(&m->lock);
    free(m->root);
    free(m);
}

bool modules_have_sources(const struct modules *m)
{
    return m->root;
}

/* ---- loading ------------------------------------------------------------------------------------------- */

static void make_exports(void *unused, const char *path, char *text, size_t len, struct facts *out)
{
    (void)unused;
    outline_skips skips = {0};
    outline_exports(text, len, &skips);
    struct py_file *f = py_parse_without(path, text, len, skips.ptr, skips.len);
    facts_extract_exports(out, f);
    py_free(f);
    vec_free(&skips);
}

static struct module *read_module(struct modules *m, const char *path, bool package)
{
    if (!path_exists(path)) return NULL;
    struct module *module = xcalloc(1, sizeof *module);
    module->package = package;
    if (index_facts(m->index, path, "exports", make_exports, NULL, &module->facts, NULL, NULL)) {
        free(module); /* cannot be read: as if it were not there */
        return NULL;
    }
    return module;
}

static struct module *module_named(struct modules *m, const char *name, size_t n)
{
    char *key = xstrndup(name, n);
    void **slot = map_put(&m->loaded, key);
    if (!*slot) {
        static const struct {
            const char *suffix;
            bool package;
        } forms[] = {
            {"/__init__.py", true},
            {".py", false},
            {".pyi", false},
            {"/__init__.pyi", true},
        };
        char *path = xformat("%s/%s", m->root, key);
        for (char *c = path + strlen(m->root); *c; c++)
            if (*c == '.') *c = '/';
        struct module *found = NULL;
        for (size_t i = 0; !found && i < sizeof forms / sizeof *forms; i++) {
            char *file = xformat("%s%s", path, forms[i].suffix);
            found = read_module(m, file, forms[i].package);
            free(file);
        }
        free(path);
        *slot = found ? found : &absent;
    }
    free(key);
    return *slot == &absent ? NULL : *slot;
}

static char *absolute(const char *module, bool package, const char *target)
{
    if (*target != '.') return xstrdup(target);
    size_t dots = strspn(target, "."), keep = strlen(module);
    for (size_t up = dots - (package ? 1 : 0); up > 0 && keep; up--)
        while (keep && module[--keep] != '.') {
        }
    return xformat("%.*s%s%s", (int)keep, module, keep && target[dots] ? "." : "", target + dots);
}

/* ---- following names ----------------------------------------------------------------------------------- */

static bool exported(struct modules *m, const char *name, const struct module *module, const char *what,
                     size_t n, int steps, char **target);

/* The star import of the module that gives the name: its module's full name. Owned, NULL if none does. */
static char *star_source(struct modules *m, const char *name, const struct module *module, const char *what,
                         size_t n, int steps)
{
    if (*what == '_') return NULL;
    for (size_t i = module->facts.stars.len; i-- > 0;) {
        char *source = absolute(name, module->package, module->facts.stars.ptr[i]);
        struct module *from = module_named(m, source, strlen(source));
        char *unused = NULL;
        bool gives = from && strcmp(source, name) && exported(m, source, from, what, n, steps + 1, &unused);
        free(unused);
        if (gives) return source;
        free(source);
    }
    return NULL;
}

/* Whether the module binds the name; *target is the full name it stands for, NULL if it is defined there. */
static bool exported(struct modules *m, const char *name, const struct module *module, const char *what,
                     size_t n, int steps, char **target)
{
    *target = NULL;
    if (steps > MAX_STEPS) return false;
    const struct fact_export *x = facts_export(&module->facts, what, n);
    if (x) {
        if (*x->target) *target = absolute(name, module->package, x->target);
        return true;
    }
    char *source = star_source(m, name, module, what, n, steps);
    if (!source) return false;
    *target = xformat("%s.%.*s", source, (int)n, what);
    free(source);
    return true;
}

/* One step: the name that `name` stands for, NULL when it is where it is defined or nothing is known. */
static char *step(struct modules *m, const char *name)
{
    size_t at = strcspn(name, ".");
    struct module *module = module_named(m, name, at);
    while (module && name[at]) {
        const char *part = name + at + 1;
        size_t n = strcspn(part, ".");
        bool last = !part[n];
        char *prefix = xstrndup(name, at), *target = NULL;
        struct module *below = last ? NULL : module_named(m, name, at + 1 + n);
        bool bound = !below && exported(m, prefix, module, part, n, 0, &target);
        bool itself = target && strlen(target) == at + 1 + n && !strncmp(target, name, at + 1 + n);
        free(prefix);
        if (bound && target && !itself) {
            char *next = xformat("%s%s", target, part + n);
            free(target);
            return next;
        }
        free(target);
        if (bound && !itself) return NULL;
        module = below ? below : module_named(m, name, at + 1 + n);
        at += 1 + n;
    }
    return NULL;
}

static const char *canonical(struct modules *m, const char *name)
{
    void **slot = map_put(&m->canonical, name);
    if (*slot) return *slot;
    char *at = xstrdup(name);
    for (int steps = 0; steps < MAX_STEPS && str_starts(at, "torch"); steps++) {
        char *next = step(m, at);
        if (!next) break;
        free(at);
        at = next;
    }
    *map_put(&m->canonical, name) = at; /* slots move while modules are read */
    return at;
}

const char *modules_canonical(struct modules *m, const char *name)
{
    if (!m->root || !str_starts(name, "torch.")) return name;
    pthread_mutex_lock(&m->lock);
    const char *found = canonical(m, name);
    pthread_mutex_unlock(&m->lock);
    return found;
}

/* Full name of a base as the module writes it: ".X" is a class of its own, or came by a relative import.
 * Owned. */
static char *base_in(const char *name, const struct module *module, const char *base)
{
    const struct fact_export *own =
        *base == '.' ? facts_export(&module->facts, base + 1, strcspn(base + 1, ".")) : NULL;
    return own && !*own->target ? xformat("%s%s", name, base) : absolute(name, module->package, base);
}

static bool derives(struct modules *m, const char *class, const char *base, int steps)
{
    if (!strcmp(class, base)) return true;
    const char *dot = strrchr(class, '.');
    struct module *module = dot && steps < MAX_STEPS ? module_named(m, class, (size_t)(dot - class)) : NULL;
    const struct fact_export *x = module ? facts_export(&module->facts, dot + 1, strlen(dot + 1)) : NULL;
    if (!x) return false;
    bool found = false;
    char *copy = xstrdup(x->bases), *save = NULL, *prefix = xstrndup(class, (size_t)(dot - class));
    for (char *b = strtok_r(copy, ",", &save); b && !found; b = strtok_r(NULL, ",", &save)) {
        char *full = base_in(prefix, module, b);
        found = derives(m, canonical(m, full), base, steps + 1);
        free(full);
    }
    free(prefix);
    free(copy);
    return found;
}

bool modules_derives(struct modules *m, const char *class, const char *base)
{
    if (!strcmp(class, base)) return true;
    if (!m->root) return false;
    char *key = xformat("%s %s", class, base);
    pthread_mutex_lock(&m->lock);
    void *known = map_get(&m->derives, key);
    if (!known) {
        known = derives(m, class, base, 0) ? &yes : &no;
        *map_put(&m->derives, key) = known;
    }
    pthread_mutex_unlock(&m->lock);
    free(key);
    return known == &yes;
}

char *modules_absolute(const char *module, bool package, const char *target)
{
    return absolute(module, package, target);
}

bool modules_exports(struct modules *m, const char *name, const char *what)
{
    if (!m->root || !str_starts(name, "torch")) return false;
    pthread_mutex_lock(&m->lock);
    struct module *module = module_named(m, name, strlen(name));
    char *target = NULL;
    bool bound = module && exported(m, name, module, what, strlen(what), 0, &target);
    free(target);
    pthread_mutex_unlock(&m->lock);
    return bound;
}
