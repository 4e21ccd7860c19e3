/* filter.c - a recursive descent parser and its evaluation. */
#include "concord/suite/filter.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum node_kind { NODE_OR, NODE_AND, NODE_NOT, NODE_TEST };
enum op { OP_EQ, OP_NE, OP_HAS, OP_HAS_NOT, OP_LT, OP_LE, OP_GT, OP_GE, OPS };
static const char *const op_text[] = {[OP_EQ] = "=", [OP_NE] = "!=", [OP_HAS] = "~", [OP_HAS_NOT] = "!~",
                                      [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">",  [OP_GE] = ">="};
_Static_assert(sizeof op_text / sizeof *op_text == OPS, "one text an operator");

/* X(name, number): the fields of a case */
#define FIELDS(X)                                                                                            \
    X(name, 0)                                                                                               \
    X(file, 0)                                                                                               \
    X(node, 0) X(suite, 0) X(verdict, 0) X(reason, 0) X(side, 0) X(ms, 1) X(launches, 1) X(attempts, 1)
enum field {
#define X(id, number) FIELD_##id,
    FIELDS(X)
#undef X
        NFIELDS
};
static const struct {
    const char *name;
    bool number;
} fields[] = {
#define X(id, number) {#id, number},
    FIELDS(X)
#undef X
};

struct filter {
    enum node_kind kind;
    struct filter *left, *right;
    enum field field;
    enum op op;
    char *value;
    double number;
};

void filter_free(struct filter *f)
{
    if (!f) return;
    filter_free(f->left);
    filter_free(f->right);
    free(f->value);
    free(f);
}

/* ---- parsing ----------------------------------------------------------------------------------------- */

struct parser {
    const char *text, *p;
    int depth;
    struct err *e;
};
enum { MAX_DEPTH = 100 };

static struct filter *fail(struct parser *x, const char *what)
{
    err_set(x->e, "filter column %d: %s in '%s'", (int)(x->p - x->text) + 1, what, x->text);
    return NULL;
}

static void blanks(struct parser *x)
{
    x->p += strspn(x->p, " \t\n");
}

static bool take_word(struct parser *x, const char *word)
{
    blanks(x);
    size_t n = strlen(word);
    if (strncmp(x->p, word, n) != 0 || !strchr(" \t\n()", x->p[n])) return false;
    x->p += n;
    return true;
}

static char *take_value(struct parser *x)
{
    blanks(x);
    if (*x->p == '\'' || *x->p == '"') {
        const char *end = strchr(x->p + 1, *x->p);
        if (!end) {
            fail(x, "a quote that is not closed");
            return NULL;
        }
        char *value = xstrndup(x->p + 1, (size_t)(end - x->p - 1));
        x->p = end + 1;
        return value;
    }
    size_t n = strcspn(x->p, " \t\n()");
    bool keyword = (n == 3 && (!strncmp(x->p, "and", n) || !strncmp(x->p, "not", n))) ||
                   (n == 2 && !strncmp(x->p, "or", n));
    if (!n || keyword) {
        fail(x, "a value is missing");
        return NULL;
    }
    x->p += n;
    return xstrndup(x->p - n, n);
}

/* The longest operator at p, OPS when there is none. */
static enum op operator_at(const char *p)
{
    enum op best = OPS;
    for (int i = 0; i < OPS; i++)
        if (str_starts(p, op_text[i]) && (best == OPS || strlen(op_text[i]) > strlen(op_text[best])))
            best = (enum op)i;
    return best;
}

static int field_named(const char *p, size_t n)
{
    for (int i = 0; i < NFIELDS; i++)
        if (strlen(fields[i].name) == n && !memcmp(fields[i].name, p, n)) return i;
    return -1;
}

static struct filter *check_number(struct parser *x, struct filter *f)
{
    char *end;
    bool compares = f->op >= OP_LT;
    f->number = strtod(f->value, &end);
    bool number = *f->value && !*end;
    if ((compares || fields[f->field].number) && !number) {
        filter_free(f);
        return fail(x, "a number is expected before this");
    }
    if ((compares && !fields[f->field].number) ||
        (fields[f->field].number && (f->op == OP_HAS || f->op == OP_HAS_NOT))) {
        filter_free(f);
        return fail(x, "this operator does not fit the field");
    }
    return f;
}

static struct filter *parse_test(struct parser *x)
{
    blanks(x);
    size_t n = strcspn(x->p, " \t\n()=!~<>'\"");
    const char *behind = x->p + n + strspn(x->p + n, " \t\n");
    enum op op = operator_at(behind);
    struct filter *f = xcalloc(1, sizeof *f);
    *f = (struct filter){.kind = NODE_TEST, .field = FIELD_name, .op = OP_HAS};
    if (n && op != OPS) {
        int field = field_named(x->p, n);
        if (field < 0) {
            free(f);
            return fail(
                x, "unknown field (name, file, node, suite, verdict, reason, side, ms, launches, attempts)");
        }
        f->field = (enum field)field;
        f->op = op;
        x->p = behind + strlen(op_text[op]);
    }
    f->value = take_value(x);
    if (f->value) return check_number(x, f);
    filter_free(f);
    return NULL;
}

static struct filter *parse_or(struct parser *x);

static struct filter *parse_factor(struct parser *x)
{
    if (x->depth++ > MAX_DEPTH) return fail(x, "too many brackets");
    struct filter *f;
    if (take_word(x, "not")) {
        struct filter *inner = parse_factor(x);
        if (!inner) return NULL;
        f = xcalloc(1, sizeof *f);
        *f = (struct filter){.kind = NODE_NOT, .left = inner};
    } else if (blanks(x), *x->p == '(') {
        x->p++;
        f = parse_or(x);
        blanks(x);
        if (f && *x->p != ')') {
            filter_free(f);
            return fail(x, "')' is missing");
        }
        x->p += f != NULL;
    } else {
        f = parse_test(x);
    }
    x->depth--;
    return f;
}

static struct filter *join(enum node_kind kind, struct filter *left, struct filter *right)
{
    if (!right) {
        filter_free(left);
        return NULL;
    }
    struct filter *f = xcalloc(1, sizeof *f);
    *f = (struct filter){.kind = kind, .left = left, .right = right};
    return f;
}

static struct filter *parse_and(struct parser *x)
{
    struct filter *f = parse_factor(x);
    while (f && take_word(x, "and")) f = join(NODE_AND, f, parse_factor(x));
    return f;
}

static struct filter *parse_or(struct parser *x)
{
    struct filter *f = parse_and(x);
    while (f && take_word(x, "or")) f = join(NODE_OR, f, parse_and(x));
    return f;
}

struct filter *filter_parse(const char *text, struct err *e)
{
    struct parser x = {text, text, 0, e};
    struct filter *f = parse_or(&x);
    blanks(&x);
    if (f && *x.p) {
        filter_free(f);
        return fail(&x, "'and', 'or' or the end is expected");
    }
    return f;
}

/* ---- evaluation -------------------------------------------------------------------------------------- */

static char *text_field(enum field field, const struct suite_case *c)
{
    switch (field) {
    case FIELD_name:
        return suite_case_name(c);
    case FIELD_file:
        return xstrdup(c->unit->name);
    case FIELD_node:
        return xstrdup(c->node);
    case FIELD_suite:
        return xstrdup(c->unit->suite);
    case FIELD_reason:
        return xstrdup(c->reason);
    case FIELD_side:
        return xstrdup(side_name(c->unit->side));
    default:
        break;
    }
    char *text = xstrdup(verdict_name(c->verdict));
    for (char *p = text; *p; p++)
        if (*p == ' ') *p = '_';
    return text;
}

static bool compare(double a, enum op op, double b)
{
    switch (op) {
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    case OP_LE:
        return a <= b;
    case OP_GT:
        return a > b;
    default:
        return a >= b;
    }
}

static bool test(const struct filter *f, const struct suite_case *c)
{
    if (fields[f->field].number) {
        double value = f->field == FIELD_ms         ? c->ms
                       : f->field == FIELD_launches ? (double)c->launches
                                                    : c->attempts;
        return compare(value, f->op, f->number);
    }
    char *text = text_field(f->field, c);
    bool yes = f->op == OP_EQ || f->op == OP_NE ? !fnmatch(f->value, text, 0) || !strcmp(f->value, text)
                                                : strstr(text, f->value) != NULL;
    free(text);
    return yes == (f->op == OP_EQ || f->op == OP_HAS);
}

bool filter_match(const struct filter *f, const struct suite_case *c)
{
    if (!f) return true;
    switch (f->kind) {
    case NODE_OR:
        return filter_match(f->left, c) || filter_match(f->right, c);
    case NODE_AND:
        return filter_match(f->left, c) && filter_match(f->right, c);
    case NODE_NOT:
        return !filter_match(f->left, c);
    default:
        return test(f, c);
    }
}
