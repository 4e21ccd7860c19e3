/* txn.c - several files of a tree changed as one. */
#include "concord/patch/txn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK_NAME ".concord-patch"

/* ---- the disk ---------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t k = write(fd, data, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return -1;
        data += k;
        n -= (size_t)k;
    }
    return 0;
}

static int disk_write(const char *path, const void *data, size_t n, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    int rc = write_all(fd, data, n);
    if (!rc) rc = fchmod(fd, mode);
    if (!rc) rc = fsync(fd);
    int saved = errno;
    if (close(fd))
        rc = -1;
    else
        errno = saved;
    return rc;
}

static int disk_mkdir(const char *path)
{
    return mkdir(path, 0777);
}

static int disk_sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int rc = fsync(fd);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

const struct txn_io txn_io_disk = {disk_write, rename, unlink, disk_mkdir, disk_sync_dir};

/* ---- paths ------------------------------------------------------------------------------------------- */

static char *work_file(const struct txn *t, size_t i)
{
    return xformat("%s/%zu", t->work, i);
}

static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return xstrndup(path, slash ? (size_t)(slash - path) : 0);
}

static int check_path(const char *path, struct err *e)
{
    if (*path == '/' || !*path) return err_set(e, "'%s' is not a path inside the tree", path);
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t n = strcspn(part, "/");
        if (!n || (n == 1 && *part == '.') || (n == 2 && !strncmp(part, "..", 2)))
            return err_set(e, "'%s' is not a plain path inside the tree", path);
        if (n == strlen(WORK_NAME) && !strncmp(part, WORK_NAME, n))
            return err_set(e, "'%s' enters the folder that transactions use", path);
    }
    return 0;
}

/* No component below the root may be a symbolic link: it could lead anywhere. */
static int check_links(const struct txn *t, const char *path, struct err *e)
{
    size_t n = strlen(path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        char *part = xformat("%s/%.*s", t->root, (int)i, path);
        struct stat st;
        bool link = !lstat(part, &st) && S_ISLNK(st.st_mode);
        bool other = !link && path[i] == '\0' && !lstat(part, &st) && !S_ISREG(st.st_mode);
        free(part);
        if (link)
            return err_set(e, "%s: '%.*s' is a symbolic link, which a patch may not follow", path, (int)i,
                           path);
        if (other) return err_set(e, "%s: not a regular file", path);
    }
    return 0;
}

/* ---- journal ----------------------------------------------------------------------------------------- */

static char *journal_path(const struct txn *t)
{
    return xformat("%s/journal", t->work);
}

static bool changed(const struct txn_file *f)
{
    return f->existed != f->exists || (f->exists && !slice_eq(slice_of(&f->pre), slice_of(&f->post)));
}

size_t txn_changed(const struct txn *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->files.len; i++) n += changed(&t->files.ptr[i]);
    return n;
}

/* Lines "put N path" and "remove path", then "end". */
static void journal_text(const struct txn *t, struct buf *out)
{
    for (size_t i = 0; i < t->files.len; i++) {
        const struct txn_file *f = &t->files.ptr[i];
        if (!changed(f)) continue;
        if (f->exists)
            buf_addf(out, "put %zu %s\n", i, f->path);
        else
            buf_addf(out, "remove %s\n", f->path);
    }
    buf_adds(out, "end\n");
}

static void remove_work(struct txn *t)
{
    strings names = {0};
    if (!dir_list(t->work, &names, NULL))
        for (size_t i = 0; i < names.len; i++) {
            char *path = path_join(t->work, names.ptr[i]);
            t->io->unlink(path);
            free(path);
        }
    strings_free(&names);
    rmdir(t->work);
}

static int make_parents(struct txn *t, const char *path, struct err *e)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        char *dir = xformat("%s/%.*s", t->root, (int)(slash - path), path);
        bool failed = !path_is_dir(dir) && t->io->mkdir(dir) && errno != EEXIST;
        int saved = errno;
        free(dir);
        if (failed) return err_set(e, "%s: cannot make its folder: %s", path, strerror(saved));
    }
    return 0;
}

/* Takes one journal line and completes it; what is done already is passed over. */
static int replay_line(struct txn *t, char *line, struct err *e)
{
    char *path = strchr(line, ' ');
    if (!path) return err_set(e, "%s/journal: a line that is not understood: '%.60s'", t->work, line);
    *path++ = '\0';
    char *number = NULL;
    if (!strcmp(line, "put")) {
        number = path;
        path = strchr(path, ' ');
        if (!path) return err_set(e, "%s/journal: a line without a path", t->work);
        *path++ = '\0';
    }
    if (check_path(path, e) || check_links(t, path, e)) return -1;
    char *target = path_join(t->root, path), *from = number ? path_join(t->work, number) : NULL;
    int rc = 0;
    if (number && path_exists(from))
        rc = make_parents(t, path, e) || t->io->rename(from, target);
    else if (!number && path_exists(target))
        rc = t->io->unlink(target);
    if (rc) err_set(e, "%s: cannot complete an interrupted change: %s", path, strerror(errno));
    free(target);
    free(from);
    return rc ? -1 : 0;
}

static int replay(struct txn *t, struct err *e)
{
    char *path = journal_path(t);
    struct buf text = BUF_INIT;
    int rc = 0;
    if (path_exists(path)) {
        rc = file_read(path, &text, e);
        bool whole = !rc && text.len >= 4 && !strcmp(buf_str(&text) + text.len - 4, "end\n");
        for (char *line = text.ptr, *next; whole && !rc && line && strcmp(line, "end\n") != 0; line = next) {
            next = strchr(line, '\n');
            *next++ = '\0';
            rc = replay_line(t, line, e);
        }
        t->recovered = whole && !rc;
    }
    buf_free(&text);
    free(path);
    if (!rc && path_is_dir(t->work)) remove_work(t);
    return rc;
}

/* ---- the transaction --------------------------------------------------------------------------------- */

int txn_open(struct txn *t, const char *root, const struct txn_io *io, struct err *e)
{
    *t = (struct txn){.io = io ? io : &txn_io_disk, .lock = -1};
    if (!path_is_dir(root)) return err_set(e, "%s: not a folder", root);
    t->root = xstrdup(root);
    t->work = path_join(root, WORK_NAME);
    t->lock = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->lock < 0 || flock(t->lock, LOCK_EX | LOCK_NB)) {
        int saved = errno;
        txn_close(t);
        if (saved == EWOULDBLOCK)
            return err_set(e, "%s: another concord is changing this tree: wait for it", root);
        return err_set(e, "%s: cannot lock: %s", root, strerror(saved));
    }
    if (!replay(t, e)) return 0;
    txn_close(t);
    return -1;
}

static int load(struct txn *t, struct txn_file *f, struct err *e)
{
    char *path = path_join(t->root, f->path);
    struct stat st;
    int rc = 0;
    f->mode = 0644;
    if (!stat(path, &st)) {
        f->existed = f->exists = true;
        f->mode = st.st_mode & 07777;
        rc = file_read(path, &f->pre, e);
        if (!rc) buf_add(&f->post, buf_str(&f->pre), f->pre.len);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        rc = err_set(e, "%s: %s", path, strerror(errno));
    }
    free(path);
    return rc;
}

struct txn_file *txn_file(struct txn *t, const char *path, struct err *e)
{
    for (size_t i = 0; i < t->files.len; i++)
        if (!strcmp(t->files.ptr[i].path, path)) return &t->files.ptr[i];
    if (check_path(path, e) || check_links(t, path, e)) return NULL;
    struct txn_file *f = vec_push(&t->files);
    f->path = xstrdup(path);
    if (!load(t, f, e)) return f;
    free(f->path);
    buf_free(&f->pre);
    buf_free(&f->post);
    t->files.len--;
    return NULL;
}

/* Written beside and renamed, so that the journal never meets half of it. */
static int stage(struct txn *t, size_t i)
{
    const struct txn_file *f = &t->files.ptr[i];
    char *path = work_file(t, i), *tmp = xformat("%s.new", path);
    int rc = 0;
    if (f->exists && !path_exists(path))
        rc = t->io->write(tmp, buf_str(&f->post), f->post.len, f->mode) || t->io->rename(tmp, path);
    free(path);
    free(tmp);
    return rc ? -1 : 0;
}

/* Everything up to the journal: the tree itself is not touched. */
static int prepare(struct txn *t, struct err *e)
{
    if (t->io->mkdir(t->work) && errno != EEXIST)
        return err_set(e, "%s: cannot make it: %s", t->work, strerror(errno));
    for (size_t i = 0; i < t->files.len; i++) {
        if (changed(&t->files.ptr[i]) && stage(t, i))
            return err_set(e, "%s: cannot write its new contents: %s", t->files.ptr[i].path, strerror(errno));
    }
    struct buf text = BUF_INIT;
    journal_text(t, &text);
    char *path = journal_path(t), *tmp = xformat("%s.tmp", path);
    int rc = t->io->write(tmp, buf_str(&text), text.len, 0644) || t->io->rename(tmp, path) ||
             t->io->sync_dir(t->work);
    if (rc) err_set(e, "%s: cannot write: %s", path, strerror(errno));
    free(tmp);
    free(path);
    buf_free(&text);
    return rc ? -1 : 0;
}

static int put(struct txn *t, size_t i, struct err *e)
{
    const struct txn_file *f = &t->files.ptr[i];
    char *target = path_join(t->root, f->path), *from = work_file(t, i), *dir = parent_of(target);
    int rc;
    if (f->exists)
        rc = make_parents(t, f->path, e) || t->io->rename(from, target);
    else
        rc = t->io->unlink(target);
    if (rc)
        err_set(e, "%s: cannot replace: %s", f->path, strerror(errno));
    else if (t->io->sync_dir(dir))
        rc = err_set(e, "%s: cannot sync its folder: %s", f->path, strerror(errno));
    free(target);
    free(from);
    free(dir);
    return rc ? -1 : 0;
}

static int put_back(struct txn *t, size_t i)
{
    const struct txn_file *f = &t->files.ptr[i];
    char *target = path_join(t->root, f->path), *back = xformat("%s/back", t->work);
    int rc;
    if (f->existed)
        rc = t->io->write(back, buf_str(&f->pre), f->pre.len, f->mode) || t->io->rename(back, target);
    else
        rc = t->io->unlink(target) && errno != ENOENT;
    free(target);
    free(back);
    return rc ? -1 : 0;
}

/* Undoes the files up to and with the one that failed. First the new contents are staged again, so that at
 * every moment the journal can still complete the change; the journal goes last. */
static int roll_back(struct txn *t, size_t failed)
{
    for (size_t i = 0; i <= failed; i++)
        if (changed(&t->files.ptr[i]) && stage(t, i)) return -1;
    for (size_t i = 0; i <= failed; i++)
        if (changed(&t->files.ptr[i]) && put_back(t, i)) return -1;
    char *path = journal_path(t);
    int rc = t->io->unlink(path);
    free(path);
    return rc;
}

int txn_commit(struct txn *t, struct err *e)
{
    if (!txn_changed(t)) return 0;
    if (prepare(t, e)) {
        remove_work(t);
        return -1;
    }
    for (size_t i = 0; i < t->files.len; i++) {
        if (!changed(&t->files.ptr[i]) || !put(t, i, e)) continue;
        if (roll_back(t, i))
            return err_wrap(e, "interrupted between files, mend the cause and run again to complete");
        remove_work(t);
        return -1;
    }
    char *path = journal_path(t);
    int rc = t->io->unlink(path);
    free(path);
    if (rc) return err_set(e, "%s/journal: cannot remove: %s", t->work, strerror(errno));
    remove_work(t);
    return 0;
}

void txn_close(struct txn *t)
{
    for (size_t i = 0; i < t->files.len; i++) {
        free(t->files.ptr[i].path);
        buf_free(&t->files.ptr[i].pre);
        buf_free(&t->files.ptr[i].post);
    }
    vec_free(&t->files);
    if (t->lock >= 0) close(t->lock);
    free(t->root);
    free(t->work);
    *t = (struct txn){.lock = -1};
}
