/* trim.c - finds what a CUDA build of torch lacks here, and writes stand-ins for it.
 *
 * Libraries that nobody provides are found by following DT_NEEDED; the names that a stand-in must define are
 * the undefined symbols that no library present defines.
 */
#include "concord/env/trim.h"

#include "concord/env/elf_object.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* torch's own libraries of CUDA code: in slim mode they go. Others in torch/lib call into them but run
 * without. */
static const char *const cuda_code[] = {"libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so",
                                        "libcaffe2_nvrtc.so"};
enum { NCUDA_CODE = sizeof cuda_code / sizeof *cuda_code };

/* A machine's own CUDA, of whatever version, must not leak in: these never count as present in the system. */
static const char *const vendor_prefixes[] = {"libcu", "libnv", "libnccl", NULL};

static const char *const system_folders[] = {"/lib/x86_64-linux-gnu",
                                             "/usr/lib/x86_64-linux-gnu",
                                             "/lib/aarch64-linux-gnu",
                                             "/usr/lib/aarch64-linux-gnu",
                                             "/lib64",
                                             "/usr/lib64",
                                             "/lib",
                                             "/usr/lib",
                                             NULL};

/* ---- what a stand-in's functions do -------------------------------------------------------------------- */

/* First match wins; a name ending in '*' is a prefix. The numbers are the libraries' own "not initialised" or
 * "no device" codes (their public reference). C++ functions without a row stop the process, by name. */
static const struct behaviour {
    const char *name;
    enum stub_kind kind;
    uint32_t value;
    const char *type;
} behaviours[] = {
    {"cudaGetDeviceCount", STUB_ZERO_OUT, 0,
     NULL}, /* success and no device: any error is printed by torch's profiler */
    {"cudaGetLastError", STUB_VALUE, 0, NULL},
    {"cudaPeekAtLastError", STUB_VALUE, 0, NULL},
    {"cudaRuntimeGetVersion", STUB_ZERO_OUT, 0, NULL},
    {"cudaDriverGetVersion", STUB_ZERO_OUT, 0, NULL}, /* documented: 0 where no driver is installed */
    {"cudaGetErrorString", STUB_TEXT, 0, NULL},
    {"cudaGetErrorName", STUB_TEXT, 0, NULL},
    {"cudnnGetErrorString", STUB_TEXT, 0, NULL},
    {"cudnnGetVersion", STUB_VALUE, 0, NULL},
    {"ncclGetErrorString", STUB_TEXT, 0, NULL},
    {"ncclGetLastError", STUB_TEXT, 0, NULL},
    {"cublasGetStatusString", STUB_TEXT, 0, NULL},
    {"cusparseGetErrorString", STUB_TEXT, 0, NULL},
    {"nvrtcGetErrorString", STUB_TEXT, 0, NULL},
    {"cudnn*", STUB_VALUE, 1, NULL},     /* CUDNN_STATUS_NOT_INITIALIZED */
    {"cupti*", STUB_VALUE, 15, NULL},    /* CUPTI_ERROR_NOT_INITIALIZED */
    {"cuFile*", STUB_VALUE, 5001, NULL}, /* CU_FILE_DRIVER_NOT_INITIALIZED */
    {"cublas*", STUB_VALUE, 1, NULL},    /* CUBLAS_STATUS_NOT_INITIALIZED */
    {"cusolver*", STUB_VALUE, 1, NULL},  /* CUSOLVER_STATUS_NOT_INITIALIZED */
    {"cusparse*", STUB_VALUE, 1, NULL},  /* CUSPARSE_STATUS_NOT_INITIALIZED */
    {"cufft*", STUB_VALUE, 7, NULL},     /* CUFFT_SETUP_FAILED */
    {"curand*", STUB_VALUE, 101, NULL},  /* CURAND_STATUS_NOT_INITIALIZED */
    {"nccl*", STUB_VALUE, 2, NULL},      /* ncclSystemError */
    {"cuda*", STUB_VALUE, 100, NULL},    /* cudaErrorNoDevice */
    {"cu*", STUB_VALUE, 100, NULL},      /* CUDA_ERROR_NO_DEVICE */
    {"_ZTI*", STUB_TYPEINFO, 0, NULL},
    {"_ZTV*", STUB_VTABLE, 0, NULL},
    /* c10d::get_gil_checker() gives a reference that torch stores a function pointer through, at import. */
    {"_ZN4c10d15get_gil_checkerEv", STUB_SCRATCH, 0, NULL},
    /* c10d::nvshmem_extension::is_nvshmem_available() is asked on every machine. */
    {"_ZN4c10d17nvshmem_extension20is_nvshmem_availableEv", STUB_VALUE, 0, NULL},
    /* ProcessGroupNCCL::Options(bool): torch 2.13 makes one at import, the default of an argument. It is
     * never used, and must not be destroyed as the real one is. */
    {"_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb", STUB_HOLLOW, 0, "_ZTIN4c10d16ProcessGroupNCCL7OptionsE"},
    /* c10::cuda::device_count(), hasPrimaryContext(int8_t): asked on every machine. GetDevice, SetDevice: no
       device. */
    {"_ZN3c104cuda12device_countEv", STUB_VALUE, 0, NULL},
    {"_ZN3c104cuda17hasPrimaryContextEa", STUB_VALUE, 0, NULL},
    {"_ZN3c104cuda9GetDeviceEPa", STUB_VALUE, 100, NULL},
    {"_ZN3c104cuda9SetDeviceEab", STUB_VALUE, 100, NULL},
    {"_Z*", STUB_STOP, 0, NULL},
    {"*", STUB_VALUE, 1, NULL},
};

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    if (pattern[n - 1] != '*') return !strcmp(pattern, name);
    return !strncmp(pattern, name, n - 1);
}

static struct stub stub_for(const char *name, const char *version, const struct elf_symbol *original)
{
    const struct behaviour *b = behaviours;
    while (!matches(b->name, name)) b++; /* the last row matches anything */
    struct stub s = {.name = name, .version = version, .kind = b->kind, .value = b->value, .type = b->type};
    bool plain_data =
        original && original->type == STT_OBJECT && b->kind != STUB_TYPEINFO && b->kind != STUB_VTABLE;
    if (plain_data) s.kind = STUB_DATA, s.value = (uint32_t)original->size;
    return s;
}

/* ---- the libraries ------------------------------------------------------------------------------------- */

/* A library that is needed and not there. */
struct missing {
    char *soname;
    VEC(struct stub) stubs;
    struct map names; /* of stubs, to add each once */
};

struct trim {
    const char *torch, *lib; /* .../torch and .../torch/lib */
    VEC(struct elf_object) present, gone, system;
    struct map files;    /* SONAMEs and file names of present */
    struct map defined;  /* names that present and system define */
    struct map original; /* names that gone defines: struct elf_symbol * */
    VEC(struct missing) missing;
    struct trim_result *result;
};

static bool is_cuda_code(const char *file)
{
    for (int i = 0; i < NCUDA_CODE; i++)
        if (!strcmp(cuda_code[i], file)) return true;
    return false;
}

/* From torch 2.13 on, allocators register the keys of their settings, each once in a process: libc10_cuda and
 * a plugin's allocator name the same keys, and the second to load fails. A CPU build has no libc10_cuda; here
 * it goes then. */
static bool registers_allocator_keys(const struct elf_object *o)
{
    static const char hook[] =
        "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig19getConfigParserHookB5cxx11Ev";
    if (!o->soname || strcmp(o->soname, "libc10_cuda.so") != 0) return false;
    for (size_t i = 0; i < o->symbols.len; i++)
        if (!strcmp(o->symbols.ptr[i].name, hook)) return true;
    return false;
}

static bool is_shared_object_name(const char *file)
{
    return str_ends(file, ".so") || strstr(file, ".so.");
}

static int load_file(struct trim *t, const char *path, bool slim, struct err *e)
{
    if (!elf_is_object(path)) return 0;
    struct elf_object o;
    if (elf_open(path, &o, e)) return -1;
    bool gone = slim && (is_cuda_code(strrchr(path, '/') + 1) || registers_allocator_keys(&o));
    if (gone)
        *vec_push(&t->gone) = o;
    else
        *vec_push(&t->present) = o;
    const char *slash = strrchr(path, '/');
    if (!gone) *map_put(&t->files, slash + 1) = t;
    if (!gone && o.soname) *map_put(&t->files, o.soname) = t;
    return 0;
}

static int load_folder(struct trim *t, const char *folder, bool slim, struct err *e)
{
    strings names = {0};
    int rc = dir_list(folder, &names, e);
    for (size_t i = 0; !rc && i < names.len; i++) {
        if (!is_shared_object_name(names.ptr[i])) continue;
        char *path = path_join(folder, names.ptr[i]);
        rc = load_file(t, path, slim, e);
        free(path);
    }
    strings_free(&names);
    return rc;
}

static char *find_system_library(const char *soname, uint16_t machine)
{
    for (int i = 0; vendor_prefixes[i]; i++)
        if (str_starts(soname, vendor_prefixes[i])) return NULL;
    for (int i = 0; system_folders[i]; i++) {
        char *path = path_join(system_folders[i], soname);
        struct elf_object o;
        struct err ignored;
        if (elf_is_object(path) && !elf_open(path, &o, &ignored)) {
            bool fits = o.machine == machine;
            elf_close(&o);
            if (fits) return path;
        }
        free(path);
    }
    return NULL;
}

static struct missing *find_missing(struct trim *t, const char *soname)
{
    for (size_t i = 0; i < t->missing.len; i++)
        if (!strcmp(t->missing.ptr[i].soname, soname)) return &t->missing.ptr[i];
    return NULL;
}

static void note_needed(struct trim *t, const char *soname, uint16_t machine, struct map *seen)
{
    if (map_has(&t->files, soname) || map_has(seen, soname)) return;
    *map_put(seen, soname) = t;
    char *path = find_system_library(soname, machine);
    struct elf_object o;
    struct err ignored;
    if (!path)
        vec_push(&t->missing)->soname = xstrdup(soname);
    else if (!elf_open(path, &o, &ignored))
        *vec_push(&t->system) = o;
    free(path);
}

/* Sorts every DT_NEEDED into present, system and missing; libraries of the system are followed too. */
static void resolve_needed(struct trim *t)
{
    struct map seen = {0};
    for (size_t i = 0; i < t->present.len; i++)
        for (size_t k = 0; k < t->present.ptr[i].needed.len; k++)
            note_needed(t, t->present.ptr[i].needed.ptr[k], t->present.ptr[i].machine, &seen);
    for (size_t i = 0; i < t->system.len; i++)
        for (size_t k = 0; k < t->system.ptr[i].needed.len; k++)
            note_needed(t, t->system.ptr[i].needed.ptr[k], t->system.ptr[i].machine, &seen);
    map_free(&seen, NULL);
}

static void note_defined(struct map *names, const struct elf_object *o)
{
    for (size_t i = 0; i < o->symbols.len; i++) {
        struct elf_symbol *s = &o->symbols.ptr[i];
        if (s->defined && !s->local) *map_put(names, s->name) = s;
    }
}

static void collect_defined(struct trim *t)
{
    for (size_t i = 0; i < t->present.len; i++) note_defined(&t->defined, &t->present.ptr[i]);
    for (size_t i = 0; i < t->system.len; i++) note_defined(&t->defined, &t->system.ptr[i]);
    for (size_t i = 0; i < t->gone.len; i++) note_defined(&t->original, &t->gone.ptr[i]);
}

/* ---- the names ----------------------------------------------------------------------------------------- */

static size_t common_letters(const char *soname, const char *symbol)
{
    const char *a = soname + (str_starts(soname, "lib") ? 3 : 0);
    size_t n = 0;
    while (a[n] && (a[n] | 32) == (symbol[n] | 32)) n++;
    return n;
}

/* Where an unversioned name goes: of the missing libraries that its user names, the one whose name is
 * nearest, C++ names to torch's own. Any of them would do for the loader, which looks through all. */
static struct missing *home_of(struct trim *t, const struct elf_object *user, const char *name)
{
    struct missing *best = NULL;
    size_t best_score = 0;
    for (size_t i = 0; i < user->needed.len; i++) {
        struct missing *m = find_missing(t, user->needed.ptr[i]);
        if (!m) continue;
        bool both_torch = str_starts(name, "_Z") && str_starts(m->soname, "libtorch");
        size_t score = 1 + (both_torch ? 100 : common_letters(m->soname, name));
        if (score > best_score) best = m, best_score = score;
    }
    if (!best && t->missing.len) best = &t->missing.ptr[0];
    return best;
}

static void add_name(struct trim *t, struct missing *m, const struct elf_symbol *s)
{
    if (map_has(&m->names, s->name)) return;
    *map_put(&m->names, s->name) = m;
    *vec_push(&m->stubs) = stub_for(s->name, s->version, map_get(&t->original, s->name));
}

static void assign_name(struct trim *t, const struct elf_object *user, const struct elf_symbol *s)
{
    if (s->defined || s->bind != STB_GLOBAL) return;
    if (s->file) { /* versioned: the file that has it is named */
        struct missing *m = find_missing(t, s->file);
        if (m) add_name(t, m, s);
        return;
    }
    bool python = str_starts(s->name, "Py") || str_starts(s->name, "_Py"); /* the interpreter has these */
    if (python || map_has(&t->defined, s->name)) return;
    struct missing *m = home_of(t, user, s->name);
    if (m) add_name(t, m, s);
}

static void assign_names(struct trim *t)
{
    for (size_t i = 0; i < t->present.len; i++)
        for (size_t k = 0; k < t->present.ptr[i].symbols.len; k++)
            assign_name(t, &t->present.ptr[i], &t->present.ptr[i].symbols.ptr[k]);
}

/* ---- changing the files -------------------------------------------------------------------------------- */

static int remove_gone(struct trim *t, struct err *e)
{
    for (size_t i = 0; i < t->gone.len; i++) {
        if (tree_remove(t->gone.ptr[i].path, e)) return -1;
        *vec_push(&t->result->removed) = xstrdup(t->gone.ptr[i].path);
    }
    return 0;
}

static int write_standins(struct trim *t, struct err *e)
{
    for (size_t i = 0; i < t->missing.len; i++) {
        struct missing *m = &t->missing.ptr[i];
        char *path = path_join(t->lib, m->soname);
        int rc = standin_write(path, t->present.ptr[0].machine, m->soname, m->stubs.ptr, m->stubs.len, e);
        *vec_push(&t->result->standins) = (struct trim_standin){xstrdup(m->soname), m->stubs.len};
        *vec_push(&t->result->changed) = path;
        if (rc) return rc;
    }
    return 0;
}

static int strip_present(struct trim *t, struct err *e)
{
    for (size_t i = 0; i < t->present.len; i++) {
        const char *path = t->present.ptr[i].path;
        uint64_t saved;
        if (elf_strip(path, &saved, e)) return -1;
        t->result->stripped += saved;
        if (saved) *vec_push(&t->result->changed) = xstrdup(path);
    }
    return 0;
}

static void free_trim(struct trim *t)
{
    for (size_t i = 0; i < t->present.len; i++) elf_close(&t->present.ptr[i]);
    for (size_t i = 0; i < t->gone.len; i++) elf_close(&t->gone.ptr[i]);
    for (size_t i = 0; i < t->system.len; i++) elf_close(&t->system.ptr[i]);
    for (size_t i = 0; i < t->missing.len; i++) {
        free(t->missing.ptr[i].soname);
        vec_free(&t->missing.ptr[i].stubs);
        map_free(&t->missing.ptr[i].names, NULL);
    }
    vec_free(&t->present);
    vec_free(&t->gone);
    vec_free(&t->system);
    vec_free(&t->missing);
    map_free(&t->files, NULL);
    map_free(&t->defined, NULL);
    map_free(&t->original, NULL);
}

int trim_torch(const char *torch, enum trim_mode mode, struct trim_result *r, struct err *e)
{
    *r = (struct trim_result){0};
    char *lib = path_join(torch, "lib");
    struct trim t = {.torch = torch, .lib = lib, .result = r};
    int rc = load_folder(&t, lib, mode == TRIM_SLIM, e);
    if (!rc) rc = load_folder(&t, torch, false, e);
    if (!rc && !t.present.len)
        rc = err_set(e, "'%s' holds no shared libraries: torch is not installed there", lib);
    if (!rc) {
        resolve_needed(&t);
        collect_defined(&t);
        assign_names(&t);
        rc = remove_gone(&t, e);
    }
    if (!rc) rc = write_standins(&t, e);
    if (!rc) rc = strip_present(&t, e);
    free_trim(&t);
    free(lib);
    if (rc) trim_result_free(r);
    return rc;
}

void trim_result_free(struct trim_result *r)
{
    for (size_t i = 0; i < r->standins.len; i++) free(r->standins.ptr[i].library);
    vec_free(&r->standins);
    strings_free(&r->removed);
    strings_free(&r->changed);
    *r = (struct trim_result){0};
}
