/* patches.c - which covering tests existing patches change already. */
#include "concord/patch/load.h"
#include "concord/patch/port.h"
#include "concord/scan/scan.h"

#include <stdlib.h>
#include <string.h>

static struct scan_file *file_of(struct scan_result *r, const char *prefix, const char *target)
{
    size_t n = strlen(prefix);
    if (!target || strncmp(target, prefix, n)) return NULL;
    for (size_t i = 0; i < r->files.len; i++)
        if (!strcmp(r->files.ptr[i].path, target + n)) return &r->files.ptr[i];
    return NULL;
}

static void mark_edit(struct scan_file *f, const struct port_edit *d, const char *patch)
{
    if (d->outcome != PORT_carried && d->outcome != PORT_adapted) return;
    uint32_t last = d->target + (d->removed ? d->removed - 1 : 0);
    for (size_t i = 0; i < f->tests.len; i++) {
        struct scan_test *t = &f->tests.ptr[i];
        if (!t->patch && d->target >= t->row && last <= t->end_row) t->patch = patch;
    }
}

static int mark_section(struct scan_file *f, const char *root, const struct patch *p,
                        const struct patch_file *section, const char *patch, struct err *e)
{
    struct buf text = BUF_INIT, post = BUF_INIT;
    struct port port = {0};
    char *full = path_join(root, f->path);
    int rc = file_read(full, &text, e);
    free(full);
    if (!rc) {
        port_section(p, section, (struct slice){NULL, 0}, slice_of(&text), &port, &post);
        for (size_t i = 0; i < port.edits.len; i++) mark_edit(f, &port.edits.ptr[i], patch);
        for (size_t i = 0; i < f->tests.len; i++) f->tests.ptr[i].file_patched = true;
        port_free(&port);
    }
    buf_free(&text);
    buf_free(&post);
    return rc;
}

int scan_patches(struct scan_result *r, const char *root, const char *prefix, const strings *patches,
                 struct err *e)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < patches->len; i++) {
        struct patch p = {0};
        rc = patch_load(patches->ptr[i], &p, e);
        for (size_t k = 0; !rc && k < p.files.len; k++) {
            struct scan_file *f = file_of(r, prefix, p.files.ptr[k].path);
            if (f && f->tests.len) rc = mark_section(f, root, &p, &p.files.ptr[k], patches->ptr[i], e);
        }
        patch_free(&p);
    }
    return rc;
}
