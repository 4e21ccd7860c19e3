/* device.c - a device's description in YAML. */
#include "concord/adapt/device.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    const char *path;
    yaml_document_t doc;
    struct err *e;
};

static int fault(const struct reader *r, const yaml_node_t *n, const char *text)
{
    return err_set(r->e, "%s:%zu:%zu: %s", r->path, n->start_mark.line + 1, n->start_mark.column + 1, text);
}

static const char *scalar(const yaml_node_t *n)
{
    return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static bool is_name(const char *s)
{
    if (!s || !*s || (*s >= '0' && *s <= '9')) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' ||
              *s == '.'))
            return false;
    return true;
}

static int read_name(const struct reader *r, const yaml_node_t *value, char **to)
{
    if (!is_name(scalar(value))) return fault(r, value, "expected a Python name");
    *to = xstrdup(scalar(value));
    return 0;
}

/* Every item is a name or, for lines, any text without a line break. */
static int read_list(struct reader *r, const yaml_node_t *value, bool lines, strings *to)
{
    if (value->type != YAML_SEQUENCE_NODE) return fault(r, value, "expected a list");
    for (yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++) {
        const yaml_node_t *item = yaml_document_get_node(&r->doc, *i);
        const char *text = scalar(item);
        if (!text || !*text || (lines ? strchr(text, '\n') != NULL : !is_name(text)))
            return fault(r, item, lines ? "expected one line of Python" : "expected a Python name");
        *vec_push(to) = xstrdup(text);
    }
    return 0;
}

static int read_import(struct reader *r, const yaml_node_t *value, char **to)
{
    strings lines = {0};
    struct buf b = BUF_INIT;
    int rc = read_list(r, value, true, &lines);
    for (size_t i = 0; i < lines.len; i++) buf_addf(&b, "%s\n", lines.ptr[i]);
    strings_free(&lines);
    *to = buf_take(&b);
    return rc;
}

static int read_pair(struct reader *r, const yaml_node_t *key, const yaml_node_t *value,
                     struct adapt_device *d)
{
    static const char *const keys[] = {"device", "module", "import", "guard", "functions"};
    const char *name = scalar(key);
    if (!name) return fault(r, key, "expected a key");
    if (!strcmp(name, "device")) return read_name(r, value, &d->device);
    if (!strcmp(name, "module")) return read_name(r, value, &d->module);
    if (!strcmp(name, "guard")) return read_name(r, value, &d->guard);
    if (!strcmp(name, "functions")) return read_list(r, value, false, &d->functions);
    if (!strcmp(name, "import")) return read_import(r, value, &d->import);
    const char *near = str_nearest(name, keys, sizeof keys / sizeof *keys);
    char *text = near ? xformat("unknown key '%s': did you mean '%s'?", name, near)
                      : xformat("unknown key '%s'", name);
    int rc = fault(r, key, text);
    free(text);
    return rc;
}

static int read_document(struct reader *r, struct adapt_device *d)
{
    const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    if (!root || root->type != YAML_MAPPING_NODE)
        return err_set(r->e, "%s: expected keys: device, module and, if wanted, import, guard, functions",
                       r->path);
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++)
        if (read_pair(r, yaml_document_get_node(&r->doc, p->key), yaml_document_get_node(&r->doc, p->value),
                      d))
            return -1;
    if (!d->device || !d->module) return err_set(r->e, "%s: device and module must be given", r->path);
    return 0;
}

int adapt_device_load(const char *path, struct adapt_device *d, struct err *e)
{
    struct reader r = {.path = path, .e = e};
    struct buf text = BUF_INIT;
    yaml_parser_t parser;
    *d = (struct adapt_device){0};
    if (file_read(path, &text, e)) return -1;
    if (!yaml_parser_initialize(&parser)) die("out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)buf_str(&text), text.len);
    int rc = 0;
    if (yaml_parser_load(&parser, &r.doc)) {
        rc = read_document(&r, d);
        yaml_document_delete(&r.doc);
    } else {
        rc = err_set(e, "%s:%zu:%zu: %s", path, parser.problem_mark.line + 1, parser.problem_mark.column + 1,
                     parser.problem ? parser.problem : "not YAML");
    }
    yaml_parser_delete(&parser);
    buf_free(&text);
    if (rc) adapt_device_free(d);
    return rc;
}

void adapt_device_use(const struct adapt_device *d, struct adapt_options *o)
{
    o->device = d->device;
    o->import = d->module;
    o->import_lines = d->import;
    if (d->guard) o->guard = d->guard;
    if (d->functions.len) o->functions = &d->functions;
}

void adapt_device_free(struct adapt_device *d)
{
    free(d->device);
    free(d->module);
    free(d->import);
    free(d->guard);
    strings_free(&d->functions);
    *d = (struct adapt_device){0};
}
