/* standin.c - writes a shared object that defines given names: no compiler, only libelf.
 *
 * Three segments: read-only tables and texts, code, data. They follow each other in the file; in memory each
 * starts a 64 KiB page of its own (the largest page of aarch64), at an address congruent to its offset.
 */
#include "concord/env/elf_object.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 64 * 1024,
    SCRATCH_SIZE = 4096,
    VTABLE_SLOTS = 64,
    HOLLOW_SLOTS = 16,  /* offset to top, type_info, then functions */
    TYPEINFO_SIZE = 16, /* Itanium C++ ABI: virtual table pointer, name pointer */
};

/* A std::type_info without bases is a __class_type_info; its virtual functions start behind two words. */
static const char class_vtable[] = "_ZTVN10__cxxabiv117__class_type_infoE";
static const char no_device_text[] = "this environment has no CUDA";

/* ---- code ---------------------------------------------------------------------------------------------- */

/* Addresses known only when all is laid out: emit is run twice, first for sizes, then for bytes. */
struct code {
    struct buf *out;
    uint64_t base; /* address of out's first byte */
};

struct machine {
    uint16_t id;
    uint32_t relative, absolute; /* relocation types: base + addend, symbol + addend */
    void (*value)(struct code *c, uint32_t v);
    void (*zero_out)(struct code *c);
    void (*address)(struct code *c, uint64_t target); /* returns target */
    void (*store)(struct code *c, uint64_t value);    /* stores value through its first argument */
    void (*stop)(struct code *c, uint64_t text,
                 uint32_t length); /* writes text to 2, then an illegal instruction */
};

static uint64_t here(const struct code *c)
{
    return c->base + c->out->len;
}

static void bytes(struct code *c, const void *p, size_t n)
{
    buf_add(c->out, p, n);
}

static void word(struct code *c, uint32_t w)
{
    bytes(c, &w, 4);
}

static void x86_value(struct code *c, uint32_t v)
{
    bytes(c, "\xb8", 1); /* mov eax, v */
    word(c, v);
    bytes(c, "\xc3", 1); /* ret */
}

static void x86_zero_out(struct code *c)
{
    bytes(c, "\xc7\x07\0\0\0\0\x31\xc0\xc3", 9); /* mov dword [rdi], 0; xor eax, eax; ret */
}

/* lea reg, [rip + target]; opcode's three bytes choose the register. */
static void x86_lea(struct code *c, const char *opcode, uint64_t target)
{
    bytes(c, opcode, 3);
    word(c, (uint32_t)(target - (here(c) + 4)));
}

static void x86_address(struct code *c, uint64_t target)
{
    x86_lea(c, "\x48\x8d\x05", target); /* rax */
    bytes(c, "\xc3", 1);
}

static void x86_store(struct code *c, uint64_t value)
{
    x86_lea(c, "\x48\x8d\x05", value); /* rax */
    bytes(c, "\x48\x89\x07\xc3", 4);   /* mov [rdi], rax; ret */
}

static void x86_stop(struct code *c, uint64_t text, uint32_t length)
{
    x86_lea(c, "\x48\x8d\x35", text); /* rsi */
    bytes(c, "\xba", 1);              /* mov edx, length */
    word(c, length);
    bytes(c, "\xbf\x02\0\0\0", 5);                 /* mov edi, 2 */
    bytes(c, "\xb8\x01\0\0\0\x0f\x05\x0f\x0b", 9); /* mov eax, 1 (write); syscall; ud2 */
}

static uint32_t a64_movz(unsigned reg, uint32_t v, unsigned shift16)
{
    return 0xd2800000u | shift16 << 21 | (v & 0xffff) << 5 | reg;
}

static void a64_value(struct code *c, uint32_t v)
{
    word(c, a64_movz(0, v, 0));
    word(c, 0xf2a00000u | (v >> 16) << 5); /* movk x0, v >> 16, lsl 16 */
    word(c, 0xd65f03c0u);                  /* ret */
}

static void a64_zero_out(struct code *c)
{
    word(c, 0xb900001fu); /* str wzr, [x0] */
    word(c, a64_movz(0, 0, 0));
    word(c, 0xd65f03c0u);
}

/* adrp and add: any distance up to 4 GiB. */
static void a64_load(struct code *c, unsigned reg, uint64_t target)
{
    uint32_t pages = (uint32_t)((target >> 12) - (here(c) >> 12));
    word(c, 0x90000000u | (pages & 3) << 29 | ((pages >> 2) & 0x7ffff) << 5 | reg);
    word(c, 0x91000000u | (uint32_t)(target & 0xfff) << 10 | reg << 5 | reg);
}

static void a64_address(struct code *c, uint64_t target)
{
    a64_load(c, 0, target);
    word(c, 0xd65f03c0u);
}

static void a64_store(struct code *c, uint64_t value)
{
    a64_load(c, 1, value);
    word(c, 0xf9000001u); /* str x1, [x0] */
    word(c, 0xd65f03c0u);
}

static void a64_stop(struct code *c, uint64_t text, uint32_t length)
{
    a64_load(c, 1, text);
    word(c, a64_movz(2, length, 0));
    word(c, a64_movz(0, 2, 0));
    word(c, a64_movz(8, 64, 0)); /* write */
    word(c, 0xd4000001u);        /* svc 0 */
    word(c, 0);                  /* udf 0 */
}

static const struct machine machines[] = {
    {EM_X86_64, R_X86_64_RELATIVE, R_X86_64_64, x86_value, x86_zero_out, x86_address, x86_store, x86_stop},
    {EM_AARCH64, R_AARCH64_RELATIVE, R_AARCH64_ABS64, a64_value, a64_zero_out, a64_address, a64_store,
     a64_stop},
};

/* ---- the parts of the file ----------------------------------------------------------------------------- */

enum part { HASH, DYNSYM, DYNSTR, VERSYM, VERDEF, RELA, RODATA, TEXT, DATA, DYNAMIC, BSS, SHSTRTAB, NPARTS };

/* Segment of a part: 0 tables, 1 code, 2 data, -1 not loaded. */
static const struct part_info {
    const char *name;
    Elf64_Word type;
    Elf64_Xword flags, align, entry;
    int segment, link, info;
} part_info[] = {
    [HASH] = {".hash", SHT_HASH, SHF_ALLOC, 8, 4, 0, DYNSYM, 0},
    [DYNSYM] = {".dynsym", SHT_DYNSYM, SHF_ALLOC, 8, sizeof(Elf64_Sym), 0, DYNSTR, 1},
    [DYNSTR] = {".dynstr", SHT_STRTAB, SHF_ALLOC, 1, 0, 0, -1, 0},
    [VERSYM] = {".gnu.version", SHT_GNU_versym, SHF_ALLOC, 2, 2, 0, DYNSYM, 0},
    [VERDEF] = {".gnu.version_d", SHT_GNU_verdef, SHF_ALLOC, 8, 0, 0, DYNSTR, -1},
    [RELA] = {".rela.dyn", SHT_RELA, SHF_ALLOC, 8, sizeof(Elf64_Rela), 0, DYNSYM, 0},
    [RODATA] = {".rodata", SHT_PROGBITS, SHF_ALLOC, 8, 0, 0, -1, 0},
    [TEXT] = {".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 16, 0, 1, -1, 0},
    [DATA] = {".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 16, 0, 2, -1, 0},
    [DYNAMIC] = {".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 8, sizeof(Elf64_Dyn), 2, DYNSTR, 0},
    [BSS] = {".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 64, 0, 2, -1, 0},
    [SHSTRTAB] = {".shstrtab", SHT_STRTAB, 0, 1, 0, -1, -1, 0},
};
static_assert(sizeof part_info / sizeof *part_info == NPARTS, "every part has a row");

struct writer {
    const struct machine *machine;
    const char *soname;
    const struct stub *stubs;
    size_t n;
    struct buf part[NPARTS];
    uint64_t offset[NPARTS], address[NPARTS];
    strings versions;               /* names of the version nodes, in order; node i has index i + 2 */
    size_t soname_at, libstdcxx_at; /* in .dynstr */
    bool has_typeinfo;
};

static bool is_data(const struct stub *s)
{
    return s->kind == STUB_TYPEINFO || s->kind == STUB_VTABLE || s->kind == STUB_DATA;
}

static size_t add_text(struct buf *b, const char *s)
{
    size_t at = b->len;
    buf_add(b, s, strlen(s) + 1);
    return at;
}

static unsigned version_index(const struct writer *w, const char *version)
{
    if (!version) return VER_NDX_GLOBAL;
    unsigned i = 0;
    while (strcmp(w->versions.ptr[i], version)) i++;
    return i + 2;
}

static void collect_versions(struct writer *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const char *v = w->stubs[i].version;
        bool known = !v;
        for (size_t k = 0; !known && k < w->versions.len; k++) known = !strcmp(w->versions.ptr[k], v);
        if (!known) *vec_push(&w->versions) = xstrdup(v);
    }
}

/* System V ABI's hash function for symbol names. */
static uint32_t elf_hash_of(const char *s)
{
    uint32_t h = 0;
    for (; *s; s++) {
        h = (h << 4) + (unsigned char)*s;
        h = (h ^ (h & 0xf0000000u) >> 24) & 0x0fffffffu;
    }
    return h;
}

static void write_hash(struct writer *w)
{
    const Elf64_Sym *sym = (const void *)w->part[DYNSYM].ptr;
    uint32_t count = (uint32_t)(w->part[DYNSYM].len / sizeof *sym), nbuckets = count / 2 + 1;
    uint32_t *table = xcalloc(2 + nbuckets + count, sizeof *table);
    table[0] = nbuckets;
    table[1] = count;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t *bucket = &table[2 + elf_hash_of(w->part[DYNSTR].ptr + sym[i].st_name) % nbuckets];
        table[2 + nbuckets + i] = *bucket;
        *bucket = i;
    }
    buf_clear(&w->part[HASH]);
    buf_add(&w->part[HASH], table, (2 + nbuckets + count) * sizeof *table);
    free(table);
}

static void write_verdef(struct writer *w)
{
    struct buf *b = &w->part[VERDEF];
    buf_clear(b);
    size_t n = w->versions.len;
    for (size_t i = 0; n && i <= n; i++) {
        const char *name = i ? w->versions.ptr[i - 1] : w->soname;
        Elf64_Verdef def = {.vd_version = VER_DEF_CURRENT, .vd_flags = i ? 0 : VER_FLG_BASE, .vd_cnt = 1};
        def.vd_ndx = (Elf64_Half)(i + 1);
        def.vd_hash = elf_hash_of(name);
        def.vd_aux = sizeof def;
        def.vd_next = i == n ? 0 : sizeof def + sizeof(Elf64_Verdaux);
        Elf64_Verdaux aux = {.vda_name = (Elf64_Word)add_text(&w->part[DYNSTR], name)};
        buf_add(b, &def, sizeof def);
        buf_add(b, &aux, sizeof aux);
    }
}

static void relocate(struct writer *w, uint64_t at, uint32_t symbol, uint64_t addend)
{
    uint32_t type = symbol ? w->machine->absolute : w->machine->relative;
    Elf64_Rela r = {
        .r_offset = at, .r_info = ELF64_R_INFO((uint64_t)symbol, type), .r_addend = (Elf64_Sxword)addend};
    buf_add(&w->part[RELA], &r, sizeof r);
}

static void zeros(struct buf *b, size_t n)
{
    buf_reserve(b, n);
    memset(b->ptr + b->len, 0, n);
    b->len += n;
}

static void align_buf(struct buf *b, size_t to)
{
    while (b->len % to) buf_add(b, "", 1);
}

/* ---- one stub ------------------------------------------------------------------------------------------ */

/* Code that says the name and stops; its address. */
static uint64_t emit_stop(struct writer *w, const struct stub *s)
{
    struct buf *ro = &w->part[RODATA];
    uint64_t text = w->address[RODATA] + ro->len;
    size_t before = ro->len;
    buf_addf(ro, "concord: %s: this environment was made without CUDA, which has this function\n", s->name);
    struct code c = {&w->part[TEXT], w->address[TEXT]};
    uint64_t at = here(&c);
    w->machine->stop(&c, text, (uint32_t)(ro->len - before));
    return at;
}

/* Symbols 1 and on are imports: class_vtable if there is a type_info, then the types of hollow objects. */
static uint32_t import_of(const struct writer *w, const char *name)
{
    const Elf64_Sym *sym = (const void *)w->part[DYNSYM].ptr;
    uint32_t i = 1;
    while (strcmp(w->part[DYNSTR].ptr + sym[i].st_name, name)) i++;
    return i;
}

static void emit_hollow(struct writer *w, const struct stub *s)
{
    struct code c = {&w->part[TEXT], w->address[TEXT]};
    align_buf(&w->part[DATA], 16);
    uint64_t table = w->address[DATA] + w->part[DATA].len;
    zeros(&w->part[DATA], HOLLOW_SLOTS * sizeof(uint64_t));
    w->machine->store(&c, table + 16);
    uint64_t nothing = here(&c);
    w->machine->value(&c, 0);
    relocate(w, table + 8, import_of(w, s->type), 0);
    for (uint64_t i = 2; i < HOLLOW_SLOTS; i++) relocate(w, table + 8 * i, 0, nothing);
}

static uint64_t emit_function(struct writer *w, const struct stub *s)
{
    struct code c = {&w->part[TEXT], w->address[TEXT]};
    align_buf(c.out, 16);
    uint64_t at = here(&c);
    switch (s->kind) {
    case STUB_VALUE:
        w->machine->value(&c, s->value);
        break;
    case STUB_ZERO_OUT:
        w->machine->zero_out(&c);
        break;
    case STUB_TEXT:
        w->machine->address(&c, w->address[RODATA]);
        break;
    case STUB_SCRATCH:
        w->machine->address(&c, w->address[BSS]);
        break;
    case STUB_HOLLOW:
        emit_hollow(w, s);
        break;
    default:
        return emit_stop(w, s);
    }
    return at;
}

static void emit_typeinfo(struct writer *w, const struct stub *s, uint64_t at)
{
    uint64_t name = w->address[RODATA] + w->part[RODATA].len;
    add_text(&w->part[RODATA], s->name + strlen("_ZTI"));
    relocate(w, at, import_of(w, class_vtable), 16);
    relocate(w, at + 8, 0, name);
    zeros(&w->part[DATA], TYPEINFO_SIZE);
}

/* Two words (offset to top, type_info) stay 0; the functions all stop. */
static void emit_vtable(struct writer *w, const struct stub *s, uint64_t at)
{
    align_buf(&w->part[TEXT], 16);
    uint64_t stop = emit_stop(w, s);
    for (uint64_t i = 2; i < VTABLE_SLOTS; i++) relocate(w, at + 8 * i, 0, stop);
    zeros(&w->part[DATA], VTABLE_SLOTS * sizeof(uint64_t));
}

static size_t data_size(const struct stub *s)
{
    if (s->kind == STUB_TYPEINFO) return TYPEINFO_SIZE;
    return s->kind == STUB_VTABLE ? VTABLE_SLOTS * 8 : s->value;
}

static uint64_t emit_data(struct writer *w, const struct stub *s)
{
    align_buf(&w->part[DATA], 16);
    uint64_t at = w->address[DATA] + w->part[DATA].len;
    if (s->kind == STUB_TYPEINFO)
        emit_typeinfo(w, s, at);
    else if (s->kind == STUB_VTABLE)
        emit_vtable(w, s, at);
    else
        zeros(&w->part[DATA], s->value);
    return at;
}

static void emit_stub(struct writer *w, const struct stub *s)
{
    bool data = is_data(s);
    Elf64_Sym sym = {.st_name = (Elf64_Word)add_text(&w->part[DYNSTR], s->name)};
    sym.st_info = ELF64_ST_INFO(STB_GLOBAL, data ? STT_OBJECT : STT_FUNC);
    sym.st_shndx = (Elf64_Section)(1 + (data ? DATA : TEXT));
    size_t code_before = w->part[TEXT].len;
    sym.st_value = data ? emit_data(w, s) : emit_function(w, s);
    sym.st_size = data ? data_size(s) : w->part[TEXT].len - (code_before + 15) / 16 * 16;
    buf_add(&w->part[DYNSYM], &sym, sizeof sym);
    Elf64_Half version = (Elf64_Half)version_index(w, s->version);
    buf_add(&w->part[VERSYM], &version, sizeof version);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static void add_import(struct writer *w, const char *name, int binding)
{
    Elf64_Half global = VER_NDX_GLOBAL;
    Elf64_Sym import = {.st_name = (Elf64_Word)add_text(&w->part[DYNSTR], name)};
    import.st_info = (unsigned char)ELF64_ST_INFO(binding, STT_OBJECT);
    buf_add(&w->part[DYNSYM], &import, sizeof import);
    buf_add(&w->part[VERSYM], &global, sizeof global);
}

static void add_imports(struct writer *w)
{
    Elf64_Half local = VER_NDX_LOCAL;
    zeros(&w->part[DYNSYM], sizeof(Elf64_Sym));
    buf_add(&w->part[VERSYM], &local, sizeof local);
    if (w->has_typeinfo) add_import(w, class_vtable, STB_GLOBAL);
    for (size_t i = 0; i < w->n; i++)
        if (w->stubs[i].kind == STUB_HOLLOW) add_import(w, w->stubs[i].type, STB_WEAK);
}

static void add_dynamic(struct writer *w, Elf64_Sxword tag, uint64_t value)
{
    Elf64_Dyn d = {.d_tag = tag, .d_un.d_val = value};
    buf_add(&w->part[DYNAMIC], &d, sizeof d);
}

static void write_dynamic(struct writer *w)
{
    add_dynamic(w, DT_SONAME, w->soname_at);
    if (w->has_typeinfo) add_dynamic(w, DT_NEEDED, w->libstdcxx_at);
    add_dynamic(w, DT_HASH, w->address[HASH]);
    add_dynamic(w, DT_STRTAB, w->address[DYNSTR]);
    add_dynamic(w, DT_SYMTAB, w->address[DYNSYM]);
    add_dynamic(w, DT_STRSZ, w->part[DYNSTR].len);
    add_dynamic(w, DT_SYMENT, sizeof(Elf64_Sym));
    if (w->part[RELA].len) {
        add_dynamic(w, DT_RELA, w->address[RELA]);
        add_dynamic(w, DT_RELASZ, w->part[RELA].len);
        add_dynamic(w, DT_RELAENT, sizeof(Elf64_Rela));
    }
    if (w->versions.len) {
        add_dynamic(w, DT_VERSYM, w->address[VERSYM]);
        add_dynamic(w, DT_VERDEF, w->address[VERDEF]);
        add_dynamic(w, DT_VERDEFNUM, w->versions.len + 1);
    }
    add_dynamic(w, DT_NULL, 0);
}

static void emit_all(struct writer *w)
{
    for (int i = 0; i < NPARTS; i++) buf_clear(&w->part[i]);
    buf_add(&w->part[DYNSTR], "", 1);
    w->soname_at = add_text(&w->part[DYNSTR], w->soname);
    if (w->has_typeinfo) w->libstdcxx_at = add_text(&w->part[DYNSTR], "libstdc++.so.6");
    add_text(&w->part[RODATA], no_device_text); /* first: STUB_TEXT returns the section's address */
    add_imports(w);
    for (size_t i = 0; i < w->n; i++) emit_stub(w, &w->stubs[i]);
    write_verdef(w);
    write_hash(w);
    write_dynamic(w);
    buf_add(&w->part[SHSTRTAB], "", 1);
    for (int i = 0; i < NPARTS; i++) add_text(&w->part[SHSTRTAB], part_info[i].name);
}

static uint64_t part_size(const struct writer *w, int i)
{
    return i == BSS ? SCRATCH_SIZE : w->part[i].len;
}

enum { NSEGMENTS = 3, NHEADERS = NSEGMENTS + 2 }; /* and PT_DYNAMIC, PT_GNU_STACK */

static uint64_t round_up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

static void lay_out(struct writer *w)
{
    uint64_t offset = sizeof(Elf64_Ehdr) + NHEADERS * sizeof(Elf64_Phdr), delta = 0;
    int segment = 0;
    for (int i = 0; i < NPARTS; i++) {
        if (part_info[i].segment > segment) {
            segment = part_info[i].segment;
            delta = round_up(offset + delta, PAGE) - offset / PAGE * PAGE;
        }
        offset = round_up(offset, part_info[i].align);
        w->offset[i] = offset;
        w->address[i] = part_info[i].segment < 0 ? 0 : offset + delta;
        if (i != BSS) offset += w->part[i].len;
    }
}

/* First and last part of a segment. */
static void segment_parts(int segment, int *first, int *last)
{
    *first = -1;
    for (int i = 0; i < NPARTS; i++) {
        if (part_info[i].segment != segment) continue;
        if (*first < 0) *first = i;
        *last = i;
    }
}

static void fill_program_headers(const struct writer *w, Elf64_Phdr *ph)
{
    static const Elf64_Word flags[NSEGMENTS] = {PF_R, PF_R | PF_X, PF_R | PF_W};
    for (int s = 0; s < NSEGMENTS; s++) {
        int first = 0, last = 0;
        segment_parts(s, &first, &last);
        uint64_t from = s ? w->offset[first] : 0, address = s ? w->address[first] : 0;
        int end = last == BSS ? DYNAMIC : last; /* .bss has no bytes in the file */
        ph[s] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = flags[s], .p_offset = from, .p_align = PAGE};
        ph[s].p_vaddr = ph[s].p_paddr = address;
        ph[s].p_filesz = w->offset[end] + w->part[end].len - from;
        ph[s].p_memsz = w->address[last] + part_size(w, last) - address;
    }
    ph[NSEGMENTS] = (Elf64_Phdr){.p_type = PT_DYNAMIC, .p_flags = PF_R | PF_W, .p_align = 8};
    ph[NSEGMENTS].p_offset = w->offset[DYNAMIC];
    ph[NSEGMENTS].p_vaddr = ph[NSEGMENTS].p_paddr = w->address[DYNAMIC];
    ph[NSEGMENTS].p_filesz = ph[NSEGMENTS].p_memsz = w->part[DYNAMIC].len;
    ph[NSEGMENTS + 1] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
}

static void fill_section(const struct writer *w, int i, Elf64_Shdr *h, size_t name)
{
    const struct part_info *p = &part_info[i];
    *h = (Elf64_Shdr){.sh_name = (Elf64_Word)name, .sh_type = p->type, .sh_flags = p->flags};
    h->sh_addr = w->address[i];
    h->sh_offset = w->offset[i];
    h->sh_size = part_size(w, i);
    h->sh_addralign = p->align;
    h->sh_entsize = p->entry;
    h->sh_link = p->link < 0 ? 0 : (Elf64_Word)p->link + 1;
    h->sh_info = p->info < 0 ? (Elf64_Word)(w->versions.len ? w->versions.len + 1 : 0) : (Elf64_Word)p->info;
}

/* Hands the parts to libelf, which only has to write them where they are laid out. */
static int write_elf(struct writer *w, Elf *elf)
{
    Elf64_Ehdr *h = elf64_newehdr(elf);
    Elf64_Phdr *ph = h ? elf64_newphdr(elf, NHEADERS) : NULL;
    if (!ph) return -1;
    h->e_ident[EI_DATA] = ELFDATA2LSB;
    h->e_type = ET_DYN;
    h->e_machine = w->machine->id;
    h->e_version = EV_CURRENT;
    h->e_phoff = sizeof *h;
    h->e_shoff = round_up(w->offset[SHSTRTAB] + w->part[SHSTRTAB].len, 8);
    h->e_shstrndx = 1 + SHSTRTAB;
    fill_program_headers(w, ph);
    elf_flagelf(elf, ELF_C_SET, ELF_F_LAYOUT);
    size_t name = 1;
    for (int i = 0; i < NPARTS; i++) {
        Elf_Scn *scn = elf_newscn(elf);
        Elf64_Shdr *sh = scn ? elf64_getshdr(scn) : NULL;
        Elf_Data *d = sh ? elf_newdata(scn) : NULL;
        if (!d) return -1;
        fill_section(w, i, sh, name);
        name += strlen(part_info[i].name) + 1;
        d->d_buf = i == BSS ? NULL : w->part[i].ptr;
        d->d_size = part_size(w, i);
        d->d_type = ELF_T_BYTE; /* the parts are in the file's byte order already */
        d->d_align = part_info[i].align;
        d->d_version = EV_CURRENT;
    }
    return elf_update(elf, ELF_C_WRITE) < 0 ? -1 : 0;
}

static int write_file(struct writer *w, const char *path, struct err *e)
{
    elf_version(EV_CURRENT);
    unlink(path); /* a new file: the old one may be shared by hard link */
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd < 0) return err_set(e, "cannot write '%s': %s", path, strerror(errno));
    Elf *elf = elf_begin(fd, ELF_C_WRITE, NULL);
    int rc = elf ? write_elf(w, elf) : -1;
    if (rc) err_set(e, "cannot write '%s': %s", path, elf_errmsg(-1));
    if (elf) elf_end(elf);
    if (close(fd) && !rc) rc = err_set(e, "cannot write '%s': %s", path, strerror(errno));
    if (rc) unlink(path);
    return rc;
}

int standin_write(const char *path, uint16_t machine, const char *soname, const struct stub *stubs, size_t n,
                  struct err *e)
{
    struct writer w = {.soname = soname, .stubs = stubs, .n = n};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].id == machine) w.machine = &machines[i];
    if (!w.machine) return err_set(e, "cannot write '%s': no stand-ins for ELF machine %u", path, machine);
    for (size_t i = 0; i < n; i++) w.has_typeinfo = w.has_typeinfo || stubs[i].kind == STUB_TYPEINFO;
    collect_versions(&w);
    emit_all(&w); /* sizes */
    lay_out(&w);
    emit_all(&w); /* the same sizes, now with addresses */
    int rc = write_file(&w, path, e);
    for (int i = 0; i < NPARTS; i++) buf_free(&w.part[i]);
    strings_free(&w.versions);
    return rc;
}
