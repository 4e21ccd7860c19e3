/* elf_read.c - the dynamic symbols, versions and dependencies of a shared object. */
#include "concord/env/elf_object.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the sections of one object are, as found by type. */
struct sections {
    Elf_Data *dynsym, *versym, *verneed, *verdef, *dynamic;
    size_t strings, nneed, ndef; /* section of .dynstr; entries of verneed and verdef */
    size_t dynamic_strings;
};

static int bad(const struct elf_object *o, const char *what, struct err *e)
{
    return err_set(e, "'%s' is no usable ELF shared object: %s", o->path, what);
}

static void note_section(struct sections *s, Elf_Scn *scn, const GElf_Shdr *h)
{
    switch (h->sh_type) {
    case SHT_DYNSYM:
        s->dynsym = elf_getdata(scn, NULL);
        s->strings = h->sh_link;
        break;
    case SHT_DYNAMIC:
        s->dynamic = elf_getdata(scn, NULL);
        s->dynamic_strings = h->sh_link;
        break;
    case SHT_GNU_versym:
        s->versym = elf_getdata(scn, NULL);
        break;
    case SHT_GNU_verneed:
        s->verneed = elf_getdata(scn, NULL);
        s->nneed = h->sh_info;
        break;
    case SHT_GNU_verdef:
        s->verdef = elf_getdata(scn, NULL);
        s->ndef = h->sh_info;
        break;
    default:
        break;
    }
}

static void find_sections(Elf *elf, struct sections *s)
{
    Elf_Scn *scn = NULL;
    GElf_Shdr h;
    while ((scn = elf_nextscn(elf, scn)))
        if (gelf_getshdr(scn, &h)) note_section(s, scn, &h);
}

static void read_dynamic(struct elf_object *o, const struct sections *s)
{
    GElf_Dyn d;
    for (int i = 0; s->dynamic && gelf_getdyn(s->dynamic, i, &d) && d.d_tag != DT_NULL; i++) {
        if (d.d_tag != DT_NEEDED && d.d_tag != DT_SONAME) continue;
        const char *text = elf_strptr(o->handle, s->dynamic_strings, d.d_un.d_val);
        if (!text) continue;
        if (d.d_tag == DT_NEEDED)
            *vec_push(&o->needed) = text;
        else
            o->soname = text;
    }
}

/* Version number to its name, and for needed ones to the file that must have it. */
struct version {
    const char *name, *file;
};
typedef VEC(struct version) versions;

static void set_version(versions *v, size_t index, const char *name, const char *file)
{
    while (v->len <= index) *vec_push(v) = (struct version){0};
    v->ptr[index] = (struct version){name, file};
}

/* Entries are chained by distances; the last one's is 0, and a sound chain never goes back. */
static bool step(int *at, GElf_Word next)
{
    if (!next || next > (GElf_Word)(INT_MAX - *at)) return false;
    *at += (int)next;
    return true;
}

static void read_verneed(struct elf_object *o, const struct sections *s, versions *v)
{
    int at = 0;
    GElf_Verneed need;
    GElf_Vernaux aux;
    for (size_t i = 0; i < s->nneed && gelf_getverneed(s->verneed, at, &need); i++) {
        const char *file = elf_strptr(o->handle, s->strings, need.vn_file);
        int aux_at = at;
        if (!step(&aux_at, need.vn_aux)) break;
        for (int k = 0; k < need.vn_cnt && gelf_getvernaux(s->verneed, aux_at, &aux); k++) {
            set_version(v, aux.vna_other & 0x7fff, elf_strptr(o->handle, s->strings, aux.vna_name), file);
            if (!step(&aux_at, aux.vna_next)) break;
        }
        if (!step(&at, need.vn_next)) break;
    }
}

static void read_verdef(struct elf_object *o, const struct sections *s, versions *v)
{
    int at = 0;
    GElf_Verdef def;
    GElf_Verdaux aux;
    for (size_t i = 0; i < s->ndef && gelf_getverdef(s->verdef, at, &def); i++) {
        bool base = def.vd_flags & VER_FLG_BASE;
        int aux_at = at;
        if (!base && step(&aux_at, def.vd_aux) && gelf_getverdaux(s->verdef, aux_at, &aux))
            set_version(v, def.vd_ndx & 0x7fff, elf_strptr(o->handle, s->strings, aux.vda_name), NULL);
        if (!step(&at, def.vd_next)) break;
    }
}

static void add_symbol(struct elf_object *o, const struct sections *s, const versions *v, int i,
                       const GElf_Sym *sym)
{
    const char *name = elf_strptr(o->handle, s->strings, sym->st_name);
    if (!name || !*name) return;
    struct elf_symbol *out = vec_push(&o->symbols);
    *out = (struct elf_symbol){.name = name, .size = sym->st_size};
    out->type = GELF_ST_TYPE(sym->st_info);
    out->bind = GELF_ST_BIND(sym->st_info);
    out->defined = sym->st_shndx != SHN_UNDEF;
    int visibility = GELF_ST_VISIBILITY(sym->st_other);
    out->local = out->bind == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL;
    GElf_Versym index = 0;
    if (!s->versym || !gelf_getversym(s->versym, i, &index)) return;
    index &= 0x7fff;
    if (index >= v->len) return;
    out->version = v->ptr[index].name;
    out->file = out->defined ? NULL : v->ptr[index].file;
}

static void read_symbols(struct elf_object *o, const struct sections *s)
{
    versions v = {0};
    if (s->verneed) read_verneed(o, s, &v);
    if (s->verdef) read_verdef(o, s, &v);
    GElf_Sym sym;
    for (int i = 1; s->dynsym && gelf_getsym(s->dynsym, i, &sym); i++) add_symbol(o, s, &v, i, &sym);
    vec_free(&v);
}

static int read_object(struct elf_object *o, struct err *e)
{
    GElf_Ehdr h;
    o->handle = elf_begin(o->fd, ELF_C_READ_MMAP, NULL);
    if (!o->handle || elf_kind(o->handle) != ELF_K_ELF || !gelf_getehdr(o->handle, &h))
        return bad(o, "no ELF file", e);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
        return bad(o, "not 64-bit little-endian", e);
    if (h.e_type != ET_DYN) return bad(o, "not of the type of shared objects", e);
    o->machine = h.e_machine;
    struct sections s = {0};
    find_sections(o->handle, &s);
    if (!s.dynamic || !s.dynsym) return bad(o, "no dynamic section", e);
    read_dynamic(o, &s);
    read_symbols(o, &s);
    return 0;
}

int elf_open(const char *path, struct elf_object *o, struct err *e)
{
    elf_version(EV_CURRENT);
    *o = (struct elf_object){.path = xstrdup(path), .fd = open(path, O_RDONLY | O_CLOEXEC)};
    int rc = o->fd < 0 ? err_set(e, "cannot read '%s': %s", path, strerror(errno)) : read_object(o, e);
    if (rc) elf_close(o);
    return rc;
}

void elf_close(struct elf_object *o)
{
    if (o->handle) elf_end(o->handle);
    if (o->fd >= 0) close(o->fd);
    vec_free(&o->needed);
    vec_free(&o->symbols);
    free(o->path);
    *o = (struct elf_object){.fd = -1};
}

bool elf_is_object(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    unsigned char h[EI_NIDENT + 2];
    bool ok = read(fd, h, sizeof h) == sizeof h && !memcmp(h, ELFMAG, SELFMAG) && h[EI_CLASS] == ELFCLASS64 &&
              h[EI_DATA] == ELFDATA2LSB && h[EI_NIDENT] == ET_DYN && !h[EI_NIDENT + 1];
    close(fd);
    return ok;
}
