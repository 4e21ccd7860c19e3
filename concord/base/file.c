/* file.c - whole-file reading and replacing, folders, locks, free disk space. */
#include "concord/base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int io_error(struct err *e, const char *what, const char *path)
{
    return err_set(e, "cannot %s '%s': %s", what, path, strerror(errno));
}

int file_read(const char *path, struct buf *out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error(e, "read", path);
    struct stat st;
    size_t guess = !fstat(fd, &st) && S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    buf_clear(out);
    buf_reserve(out, guess + 1); /* one more, so that the end is seen without growing again */
    for (;;) {
        buf_reserve(out, 1);
        ssize_t n = read(fd, out->ptr + out->len, out->cap - out->len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            io_error(e, "read", path);
            close(fd);
            return -1;
        }
        if (n == 0) break;
        out->len += (size_t)n;
        out->ptr[out->len] = '\0';
    }
    close(fd);
    return 0;
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* The rename itself is only safe on disk once its folder is. */
static void sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int file_write(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
    char *dir = parent_of(path);
    const char *slash = strrchr(path, '/');
    char *temp = xformat("%s/.%s.XXXXXX", dir, slash ? slash + 1 : path);
    int fd = mkostemp(temp, O_CLOEXEC);
    int rc = fd < 0 ? -1 : 0;
    if (!rc) rc = write_all(fd, data, n);
    if (!rc) rc = fchmod(fd, mode ? mode : 0644);
    if (!rc) rc = fsync(fd);
    if (fd >= 0 && close(fd)) rc = -1;
    if (!rc) rc = rename(temp, path);
    if (rc) {
        io_error(e, "write", path);
        if (fd >= 0) unlink(temp);
    } else {
        sync_dir(dir);
    }
    free(temp);
    free(dir);
    return rc;
}

int dir_make(const char *path, struct err *e)
{
    char *copy = xstrdup(path);
    int rc = 0;
    for (char *p = copy + 1; !rc && *copy; p++) {
        bool last = !*p;
        if (!last && *p != '/') continue;
        *p = '\0';
        if (mkdir(copy, 0777) && !(errno == EEXIST && path_is_dir(copy)))
            rc = err_set(e, "cannot make folder '%s': %s", copy,
                         errno == EEXIST ? "a file is in its place" : strerror(errno));
        if (last) break;
        *p = '/';
    }
    free(copy);
    return rc;
}

static int remove_at(int parent, const char *name);

static int remove_children(DIR *d)
{
    struct dirent *entry;
    while ((errno = 0, entry = readdir(d))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (remove_at(dirfd(d), entry->d_name)) return -1;
    }
    return errno ? -1 : 0;
}

/* Symbolic links are removed, never followed. */
static int remove_at(int parent, const char *name)
{
    if (!unlinkat(parent, name, 0) || errno == ENOENT) return 0;
    if (errno != EISDIR && errno != EPERM) return -1;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return -1;
    }
    int rc = remove_children(d);
    int failed = errno;
    closedir(d);
    errno = failed;
    return rc ? rc : unlinkat(parent, name, AT_REMOVEDIR);
}

int tree_remove(const char *path, struct err *e)
{
    return remove_at(AT_FDCWD, path) ? io_error(e, "remove", path) : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int dir_list(const char *path, strings *out, struct err *e)
{
    DIR *d = opendir(path);
    if (!d) return io_error(e, "list", path);
    size_t first = out->len;
    struct dirent *entry;
    while ((errno = 0, entry = readdir(d)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            *vec_push(out) = xstrdup(entry->d_name);
    int rc = errno ? io_error(e, "list", path) : 0;
    closedir(d);
    if (out->len > first) qsort(out->ptr + first, out->len - first, sizeof *out->ptr, by_name);
    return rc;
}

void strings_free(strings *s)
{
    for (size_t i = 0; i < s->len; i++) free(s->ptr[i]);
    vec_free(s);
}

int disk_free(const char *path, uint64_t *bytes, struct err *e)
{
    char *at = xstrdup(path);
    struct statvfs fs;
    int rc;
    while ((rc = statvfs(at, &fs)) && errno == ENOENT && strcmp(at, "/") && strcmp(at, ".")) {
        char *up = parent_of(at); /* the folder may not exist yet: its disk is its parent's */
        free(at);
        at = up;
    }
    if (rc)
        io_error(e, "measure the disk of", path);
    else
        *bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    free(at);
    return rc;
}

static int lock_holder(int fd)
{
    char text[32] = "";
    if (pread(fd, text, sizeof text - 1, 0) <= 0) return 0;
    return atoi(text);
}

static int lock_refused(int fd, const char *path, struct err *e)
{
    if (errno != EWOULDBLOCK) return io_error(e, "lock", path);
    int pid = lock_holder(fd);
    if (pid > 0) return err_set(e, "'%s' is locked by process %d", path, pid);
    return err_set(e, "'%s' is locked by another process", path);
}

int file_lock(const char *path, bool wait, struct err *e)
{
    char *dir = parent_of(path);
    int rc = dir_make(dir, e);
    free(dir);
    if (rc) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return io_error(e, "lock", path);
    while ((rc = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB))) && errno == EINTR && !proc_interrupted) continue;
    if (rc) {
        lock_refused(fd, path, e);
        close(fd);
        return -1;
    }
    char pid[32];
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, pid, (size_t)n, 0) != n) { /* the pid is a courtesy; the lock holds */
    }
    return fd;
}
