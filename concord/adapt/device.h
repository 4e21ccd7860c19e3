/* device.h - another device than the Ascend NPU, described in a YAML file.
 *
 *   device: foo              # its name in torch: device="foo", .foo(), torch.foo
 *   module: torch_foo        # what registers it when it is imported
 *   import:                  # the lines that go into a file; default: import MODULE
 *     - import torch_foo
 *   guard: onlyPRIVATEUSE1   # the decorator that takes onlyCUDA's place; default as here
 *   functions: [synchronize] # names of torch.cuda that torch.foo has too; default: the NPU's
 */
#ifndef CONCORD_ADAPT_DEVICE_H
#define CONCORD_ADAPT_DEVICE_H

#include "concord/adapt/adapt.h"

struct adapt_device {
    char *device, *module, *import, *guard;
    strings functions;
};
int adapt_device_load(const char *path, struct adapt_device *d, struct err *e);
/* Puts d into o; the strings stay d's. */
void adapt_device_use(const struct adapt_device *d, struct adapt_options *o);
void adapt_device_free(struct adapt_device *d);

#endif
