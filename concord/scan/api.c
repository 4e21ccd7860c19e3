/* api.c - API names taken apart. */
#include "concord/scan/scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const scan_match_names[SCAN_NMATCH] = {"exact",    "alias", "method",
                                                   "operator", "star",  "receiver"};
const char *const scan_coverage_names[SCAN_NCOVERAGE] = {"direct", "indirect", "weak"};

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
