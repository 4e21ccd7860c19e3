/* cgroup.c - a place for groups of the pids controller, in version 1 or 2, where this user may make them. */
#include "concord/suite/private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path of this process in the hierarchy with the given controller list ("pids" in version 1, "" in 2).
 * Owned. */
static char *own_group(const char *table, const char *controller)
{
    for (const char *p = table; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        const char *first = strchr(p, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        if (!second) continue;
        size_t n = (size_t)(second - first - 1);
        if (strlen(controller) == n && !memcmp(first + 1, controller, n))
            return xstrndup(second + 1, strcspn(second + 1, "\n"));
    }
    return NULL;
}

/* Those of processes that were killed before they could remove them. */
static void remove_stale(const char *parent)
{
    strings names = {0};
    if (dir_list(parent, &names, NULL)) return;
    for (size_t i = 0; i < names.len; i++) {
        int pid;
        char proc[32];
        if (sscanf(names.ptr[i], "concord-%d", &pid) != 1) continue;
        snprintf(proc, sizeof proc, "/proc/%d", pid);
        char *path = path_join(parent, names.ptr[i]);
        if (!path_exists(proc)) cgroup_remove(path);
        free(path);
    }
    strings_free(&names);
}

static char *try_group(const char *root, const char *group)
{
    char *folder = group ? xformat("%s%s/concord-%d", root, strcmp(group, "/") ? group : "", (int)getpid())
                         : xstrdup("");
    char *file = path_join(folder, "pids.max");
    if (*folder) {
        char *parent = xstrndup(folder, (size_t)(strrchr(folder, '/') - folder));
        remove_stale(parent);
        free(parent);
    }
    bool made = *folder && !mkdir(folder, 0755) && !access(file, W_OK);
    if (!made && *folder) rmdir(folder);
    free(file);
    if (made) return folder;
    free(folder);
    return NULL;
}

char *cgroup_make(void)
{
    static const struct {
        const char *root, *controller;
    } hierarchies[] = {{"/sys/fs/cgroup/pids", "pids"}, {"/sys/fs/cgroup", ""}};
    struct buf table = BUF_INIT;
    char *found = NULL;
    if (!file_read("/proc/self/cgroup", &table, NULL)) {
        for (size_t i = 0; !found && i < sizeof hierarchies / sizeof *hierarchies; i++) {
            char *group = own_group(buf_str(&table), hierarchies[i].controller);
            found = try_group(hierarchies[i].root, group);
            free(group);
        }
    }
    buf_free(&table);
    return found ? found : xstrdup("");
}

void cgroup_remove(const char *folder)
{
    strings names = {0};
    if (!*folder || dir_list(folder, &names, NULL)) return;
    for (size_t i = 0; i < names.len; i++) {
        char *path = path_join(folder, names.ptr[i]);
        if (path_is_dir(path)) rmdir(path);
        free(path);
    }
    strings_free(&names);
    rmdir(folder);
}
