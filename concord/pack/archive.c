/* archive.c - tar with gzip through libarchive: every header field that varies by machine is fixed. */
#include "concord/pack/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIXED_TIME = 315532800 }; /* 1980-01-01, the oldest that every unpacker shows */
static const int64_t largest = (int64_t)1 << 32;

void pack_files_free(pack_files *files)
{
    for (size_t i = 0; i < files->len; i++) {
        free(files->ptr[i].path);
        buf_free(&files->ptr[i].data);
    }
    vec_free(files);
}

static int archive_fail(struct archive *a, const char *path, struct err *e)
{
    const char *why = archive_error_string(a);
    return err_set(e, "%s: %s", path, why ? why : "not a tar archive with gzip");
}

static int put_one(struct archive *a, const char *folder, const struct pack_file *f, const char *path,
                   struct err *e)
{
    struct archive_entry *entry = archive_entry_new();
    char *name = xformat("%s/%s", folder, f->path);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)f->data.len);
    archive_entry_set_mtime(entry, FIXED_TIME, 0);
    bool ok = archive_write_header(a, entry) == ARCHIVE_OK &&
              archive_write_data(a, buf_str(&f->data), f->data.len) == (la_ssize_t)f->data.len;
    archive_entry_free(entry);
    free(name);
    return ok ? 0 : archive_fail(a, path, e);
}

static int put_all(struct archive *a, const char *temporary, const char *folder, const pack_files *files,
                   struct err *e)
{
    bool ready = !archive_write_add_filter_gzip(a) && !archive_write_set_format_pax_restricted(a) &&
                 !archive_write_set_options(a, "gzip:!timestamp") &&
                 !archive_write_open_filename(a, temporary);
    int status = ready ? 0 : archive_fail(a, temporary, e);
    for (size_t i = 0; !status && i < files->len; i++)
        status = put_one(a, folder, &files->ptr[i], temporary, e);
    if (!status && archive_write_close(a) != ARCHIVE_OK) status = archive_fail(a, temporary, e);
    return status;
}

/* The path without the archive's folder; NULL for one that leaves it or names none. */
static const char *below_folder(const char *name)
{
    const char *slash = strchr(name, '/');
    if (*name == '/' || !slash || !slash[1] || strstr(name, "..")) return NULL;
    return slash + 1;
}

static int get_one(struct archive *a, struct archive_entry *entry, pack_files *files, const char *path,
                   struct err *e)
{
    const char *name = archive_entry_pathname(entry), *below = name ? below_folder(name) : NULL;
    if (archive_entry_filetype(entry) == AE_IFDIR) return 0;
    int64_t size = archive_entry_size(entry);
    if (!below || archive_entry_filetype(entry) != AE_IFREG || size < 0 || size > largest)
        return err_set(e, "%s: entry '%.80s' is not a file of an evidence archive", path, name ? name : "");
    struct pack_file *f = vec_push(files);
    f->path = xstrdup(below);
    buf_reserve(&f->data, (size_t)size + 1);
    la_ssize_t n = archive_read_data(a, f->data.ptr, (size_t)size);
    if (n != size) return archive_fail(a, path, e);
    f->data.len = (size_t)size;
    f->data.ptr[size] = '\0';
    return 0;
}

/* The seal: a second, empty gzip member whose comment is the SHA-256 of all bytes before it. Unpackers pass
 * over it. (gzip's own sum covers the unpacked bytes only, and one text can be packed in many ways.) */
static void make_seal(const char *data, size_t n, struct buf *out)
{
    static const char head[] = {0x1f, (char)0x8b, 8, 0x10, 0, 0, 0, 0, 0, 3}; /* 0x10: a comment follows */
    static const char body[] = {3, 0, 0, 0, 0, 0, 0, 0, 0, 0}; /* nothing, its sum and its length */
    char hash[65];
    sha256_hex(data, n, hash);
    buf_add(out, head, sizeof head);
    buf_addf(out, "sha256 %s", hash);
    buf_addc(out, '\0');
    buf_add(out, body, sizeof body);
}

static int seal(const char *path, struct err *e)
{
    struct buf data = BUF_INIT, member = BUF_INIT;
    int status = file_read(path, &data, e);
    if (!status) {
        make_seal(buf_str(&data), data.len, &member);
        buf_add(&data, member.ptr, member.len);
        status = file_write(path, data.ptr, data.len, 0, e);
    }
    buf_free(&data);
    buf_free(&member);
    return status;
}

/* Beside its place first, then renamed: a half-written archive is never found under the name. */
int archive_put(const char *path, const char *folder, const pack_files *files, struct err *e)
{
    char *temporary = xformat("%s.part", path);
    struct archive *a = archive_write_new();
    int status = put_all(a, temporary, folder, files, e);
    archive_write_free(a);
    if (!status) status = seal(temporary, e);
    if (!status && rename(temporary, path)) status = err_set(e, "%s: cannot be written", path);
    if (status) unlink(temporary);
    free(temporary);
    return status;
}

int archive_check(const char *path, const char **fault, struct err *e)
{
    struct buf data = BUF_INIT, member = BUF_INIT;
    if (file_read(path, &data, e)) return -1;
    make_seal("", 0, &member);
    size_t n = member.len, from = data.len > n ? data.len - n : 0;
    buf_clear(&member);
    make_seal(buf_str(&data), from, &member);
    bool holds = from && !memcmp(data.ptr + from, member.ptr, n);
    *fault = holds ? "" : "changed since it was packed: its seal does not hold";
    buf_free(&data);
    buf_free(&member);
    return 0;
}

int archive_get(const char *path, pack_files *files, struct err *e)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    int rc = ARCHIVE_OK, status = 0;
    bool ready = !archive_read_support_filter_gzip(a) && !archive_read_support_format_tar(a) &&
                 !archive_read_open_filename(a, path, 65536);
    if (!ready) status = archive_fail(a, path, e);
    while (!status && (rc = archive_read_next_header(a, &entry)) == ARCHIVE_OK)
        status = get_one(a, entry, files, path, e);
    if (!status && rc != ARCHIVE_EOF) status = archive_fail(a, path, e);
    archive_read_free(a);
    return status;
}
