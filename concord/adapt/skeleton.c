/* skeleton.c - an own test to begin with. */
#include "concord/adapt/skeleton.h"

#include <stdlib.h>
#include <string.h>

static char *words_of(const char *api)
{
    char *s = xstrdup(api);
    for (char *c = s; *c; c++)
        if (*c == '.') *c = '_';
    return s;
}

char *adapt_skeleton_name(const char *api)
{
    char *words = words_of(api), *name = xformat("test_%s.py", words);
    free(words);
    return name;
}

/* TestTorchFooBar */
static void add_class_name(const char *api, struct buf *out)
{
    bool start = true;
    for (const char *c = api; *c; c++) {
        bool letter = *c >= 'a' && *c <= 'z';
        if (*c != '.' && *c != '_') buf_addc(out, start && letter ? *c - 'a' + 'A' : *c);
        start = *c == '.' || *c == '_';
    }
}

void adapt_skeleton(const char *api, const struct adapt_options *o, struct buf *out)
{
    const char *leaf = strrchr(api, '.');
    leaf = leaf ? leaf + 1 : api;
    buf_adds(out, "import torch\nfrom torch.testing._internal.common_utils import run_tests, TestCase\n");
    if (o->import_lines)
        buf_adds(out, o->import_lines);
    else
        buf_addf(out, "import %s  # noqa: F401\n", o->import);
    buf_addf(out, "\ndevice_type = \"%s\"\n\n\nclass Test", o->device);
    add_class_name(api, out);
    buf_addf(out,
             "(TestCase):\n"
             "    \"\"\"No upstream test covers %s.\"\"\"\n\n"
             "    def setUp(self):\n"
             "        super().setUp()\n"
             "        torch.manual_seed(0)\n"
             "        self.cpu = torch.randn(4, 3)\n"
             "        self.device = self.cpu.detach().to(device_type)\n\n"
             "    def call(self, x):\n"
             "        \"\"\"Calls %s with x and returns its tensors.\"\"\"\n"
             "        self.fail(\"own test not written yet: call %s here\")\n\n"
             "    def test_%s_as_on_cpu(self):\n"
             "        expected = self.call(self.cpu)\n"
             "        actual = self.call(self.device)\n"
             "        self.assertEqual(actual.device.type, device_type)\n"
             "        self.assertEqual(actual.cpu(), expected)\n\n"
             "    def test_%s_backward_as_on_cpu(self):\n"
             "        inputs = [x.detach().requires_grad_() for x in (self.cpu, self.device)]\n"
             "        for x in inputs:\n"
             "            self.call(x).sum().backward()\n"
             "        self.assertEqual(inputs[1].grad.cpu(), inputs[0].grad)\n\n\n"
             "if __name__ == \"__main__\":\n"
             "    run_tests()\n",
             api, api, api, leaf, leaf);
}
