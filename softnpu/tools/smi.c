/* smi.c - softnpu-smi: devices, memory and processes, in the manner of npu-smi. */
#include "softnpu/runtime/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MB = 32768 };

static const char usage[] = "usage: softnpu-smi info [--json]   devices, memory and processes of this user\n";

static void rule(void)
{
    puts(
        "+---------------------------+---------------+----------------------------------------------------+");
}

static int device_count(void)
{
    const char *v = getenv("SOFTNPU_DEVICES");
    int n = v && *v ? atoi(v) : 1;
    return n < 0 ? 0 : n > 16 ? 16 : n;
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

static void print_table(struct usage_table *t, int devices)
{
    struct usage_slot *slots[USAGE_SLOTS];
    const char *soc = getenv("SOFTNPU_SOC");
    if (!soc || !*soc) soc = "Ascend910B4";
    if (!strncmp(soc, "Ascend", 6)) soc += 6;
    rule();
    printf("| %-94s |\n", "softnpu-smi " SOFTNPU_VERSION "                 software device");
    rule();
    printf("| %-25s | %-13s | %-50s |\n", "NPU   Name", "Health", "Bus-Id    Memory-Usage(MB)");
    rule();
    for (int d = 0; d < devices; d++) {
        int n = live_slots(t, d, slots);
        printf("| %-5d %-19s | %-13s | %-9s %-5llu / %-32d |\n", d, soc, "OK", "software", used_mb(slots, n),
               CAPACITY_MB);
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

static void print_json(struct usage_table *t, int devices)
{
    struct usage_slot *slots[USAGE_SLOTS];
    printf("{\"kind\": \"software\", \"devices\": [");
    for (int d = 0; d < devices; d++) {
        int n = live_slots(t, d, slots);
        printf("%s{\"id\": %d, \"health\": \"OK\", \"memory_mb\": %d, \"used_mb\": %llu, \"processes\": [",
               d ? ", " : "", d, CAPACITY_MB, used_mb(slots, n));
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

int main(int argc, char **argv)
{
    bool json = argc == 3 && !strcmp(argv[2], "--json");
    if (argc == 2 && !strcmp(argv[1], "--help")) return fputs(usage, stdout), 0;
    if ((argc != 2 && !json) || strcmp(argv[1], "info")) return fputs(usage, stderr), 2;
    struct usage_table *t = usage_map(false);
    (json ? print_json : print_table)(t, device_count());
    return 0;
}
