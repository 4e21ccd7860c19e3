/* path.c - joining paths, concord's home, and the folder of its shared files. */
#include "concord/base/base.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *path_join(const char *a, const char *b)
{
    if (*b == '/' || !*a) return xstrdup(b);
    return xformat("%s%s%s", a, str_ends(a, "/") ? "" : "/", b);
}

bool path_exists(const char *path)
{
    return !access(path, F_OK);
}

bool path_is_dir(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static const char *env_or_null(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

char *concord_home(void)
{
    const char *v;
    if ((v = env_or_null("CONCORD_HOME"))) {
        if (*v == '/') return xstrdup(v);
        char cwd[PATH_MAX]; /* children run in other folders, so the path must not depend on ours */
        if (!getcwd(cwd, sizeof cwd)) die("CONCORD_HOME is relative and the current folder cannot be named");
        return path_join(cwd, v);
    }
    if ((v = env_or_null("XDG_CACHE_HOME"))) return path_join(v, "concord");
    if ((v = env_or_null("HOME"))) return path_join(v, ".cache/concord");
    die("no home folder: set CONCORD_HOME or HOME");
}

/* Where name may be, seen from the folder of the executable: installed, then build/lib, then the source tree.
 */
static const char *const share_places[] = {"../share/concord", "..", "../.."};
enum { NPLACES = sizeof share_places / sizeof *share_places };

char *concord_share(const char *name)
{
    const char *set = env_or_null("CONCORD_SHARE");
    if (set) return path_join(set, name);
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) die("cannot find concord's own files: set CONCORD_SHARE to the folder that holds %s", name);
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    *slash = '\0';
    char *first = NULL;
    for (int i = 0; i < NPLACES; i++) {
        char *path = xformat("%s/%s/%s", exe, share_places[i], name);
        char *real = realpath(path, NULL);
        if (real) {
            free(path);
            free(first);
            return real;
        }
        if (first)
            free(path);
        else
            first = path;
    }
    char *source = path_join(CONCORD_SOURCE_DIR, name); /* a build folder outside the source tree */
    if (!path_exists(source)) {
        free(source);
        return first;
    }
    free(first);
    return source;
}
