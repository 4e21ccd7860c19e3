/* elf_strip.c - drops what is not loaded from a shared object.
 *
 * Section numbers stay as they are (dynamic symbols refer to them): dropped sections become SHT_NULL. Tools
 * that edit a library after linking put new segments behind the symbol tables, so dropping those leaves gaps;
 * a segment behind a gap moves down by a multiple of the largest alignment, which keeps offset and address
 * congruent as the loader wants.
 */
#include "concord/env/elf_object.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORTH = 64 * 1024, MIN_ALIGN = 64 * 1024 }; /* less than WORTH is not worth a rewrite */

struct image {
    const char *path;
    const unsigned char *p; /* the old file */
    size_t size;
    mode_t mode;
    Elf64_Ehdr head;
    const Elf64_Phdr *ph;
    const Elf64_Shdr *sh;
    uint64_t align;
};

/* Bytes that stay: [from, from + size) of the old file, at offset to of the new one. */
struct range {
    uint64_t from, size, to;
};
typedef VEC(struct range) ranges;

static int bad(const struct image *m, const char *what, struct err *e)
{
    err_set(e, "cannot strip '%s': %s", m->path, what);
    return -1; /* written out: the analyser does not see into err_set */
}

static bool inside(const struct image *m, uint64_t at, uint64_t n)
{
    return at <= m->size && n <= m->size - at;
}

static int read_tables(struct image *m, struct err *e)
{
    if (m->size < sizeof m->head) return bad(m, "too short for ELF", e);
    memcpy(&m->head, m->p, sizeof m->head);
    const Elf64_Ehdr *h = &m->head;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB)
        return bad(m, "not 64-bit little-endian ELF", e);
    if (h->e_phentsize != sizeof(Elf64_Phdr) ||
        !inside(m, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr)))
        return bad(m, "its program headers are outside the file", e);
    if (h->e_shnum && (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum ||
                       !inside(m, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr))))
        return bad(m, "its section headers are outside the file", e);
    if (h->e_phoff % 8 || h->e_shoff % 8) return bad(m, "its headers are not aligned", e);
    m->ph = (const void *)(m->p + h->e_phoff);
    m->sh = (const void *)(m->p + h->e_shoff);
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static int collect(struct image *m, ranges *out, struct err *e)
{
    m->align = MIN_ALIGN;
    *vec_push(out) = (struct range){0, sizeof(Elf64_Ehdr), 0};
    *vec_push(out) = (struct range){m->head.e_phoff, (uint64_t)m->head.e_phnum * sizeof(Elf64_Phdr), 0};
    for (int i = 0; i < m->head.e_phnum; i++) {
        const Elf64_Phdr *p = &m->ph[i];
        if (!p->p_filesz) continue;
        if (!inside(m, p->p_offset, p->p_filesz)) return bad(m, "a segment is outside the file", e);
        if (p->p_align > m->align) m->align = p->p_align;
        *vec_push(out) = (struct range){p->p_offset, p->p_filesz, 0};
    }
    if (m->align & (m->align - 1)) return bad(m, "a segment's alignment is no power of two", e);
    qsort(out->ptr, out->len, sizeof *out->ptr, by_offset);
    return 0;
}

/* Joins ranges that touch or lie within one alignment of each other, then gives each its new place. */
static uint64_t place(const struct image *m, ranges *r)
{
    size_t n = 1;
    for (size_t i = 1; i < r->len; i++) {
        struct range *last = &r->ptr[n - 1], *next = &r->ptr[i];
        uint64_t end = last->from + last->size, next_end = next->from + next->size;
        if (next->from <= end + m->align) {
            if (next_end > end) last->size = next_end - last->from;
        } else {
            r->ptr[n++] = *next;
        }
    }
    r->len = n;
    uint64_t cursor = 0;
    for (size_t i = 0; i < n; i++) {
        r->ptr[i].to = cursor + ((r->ptr[i].from - cursor) & (m->align - 1));
        cursor = r->ptr[i].to + r->ptr[i].size;
    }
    return cursor;
}

/* New offset of an old one, or UINT64_MAX when it was dropped. */
static uint64_t moved(const ranges *r, uint64_t at, uint64_t size)
{
    for (size_t i = 0; i < r->len; i++) {
        const struct range *x = &r->ptr[i];
        if (at >= x->from && at + size <= x->from + x->size) return at - x->from + x->to;
    }
    return UINT64_MAX;
}

static const char *section_name(const struct image *m, const Elf64_Shdr *h)
{
    const Elf64_Shdr *names = &m->sh[m->head.e_shstrndx];
    if (!inside(m, names->sh_offset, names->sh_size) || h->sh_name >= names->sh_size) return "";
    const char *s = (const char *)m->p + names->sh_offset + h->sh_name;
    return memchr(s, '\0', names->sh_size - h->sh_name) ? s : "";
}

/* The new section headers and, behind the names that are left, where they go. Returns the tail's bytes. */
static void make_tail(const struct image *m, const ranges *r, uint64_t at, Elf64_Ehdr *head, struct buf *tail)
{
    size_t n = m->head.e_shnum;
    Elf64_Shdr *sh = xcalloc(n, sizeof *sh);
    buf_add(tail, "", 1);
    for (size_t i = 1; i < n; i++) {
        const Elf64_Shdr *old = &m->sh[i];
        uint64_t size = old->sh_type == SHT_NOBITS ? 0 : old->sh_size, to = moved(r, old->sh_offset, size);
        bool names = i == m->head.e_shstrndx;
        if (!names && (!(old->sh_flags & SHF_ALLOC) || to == UINT64_MAX)) continue;
        sh[i] = *old;
        sh[i].sh_name = (Elf64_Word)tail->len;
        sh[i].sh_offset = names ? at : to;
        const char *name = section_name(m, old);
        buf_add(tail, name, strlen(name) + 1);
    }
    if (n) sh[m->head.e_shstrndx].sh_size = tail->len;
    while ((at + tail->len) % 8) buf_add(tail, "", 1);
    head->e_shoff = n ? at + tail->len : 0;
    buf_add(tail, sh, n * sizeof *sh);
    free(sh);
}

static int put(int fd, const void *p, size_t n, uint64_t at)
{
    const char *c = p;
    while (n) {
        ssize_t k = pwrite(fd, c, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        c += k;
        n -= (size_t)k;
        at += (size_t)k;
    }
    return 0;
}

static int write_image(int fd, const struct image *m, const ranges *r, uint64_t end, const struct buf *tail,
                       const Elf64_Ehdr *head)
{
    for (size_t i = 0; i < r->len; i++)
        if (put(fd, m->p + r->ptr[i].from, r->ptr[i].size, r->ptr[i].to)) return -1;
    for (int i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr p = m->ph[i];
        uint64_t to = moved(r, p.p_offset, p.p_filesz);
        if (p.p_filesz) p.p_offset = to;
        if (put(fd, &p, sizeof p, moved(r, head->e_phoff, 0) + (uint64_t)i * sizeof p)) return -1;
    }
    Elf64_Ehdr h = *head;
    h.e_phoff = moved(r, head->e_phoff, 0);
    return put(fd, tail->ptr, tail->len, end) || put(fd, &h, sizeof h, 0) || fchmod(fd, m->mode) ? -1 : 0;
}

static int replace(const struct image *m, const ranges *r, uint64_t end, const struct buf *tail,
                   const Elf64_Ehdr *h, struct err *e)
{
    char *temp = xformat("%s.XXXXXX", m->path);
    int fd = mkostemp(temp, O_CLOEXEC);
    int rc = fd < 0 ? -1 : write_image(fd, m, r, end, tail, h);
    if (fd >= 0 && close(fd)) rc = -1;
    if (!rc) rc = rename(temp, m->path);
    if (rc) {
        err_set(e, "cannot write '%s': %s", m->path, strerror(errno));
        if (fd >= 0) unlink(temp);
    }
    free(temp);
    return rc;
}

static int strip_image(struct image *m, uint64_t *saved, struct err *e)
{
    ranges r = {0};
    struct buf tail = BUF_INIT;
    int rc = read_tables(m, e);
    if (!rc) rc = collect(m, &r, e);
    if (!rc) {
        Elf64_Ehdr head = m->head;
        uint64_t end = place(m, &r);
        make_tail(m, &r, end, &head, &tail);
        if (end + tail.len + WORTH <= m->size) {
            rc = replace(m, &r, end, &tail, &head, e);
            if (!rc) *saved = m->size - end - tail.len;
        }
    }
    buf_free(&tail);
    vec_free(&r);
    return rc;
}

int elf_strip(const char *path, uint64_t *saved, struct err *e)
{
    *saved = 0;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        err_set(e, "cannot read '%s': %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    void *p = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED) return err_set(e, "cannot strip '%s': too short for ELF", path);
    struct image m = {.path = path, .p = p, .size = (size_t)st.st_size, .mode = st.st_mode & 07777};
    int rc = strip_image(&m, saved, e);
    munmap(p, (size_t)st.st_size);
    return rc;
}
