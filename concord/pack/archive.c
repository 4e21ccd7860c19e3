/* archive.c - tar with gzip through libarchive: every header field that varies by machine is fixed. */
#include "concord/pack/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

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

/* Beside its place first, then renamed: a half-written archive is never found under the name. */
int archive_put(const char *path, const char *folder, const pack_files *files, struct err *e)
{
    char *temporary = xformat("%s.part", path);
    struct archive *a = archive_write_new();
    int status = put_all(a, temporary, folder, files, e);
    archive_write_free(a);
    if (!status && rename(temporary, path)) status = err_set(e, "%s: cannot be written", path);
    if (status) unlink(temporary);
    free(temporary);
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

/* Deflate with no flags and no time, on Unix: what archive_put asks for. */
static bool header_as_written(const struct buf *data)
{
    static const unsigned char fixed[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0};
    const unsigned char *p = (const unsigned char *)data->ptr;
    return data->len > 18 && !memcmp(p, fixed, sizeof fixed) && (p[8] == 0 || p[8] == 2 || p[8] == 4) &&
           p[9] == 3;
}

enum { GZIP_HEADER = 10, GZIP_TRAILER = 8 };

static uint32_t little_endian(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Inflates what lies between header and trailer, and compares both of the trailer's sums. Bits that the last
 * byte does not use must be zero, so that no bit of the file is free. */
static const char *inflate_whole(const struct buf *data)
{
    unsigned char scratch[65536];
    const unsigned char *start = (const unsigned char *)data->ptr;
    z_stream z = {0};
    if (data->len < GZIP_HEADER + GZIP_TRAILER || inflateInit2(&z, -15) != Z_OK) return "too short";
    z.next_in = (unsigned char *)start + GZIP_HEADER;
    z.avail_in = (uInt)(data->len - GZIP_HEADER);
    uLong sum = crc32(0, NULL, 0);
    unsigned spare = 0;
    int rc = Z_OK;
    while (rc == Z_OK) {
        z.next_out = scratch;
        z.avail_out = sizeof scratch;
        rc = inflate(&z, Z_BLOCK); /* which tells the unused bits at the end of the last block */
        if ((z.data_type & 192) == 192) spare = (unsigned)z.data_type & 7;
        sum = crc32(sum, scratch, (uInt)(sizeof scratch - z.avail_out));
    }
    const unsigned char *trailer = start + GZIP_HEADER + z.total_in;
    uint32_t length = (uint32_t)z.total_out;
    bool rest = z.avail_in != GZIP_TRAILER, free_bits = spare && trailer[-1] >> (8 - spare);
    inflateEnd(&z);
    if (rc != Z_STREAM_END || free_bits) return "damaged";
    if (rest) return "has bytes after its end, or lacks some";
    return little_endian(trailer) == sum && little_endian(trailer + 4) == length
               ? ""
               : "damaged: its check sum does not hold";
}

int archive_check(const char *path, const char **fault, struct err *e)
{
    struct buf data = BUF_INIT;
    if (file_read(path, &data, e)) return -1;
    *fault = data.len >= (size_t)largest ? "larger than an evidence archive may be" : inflate_whole(&data);
    if (!**fault && !header_as_written(&data)) *fault = "its gzip header is not as it was written";
    buf_free(&data);
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
