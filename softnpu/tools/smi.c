/* smi.c - softnpu-smi: devices, memory and processes, in the manner of npu-smi. */
#include "softnpu/runtime/usage.h"
#include "softnpu/runtime/variable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: softnpu-smi info [--json]                 devices, memory and processes of this user\n"
    "       softnpu-smi info -l                       the devices' numbers\n"
    "       softnpu-smi info -t memory|usages|board|proc-mem -i N   one device, a line a fact\n";

static int devices; /* how many, and of which kind: set by main */
static const struct soc *soc;

static void rule(void)
{
    puts(
        "+---------------------------+---------------+----------------------------------------------------+");
}

/* Copies the slots of living processes that hold memory on the device; their number. */
static int live_slots(struct usage_table *t, int device, struct usage_slot **out)
{
    int n = 0;
    for (int i = 0; t && i < USAGE_SLOTS; i++) {
        struct usage_slot *s = &t->slot[i];
        if (atomic_load(&s->pid) && s->device == device && atomic_load(&s->used) && !usage_is_stale(s))
            out[n++] = s;
    }
    return n;
}

static unsigned long long used_mb(struct usage_slot **s, int n)
{
    unsigned long long bytes = 0;
    for (int i = 0; i < n; i++) bytes += atomic_load(&s[i]->used);
    return (bytes + (1 << 20) - 1) >> 20;
}

/* As npu-smi writes it: without "Ascend". */
static const char *model(void)
{
    return soc->name + strlen("Ascend");
}

static unsigned long long capacity_mb(void)
{
    return soc->memory >> 20;
}

static void print_table(struct usage_table *t)
{
    struct usage_slot *slots[USAGE_SLOTS];
    const char *name = model();
    rule();
    printf("| %-94s |\n", "softnpu-smi " SOFTNPU_VERSION "                 software device");
    rule();
    printf("| %-25s | %-13s | %-50s |\n", "NPU   Name", "Health", "Bus-Id    Memory-Usage(MB)");
    rule();
    for (int d = 0; d < devices; d++) {
        int n = live_slots(t, d, slots);
        printf("| %-5d %-19s | %-13s | %-9s %-5llu / %-32llu |\n", d, name, "OK", "software",
               used_mb(slots, n), capacity_mb());
    }
    rule();
    printf("| %-25s | %-13s | %-50s |\n", "NPU", "Process id", "Process name             Process memory(MB)");
    rule();
    for (int d = 0; d < devices; d++) {
        int n = live_slots(t, d, slots);
        for (int i = 0; i < n; i++)
            printf("| %-25d | %-13d | %-24.24s %-25llu |\n", d, atomic_load(&slots[i]->pid), slots[i]->name,
                   used_mb(&slots[i], 1));
        if (!n) printf("| %-94s |\n", "No running processes found");
    }
    rule();
}

static void print_text(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20)
            printf("\\u%04x", (unsigned char)*s);
        else if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else
            putchar(*s);
    }
    putchar('"');
}

static void print_json(struct usage_table *t)
{
    struct usage_slot *slots[USAGE_SLOTS];
    printf("{\"kind\": \"software\", \"devices\": [");
    for (int d = 0; d < devices; d++) {
        int n = live_slots(t, d, slots);
        printf("%s{\"id\": %d, \"health\": \"OK\", \"memory_mb\": %llu, \"used_mb\": %llu, \"processes\": [",
               d ? ", " : "", d, capacity_mb(), used_mb(slots, n));
        for (int i = 0; i < n; i++) {
            printf("%s{\"pid\": %d, \"used_mb\": %llu, \"name\": ", i ? ", " : "",
                   atomic_load(&slots[i]->pid), used_mb(&slots[i], 1));
            print_text(slots[i]->name);
            putchar('}');
        }
        printf("]}");
    }
    puts("]}");
}

static void print_list(void)
{
    printf("\tTotal Count                    : %d\n", devices);
    for (int d = 0; d < devices; d++)
        printf("\n\tNPU ID                         : %d\n\tChip Count                     : 1\n", d);
}

static void fact(const char *name, const char *value)
{
    printf("\t%-31s: %s\n", name, value);
}

static void number(const char *name, unsigned long long value)
{
    printf("\t%-31s: %llu\n", name, value);
}

static void print_memory(struct usage_slot **slots, int n)
{
    number("HBM Capacity(MB)", capacity_mb());
    number("HBM Usage(MB)", used_mb(slots, n));
    number("HBM Usage Rate(%)", used_mb(slots, n) * 100 / capacity_mb());
}

static void print_usages(struct usage_slot **slots, int n)
{
    number("HBM Capacity(MB)", capacity_mb());
    number("HBM Usage Rate(%)", used_mb(slots, n) * 100 / capacity_mb());
    number("Processes", (unsigned long long)n);
}

static void print_board(struct usage_slot **slots, int n)
{
    (void)slots, (void)n;
    fact("Product Name", model());
    fact("Manufacturer", "softnpu (software device)");
    fact("Software Version", SOFTNPU_VERSION);
    number("Cube Cores", (unsigned long long)soc->cube_cores);
    number("Vector Cores", (unsigned long long)soc->vector_cores);
}

static void print_processes(struct usage_slot **slots, int n)
{
    for (int i = 0; i < n; i++)
        printf("\tProcess id:%d        Process name:%s        Process memory(MB):%llu\n",
               atomic_load(&slots[i]->pid), slots[i]->name, used_mb(&slots[i], 1));
}

static const struct {
    const char *name;
    void (*print)(struct usage_slot **slots, int n);
} queries[] = {{"memory", print_memory},
               {"usages", print_usages},
               {"board", print_board},
               {"proc-mem", print_processes}};

/* info -t WHAT -i DEVICE, in either order. */
static int query(struct usage_table *t, int argc, char **argv)
{
    const char *what = NULL, *device = NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "-t")) what = argv[i + 1];
        if (!strcmp(argv[i], "-i")) device = argv[i + 1];
    }
    if (argc != 6 || !what || !device) return fputs(usage, stderr), 2;
    char *end;
    long d = strtol(device, &end, 10);
    if (*end || !*device || d < 0 || d >= devices)
        return fprintf(stderr, "softnpu-smi: no device %s: there are %d (SOFTNPU_DEVICES)\n", device,
                       devices),
               2;
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        if (strcmp(queries[i].name, what)) continue;
        struct usage_slot *slots[USAGE_SLOTS];
        int n = live_slots(t, (int)d, slots);
        number("NPU ID", (unsigned long long)d);
        queries[i].print(slots, n);
        return 0;
    }
    fprintf(stderr, "softnpu-smi: unknown query '%s'\n%s", what, usage);
    return 2;
}

int main(int argc, char **argv)
{
    bool json = argc == 3 && !strcmp(argv[2], "--json");
    if (argc == 2 && !strcmp(argv[1], "--help")) return fputs(usage, stdout), 0;
    if (argc < 2 || strcmp(argv[1], "info")) return fputs(usage, stderr), 2;
    devices = variable_devices("softnpu-smi"), soc = variable_soc("softnpu-smi");
    struct usage_table *t = usage_map(false);
    if (argc == 3 && !strcmp(argv[2], "-l")) return print_list(), 0;
    if (argc > 2 && !json) return query(t, argc, argv);
    (json ? print_json : print_table)(t);
    return 0;
}
