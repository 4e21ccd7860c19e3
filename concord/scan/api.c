/* api.c - API names, and how a resolved name at a call site is recognised as one. */
#include "concord/scan/match.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const scan_match_names[SCAN_NMATCH] = {"exact",    "alias",    "method",
                                                   "receiver", "operator", "star"};

/* Python's own spelling of methods as operators (language reference, "Emulating numeric types"). */
/* clang-format off */
static const struct { const char *method, *op; } operators[] = {
    {"__add__", "+"}, {"add", "+"}, {"__iadd__", "+="}, {"add_", "+="}, {"__sub__", "-"}, {"sub", "-"},
    {"__isub__", "-="}, {"sub_", "-="}, {"__mul__", "*"}, {"mul", "*"}, {"__imul__", "*="}, {"mul_", "*="},
    {"__truediv__", "/"}, {"div", "/"}, {"true_divide", "/"}, {"__itruediv__", "/="}, {"div_", "/="},
    {"__floordiv__", "//"}, {"__ifloordiv__", "//="}, {"__mod__", "%"}, {"remainder", "%"}, {"__imod__", "%="},
    {"__pow__", "**"}, {"pow", "**"}, {"__ipow__", "**="}, {"__matmul__", "@"}, {"matmul", "@"},
    {"__and__", "&"}, {"bitwise_and", "&"}, {"__or__", "|"}, {"bitwise_or", "|"}, {"__xor__", "^"},
    {"bitwise_xor", "^"}, {"__lshift__", "<<"}, {"__rshift__", ">>"}, {"__neg__", "u-"}, {"neg", "u-"},
    {"__invert__", "u~"}, {"bitwise_not", "u~"}, {"__eq__", "=="}, {"eq", "=="}, {"__ne__", "!="}, {"ne", "!="},
    {"__lt__", "<"}, {"lt", "<"}, {"__le__", "<="}, {"le", "<="}, {"__gt__", ">"}, {"gt", ">"}, {"__ge__", ">="},
    {"ge", ">="},
};
/* clang-format on */

int scan_api_parse(const char *name, struct scan_api *out, struct err *e)
{
    bool start = true;
    for (const char *c = name; *c; c++) {
        if (*c == '.' ? start
                      : !(isalpha((unsigned char)*c) || *c == '_' || (!start && isdigit((unsigned char)*c))))
            return err_set(
                e, "'%s' is not an API name: write the full dotted name, e.g. torch.nn.functional.relu",
                name);
        start = *c == '.';
    }
    if (start || !strchr(name, '.'))
        return err_set(
            e, "'%s' is not an API name: write the full dotted name, e.g. torch.nn.functional.relu", name);
    *out = (struct scan_api){.name = xstrdup(name)};
    out->leaf = strrchr(out->name, '.') + 1;
    const char *parent = out->leaf - 2;
    while (parent > out->name && parent[-1] != '.') parent--;
    if (isupper((unsigned char)parent[0]) || (parent[0] == '_' && isupper((unsigned char)parent[1])))
        out->owner = xstrndup(parent, (size_t)(out->leaf - 1 - parent));
    bool tensor = out->owner && !strcmp(out->owner, "Tensor");
    for (size_t i = 0; tensor && i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].method, out->leaf)) out->operator_ = operators[i].op;
    return 0;
}

void scan_api_free(struct scan_api *a)
{
    free((char *)a->name);
    free((char *)a->owner);
    *a = (struct scan_api){0};
}

/* True when `resolved` names the same thing by a shorter path: both begin alike, end alike, and what the
 * API's name has in between are modules (torch.distributed.distributed_c10d.Store and
 * torch.distributed.Store). */
static bool is_shorter_path(const char *resolved, const char *name)
{
    size_t nr = strlen(resolved), nn = strlen(name), head = 0, tail = 0;
    if (nr >= nn || !str_starts(resolved, "torch.")) return false;
    for (size_t i = 0; i < nr && resolved[i] == name[i]; i++)
        if (resolved[i] == '.') head = i + 1;
    for (size_t i = 1; i <= nr - head && resolved[nr - i] == name[nn - i]; i++)
        if (i == nr - head || resolved[nr - i - 1] == '.') tail = i;
    if (!head || head + tail != nr) return false;
    for (const char *c = name + head; c < name + nn - tail; c++)
        if (isupper((unsigned char)*c)) return false;
    return true;
}

static bool known_instance(struct py_file *f, const struct py_ref *r, const struct scan_api *api, bool *known)
{
    char *base = xstrndup(r->chain, (size_t)(strrchr(r->chain, '.') - r->chain));
    const char *type = strchr(base, '.') ? NULL : py_resolve_instance(f, r->scope, base);
    free(base);
    *known = type && type[0] != '.' &&
             (strrchr(type, '.') ? isupper((unsigned char)strrchr(type, '.')[1]) : false);
    if (!*known) return false;
    const char *last = strrchr(type, '.') + 1;
    return !strcmp(last, api->owner);
}

static bool ends_with_leaf(const char *chain, const char *leaf)
{
    const char *dot = strrchr(chain, '.');
    return !strcmp(dot ? dot + 1 : chain, leaf);
}

enum scan_match match_ref(struct py_file *f, const struct py_ref *r, const struct scan_api *api)
{
    if (!ends_with_leaf(r->chain, api->leaf)) {
        /* `import ... as x`: only a bare name can be spelt differently */
        if (strchr(r->chain, '.')) return SCAN_NMATCH;
        const char *whole = py_resolve(f, r->scope, r->chain);
        return whole && !strcmp(whole, api->name) ? SCAN_EXACT : SCAN_NMATCH;
    }
    const char *resolved = py_resolve(f, r->scope, r->chain);
    if (resolved) {
        if (!strcmp(resolved, api->name)) return SCAN_EXACT;
        return is_shorter_path(resolved, api->name) ? SCAN_ALIAS : SCAN_NMATCH;
    }
    if (api->owner) {
        if (!strchr(r->chain, '.')) return SCAN_NMATCH;
        bool known = false;
        if (r->chain[0] != '?' && known_instance(f, r, api, &known)) return SCAN_METHOD;
        return known ? SCAN_NMATCH : SCAN_RECEIVER;
    }
    return !strchr(r->chain, '.') && py_has_star(f) ? SCAN_STAR : SCAN_NMATCH;
}
