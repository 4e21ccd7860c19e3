/* concord_env.c - tests of concord/env: stand-ins, stripping, trimming, marking, uv's lock, our lock, the
 * doctor. */
#include "concord/doctor/doctor.h"
#include "concord/env/elf_object.h"
#include "concord/env/env_internal.h"
#include "concord/env/mark.h"

#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __aarch64__
enum { HERE = EM_AARCH64, ELSEWHERE = EM_X86_64 };
#else
enum { HERE = EM_X86_64, ELSEWHERE = EM_AARCH64 };
#endif

static char *scratch;

static int make_scratch(void **state)
{
    (void)state;
    char name[] = "/tmp/concord_env.XXXXXX";
    scratch = mkdtemp(name) ? xstrdup(name) : NULL;
    return scratch ? 0 : -1;
}

static int drop_scratch(void **state)
{
    (void)state;
    struct err e;
    int rc = tree_remove(scratch, &e);
    free(scratch);
    return rc;
}

static char *in_scratch(const char *name)
{
    return path_join(scratch, name);
}

static void write_text(const char *path, const char *text)
{
    struct err e;
    char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(dir_make(folder, &e), 0);
    assert_int_equal(file_write(path, text, strlen(text), 0, &e), 0);
    free(folder);
}

static char *read_text(const char *path)
{
    struct err e;
    struct buf b = BUF_INIT;
    assert_int_equal(file_read(path, &b, &e), 0);
    return buf_take(&b);
}

/* ---- stand-ins ------------------------------------------------------------------------------------------
 */

static const struct stub stubs[] = {
    {"cuVersioned", "libx.so.9", STUB_VALUE, 100, NULL},
    {"cuOther", "libx.so.10", STUB_VALUE, 0x12345678, NULL},
    {"cudaGetDeviceCount", "libx.so.9", STUB_ZERO_OUT, 0, NULL},
    {"cudaGetErrorString", NULL, STUB_TEXT, 0, NULL},
    {"get_reference", NULL, STUB_SCRATCH, 0, NULL},
    {"_ZN3foo3barEv", NULL, STUB_STOP, 0, NULL},
    {"_ZTV3foo", NULL, STUB_VTABLE, 0, NULL},
    {"table", NULL, STUB_DATA, 40, NULL},
};
enum { NSTUBS = sizeof stubs / sizeof *stubs };

static void *open_standin(const char *file, const struct stub *s, size_t n)
{
    struct err e = {""};
    char *path = in_scratch(file);
    int rc = standin_write(path, HERE, file, s, n, &e);
    assert_string_equal(e.text, "");
    assert_int_equal(rc, 0);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) fail_msg("%s", dlerror());
    free(path);
    return lib;
}

static void standin_functions_work(void **state)
{
    (void)state;
    void *lib = open_standin("libx.so.9", stubs, NSTUBS);
    int (*versioned)(void) = dlvsym(lib, "cuVersioned", "libx.so.9");
    int (*other)(void) = dlvsym(lib, "cuOther", "libx.so.10");
    assert_non_null(versioned);
    assert_non_null(other);
    assert_null(dlvsym(lib, "cuVersioned", "libx.so.10"));
    assert_int_equal(versioned(), 100);
    assert_int_equal(other(), 0x12345678);
    int count = 7, (*count_devices)(int *) = dlsym(lib, "cudaGetDeviceCount");
    assert_int_equal(count_devices(&count), 0);
    assert_int_equal(count, 0);
    const char *(*text)(int) = dlsym(lib, "cudaGetErrorString");
    assert_string_equal(text(1), "this environment has no CUDA");
    void **(*reference)(void) = dlsym(lib, "get_reference");
    assert_int_equal((uintptr_t)reference() % 64, 0);
    assert_null(*reference());
    *reference() = lib; /* writable */
    assert_ptr_equal(*reference(), lib);
    char *table = dlsym(lib, "table");
    table[39] = 1;
    assert_null(dlsym(lib, "absent"));
    dlclose(lib);
}

/* What stops is named on standard error. */
static void stops(void (*function)(void))
{
    int fd[2], status = 0;
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGILL, SIG_DFL);
        dup2(fd[1], 2);
        function();
        _exit(0);
    }
    close(fd[1]);
    char said[256] = "";
    ssize_t n = read(fd[0], said, sizeof said - 1);
    close(fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(n > 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGILL);
}

static void standin_stops_by_name(void **state)
{
    (void)state;
    void *lib = open_standin("libstop.so", stubs, NSTUBS);
    stops((void (*)(void))dlsym(lib, "_ZN3foo3barEv"));
    void (**vtable)(void) = dlsym(lib, "_ZTV3foo");
    assert_null(vtable[0]);
    stops(vtable[2]);
    stops(vtable[63]);
    dlclose(lib);
}

static void standin_type_info(void **state)
{
    (void)state;
    void *cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
    if (!cxx) skip();
    static const struct stub one[] = {{"_ZTIN3foo3barE", NULL, STUB_TYPEINFO, 0, NULL}};
    void *lib = open_standin("libtype.so", one, 1);
    char **type = dlsym(lib, "_ZTIN3foo3barE");
    assert_string_equal(type[1], "N3foo3barE");
    char *vtable = dlsym(cxx, "_ZTVN10__cxxabiv117__class_type_infoE");
    assert_ptr_equal(type[0], vtable + 16);
    dlclose(lib);
    dlclose(cxx);
}

/* A constructor that leaves an object whose virtual functions can be called and whose type is known. */
static void standin_hollow_object(void **state)
{
    (void)state;
    static const struct stub type[] = {{"_ZTI3foo", NULL, STUB_DATA, 16, NULL}};
    static const struct stub one[] = {{"_ZN3fooC1Ev", NULL, STUB_HOLLOW, 0, "_ZTI3foo"}};
    char *path = in_scratch("libfoo.so");
    struct err e;
    assert_int_equal(standin_write(path, HERE, "libfoo.so", type, 1, &e), 0);
    void *other = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *lib = open_standin("libhollow.so", one, 1);
    void (*constructor)(void *) = dlsym(lib, "_ZN3fooC1Ev");
    void *object[2] = {NULL, &e};
    constructor(object);
    void **table = object[0];
    assert_ptr_equal(object[1], &e);
    assert_null(table[-2]);
    assert_ptr_equal(table[-1], dlsym(other, "_ZTI3foo"));
    assert_int_equal(((int (*)(void *))table[0])(object), 0);
    assert_int_equal(((int (*)(void *))table[13])(object), 0);
    dlclose(lib);
    dlclose(other);
    free(path);
}

static void standin_reads_back(void **state)
{
    (void)state;
    struct err e;
    static const uint16_t machines[] = {HERE, ELSEWHERE};
    for (int m = 0; m < 2; m++) {
        char *path = in_scratch("libread.so");
        assert_int_equal(standin_write(path, machines[m], "libx.so.9", stubs, NSTUBS, &e), 0);
        struct elf_object o;
        assert_int_equal(elf_open(path, &o, &e), 0);
        assert_string_equal(o.soname, "libx.so.9");
        assert_int_equal(o.machine, machines[m]);
        assert_int_equal(o.needed.len, 0);
        assert_int_equal(o.symbols.len, NSTUBS);
        for (int i = 0; i < NSTUBS; i++) {
            const struct elf_symbol *s = &o.symbols.ptr[i];
            assert_string_equal(s->name, stubs[i].name);
            assert_true(s->defined && !s->local);
            if (stubs[i].version)
                assert_string_equal(s->version, stubs[i].version);
            else
                assert_null(s->version);
        }
        assert_int_equal(o.symbols.ptr[7].size, 40);
        assert_int_equal(o.symbols.ptr[7].type, STT_OBJECT);
        elf_close(&o);
        free(path);
    }
    char *path = in_scratch("libno.so");
    assert_int_equal(standin_write(path, EM_MIPS, "libx.so", stubs, NSTUBS, &e), -1);
    assert_non_null(strstr(e.text, "no stand-ins for ELF machine 8"));
    assert_false(path_exists(path));
    write_text(path, "no ELF at all");
    struct elf_object o;
    assert_int_equal(elf_open(path, &o, &e), -1);
    assert_non_null(strstr(e.text, "is no usable ELF shared object: no ELF file"));
    free(path);
}

/* ---- stripping ------------------------------------------------------------------------------------------
 */

/* This test program, copied and stripped, must still run. It is hard-linked meanwhile, as uv's files are. */
static void strip_keeps_a_program_running(void **state)
{
    (void)state;
    struct err e;
    struct buf self = BUF_INIT;
    char *path = in_scratch("program"), *link_path = in_scratch("program.link");
    assert_int_equal(file_read("/proc/self/exe", &self, &e), 0);
    assert_int_equal(file_write(path, self.ptr, self.len, 0755, &e), 0);
    assert_int_equal(link(path, link_path), 0);
    uint64_t saved = 0, again = 1;
    int rc = elf_strip(path, &saved, &e);
    assert_int_equal(rc, 0);
    assert_true(saved > 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, self.len - saved);
    assert_int_equal(st.st_mode & 0777, 0755);
    char before[65], after[65];
    sha256_hex(self.ptr, self.len, before);
    assert_int_equal(sha256_file(link_path, after, &e), 0);
    assert_string_equal(before, after);
    assert_int_equal(elf_strip(path, &again, &e), 0);
    assert_int_equal(again, 0);
    const char *argv[] = {path, "--say-hello", NULL};
    struct proc_result r;
    if (getenv("QEMU_LD_PREFIX")) {
        print_message("skipped: under an emulator the kernel cannot run the stripped program\n");
    } else {
        assert_int_equal(proc_run(&(struct proc_spec){.argv = argv}, &r, &e), 0);
        assert_int_equal(r.status, 0);
        assert_string_equal(buf_str(&r.out), "hello\n");
        proc_result_free(&r);
    }
    buf_free(&self);
    free(path);
    free(link_path);
}

/* Moves everything from the writable segment on by gap bytes: as when symbol tables stood before it. */
static void open_gap(struct buf *b, size_t gap)
{
    Elf64_Ehdr *h = (void *)b->ptr;
    Elf64_Phdr *ph = (void *)(b->ptr + h->e_phoff);
    size_t at = ph[2].p_offset;
    assert_int_equal(ph[2].p_flags, PF_R | PF_W);
    char *rest = xmalloc(b->len - at);
    size_t n = b->len - at;
    memcpy(rest, b->ptr + at, n);
    b->len = at;
    for (size_t i = 0; i < gap; i++) buf_addc(b, 'x');
    buf_add(b, rest, n);
    free(rest);
    h = (void *)b->ptr;
    ph = (void *)(b->ptr + h->e_phoff);
    for (int i = 2; i < 4; i++) ph[i].p_offset += gap;
    h->e_shoff += gap;
    Elf64_Shdr *sh = (void *)(b->ptr + h->e_shoff);
    for (int i = 1; i < h->e_shnum; i++)
        if (sh[i].sh_offset >= at) sh[i].sh_offset += gap;
}

static void strip_closes_a_gap(void **state)
{
    (void)state;
    enum { GAP = 256 * 1024 };
    struct err e;
    struct buf b = BUF_INIT;
    char *path = in_scratch("libgap.so");
    assert_int_equal(standin_write(path, HERE, "libgap.so", stubs, NSTUBS, &e), 0);
    assert_int_equal(file_read(path, &b, &e), 0);
    open_gap(&b, GAP);
    assert_int_equal(file_write(path, b.ptr, b.len, 0755, &e), 0);
    uint64_t saved = 0;
    assert_int_equal(elf_strip(path, &saved, &e), 0);
    assert_in_range(saved, GAP - 64, GAP + 64); /* the headers may change by some bytes */
    void *lib = dlopen(path, RTLD_NOW);
    if (!lib) fail_msg("%s", dlerror());
    char *table = dlsym(lib, "table");
    assert_int_equal(table[0] + table[39], 0);
    int (*versioned)(void) = dlvsym(lib, "cuVersioned", "libx.so.9");
    assert_int_equal(versioned(), 100);
    dlclose(lib);
    buf_free(&b);
    free(path);
}

static void strip_refuses_damage(void **state)
{
    (void)state;
    struct err e;
    struct buf b = BUF_INIT;
    uint64_t saved;
    char *path = in_scratch("libbad.so");
    assert_int_equal(standin_write(path, HERE, "libbad.so", stubs, NSTUBS, &e), 0);
    assert_int_equal(file_read(path, &b, &e), 0);
    Elf64_Ehdr good = *(Elf64_Ehdr *)b.ptr;
    static const struct {
        size_t offset, size;
        const char *message;
    } rows[] = {
        {offsetof(Elf64_Ehdr, e_ident), 4, "not 64-bit little-endian ELF"},
        {offsetof(Elf64_Ehdr, e_phoff), 8, "its program headers are outside the file"},
        {offsetof(Elf64_Ehdr, e_shoff), 8, "its section headers are outside the file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(b.ptr, &good, sizeof good);
        memset(b.ptr + rows[i].offset, 0x7e, rows[i].size);
        assert_int_equal(file_write(path, b.ptr, b.len, 0, &e), 0);
        assert_int_equal(elf_strip(path, &saved, &e), -1);
        assert_non_null(strstr(e.text, rows[i].message));
    }
    assert_int_equal(file_write(path, b.ptr, 10, 0, &e), 0);
    assert_int_equal(elf_strip(path, &saved, &e), -1);
    buf_free(&b);
    free(path);
}

/* ---- trimming -------------------------------------------------------------------------------------------
 */

/* A library that needs soname and these names from it: a stand-in turned inside out. */
static void write_user(const char *path, const char *soname, const struct stub *s, size_t n)
{
    struct err e;
    struct buf b = BUF_INIT;
    assert_int_equal(standin_write(path, HERE, soname, s, n, &e), 0);
    assert_int_equal(file_read(path, &b, &e), 0);
    Elf64_Ehdr *h = (void *)b.ptr;
    Elf64_Shdr *sh = (void *)(b.ptr + h->e_shoff);
    for (int i = 1; i < h->e_shnum; i++) {
        if (sh[i].sh_type == SHT_DYNAMIC) ((Elf64_Dyn *)(b.ptr + sh[i].sh_offset))->d_tag = DT_NEEDED;
        if (sh[i].sh_type != SHT_DYNSYM) continue;
        Elf64_Sym *sym = (void *)(b.ptr + sh[i].sh_offset);
        for (size_t k = 1; k < sh[i].sh_size / sizeof *sym; k++)
            sym[k].st_shndx = SHN_UNDEF, sym[k].st_value = 0;
    }
    assert_int_equal(file_write(path, b.ptr, b.len, 0755, &e), 0);
    buf_free(&b);
}

static void make_torch(const char *torch)
{
    static const struct stub cpu[] = {{"cudaGetDeviceCount", NULL, STUB_VALUE, 0, NULL},
                                      {"cudaMalloc", NULL, STUB_VALUE, 0, NULL}};
    static const struct stub python[] = {{"_ZN3foo3barEv", NULL, STUB_VALUE, 0, NULL},
                                         {"_ZN3foo4dataE", NULL, STUB_VALUE, 0, NULL},
                                         {"PyLong_FromLong", NULL, STUB_VALUE, 0, NULL},
                                         {"memcpy", NULL, STUB_VALUE, 0, NULL}};
    static const struct stub cuda[] = {{"_ZN3foo3barEv", NULL, STUB_VALUE, 0, NULL},
                                       {"_ZN3foo4dataE", NULL, STUB_DATA, 24, NULL},
                                       {"unasked", NULL, STUB_VALUE, 0, NULL}};
    struct err e;
    char *lib = path_join(torch, "lib"), *path;
    assert_int_equal(dir_make(lib, &e), 0);
    write_user(path = path_join(lib, "libtorch_cpu.so"), "libcudart.so.99", cpu, 2);
    free(path);
    write_user(path = path_join(lib, "libtorch_python.so"), "libtorch_cuda.so", python, 4);
    free(path);
    path = path_join(lib, "libtorch_cuda.so");
    assert_int_equal(standin_write(path, HERE, "libtorch_cuda.so", cuda, 3, &e), 0);
    free(path);
    path = path_join(lib, "libc.so.6"); /* only so that memcpy is defined by somebody present */
    assert_int_equal(
        standin_write(path, HERE, "libc.so.6", &(struct stub){"memcpy", NULL, STUB_VALUE, 0, NULL}, 1, &e),
        0);
    free(path);
    write_text(path = path_join(lib, "libshm.py"), "no library");
    free(path);
    free(lib);
}

static size_t names_in(const char *torch, const char *file, const char *has)
{
    struct err e;
    struct elf_object o;
    char *path = xformat("%s/lib/%s", torch, file);
    assert_int_equal(elf_open(path, &o, &e), 0);
    size_t n = o.symbols.len;
    bool found = false;
    for (size_t i = 0; i < n; i++) found = found || !strcmp(o.symbols.ptr[i].name, has);
    assert_true(found);
    elf_close(&o);
    free(path);
    return n;
}

static void trim_finds_what_is_missing(void **state)
{
    (void)state;
    struct err e = {""};
    struct trim_result r;
    char *torch = in_scratch("full/torch");
    make_torch(torch);
    assert_int_equal(trim_torch(torch, TRIM_FULL, &r, &e), 0);
    assert_int_equal(r.standins.len, 1);
    assert_string_equal(r.standins.ptr[0].library, "libcudart.so.99");
    assert_int_equal(r.removed.len, 0);
    assert_int_equal(names_in(torch, "libcudart.so.99", "cudaMalloc"), 2);
    assert_int_equal(names_in(torch, "libtorch_cuda.so", "unasked"), 3);
    trim_result_free(&r);
    assert_int_equal(trim_torch(torch, TRIM_FULL, &r, &e), 0); /* nothing is missing any more */
    assert_int_equal(r.standins.len, 0);
    trim_result_free(&r);
    free(torch);
}

static void trim_slim_replaces_cuda_code(void **state)
{
    (void)state;
    struct err e = {""};
    struct trim_result r;
    char *torch = in_scratch("slim/torch");
    make_torch(torch);
    assert_int_equal(trim_torch(torch, TRIM_SLIM, &r, &e), 0);
    assert_int_equal(r.standins.len, 2);
    assert_int_equal(r.removed.len, 1);
    assert_true(str_ends(r.removed.ptr[0], "/libtorch_cuda.so"));
    assert_int_equal(names_in(torch, "libtorch_cuda.so", "_ZN3foo4dataE"),
                     2); /* no Python, no libc, not unasked */
    char *path = path_join(torch, "lib/libtorch_cuda.so");
    struct elf_object o;
    assert_int_equal(elf_open(path, &o, &e), 0);
    for (size_t i = 0; i < o.symbols.len; i++)
        if (!strcmp(o.symbols.ptr[i].name, "_ZN3foo4dataE")) assert_int_equal(o.symbols.ptr[i].size, 24);
    elf_close(&o);
    void *lib = dlopen(path, RTLD_NOW);
    assert_non_null(lib);
    stops((void (*)(void))dlsym(lib, "_ZN3foo3barEv"));
    dlclose(lib);
    free(path);
    trim_result_free(&r);
    free(torch);
    char *empty = in_scratch("empty");
    assert_int_equal(trim_torch(empty, TRIM_SLIM, &r, &e), -1);
    assert_non_null(strstr(e.text, "cannot list"));
    free(empty);
}

/* ---- marking --------------------------------------------------------------------------------------------
 */

static const char metadata[] =
    "Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1\nRequires-Dist: filelock\n"
    "Requires-Dist: setuptools; python_version >= \"3.12\"\nRequires-Dist: sympy>=1.13.3\n"
    "Requires-Dist: nvidia-cudnn-cu12==9.5.1.17; platform_system == \"Linux\"\n"
    "Requires-Dist: cuda-bindings<14,>=13.0.3\nRequires-Dist: triton==3.3.1\n"
    "Requires-Dist: optree>=0.13.0; extra == \"optree\"\n\nVersion: in the text\n";

static void mark_makes_a_cpu_build(void **state)
{
    (void)state;
    struct err e = {""};
    char *site = in_scratch("site"), *p;
    write_text(p = path_join(site, "torch/version.py"),
               "from typing import Optional\n\n__version__ = '2.7.1+cu126'\ncuda: Optional[str] = "
               "'12.6'\nhip: int\n");
    free(p);
    write_text(p = path_join(site, "torch-2.7.1.dist-info/METADATA"), metadata);
    free(p);
    write_text(
        p = path_join(site, "torch-2.7.1.dist-info/RECORD"),
        "torch/lib/a.so,sha256=old,1\ntorch/lib/gone.so,sha256=old,2\ntorch/lib/kept.so,sha256=kept,3\n"
        "\"torch/a,b.py\",sha256=odd,4\ntorch/version.py,sha256=old,5\n"
        "torch-2.7.1.dist-info/METADATA,sha256=old,6\ntorch-2.7.1.dist-info/RECORD,,\n");
    free(p);
    write_text(p = path_join(site, "torch/lib/a.so"), "abc");
    free(p);
    write_text(p = path_join(site, "torch/lib/new.so"), "");
    free(p);
    strings asked = {0};
    assert_int_equal(mark_requirements(site, "torch", &asked, &e), 0);
    assert_int_equal(asked.len, 3);
    assert_string_equal(asked.ptr[1], "setuptools; python_version >= \"3.12\"");
    assert_string_equal(asked.ptr[2], "sympy>=1.13.3");
    strings_free(&asked);
    struct trim_result trim = {0};
    *vec_push(&trim.changed) = path_join(site, "torch/lib/a.so");
    *vec_push(&trim.changed) = path_join(site, "torch/lib/new.so");
    *vec_push(&trim.removed) = path_join(site, "torch/lib/gone.so");
    *vec_push(&trim.removed) = path_join(site, "torch/lib/a.so"); /* came back as a stand-in */
    assert_int_equal(mark_torch_cpu(site, &trim, &e), 0);
    assert_int_equal(mark_torch_cpu(site, &trim, &e), 0); /* again changes nothing */
    trim_result_free(&trim);
    char *text = read_text(p = path_join(site, "torch/version.py"));
    assert_string_equal(text, "from typing import Optional\n\n__version__ = '2.7.1+cpu'\n"
                              "cuda: Optional[str] = None\nhip: int\n");
    free(text), free(p);
    text = read_text(p = path_join(site, "torch-2.7.1+cpu.dist-info/METADATA"));
    assert_non_null(strstr(text, "\nVersion: 2.7.1+cpu\n"));
    assert_non_null(strstr(text, "\n\nVersion: in the text\n"));
    assert_non_null(strstr(text, "optree"));
    assert_null(strstr(text, "nvidia"));
    assert_null(strstr(text, "cuda-bindings"));
    assert_null(strstr(text, "triton"));
    free(text), free(p);
    text = read_text(p = path_join(site, "torch-2.7.1+cpu.dist-info/RECORD"));
    /* The digest of "abc" and of nothing, as unpadded URL-safe base64. */
    assert_true(str_starts(text, "torch/lib/a.so,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\n"
                                 "torch/lib/kept.so,sha256=kept,3\n\"torch/a,b.py\",sha256=odd,4\n"
                                 "torch/version.py,sha256="));
    assert_non_null(strstr(text, "\ntorch-2.7.1+cpu.dist-info/METADATA,sha256="));
    assert_non_null(strstr(text, "\ntorch-2.7.1+cpu.dist-info/RECORD,,\n"));
    assert_true(str_ends(text, "torch/lib/new.so,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"));
    assert_null(strstr(text, "gone.so"));
    free(text), free(p);
    assert_null(mark_dist_info(site, "torch_npu", &e));
    assert_non_null(strstr(e.text, "has no installed torch_npu"));
    free(site);
}

/* ---- uv's lock ------------------------------------------------------------------------------------------
 */

static void pylock_takes_the_best_wheel(void **state)
{
    (void)state;
    static const char text[] =
        "lock-version = \"1.0\"\ncreated-by = \"uv\"\n\n[[packages]]\nname = \"a\"\nversion = \"1.0\"\n"
        "sdist = { url = \"https://x/a.tar.gz\", hashes = { sha256 = \"00\" } }\n"
        "wheels = [{ url = \"https://x/a-1.0-py3-none-any.whl\", size = 12, hashes = { sha256 = \"aa\" } "
        "}]\n\n"
        "[[packages]]\nname = \"torch\"\nversion = \"2.10.0\"\nwheels = [\n"
        "    { url = \"https://x/torch-2.10.0-2-cp311-cp311-l.whl\", size = 2, hashes = { sha256 = \"02\" } "
        "},\n"
        "    { url = \"https://x/torch-2.10.0-11-cp311-cp311-l.whl\", size = 3, hashes = { sha256 = \"11\" } "
        "},\n"
        "    { url = \"https://x/torch-2.10.0-cp311-cp311-l.whl\", size = 4, hashes = { sha256 = \"04\" } "
        "},\n]\n\n"
        "[[packages]]\nname = \"n\"\nversion = \"2\"\nwheels = [\n"
        "    { url = \"https://x/n-2-py3-none-any.whl\", size = 2, hashes = { sha256 = \"0a\" } },\n"
        "    { url = \"file:///no%20where/n-2-py3-none-any.whl\", hashes = { sha256 = \"0b\" } },\n]\n";
    wheels w = {0};
    struct err e;
    assert_int_equal(pylock_parse(text, &w, &e), 0);
    assert_int_equal(w.len, 3);
    assert_string_equal(w.ptr[0].sha256, "aa");
    assert_int_equal(w.ptr[0].size, 12);
    assert_string_equal(w.ptr[1].sha256, "11");
    assert_int_equal(w.ptr[1].size, 3);
    assert_string_equal(w.ptr[2].sha256, "0b");
    struct buf out = BUF_INIT;
    pylock_print(&w, &out);
    assert_non_null(strstr(out.ptr,
                           "name = \"a\"\nversion = \"1.0\"\nwheels = [{ url = "
                           "\"https://x/a-1.0-py3-none-any.whl\", hashes = { sha256 = \"aa\" } }]\n"));
    buf_free(&out);
    wheels_free(&w);
    assert_int_equal(pylock_parse("[[packages]]\nname = \"a\"\nversion = \"1\"\n", &w, &e), -1);
    assert_string_equal(e.text, "uv's lock names no wheel with a SHA-256 for a: concord needs one");
    wheels_free(&w);
    assert_int_equal(pylock_parse("", &w, &e), -1);
}

/* ---- specifications and our lock ------------------------------------------------------------------------
 */

static void known_releases(void **state)
{
    (void)state;
    struct env_spec s;
    struct err e;
    assert_int_equal(env_spec_known("2.6.0", &s, &e), 0);
    assert_string_equal(s.torch_npu, "2.6.0.post5");
    assert_string_equal(s.name, "2.6.0");
    assert_int_equal(s.pins.len, 1);
    assert_string_equal(s.pins.ptr[0].version, "1.13.1");
    env_spec_free(&s);
    assert_int_equal(env_spec_known("2.7.2", &s, &e), -1);
    assert_string_equal(e.text, "unknown release '2.7.2': did you mean '2.7.1'?");
    assert_int_equal(env_spec_known("main", &s, &e), -1);
    assert_string_equal(e.text,
                        "unknown release 'main': known are 2.6.0 to 2.13.0; a campaign file can name others");
    struct campaign_release usual = {.torch = "2.9.0", .torch_npu = "2.9.0"};
    struct campaign_release post = {.torch = "2.9.0", .torch_npu = "2.9.0.post2"};
    env_spec_campaign(&usual, &s);
    assert_string_equal(s.name, "2.9.0");
    env_spec_free(&s);
    env_spec_campaign(&post, &s);
    assert_string_equal(s.name, "2.9.0.post2");
    assert_string_equal(s.torch, "2.9.0");
    env_spec_free(&s);
}

static void plant_environment(const struct env_spec *s, wheels *w)
{
    struct err e = {""};
    char *envs = envs_folder(), *folder = path_join(envs, s->name), *bin = path_join(folder, "bin");
    char *python = path_join(bin, "python");
    assert_int_equal(dir_make(bin, &e), 0);
    unlink(python);
    assert_int_equal(symlink("/bin/sh", python), 0);
    struct trim_result trim = {0};
    struct uv u = {.python = "/usr/bin/python3"};
    assert_int_equal(lock_write(folder, s, &u, "3.11.2", TRIM_SLIM, w, &trim, &e), 0);
    free(envs), free(folder), free(bin), free(python);
}

static char *why_stale(const struct env_spec *s)
{
    struct env_info info;
    env_look(s->name, s, &info);
    assert_int_equal(info.state, ENV_STALE);
    char *why = xstrdup(info.why);
    env_info_free(&info);
    return why;
}

static void expect_stale(const struct env_spec *s, const char *why)
{
    char *said = why_stale(s);
    assert_string_equal(said, why);
    free(said);
    struct err e;
    assert_null(env_folder(s, &e));
    assert_non_null(strstr(e.text, "is stale"));
    assert_non_null(strstr(e.text, "concord env create 2.6.0"));
}

static void environments_are_judged(void **state)
{
    (void)state;
    setenv("CONCORD_HOME", scratch, 1);
    struct env_spec s;
    struct err e;
    assert_int_equal(env_spec_known("2.6.0", &s, &e), 0);
    assert_null(env_folder(&s, &e));
    assert_string_equal(e.text, "there is no environment for release 2.6.0: run `concord env create 2.6.0`");
    struct wheel sympy = {"sympy", "1.13.1", "https://x/sympy-1.13.1-py3-none-any.whl", "ab", 1};
    wheels w = {&sympy, 1, 1};
    plant_environment(&s, &w);
    char *folder = env_folder(&s, &e);
    assert_non_null(folder);
    struct env_info info;
    env_look("2.6.0", &s, &info);
    assert_int_equal(info.state, ENV_READY);
    assert_string_equal(info.torch_npu, "2.6.0.post5");
    assert_string_equal(info.python, "3.11.2");
    assert_string_equal(info.packages.ptr[0].wheel, "sympy-1.13.1-py3-none-any.whl");
    env_info_free(&info);
    sympy.version = "1.14.0";
    plant_environment(&s, &w);
    expect_stale(&s, "it has sympy 1.14.0, wanted is 1.13.1");
    sympy.version = "1.13.1";
    plant_environment(&s, &w);
    char *kept = s.torch_npu;
    s.torch_npu = "2.6.0";
    expect_stale(&s, "it has torch_npu 2.6.0.post5, wanted is 2.6.0");
    s.torch_npu = kept;
    char *python = path_join(folder, "bin/python"), *lock = path_join(folder, "concord-lock.json");
    assert_int_equal(unlink(python), 0);
    expect_stale(&s, "the Python that it was made with is gone");
    write_text(lock, "{\"format\": 99}");
    expect_stale(&s, "its lock has format 99, this concord makes 1");
    write_text(lock, "{");
    expect_stale(&s, "it has no readable concord-lock.json");
    strings names = {0};
    assert_int_equal(env_list(&names, &e), 0);
    assert_int_equal(names.len, 1);
    strings_free(&names);
    assert_int_equal(env_remove("../2.6.0", &e), -1);
    assert_int_equal(env_remove("2.6.0", &e), 0);
    assert_false(path_exists(folder));
    assert_int_equal(env_remove("2.6.0", &e), -1);
    assert_string_equal(e.text, "there is no environment '2.6.0': `concord env list` names them");
    free(python), free(lock), free(folder);
    env_spec_free(&s);
}

/* ---- what create refuses --------------------------------------------------------------------------------
 */

static int create(const char *release, struct env_options o, struct err *e)
{
    struct env_spec s;
    assert_int_equal(env_spec_known(release, &s, e), 0);
    o.quiet = true;
    int rc = env_create(&s, 1, &o, e);
    env_spec_free(&s);
    return rc;
}

/* A uv that says what the real one says, so that the messages are tested without a network. */
static void fake_uv(const char *compile)
{
    struct err e;
    char *path = in_scratch("fake-uv");
    struct buf b = BUF_INIT;
    buf_addf(&b,
             "#!/bin/sh\ncase \"$1 $2\" in\n'--version '*) echo 'uv 0.9.0';;\n'python find') echo /bin/sh;;\n"
             "'pip compile') %s;;\n*) exit 9;;\nesac\n",
             compile);
    assert_int_equal(file_write(path, b.ptr, b.len, 0755, &e), 0);
    setenv("CONCORD_UV", path, 1);
    buf_free(&b);
    free(path);
}

static void expect_failure(const char *compile, const char *start)
{
    struct err e = {""};
    fake_uv(compile);
    assert_int_equal(create("2.7.1", (struct env_options){0}, &e), -1);
    if (!str_starts(e.text, start)) assert_string_equal(e.text, start);
    assert_null(strchr(e.text, '\n'));
    char *envs = envs_folder();
    strings left = {0};
    assert_int_equal(dir_list(envs, &left, &e), 0);
    for (size_t i = 0; i < left.len; i++)
        assert_true(str_ends(left.ptr[i], ".lock")); /* nothing is left behind */
    strings_free(&left);
    free(envs);
}

static void create_says_what_is_wrong(void **state)
{
    (void)state;
    char *home = in_scratch("home"), *none = in_scratch("none");
    setenv("CONCORD_HOME", home, 1);
    unsetenv("CONCORD_WHEELS");
    unsetenv("CONCORD_PYTHON");
    struct err e;
    expect_failure(
        "printf 'error: Request failed after 3 retries\\n  cause: Failed to fetch: x\\n' >&2; exit 2",
        "environment 2.7.1: the package index cannot be reached: check network and proxy, or give folders of "
        "wheels with --find-links and --offline (uv: Request failed after 3 retries cause: Failed to fetch: "
        "x)");
    expect_failure(
        "printf 'error: torch-npu==2.7.1 has no wheels with a matching Python ABI tag\\n\\nhint: x\\n' >&2; "
        "exit 1",
        "environment 2.7.1: no wheel for this Python or machine: install another Python and name it in "
        "CONCORD_PYTHON (uv: torch-npu==2.7.1 has no wheels with a matching Python ABI tag)");
    expect_failure(
        "echo 'error: Failed to read metadata from x' >&2; exit 2",
        "environment 2.7.1: a wheel is damaged: fetch it again (uv: Failed to read metadata from x)");
    expect_failure("echo odd >&2; exit 3", "environment 2.7.1: uv failed (status 3): odd");
    expect_failure("echo nothing useful", "environment 2.7.1: uv's lock is empty");
    expect_failure("printf '[[packages]]\\nname = \"torch\"\\nversion = \"2.7.1\"\\nwheels = [{ url = "
                   "\"https://x/t.whl\", "
                   "size = 99000000000000, hashes = { sha256 = \"00\" } }]\\n'",
                   "environment 2.7.1: not enough disk: ");
    setenv("CONCORD_UV", "/bin/false", 1);
    assert_int_equal(create("2.7.1", (struct env_options){0}, &e), -1);
    assert_string_equal(e.text, "CONCORD_UV: '/bin/false' is not uv 0.8.0 or newer");
    strings links = {0};
    *vec_push(&links) = xstrdup(none);
    assert_int_equal(create("2.7.1", (struct env_options){.find_links = &links}, &e), -1);
    assert_non_null(strstr(e.text, "no folder of wheels '"));
    strings_free(&links);
    assert_int_equal(create("2.7.1", (struct env_options){.offline = true}, &e), -1);
    assert_non_null(strstr(e.text, "offline and no folder of wheels"));
    unsetenv("CONCORD_UV");
    free(home);
    free(none);
}

static void pip_index_is_taken_over(void **state)
{
    (void)state;
    setenv("XDG_CONFIG_HOME", scratch, 1);
    setenv("PIP_INDEX_URL", "https://mirror.example/simple", 1);
    unsetenv("UV_DEFAULT_INDEX");
    unsetenv("UV_INDEX_URL");
    unsetenv("UV_CONFIG_FILE");
    if (path_exists("/etc/uv/uv.toml")) skip();
    char *index = uv_default_index();
    assert_string_equal(index, "https://mirror.example/simple");
    free(index);
    setenv("UV_DEFAULT_INDEX", "https://other.example/simple", 1);
    assert_null(uv_default_index());
    unsetenv("UV_DEFAULT_INDEX");
    char *config = in_scratch("uv/uv.toml");
    write_text(config, "");
    assert_null(uv_default_index());
    unsetenv("PIP_INDEX_URL");
    unsetenv("XDG_CONFIG_HOME");
    free(config);
}

/* ---- doctor ---------------------------------------------------------------------------------------------
 */

static const struct finding *find(const findings *f, const char *name)
{
    for (size_t i = 0; i < f->len; i++)
        if (!strcmp(f->ptr[i].name, name)) return &f->ptr[i];
    fail_msg("no finding '%s'", name);
    return NULL;
}

static void doctor_sees_what_is_planted(void **state)
{
    (void)state;
    char *dev = in_scratch("dev"), *home = in_scratch("Ascend/latest"), *p;
    write_text(p = path_join(dev, "davinci0"), "");
    free(p);
    write_text(p = path_join(home, "set_env.sh"), "");
    free(p);
    write_text(p = path_join(home, "compiler/version.info"), "x=1\nVersion=8.1.RC1\n");
    free(p);
    unsetenv("ASCEND_HOME_PATH");
    const char *homes[] = {home, NULL}, *no_homes[] = {NULL};
    struct doctor_places places = {.probe = {.dev = dev, .launcher = "/nowhere", .homes = homes}};
    places.disk_free = 50000000000u, places.memory = 16000000000u;
    findings f = {0};
    doctor_examine(&places, &f);
    assert_int_equal(find(&f, "device files")->status, FINDING_OK);
    assert_true(str_starts(find(&f, "CANN toolkit")->text, "8.1.RC1 in "));
    assert_int_equal(find(&f, "software device")->status, FINDING_NOTE);
    assert_true(str_starts(find(&f, "device")->text, "hardware: "));
    assert_int_equal(find(&f, "disk")->status, FINDING_OK);
    findings_free(&f);
    places.probe.dev = scratch, places.probe.homes = no_homes;
    places.disk_free = 1000000000u, places.memory = 2000000000u;
    assert_false(doctor_examine(&places, &f));
    assert_int_equal(find(&f, "device files")->status, FINDING_NOTE);
    assert_int_equal(find(&f, "device")->status, FINDING_MISSING);
    assert_non_null(find(&f, "device")->mend);
    assert_int_equal(find(&f, "disk")->status, FINDING_MISSING);
    assert_int_equal(find(&f, "memory")->status, FINDING_NOTE);
    json_t *j = findings_json(&f);
    assert_int_equal(json_array_size(j), f.len);
    json_decref(j);
    findings_free(&f);
    free(dev);
    free(home);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--say-hello")) return puts("hello") < 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standin_functions_work),
        cmocka_unit_test(standin_stops_by_name),
        cmocka_unit_test(standin_type_info),
        cmocka_unit_test(standin_hollow_object),
        cmocka_unit_test(standin_reads_back),
        cmocka_unit_test(strip_keeps_a_program_running),
        cmocka_unit_test(strip_closes_a_gap),
        cmocka_unit_test(strip_refuses_damage),
        cmocka_unit_test(trim_finds_what_is_missing),
        cmocka_unit_test(trim_slim_replaces_cuda_code),
        cmocka_unit_test(mark_makes_a_cpu_build),
        cmocka_unit_test(pylock_takes_the_best_wheel),
        cmocka_unit_test(known_releases),
        cmocka_unit_test(environments_are_judged),
        cmocka_unit_test(create_says_what_is_wrong),
        cmocka_unit_test(pip_index_is_taken_over),
        cmocka_unit_test(doctor_sees_what_is_planted),
    };
    return cmocka_run_group_tests(tests, make_scratch, drop_scratch);
}
