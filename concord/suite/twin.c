/* twin.c - pairs of a test on the device and on the CPU. */
#include "concord/suite/twin.h"

#include <stdlib.h>
#include <string.h>

const char *twin_text(enum twin t)
{
    static const char *const texts[] = {
#define X(id, text) [TWIN_##id] = text,
        TWINS(X)
#undef X
    };
    _Static_assert(sizeof texts / sizeof *texts == NTWINS, "one text a twin");
    return texts[t];
}

static bool fails(enum verdict v)
{
    return v == VERDICT_FAILED || v == VERDICT_ERROR || v == VERDICT_CRASHED || v == VERDICT_TIMEOUT ||
           v == VERDICT_FLAKY || v == VERDICT_XFAIL || v == VERDICT_XPASS;
}

enum twin twin_compare(const struct suite_case *device, const struct suite_case *cpu)
{
    if (!cpu) return TWIN_DEVICE_ONLY;
    if (!device) return TWIN_CPU_ONLY;
    enum verdict d = device->verdict, c = cpu->verdict;
    if (d == VERDICT_NOT_RUN || c == VERDICT_NOT_RUN) return TWIN_NOT_RUN;
    if (fails(d) && fails(c)) return TWIN_BOTH_FAIL;
    if (fails(d) && c == VERDICT_PASSED) return TWIN_DEVICE_FAILS;
    if (d == VERDICT_PASSED && c == VERDICT_PASSED) return TWIN_SAME;
    if (d == VERDICT_NO_PROOF && c == VERDICT_PASSED) return TWIN_UNPROVED;
    if (d == VERDICT_SKIPPED && c == VERDICT_PASSED) return TWIN_DEVICE_SKIPS;
    if (fails(c)) return TWIN_CPU_FAILS;
    return fails(d) ? TWIN_DEVICE_FAILS : TWIN_OTHERWISE;
}

static const struct suite_unit *unit_of(const struct suite_run *r, const char *name, enum side side)
{
    for (size_t i = 0; i < r->units.len; i++)
        if (r->units.ptr[i]->side == side && !strcmp(r->units.ptr[i]->name, name)) return r->units.ptr[i];
    return NULL;
}

/* Cases by their key; of several with one key the first that is not taken yet pairs. */
static void index_cases(const struct suite_unit *u, struct map *out)
{
    for (size_t i = 0; u && i < u->cases.len; i++) {
        if (u->cases.ptr[i]->node[0] == '[') continue; /* what stands for the file as a whole */
        char *key = suite_twin_key(u->cases.ptr[i]->node);
        void **slot = map_put(out, key);
        if (!*slot) *slot = u->cases.ptr[i];
        free(key);
    }
}

typedef void pair_reader(void *context, const struct suite_case *device, const struct suite_case *cpu);

static void each_pair(const struct suite_run *r, const struct suite_unit *device, pair_reader *read,
                      void *context)
{
    struct map cpu = {0}, seen = {0};
    const struct suite_unit *other = unit_of(r, device->name, SIDE_CPU);
    index_cases(other, &cpu);
    for (size_t i = 0; i < device->cases.len; i++) {
        if (device->cases.ptr[i]->node[0] == '[') continue;
        char *key = suite_twin_key(device->cases.ptr[i]->node);
        const struct suite_case *c = map_has(&seen, key) ? NULL : map_get(&cpu, key);
        read(context, device->cases.ptr[i], c);
        *map_put(&seen, key) = &seen;
        free(key);
    }
    for (size_t i = 0; i < cpu.entries.len; i++)
        if (!map_has(&seen, cpu.entries.ptr[i].key)) read(context, NULL, cpu.entries.ptr[i].value);
    map_free(&cpu, NULL);
    map_free(&seen, NULL);
}

static void count_pair(void *context, const struct suite_case *device, const struct suite_case *cpu)
{
    ((int *)context)[twin_compare(device, cpu)]++;
}

void twin_lines(const struct suite_run *r, const struct suite_unit *device, struct buf *out)
{
    int n[NTWINS] = {0};
    each_pair(r, device, count_pair, n);
    bool any = false;
    for (int t = 0; t < NTWINS; t++) {
        if (!n[t]) continue;
        buf_addf(out, "%s%d %s", any ? ", " : "    against the CPU: ", n[t], twin_text((enum twin)t));
        any = true;
    }
    if (any) buf_addc(out, '\n');
}

static void list_pair(void *context, const struct suite_case *device, const struct suite_case *cpu)
{
    enum twin t = twin_compare(device, cpu);
    json_t *counts = json_object_get(context, "counts"), *list = json_object_get(context, "differ");
    json_int_t before = json_integer_value(json_object_get(counts, twin_text(t)));
    json_object_set_new(counts, twin_text(t), json_integer(before + 1));
    if (t == TWIN_SAME || t == TWIN_OTHERWISE || t == TWIN_UNPROVED || t == TWIN_NOT_RUN) return;
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:s, s:s}", "node", device ? device->node : cpu->node, "is",
                                    twin_text(t), "device", device ? verdict_name(device->verdict) : "",
                                    "cpu", cpu ? verdict_name(cpu->verdict) : ""));
}

json_t *twin_json(const struct suite_run *r)
{
    json_t *all = json_object();
    for (size_t i = 0; i < r->units.len; i++) {
        if (r->units.ptr[i]->side != SIDE_DEVICE) continue;
        json_t *one = json_pack("{s:{}, s:[]}", "counts", "differ");
        each_pair(r, r->units.ptr[i], list_pair, one);
        json_object_set_new(all, r->units.ptr[i]->name, one);
    }
    return all;
}

static void add_to(json_t *row, const char *key, json_int_t n)
{
    json_object_set_new(row, key, json_integer(json_integer_value(json_object_get(row, key)) + n));
}

static json_t *row_of(json_t *all, const char *name)
{
    json_t *row = json_object_get(all, name);
    if (!row) {
        row = json_object();
        json_object_set_new(all, name, row);
    }
    return row;
}

json_t *twin_operators_json(const struct suite_run *r)
{
    json_t *all = json_object();
    for (size_t i = 0; i < r->units.len; i++) {
        for (size_t k = 0; k < r->units.ptr[i]->cases.len; k++) {
            const json_t *facts = r->units.ptr[i]->cases.ptr[k]->facts;
            const char *name;
            json_t *launches, *fallback;
            size_t n;
            json_object_foreach(json_object_get(facts, "operators"), name, launches)
            {
                json_t *row = row_of(all, name);
                add_to(row, "launches", json_integer_value(launches));
                add_to(row, "tests", 1);
            }
            json_array_foreach(json_object_get(facts, "fallbacks"), n, fallback)
                add_to(row_of(all, json_string_value(fallback)), "fallbacks", 1);
        }
    }
    return all;
}
