/* elf_object.h - reading, stripping and writing 64-bit little-endian ELF shared objects (libelf).
 *
 * Formats: System V ABI (gABI) and the GNU symbol versioning of the Linux Standard Base.
 */
#ifndef CONCORD_ELF_OBJECT_H
#define CONCORD_ELF_OBJECT_H

#include "concord/base/base.h"

struct elf_symbol {
    const char *name;
    const char *version; /* NULL: none */
    const char *file;    /* undefined and versioned: the SONAME that must define it; else NULL */
    uint64_t size;
    unsigned char type, bind; /* STT_*, STB_* */
    bool defined, local;      /* local: hidden or STB_LOCAL, so no other object sees it */
};

/* The dynamic side of a shared object. Names point into the mapped file: they live until elf_close. */
struct elf_object {
    char *path;
    const char *soname; /* NULL: none */
    VEC(const char *) needed;
    VEC(struct elf_symbol) symbols;
    uint16_t machine; /* EM_X86_64, EM_AARCH64 */
    int fd;
    void *handle; /* Elf * */
};

/* A file that is no ELF shared object of a known kind is an error; elf_is_object tells quietly. */
int elf_open(const char *path, struct elf_object *o, struct err *e);
void elf_close(struct elf_object *o);
bool elf_is_object(const char *path);

/* Drops the sections that are not loaded (symbols and debugging of the linker's kind) and closes the gaps
 * that they leave before a segment. The file is replaced, never written into: others may share it by hard
 * link. *saved gets the bytes won, 0 if there was nothing to do. */
int elf_strip(const char *path, uint64_t *saved, struct err *e);

/* What a stand-in's function does. */
enum stub_kind {
    STUB_VALUE,    /* returns a number */
    STUB_ZERO_OUT, /* stores int 0 through its first argument and returns 0 */
    STUB_TEXT,     /* returns the address of a text */
    STUB_SCRATCH,  /* returns the address of zeroed, writable, aligned memory */
    STUB_STOP,     /* says its name on standard error and stops the process with SIGILL */
    STUB_HOLLOW, /* a C++ constructor: the object gets a virtual table of its type whose functions do nothing
                  */
    STUB_TYPEINFO, /* data: a C++ std::type_info of that name, without bases */
    STUB_VTABLE,   /* data: a C++ virtual table whose every entry stops as STUB_STOP does */
    STUB_DATA,     /* data: size zeroed bytes */
    NSTUB_KINDS
};

struct stub {
    const char *name;
    const char *version; /* NULL: none */
    enum stub_kind kind;
    uint32_t value;   /* STUB_VALUE: the number, STUB_DATA: the size */
    const char *type; /* STUB_HOLLOW: name of the std::type_info, which another library defines */
};

/* Writes a shared object that defines exactly these names. machine: EM_X86_64 or EM_AARCH64. */
int standin_write(const char *path, uint16_t machine, const char *soname, const struct stub *stubs, size_t n,
                  struct err *e);

#endif
